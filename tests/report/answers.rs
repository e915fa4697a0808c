//! The answers at the top of the report.

use crate::{fixtures, report};
use kvbench::bench::result::{Measurement, Operation, Outcome, Run};

/// Two stores that only get.
fn duel(first: &[f64], second: &[f64]) -> Run {
    let mut run = fixtures::run("duel", 3);
    for (store, figures) in [("lmdb", first), ("redb", second)] {
        let mut target = fixtures::target(store, "no");
        target.caveats.push(format!("Caveat of {store}."));
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        fixtures::add(&mut run, fixtures::cell("duel", "get", store, target, work), figures);
    }
    run
}

/// What the Markdown says to a question, without its first line.
fn answer(run: Run, question: &str) -> String {
    let (_dir, markdown) = report(&[run], "report.md");
    let start = markdown.find(&format!("- **{question}**")).expect("the question");
    let rest = &markdown[start..];
    let end = rest[1..].find("\n- **").or(rest.find("\n\n")).map_or(rest.len(), |end| end + 1);
    rest[..end].to_owned()
}

#[test]
fn a_clear_winner_is_named_with_the_factor_and_the_caveat() {
    let answer = answer(duel(&[200.0, 201.0, 202.0], &[100.0, 101.0, 102.0]), "Read-heavy");
    assert!(answer.contains("**lmdb**. get: 1.99\u{d7} better than the next"), "{answer}");
    assert!(answer.contains("Mind: Caveat of lmdb."), "{answer}");
    assert!(!answer.contains("Caveat of redb"), "{answer}");
}

#[test]
fn ranges_that_overlap_have_no_winner() {
    let answer = answer(duel(&[200.0, 201.0, 102.0], &[100.0, 101.0, 103.0]), "Read-heavy");
    assert!(answer.contains("**No clear winner**. get: The ranges overlap"), "{answer}");
}

#[test]
fn few_repetitions_are_said_to_be_few() {
    let answer = answer(duel(&[200.0], &[100.0]), "Read-heavy");
    assert!(answer.contains("perhaps by chance"), "{answer}");
}

#[test]
fn nine_tenths_of_one_kind_are_not_mixed() {
    let mut run = duel(&[200.0; 3], &[100.0; 3]);
    for cell in &mut run.cells {
        cell.workload.mix = [(Operation::Get, 0.9), (Operation::Update, 0.1)].into();
    }
    assert!(answer(run.clone(), "Read-heavy").contains("**lmdb**"));
    assert!(answer(run, "Mixed").contains("not measured"));
}

#[test]
fn what_nothing_fits_is_not_measured() {
    for question in ["Write-heavy", "Mixed", "Durable writes", "Scans", "Smallest footprint"] {
        let answer = answer(duel(&[200.0; 3], &[100.0; 3]), question);
        assert!(answer.contains(": not measured"), "{answer}");
    }
}

/// The cells of a group leave one set of files, which is one footprint.
#[test]
fn a_group_has_one_footprint() {
    let grouped = |kinds: &[Operation]| {
        let mut run = duel(&[200.0; 3], &[100.0; 3]);
        run.cells.clear();
        run.samples.clear();
        for store in ["lmdb", "redb"] {
            for kind in kinds {
                let row = format!("{kind:?}");
                let work = fixtures::workload(&row, &[(*kind, 1.0)]);
                let mut cell = fixtures::cell("duel", &row, store, fixtures::target(store, "no"), work);
                cell.group = Some(store.to_owned());
                let space = if store == "lmdb" { 2.0 } else { 3.0 };
                let measured =
                    Measurement { space_amplification: Some(space), ..fixtures::measurement(100.0) };
                fixtures::add_outcomes(&mut run, cell, vec![Outcome::Measured(measured); 3]);
            }
        }
        run
    };
    use Operation::{Delete, Get, Insert, Update};
    let found = answer(grouped(&[Insert, Get, Update]), "Smallest footprint");
    assert!(found.contains("**lmdb**. Insert: 1.50\u{d7} better than the next"), "{found}");
    assert!(!found.contains("workloads"), "{found}");
    // What is left after deletes is some rest, and its size by byte alive says nothing.
    let found = answer(grouped(&[Insert, Get, Delete]), "Smallest footprint");
    assert!(found.contains(": not measured"), "{found}");
}

#[test]
fn a_store_with_one_wrong_value_never_wins() {
    let mut run = duel(&[900.0; 3], &[100.0; 3]);
    run.samples[1].outcome = Outcome::Measured(fixtures::wrong_value(900.0));
    let answer = answer(run, "Read-heavy");
    assert!(answer.contains("**redb only**"), "{answer}");
    assert!(answer.contains("Failed: lmdb"), "{answer}");
}

#[test]
fn the_harness_is_in_no_answer() {
    let mut run = duel(&[900.0; 3], &[100.0; 3]);
    run.cells[0].reference = true;
    let answer = answer(run, "Read-heavy");
    assert!(answer.contains("**redb only**"), "{answer}");
}

#[test]
fn levels_are_answered_apart() {
    let mut run = duel(&[200.0; 3], &[100.0; 3]);
    run.cells[0].target.fsync = Some("always".to_owned());
    let answer = answer(run, "Read-heavy");
    assert!(answer.contains("in process, fsync always: **lmdb only**"), "{answer}");
    assert!(answer.contains("in process, fsync no: **redb only**"), "{answer}");
}

#[test]
fn a_writer_beside_readers_is_mixed() {
    let mut run = duel(&[200.0; 3], &[100.0; 3]);
    run.cells[1].together = true;
    assert!(answer(run.clone(), "Read-heavy").contains("not measured"));
    assert!(answer(run, "Mixed").contains("**lmdb**"));
}
