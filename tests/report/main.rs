//! `kvbench report` and `kvbench compare`, over runs that were made up.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

mod compare;
mod explanations;
mod export;
mod fixtures;
mod matrix;
mod noise;
mod page;
mod ranking;
mod rates;
mod readme;
mod render;

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs the program in `dir`.
fn kvbench(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kvbench")).current_dir(dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Makes a report of runs in an own directory, and returns the directory and one file of it.
fn report(runs: &[kvbench::bench::result::Run], file: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    for (number, run) in runs.iter().enumerate() {
        fixtures::save(run, &dir.path().join(format!("run-{number}.json")));
    }
    let output = kvbench(dir.path(), &["report", ".", "--output", "out"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let content = std::fs::read_to_string(dir.path().join("out").join(file)).unwrap();
    (dir, content)
}
