//! Repairs of a log that are killed: nothing of it is lost, and the next repair makes it good.

use crate::{
    support::{KVBENCH, RunToEnd, Server},
    trace::strace,
};
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

/// The calls that change what is on disk.
const CALLS: [&str; 9] =
    ["openat", "write", "pwrite64", "copy_file_range", "ftruncate", "fsync", "fdatasync", "rename", "unlink"];

/// A log that is damaged after two thirds.
fn damaged() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--store", "map", "--path", "data"]);
    let mut client = server.connect();
    for key in 0..300 {
        client.call(&["SET", &format!("key:{key}"), &"v".repeat(key)]);
    }
    assert!(server.terminate().success());
    let mut bytes = fs::read(dir.path().join("data")).unwrap();
    let place = bytes.len() * 2 / 3;
    bytes[place] ^= 1;
    bytes
}

/// Repairs, and is killed before the `n`th such call.
fn repair_up_to(dir: &Path, call: &str, n: usize) -> ExitStatus {
    let [trace, inject] = [format!("trace={call}"), format!("inject={call}:signal=KILL:when={n}")];
    let mut command = strace();
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]);
    let command = command.arg(KVBENCH).args(["repair", "data"]).current_dir(dir).stdout(Stdio::null());
    command.status().unwrap()
}

/// Whether the log and what some repair has removed of it are together what there was.
fn has_all(dir: &Path, bytes: &[u8]) -> bool {
    let left = fs::read(dir.join("data")).unwrap();
    let removed = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut removed = removed.filter(|path| path.to_string_lossy().contains(".removed-"));
    left == bytes || removed.any(|path| [&left[..], &fs::read(path).unwrap()].concat() == bytes)
}

#[test]
fn a_repair_may_be_killed_at_any_moment() {
    let (bytes, mut kills) = (damaged(), 0);
    for call in CALLS {
        for n in 1.. {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("data"), &bytes).unwrap();
            let status = repair_up_to(dir.path(), call, n);
            if status.success() {
                break;
            }
            assert_eq!(status.signal(), Some(9), "{call} {n}: {status}");
            kills += 1;
            assert!(has_all(dir.path(), &bytes), "killed at {call} {n}");
            for words in [["repair", "data"], ["check", "data"]] {
                let mut command = Command::new(KVBENCH);
                let output = command.args(words).current_dir(dir.path()).run_to_end();
                assert!(output.status.success(), "killed at {call} {n}: {output:?}");
            }
            assert!(has_all(dir.path(), &bytes), "repaired after {call} {n}");
        }
    }
    assert!(kills > 5, "{kills} kills");
}
