//! Few open files: clients in excess are refused, and the engine has all it needs.

use crate::support::{Client, KVBENCH, RunToEnd, Server, request, stores};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs::{self, File},
    io,
    path::Path,
    process::Command,
};

const CLIENTS: usize = 330;

/// A server with so many open files at most, and its log.
fn start(dir: &Path, limit: u64, store: &str, threads: &str) -> Server {
    start_within(dir, &format!("-n {limit}"), store, threads)
}

/// The same with the words of `ulimit`.
fn start_within(dir: &Path, limit: &str, store: &str, threads: &str) -> Server {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "bash", KVBENCH]);
    command.args(["--store", store, "--path", "data", "--threads", threads, "--cache-size", "4MiB"]);
    Server::start_command(command.current_dir(dir).stderr(File::create(dir.join("log")).unwrap()))
}

/// Those of so many new clients that are served; the others are told why they are not.
fn connect(server: &Server, count: usize) -> Vec<Client> {
    let clients = (0..count).map(|_| server.connect());
    clients.filter_map(|mut client| serves(&mut client).then_some(client)).collect()
}

fn serves(client: &mut Client) -> bool {
    // The connection of a refused client is closed, perhaps before this.
    let _ = io::Write::write_all(&mut client.stream, b"PING\r\n");
    match client.try_reply() {
        Ok(OwnedFrame::SimpleString(text)) => {
            assert_eq!(text, b"PONG");
            true
        }
        Ok(OwnedFrame::Error(text)) => {
            assert_eq!(text, "ERR max number of clients reached");
            false
        }
        Ok(other) => panic!("{other:?}"),
        // The kernel drops what was sent when the connection is closed with data unread.
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            false
        }
    }
}

#[test]
fn an_engine_has_its_files_beside_all_clients() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), 400, store, "32");
        let mut clients = connect(&server, CLIENTS);
        eprintln!("{store}: serves {} of {CLIENTS} clients", clients.len());
        assert!((90..CLIENTS).contains(&clients.len()), "{store}: {}", clients.len());
        // Values that sled keeps in files of their own, and of which RocksDB makes a table soon.
        let value: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(n) % 251) as u8).collect();
        let ok = OwnedFrame::SimpleString(b"OK".to_vec());
        for (n, client) in clients.iter_mut().enumerate() {
            let key = format!("key-{n}");
            assert_eq!(client.call(&[b"SET", key.as_bytes(), &value]), ok, "{store}");
        }
        // All at once, more than one each.
        for round in 0..3 {
            for (n, client) in clients.iter_mut().enumerate() {
                let key = format!("key-{}", (n * 7 + round) % 90);
                client.send([request(&["GET", &key]), request(&["INFO", "persistence"])].concat());
            }
            for client in &mut clients {
                assert_eq!(client.reply(), OwnedFrame::BulkString(value.clone()), "{store}");
                let OwnedFrame::BulkString(info) = client.reply() else { panic!("{store}: no INFO") };
                assert!(String::from_utf8(info).unwrap().contains("writes_refused:0"), "{store}");
            }
        }
        assert!(server.terminate().success(), "{store}");
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(!log.contains("oo many open files"), "{store}: {log}");
        assert!(log.contains("--maxclients") && log.contains("ulimit -n"), "{store}: {log}");
    }
}

/// A login sets the one limit low, and lets a process raise it to the other.
#[test]
fn a_low_soft_limit_is_raised_for_all_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = start_within(dir.path(), "-Hn 4096; ulimit -Sn 400", "map", "32");
    let clients = connect(&server, CLIENTS);
    assert_eq!(clients.len(), CLIENTS);
}

/// What RocksDB says of itself.
#[test]
#[cfg(feature = "rocksdb")]
fn rocksdb_keeps_tables_open_as_the_limit_allows() {
    for (limit, expected) in [(400, 96), (15_000, 15_000 - 48 - 4 - 10_000 - 32)] {
        let dir = tempfile::tempdir().unwrap();
        assert!(start(dir.path(), limit, "rocksdb", "1").terminate().success());
        let names = fs::read_dir(dir.path().join("data")).unwrap().map(|entry| entry.unwrap().path());
        let mut options = names.filter(|path| path.to_string_lossy().contains("OPTIONS-"));
        let options = fs::read_to_string(options.next().unwrap()).unwrap();
        assert!(options.contains(&format!("max_open_files={expected}\n")), "{limit}: {options}");
    }
}

#[test]
fn too_few_for_one_client_is_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let script = "ulimit -n 100; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", KVBENCH, "--threads", "32", "--path", "data", "--port", "0"]);
    let output = command.current_dir(dir.path()).run_to_end();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("ulimit -n") && text.contains("--threads") && text.contains("100"), "{text}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
