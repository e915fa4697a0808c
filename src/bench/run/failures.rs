//! Failed measurements of a run: which are not tried again, and how they are printed.

use super::job_messages::Report;
use crate::bench::result::{Cell, Outcome, Run};

/// Returns a failed report for each cell of a job if the last two measurements of every cell failed with equal texts:
/// the job is not tried again. Otherwise `None`.
pub(super) fn known(run: &Run, cells: &[Cell]) -> Option<Vec<Report>> {
    let known = |cell: &Cell| {
        let own = run.samples.iter().filter(|sample| sample.cell == cell.id);
        let failures: Vec<_> = own.map(|sample| sample.outcome.failure()).collect();
        match failures.as_slice() {
            [.., Some(one), Some(other)] if one == other => {
                Some(Report::of(cell, Outcome::Failed((*one).to_owned())))
            }
            _ => None,
        }
    };
    cells.iter().map(known).collect()
}

/// Prints one line to standard error for each different failure text of a run, with the first cell that has it and the
/// number of others.
pub(super) fn print(run: &Run) {
    let mut failures: Vec<(&str, Vec<&str>)> = Vec::new();
    for sample in &run.samples {
        let Some(text) = sample.outcome.failure() else { continue };
        match failures.iter_mut().find(|(known, _)| *known == text) {
            Some((_, cells)) if cells.contains(&sample.cell.as_str()) => {}
            Some((_, cells)) => cells.push(&sample.cell),
            None => failures.push((text, vec![&sample.cell])),
        }
    }
    for (text, cells) in failures {
        match cells.as_slice() {
            [first] => eprintln!("kvbench: {first}: {text}"),
            [first, others @ ..] => {
                eprintln!("kvbench: {first} and {} other cells: {text}", others.len());
            }
            [] => {}
        }
    }
}
