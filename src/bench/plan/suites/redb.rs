//! The rows of the table in redb's README (its `redb-bench` crate, `lmdb_benchmark`), and further rows of
//! that program: 24-byte random keys, 150-byte values, every commit synced, one data set from the bulk load
//! to the last removals. All counts scale with `--keys`.
//!
//! Before sizes are taken, the row `refill` inserts as many pairs as `retain` has removed; redb's program also
//! inserts them, without a row. Sizes and the compaction precede `pop`: stores without key order cannot pop.
//!
//! Differences: large commits (bulk load, removals, `retain`, `refill`, `pop`) have 50,000 pairs each, in
//! redb's program all pairs. Its `pop` removes from both ends in turn; here always the first key. Here
//! `retain` keeps random pairs; there every other pair. The time of the compaction, which redb's program prints but
//! its table lacks, is a row here; it includes the close.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, group},
};
use crate::{
    bench::{
        plan::options::{Durability, Options, PlanError, Rows},
        result::{Cell, CellKind, Figure, Operation, Order, Size, Target, Workload, comparability::Level},
    },
    engine::Fsync,
};

/// Number of pairs in redb's bulk load; other counts are in proportion.
const KEYS: u64 = 5_000_000;
/// Number of pairs per commit of the bulk load and of the removals.
const BULK: u32 = 50_000;
/// Number of pairs per range read.
const SCAN: u32 = 10;

pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    let builder = &CellBuilder { options };
    let mut cells = Vec::new();
    for target in builder.targets() {
        cells.extend(group(Table { builder, target }.rows()));
    }
    Ok(("Row", cells))
}

/// Builder of the rows of one store.
struct Table<'m> {
    builder: &'m CellBuilder<'m>,
    target: Target,
}

impl Table<'_> {
    fn rows(&self) -> Vec<Cell> {
        let keys = self.builder.options.keys.unwrap_or(KEYS).max(100);
        let part = |divisor: u64| (keys / divisor).max(10);
        let (single, batches, unsynced) = (part(5000), part(50), part(100));
        let (reads, scans, all) = (part(5), part(10), keys + single + batches + unsynced);
        let mut rows = vec![
            self.row("bulk load", Operation::Insert, keys, 1, BULK),
            self.row("individual writes", Operation::Insert, single, 1, 1),
            self.row("batch writes", Operation::Insert, batches, 1, 1000),
            self.unsynced("nosync writes", unsynced),
            self.step("len()", CellKind::Count, Figure::Milliseconds),
            self.reads("random reads", Operation::Get, reads, 1),
            self.reads("random reads (2nd)", Operation::Get, reads, 1),
            self.reads("random range reads", Operation::Scan, scans, 1),
            self.reads("random range reads (2nd)", Operation::Scan, scans, 1),
        ];
        for threads in [4, 8, 16, 32] {
            let mut row =
                self.reads(&format!("random reads ({threads} threads)"), Operation::Get, all, threads);
            // Sequential key numbers, so that each key is read once; key bytes are a hash of the number, so
            // the order is random.
            row.workload.order = Order::Sequential;
            rows.push(row);
        }
        rows.push(self.row("removals", Operation::Delete, all / 2, 1, BULK));
        rows.push(self.removal("retain", CellKind::Retain, 0));
        // `retain` removes about half of the pairs that the removals have left.
        rows.push(self.row("refill", Operation::Insert, (all - all / 2) / 2, 1, BULK));
        rows.push(self.step("uncompacted size", CellKind::DiskSize, Figure::DiskBytes));
        rows.push(self.step("compaction", CellKind::Compact, Figure::Milliseconds));
        rows.push(self.step("compacted size", CellKind::DiskSize, Figure::DiskBytes));
        // Last: a store without key order has no first key, and would keep other contents than the other
        // stores.
        rows.push(self.removal("pop", CellKind::Pop, part(10)));
        rows
    }

    /// Returns a row that ends after `operations` operations, with redb's sizes of keys and values.
    fn row(&self, name: &str, operation: Operation, operations: u64, threads: u32, batch: u32) -> Cell {
        let workload = self.builder.workload(name, &[(operation, 1.0)], 0.0);
        let workload = Workload {
            operations: Some(operations),
            threads,
            batch,
            key_bytes: Size::Fixed(24),
            value_bytes: Size::Fixed(150),
            // The metric is the time of a fixed number of operations, so no time limit may cut it.
            seconds: None,
            scan_length: SCAN,
            warmup_seconds: 0.0,
            ..workload
        };
        let cell = cell(self.builder.suite(), self.target.clone(), workload, name);
        Cell { figure: Figure::Milliseconds, ..cell }
    }

    /// Returns a row of gets or scans. Each thread makes all of them in one read transaction, as in redb's program, if the
    /// engine has one to offer ([`crate::engine::Engine::snapshot`]).
    fn reads(&self, name: &str, operation: Operation, operations: u64, threads: u32) -> Cell {
        let mut row = self.row(name, operation, operations, threads, 1);
        row.workload.one_snapshot = true;
        row
    }

    /// Returns a row that measures a single action instead of a mix of operations.
    fn step(&self, name: &str, step: CellKind, figure: Figure) -> Cell {
        let mut cell = self.row(name, Operation::Get, 1, 1, 1);
        (cell.workload.step, cell.figure) = (step, figure);
        cell.workload.mix.clear();
        cell
    }

    fn removal(&self, name: &str, step: CellKind, operations: u64) -> Cell {
        let mut cell = self.step(name, step, Figure::Milliseconds);
        (cell.workload.operations, cell.workload.batch) = (Some(operations), BULK);
        cell
    }

    /// Returns a row of writes under the fsync policy `no`, among rows of a store that syncs every commit. Under
    /// `--may-lose`, the policy stays that of the store.
    fn unsynced(&self, name: &str, operations: u64) -> Cell {
        let mut row = self.row(name, Operation::Insert, operations, 1, 1);
        if Level::of(&self.target).is_durable() && self.target.may_lose.is_none() {
            let target = self.builder.at(&self.target, Durability::Files(Fsync::No));
            row = Cell { figure: row.figure, ..cell(self.builder.suite(), target, row.workload, name) };
            row.id += "/among-synced";
        }
        row
    }
}
