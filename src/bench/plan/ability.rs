//! What cannot be measured of a target, because it has no such thing.

use crate::{
    bench::result::{Access, Cell, Operation, Step},
    engine::synthetic,
};

/// Why a cell has no number, where that is known before it is tried.
pub fn obstacle(cell: &Cell) -> Option<String> {
    let (target, work) = (&cell.target, &cell.workload);
    let store = &target.store;
    if work.counts_allocations && synthetic::info(store).is_some_and(|info| !info.allocates_in_rust) {
        return Some(format!("{store} allocates in C or C++, where allocations are not counted"));
    }
    let is_ordered = || synthetic::info(store).is_none_or(|info| info.ordered);
    match work.step {
        Step::Operations if work.kinds().any(|kind| kind == Operation::Scan) => match target.access {
            Access::Wire => Some("no Redis command scans a range of keys".into()),
            Access::InProcess if !is_ordered() => Some(format!(
                "{store} does not keep keys in order, so it cannot \
            scan"
            )),
            Access::InProcess => None,
        },
        Step::Operations | Step::SourceScan | Step::SourceGet => None,
        Step::Retain | Step::Pop if synthetic::is_reference(store) => {
            Some("there is nothing to remove".into())
        }
        Step::Pop if !is_ordered() => {
            Some(format!("{store} does not keep keys in order, so there is no first key"))
        }
        Step::Retain | Step::Pop => None,
        Step::Count if synthetic::is_reference(store) => Some("there is nothing to count".into()),
        Step::Count => None,
        Step::DiskSize | Step::Compact if !target.persistent => {
            Some(format!("{store} in memory has no files"))
        }
        Step::DiskSize | Step::Compact => None,
    }
}
