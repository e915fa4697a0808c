//! A write that failed is never acknowledged, and nothing that was acknowledged suffers from it.

#[cfg(target_os = "linux")]
use crate::{injected::Injected, support::PATIENCE};
use crate::{
    kill,
    support::{Client, KVBENCH, Server, request, stores},
};
use kvbench::engine::Fsync;
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};
#[cfg(target_os = "linux")]
use std::{
    thread,
    time::{Duration, Instant},
};

const VALUE: usize = 4000;

/// Keys that are there before anything fails.
pub const FILLED: usize = 200;

/// More than the limit on files lets through.
const TOO_MANY: usize = 20_000;

#[test]
fn a_full_disk_gets_error_replies_and_loses_nothing_on_any_store() {
    for store in stores() {
        for fsync in Fsync::ALL {
            let dir = tempfile::tempdir().unwrap();
            fill(dir.path(), store, fsync, 0..FILLED);
            let limit = largest(&dir.path().join("data")) / 1024 + 512;
            let server = start_limited(dir.path(), store, fsync, limit);
            let mut acknowledged = set_until_refused(&server, store);
            let refuses = still_answers(&server, store, &acknowledged);
            // A server that had to stop writing says so to whoever waits for it.
            assert_eq!(server.terminate().success(), !refuses, "{store} {fsync}");
            if !kill::loses_nothing(store, fsync) {
                // Such a store may have kept them in the process, to write them later.
                acknowledged.truncate(FILLED);
            }
            everything_is_there(dir.path(), store, fsync, &acknowledged);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn after_a_failed_sync_writes_are_refused_until_a_restart() {
    for store in stores() {
        for fsync in [Fsync::Always, Fsync::EverySec] {
            let dir = tempfile::tempdir().unwrap();
            fill(dir.path(), store, fsync, 0..1);
            let mut failing = Injected::start(dir.path(), &args(store, fsync));
            let mut client = failing.server.connect();
            failing.begin("-e trace=fsync,fdatasync -e inject=fsync,fdatasync:error=EIO:when=1");
            wait_for_misconf(&mut client, store, fsync);
            // The disk is well again, but what the failed sync dropped will not come back.
            thread::sleep(Duration::from_millis(100));
            let again = client.call(&["SET", "after", "1"]);
            assert!(is_misconf(&again), "{store} {fsync}: {again:?}");
            read_right(&mut client, store, &[0]);
            client.send("SHUTDOWN\r\n");
            failing.server.wait();
            everything_is_there(dir.path(), store, fsync, &[0]);
            let server = start(dir.path(), store, fsync);
            assert_eq!(server.connect().call(&["EXISTS", "after"]), OwnedFrame::Integer(0), "{store}");
        }
    }
}

/// The kernel reports it once, to whichever sync comes first: the next one succeeds.
#[test]
#[cfg(target_os = "linux")]
fn after_debug_settle_has_failed_writes_are_refused() {
    // The others do more than a sync there.
    for store in stores().filter(|store| ["lmdb", "mdbx", "sled"].contains(store)) {
        let dir = tempfile::tempdir().unwrap();
        let failing = Injected::start(dir.path(), &args(store, Fsync::No));
        let mut client = failing.server.connect();
        assert_eq!(client.call(&["SET", "key", "1"]), OwnedFrame::SimpleString("OK".into()));
        failing.begin("-e trace=fsync,fdatasync,msync -e inject=fsync,fdatasync,msync:error=EIO:when=1");
        let failed = client.call(&["DEBUG", "SETTLE"]);
        assert!(is_error(&failed), "{store}: {failed:?}");
        // The engine refuses the first of them, and then the store all others.
        let refused = client.call(&["SET", "key", "2"]);
        assert!(is_error(&refused), "{store}: {refused:?}");
        let refused = client.call(&["SET", "key", "3"]);
        assert!(is_misconf(&refused), "{store}: {refused:?}");
    }
}

/// Quotas, and devices that break: a write of the store's files fails, with the error of each.
#[test]
#[cfg(target_os = "linux")]
fn a_write_that_fails_is_not_acknowledged_whatever_the_error() {
    for store in stores() {
        for error in ["EDQUOT", "EIO", "EROFS", "ENOSPC"] {
            let dir = tempfile::tempdir().unwrap();
            fill(dir.path(), store, Fsync::Always, 0..20);
            let failing = Injected::start(dir.path(), &args(store, Fsync::Always));
            failing.begin(&failing_writes(&failing.server, dir.path(), error));
            let mut client = failing.server.connect();
            for _ in 0..3 {
                let reply = client.call(&["SET", "failed", "1"]);
                assert!(is_error(&reply), "{store} {error}: {reply:?}");
            }
            read_right(&mut client, store, &(0..20).collect::<Vec<_>>());
            client.send("SHUTDOWN\r\n");
            let mut failing = failing;
            failing.server.wait();
            everything_is_there(dir.path(), store, Fsync::Always, &(0..20).collect::<Vec<_>>());
        }
    }
}

/// Fails the writes at a place, and those to the logs that RocksDB and fjall append to: others of the same kind
/// wake threads.
#[cfg(target_os = "linux")]
fn failing_writes(server: &Server, dir: &Path, error: &str) -> String {
    let pid = server.start_line.split_once("pid=").unwrap().1.trim().to_owned();
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    let logs: Vec<_> =
        files.filter(|path| path.starts_with(dir.canonicalize().unwrap().join("data"))).collect();
    match logs
        .iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "log" || extension == "jnl"))
    {
        Some(log) => format!("-P {} -e trace=write -e inject=write:error={error}", log.display()),
        None => format!("-e trace=pwrite64,pwritev -e inject=pwrite64,pwritev:error={error}"),
    }
}

pub fn args(store: &str, fsync: Fsync) -> [&str; 6] {
    ["--store", store, "--path", "data", "--fsync", fsync.as_str()]
}

fn start(dir: &Path, store: &str, fsync: Fsync) -> Server {
    Server::start(dir, &args(store, fsync))
}

/// A server whose files cannot grow beyond `limit` KiB: the write fails as it does on a full disk, only with
/// another error number, and with a signal.
fn start_limited(dir: &Path, store: &str, fsync: Fsync, limit: u64) -> Server {
    let script = format!("ulimit -f {limit}; exec \"$@\"");
    let mut command = Command::new("bash");
    command.current_dir(dir).args(["-c", &script, "bash", KVBENCH]);
    Server::start_command(command.args(args(store, fsync)).stderr(Stdio::null()))
}

pub fn key(n: usize) -> String {
    format!("key-{n:06}")
}

/// Says which key it belongs to, all along.
pub fn value(n: usize) -> Vec<u8> {
    key(n).into_bytes().into_iter().cycle().take(VALUE).collect()
}

pub fn ok() -> OwnedFrame {
    OwnedFrame::SimpleString(b"OK".to_vec())
}

fn is_error(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Error(text) if text.starts_with("ERR ") || text.starts_with("MISCONF "))
}

fn is_misconf(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Error(text) if text.starts_with("MISCONF "))
}

pub fn fill(dir: &Path, store: &str, fsync: Fsync, keys: std::ops::Range<usize>) {
    let server = start(dir, store, fsync);
    let mut client = server.connect();
    for n in keys {
        assert_eq!(client.call(&[b"SET", key(n).as_bytes(), &value(n)]), ok());
    }
    assert!(server.terminate().success());
}

/// The length of the largest file.
fn largest(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| largest(&entry.unwrap().path())).max().unwrap_or(0),
        Err(_) => fs::metadata(path).map_or(0, |metadata| metadata.len()),
    }
}

/// Sets further keys, eight requests at a time, until an error; tells which keys are acknowledged.
pub fn set_until_refused(server: &Server, store: &str) -> Vec<usize> {
    let mut client = server.connect();
    let mut acknowledged: Vec<usize> = (0..FILLED).collect();
    for first in (FILLED..TOO_MANY).step_by(8) {
        for n in first..first + 8 {
            client.send(request(&[b"SET", key(n).as_bytes(), &value(n)]));
        }
        let mut refused = false;
        for n in first..first + 8 {
            match client.reply() {
                reply if reply == ok() => acknowledged.push(n),
                reply if is_error(&reply) => refused = true,
                reply => panic!("{store}: {reply:?}"),
            }
        }
        if refused {
            eprintln!("{store}: full after {} keys", acknowledged.len());
            return acknowledged;
        }
    }
    panic!("{store}: no write failed");
}

/// The server lives, takes no more, and says nothing wrong about what it has. Returns whether it
/// refuses all writes from now on, or only those there is no room for.
pub fn still_answers(server: &Server, store: &str, acknowledged: &[usize]) -> bool {
    let mut client = server.connect();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    let more = [b'm'; 1 << 20];
    let replies = [(); 3].map(|()| client.call(&[b"SET", &b"more"[..], &more]));
    assert!(replies.iter().all(is_error), "{store}: {replies:?}");
    read_right(&mut client, store, acknowledged);
    replies.iter().any(is_misconf)
}

/// After an error of the disk an engine may read no more, but then it must not say "not there".
fn read_right(client: &mut Client, store: &str, numbers: &[usize]) {
    read_all(client, numbers, |n, read| {
        let right = matches!(&read, OwnedFrame::BulkString(found) if *found == value(n));
        assert!(right || is_error(&read), "{store}: {}: {read:?}", key(n));
    });
}

/// Reads keys, with some requests under way at a time, and passes each reply on.
fn read_all(client: &mut Client, numbers: &[usize], mut reply: impl FnMut(usize, OwnedFrame)) {
    for some in numbers.chunks(16) {
        client.send(some.iter().flat_map(|n| request(&["GET", &key(*n)])).collect::<Vec<_>>());
        some.iter().for_each(|n| reply(*n, client.reply()));
    }
}

/// A restart finds all keys that were acknowledged, others whole or not at all, and writes again.
pub fn everything_is_there(dir: &Path, store: &str, fsync: Fsync, acknowledged: &[usize]) {
    let server = start(dir, store, fsync);
    let mut client = server.connect();
    let end = acknowledged.last().unwrap() + 16;
    read_all(&mut client, &(0..end).collect::<Vec<_>>(), |n, reply| match reply {
        OwnedFrame::BulkString(found) => assert!(found == value(n), "{store} {fsync}: {}", key(n)),
        OwnedFrame::Null => assert!(!acknowledged.contains(&n), "{store} {fsync}: {} is lost", key(n)),
        other => panic!("{store} {fsync}: {}: {other:?}", key(n)),
    });
    assert_eq!(client.call(&["SET", "again", "1"]), ok(), "{store} {fsync}");
    assert!(server.terminate().success());
}

/// Writes until the store refuses to, which under `everysec` begins when the timer has failed.
#[cfg(target_os = "linux")]
pub fn wait_for_misconf(client: &mut Client, store: &str, fsync: Fsync) {
    let deadline = Instant::now() + PATIENCE;
    for n in 0.. {
        // MDBX writes a page or two through to the disk, without a sync.
        let reply = client.call(&["SET", "trigger", &format!("{n:040000}")]);
        if is_misconf(&reply) {
            return;
        }
        assert!(is_error(&reply) || fsync != Fsync::Always, "{store}: {reply:?}, though the sync failed");
        assert!(Instant::now() < deadline, "{store} {fsync}: writes go on after a failed sync");
        thread::sleep(Duration::from_millis(20));
    }
}
