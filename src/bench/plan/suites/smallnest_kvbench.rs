//! The cases of smallnest's kvbench and of its XDAG fork: set, get, get while another thread sets, delete,
//! and sets in batches of 1000. The originals end each case by time; here only cases that read end by time.
//! All stores are filled and emptied by the same number of keys, and all gets read the same keys.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, count, group, headed},
    xdag_blocks::{data_file, generated_for_suite},
};
use crate::bench::{
    data::{RECORD_KEY, RECORD_VALUE},
    plan::options::{Options, PlanError, Rows},
    result::{Cell, CellKind, Operation, Order, Size, Target, Workload},
};
use std::collections::HashSet;

/// Default duration in seconds of a case that reads, as in the original.
const SECONDS: f64 = 60.0;
/// Default number of keys of the suite smallnest.
const KEYS: u64 = 1_000_000;
/// Row name of the case that sets keys in batches of 1000.
const BATCH: &str = "batch 1000";

pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    Ok((HEADING, all(options)))
}

/// Heading of the tables' column of row names.
pub(super) const HEADING: &str = "Case";

/// Returns the heading of the row names, and the cells of smallnest's published experiment, which has no batches.
pub(super) fn published(options: &Options) -> Result<Rows, PlanError> {
    let cells = all(options).into_iter().filter(|cell| cell.row != BATCH);
    Ok((HEADING, cells.collect()))
}

fn all(options: &Options) -> Vec<Cell> {
    let shape = |workload: Workload| Workload {
        key_bytes: Size::Fixed(9),
        value_bytes: Size::Fixed(256),
        // Numbers in ascending order, as docs/publications.md says.
        hashed_keys: false,
        ..workload
    };
    let keys = options.keys.unwrap_or(KEYS).max(1);
    Cases { builder: &CellBuilder { options }, seconds: SECONDS, keys, shape: &shape }.cells()
}

/// Returns the heading of the row names, and the cells over pairs that are read from a file (`--data`, or generated); in
/// each table, one of them reads the file with one thread and without any store.
pub(super) fn xdag(options: &Options) -> Result<Rows, PlanError> {
    let builder = &CellBuilder { options };
    let (data, pairs) = data_file(options, generated_for_suite)?;
    let shape = |workload: Workload| Workload {
        key_bytes: Size::Fixed(RECORD_KEY as u32),
        value_bytes: Size::Fixed(RECORD_VALUE as u32),
        data: Some(data.display().to_string()),
        ..workload
    };
    let mut cells = Vec::new();
    let keys = options.keys.unwrap_or(pairs).clamp(1, pairs);
    let stores = Cases { builder, seconds: 10.0, keys, shape: &shape }.cells();
    let mut tables = HashSet::new();
    for store in &stores {
        if tables.insert(&store.table) {
            let workload = shape(builder.workload("source scan", &[], 1.0));
            cells.push(of_source(builder, store, workload, CellKind::SourceScan));
        }
    }
    cells.extend(stores);
    Ok((HEADING, cells))
}

/// Returns a cell that reads the data file itself, without a store, placed in the table of `store`; its row has the
/// name of `workload`.
pub(super) fn of_source(builder: &CellBuilder<'_>, store: &Cell, workload: Workload, step: CellKind) -> Cell {
    let target = Target { store: "file".into(), caveats: Vec::new(), ..store.target.clone() };
    let (table, column, row) = (store.table.clone(), "XDAG".into(), workload.name.clone());
    Cell { table, column, ..cell(builder.suite(), target, Workload { threads: 1, step, ..workload }, &row) }
}

/// Parameters of the cases, which the suites smallnest and xdag share.
struct Cases<'s> {
    builder: &'s CellBuilder<'s>,
    /// Duration in seconds of a case that reads.
    seconds: f64,
    keys: u64,
    shape: &'s dyn Fn(Workload) -> Workload,
}

impl Cases<'_> {
    fn cells(&self) -> Vec<Cell> {
        self.builder.targets().iter().flat_map(|target| self.of(target)).collect()
    }

    /// Returns the cells that measure smallnest's cases with the store of `target`. `set` and `batch` each fill an
    /// empty store; before the other cases, all keys are loaded.
    fn of(&self, target: &Target) -> Vec<Cell> {
        let builder = self.builder;
        let writes = builder.writes(target, self.keys);
        let make = |workload: Workload, row: &str| {
            cell(builder.suite(), target.clone(), (self.shape)(workload), row)
        };
        let loaded = |workload| Workload { keys: self.keys, ..workload };
        let steady = |name: &str, operation| {
            make(loaded(builder.workload(name, &[(operation, 1.0)], self.seconds)), name)
        };
        let mut cells = vec![make(builder.by_count("set", Operation::Insert, writes), "set")];
        let mut setmixed = steady("setmixed", Operation::Update);
        setmixed.workload.threads = 1;
        setmixed.workload.order = Order::Sequential;
        setmixed.together = true;
        let delete = make(loaded(builder.by_count("del", Operation::Delete, writes)), "del");
        cells.extend(group(vec![
            steady("get", Operation::Get),
            steady("getmixed", Operation::Get),
            setmixed,
            delete,
        ]));
        let batch = Workload { batch: 1000, ..builder.by_count("batch", Operation::Insert, self.keys) };
        cells.push(make(batch, BATCH));
        headed(cells, &format!("set and del of {} keys, others over {}", count(writes), count(self.keys)))
    }
}
