//! kvstore-bench: one thread that puts values of 64 to 512 bytes, gets, and scans by range and by prefix;
//! time, bytes and allocations of each operation.
//!
//! Parameters are those of its program (github.com/xujiajun/gokvstore-bench): 11-byte keys in the order of their
//! numbers (`key_%07d`). The puts of each size after the first overwrite the keys of the first. Gets read one
//! key of 10,000, again and again. Scans start at one key: by range they visit two pairs, by prefix one.
//!
//! Differences: Go's `testing` chooses for each store how many operations it does in about a second; here the
//! number is the same for all stores. Before a put of 128 bytes or more, the keys have values of its size; there
//! they have values of the previous size. The key that is read has the number 0, there 99.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, group},
};
use crate::bench::{
    plan::options::{Options, PlanError, Rows},
    result::{Cell, Operation, Order, Size, Target, Workload},
};

/// Sizes in bytes of the values that are put; there is one benchmark for each.
const PUTS: [u32; 4] = [64, 128, 256, 512];
/// Size of the values, in bytes, in those benchmarks of kvstore-bench whose names state none.
const VALUE: u32 = 64;
/// Length of all keys of kvstore-bench, in bytes.
const KEY: u32 = 11;
/// Default number of keys that each put benchmark of kvstore-bench puts.
const KEYS: u64 = 100_000;
/// Divisor: the number of keys to put, divided by this, is the number of keys loaded before gets and scans.
const PUTS_PER_LOADED: u64 = 10;
/// Number of gets for each key to put.
const GETS: u64 = 10;
/// Key order in which all operations use one key.
const ONE_KEY: Order = Order::HotSet(0.0, 1.0);
/// Length in bytes of a scan prefix, which all keys share.
const PREFIX: u32 = 4;

pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    let builder = &CellBuilder { options };
    let targets = builder.targets();
    Ok(("Benchmark", targets.iter().flat_map(|target| Benchmarks { builder, target }.cells()).collect()))
}

/// Builder of the cells of one store.
struct Benchmarks<'m> {
    builder: &'m CellBuilder<'m>,
    target: &'m Target,
}

impl Benchmarks<'_> {
    fn cells(&self) -> Vec<Cell> {
        let keys = self.builder.options.keys.unwrap_or(KEYS).max(1);
        let written = self.builder.writes(self.target, keys);
        let put = |bytes| {
            let name = format!("PutValue{bytes}B");
            let put = match bytes == VALUE {
                true => self.workload(&name, Operation::Insert, written),
                false => Workload {
                    value_bytes: Size::Fixed(bytes),
                    keys: written,
                    order: Order::Sequential,
                    ..self.workload(&name, Operation::Update, written)
                },
            };
            group(self.with_count(put))
        };
        let read = |name: &str, operation, operations| Workload {
            keys: (keys / PUTS_PER_LOADED).max(1),
            order: ONE_KEY,
            ..self.workload(name, operation, operations)
        };
        let (range, prefix) =
            (read("RangeScans", Operation::Scan, keys), read("PrefixScans", Operation::Scan, keys));
        let reads = [
            read("Get", Operation::Get, keys * GETS),
            Workload { scan_length: 2, ..range },
            Workload { scan_length: 1, prefix_bytes: Some(PREFIX), ..prefix },
        ];
        let reads = group(reads.into_iter().flat_map(|read| self.with_count(read)).collect());
        PUTS.into_iter().flat_map(put).chain(reads).collect()
    }

    fn workload(&self, name: &str, operation: Operation, operations: u64) -> Workload {
        Workload {
            value_bytes: Size::Fixed(VALUE),
            key_bytes: Size::Fixed(KEY),
            threads: 1,
            hashed_keys: false,
            ..self.builder.by_count(name, operation, operations)
        }
    }

    /// Returns a cell that measures the time of `workload`, and a cell that counts the allocations of a tenth
    /// as many operations.
    fn with_count(&self, workload: Workload) -> Vec<Cell> {
        let operations = workload.operations.map(|count| (count / 10).max(1));
        let name = format!("{} allocations", workload.name);
        let counted = Workload { name, operations, counts_allocations: true, ..workload.clone() };
        [workload, counted].map(|work| self.cell(work)).into()
    }

    fn cell(&self, workload: Workload) -> Cell {
        let row = workload.name.clone();
        cell(self.builder.suite(), self.target.clone(), workload, &row)
    }
}
