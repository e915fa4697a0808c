//! The experiment in the README of tidwall's KVBench: a million SETs into an empty store, then a million
//! GETs, over the wire, with Redis among the stores.
//!
//! Differences: KVBench draws its keys at random, so 37% of the SETs write a key that exists already, and as
//! many GETs find no key. Here every key is set once, in a scattered order, and every GET finds a key.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, group},
    tidwall_kvbench::{HEADING, row},
};
use crate::bench::{
    plan::options::{Options, PlanError, Rows},
    result::{Cell, Operation, Size, Target, Workload},
};

/// Pipeline depth and number of clients of each row.
const LOADS: [(u32, u32); 3] = [(1, 1), (1, 256), (256, 256)];
/// Default number of SETs, and of GETs.
const REQUESTS: u64 = 1_000_000;

pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    let builder = &CellBuilder { options };
    let targets = [builder.targets(), builder.redis()].concat();
    let rows = LOADS.iter().flat_map(|load| targets.iter().map(move |target| (target, *load)));
    Ok((HEADING, rows.flat_map(|(target, load)| pair(builder, target, load)).collect()))
}

fn pair(builder: &CellBuilder<'_>, target: &Target, (pipeline, clients): (u32, u32)) -> Vec<Cell> {
    let requests = builder.options.keys.unwrap_or(REQUESTS).max(1);
    let make = |name: &str, operation| {
        let workload = Workload {
            value_bytes: Size::Fixed(3),
            threads: clients,
            batch: pipeline,
            ..builder.by_count(name, operation, requests)
        };
        Cell {
            row: row(target, pipeline, clients),
            column: format!("{}/sec", name.to_uppercase()),
            ..cell(builder.suite(), target.clone(), workload, name)
        }
    };
    group(vec![make("set", Operation::Insert), make("get", Operation::Get)])
}
