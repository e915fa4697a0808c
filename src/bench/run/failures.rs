//! Failed measurements of a run: which are not tried again, which are when the run goes on, and how they are printed.

use super::job_messages::Report;
use crate::bench::result::{Cell, Outcome, Run, Sample};
use std::mem;

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

/// Removes the failed samples of cells that are measured alone, so that the run measures them again, and prints them to
/// standard error. Samples of interleaved comparisons stay: their blocks were measured without the store that failed.
pub(super) fn remove(run: &mut Run) {
    let samples = mem::take(&mut run.samples);
    let (failed, kept): (Vec<Sample>, Vec<Sample>) = samples
        .into_iter()
        .partition(|sample| sample.outcome.failure().is_some() && run.comparison(&sample.cell).is_none());
    run.samples = kept;
    if !failed.is_empty() {
        print(&failed);
        eprintln!("kvbench: --resume: what failed is measured again; failed measurements: {}", failed.len());
    }
}

/// Prints one line to standard error for each different failure text of `samples`, with the first cell that has it and
/// the number of others.
pub(super) fn print(samples: &[Sample]) {
    let mut failures: Vec<(&str, Vec<&str>)> = Vec::new();
    for sample in samples {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::{Environment, Measurement};

    #[test]
    fn only_failed_samples_of_cells_without_a_comparison_are_removed() {
        let measured = |errors| Measurement { operations: 1, errors, ..Measurement::default() };
        let outcomes = [
            ("measured", Outcome::Measured(measured(0))),
            ("not supported", Outcome::Unsupported("cannot".into())),
            ("killed", Outcome::Failed("killed".into())),
            ("with an error", Outcome::Measured(measured(1))),
            ("in turns", Outcome::Failed("killed".into())),
        ];
        let samples = outcomes.map(|(cell, outcome)| Sample {
            cell: cell.into(),
            repetition: 0,
            outcome,
            disturbance: None,
        });
        let comparison = serde_json::json!({
            "id": "get", "cells": ["in turns"], "margin": 0.03, "blocks": [], "verdicts": [],
        });
        let run = serde_json::json!({
            "schema": 4, "version": "", "started": "", "command": [], "suite": null,
            "environment": Environment::default(),
            "cells": [], "repetitions": 1, "samples": samples, "comparisons": [comparison], "finished": true,
        });
        let mut run: Run = serde_json::from_value(run).unwrap();
        remove(&mut run);
        let left: Vec<_> = run.samples.iter().map(|sample| sample.cell.as_str()).collect();
        assert_eq!(left, ["measured", "not supported", "in turns"]);
    }
}
