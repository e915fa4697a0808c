//! Cells that measure the harness overhead, beside the cells of a suite.

use super::{
    cell_builder::{CellBuilder, names_noop_engine},
    cell_transforms::cell as named,
};
use crate::{
    bench::{
        plan::options::Durability,
        result::{Access, Cell, CellKind, Operation, Workload, harness_share},
    },
    engine::synthetic,
};

/// Returns cells that measure the harness overhead: for each in-process workload of `cells`, the same workload over the
/// no-op engine. Returns none if the user has chosen that engine as a store.
pub(super) fn overhead_cells(builder: &CellBuilder<'_>, cells: &[Cell]) -> Vec<Cell> {
    let mut overhead: Vec<Cell> = Vec::new();
    let info = synthetic::info(synthetic::NOTHING).filter(|_| !names_noop_engine(builder.options));
    let Some(info) = info else { return overhead };
    let target = builder.target(info, Access::InProcess, Durability::Memory);
    let jobs = cells.chunk_by(|one, next| one.group.is_some() && one.group == next.group);
    for job in jobs {
        let mut keys = 0;
        for cell in job.iter().filter(|cell| has_overhead_cell(cell)) {
            keys = cell.workload.keys.max(keys);
            let workload = overhead_workload(&cell.workload, keys);
            // The next cell of a group finds the keys that earlier cells have inserted.
            keys = cell.workload.most_keys().max(keys);
            let row = workload.name.clone();
            let mut made = named("harness", target.clone(), workload, &row);
            made.table = "harness overhead".into();
            let same = |known: &Cell| {
                known.id == made.id || harness_share::is_same_work(&known.workload, &made.workload)
            };
            if !overhead.iter().any(same) {
                overhead.push(made);
            }
        }
    }
    overhead
}

/// Returns `true` if the harness overhead of a cell is measured.
fn has_overhead_cell(cell: &Cell) -> bool {
    let work = &cell.workload;
    cell.target.access == Access::InProcess
        && work.step == CellKind::Operations
        && !cell.together
        // The no-op engine stores no expiration times.
        && work.ttl_ms.is_none()
        && cell.own_device.is_none()
        // Allocation counts are not compared with the harness overhead.
        && !work.counts_allocations
}

/// Returns `work` for the no-op engine, with at most `keys` keys before it: at most half a second after at most 0.1 seconds
/// of warm-up, and if `work` has a number of operations, at most that or 20,000, whichever is more. If `work` deletes or
/// only fills the store: at most 20,000 operations, and if it mixes deletes with reads or updates, at most half as many as
/// there are keys.
fn overhead_workload(work: &Workload, keys: u64) -> Workload {
    const COUNT: u64 = 20_000;
    let has = |wanted: Operation| work.kinds().any(|kind| kind == wanted);
    let fills = work.kinds().all(|kind| kind == Operation::Insert);
    // The no-op engine sorts the keys for its scans.
    let most = if has(Operation::Scan) { 20_000 } else { 1_000_000 };
    let keys = if fills { 0 } else { keys.min(most) };
    let warmup_seconds = work.warmup_seconds.min(0.1);
    let mut made =
        Workload { rate: None, keys, rate_goal: None, soak: false, warmup_seconds, ..work.clone() };
    match (work.is_steady(), has(Operation::Delete)) {
        (true, false) => {
            made.seconds = Some(work.seconds.map_or(0.5, |seconds| seconds.min(0.5)));
            made.operations = work.operations.map(|count| count.max(COUNT));
        }
        (true, true) => {
            let most = COUNT.min(keys / 2).max(1);
            (made.seconds, made.operations) =
                (None, Some(work.operations.map_or(most, |count| count.min(most))));
        }
        (false, _) => made.operations = work.operations.map(|count| count.min(COUNT)),
    }
    made
}
