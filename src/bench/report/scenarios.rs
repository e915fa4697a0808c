//! What people need a store for, and which cells tell how good one is at it.

use super::row::Entry;
use crate::bench::result::{
    CellKind, Operation,
    loss_class::Level,
    metric::{Metric, REOPEN, SPACE_AMPLIFICATION, THROUGHPUT},
};

/// A column of the matrix.
pub struct Scenario {
    /// Its heading.
    pub title: &'static str,
    /// Which cells count, in words.
    pub scope: &'static str,
    /// By what stores are compared.
    pub measure: &'static Metric,
    /// Which cells count.
    pub fits: fn(&Entry<'_>) -> bool,
}

/// Share from which a workload counts as one kind of operation only.
const MOSTLY: f64 = 0.9;

/// Share above which a kind of operation counts beside others: a little more than the rest of [`MOSTLY`],
/// since nine tenths of one kind and one of another have no exact fractions.
const SOME: f64 = 0.100_001;

/// All scenarios, in their order.
pub static SCENARIOS: [Scenario; 8] = [
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
        fits: |entry| is_warm(entry) && (entry.concurrent || (reads(entry) > SOME && writes(entry) > SOME)),
    },
    Scenario {
        title: "Durable",
        scope: "at least 90% writes, each on stable storage before it is acknowledged",
        measure: &THROUGHPUT,
        fits: |entry| is_warm(entry) && writes(entry) >= MOSTLY && !entry.concurrent && is_durable(entry),
    },
    Scenario {
        title: "Scan",
        scope: "at least 90% scans",
        measure: &THROUGHPUT,
        fits: |entry| is_warm(entry) && share(entry, &[Operation::Scan]) >= MOSTLY,
    },
    Scenario {
        title: "Cold",
        scope: "at least 90% reads and scans, the files out of the page cache at the start (--cold)",
        measure: &THROUGHPUT,
        fits: |entry| {
            tells_speed(entry)
                && entry.is_cold()
                && !entry.holds_all()
                && reads(entry) + share(entry, &[Operation::Scan]) >= MOSTLY
        },
    },
    Scenario {
        title: "Footprint",
        scope: "bytes on disk for each byte of keys and values",
        measure: &SPACE_AMPLIFICATION,
        fits: |entry| entry.tells_space(),
    },
    Scenario {
        title: "Recovery",
        scope: "time to open the files again; over the wire, to start a server with them",
        measure: &REOPEN,
        fits: |entry| entry.tells_size(),
    },
];

/// Whether its throughput is the store's: at a rate it is the rate.
pub fn tells_speed(entry: &Entry<'_>) -> bool {
    entry.cell.workload.rate.is_none()
}

/// Whether it is as fast as it could be with the page cache as it was.
fn is_warm(entry: &Entry<'_>) -> bool {
    tells_speed(entry) && !entry.is_cold()
}

fn is_durable(entry: &Entry<'_>) -> bool {
    Level::of(&entry.cell.target).is_durable()
}

/// The part of reads of single keys.
pub fn reads(entry: &Entry<'_>) -> f64 {
    share(entry, &[Operation::Get, Operation::GetMiss])
}

/// The part of writes.
pub fn writes(entry: &Entry<'_>) -> f64 {
    share(entry, &[Operation::Update, Operation::Insert, Operation::Delete, Operation::ReadModifyWrite])
}

/// The part of some kinds of operation in all. A step that is not made of operations has no part of any.
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
