//! Tests that start a kvbench program as a child process. In a test of your own its path is
//! `env!("CARGO_BIN_EXE_name")`.

use std::{
    path::Path,
    process::{Command, Output},
};

/// Crash-tests a server of `store` with kills under load, under each fsync policy. No write may be lost beyond
/// [`Info::loss`](crate::engine::Info::loss). Needs Linux, because other systems have no `kvbench torture`.
///
/// # Panics
///
/// If a write is lost. The message has the output of `kvbench torture`, with the directory of the round, which remains,
/// and with the command that repeats the round.
pub fn kill(program: &Path, store: &str, rounds: u32) {
    torture(program, store, "kill", rounds);
}

/// Crash-tests a server of `store` with power cuts under load, as [`kill`] does with kills. Needs Linux with
/// /dev/fuse, and root or `fusermount3`.
///
/// # Panics
///
/// See [`kill`].
pub fn power(program: &Path, store: &str, rounds: u32) {
    torture(program, store, "power", rounds);
}

fn torture(program: &Path, store: &str, mode: &str, rounds: u32) {
    // Kept unless all rounds pass: it has the files of the failed round.
    let dir = tempfile::tempdir().unwrap().keep();
    let rounds = rounds.to_string();
    let args =
        ["torture", "--store", store, "--mode", mode, "--fsync", "always,everysec,no", "--rounds", &rounds];
    succeed(Command::new(program).current_dir(&dir).args(args));
    std::fs::remove_dir_all(dir).unwrap();
}

/// Runs a short benchmark of `store`, in process and through the server, which compares every value read as a
/// whole, and the numbers of keys.
///
/// # Panics
///
/// If a value is wrong or missing, or the benchmark fails.
pub fn bench(program: &Path, store: &str) {
    let dir = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--wire"]] {
        let args = ["bench", "--suite", "ycsb", "--keys", "500", "--seconds", "0.1", "--repetitions", "1"];
        let mut command = Command::new(program);
        command.current_dir(dir.path()).args(args).args(["--stores", store, "--fsync", "always,no"]);
        // The test has to end on a busy machine too.
        command.args(["--quiet-wait", "0", "--foreign", "100"]);
        succeed(command.args(["--output", "result.json"]).args(more));
        assert!(dir.path().join("result.json").is_file());
        std::fs::remove_file(dir.path().join("result.json")).unwrap();
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{complained}", output.status);
    output
}
