//! First starts that are interrupted at any moment, or find no room: the next one works.

use crate::support::{KVBENCH, PATIENCE, Server, disk::Disk, request, stores};
#[cfg(target_os = "linux")]
use crate::trace::strace;
#[cfg(all(feature = "torture", target_os = "linux"))]
use kvbench::torture::{
    self,
    disk::{Cut, DiskImage},
};
#[cfg(all(feature = "torture", target_os = "linux"))]
use rand::{SeedableRng, rngs::SmallRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The calls that change what is on disk, and the one that tells that the start is over.
#[cfg(target_os = "linux")]
const CALLS: [&str; 11] = [
    "mkdir",
    "rename",
    "unlink",
    "rmdir",
    "ftruncate",
    "fallocate",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "sync_file_range",
];

/// Keys of the store whose start is killed.
#[cfg(target_os = "linux")]
const KEYS: usize = 1000;

fn args(store: &str) -> [&str; 4] {
    ["--store", store, "--path", "data"]
}

fn try_start(dir: &Path, store: &str) -> Result<Server, ExitStatus> {
    let mut command = Command::new(KVBENCH);
    Server::try_start_command(command.current_dir(dir).args(args(store)).stderr(Stdio::null()))
}

/// Starts the server and kills it before a thread makes a system call for the `n`th time. `false` when it
/// served before.
#[cfg(target_os = "linux")]
fn kill_at(dir: &Path, store: &str, call: &str, n: usize) -> bool {
    let [trace, inject] = [format!("trace={call}"), format!("inject={call}:signal=KILL:when={n}")];
    let mut command = strace();
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]);
    match Server::try_start_command(command.arg(KVBENCH).args(args(store)).current_dir(dir)) {
        Ok(server) => {
            server.kill();
            false
        }
        Err(status) => {
            assert_eq!(status.signal(), Some(9), "{store}: {status}");
            true
        }
    }
}

/// The next start serves, and what is written then is there after the one that follows.
fn expect_start(dir: &Path, store: &str, when: &str) {
    let start = || try_start(dir, store).unwrap_or_else(|status| panic!("{store}, {when}: {status}"));
    let server = start();
    let ok = OwnedFrame::SimpleString(b"OK".to_vec());
    assert_eq!(server.connect().call(&["SET", "key", "value"]), ok, "{store}, {when}");
    server.kill();
    let value = OwnedFrame::BulkString(b"value".to_vec());
    assert_eq!(start().connect().call(&["GET", "key"]), value, "{store}, {when}");
    let names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["data"], "{store}, {when}");
    assert!(!dir.join("data/kvbench-first-start").exists(), "{store}, {when}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_first_start_may_be_killed_at_any_moment() {
    for store in stores() {
        let mut killed = 0;
        for call in CALLS {
            for n in 1.. {
                let dir = tempfile::tempdir().unwrap();
                if !kill_at(dir.path(), store, call, n) {
                    break;
                }
                killed += 1;
                // The start that makes it good may be killed too; it removes few files.
                if n <= 4 {
                    kill_at(dir.path(), store, "unlink", n);
                }
                expect_start(dir.path(), store, &format!("killed at {call} {n}"));
            }
        }
        eprintln!("{store}: killed at {killed} system calls");
        assert!(killed >= 4, "{store}: killed {killed} times");
    }
}

/// Has a first start's calls fail, as on a bad disk: `n` is which of each thread. Tells whether the server served, or
/// `None` when there were not so many calls.
#[cfg(target_os = "linux")]
fn serves_though(dir: &Path, store: &str, call: &str, n: usize) -> Option<bool> {
    let scratch = tempfile::tempdir().unwrap();
    let output = scratch.path().join("strace.out");
    let [trace, inject] = [format!("trace={call}"), format!("inject={call}:error=EIO:when={n}")];
    let mut command = strace();
    command.args(["-D", "-f", "--seccomp-bpf", "-q", "-e", &trace, "-e", &inject, "-o"]).arg(&output);
    command.arg(KVBENCH).args(args(store)).current_dir(dir).stderr(Stdio::null());
    match Server::try_start_command(&mut command) {
        Err(status) => {
            assert_eq!(status.code(), Some(1), "{store}, {call} {n}: {status}");
            Some(false)
        }
        Ok(server) => {
            server.kill();
            let said = || fs::read_to_string(&output).unwrap();
            let deadline = Instant::now() + PATIENCE;
            while !said().contains("+++ killed by SIGKILL +++") {
                assert!(Instant::now() < deadline, "strace has not ended");
                thread::sleep(Duration::from_millis(2));
            }
            said().contains("(INJECTED)").then_some(true)
        }
    }
}

/// The start may do without the call; else it ends with an error. The next one works.
#[test]
#[cfg(target_os = "linux")]
fn a_first_start_on_a_disk_that_fails_is_made_good_by_the_next() {
    for store in stores() {
        let mut failed = 0;
        // By write it also says that it serves: without that line it could not be told when it does.
        for call in CALLS.into_iter().filter(|call| *call != "write") {
            for n in 1.. {
                let dir = tempfile::tempdir().unwrap();
                match serves_though(dir.path(), store, call, n) {
                    None => break,
                    Some(served) => failed += usize::from(!served),
                }
                expect_start(dir.path(), store, &format!("after {call} {n} failed"));
            }
        }
        eprintln!("{store}: {failed} starts failed");
        assert!(failed > 0, "{store}");
    }
}

/// What a start repairs after a kill, and writes for the next one, may be cut off anywhere too.
#[test]
#[cfg(target_os = "linux")]
fn a_start_after_a_kill_may_be_killed_at_any_moment() {
    for store in stores() {
        let killed = tempfile::tempdir().unwrap();
        let server = try_start(killed.path(), store).unwrap();
        let mut client = server.connect();
        for key in 0..KEYS {
            client.send(request(&["SET", &format!("key:{key}"), &key.to_string().repeat(key % 3000)]));
        }
        (0..KEYS).for_each(|_| client.expect("+OK\r\n"));
        server.kill();
        let mut kills = 0;
        for call in CALLS {
            // Each call of a long start would take too long; the first ones are the different ones.
            for n in (1..16).chain([24, 32, 48, 64]) {
                let dir = tempfile::tempdir().unwrap();
                copy(killed.path(), dir.path());
                if !kill_at(dir.path(), store, call, n) {
                    break;
                }
                kills += 1;
                let server = try_start(dir.path(), store)
                    .unwrap_or_else(|status| panic!("{store}, killed at {call} {n}: {status}"));
                let count = server.connect().call(&["DBSIZE"]);
                assert_eq!(count, OwnedFrame::Integer(KEYS as i64), "{store}, killed at {call} {n}");
            }
        }
        eprintln!("{store}: killed at {kills} system calls");
        assert!(kills > 0, "{store}");
    }
}

/// A first start that is killed, a second one that serves, and then the power is cut: what was acknowledged must be
/// there, though the name that was not synced was made by another process.
#[test]
#[cfg(all(feature = "torture", target_os = "linux"))]
fn a_first_start_that_was_killed_is_no_excuse_after_a_power_cut() {
    for store in stores() {
        let mut kills = 0;
        for call in ["mkdir", "unlink", "rename", "fsync", "fdatasync"] {
            for n in 1..8 {
                let dir = tempfile::tempdir().unwrap();
                let mount = dir.path().join("mount");
                let disk = torture::disk::Disk::mount(DiskImage::default(), &mount).unwrap();
                if !kill_at(&mount, store, call, n) {
                    break;
                }
                kills += 1;
                let ok = OwnedFrame::SimpleString(b"OK".to_vec());
                let server = try_start(&mount, store).unwrap();
                assert_eq!(server.connect().call(&["SET", "key", "value"]), ok, "{store}, {call} {n}");
                let left = disk.cut(Cut::Drop, &mut SmallRng::seed_from_u64(1));
                server.kill();
                drop(disk);
                left.export(&dir.path().join("left")).unwrap();
                let server = try_start(&dir.path().join("left"), store).unwrap();
                let value = server.connect().call(&["GET", "key"]);
                assert_eq!(value, OwnedFrame::BulkString(b"value".to_vec()), "{store}, {call} {n}");
            }
        }
        eprintln!("{store}: killed at {kills} system calls");
        assert!(kills > 0, "{store}");
    }
}

#[cfg(target_os = "linux")]
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-aT").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_first_start_without_room_is_made_good_by_one_with_room() {
    for store in stores() {
        let mut failed = 0;
        for pages in (1..16).chain([20, 32, 64, 80, 128, 256, 300]) {
            let Some(disk) = Disk::tmpfs(&format!("{}k", pages * 4)) else { return };
            match try_start(disk.path(), store) {
                Ok(server) => server.kill(),
                Err(status) => {
                    assert_eq!(status.code(), Some(1), "{store} with {pages} pages: {status}");
                    failed += 1;
                }
            }
            disk.remount("size=64m");
            expect_start(disk.path(), store, &format!("after {pages} pages"));
        }
        // An append-only file is empty at first.
        assert_eq!(failed > 0, !["map", "btree"].contains(&store), "{store}");
    }
}

#[test]
fn the_root_of_a_file_system_is_taken() {
    let Some(disk) = Disk::ext4(256) else { return };
    for store in ["bitcask", "rocksdb", "lmdb", "sled", "sqlite", "fjall", "mdbx", "canopydb"]
        .into_iter()
        .filter(|name| stores().any(|store| store == *name))
    {
        let path = disk.path().to_str().unwrap();
        let start = || Server::start(disk.path(), &["--store", store, "--path", path]);
        let server = start();
        let ok = OwnedFrame::SimpleString(b"OK".to_vec());
        assert_eq!(server.connect().call(&["SET", "key", store]), ok, "{store}");
        server.kill();
        let value = OwnedFrame::BulkString(store.as_bytes().to_vec());
        assert_eq!(start().connect().call(&["GET", "key"]), value);
        for entry in fs::read_dir(disk.path()).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true if entry.file_name() == "lost+found" => {}
                true => fs::remove_dir_all(entry.path()).unwrap(),
                false => fs::remove_file(entry.path()).unwrap(),
            }
        }
    }
}
