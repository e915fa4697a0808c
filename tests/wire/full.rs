//! What finds no room in the engine, and what is written beside it.

use crate::{
    frames::replies,
    support::{Client, Server, request},
};

/// Clients that write little, beside one that writes more than the map takes.
const SMALL: usize = 20;

/// The clients' writes share commits, so in some of the rounds those of the large one have others in them.
#[test]
fn a_write_without_room_fails_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--store", "lmdb", "--path", "data", "--map-size", "4MiB"];
    let server = Server::start(dir.path(), &args);
    let mut large = server.connect();
    let mut small: Vec<Client> = (0..SMALL).map(|_| server.connect()).collect();
    let huge = vec![b'x'; 8 << 20];
    let huge = [request(&[&b"SET"[..], b"huge", &huge]), request(&["GET", "huge"])].concat();
    for round in 0..20 {
        std::thread::scope(|scope| {
            scope.spawn(|| large.send(&huge));
            for (n, client) in small.iter_mut().enumerate() {
                // Each in several groups, of which one has the large write.
                let pipeline: Vec<u8> =
                    (0..50).flat_map(|i| request(&["INCR", &format!("{n}-{}", i % 5)])).collect();
                scope.spawn(move || pipeline.chunks(250).for_each(|part| client.send(part)));
            }
        });
        for client in &mut small {
            for (i, reply) in replies(client, 50).into_iter().enumerate() {
                let expected = format!(":{}\r\n", round * 10 + i / 5 + 1);
                assert_eq!(String::from_utf8_lossy(&reply), expected, "round {round}");
            }
        }
        let [set, get] = replies(&mut large, 2).try_into().unwrap();
        assert!(String::from_utf8_lossy(&set).contains("--map-size"), "{}", set.escape_ascii());
        assert_eq!(get, b"$-1\r\n");
    }
}
