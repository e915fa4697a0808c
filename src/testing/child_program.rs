//! What is tried with the program itself: in a test of yours its path is `env!("CARGO_BIN_EXE_name")`.

use std::{
    path::Path,
    process::{Command, Output},
};

/// `kill -9` of the server under load, on data of `store`: nothing may be missing that its
/// [`Info::loss`](crate::engine::Info::loss) keeps, under each policy.
///
/// # Panics
///
/// When something is. The message tells where the files are, and how to play it again.
pub fn kill(program: &Path, store: &str, rounds: u32) {
    torture(program, store, "kill", rounds);
}

/// The same with the power of the disk cut. Linux, with /dev/fuse, and root or `fusermount3`.
///
/// # Panics
///
/// As [`kill`].
pub fn power(program: &Path, store: &str, rounds: u32) {
    torture(program, store, "power", rounds);
}

fn torture(program: &Path, store: &str, mode: &str, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    let rounds = rounds.to_string();
    let args =
        ["torture", "--store", store, "--mode", mode, "--fsync", "always,everysec,no", "--rounds", &rounds];
    succeed(Command::new(program).current_dir(dir.path()).args(args));
}

/// A short benchmark of `store`, in process and through the server: every value that is read is compared as a
/// whole, and so are the numbers of keys.
///
/// # Panics
///
/// When a value is wrong or missing, or anything fails.
pub fn bench(program: &Path, store: &str) {
    let dir = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--wire"]] {
        let args = ["bench", "--suite", "ycsb", "--keys", "500", "--seconds", "0.1", "--repetitions", "1"];
        let mut command = Command::new(program);
        command.current_dir(dir.path()).args(args).args(["--stores", store, "--fsync", "always,no"]);
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
