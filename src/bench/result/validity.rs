//! Which figures are as much the harness' as the engine's.

use super::{Cell, Outcome, Run, Workload, spread::Spread};

/// What is said of a figure that is near it.
pub const NEAR: &str = "More than half of this time may be the benchmark's own cost.";

/// Whether `floor` is a cell of an engine that does nothing which does the same operations as `cell`.
fn is_of(floor: &Cell, cell: &Cell) -> bool {
    floor.reference
        && !cell.reference
        && floor.target.access == cell.target.access
        && is_same_work(&floor.workload, &cell.workload)
        && cell.workload.rate.is_none()
}

/// Whether two workloads do the same operations, over whatever number of keys, for whatever time.
pub fn is_same_work(one: &Workload, other: &Workload) -> bool {
    (one.step, &one.mix, one.order) == (other.step, &other.mix, other.order)
        && (one.threads, one.batch) == (other.threads, other.batch)
        && (one.key_bytes, one.value_bytes) == (other.key_bytes, other.value_bytes)
        && (one.hashed_keys, &one.data) == (other.hashed_keys, &other.data)
        && (one.scan_length, one.prefix_bytes) == (other.scan_length, other.prefix_bytes)
        && one.counts_allocations == other.counts_allocations
}

/// Operations in each second that the harness itself reaches with the operations of a cell, where that was
/// measured.
pub fn of(run: &Run, cell: &Cell) -> Option<f64> {
    let floors = run.cells.iter().filter(|floor| is_of(floor, cell));
    let figures = floors.flat_map(|floor| run.measurements(&floor.id)).map(|floor| floor.throughput);
    Some(Spread::of(figures)?.median)
}

/// Marks every measurement that is within twice its floor.
pub fn mark(run: &mut Run) {
    let floors: Vec<_> = run.cells.iter().map(|cell| (cell.id.clone(), of(run, cell))).collect();
    for sample in &mut run.samples {
        let floor = floors.iter().find(|(id, _)| *id == sample.cell).and_then(|(_, floor)| *floor);
        if let Outcome::Measured(measurement) = &mut sample.outcome {
            measurement.near_floor = floor.map(|floor| measurement.throughput * 2.0 > floor);
        }
    }
}
