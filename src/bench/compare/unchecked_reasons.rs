//! Reasons why a loss beyond the limit may exist although the comparison found none.

use super::{cell_status::CellStatus, paired_samples::ComparedMetric, significance::LeastLoss};
use crate::bench::result::{Run, spread::ENOUGH};

/// Cells and metrics that a comparison of two runs covered, and those that it could not.
pub(super) struct Compared<'a> {
    /// First of the compared runs: the baseline.
    pub first: &'a Run,
    /// Ids of the cells that both runs have, each with its status in the comparison.
    pub cells: &'a [(String, CellStatus)],
    /// Ids of cells that only the first run has.
    pub only_first: &'a [String],
    /// Number of metrics of stores and cells that have too few repetitions for a verdict.
    pub too_few: usize,
    /// Store of which only the largest losses can be found, with the smallest of them (minimum detectable change); `None` if
    /// there is none.
    pub noisiest: Option<&'a LeastLoss>,
    /// Metrics of stores, and of all stores together, that got worse by more than the limit, but not by more than chance
    /// explains: "p99 of rocksdb".
    pub suspected: Vec<String>,
}

/// Returns the reasons why the comparison cannot decide whether a loss exceeds `limit`, as clauses of a sentence; empty
/// if it can.
pub(super) fn of(compared: &Compared<'_>, limit: f64) -> Vec<String> {
    let mut gaps = Vec::new();
    if !compared.cells.iter().any(|(_, state)| *state == CellStatus::Figures) {
        gaps.push("nothing was compared".to_owned());
    }
    gaps.extend(lost(compared));
    if compared.too_few > 0 {
        gaps.push(format!("{} figures have fewer than {ENOUGH} repetitions", compared.too_few));
    }
    if let Some(noisiest) = compared.noisiest.filter(|noisiest| noisiest.loss > limit) {
        let advice = match noisiest.metric {
            ComparedMetric::Speed => "more repetitions may detect 6%, and `kvbench duel` 3%",
            // Between two runs p99 varies much more than speed.
            _ => "more repetitions may detect 25%; raise the limit",
        };
        let (name, percent) = (noisiest.name(), noisiest.loss * 100.0);
        gaps.push(format!("of {name} only losses of {percent:.0}% or more can be detected; {advice}"));
    }
    if !compared.suspected.is_empty() {
        gaps.push(format!(
            "worse by more than the limit, but not by more than chance explains: {}",
            compared.suspected.join(", ")
        ));
    }
    gaps
}

/// Returns one clause for each reason why cells measured in the first run are not compared, with the number of such
/// cells. Cells that fail in the second run only are not counted: they are losses.
fn lost(compared: &Compared<'_>) -> Vec<String> {
    let first = compared.first;
    let measured = |id: &str| first.measurements(id).next().is_some() && first.unsupported(id).is_none();
    let had = |id: &str| measured(id) && !is_reference(first, id);
    let count = |wanted: &[CellStatus]| {
        compared.cells.iter().filter(|(id, state)| wanted.contains(state) && had(id)).count()
    };
    let missing = compared.only_first.iter().filter(|id| had(id)).count();
    let reasons = [
        (
            count(&[CellStatus::OtherWork]),
            "did other work, had other settings, or took turns or were written back in one run only",
        ),
        (count(&[CellStatus::Mended]), "failed in some of its repetitions, so they are not compared"),
        (
            count(&[CellStatus::NoFigures, CellStatus::Unsupported]),
            "have no value to compare in the second run",
        ),
        (missing, "are not in the second run"),
    ];
    let told = reasons.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, words)| format!("{count} cells of the first run {words}")).collect()
}

/// Returns `true` if the cell `id` measures the harness, not a store.
fn is_reference(run: &Run, id: &str) -> bool {
    run.cells.iter().any(|cell| cell.id == id && cell.reference)
}
