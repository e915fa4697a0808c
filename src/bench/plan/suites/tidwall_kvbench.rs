//! The table of tidwall's KVBench: SET and GET with `redis-benchmark`'s keys and values, for every store,
//! pipeline depth, number of clients and durability. Over the wire by nature.

use super::{
    cell_builder::{CellBuilder, Rows},
    cells::{cell, group},
};
use crate::{
    bench::{
        plan::options::Durability,
        result::{Access, Cell, Operation, Size, Target, Workload, loss_class::Level},
    },
    engine::Fsync,
};

/// Of its rows.
pub(super) const HEADING: &str = "Store | Pipeline | Clients | Persist | Fsync";
/// Requests in a pipeline, and clients.
const LOADS: [(u32, u32); 4] = [(1, 1), (1, 256), (256, 1), (256, 256)];
/// Length of a measurement where the options give none. The seed sends a million requests, which a
/// synced write with one client would take many minutes for.
const SECONDS: f64 = 10.0;

pub(super) fn cells(maker: &CellBuilder<'_>) -> Rows {
    let mut cells = Vec::new();
    let targets = maker.targets(Access::Wire);
    for (pipeline, clients) in LOADS {
        for target in &targets {
            cells.extend(pair(maker, target, pipeline, clients));
        }
    }
    (HEADING, cells)
}

/// The row of a store, a pipeline and a number of clients.
pub(super) fn row(target: &Target, pipeline: u32, clients: u32) -> String {
    let (persist, fsync) = match Level::of(target).durability {
        None => ("?", "?"),
        Some(Durability::Memory) => ("no", "no"),
        Some(Durability::Files(Fsync::Always)) => ("yes", "yes"),
        Some(Durability::Files(fsync)) => ("yes", fsync.as_str()),
    };
    format!("{} | {pipeline} | {clients} | {persist} | {fsync}", target.store)
}

/// SET and GET of one row. The GETs find what was loaded: the seed's random GETs of a partly filled store
/// count a miss as a success.
fn pair(maker: &CellBuilder<'_>, target: &Target, pipeline: u32, clients: u32) -> Vec<Cell> {
    let row = row(target, pipeline, clients);
    let make = |name: &str, operation| {
        let workload = Workload {
            keys: maker.options.keys.unwrap_or(1_000_000).max(1),
            value_bytes: Size::Fixed(3),
            threads: clients,
            batch: pipeline,
            ..maker.workload(name, &[(operation, 1.0)], SECONDS)
        };
        Cell {
            row: row.clone(),
            column: format!("{}/sec", name.to_uppercase()),
            ..cell("kvbench", target.clone(), workload, name)
        }
    };
    group(vec![make("set", Operation::Update), make("get", Operation::Get)])
}
