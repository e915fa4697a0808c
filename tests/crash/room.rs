//! Disks without room, for real: what fails is not acknowledged, what was acknowledged stays, and once there is
//! room again, or after a restart, all goes on.

use crate::{
    faults::{FILLED, args, everything_is_there, fill, key, ok, set_until_refused, still_answers, value},
    kill,
    support::{Client, KVBENCH, PATIENCE, RunToEnd, Server, disk::Disk, stores, stores_that},
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
            let mut refused = 0;
            for n in 0..200 {
                match client.call(&[b"SET", format!("more-{n}").as_bytes(), &value(n)]) {
                    reply if reply == ok() => {}
                    OwnedFrame::Error(text) => {
                        assert!(text.contains("is full"), "{text}");
                        refused += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            eprintln!("{store}: {refused} of 200 writes beside the rewrite found no room");
            ballast.remove();
            assert_eq!(client.call(&["SET", "room", "1"]), ok());
            assert!(server.terminate().success());
            let acknowledged: Vec<_> = (0..2000).collect();
            everything_is_there(disk.path(), store, Fsync::Always, &acknowledged);
            assert!(File::open(disk.path().join("data.rewrite")).is_err());
        }
    }
}

/// Clients fill the disk; then deletes succeed, merges free what they deleted, and values are taken again.
#[test]
fn bitcask_deletes_and_merges_on_a_full_disk() {
    let is_full = |reply: &OwnedFrame| matches!(reply, OwnedFrame::Error(text) if text.contains("is full"));
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
