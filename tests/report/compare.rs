//! `kvbench compare` by its table and exit code.

use crate::{fixtures, kvbench, text};
use kvbench::bench::result::{Operation, Outcome, Run};
use std::fs;

/// A run with one cell for each list of throughputs.
fn run(cells: &[(&str, &[f64])]) -> Run {
    let mut run = fixtures::run("compared", 3);
    for (row, figures) in cells {
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        let mut cell = fixtures::cell("compared", row, "lmdb", fixtures::target("lmdb", "no"), work);
        cell.id = (*row).to_owned();
        fixtures::add(&mut run, cell, figures);
    }
    run
}

/// Compares, and returns the exit code and the output.
fn compare(first: &Run, second: &Run, args: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    fixtures::save(first, &dir.path().join("a.json"));
    fixtures::save(second, &dir.path().join("b.json"));
    let output = kvbench(dir.path(), &[&["compare", "a.json", "b.json"], args].concat());
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

const CALM: &[f64] = &[1000.0, 1010.0, 990.0];

#[test]
fn a_loss_beyond_limit_and_noise_fails() {
    let slow: &[f64] = &[800.0, 810.0, 790.0];
    let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("x", slow)]), &["--fail-above", "10%"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("speed  0.800 (0.7") && output.contains("SLOWER"), "{output}");
    let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("x", slow)]), &[]);
    assert_eq!(code, Some(0), "no limit was given: {output}");
}

#[test]
fn a_loss_within_the_limit_or_the_noise_passes() {
    for figures in [&[950.0, 960.0, 940.0], &[700.0, 800.0, 1300.0]] {
        let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("x", figures)]), &["--fail-above", "10"]);
        assert_eq!(code, Some(0), "{output}");
    }
}

#[test]
fn a_gain_is_called_faster() {
    let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("x", &[2000.0; 3])]), &["--fail-above", "0%"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("faster") && output.contains("shorter"), "{output}");
}

#[test]
fn latency_alone_can_fail_it() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", CALM)]));
    for sample in &mut second.samples {
        if let Outcome::Measured(measurement) = &mut sample.outcome {
            measurement.latency.p99_us *= 3.0;
        }
    }
    let (code, output) = compare(&first, &second, &["--fail-above", "10%"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("same within noise") && output.contains("LONGER"), "{output}");
}

#[test]
fn two_repetitions_cannot_tell() {
    let (code, output) =
        compare(&run(&[("x", CALM)]), &run(&[("x", &[100.0, 110.0])]), &["--fail-above", "10%"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("cannot tell") && output.contains("fewer than 3 repetitions"), "{output}");
}

#[test]
fn cells_of_one_run_only_are_listed() {
    let (code, output) = compare(
        &run(&[("both", CALM), ("old", CALM)]),
        &run(&[("both", CALM), ("new", CALM)]),
        &["--fail-above", "10%"],
    );
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("only in the first run: old"), "{output}");
    assert!(output.contains("only in the second run: new"), "{output}");
}

#[test]
fn a_cell_that_fails_now_fails_it() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", CALM)]));
    second.samples[0].outcome = Outcome::Failed("disk full".to_owned());
    assert_eq!(compare(&first, &second, &["--fail-above", "10%"]).0, Some(1));
    assert_eq!(compare(&second, &first, &["--fail-above", "10%"]).0, Some(0));
    assert_eq!(compare(&first, &second, &[]).0, Some(0));
}

#[test]
fn what_a_store_cannot_do_is_no_failure() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", CALM)]));
    second.samples[0].outcome = Outcome::Unsupported("no such thing".to_owned());
    for (one, other) in [(&first, &second), (&second, &first), (&second, &second)] {
        let (code, output) = compare(one, other, &["--fail-above", "10%"]);
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains("n/a") && output.contains("0 cells compared"), "{output}");
    }
}

#[test]
fn other_work_under_the_same_id_is_not_compared() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", &[1.0; 3])]));
    second.cells[0].workload.keys += 1;
    let (code, output) = compare(&first, &second, &["--fail-above", "10%"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("other work under the same id"), "{output}");
}

#[test]
fn other_machines_are_warned_of() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", CALM)]));
    second.environment.cpu = None;
    let (_, output) = compare(&first, &second, &[]);
    assert!(output.contains("warning: The runs differ in processor."), "{output}");
}

#[test]
fn bad_input_has_its_own_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("torn.json"), "{").unwrap();
    for args in [
        &["compare", "torn.json", "missing.json"][..],
        &["compare", "torn.json", "torn.json", "--fail-above", "ten"],
        &["compare", "torn.json"],
    ] {
        let output = kvbench(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
}
