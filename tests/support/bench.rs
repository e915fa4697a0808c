//! `kvbench bench` as a process.

use super::{KVBENCH, Program, RunToEnd};
use kvbench::bench::result::{Measurement, Outcome, Run};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// A command line of `kvbench bench` with its files in `dir`.
pub fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(KVBENCH);
    command.current_dir(dir).arg("bench").args([
        "--output",
        "result.json",
        "--quiet-wait",
        "0",
        "--foreign",
        "100",
    ]);
    // Once, at once and unsynced, where a test does not say more: with a slow device, synced writes take minutes.
    for (flag, value, others) in [
        ("--repetitions", "1", &["--quick", "--full", "--interleave", "--detect", "--budget"][..]),
        ("--warm-up", "0", &["--quick", "--full"]),
        ("--fsync", "no", &["--may-lose", "--target"]),
    ] {
        if !arguments.iter().any(|given| *given == flag || others.contains(given)) {
            command.args([flag, value]);
        }
    }
    command.args(arguments);
    command
}

pub fn bench(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).run_to_end()
}

/// Starts a program that uses a CPU all the time, until dropped.
pub fn busy() -> Program {
    Program::start(Command::new("sh").args(["-c", "while :; do :; done"]))
}

/// Runs to the end, successfully, and returns the result.
pub fn result_of(dir: &Path, arguments: &[&str]) -> Run {
    let output = bench(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    read(dir)
}

pub fn read(dir: &Path) -> Run {
    serde_json::from_slice(&fs::read(dir.join("result.json")).unwrap()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The measurement of a sample that has one.
pub fn measurement(outcome: &Outcome) -> &Measurement {
    match outcome {
        Outcome::Measured(measurement) => measurement,
        Outcome::Failed(text) | Outcome::Unsupported(text) => panic!("{text}"),
    }
}
