//! `kvbench calibrate`: every column against a known truth. A test executable of its own, because Cargo runs one after the
//! other, and other tests would take the CPUs from the measurements.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

#[path = "../support/mod.rs"]
mod support;

use kvbench::{
    bench::{calibrate::columns, result::Calibration, run::instruction_counter},
    testing::engine_case::names,
};
use std::{collections::BTreeSet, env, fs, path::Path, process::Command};
use support::{
    KVBENCH, RunToEnd,
    bench::{command, read, stderr},
};

fn calibrate(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(KVBENCH);
    command.current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache")).arg("calibrate").args(arguments);
    command
}

/// `true` where CI has loop devices and control groups.
fn has_devices_and_groups() -> bool {
    ["KVBENCH_MUST_MOUNT", "KVBENCH_MUST_LIMIT"].iter().all(|name| env::var_os(name).is_some())
}

/// Section, workload and column of each figure in a document; only some machines have loop devices and control groups, and
/// those of instructions are left out, which only some processors count.
fn judged(text: &str) -> BTreeSet<[&str; 3]> {
    let mut figures = BTreeSet::new();
    for section in text.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap_or_default();
        for line in section.lines().filter(|line| line.starts_with("| ")) {
            let parts: Vec<_> = line.split('|').map(str::trim).collect();
            let needs_root = ["device writes", "device reads", "memory limit"].contains(&parts[1]);
            if parts[1] != "instructions" && (!needs_root || has_devices_and_groups()) {
                figures.insert([title, parts[1], parts[2]]);
            }
        }
    }
    figures
}

#[test]
fn every_column_shows_the_truth_in_process_and_over_the_wire() {
    let dir = tempfile::tempdir().unwrap();
    let stores = dir.path().join("kvbench-calibrate.tmp");
    fs::create_dir(&stores).unwrap();
    for left in ["kvbench-job-4194000.record", "kvbench-job-4194000.foreign"] {
        fs::write(stores.join(left), "of a stopped calibration").unwrap();
    }
    fs::write(stores.join("foreign"), "of the user").unwrap();
    let output = calibrate(dir.path(), &["--markdown", "page.md", "--all"]).run_to_end();
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{table}", stderr(&output));
    assert_eq!(names(&stores), ["foreign"]);
    assert_eq!(fs::read(stores.join("foreign")).unwrap(), b"of the user");
    let (in_process, over_wire) = table.split_once("\nover the wire\n").unwrap();
    let has = |text: &str, column: &str| text.contains(&format!(" {column} "));
    let in_process_only = |column: &str| {
        let kinds = ["insert ", "delete ", "scan ", "read-modify-write "];
        [
            "allocations",
            "allocated_bytes",
            "instructions",
            "written_bytes",
            "write_calls",
            "write_amplification",
            "recovery_seconds",
        ]
        .contains(&column)
            || column.starts_with("device_")
            || column.starts_with("soak ")
            || kinds.iter().any(|kind| column.starts_with(kind))
    };
    for (column, ..) in columns() {
        let is_optional = match column {
            "instructions" => instruction_counter::unavailable().is_some(),
            _ => column.starts_with("device_") && !has_devices_and_groups(),
        };
        assert!(has(in_process, column) || is_optional, "{column} in process\n{table}");
        assert!(has(over_wire, column) || in_process_only(column), "{column} over the wire\n{table}");
    }
    let last = table.trim_end().lines().last().unwrap();
    // On a busy machine some percentiles prove too little.
    let passed = ["This build measures correctly: all ", "No metric is wrong, but "];
    assert!(passed.iter().any(|start| last.starts_with(start)), "{table}");
    let page = fs::read_to_string(dir.path().join("page.md")).unwrap();
    assert!(page.contains("All are within their allowed ranges"));
    let document = include_str!("../../docs/calibration.md");
    let (here, there) = (judged(&page), judged(document));
    let other: Vec<_> = here.symmetric_difference(&there).collect();
    assert!(
        other.is_empty(),
        "make it again with `kvbench calibrate --markdown docs/calibration.md`: {other:?}"
    );

    // Results of this build name it, and those with another cache directory do not.
    let named = |cache: &str| {
        let flags = ["--stores", "map", "--operations", "100", "--keys", "100"];
        let mut bench = command(dir.path(), &flags);
        assert!(bench.env("XDG_CACHE_HOME", dir.path().join(cache)).run_to_end().status.success());
        let calibration = read(dir.path()).environment.calibration;
        fs::remove_file(dir.path().join("result.json")).unwrap();
        calibration
    };
    let found = named("cache").unwrap();
    assert!(found.passed && found.failed.is_empty() && found.figures > 100, "{found:?}");
    assert_eq!(named("none"), None);

    // One that cannot write its files says nothing of the program.
    let output = calibrate(dir.path(), &["--dir", "page.md/stores"]).run_to_end();
    assert!(!output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("page.md/stores: Not a directory"), "{}", stderr(&output));
    assert_eq!(named("cache").as_ref(), Some(&found));

    // Nor do those of another program with the same name.
    let place = fs::read_dir(dir.path().join("cache/kvbench")).unwrap().next().unwrap().unwrap().path();
    let other = Calibration { program: found.program ^ 1, ..found };
    fs::write(&place, serde_json::to_vec(&other).unwrap()).unwrap();
    assert_eq!(named("cache"), None);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_calibration() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "old").unwrap();
    for [flag, file, error] in [
        ["--output", ".", "Is a directory"],
        ["--output", "file/calibration.json", "File exists"],
        ["--markdown", ".", "Is a directory"],
        ["--markdown", "absent/page.md", "No such file"],
    ] {
        let output = calibrate(dir.path(), &[flag, file]).run_to_end();
        let text = stderr(&output);
        assert!(!output.status.success() && output.stdout.is_empty(), "{text}");
        assert!(text.starts_with(&format!("kvbench: {flag} {file}: cannot write the file: ")), "{text}");
        assert!(text.contains(error) && text.contains("; name another file"), "{text}");
        assert!(!dir.path().join("kvbench-calibrate.tmp").exists(), "{flag} {file}: a store was made");
    }
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"old");
}

#[test]
fn the_calibration_engine_is_on_no_board() {
    let dir = tempfile::tempdir().unwrap();
    let output = command(dir.path(), &["--stores", "calibration"]).run_to_end();
    assert!(stderr(&output).contains("--stores calibration"), "{}", stderr(&output));
    let help = Command::new(KVBENCH).args(["serve", "--help"]).run_to_end();
    assert!(!String::from_utf8_lossy(&help.stdout).contains("calibration"));
    let alone = Command::new(KVBENCH).current_dir(dir.path()).args(["--store", "calibration"]).run_to_end();
    assert!(!alone.status.success() && stderr(&alone).contains("the truth"), "{}", stderr(&alone));
}
