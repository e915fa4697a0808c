//! YCSB's core workloads (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010), with
//! YCSB's record of 1000 bytes in one value, scans of 1 to 100 records, and keys that are inserted in the order
//! of their hashes, in workload E too (YCSB's `insertorder=hashed`).
//!
//! Difference: an update writes the whole record. YCSB's default writes one of ten fields
//! (`writeallfields=false`), which is a write of the whole record too for a store that does not know fields.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, count, headed},
};
use crate::bench::{
    plan::options::{Options, PlanError, Rows},
    result::{
        Operation::{self, Get, Insert, ReadModifyWrite, Scan, Update},
        Order, Size, Workload,
    },
};

const KEYS: u64 = 1_000_000;
const SECONDS: f64 = 10.0;
/// Maximum number of records of a scan.
const SCAN: u32 = 100;
/// Remark in the tables' headings: how updates differ from those of YCSB.
const WHOLE: &str = "updates write the whole record, not one of its ten fields";

struct Core {
    name: &'static str,
    mix: &'static [(Operation, f64)],
    order: Order,
}

const ZIPFIAN: Order = Order::Zipfian(0.99);
const CORES: [Core; 6] = [
    Core { name: "a", mix: &[(Get, 0.5), (Update, 0.5)], order: ZIPFIAN },
    Core { name: "b", mix: &[(Get, 0.95), (Update, 0.05)], order: ZIPFIAN },
    Core { name: "c", mix: &[(Get, 1.0)], order: ZIPFIAN },
    Core { name: "d", mix: &[(Get, 0.95), (Insert, 0.05)], order: Order::Latest },
    Core { name: "e", mix: &[(Scan, 0.95), (Insert, 0.05)], order: ZIPFIAN },
    Core { name: "f", mix: &[(Get, 0.5), (ReadModifyWrite, 0.5)], order: ZIPFIAN },
];

pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    Ok(over(options, KEYS))
}

/// Returns the cells with the paper's number of records per server: 120 million on six servers.
pub(super) fn published(options: &Options) -> Result<Rows, PlanError> {
    Ok(over(options, 20_000_000))
}

/// Returns the cells over `records` records, or over `--keys` records.
fn over(options: &Options, records: u64) -> Rows {
    let builder = CellBuilder { options };
    let mut cells = Vec::new();
    for target in builder.targets() {
        let shape = |workload: Workload| Workload {
            key_bytes: Size::Fixed(24),
            value_bytes: Size::Fixed(1000),
            scan_length: SCAN,
            random_scan_length: true,
            ..workload
        };
        let keys = options.keys.unwrap_or(records).max(1);
        let loaded = builder.writes(&target, keys);
        let mut of_target = vec![cell(
            builder.suite(),
            target.clone(),
            shape(builder.by_count("load", Insert, loaded)),
            "load",
        )];
        for core in CORES {
            let workload = shape(builder.workload(&format!("ycsb-{}", core.name), core.mix, SECONDS));
            let workload = Workload { keys, order: core.order, ..workload };
            of_target.push(cell(builder.suite(), target.clone(), workload, core.name));
        }
        let heading = format!("load of {}, others over {} records; {WHOLE}", count(loaded), count(keys));
        cells.extend(headed(of_target, &heading));
    }
    ("Workload", cells)
}
