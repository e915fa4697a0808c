//! Why a limit may be exceeded though nothing says so.

use super::cell_status::CellStatus;
use crate::bench::result::{Run, spread::ENOUGH};

/// What two runs had to compare.
pub(super) struct Compared<'a> {
    /// The run that is to be kept up with.
    pub first: &'a Run,
    /// Cells of both runs.
    pub cells: &'a [(String, CellStatus)],
    /// Cells of the first run alone.
    pub only_first: &'a [String],
    /// Figures with too few repetitions for a verdict.
    pub too_few: usize,
    /// The smallest loss that can be detected, as a part of the first run's figure.
    pub visible: Option<f64>,
}

/// What was not looked at, or not finely enough for `limit`, in sentences.
pub(super) fn of(compared: &Compared<'_>, limit: f64) -> Vec<String> {
    let mut gaps = Vec::new();
    if !compared.cells.iter().any(|(_, state)| *state == CellStatus::Figures) {
        gaps.push("nothing was compared".to_owned());
    }
    gaps.extend(lost(compared));
    if compared.too_few > 0 {
        gaps.push(format!("{} figures have fewer than {ENOUGH} repetitions", compared.too_few));
    }
    if let Some(visible) = compared.visible.filter(|visible| *visible > limit) {
        gaps.push(format!(
            "only losses of {:.0}% or more can be detected; more repetitions, or a quieter machine",
            visible * 100.0
        ));
    }
    gaps
}

/// How many cells of the first run have figures that the second has none for, by the reason.
fn lost(compared: &Compared<'_>) -> Vec<String> {
    let first = compared.first;
    let measured = |id: &str| first.measurements(id).next().is_some() && first.unsupported(id).is_none();
    let had = |id: &str| measured(id) && !is_reference(first, id);
    let count = |wanted: &[CellStatus]| {
        compared.cells.iter().filter(|(id, state)| wanted.contains(state) && had(id)).count()
    };
    let missing = compared.only_first.iter().filter(|id| had(id)).count();
    let reasons = [
        (count(&[CellStatus::OtherWork]), "did other work, or had other settings"),
        (
            count(&[CellStatus::NoFigures, CellStatus::Unsupported]),
            "have no valid measurement in the second run",
        ),
        (missing, "are not in the second run"),
    ];
    let told = reasons.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, words)| format!("{count} cells of the first run {words}")).collect()
}

/// Whether a cell measures the harness, not a store.
fn is_reference(run: &Run, id: &str) -> bool {
    run.cells.iter().any(|cell| cell.id == id && cell.reference)
}
