//! Whether engines that are compared have done the same work.

use super::{Cell, Measurement, Run};

/// Cells that were given the same work but found, or left, another number of keys than the first of them:
/// each in a sentence. A rate over other keys is another rate, and a size of other keys another size.
pub fn unequal(run: &Run) -> Vec<String> {
    let mut texts = Vec::new();
    let real = |cell: &&Cell| !cell.reference;
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
    let expected = run.measurements(&first.id).next()?;
    run.measurements(&cell.id).find_map(|found| {
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

/// Keys before and after. What goes on for a time leaves more of them the faster it is.
fn keys(cell: &Cell, measurement: &Measurement) -> (Option<u64>, Option<u64>) {
    (measurement.keys_before, measurement.keys_after.filter(|_| cell.workload.seconds.is_none()))
}
