//! Disks without room, for real: what fails is not acknowledged, what was acknowledged stays, and once there is
//! room again, or after a restart, all goes on.

use crate::{
    faults::{FILLED, args, everything_is_there, fill, key, ok, set_until_refused, still_answers, value},
    kill,
    support::{Client, KVBENCH, PATIENCE, RunToEnd, Server, disk::Disk, request, stores, stores_that},
};
use kvbench::engine::Fsync;
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A small cache, so that RocksDB comes to write tables.
fn start(dir: &Path, store: &str, fsync: Fsync, more: &[&str]) -> Server {
    let mut command = Command::new(KVBENCH);
    command.args(args(store, fsync)).args(["--cache-size", "4MiB"]).args(more);
    Server::start_command(command.current_dir(dir).stderr(Stdio::null()))
}

fn a_full_disk_costs_nothing_that_was_acknowledged(fsync: Fsync) {
    for store in stores() {
        for disk in Disk::all(64) {
            fill(disk.path(), store, fsync, 0..FILLED);
            // RocksDB moves three of its first tables before the disk is full.
            let ballast = disk.fill(10 << 20);
            let server = start(disk.path(), store, fsync, &[]);
            let mut acknowledged = set_until_refused(&server, store);
            let refuses = still_answers(&server, store, &acknowledged);
            ballast.remove();
            if !refuses {
                assert_eq!(server.connect().call(&["SET", "room", "1"]), ok(), "{store} {fsync}");
            }
            assert_eq!(server.terminate().success(), !refuses, "{store} {fsync}");
            if !kill::loses_nothing(store, fsync) {
                // Such a store may have kept them in the process, to write them later.
                acknowledged.truncate(FILLED);
            }
            everything_is_there(disk.path(), store, fsync, &acknowledged);
        }
    }
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged_under_always() {
    a_full_disk_costs_nothing_that_was_acknowledged(Fsync::Always);
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged_under_everysec() {
    a_full_disk_costs_nothing_that_was_acknowledged(Fsync::EverySec);
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged_under_no() {
    a_full_disk_costs_nothing_that_was_acknowledged(Fsync::No);
}

/// A map that is written to needs room for each of its pages.
#[test]
fn many_threads_read_on_a_full_disk() {
    for store in stores() {
        for disk in Disk::all(32) {
            fill(disk.path(), store, Fsync::Always, 0..1);
            let server = start(disk.path(), store, Fsync::Always, &["--threads", "200"]);
            disk.fill(0);
            let mut clients: Vec<Client> = (0..200).map(|_| server.connect()).collect();
            for client in &mut clients {
                assert_eq!(client.call(&["GET", &key(0)]), OwnedFrame::BulkString(value(0)), "{store}");
            }
        }
    }
}

#[test]
fn a_disk_that_is_read_only_is_named_in_one_line() {
    for store in stores() {
        let Some(disk) = Disk::tmpfs("64m") else { return };
        for filled in [false, true] {
            if filled {
                disk.remount("rw");
                fill(disk.path(), store, Fsync::Always, 0..1);
            }
            disk.remount("ro");
            let mut command = Command::new(KVBENCH);
            command.args(args(store, Fsync::Always)).args(["--port", "0", "--log-level", "error"]);
            let output = command.current_dir(disk.path()).run_to_end();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{store}: {text}");
            assert!(text.lines().count() == 1 && text.contains("data"), "{store}: {text}");
            assert!(text.contains("ead-only file system"), "{store}: {text}");
        }
        disk.remount("rw");
        everything_is_there(disk.path(), store, Fsync::Always, &[0]);
    }
}

/// A rewrite of the log needs room for a second one; without it, the first goes on.
#[test]
fn a_rewrite_without_room_harms_nothing() {
    for store in stores_that(|info| info.capabilities.rewrites_log) {
        for disk in Disk::all(64) {
            fill(disk.path(), store, Fsync::Always, 0..2000);
            let server = start(disk.path(), store, Fsync::Always, &[]);
            let ballast = disk.fill(1 << 20);
            let mut client = server.connect();
            let started = client.call(&["BGREWRITEAOF"]);
            assert!(matches!(started, OwnedFrame::SimpleString(_)), "{started:?}");
            // Until it has failed: its file takes the room.
            let more = |n: usize| format!("more-{n}").into_bytes();
            let mut kept = Vec::new();
            for n in 0..200 {
                match client.call(&[b"SET", &*more(n), &value(n)]) {
                    reply if reply == ok() => kept.push(n),
                    OwnedFrame::Error(text) => assert!(text.contains("is full"), "{text}"),
                    other => panic!("{other:?}"),
                }
            }
            eprintln!("{store}: {} of 200 writes beside the rewrite found room", kept.len());
            ballast.remove();
            assert_eq!(client.call(&["SET", "room", "1"]), ok());
            assert!(server.terminate().success());
            let acknowledged: Vec<_> = (0..2000).collect();
            everything_is_there(disk.path(), store, Fsync::Always, &acknowledged);
            assert!(File::open(disk.path().join("data.rewrite")).is_err());
            let server = start(disk.path(), store, Fsync::Always, &[]);
            let mut client = server.connect();
            for n in kept {
                let found = client.call(&[b"GET", &*more(n)]);
                assert_eq!(found, OwnedFrame::BulkString(value(n)), "{store}: more-{n} is lost");
            }
            assert!(server.terminate().success());
        }
    }
}

/// Clients fill the disk; then deletes succeed, merges free what they deleted, and values are taken again.
#[test]
fn bitcask_deletes_and_merges_on_a_full_disk() {
    for disk in Disk::all(64) {
        let server = start(disk.path(), "bitcask", Fsync::No, &[]);
        let mut client = server.connect();
        let large = vec![b'v'; 100_000];
        for round in 0..3 {
            let name = |n: usize| format!("large-{round}-{n}");
            let begin = Instant::now();
            let mut count = 0;
            loop {
                let reply = client.call(&[b"SET", name(count).as_bytes(), &large]);
                if reply == ok() {
                    count += 1;
                    assert!(count < 2000, "the disk is not full");
                    continue;
                }
                assert!(is_full(&reply), "{reply:?}");
                if count > 200 {
                    break;
                }
                // Merges still free what the round before has removed.
                assert!(begin.elapsed() < PATIENCE, "full after {count} values");
                thread::sleep(Duration::from_millis(10));
            }
            for n in (0..count).filter(|n| n % 3 > 0) {
                assert_eq!(client.call(&["DEL", &name(n)]), OwnedFrame::Integer(1), "round {round}, {n}");
            }
            // As soon as merges have freed enough.
            set_until_taken(&mut client, &large);
            for n in (0..count).step_by(3) {
                assert_eq!(
                    client.call(&["STRLEN", &name(n)]),
                    OwnedFrame::Integer(100_000),
                    "round {round}, {n}"
                );
            }
            let more = (count..).find(|&n| client.call(&[b"SET", name(n).as_bytes(), &large]) != ok());
            assert!(more > Some(count));
            assert_eq!(client.call(&["FLUSHALL"]), ok());
            set_until_taken(&mut client, &large);
            assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(1));
        }
        assert!(server.terminate().success());
        let checked = Command::new(KVBENCH).args(["check", "data"]).current_dir(disk.path()).run_to_end();
        assert!(checked.status.success(), "{checked:?}");
    }
}

/// A pipeline is not atomic: of its requests only those are refused for which there is no room.
#[test]
fn deletes_of_a_pipeline_free_a_full_store() {
    let Some(disk) = Disk::tmpfs("40m") else { return };
    let server = start(disk.path(), "bitcask", Fsync::No, &[]);
    let mut client = server.connect();
    let large = vec![b'v'; 100_000];
    let set = |key: usize| request(&[&b"SET"[..], key.to_string().as_bytes(), &large]);
    let mut count = 0;
    while client.call(&[&b"SET"[..], count.to_string().as_bytes(), &large]) == ok() {
        count += 1;
    }
    let pipeline = (0..10).flat_map(|key| [request(&["DEL", &key.to_string()]), set(count + key)].concat());
    client.send(pipeline.collect::<Vec<u8>>());
    for key in 0..10 {
        assert_eq!(client.reply(), OwnedFrame::Integer(1), "{key} of {count}");
        client.reply();
    }
    assert!(server.terminate().success());
}

/// LMDB reports a write of which only a part has space as an I/O error.
#[test]
#[cfg(feature = "lmdb")]
fn lmdb_takes_writes_again_after_a_value_that_has_space_for_a_part() {
    for disk in Disk::all(64) {
        let server = start(disk.path(), "lmdb", Fsync::No, &[]);
        let ballast = disk.fill(20 << 20);
        let mut client = server.connect();
        let large = vec![b'v'; 100_000];
        let mut count = 0;
        let refused = loop {
            match client.call(&[&b"SET"[..], count.to_string().as_bytes(), &large]) {
                reply if reply == ok() => count += 1,
                reply => break reply,
            }
        };
        assert!(is_full(&refused), "{refused:?}");
        assert_eq!(client.call(&["EXISTS", &count.to_string()]), OwnedFrame::Integer(0));
        ballast.remove();
        assert_eq!(client.call(&[&b"SET"[..], count.to_string().as_bytes(), &large]), ok());
        assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(count + 1));
        assert!(server.terminate().success());
    }
}

/// SQLite needs a longer index of its log when the whole commit is in the log: after a write that was refused for want of
/// its space, the writes go on, and a restart does not find it.
#[test]
#[cfg(feature = "sqlite")]
fn sqlite_refuses_a_commit_whose_index_has_no_space_as_a_whole() {
    let large = vec![b'v'; 17_000_000];
    let length_of_log = |disk: &Disk| disk.path().join("data/data.sqlite3-wal").metadata().unwrap().len();
    let begin = || {
        let disk = Disk::tmpfs("96m")?;
        let server = start(disk.path(), "sqlite", Fsync::No, &[]);
        assert_eq!(server.connect().call(&["SET", "small", "1"]), ok());
        Some((disk, server))
    };
    let set_large = |server: &Server| server.connect().call(&[&b"SET"[..], b"large", &large]);
    let exists = |server: &Server| server.connect().call(&["EXISTS", "large"]);
    let Some((roomy, server)) = begin() else { return };
    assert_eq!(set_large(&server), ok());
    let needed = length_of_log(&roomy);
    let Some((disk, server)) = begin() else { return };
    // Half of what the index then needs.
    let ballast = disk.fill(needed - length_of_log(&disk) + (16 << 10));
    let refused = set_large(&server);
    assert!(is_full(&refused), "{refused:?}");
    ballast.remove();
    assert_eq!(server.connect().call(&["SET", "small", "2"]), ok());
    assert_eq!(exists(&server), OwnedFrame::Integer(0));
    server.kill();
    let server = start(disk.path(), "sqlite", Fsync::No, &[]);
    assert_eq!(exists(&server), OwnedFrame::Integer(0));
    assert_eq!(set_large(&server), ok());
    assert!(server.terminate().success());
}

fn is_full(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Error(text) if text.contains("is full"))
}

/// Sets a key until there is space for its value.
fn set_until_taken(client: &mut Client, value: &[u8]) {
    let begin = Instant::now();
    loop {
        match client.call(&[&b"SET"[..], b"again", value]) {
            reply if reply == ok() => return,
            reply => assert!(begin.elapsed() < PATIENCE, "{reply:?}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}
