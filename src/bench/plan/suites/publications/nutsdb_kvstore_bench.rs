//! kvstore-bench: one thread that puts values of 64 to 512 bytes, gets, and scans by range and by prefix;
//! time, bytes and allocations of each operation.
//!
//! In the publication, Go's `testing` chooses for each store how many operations it does in about a second.
//! Here the number is the same for all stores. The publication does not state the length of keys, the number
//! of keys to read, or the number of pairs per scan: here they are 16 bytes, the number of keys that were
//! put, and 10.

use super::super::cells::{cell, group};
use crate::bench::{
    plan::suites::cell_builder::{CellBuilder, Rows},
    result::{Access, Cell, Operation, Size, Target, Workload},
};

/// Value sizes of the puts, in bytes.
const PUTS: [u32; 4] = [64, 128, 256, 512];
/// Value size in bytes of the benchmarks whose name states none.
const VALUE: u32 = 64;
/// Default number of keys to put.
const KEYS: u64 = 100_000;
/// Number of gets per key.
const GETS: u64 = 10;
/// Number of pairs per scan.
const SCANNED: u32 = 10;
/// Length in bytes of a scan prefix: all but the last of the 8 bytes that hold a key's number, so 256 keys
/// share a prefix.
const PREFIX: u32 = 7;

pub(super) fn cells(maker: &CellBuilder<'_>) -> Rows {
    let targets = maker.targets(Access::InProcess);
    ("Benchmark", targets.iter().flat_map(|target| Benchmarks { maker, target }.cells()).collect())
}

/// The benchmarks of one store.
struct Benchmarks<'m> {
    maker: &'m CellBuilder<'m>,
    target: &'m Target,
}

impl Benchmarks<'_> {
    fn cells(&self) -> Vec<Cell> {
        let keys = self.maker.options.keys.unwrap_or(KEYS).max(1);
        let written = self.maker.writes(self.target, keys);
        let put = |bytes| {
            let name = format!("PutValue{bytes}B");
            let put = Workload {
                value_bytes: Size::Fixed(bytes),
                ..self.workload(&name, Operation::Insert, written)
            };
            group(self.with_count(put))
        };
        let read = |name: &str, operation, operations| Workload {
            keys,
            ..self.workload(name, operation, operations)
        };
        let prefix = read("PrefixScans", Operation::Scan, keys);
        let reads = [
            read("Get", Operation::Get, keys * GETS),
            read("RangeScans", Operation::Scan, keys),
            Workload { prefix_bytes: Some(PREFIX), ..prefix },
        ];
        let reads = group(reads.into_iter().flat_map(|read| self.with_count(read)).collect());
        PUTS.into_iter().flat_map(put).chain(reads).collect()
    }

    fn workload(&self, name: &str, operation: Operation, operations: u64) -> Workload {
        Workload {
            value_bytes: Size::Fixed(VALUE),
            threads: 1,
            scan_length: SCANNED,
            hashed_keys: false,
            ..self.maker.by_count(name, operation, operations)
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
        cell(self.maker.suite(), self.target.clone(), workload, &row)
    }
}
