//! What finds no room in the engine, and what is written beside it.

use crate::{
    frames::{ask, replies},
    support::{Client, Server, request, stores},
};
use kvbench::engine::Kind;
use std::sync::atomic::{AtomicBool, Ordering};

/// Clients that write little, beside one that writes more than the map takes.
const SMALL: usize = 20;

/// The clients' writes share commits, so in some of the rounds those of the large one have others in them.
#[test]
fn a_write_without_room_fails_nobody_elses() {
    for store in stores().filter(|store| Kind::find(store).unwrap().info.capabilities.map_size) {
        fails_nobody_elses(store);
    }
}

fn fails_nobody_elses(store: &str) {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--store", store, "--path", "data", "--map-size", "4MiB"];
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
                assert_eq!(String::from_utf8_lossy(&reply), expected, "{store}, round {round}");
            }
        }
        let [set, get] = replies(&mut large, 2).try_into().unwrap();
        assert!(String::from_utf8_lossy(&set).contains("--map-size"), "{store}: {}", set.escape_ascii());
        assert_eq!(get, b"$-1\r\n");
    }
}

/// A DEL of very many keys is several commits. One of them, tried again because of others, counts on.
#[test]
fn a_del_of_many_keys_counts_all_of_them_beside_writes_without_room() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--store", "lmdb", "--path", "data", "--map-size", "6MiB"]);
    let huge = request(&[&b"SET"[..], b"huge", &vec![b'x'; 6 << 20]]);
    let keys: Vec<String> = (0..20_000).map(|n| format!("key:{n}")).collect();
    let all = |command: &str, value: &[&str]| {
        let words = keys.iter().flat_map(|key| [&[key.as_str()], value].concat());
        request(&[command].into_iter().chain(words).collect::<Vec<_>>())
    };
    let (fill, delete) = (all("MSET", &["v"]), all("DEL", &[]));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.connect();
                while !done.load(Ordering::Relaxed) {
                    client.send(&huge);
                    assert!(replies(&mut client, 1)[0].starts_with(b"-"));
                }
            });
        }
        let mut client = server.connect();
        let counts: Vec<_> = (0..6)
            .map(|_| {
                client.send(&fill);
                assert_eq!(replies(&mut client, 1)[0], b"+OK\r\n");
                client.send(&delete);
                replies(&mut client, 1).remove(0)
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(counts.iter().all(|count| count == b":20000\r\n"), "{counts:?}");
        assert_eq!(ask(&mut client, &["DBSIZE"]), b":0\r\n");
    });
}
