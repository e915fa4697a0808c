//! An engine that panics fails its own cells, and no others; no run waits forever.

use crate::{
    support::RunToEnd,
    support::bench::{command, read, stderr},
};
use kvbench::bench::result::{Outcome, Run};
use std::{fs, path::Path, process::Output};

/// Runs `panicking`, which panics at `call`, beside `map`.
fn run(dir: &Path, call: &str, arguments: &[&str]) -> (Output, Run) {
    let _absent = fs::remove_file(dir.join("result.json"));
    let arguments = [&["--stores", "panicking,map", "--keys", "500"], arguments].concat();
    let mut command = command(dir, &arguments);
    (command.env("KVBENCH_PANIC", call).run_to_end(), read(dir))
}

/// Checks that all cells of `panicking` have failed, and all others have not.
fn fails_its_own_cells(dir: &Path, call: &str, arguments: &[&str]) {
    let (output, run) = run(dir, call, arguments);
    assert!(!output.status.success(), "{call}: {arguments:?} succeeded");
    for cell in &run.cells {
        let samples: Vec<_> = run.samples.iter().filter(|sample| sample.cell == cell.id).collect();
        let [sample] = samples[..] else { panic!("{call}: {} samples of {}", samples.len(), cell.id) };
        let is_sound = match &sample.outcome {
            Outcome::Measured(measured) => measured.is_sound(),
            Outcome::Failed(_) => false,
            Outcome::Unsupported(_) => true,
        };
        let expected = cell.target.store != "panicking";
        assert_eq!(is_sound, expected, "{call}: {arguments:?}: {}: {:?}", cell.id, sample.outcome);
    }
    let complaints = stderr(&output);
    assert!(complaints.contains("panicked on purpose"), "{call}: {arguments:?}: {complaints}");
}

/// Calls that panic, each with the flags of a run that makes them.
const CALLS: &[(&str, &[&str])] = &[
    // Load.
    ("1:open:1", &["--operations", "500"]),
    ("1:write:1", &["--operations", "500"]),
    ("1:close:1", &["--operations", "500"]),
    // Warm-up.
    ("2:read:5", &["--operations", "500", "--warm-up", "0.2"]),
    // Measurement.
    ("2:open:1", &["--operations", "500"]),
    ("2:quiesce:1", &["--operations", "500"]),
    ("2:read:5", &["--operations", "500"]),
    ("2:write:5", &["--operations", "500", "--mix", "update=1"]),
    ("2:write:5", &["--operations", "500", "--mix", "read-modify-write=1", "--fsync", "always"]),
    ("2:quiesce:2", &["--operations", "500"]),
    ("2:count:1", &["--operations", "500"]),
    // Syncs.
    ("1:sync:1", &["--operations", "500"]),
    ("2:sync:1", &["--seconds", "2.2", "--mix", "update=1", "--fsync", "everysec", "--rate", "500"]),
    // Verification and reopening.
    ("2:close:1", &["--operations", "500"]),
    ("3:open:1", &["--operations", "500"]),
    ("3:read:1", &["--operations", "500", "--mix", "update=1"]),
    ("3:read:2", &["--operations", "500"]),
];

/// Runs each of [`CALLS`] with `flags` too.
fn fail_everywhere(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    for (call, own) in CALLS {
        fails_its_own_cells(dir.path(), call, &[own, flags].concat());
    }
}

#[test]
fn panic_anywhere_fails_its_own_cells_in_process() {
    fail_everywhere(&["--threads", "1"]);
    let dir = tempfile::tempdir().unwrap();
    fails_its_own_cells(dir.path(), "3:count:1", &["--operations", "500"]);
    fails_its_own_cells(dir.path(), "2:scan:5", &["--operations", "500", "--mix", "scan=1"]);
}

#[test]
fn panic_anywhere_fails_its_own_cells_in_process_with_three_threads() {
    fail_everywhere(&["--threads", "3"]);
}

#[test]
fn panic_anywhere_fails_its_own_cells_over_the_wire() {
    fail_everywhere(&["--wire", "--threads", "1"]);
}

#[test]
fn panic_anywhere_fails_its_own_cells_over_the_wire_with_three_clients() {
    fail_everywhere(&["--wire", "--threads", "3"]);
}

#[test]
fn panic_in_a_group_commit_fails_its_own_cells() {
    let dir = tempfile::tempdir().unwrap();
    for threads in ["1", "3"] {
        for fsync in ["no", "always"] {
            let flags = ["--mix", "update=1", "--operations", "500", "--commits", "groups"];
            let flags = [&flags[..], &["--threads", threads, "--fsync", fsync]].concat();
            fails_its_own_cells(dir.path(), "2:write:5", &flags);
        }
    }
}

/// Half an hour is not lost because the store cannot end.
#[test]
#[cfg(target_os = "linux")]
fn panic_after_a_soak_keeps_its_seconds() {
    let flags = ["--stores", "panicking", "--keys", "500", "--minutes", "0.1", "--rate", "300"];
    for (call, fault) in [
        ("2:quiesce:2", "settling: panic: quiesce panicked"),
        ("2:count:2", "count: panic: count panicked"),
        ("2:close:1", "panic: close panicked"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = command(dir.path(), &flags).env("KVBENCH_PANIC", call).run_to_end();
        let run = read(dir.path());
        assert!(!output.status.success(), "{call}: the panic was not noticed");
        let cell = run.cells.iter().find(|cell| cell.target.store == "panicking").unwrap();
        let sample = run.samples.iter().find(|sample| sample.cell == cell.id).unwrap();
        let Outcome::Measured(measured) = &sample.outcome else { panic!("{call}: {:?}", sample.outcome) };
        assert_eq!(measured.soak.as_ref().unwrap().seconds(), 6, "{call}");
        assert_eq!((measured.errors, measured.misses, measured.wrong_values), (1, 0, 0), "{call}");
        let first = measured.first_fault.as_deref().unwrap();
        assert!(first.starts_with(fault), "{call}: {first}");
        assert!(stderr(&output).contains(fault), "{call}: {}", stderr(&output));
    }
}

/// The cells of a suite share a store; each has a result of its own, whatever happened in the others.
#[test]
fn panic_in_a_suite_moves_no_result_to_another_cell() {
    let dir = tempfile::tempdir().unwrap();
    for threads in ["1", "3"] {
        let flags = ["--suite", "smallnest", "--seconds", "0.1", "--fsync", "no", "--threads", threads];
        // In the cells without a load, the second opening is the one for the verification.
        let (output, run) = run(dir.path(), "2:read:200", &flags);
        assert!(!output.status.success(), "the panic was not noticed");
        for cell in &run.cells {
            let of_cell: Vec<_> = run.samples.iter().filter(|sample| sample.cell == cell.id).collect();
            let [sample] = of_cell[..] else { panic!("{} samples of {}", of_cell.len(), cell.id) };
            let Outcome::Measured(measured) = &sample.outcome else { panic!("{:?}", sample.outcome) };
            let kinds: Vec<_> = measured.by_operation.keys().copied().collect();
            let expected: Vec<_> = cell.workload.kinds().collect();
            assert!(kinds.iter().all(|kind| expected.contains(kind)), "{}: {kinds:?}", cell.id);
            let panicked = cell.target.store == "panicking"
                && (["set", "get"].contains(&&*cell.row) || cell.row.starts_with("batch"));
            assert_eq!(measured.is_sound(), !panicked, "{}: {:?}", cell.id, measured.first_fault);
        }
    }
}
