//! `kvbench compare` by its table and exit code.

use crate::{fixtures, kvbench, ranking, text};
use kvbench::{
    bench::result::{
        Disturbance, Figure, Loses, Operation, Outcome, Run, Target, interleaved_comparison::Comparison,
    },
    engine::{Compression, LossClass},
};
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

/// A single store may have lost a fifth because the machine did, as may all stores together: nothing else tells.
#[test]
fn a_loss_beyond_limit_and_noise_fails() {
    let slow: &[f64] = &[500.0, 510.0, 490.0];
    let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("x", slow)]), &["--fail-above", "10%"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("speed  0.500 (0.") && output.contains("SLOWER"), "{output}");
    let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("x", slow)]), &[]);
    assert_eq!(code, Some(0), "no limit was given: {output}");
}

#[test]
fn a_loss_within_the_limit_passes() {
    let (code, output) =
        compare(&run(&[("x", CALM)]), &run(&[("x", &[950.0, 960.0, 940.0])]), &["--fail-above", "60"]);
    assert_eq!(code, Some(0), "{output}");
}

/// A gate that could not have seen a loss of the limit's size has found nothing out.
#[test]
fn a_limit_below_what_can_be_detected_is_not_kept() {
    let noisy: &[f64] = &[700.0, 800.0, 1300.0];
    for (limit, passes) in [("10%", false), ("99%", true)] {
        let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("x", noisy)]), &["--fail-above", limit]);
        assert_eq!(code, Some(if passes { 0 } else { 2 }), "{limit}: {output}");
        assert_eq!(output.contains("cannot tell whether the limit of 10% is kept:"), !passes, "{output}");
    }
    let (code, _) = compare(&run(&[("x", CALM)]), &run(&[("x", noisy)]), &[]);
    assert_eq!(code, Some(0), "no limit was given");
}

#[test]
fn a_limit_is_shown_as_it_was_given() {
    let noisy: &[f64] = &[700.0, 800.0, 1300.0];
    for limit in ["7%", "2.5%"] {
        let (_, output) = compare(&run(&[("x", CALM)]), &run(&[("x", noisy)]), &["--fail-above", limit]);
        assert!(output.contains(&format!(" worse by more than {limit}, beyond the noise")), "{output}");
        assert!(output.contains(&format!("cannot tell whether the limit of {limit} is kept:")), "{output}");
    }
}

/// Four stores that are steady say nothing of a fifth, neither of its speed nor, at a rate, of its latency.
#[test]
fn a_store_that_is_noisier_than_the_others_keeps_no_limit() {
    let noisy = [[1000.0, 1500.0, 600.0, 1400.0, 700.0], [500.0, 900.0, 300.0, 800.0, 450.0]];
    let of = |which: usize, rate: Option<f64>| {
        let mut run = fixtures::run("compared", 5);
        for store in ["btree", "lmdb", "map", "redb", "rocksdb"] {
            let mut work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
            work.rate = rate;
            let cell = fixtures::cell("compared", "get", store, fixtures::target(store, "no"), work);
            let steady = [1000.0, 1001.0, 999.0, 1002.0, 998.0];
            fixtures::add(&mut run, cell, if store == "rocksdb" { &noisy[which] } else { &steady });
        }
        run
    };
    let limit = ["--fail-above", "10%"];
    for (rate, words) in [(None, "of rocksdb only losses of "), (Some(100.0), "p99 of rocksdb")] {
        let (code, output) = compare(&of(0, rate), &of(1, rate), &limit);
        assert_eq!(code, Some(2), "{output}");
        assert!(output.contains(words) && !output.contains("lmdb"), "{output}");
        if rate.is_none() {
            assert_eq!(compare(&of(0, rate), &of(0, rate), &["--fail-above", "90%"]).0, Some(0));
        }
        // A run without any difference hides a loss as well.
        let (code, output) = compare(&of(0, rate), &of(0, rate), &limit);
        let words =
            if rate.is_some() { "of rocksdb's p99 only losses of " } else { "of rocksdb only losses of " };
        assert!(code == Some(2) && output.contains(words), "{code:?}: {output}");
    }
}

/// The machine may have been in another state, so a limit is not kept while all stores are slower than it allows.
#[test]
fn a_loss_of_all_stores_keeps_no_limit() {
    let all = |speed: f64| {
        let mut run = fixtures::run("compared", 5);
        for store in ["btree", "lmdb", "map", "redb", "rocksdb"] {
            let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
            let cell = fixtures::cell("compared", "get", store, fixtures::target(store, "no"), work);
            fixtures::add(&mut run, cell, &[1000.0, 1001.0, 999.0, 1002.0, 998.0].map(|value| value * speed));
        }
        run
    };
    let limit = ["--fail-above", "10%"];
    assert_eq!(compare(&all(1.0), &all(1.0), &limit).0, Some(0));
    assert_eq!(compare(&all(1.0), &all(1.1), &limit).0, Some(0), "a gain");
    let (code, output) = compare(&all(1.0), &all(0.8), &limit);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("speed of all stores"), "{output}");
    let (code, output) = compare(&all(1.0), &all(0.3), &limit);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("all stores") && output.contains("SLOWER"), "{output}");
}

#[test]
fn a_gain_is_called_faster() {
    let (code, output) =
        compare(&run(&[("x", CALM)]), &run(&[("x", &[4000.0; 3])]), &["--fail-above", "50%"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("faster") && output.contains("shorter"), "{output}");
}

/// A cell is judged by what it lost beyond all others, and shows that ratio.
#[test]
fn the_ratio_of_a_cell_is_that_of_its_verdict() {
    let stores = ["btree", "lmdb", "map", "redb", "rocksdb"];
    let with = |speed: &dyn Fn(&str) -> f64| {
        let mut run = fixtures::run("compared", 5);
        for store in stores {
            let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
            let cell = fixtures::cell("compared", "get", store, fixtures::target(store, "no"), work);
            let figures = [1000.0, 1001.0, 999.0, 1002.0, 998.0].map(|value| value * speed(store));
            fixtures::add(&mut run, cell, &figures);
        }
        run
    };
    let faster = |store: &str| if store == "redb" { 1.0 } else { 1.25 };
    let (_, output) = compare(&with(&|_| 1.0), &with(&faster), &["--all"]);
    let cells = output.split("\nCells, ").nth(1).unwrap();
    let line = cells.lines().find(|line| line.contains("redb") && line.contains("speed")).unwrap();
    assert!(line.contains(" 0.800 "), "{output}");
}

#[test]
fn latency_alone_can_fail_it() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", CALM)]));
    for sample in &mut second.samples {
        if let Outcome::Measured(measurement) = &mut sample.outcome {
            measurement.latency.p99_us *= 3.0;
        }
    }
    let (code, output) = compare(&first, &second, &["--fail-above", "10%", "--all"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("cannot tell") && output.contains("LONGER"), "{output}");
}

/// Of one store alone. Without a limit the margin is 3%, which is less than two runs of one build may differ by.
#[test]
fn equality_is_shown_within_the_limit() {
    let one = run(&[("x", CALM), ("y", CALM)]);
    let (_, output) = compare(&one, &one, &["--all", "--fail-above", "80%"]);
    assert!(output.contains("equal within 80%"), "{output}");
    let (_, output) = compare(&one, &one, &["--all"]);
    assert!(!output.contains("equal within") && output.contains("cannot tell"), "{output}");
}

#[test]
fn two_repetitions_cannot_tell() {
    let (code, output) =
        compare(&run(&[("x", CALM)]), &run(&[("x", &[100.0, 110.0])]), &["--fail-above", "10%"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("cannot tell") && output.contains("fewer than 3 repetitions"), "{output}");
}

#[test]
fn cells_of_one_run_only_are_listed() {
    let limit = ["--fail-above", "50%"];
    let (code, output) =
        compare(&run(&[("both", CALM), ("old", CALM)]), &run(&[("both", CALM), ("new", CALM)]), &limit);
    assert_eq!(code, Some(2), "nobody knows what became of the old one: {output}");
    assert!(output.contains("only in the first run: old"), "{output}");
    assert!(output.contains("only in the second run: new"), "{output}");
    let (code, output) = compare(&run(&[("both", CALM)]), &run(&[("both", CALM), ("new", CALM)]), &limit);
    assert_eq!(code, Some(0), "{output}");
}

/// Two results of different suites have no cell in common: that is said in one line, and the cells only on request.
#[test]
fn many_cells_of_one_run_only_are_counted() {
    let rows = ["a", "b", "c", "d"].map(|row| (row, CALM));
    let (code, output) = compare(&run(&rows), &run(&[("new", CALM)]), &[]);
    assert_eq!(code, Some(2), "{output}");
    let line = "cells of one run: 4 only in the first run, 1 only in the second run; --all lists them\n";
    assert!(output.contains(line) && output.matches("only in").count() == 2, "{output}");
    let (_, output) = compare(&run(&rows), &run(&[("new", CALM)]), &["--all"]);
    assert!(output.contains("only in the first run: d\nonly in the second run: new\n"), "{output}");
}

/// A second run that was stopped before a cell has not kept any limit of it.
#[test]
fn a_cell_without_figures_in_the_second_run_keeps_no_limit() {
    let (first, mut second) = (run(&[("x", CALM), ("y", CALM)]), run(&[("x", CALM), ("y", CALM)]));
    second.samples.retain(|sample| sample.cell == "x");
    assert_eq!(compare(&first, &second, &["--fail-above", "50%"]).0, Some(2));
    assert_eq!(compare(&second, &first, &["--fail-above", "50%"]).0, Some(0));
    second.samples.clear();
    let (code, output) = compare(&first, &second, &["--fail-above", "50%"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("nothing was compared"), "{output}");
}

#[test]
fn a_cell_that_fails_now_fails_it() {
    let (first, mut second) = (run(&[("x", CALM), ("y", CALM)]), run(&[("x", CALM), ("y", CALM)]));
    second.samples[0].outcome = Outcome::Failed("disk full".to_owned());
    assert_eq!(compare(&first, &second, &["--fail-above", "50%"]).0, Some(1));
    assert_eq!(compare(&first, &second, &[]).0, Some(0));
    // It works now, but is not compared: it may have become slower than its other repetitions were.
    let (code, output) = compare(&second, &first, &["--fail-above", "50%"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("1 cells of the first run failed in some of its repetitions"), "{output}");
    assert!(output.contains("1 cells compared"), "{output}");
}

/// What only one of the runs tried has neither begun to fail nor been mended.
#[test]
fn a_failure_is_no_news_if_the_other_run_has_not_measured_the_cell() {
    let both = run(&[("x", CALM), ("y", CALM)]);
    let with = |outcome: Outcome| {
        let mut run = both.clone();
        let own = run.samples.iter_mut().filter(|sample| sample.cell == "x");
        own.for_each(|sample| sample.outcome = outcome.clone());
        run
    };
    let failed = with(Outcome::Failed("disk full".to_owned()));
    let unsupported = with(Outcome::Unsupported("no such thing".to_owned()));
    let mut stopped = both.clone();
    stopped.samples.retain(|sample| sample.cell != "x");
    for (other, words) in [(&unsupported, "n/a"), (&stopped, "at least one of the runs has no value")] {
        for (first, second) in [(other, &failed), (&failed, other)] {
            let (code, output) = compare(first, second, &["--fail-above", "50%"]);
            assert_eq!(code, Some(0), "{output}");
            assert!(output.contains(words) && output.contains("1 cells compared"), "{output}");
            assert!(!output.contains("FAILS NOW") && !output.contains("works now"), "{output}");
        }
    }
    // Some repetitions of the first run were sound.
    let mut unsteady = both.clone();
    unsteady.samples[0].outcome = Outcome::Failed("disk full".to_owned());
    let (code, output) = compare(&unsteady, &stopped, &["--fail-above", "50%"]);
    assert_eq!(code, Some(2), "{output}");
    let words = "1 cells of the first run have no value to compare in the second run";
    assert!(output.contains(words), "{output}");
}

#[test]
fn what_a_store_cannot_do_is_no_failure() {
    let (first, mut second) = (run(&[("x", CALM), ("y", CALM)]), run(&[("x", CALM), ("y", CALM)]));
    second.samples[0].outcome = Outcome::Unsupported("no such thing".to_owned());
    for (one, other, expected) in [(&first, &second, 2), (&second, &first, 0), (&second, &second, 0)] {
        let (code, output) = compare(one, other, &["--fail-above", "50%"]);
        assert_eq!(code, Some(expected), "{output}");
        assert!(output.contains("n/a") && output.contains("1 cells compared"), "{output}");
    }
}

#[test]
fn other_work_under_the_same_id_is_not_compared() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", &[1.0; 3])]));
    second.cells[0].workload.keys += 1;
    let (code, output) = compare(&first, &second, &["--fail-above", "10%"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("not compared: the workload or its settings differ"), "{output}");
}

/// The throughput of stores that take turns may contain write-back.
#[test]
fn stores_that_took_turns_in_one_run_only_are_not_compared() {
    let alone = run(&[("x", CALM), ("y", CALM)]);
    let mut in_turns = alone.clone();
    let ids = in_turns.cells.iter().map(|cell| cell.id.clone()).collect();
    in_turns.comparisons = vec![Comparison::new("compared".to_owned(), ids)];
    for (first, second, code) in [(&alone, &in_turns, 2), (&in_turns, &alone, 2), (&in_turns, &in_turns, 0)] {
        let (found, output) = compare(first, second, &["--fail-above", "50%"]);
        assert_eq!(found, Some(code), "{output}");
        assert_eq!(output.contains("or its stores took turns, or"), code == 2, "{output}");
    }
}

#[test]
fn stores_that_were_written_back_in_one_run_only_are_not_compared() {
    let first = ranking::written_back(Vec::new());
    let mut second = first.clone();
    let blocks = second.comparisons[0].blocks.iter_mut();
    blocks.flat_map(|block| &mut block.slices).for_each(|slice| slice.write_back_seconds = None);
    let (code, output) = compare(&first, &second, &["--fail-above", "50%"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("or were written back, in one run only"), "{output}");
    assert_eq!(compare(&first, &first, &["--fail-above", "50%"]).0, Some(0));
}

/// A comparison ends when a store fails in its pilot and one is left.
#[test]
fn a_store_that_fails_before_the_first_block_fails_now() {
    let first = ranking::written_back(Vec::new());
    let mut second = first.clone();
    second.comparisons[0].blocks.clear();
    let failed = second.cells[0].id.clone();
    second.samples.retain(|sample| sample.cell == failed && sample.repetition == 0);
    second.samples[0].outcome = Outcome::Failed("it panicked".to_owned());
    let (code, output) = compare(&first, &second, &["--fail-above", "50%"]);
    assert_eq!(code, Some(1), "{output}");
}

/// The report leaves out repetitions that other programs disturbed, and so does the comparison.
#[test]
fn undisturbed_repetitions_are_preferred() {
    let first = run(&[("x", &[1000.0, 1010.0, 990.0, 1005.0, 995.0]), ("y", &[1000.0; 5])]);
    let mut second = first.clone();
    for sample in &mut second.samples {
        let is_disturbed = sample.cell == "x" && sample.repetition < 2;
        sample.disturbance = Some(Disturbance { foreign: if is_disturbed { 0.6 } else { 0.0 }, stolen: 0.0 });
        if let (true, Outcome::Measured(measured)) = (is_disturbed, &mut sample.outcome) {
            *measured = fixtures::measurement(300.0);
        }
    }
    let medians = |second: &Run| compare(&first, second, &["--all"]).1;
    assert!(
        medians(&second).contains("1000/s -> 990/s"),
        "no limit of the disturbance: {}",
        medians(&second)
    );
    second.environment.foreign_limit = Some(0.1);
    assert!(medians(&second).contains("1000/s -> 995/s"), "{}", medians(&second));
    assert_eq!(compare(&first, &second, &["--fail-above", "50%"]).0, Some(0));
    // A cell of which each repetition was disturbed is compared by all of them.
    second.samples.iter_mut().filter(|sample| sample.cell == "x").for_each(|sample| {
        sample.disturbance = Some(Disturbance { foreign: 0.6, stolen: 0.0 });
    });
    assert!(medians(&second).contains("1000/s -> 990/s"), "{}", medians(&second));
}

/// Cells of the suite storage have no rate: what they read from their device is compared.
#[test]
fn bytes_read_for_each_get_are_compared() {
    let reads = |bytes: [f64; 3]| {
        let mut run = run(&[("x", &[1.0; 3]), ("y", CALM)]);
        run.cells[0].figure = Figure::DeviceReadBytes;
        for (sample, bytes) in run.samples.iter_mut().zip(bytes) {
            let Outcome::Measured(measured) = &mut sample.outcome else { panic!("not measured") };
            *measured = kvbench::bench::result::Measurement {
                operations: 100,
                device_read_bytes_per_get: Some(bytes),
                ..Default::default()
            };
        }
        run
    };
    let few = reads([5000.0, 5100.0, 4900.0]);
    let (code, output) = compare(&few, &few, &["--fail-above", "50%", "--all"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("2 cells compared") && output.contains("read per GET"), "{output}");
    let (code, output) = compare(&few, &reads([10_000.0, 10_200.0, 9800.0]), &["--fail-above", "50%"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("LARGER"), "{output}");
    let (_, output) = compare(&reads([10_000.0, 10_200.0, 9800.0]), &few, &["--fail-above", "50%"]);
    assert!(output.contains("smaller"), "{output}");
}

/// Sizes after unequal work are left out of a result; such a row cannot have lost anything.
#[test]
fn a_cell_that_has_nothing_to_compare_leaves_the_limit_kept() {
    let mut run = run(&[("size", CALM), ("x", CALM)]);
    run.cells[0].figure = Figure::DiskBytes;
    let (code, output) = compare(&run, &run, &["--fail-above", "50%"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("1 cells compared"), "{output}");
    assert!(output.contains("not compared: no speed, latency, size or bytes read were measured"), "{output}");
    // A size that only the second run lacks may be larger.
    let mut first = run.clone();
    for sample in first.samples.iter_mut().filter(|sample| sample.cell == "size") {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!("not measured") };
        measured.disk_bytes = Some(1 << 20);
    }
    let (code, output) = compare(&first, &run, &["--fail-above", "50%"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(
        output.contains("1 cells of the first run have no value to compare in the second run"),
        "{output}"
    );
}

/// At a rate both runs do what they were asked for; the time that it took is what may have got worse.
#[test]
fn paced_cells_are_compared_by_their_latency() {
    let paced = |figures: &[f64]| {
        let mut run = run(&[("x", figures)]);
        run.cells[0].workload.rate = Some(1000.0);
        run
    };
    let (_, output) = compare(&paced(CALM), &paced(&[4000.0; 3]), &[]);
    assert!(!output.contains("speed") && output.contains("p99"), "{output}");
}

/// With another cache, other compression or another promise the same operations are other work.
#[test]
fn other_settings_of_a_store_are_other_work() {
    let loses = |power_cut| Some(Loses { kill: LossClass::Nothing, power_cut });
    let mut first = run(&[("x", CALM)]);
    first.cells[0].target.loses = loses(LossClass::Unwritten);
    let changes: [fn(&mut Target); 3] = [
        |target| target.cache_bytes += 1,
        |target| target.compression = Compression::Lz4,
        |target| target.loses = Some(Loses { kill: LossClass::Nothing, power_cut: LossClass::Everything }),
    ];
    for change in changes {
        let mut second = first.clone();
        change(&mut second.cells[0].target);
        let (code, output) = compare(&first, &second, &["--fail-above", "50%"]);
        assert_eq!(code, Some(2), "{output}");
        assert!(output.contains("0 cells compared"), "{output}");
    }
    // Results of before do not say what is lost; of a server of others nobody knows the cache.
    let mut second = first.clone();
    second.cells[0].target.loses = None;
    assert_eq!(compare(&first, &second, &["--fail-above", "50%"]).0, Some(0));
    for run in [&mut first, &mut second] {
        run.cells[0].target.address = Some("127.0.0.1:6379".to_owned());
    }
    second.cells[0].target.cache_bytes += 1;
    assert_eq!(compare(&first, &second, &["--fail-above", "50%"]).0, Some(0));
}

/// The verdict is the first line; rows that are the same follow only with `--all`.
#[test]
fn the_verdict_comes_first_and_equal_rows_only_when_asked() {
    let one = run(&[("x", CALM), ("y", CALM)]);
    let (code, output) = compare(&one, &one, &[]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.starts_with("2 cells compared; 0 worse and 0 better"), "{output}");
    assert!(!output.contains("lmdb") && output.contains("--all shows them"), "{output}");
    let (_, all) = compare(&one, &one, &["--all"]);
    assert!(all.contains("access and policy") && all.contains("in process, fsync no"), "{all}");
    assert!(!all.contains("--all shows them"), "{all}");
}

#[test]
fn runs_without_a_common_cell_are_not_compared() {
    let (code, output) = compare(&run(&[("x", CALM)]), &run(&[("y", CALM)]), &[]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.starts_with("no cell of a store is in both runs: nothing was compared"), "{output}");
}

/// Nearly every run in process measures the harness overhead.
#[test]
fn the_harness_alone_is_no_comparison() {
    let [one, other] = ["x", "y"].map(|store| {
        let mut run = run(&[("harness", CALM), (store, CALM)]);
        run.cells[0].reference = true;
        run
    });
    let (code, output) = compare(&one, &other, &[]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.starts_with("no cell of a store is in both runs: nothing was compared"), "{output}");
}

#[test]
fn other_machines_are_warned_of() {
    let (first, mut second) = (run(&[("x", CALM)]), run(&[("x", CALM)]));
    second.environment.cpu = None;
    let (_, output) = compare(&first, &second, &[]);
    assert!(output.contains("warning: The runs differ in processor."), "{output}");
    second = first.clone();
    second.environment.memory_limit_bytes = Some(1 << 30);
    second.environment.cold = Some("fadvise".to_owned());
    second.environment.cpus = Some("driver on 0".to_owned());
    let (_, output) = compare(&first, &second, &[]);
    let words = "warning: The runs differ in memory limit, page cache (--cold), pinned processors (--cpus).";
    assert!(output.contains(words), "{output}");
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
