//! Why a limit may be exceeded though nothing says so.

use super::{Comparison, State, Verdict};
use crate::bench::result::{Run, spread::ENOUGH};

/// What a comparison with `first` could not look at, in sentences; of a comparison without a limit, nothing.
pub(super) fn of(comparison: &Comparison, first: &Run) -> Vec<String> {
    let Some(limit) = comparison.limit else { return Vec::new() };
    let mut gaps = Vec::new();
    let compared = comparison.cells.iter().any(|(_, state)| *state == State::Figures);
    if !compared {
        gaps.push("nothing was compared".to_owned());
    }
    gaps.extend(lost(comparison, first));
    let blind = comparison.verdicts().filter(|verdict| *verdict == Verdict::CannotTell).count();
    if blind > 0 {
        gaps.push(format!("{blind} figures have fewer than {ENOUGH} repetitions"));
    }
    if let Some(visible) = comparison.judgement.visible.filter(|visible| *visible > limit) {
        gaps.push(format!(
            "only losses of {:.0}% or more can be detected; more repetitions, or a quieter machine",
            visible * 100.0
        ));
    }
    gaps
}

/// How many cells of the first run have figures that the second has none for, by the reason.
fn lost(comparison: &Comparison, first: &Run) -> Vec<String> {
    let measured = |id: &str| first.measurements(id).next().is_some() && first.unsupported(id).is_none();
    let had = |id: &str| measured(id) && !is_reference(first, id);
    let count = |wanted: &[State]| {
        comparison.cells.iter().filter(|(id, state)| wanted.contains(state) && had(id)).count()
    };
    let missing = comparison.only_first.iter().filter(|id| had(id)).count();
    let reasons = [
        (count(&[State::OtherWork]), "did other work, or had other settings"),
        (count(&[State::NoFigures, State::Unsupported]), "have no valid measurement in the second run"),
        (missing, "are not in the second run"),
    ];
    let told = reasons.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, words)| format!("{count} cells of the first run {words}")).collect()
}

/// Whether a cell measures the harness, not a store.
fn is_reference(run: &Run, id: &str) -> bool {
    run.cells.iter().any(|cell| cell.id == id && cell.reference)
}
