//! The cases of smallnest's kvbench and of its XDAG fork: set, get, get with one setter beside it, delete,
//! each by time; and sets in batches of 1000.

use super::maker::{Maker, Rows, cell, group};
use crate::bench::{
    data::{self, RECORD_KEY, RECORD_VALUE},
    plan::options::{PlanError, Suite},
    result::{Access, Cell, Operation, Order, Size, Step, Target, Workload},
};
use std::collections::HashSet;

/// Length of a case where the options give none, as in the seed.
const SECONDS: f64 = 60.0;
/// Keys where the options give none; sets start over after them, so that a fast store does not fill the
/// memory within its minute.
const KEYS: u64 = 1_000_000;

pub(super) fn cells(maker: &Maker<'_>) -> Rows {
    let shape = |workload: Workload| Workload {
        key_bytes: Size::Fixed(9),
        value_bytes: Size::Fixed(256),
        hashed_keys: false,
        key_limit: Some(maker.options.keys.unwrap_or(KEYS).max(1)),
        ..workload
    };
    let cells = cases(maker, "smallnest", maker.access(), SECONDS, &shape);
    ("Case", cells.into_iter().chain(maker.floor()).collect())
}

/// The same over pairs read from a file; first, how fast one thread reads them without any store.
pub(super) fn xdag(maker: &Maker<'_>) -> Result<Rows, PlanError> {
    maker.is_in_process(Suite::Xdag)?;
    let data = maker.options.data.as_ref().ok_or(PlanError::NoData)?;
    let pairs = data::pairs(data).map_err(|source| PlanError::BadData { path: data.clone(), source })?;
    let shape = |workload: Workload| Workload {
        key_bytes: Size::Fixed(RECORD_KEY as u32),
        value_bytes: Size::Fixed(RECORD_VALUE as u32),
        data: Some(data.display().to_string()),
        key_limit: Some(maker.options.keys.unwrap_or(pairs).clamp(1, pairs)),
        ..workload
    };
    let mut cells = Vec::new();
    let stores = cases(maker, "xdag", Access::InProcess, 10.0, &shape);
    let mut tables = HashSet::new();
    for store in &stores {
        if !tables.insert(&store.table) {
            continue;
        }
        let workload =
            Workload { threads: 1, step: Step::SourceScan, ..shape(maker.workload("source-scan", &[], 1.0)) };
        let target = Target { store: "file".into(), caveats: Vec::new(), ..store.target.clone() };
        let (table, column) = (store.table.clone(), "XDAG".into());
        cells.push(Cell { table, column, ..cell("xdag", target, workload, "source scan") });
    }
    cells.extend(stores);
    Ok(("Case", cells))
}

fn cases(
    maker: &Maker<'_>,
    suite: &str,
    access: Access,
    seconds: f64,
    shape: &dyn Fn(Workload) -> Workload,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for target in maker.targets(access) {
        let make = |name: &str, operation: Operation| {
            let workload = shape(maker.workload(name, &[(operation, 1.0)], seconds));
            cell(suite, target.clone(), workload, name)
        };
        let mut set = make("set", Operation::Insert);
        // All pairs of a file once, or until the time is over.
        set.workload.operations = set.workload.data.as_ref().and(set.workload.key_limit);
        let mut setmixed = make("setmixed", Operation::Update);
        setmixed.workload.threads = 1;
        setmixed.workload.order = Order::Sequential;
        setmixed.together = true;
        let getmixed = make("getmixed", Operation::Get);
        let delete = make("del", Operation::Delete);
        cells.extend(group(vec![set, make("get", Operation::Get), getmixed, setmixed, delete]));
        let mut batch = shape(maker.workload("batch", &[(Operation::Insert, 1.0)], seconds));
        batch.batch = 1000;
        cells.push(cell(suite, target.clone(), batch, "batch 1000"));
    }
    cells
}
