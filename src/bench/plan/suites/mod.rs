//! Suites: each turns the user's options into cells, mostly those of a published benchmark. [`SUITES`] is the list of
//! all.

mod cell_builder;
mod cell_transforms;
mod custom;
mod harness_overhead;
mod nutsdb_kvstore_bench;
mod redb;
mod smallnest_kvbench;
mod storage;
mod tidwall_kvbench;
mod tidwall_readme;
mod unused_flags;
mod xdag;
mod xdag_blocks;
mod ycsb;

use super::{
    options::{Durability, Gate, Options, PlanError, Suite},
    unsupported,
};
use crate::{
    bench::result::{Access, Cell, Workload, comparability::Level, number_format},
    engine::{Fsync, synthetic},
};
use cell_builder::{CellBuilder, names_noop_engine};
pub use cell_transforms::is_alone_and_steady;
use cell_transforms::{at_rates, of_both_programs, of_workloads, while_cold};
pub use unused_flags::{can_take_turns, refuse_ignored};

const ALWAYS: Durability = Durability::Files(Fsync::Always);
const EVERYSEC: Durability = Durability::Files(Fsync::EverySec);
const NO: Durability = Durability::Files(Fsync::No);

/// All suites, then all publications, in the order in which the help shows them.
pub static SUITES: &[Suite] = &[
    Suite {
        access: Some(Access::Wire),
        ..Suite::new(
            "kvbench",
            "SET and GET over the wire, with 1 and 256 clients and pipelines (tidwall's KVBench)",
            tidwall_kvbench::cells,
        )
    },
    Suite {
        mean_latency: true,
        ..Suite::new(
            "smallnest",
            "Set, get, both at the same time, delete, batches, with ascending keys, in process (smallnest's fork)",
            smallnest_kvbench::cells,
        )
    },
    Suite {
        access: Some(Access::InProcess),
        generated_data: Some(xdag_blocks::generated_for_suite),
        mean_latency: true,
        ..Suite::new(
            "xdag",
            "The work of smallnest over blocks of 512 bytes from a file (XDAG KV Bench)",
            smallnest_kvbench::xdag,
        )
    },
    Suite {
        default_fsync: &[ALWAYS, EVERYSEC, NO],
        ..Suite::new(
            "ycsb",
            "Load, and the core workloads A to F of YCSB over records of 1,000 bytes",
            ycsb::cells,
        )
    },
    Suite {
        default_fsync: &[ALWAYS],
        access: Some(Access::InProcess),
        ..Suite::new(
            "redb",
            "The rows of the table in redb's README: loads, batches, reads, deletes, compaction",
            redb::cells,
        )
    },
    Suite {
        default_fsync: &[ALWAYS, NO],
        access: Some(Access::InProcess),
        ..Suite::new(
            "storage",
            "Sizes on disk, bytes written and read, recovery after a kill (device bytes need root)",
            storage::cells,
        )
    },
    Suite {
        access: Some(Access::Wire),
        program: Some("redis-server"),
        published: Some(include_str!("published/kvbench.json")),
        ..Suite::new(
            "reproduce-kvbench",
            "tidwall's KVBench: SET and GET over the wire, with redis",
            tidwall_readme::cells,
        )
    },
    Suite {
        default_fsync: &[ALWAYS, NO],
        access: Some(Access::InProcess),
        published: Some(include_str!("published/kvstore-bench.json")),
        ..Suite::new(
            "reproduce-kvstore-bench",
            "kvstore-bench of NutsDB's authors: puts, gets and scans, with allocations",
            nutsdb_kvstore_bench::cells,
        )
    },
    Suite {
        published: Some(include_str!("published/smallnest.json")),
        ..Suite::new(
            "reproduce-smallnest",
            "smallnest's kvbench: throughput and time of five cases, with charts",
            smallnest_kvbench::published,
        )
    },
    Suite {
        default_fsync: &[ALWAYS],
        access: Some(Access::InProcess),
        generated_data: Some(xdag_blocks::generated_for_publication),
        published: Some(include_str!("published/xdag.json")),
        ..Suite::new("reproduce-xdag", "XDAG KV Bench: blocks of 512 bytes, two sizes", xdag::cells)
    },
    Suite {
        default_fsync: &[ALWAYS],
        access: Some(Access::InProcess),
        cache_bytes: Some(4 << 30),
        published: Some(include_str!("published/redb.json")),
        ..Suite::new("reproduce-redb", "The table of redb's README", redb::cells)
    },
    Suite {
        default_fsync: &[ALWAYS, NO],
        published: Some(include_str!("published/ycsb.json")),
        ..Suite::new("reproduce-ycsb", "YCSB's core workloads over 20 GB", ycsb::published)
    },
];

/// Returns the suite or publication with this name in result files, or `None` if there is none.
pub fn find(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

/// Returns the suites of `kvbench bench --suite`.
pub fn bench_suites() -> impl Iterator<Item = &'static Suite> + Clone {
    SUITES.iter().filter(|suite| suite.published.is_none())
}

/// Returns the publications of `kvbench reproduce`.
pub fn publications() -> impl Iterator<Item = &'static Suite> + Clone {
    SUITES.iter().filter(|suite| suite.published.is_some())
}

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
    let builder = CellBuilder { options };
    builder.check()?;
    let (row_heading, cells) = match options.suite {
        None => custom::cells(&builder)?,
        Some(suite) => (suite.cells)(options)?,
    };
    let mut cells = at_rates(builder.allowed(of_workloads(cells, options)?), &options.rates);
    if options.conditions.cold {
        cells = while_cold(cells);
    }
    if any_everysec(&cells) {
        cells.iter_mut().for_each(|cell| last_for_syncs(&mut cell.workload));
    }
    match (&options.duel, options.suite) {
        (None, _) => cells.extend(harness_overhead::overhead_cells(&builder, &cells)),
        (Some(_), None) => cells = of_both_programs(cells),
        (Some(_), Some(suite)) => {
            if !options.workloads.is_empty() && !cells.iter().all(is_alone_and_steady) {
                let reason = "a workload of --workloads only fills or empties the store; leave it out";
                return Err(PlanError::NotInDuel(reason));
            }
            cells.retain(is_alone_and_steady);
            if cells.is_empty() {
                return Err(PlanError::NothingAlone(suite.name));
            }
            cells = of_both_programs(cells);
        }
    }
    if options.duel.is_some() {
        cells.iter_mut().for_each(|cell| cell.workload.counts_instructions = true);
    }
    if options.gates.contains(&Gate::Allocations) {
        for cell in &mut cells {
            let info = synthetic::info(&cell.target.store);
            cell.workload.counts_allocations = info.is_some_and(|info| info.capabilities.counts_allocations);
        }
    }
    let mut reasons = builder.left_out(&cells);
    let mut plan = Plan { row_heading: row_heading.into(), cells, left_out: reasons.clone() };
    let wanted = |cell: &&Cell| !cell.reference || names_noop_engine(options);
    let obstacles: Vec<_> = plan.cells.iter().filter(wanted).map(unsupported::unsupported_reason).collect();
    if obstacles.iter().all(Option::is_some) {
        let is_new = |obstacle: &String| !plan.left_out.contains(obstacle);
        reasons.extend(number_format::distinct(obstacles.into_iter().flatten().filter(is_new)));
        return Err(PlanError::Nothing(reasons.join("; ")));
    }
    plan.cells.iter_mut().for_each(|cell| cell.workload.seed = options.seed);
    Ok(plan)
}
