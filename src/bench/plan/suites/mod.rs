//! Suites: each turns the user's options into cells, mostly those of a published benchmark.

mod cell_builder;
mod cell_transforms;
mod custom;
mod harness_overhead;
mod publications;
mod redb;
mod smallnest_kvbench;
mod storage;
mod tidwall_kvbench;
mod unused_flags;
mod ycsb;

use super::{
    options::{Options, PlanError, Suite},
    unsupported,
};
use crate::bench::result::{Cell, Workload, comparison_level::Level};
use cell_builder::{CellBuilder, is_asked_for};
use cell_transforms::{at_rates, is_alone_and_steady, of_both_programs, of_workloads, while_cold};
pub use publications::made_blocks;
pub use unused_flags::refuse_ignored;

/// Cells of a benchmark run, and the stores that have none.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Heading of the tables' column of row names.
    pub row_heading: String,
    /// The cells, in the order in which tables show and the run measures them.
    pub cells: Vec<Cell>,
    /// Sentences about the stores that have no cells at some durability, each with the reason.
    pub left_out: Vec<String>,
}

/// Shortest measurement under `everysec` that a timer of one second syncs at least twice, in seconds.
pub const LEAST_EVERYSEC: f64 = 3.0;

/// Returns `true` if a cell is measured under the fsync policy `everysec`.
pub fn any_everysec(cells: &[Cell]) -> bool {
    cells.iter().any(|cell| Level::of(&cell.target).is_everysec())
}

/// Makes a workload with a time limit last at least [`LEAST_EVERYSEC`]. All cells of a run have the same
/// limit, since cells of different lengths may not be compared.
fn last_for_syncs(workload: &mut Workload) {
    workload.seconds = workload.seconds.map(|seconds| seconds.max(LEAST_EVERYSEC));
}

/// Returns the cells that `options` ask for, with those that measure the harness overhead.
///
/// # Errors
///
/// Returns a [`PlanError`] if the options cannot be measured.
pub fn plan(options: &Options) -> Result<Plan, PlanError> {
    let maker = CellBuilder { options };
    maker.check_stores()?;
    let (row_heading, cells) = match options.suite {
        None => custom::cells(&maker)?,
        Some(Suite::Kvbench) => tidwall_kvbench::cells(&maker),
        Some(Suite::Smallnest) => smallnest_kvbench::cells(&maker),
        Some(Suite::Xdag) => smallnest_kvbench::xdag(&maker)?,
        Some(Suite::Ycsb) => ycsb::cells(&maker),
        Some(Suite::Redb) => redb::cells(&maker)?,
        Some(Suite::Storage) => storage::cells(&maker)?,
        Some(Suite::Reproduction(publication)) => publications::cells(&maker, publication)?,
    };
    let mut cells = at_rates(of_workloads(cells, options)?, &options.rates);
    if options.conduct.cold {
        cells = while_cold(cells);
    }
    if any_everysec(&cells) {
        cells.iter_mut().for_each(|cell| last_for_syncs(&mut cell.workload));
    }
    match (&options.duel, options.suite) {
        (None, _) => cells.extend(harness_overhead::floors(&maker, &cells)),
        (Some(_), None) => cells = of_both_programs(cells),
        (Some(_), Some(suite)) => {
            cells.retain(is_alone_and_steady);
            if cells.is_empty() {
                return Err(PlanError::NothingAlone(suite.name()));
            }
            cells = of_both_programs(cells);
        }
    }
    let mut reasons = maker.left_out();
    let mut plan = Plan { row_heading: row_heading.into(), cells, left_out: reasons.clone() };
    let wanted = |cell: &&Cell| !cell.reference || is_asked_for(options);
    let obstacles: Vec<_> = plan.cells.iter().filter(wanted).map(unsupported::unsupported_reason).collect();
    if obstacles.iter().all(Option::is_some) {
        for obstacle in obstacles.into_iter().flatten() {
            if !reasons.contains(&obstacle) {
                reasons.push(obstacle);
            }
        }
        return Err(PlanError::Nothing(reasons.join("; ")));
    }
    plan.cells.iter_mut().for_each(|cell| cell.workload.seed = options.seed);
    Ok(plan)
}
