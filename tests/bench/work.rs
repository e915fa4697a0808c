//! The same work for every engine.

use crate::support::bench::{bench, measurement, result_of, stderr};
use kvbench::bench::result::{Cell, CellKind, Measurement, Operation, Outcome, Run, equal_work};
use std::collections::BTreeSet;

/// Cells of real stores, each with its measurement.
fn measured(run: &Run) -> impl Iterator<Item = (&Cell, &Measurement)> {
    let real = run.cells.iter().filter(|cell| !cell.reference && cell.workload.step == CellKind::Operations);
    real.filter_map(|cell| {
        let sample = run.samples.iter().find(|sample| sample.cell == cell.id)?;
        match &sample.outcome {
            Outcome::Unsupported(_) => None,
            outcome => Some((cell, measurement(outcome))),
        }
    })
}

/// The stores of this build that sync in very different times.
fn stores() -> String {
    let all = kvbench::engine::KINDS.iter().map(|kind| kind.info.name).collect::<Vec<_>>();
    all.join(",")
}

/// Checks the numbers of keys and of operations of all cells of a suite.
fn fills_and_deletes_are_the_same(suite: &str, stores: &str, access: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", stores, "--keys", "100", "--seconds", "0.02", "--warm-up", "0.01"];
    let suite = ["--suite", suite, "--fsync", "always,no"];
    let run = result_of(dir.path(), &[&suite[..], &flags, access].concat());
    for (cell, measured) in measured(&run) {
        let keys = (measured.keys_before.unwrap(), measured.keys_after.unwrap());
        let expected = match cell.row.as_str() {
            "set" | "batch 1000" | "load" => (0, 100),
            "del" => (100, 0),
            "d" | "e" => (100, keys.1),
            _ => (100, 100),
        };
        assert_eq!(keys, expected, "{}", cell.id);
        if cell.workload.seconds.is_none() {
            assert_eq!((measured.operations, cell.workload.warmup_seconds), (100, 0.0), "{}", cell.id);
        }
    }
    let rows: BTreeSet<_> = measured(&run).map(|(cell, _)| cell.row.clone()).collect();
    assert!(rows.len() > 5, "{rows:?}");
}

#[test]
fn fills_and_deletes_of_smallnest_are_the_same_for_every_store_and_policy() {
    fills_and_deletes_are_the_same("smallnest", &stores(), &[]);
}

#[test]
fn fills_and_deletes_of_ycsb_are_the_same_for_every_store_and_policy() {
    fills_and_deletes_are_the_same("ycsb", &stores(), &[]);
}

/// Requests and replies are the same for all stores.
#[test]
fn fills_and_deletes_over_the_wire_are_the_same_for_every_policy() {
    for suite in ["smallnest", "ycsb"] {
        fills_and_deletes_are_the_same(suite, "map,btree", &["--wire"]);
    }
}

#[test]
fn only_what_is_steady_ends_by_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    for suite in ["smallnest", "ycsb"] {
        let flags = ["--suite", suite, "--stores", "btree", "--keys", "500", "--seconds", "0.05"];
        let run = result_of(dir.path(), &flags);
        std::fs::remove_file(dir.path().join("result.json")).unwrap();
        for (cell, _) in measured(&run) {
            let fills = |kind: &Operation| matches!(kind, Operation::Insert | Operation::Delete);
            let steady = !cell.workload.mix.keys().all(fills);
            assert_eq!(cell.workload.seconds.is_some(), steady, "{}", cell.id);
        }
    }
}

#[test]
fn another_number_of_keys_is_another_work() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map,btree", "--mix", "insert", "--keys", "10", "--operations", "20"];
    let mut run = result_of(dir.path(), &flags);
    assert_eq!(equal_work::unequal(&run), [""; 0]);
    let second = run.cells[1].id.clone();
    let change = |run: &mut Run, change: fn(&mut Measurement)| {
        let sample = run.samples.iter_mut().find(|sample| sample.cell == second).unwrap();
        match &mut sample.outcome {
            Outcome::Measured(measurement) => change(measurement),
            other => panic!("{other:?}"),
        }
    };
    change(&mut run, |measurement| measurement.keys_after = Some(29));
    assert!(equal_work::unequal(&run).concat().contains("left 29 keys"), "{:?}", equal_work::unequal(&run));
    change(&mut run, |measurement| measurement.keys_before = Some(9));
    assert!(equal_work::unequal(&run).concat().contains("found 9 keys"), "{:?}", equal_work::unequal(&run));
}

/// Milliseconds of redb's table are those of all operations of a row, whatever the preset.
#[test]
fn what_is_told_as_a_time_is_never_cut_by_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--suite", "redb", "--stores", "btree", "--quick", "--keys", "500", "--repetitions", "1"];
    let run = result_of(dir.path(), &flags);
    let cut: Vec<_> =
        run.cells.iter().filter(|cell| !cell.reference && cell.workload.seconds.is_some()).collect();
    assert!(cut.is_empty(), "{cut:?}");
    for flag in [["--seconds", "1"], ["--rates", "100"], ["--warm-up", "5"]] {
        let output = bench(dir.path(), &[&flags[..4], &flag, &["--dry-run"]].concat());
        assert!(stderr(&output).contains(&format!("{}: --suite redb", flag[0])), "{}", stderr(&output));
    }
}

/// Removals that a store lacks leave other keys than those that the others measure after them.
#[test]
fn sizes_are_those_of_the_same_keys() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = result_of(dir.path(), &["--suite", "redb", "--stores", "map,btree", "--keys", "1000"]);
    assert_eq!(equal_work::unequal(&run), [""; 0]);
    let steps = [CellKind::Count, CellKind::Retain, CellKind::Pop, CellKind::DiskSize, CellKind::Compact];
    for step in steps {
        for cell in run.cells.iter().filter(|cell| !cell.reference && cell.workload.step == step) {
            let Some(measured) = run.measurements(&cell.id).next() else { continue };
            assert!(measured.keys_before.is_some() && measured.keys_after.is_some(), "{}", cell.id);
        }
    }
    let sizes = |run: &Run, step| {
        let of_step = run.cells.iter().filter(|cell| !cell.reference && cell.workload.step == step);
        of_step.map(|cell| cell.id.clone()).collect::<Vec<_>>()
    };
    let keys = |id: &String| run.measurements(id).next().unwrap().keys_before;
    let found: BTreeSet<_> = sizes(&run, CellKind::DiskSize).iter().map(keys).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    // A size of other contents is told.
    let last = sizes(&run, CellKind::DiskSize).pop().unwrap();
    let sample = run.samples.iter_mut().find(|sample| sample.cell == last).unwrap();
    let Outcome::Measured(measured) = &mut sample.outcome else { panic!("{:?}", sample.outcome) };
    measured.keys_before = Some(1);
    assert!(equal_work::unequal(&run).concat().contains("found 1 keys"), "{:?}", equal_work::unequal(&run));
}

/// How much is done stands above the figures, where the policy decides it.
#[test]
fn the_heading_says_how_many_keys() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--suite", "smallnest", "--stores", "map", "--keys", "1200", "--seconds", "0.02"];
    let run = result_of(dir.path(), &flags);
    let table = &run.cells[0].table;
    assert!(table.ends_with("; set and del of 1,200 keys, others over 1,200"), "{table}");
}

/// Every value is compared at the end, of files after they were closed and opened again.
#[test]
fn every_value_is_compared_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, values) in [
        (&["--mix", "get=0.5,update=0.5", "--fsync", "no,memory"][..], 300),
        (&["--mix", "delete=1", "--operations", "100", "--fsync", "no,memory"], 200),
        (&["--mix", "get=0.5,update=0.5", "--wire", "--fsync", "no,memory"], 300),
        (&["--mix", "update=1", "--commits", "own,groups", "--threads", "3"], 300),
    ] {
        let stores = stores();
        let all = [flags, &["--stores", &stores, "--keys", "300", "--value-bytes", "1-40"]].concat();
        let all =
            if flags.contains(&"delete=1") { all } else { [&all[..], &["--operations", "900"]].concat() };
        let run = result_of(dir.path(), &all);
        std::fs::remove_file(dir.path().join("result.json")).unwrap();
        assert!(measured(&run).count() > 1);
        for (cell, measured) in measured(&run) {
            assert_eq!(measured.verified_values, Some(values), "{}", cell.id);
        }
    }
}

/// All scans go on to the last key, and other threads insert keys behind it at the end of a scan.
#[test]
fn a_scan_need_not_visit_a_key_that_is_inserted_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mix = ["--stores", "btree", "--fsync", "memory", "--mix", "scan=0.5,insert=0.5", "--ordered-keys"];
    let size = ["--threads", "4", "--keys", "50", "--scan-length", "10000", "--operations", "4000"];
    let run = result_of(dir.path(), &[&mix[..], &size].concat());
    for sample in &run.samples {
        assert!(measurement(&sample.outcome).is_sound(), "{:?}", sample.outcome);
    }
}

/// A thread deletes a key between the choice of another thread, whose scan begins there, and that scan.
#[test]
fn a_scan_may_begin_behind_a_key_that_was_just_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mix =
        ["--stores", "btree", "--fsync", "memory", "--mix", "scan=0.5,delete=0.5", "--scan-length", "1"];
    let run = result_of(
        dir.path(),
        &[&mix[..], &["--threads", "4", "--keys", "4000", "--operations", "7000"]].concat(),
    );
    for sample in &run.samples {
        assert!(measurement(&sample.outcome).is_sound(), "{:?}", sample.outcome);
    }
}
