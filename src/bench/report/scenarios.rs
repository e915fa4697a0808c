//! Scenarios: typical uses of a store, each with the cells and the metric by which stores are compared.

use super::measured_cell::Entry;
use crate::{
    bench::result::{
        Access, CellKind, Commits, Operation,
        comparability::Level,
        metric::{Metric, RECOVERY, REOPEN, SPACE_AMPLIFICATION, THROUGHPUT},
    },
    engine::LossClass,
};
use std::ptr;

/// Typical use of a store, such as "Read-heavy": a column of the report's matrix.
pub struct Scenario {
    /// Heading of the scenario's column in the matrix.
    pub title: &'static str,
    /// Description, for the report, of the workloads that belong to the scenario: those of the cells that `fits`
    /// selects.
    pub scope: &'static str,
    /// Metric by which stores are compared in the scenario.
    pub measure: &'static Metric,
    /// Predicate that returns `true` for cells of the scenario.
    pub fits: fn(&Entry<'_>) -> bool,
}

/// Minimum share of reads, writes or scans, from 0 to 1, in a workload that counts as consisting of them.
const MOSTLY: f64 = 0.9;

/// Share of reads and of writes, from 0 to 1, above which a workload counts as mixed. It is slightly more than 1 -
/// [`MOSTLY`], because the shares of a mix of 90% and 10% are not exact in floating point.
const MIXED: f64 = 0.100_001;

/// All scenarios, in the order of the matrix. Neighbours with one title are alternatives of one column, which shows the
/// first of them in which stores can be compared.
pub static SCENARIOS: [Scenario; 15] = [
    Scenario {
        title: "Read-heavy",
        scope: "at least 90% reads of single keys",
        measure: &THROUGHPUT,
        fits: |entry| is_warm(entry) && reads(entry) >= MOSTLY && !entry.concurrent,
    },
    Scenario {
        title: "Write-heavy",
        scope: "at least 90% writes, not synced one by one",
        measure: &THROUGHPUT,
        fits: |entry| is_warm(entry) && writes(entry) >= MOSTLY && !entry.concurrent && !is_durable(entry),
    },
    Scenario {
        title: "Mixed",
        scope: "more than 10% reads and more than 10% writes, or both at the same time",
        measure: &THROUGHPUT,
        fits: |entry| is_warm(entry) && (entry.concurrent || (reads(entry) > MIXED && writes(entry) > MIXED)),
    },
    Scenario {
        title: "Larger than memory",
        scope: "reads and writes with more data than memory, not synced one by one",
        measure: &THROUGHPUT,
        fits: |entry| is_larger_than_memory(entry) && !is_durable_write(entry),
    },
    Scenario {
        title: "Durable, one writer",
        scope: "at least 90% writes by one thread or client, each on stable storage before it is acknowledged",
        measure: &THROUGHPUT,
        fits: |entry| writes_durably(entry) && entry.cell.workload.threads == 1,
    },
    Scenario {
        title: "Durable, many writers",
        scope: "at least 90% durable writes by several threads, each of which commits its own",
        measure: &THROUGHPUT,
        fits: |entry| writes_durably(entry) && entry.cell.workload.threads > 1 && !is_grouped(entry),
    },
    Scenario {
        title: "Durable, group commit",
        scope: "at least 90% durable writes by several threads or clients, committed together by kvbench or by the server",
        measure: &THROUGHPUT,
        fits: |entry| writes_durably(entry) && entry.cell.workload.threads > 1 && is_grouped(entry),
    },
    Scenario {
        title: "Durable, larger than memory",
        scope: "durable writes, alone or with reads, with more data than memory",
        measure: &THROUGHPUT,
        fits: |entry| is_larger_than_memory(entry) && is_durable_write(entry),
    },
    Scenario {
        title: "Scan",
        scope: "at least 90% scans",
        measure: &THROUGHPUT,
        fits: |entry| is_closed_loop(entry) && !entry.is_cold() && share(entry, &[Operation::Scan]) >= MOSTLY,
    },
    Scenario {
        title: "Cold",
        scope: "at least 90% reads and scans, the files out of the page cache at the start (--cold); with data \
                that fit in memory, read-ahead looks faster, because all that it brings stays there",
        measure: &THROUGHPUT,
        fits: |entry| {
            is_closed_loop(entry)
                && entry.is_cold()
                && !entry.holds_all()
                && reads(entry) + share(entry, &[Operation::Scan]) >= MOSTLY
        },
    },
    Scenario {
        title: "Footprint",
        scope: "bytes on disk for each byte of keys and values, after at least as many values were overwritten as there \
                are keys",
        measure: &SPACE_AMPLIFICATION,
        fits: |entry| has_footprint(entry) && overwrites_all(entry),
    },
    Scenario {
        title: "Footprint",
        scope: "bytes on disk for each byte of keys and values, after values were overwritten or deleted",
        measure: &SPACE_AMPLIFICATION,
        fits: |entry| has_footprint(entry) && entry.overwrites(),
    },
    Scenario {
        title: "Footprint",
        scope: "bytes on disk for each byte of keys and values, of a freshly loaded store",
        measure: &SPACE_AMPLIFICATION,
        fits: |entry| has_footprint(entry) && !entry.overwrites(),
    },
    Scenario {
        title: "Recovery",
        scope: "time to open the store and read a key, after its process was killed under load, with a cold cache",
        measure: &RECOVERY,
        fits: |entry| entry.cell.workload.step == CellKind::Recovery,
    },
    Scenario {
        title: "Reopen",
        scope: "time to open a store again that had quiesced and was closed; over the wire, to start a server with its \
                files",
        measure: &REOPEN,
        fits: |entry| is_measured_as_usual(entry) && !entry.is_cold() && entry.shows_size(),
    },
];

impl Scenario {
    /// Returns the description of the compared workloads: `scope` and, for durable writes of more data than memory, how
    /// they are committed. `entry` is one of the compared cells, which all have the same commit path.
    pub fn scope_of(&self, entry: &Entry<'_>) -> String {
        let is_throughput = ptr::eq(self.measure, &THROUGHPUT);
        let commits = match is_grouped(entry) {
            true => "; the writes of all threads or clients share a commit",
            false => "; each thread commits its own writes",
        };
        let is_shown = is_throughput && is_larger_than_memory(entry) && is_durable_write(entry);
        format!("{}{}", self.scope, if is_shown { commits } else { "" })
    }

    /// Returns `true` if the loss bounds of the stores matter: a size on disk loses no writes, so it is compared whatever
    /// the stores lose.
    pub fn depends_on_loss(&self) -> bool {
        self.measure.name != SPACE_AMPLIFICATION.name
    }
}

/// Returns `true` if the throughput of the cell is a property of the store that may be compared with that of other
/// cells. In an open loop it is not: it is the given rate, or the one that was found (`--find-rate`). Nor is that of a
/// soak, which includes the work that the store deferred (`--minutes`).
pub fn is_closed_loop(entry: &Entry<'_>) -> bool {
    let work = &entry.cell.workload;
    work.rate.is_none() && is_measured_as_usual(entry)
}

/// Returns `false` for soaks and found rates: they run once, and longer than other cells.
pub fn is_measured_as_usual(entry: &Entry<'_>) -> bool {
    !entry.cell.workload.soak && entry.cell.workload.rate_goal.is_none()
}

/// Returns `true` for a closed-loop cell whose data fit in memory, and that was not measured with a cold cache.
fn is_warm(entry: &Entry<'_>) -> bool {
    is_closed_loop(entry) && !entry.is_cold() && !entry.exceeds_memory()
}

/// Returns `true` for a closed-loop cell of operations, less than 90% of them scans, whose data exceed the memory, and that
/// was not measured with a cold cache.
fn is_larger_than_memory(entry: &Entry<'_>) -> bool {
    is_closed_loop(entry)
        && !entry.is_cold()
        && entry.exceeds_memory()
        && share(entry, &[Operation::Scan]) < MOSTLY
        && reads(entry) + writes(entry) > 0.0
}

/// Returns `true` if the space amplification of the cell characterises the store, and was measured with a warm cache.
fn has_footprint(entry: &Entry<'_>) -> bool {
    is_measured_as_usual(entry) && !entry.is_cold() && entry.shows_space_amplification()
}

/// Returns `true` if the cell overwrites a planned number of values that is at least the number of keys, such as
/// `overwrite` of the suite storage. Of a cell that writes until a time is up, the number is not known in advance.
#[expect(clippy::cast_precision_loss, reason = "numbers of keys are far below 2^53")]
fn overwrites_all(entry: &Entry<'_>) -> bool {
    let work = &entry.cell.workload;
    let updates = share(entry, &[Operation::Update, Operation::ReadModifyWrite]);
    work.operations.is_some_and(|count| count as f64 * updates >= work.keys.max(1) as f64)
}

/// Returns `true` if the cell allows no loss of a write after a power cut: by `--may-lose` or, without it, by the fsync
/// policy.
fn is_durable(entry: &Entry<'_>) -> bool {
    let target = &entry.cell.target;
    target.may_lose.map_or(Level::of(target).is_durable(), |most| most.power_cut == LossClass::Nothing)
}

/// Returns `true` if the cell, or a cell that ran at the same time, writes, and no loss of a write is allowed.
fn is_durable_write(entry: &Entry<'_>) -> bool {
    is_durable(entry) && entry.may_lose()
}

/// Returns `true` for a closed-loop cell of at least 90% durable writes whose data fit in memory, and that was not measured
/// with a cold cache.
fn writes_durably(entry: &Entry<'_>) -> bool {
    is_warm(entry) && writes(entry) >= MOSTLY && !entry.concurrent && is_durable(entry)
}

/// Returns `true` if one thread commits the writes of all threads or clients. That is so in process with kvbench's
/// group commit, and always over the wire, where the server commits.
fn is_grouped(entry: &Entry<'_>) -> bool {
    let target = &entry.cell.target;
    target.access == Access::Wire || target.commits == Commits::Groups
}

/// Returns the share of single-key reads in all operations, from 0 to 1.
pub fn reads(entry: &Entry<'_>) -> f64 {
    share(entry, &[Operation::Get, Operation::GetMiss])
}

/// Returns the share of writes in all operations, from 0 to 1.
pub fn writes(entry: &Entry<'_>) -> f64 {
    share(entry, &[Operation::Update, Operation::Insert, Operation::Delete, Operation::ReadModifyWrite])
}

/// Returns the share of the operations `kinds` in all operations, from 0 to 1; 0 for a cell that does not
/// consist of operations, such as a count of keys.
fn share(entry: &Entry<'_>, kinds: &[Operation]) -> f64 {
    let work = &entry.cell.workload;
    if work.step != CellKind::Operations {
        return 0.0;
    }
    let mix = &work.mix;
    let all: f64 = mix.values().sum();
    let part: f64 = kinds.iter().filter_map(|kind| mix.get(kind)).sum();
    if all > 0.0 { part / all } else { 0.0 }
}
