//! The table of tidwall's KVBench: SET and GET with the keys and values of `redis-benchmark`, for every
//! store, pipeline depth, number of clients and durability; always over the wire.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, group},
};
use crate::{
    bench::{
        plan::options::{Durability, Options, PlanError, Rows},
        result::{Cell, Operation, Size, Target, Workload, comparability::Level},
    },
    engine::Fsync,
};

/// Heading of the tables' column of row names, and the parts of a row name.
pub(super) const HEADING: &str = "Store | Pipeline | Clients | Persist | Fsync";
/// Pipeline depth and number of clients of each row.
const LOADS: [(u32, u32); 4] = [(1, 1), (1, 256), (256, 1), (256, 256)];
/// Default duration of a measurement in seconds. KVBench sends a million requests, which would take many
/// minutes with synced writes and one client.
const SECONDS: f64 = 10.0;

pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    let builder = CellBuilder { options };
    let mut cells = Vec::new();
    let targets = builder.targets();
    for (pipeline, clients) in LOADS {
        for target in &targets {
            cells.extend(pair(&builder, target, pipeline, clients));
        }
    }
    Ok((HEADING, cells))
}

/// Returns the row name of a store, a pipeline depth and a number of clients.
pub(super) fn row(target: &Target, pipeline: u32, clients: u32) -> String {
    let (persist, fsync) = match Level::of(target).durability {
        None => ("?", "?"),
        Some(Durability::Memory) => ("no", "no"),
        Some(Durability::Files(Fsync::Always)) => ("yes", "yes"),
        Some(Durability::Files(fsync)) => ("yes", fsync.as_str()),
    };
    format!("{} | {pipeline} | {clients} | {persist} | {fsync}", target.store)
}

/// Returns the SET and the GET cell of one row. Every GET finds a loaded key: KVBench's random GETs of a
/// partly filled store count a miss as a success.
fn pair(builder: &CellBuilder<'_>, target: &Target, pipeline: u32, clients: u32) -> Vec<Cell> {
    let row = row(target, pipeline, clients);
    let make = |name: &str, operation| {
        let workload = Workload {
            keys: builder.options.keys.unwrap_or(1_000_000).max(1),
            value_bytes: Size::Fixed(3),
            threads: clients,
            batch: pipeline,
            ..builder.workload(name, &[(operation, 1.0)], SECONDS)
        };
        Cell {
            row: row.clone(),
            column: format!("{}/sec", name.to_uppercase()),
            ..cell(builder.suite(), target.clone(), workload, name)
        }
    };
    group(vec![make("set", Operation::Update), make("get", Operation::Get)])
}
