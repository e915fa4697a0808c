//! Detection of results that are dominated by the harness overhead.

use super::{Cell, Outcome, Run, Workload, spread::Spread};

/// Footnote of a value in whose measurement the harness overhead may be more than half of the time.
pub const NEAR_FLOOR: &str = "More than half of this time may be the benchmark's own cost.";

/// Returns `true` if `floor` measures the harness overhead of `cell`: it runs the same operations with the
/// no-op engine. Always `false` if `cell` is an open loop (a fixed rate, or the search for the highest one) or measures
/// the overhead itself.
fn is_floor_of(floor: &Cell, cell: &Cell) -> bool {
    floor.reference
        && !cell.reference
        && floor.target.access == cell.target.access
        && is_same_work(&floor.workload, &cell.workload)
        && cell.workload.rate.is_none()
        && cell.workload.rate_goal.is_none()
}

/// Returns `true` if two workloads run the same operations, for any number of keys and any duration.
pub fn is_same_work(one: &Workload, other: &Workload) -> bool {
    (one.step, &one.mix, one.order) == (other.step, &other.mix, other.order)
        && (one.threads, one.batch) == (other.threads, other.batch)
        && (one.key_bytes, one.value_bytes) == (other.key_bytes, other.value_bytes)
        && (one.hashed_keys, &one.data) == (other.hashed_keys, &other.data)
        && (one.scan_length, one.prefix_bytes) == (other.scan_length, other.prefix_bytes)
        && (one.random_scan_length, one.one_snapshot) == (other.random_scan_length, other.one_snapshot)
        && (one.counts_allocations, one.ttl_ms) == (other.counts_allocations, other.ttl_ms)
}

/// Returns the median throughput of the no-op engine with the operations of `cell`, in operations per second,
/// or `None` if it was not measured, or if `cell` is an open loop or one of the no-op engine.
pub fn of(run: &Run, cell: &Cell) -> Option<f64> {
    let floors = run.cells.iter().filter(|floor| is_floor_of(floor, cell));
    let figures = floors.flat_map(|floor| run.measurements(&floor.id)).map(|floor| floor.throughput);
    Some(Spread::of(figures)?.median)
}

/// Sets `near_floor` of every measurement of a run: `true` if its throughput is more than half that of the no-op engine
/// with the same operations, `None` if that was not measured.
pub fn mark(run: &mut Run) {
    let floors: Vec<_> = run.cells.iter().map(|cell| (cell.id.clone(), of(run, cell))).collect();
    for sample in &mut run.samples {
        let floor = floors.iter().find(|(id, _)| *id == sample.cell).and_then(|(_, floor)| *floor);
        if let Outcome::Measured(measurement) = &mut sample.outcome {
            measurement.near_floor = floor.map(|floor| measurement.throughput * 2.0 > floor);
        }
    }
}
