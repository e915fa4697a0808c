//! Sizes on disk, bytes written and read, and recovery: metrics for which all stores must have written the same
//! amount. Bytes of the device are counted on a device of the cell's own, where no time is measured.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, count, headed},
};
use crate::bench::{
    plan::options::{Durability, Options, PlanError, Rows},
    result::{Cell, CellKind, Figure, Operation, OwnDevice, Size, Target, Workload},
};

/// Default number of keys of the suite storage.
const KEYS: u64 = 1_000_000;
/// Read-ahead in KiB with which Linux sets up most devices.
const USUAL_READ_AHEAD: u64 = 128;
/// Divisor of the number of keys for the smaller of the two recovery cells; the other one has all keys.
const FEWER: u64 = 4;

/// Returns the heading of the row names, and the cells of the suite for each store with files.
pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    let builder = &CellBuilder { options };
    let asked = &options.durabilities;
    if !asked.is_empty() && asked.iter().all(|durability| *durability == Durability::Memory) {
        return Err(PlanError::NoFiles);
    }
    let mut cells = Vec::new();
    for target in builder.targets().into_iter().filter(|target| target.persistent) {
        let keys = options.keys.unwrap_or(KEYS).max(FEWER);
        let overwritten = builder.writes(&target, keys);
        let rows = StoreRows { builder, target, keys, overwritten };
        let heading = format!("{} values overwritten of {} keys", count(overwritten), count(keys));
        cells.extend(headed(rows.all(), &heading));
    }
    Ok(("Row", cells))
}

/// Builder of the rows of one store.
struct StoreRows<'m> {
    builder: &'m CellBuilder<'m>,
    target: Target,
    keys: u64,
    /// Number of values that a cell overwrites, each in a commit of its own.
    overwritten: u64,
}

impl StoreRows<'_> {
    fn all(&self) -> Vec<Cell> {
        let machine = OwnDevice { read_ahead_kib: None };
        let usual = OwnDevice { read_ahead_kib: Some(USUAL_READ_AHEAD) };
        let mut rows = vec![Cell {
            own_device: Some(machine),
            figure: Figure::DiskBytes,
            ..self.row("overwrite", Operation::Update, self.keys, self.overwritten, &self.target)
        }];
        for target in CellBuilder::read_ahead_settings(self.target.clone()) {
            for (name, device) in [("get, cold", machine), ("get, cold, device read-ahead 128 KiB", usual)] {
                let reads = (self.keys / 20).max(100);
                let row = self.row(name, Operation::Get, self.keys, reads, &target);
                rows.push(Cell { own_device: Some(device), figure: Figure::DeviceReadBytes, ..row });
            }
        }
        for keys in [self.keys / FEWER, self.keys] {
            let name = format!("recovery of {} keys", count(keys));
            let writes = self.overwritten.min(keys);
            let mut row = self.row(&name, Operation::Update, keys, writes, &self.target);
            (row.workload.step, row.figure) = (CellKind::Recovery, Figure::Milliseconds);
            rows.push(row);
        }
        rows
    }

    /// Returns a row of `operations` operations over `keys` loaded keys, each chosen with equal probability.
    fn row(&self, name: &str, operation: Operation, keys: u64, operations: u64, target: &Target) -> Cell {
        let workload = Workload {
            keys,
            key_bytes: Size::Fixed(24),
            value_bytes: Size::Fixed(1000),
            ..self.builder.by_count(name, operation, operations)
        };
        cell(self.builder.suite(), target.clone(), workload, name)
    }
}
