//! Check that compared engines have processed the same number of keys.

use super::{Cell, Measurement, Run};

/// Returns a sentence for each cell whose number of keys, before or after the measurement, differs from that
/// of the first cell with the same workload and access (in process or over the wire). Cells of the harness overhead
/// are left out. Rates and sizes for different numbers of keys are not comparable.
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

/// Returns the number of keys before and after a measurement of `cell`. The number after it is `None` for a workload
/// that is limited by time, because there it depends on the speed of the engine, and if keys expire.
fn keys(cell: &Cell, measurement: &Measurement) -> (Option<u64>, Option<u64>) {
    let is_fixed = cell.workload.seconds.is_none() && cell.workload.ttl_ms.is_none();
    (measurement.keys_before, measurement.keys_after.filter(|_| is_fixed))
}
