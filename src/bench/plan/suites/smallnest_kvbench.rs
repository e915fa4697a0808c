//! The cases of smallnest's kvbench and of its XDAG fork: set, get, get with one setter beside it, delete,
//! and sets in batches of 1000. The seeds end each of them by the clock; here only those do that read. All
//! stores are filled and emptied by the same number of keys, and all gets are over the same keys.

use super::{
    cell_builder::{CellBuilder, Rows},
    cells::{cell, count, group, headed},
};
use crate::bench::{
    data::{self, RECORD_KEY, RECORD_VALUE},
    plan::options::{PlanError, Suite},
    result::{Access, Cell, CellKind, Operation, Order, Size, Target, Workload},
};
use std::collections::HashSet;

/// Length of a case that reads where the options give none, as in the seed.
const SECONDS: f64 = 60.0;
/// Keys where the options give none.
const KEYS: u64 = 1_000_000;
/// The row of batches.
const BATCH: &str = "batch 1000";

pub(super) fn cells(maker: &CellBuilder<'_>) -> Rows {
    (HEADING, all(maker))
}

/// Of its rows.
pub(super) const HEADING: &str = "Case";

/// Those of the publication: it has no batches.
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

/// The same over pairs read from a file; first, how fast one thread reads them without any store.
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

/// A cell of the file itself, in the table of a store; named as its workload is.
pub(super) fn of_source(suite: &str, store: &Cell, workload: Workload, step: CellKind) -> Cell {
    let target = Target { store: "file".into(), caveats: Vec::new(), ..store.target.clone() };
    let (table, column, row) = (store.table.clone(), "XDAG".into(), workload.name.clone());
    Cell { table, column, ..cell(suite, target, Workload { threads: 1, step, ..workload }, &row) }
}

/// What the two suites have in common.
struct Cases<'s> {
    suite: &'s str,
    /// Length of a case that reads.
    seconds: f64,
    keys: u64,
    shape: &'s dyn Fn(Workload) -> Workload,
}

impl Cases<'_> {
    fn cells(&self, maker: &CellBuilder<'_>, access: Access) -> Vec<Cell> {
        maker.targets(access).iter().flat_map(|target| self.of(maker, target)).collect()
    }

    /// The cells of one store. `set` and `batch` fill an empty one each; the others find all keys loaded.
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
