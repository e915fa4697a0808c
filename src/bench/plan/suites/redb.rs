//! The rows of the table in redb's README (its `redb-bench` crate, `lmdb_benchmark`): 24-byte random keys,
//! 150-byte values, every commit synced, one data set from the bulk load to the removals.
//!
//! What differs: the bulk load and the removals are commits of 50,000 pairs, theirs is one of all pairs;
//! operations scale with `--keys`. The time of the compaction, which their program prints but their table
//! does not have, is a row here; it includes the close.

use super::maker::{Maker, Rows, cell, group};
use crate::bench::{
    plan::options::{PlanError, Suite},
    result::{Access, Cell, Figure, Operation, Size, Step, Target, Workload},
};

/// Pairs of theirs; other counts are in proportion.
const KEYS: u64 = 5_000_000;
/// Pairs in a commit of the bulk load and of the removals.
const BULK: u32 = 50_000;
/// Pairs that one range read visits.
const SCAN: u32 = 10;

pub(super) fn cells(maker: &Maker<'_>) -> Result<Rows, PlanError> {
    maker.is_in_process(Suite::Redb)?;
    let mut cells = Vec::new();
    for target in maker.targets(Access::InProcess) {
        cells.extend(group(rows(maker, &target)));
    }
    Ok(("Row", cells))
}

fn rows(maker: &Maker<'_>, target: &Target) -> Vec<Cell> {
    let keys = maker.options.keys.unwrap_or(KEYS).max(100);
    let part = |divisor: u64| (keys / divisor).max(10);
    let row = |name: &str, operation, operations, threads, batch| {
        row(
            maker,
            target,
            name,
            Workload {
                operations: Some(operations),
                threads,
                batch,
                ..maker.workload(name, &[(operation, 1.0)], 0.0)
            },
        )
    };
    let step = |name: &str, step, figure| {
        let mut cell = row(name, Operation::Get, 1, 1, 1);
        (cell.workload.step, cell.figure) = (step, figure);
        cell.workload.mix.clear();
        cell
    };
    let (reads, scans) = (part(5), part(10));
    let mut rows = vec![
        row("bulk load", Operation::Insert, keys, 1, BULK),
        row("individual writes", Operation::Insert, part(5000), 1, 1),
        row("batch writes", Operation::Insert, part(50), 1, 1000),
        step("len()", Step::Count, Figure::Milliseconds),
        row("random reads", Operation::Get, reads, 1, 1),
        row("random reads (2nd)", Operation::Get, reads, 1, 1),
        row("random range reads", Operation::Scan, scans, 1, 1),
        row("random range reads (2nd)", Operation::Scan, scans, 1, 1),
    ];
    for threads in [4, 8, 16, 32] {
        rows.push(row(&format!("random reads ({threads} threads)"), Operation::Get, reads, threads, 1));
    }
    rows.push(row("removals", Operation::Delete, keys / 2, 1, BULK));
    rows.push(step("uncompacted size", Step::DiskSize, Figure::DiskBytes));
    rows.push(step("compaction", Step::Compact, Figure::Milliseconds));
    rows.push(step("compacted size", Step::DiskSize, Figure::DiskBytes));
    rows
}

/// A row by operation count, with redb's keys and values.
fn row(maker: &Maker<'_>, target: &Target, name: &str, workload: Workload) -> Cell {
    let workload = Workload {
        key_bytes: Size::Fixed(24),
        value_bytes: Size::Fixed(150),
        // Reads may be cut short; what changes the store is the same for all.
        seconds: maker.options.seconds.filter(|_| workload.is_steady()),
        scan_length: SCAN,
        warmup_seconds: 0.0,
        ..workload
    };
    Cell { figure: Figure::Milliseconds, ..cell("redb", target.clone(), workload, name) }
}
