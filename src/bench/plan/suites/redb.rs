//! The rows of the table in redb's README (its `redb-bench` crate, `lmdb_benchmark`), and those that its program has
//! beside: 24-byte random keys, 150-byte values, every commit synced, one data set from the bulk load to the last
//! removals. All counts scale with `--keys`.
//!
//! Sizes and the compaction stand after `retain`, before `pop`: stores without order cannot pop.
//!
//! What differs: large commits (bulk load, removals, `retain`, `pop`) are of 50,000 pairs each, theirs are of all
//! pairs. Theirs pops from both ends in turn; here it is always the first key. What `retain` keeps is drawn by
//! chance, theirs is every other pair. After these two theirs fills the table again. The time of the compaction,
//! which their program prints but their table does not have, is a row here; it includes the close.

use super::{
    cell_builder::{CellBuilder, Rows},
    cells::{cell, group},
};
use crate::{
    bench::{
        plan::options::{Durability, PlanError, Suite},
        result::{
            Access, Cell, CellKind, Figure, Operation, Order, Size, Target, Workload, loss_class::Level,
        },
    },
    engine::Fsync,
};

/// Pairs of their bulk load; other counts are in proportion.
const KEYS: u64 = 5_000_000;
/// Pairs in a commit of the bulk load and of the removals.
const BULK: u32 = 50_000;
/// Pairs that one range read visits.
const SCAN: u32 = 10;

pub(super) fn cells(maker: &CellBuilder<'_>) -> Result<Rows, PlanError> {
    maker.is_in_process(Suite::Redb)?;
    let mut cells = Vec::new();
    for target in maker.targets(Access::InProcess) {
        cells.extend(group(Table { maker, target }.rows()));
    }
    Ok(("Row", cells))
}

/// The rows of one store.
struct Table<'m> {
    maker: &'m CellBuilder<'m>,
    target: Target,
}

impl Table<'_> {
    fn rows(&self) -> Vec<Cell> {
        let keys = self.maker.options.keys.unwrap_or(KEYS).max(100);
        let part = |divisor: u64| (keys / divisor).max(10);
        let (single, batches, unsynced) = (part(5000), part(50), part(100));
        let (reads, scans, all) = (part(5), part(10), keys + single + batches + unsynced);
        let mut rows = vec![
            self.row("bulk load", Operation::Insert, keys, 1, BULK),
            self.row("individual writes", Operation::Insert, single, 1, 1),
            self.row("batch writes", Operation::Insert, batches, 1, 1000),
            self.unsynced("nosync writes", unsynced),
            self.step("len()", CellKind::Count, Figure::Milliseconds),
            self.row("random reads", Operation::Get, reads, 1, 1),
            self.row("random reads (2nd)", Operation::Get, reads, 1, 1),
            self.row("random range reads", Operation::Scan, scans, 1, 1),
            self.row("random range reads (2nd)", Operation::Scan, scans, 1, 1),
        ];
        for threads in [4, 8, 16, 32] {
            let mut row =
                self.row(&format!("random reads ({threads} threads)"), Operation::Get, all, threads, 1);
            // Each key once; their bytes are a hash of their numbers.
            row.workload.order = Order::Sequential;
            rows.push(row);
        }
        rows.push(self.row("removals", Operation::Delete, all / 2, 1, BULK));
        rows.push(self.removal("retain", CellKind::Retain, 0));
        rows.push(self.step("uncompacted size", CellKind::DiskSize, Figure::DiskBytes));
        rows.push(self.step("compaction", CellKind::Compact, Figure::Milliseconds));
        rows.push(self.step("compacted size", CellKind::DiskSize, Figure::DiskBytes));
        // Last: a store without order has no first key, and would be left with other contents than the others.
        rows.push(self.removal("pop", CellKind::Pop, part(10)));
        rows
    }

    /// A row by operation count, with redb's keys and values.
    fn row(&self, name: &str, operation: Operation, operations: u64, threads: u32, batch: u32) -> Cell {
        let workload = self.maker.workload(name, &[(operation, 1.0)], 0.0);
        let workload = Workload {
            operations: Some(operations),
            threads,
            batch,
            key_bytes: Size::Fixed(24),
            value_bytes: Size::Fixed(150),
            // Its figure is the time of so many operations: a clock must not cut it.
            seconds: None,
            scan_length: SCAN,
            warmup_seconds: 0.0,
            ..workload
        };
        let cell = cell(self.maker.suite(), self.target.clone(), workload, name);
        Cell { figure: Figure::Milliseconds, ..cell }
    }

    /// A row that is no mix of operations.
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

    /// Writes that do not wait for the disk, where the others do.
    fn unsynced(&self, name: &str, operations: u64) -> Cell {
        let mut row = self.row(name, Operation::Insert, operations, 1, 1);
        if Level::of(&self.target).is_durable() {
            let target = self.maker.at(&self.target, Durability::Files(Fsync::No));
            row = Cell { figure: row.figure, ..cell(self.maker.suite(), target, row.workload, name) };
            row.id += "/among-synced";
        }
        row
    }
}
