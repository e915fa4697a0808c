//! Whether engines that are compared have done the same work.

use super::{Cell, Measurement, Outcome, Run, Step};

/// Cells that were given the same work but found, or left, another number of keys than the first of them:
/// each in a sentence. A rate over other keys is another rate.
pub fn unequal(run: &Run) -> Vec<String> {
    let mut texts = Vec::new();
    let real = |cell: &&Cell| !cell.reference && cell.workload.step == Step::Operations;
    for (number, cell) in run.cells.iter().enumerate() {
        let namesakes = run.cells.get(..number).unwrap_or_default();
        let first = namesakes.iter().filter(real).find(|first| is_same(first, cell));
        let Some(first) = first.filter(|_| real(&cell)) else { continue };
        texts.extend(difference(run, first, cell));
    }
    texts
}

fn is_same(one: &Cell, other: &Cell) -> bool {
    one.workload == other.workload && one.target.access == other.target.access
}

fn difference(run: &Run, first: &Cell, cell: &Cell) -> Option<String> {
    let expected = sound(run, first).next()?;
    sound(run, cell).find_map(|found| {
        let (when, one, other) = match (keys(cell, expected), keys(cell, found)) {
            ((Some(one), _), (Some(other), _)) if one != other => ("found", one, other),
            ((_, Some(one)), (_, Some(other))) if one != other => ("left", one, other),
            _ => return None,
        };
        Some(format!(
            "{} {when} {other} keys, {} {when} {one}: they have not done the same work",
            cell.id, first.id
        ))
    })
}

fn sound<'r>(run: &'r Run, cell: &Cell) -> impl Iterator<Item = &'r Measurement> {
    let id = cell.id.clone();
    run.samples.iter().filter(move |sample| sample.cell == id).filter_map(|sample| match &sample.outcome {
        Outcome::Measured(measurement) if measurement.is_sound() => Some(measurement),
        _ => None,
    })
}

/// Keys before and after. What goes on for a time leaves more of them the faster it is.
fn keys(cell: &Cell, measurement: &Measurement) -> (Option<u64>, Option<u64>) {
    (measurement.keys_before, measurement.keys_after.filter(|_| cell.workload.seconds.is_none()))
}
