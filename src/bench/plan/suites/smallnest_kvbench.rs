//! The cases of smallnest's kvbench and of its XDAG fork: set, get, get while another thread sets, delete,
//! and sets in batches of 1000. The originals end each case by time; here only cases that read end by time.
//! All stores are filled and emptied by the same number of keys, and all gets read the same keys.

use super::{
    cell_builder::{CellBuilder, Rows},
    cell_transforms::{cell, count, group, headed},
};
use crate::bench::{
    data::{self, RECORD_KEY, RECORD_VALUE},
    plan::options::{PlanError, Suite},
    result::{Access, Cell, CellKind, Operation, Order, Size, Target, Workload},
};
use std::collections::HashSet;

/// Default duration in seconds of a case that reads, as in the original.
const SECONDS: f64 = 60.0;
/// Default number of keys of the suites smallnest and xdag.
const KEYS: u64 = 1_000_000;
/// Row name of the case that sets keys in batches of 1000.
const BATCH: &str = "batch 1000";

pub(super) fn cells(maker: &CellBuilder<'_>) -> Rows {
    (HEADING, all(maker))
}

/// Heading of the tables' column of row names.
pub(super) const HEADING: &str = "Case";

/// Returns the heading of the row names, and the cells of smallnest's published experiment, which has no batches.
pub(super) fn published(maker: &CellBuilder<'_>) -> Rows {
    let cells = all(maker).into_iter().filter(|cell| cell.row != BATCH);
    (HEADING, cells.collect())
}

fn all(maker: &CellBuilder<'_>) -> Vec<Cell> {
    let shape = |workload: Workload| Workload {
        key_bytes: Size::Fixed(9),
        value_bytes: Size::Fixed(256),
        hashed_keys: false,
        ..workload
    };
    let keys = maker.options.keys.unwrap_or(KEYS).max(1);
    let cases = Cases { suite: maker.suite(), seconds: SECONDS, keys, shape: &shape };
    cases.cells(maker, maker.access())
}

/// Returns the heading of the row names, and the cells over pairs that are read from a file (`--data`); in each table,
/// one of them reads the file with one thread and without any store.
pub(super) fn xdag(maker: &CellBuilder<'_>) -> Result<Rows, PlanError> {
    maker.is_in_process(Suite::Xdag)?;
    let data = maker.options.data.as_ref().ok_or(PlanError::NoData)?;
    let pairs = data::pairs(data).map_err(|source| PlanError::BadData { path: data.clone(), source })?;
    let shape = |workload: Workload| Workload {
        key_bytes: Size::Fixed(RECORD_KEY as u32),
        value_bytes: Size::Fixed(RECORD_VALUE as u32),
        data: Some(data.display().to_string()),
        ..workload
    };
    let mut cells = Vec::new();
    let keys = maker.options.keys.unwrap_or(pairs).clamp(1, pairs);
    let cases = Cases { suite: "xdag", seconds: 10.0, keys, shape: &shape };
    let stores = cases.cells(maker, Access::InProcess);
    let mut tables = HashSet::new();
    for store in &stores {
        if tables.insert(&store.table) {
            let workload = shape(maker.workload("source scan", &[], 1.0));
            cells.push(of_source("xdag", store, workload, CellKind::SourceScan));
        }
    }
    cells.extend(stores);
    Ok((HEADING, cells))
}

/// Returns a cell that reads the data file itself, without a store, placed in the table of `store`; its row has the
/// name of `workload`.
pub(super) fn of_source(suite: &str, store: &Cell, workload: Workload, step: CellKind) -> Cell {
    let target = Target { store: "file".into(), caveats: Vec::new(), ..store.target.clone() };
    let (table, column, row) = (store.table.clone(), "XDAG".into(), workload.name.clone());
    Cell { table, column, ..cell(suite, target, Workload { threads: 1, step, ..workload }, &row) }
}

/// Parameters of the cases, which the suites smallnest and xdag share.
struct Cases<'s> {
    suite: &'s str,
    /// Duration in seconds of a case that reads.
    seconds: f64,
    keys: u64,
    shape: &'s dyn Fn(Workload) -> Workload,
}

impl Cases<'_> {
    fn cells(&self, maker: &CellBuilder<'_>, access: Access) -> Vec<Cell> {
        maker.targets(access).iter().flat_map(|target| self.of(maker, target)).collect()
    }

    /// Returns the cells that measure smallnest's cases with the store of `target`. `set` and `batch` each fill an
    /// empty store; before the other cases, all keys are loaded.
    fn of(&self, maker: &CellBuilder<'_>, target: &Target) -> Vec<Cell> {
        let writes = maker.writes(target, self.keys);
        let make =
            |workload: Workload, row: &str| cell(self.suite, target.clone(), (self.shape)(workload), row);
        let loaded = |workload| Workload { keys: self.keys, ..workload };
        let steady = |name: &str, operation| {
            make(loaded(maker.workload(name, &[(operation, 1.0)], self.seconds)), name)
        };
        let mut cells = vec![make(maker.by_count("set", Operation::Insert, writes), "set")];
        let mut setmixed = steady("setmixed", Operation::Update);
        setmixed.workload.threads = 1;
        setmixed.workload.order = Order::Sequential;
        setmixed.together = true;
        let delete = make(loaded(maker.by_count("del", Operation::Delete, writes)), "del");
        cells.extend(group(vec![
            steady("get", Operation::Get),
            steady("getmixed", Operation::Get),
            setmixed,
            delete,
        ]));
        let batch = Workload { batch: 1000, ..maker.by_count("batch", Operation::Insert, self.keys) };
        cells.push(make(batch, BATCH));
        headed(cells, &format!("set and del of {} keys, others over {}", count(writes), count(self.keys)))
    }
}
