//! Cells that a store cannot run, such as scans without key order, with the reason.

use crate::{
    bench::result::{Access, Cell, CellKind, Operation, Size},
    engine::synthetic,
};

/// Returns the reason why the store of a cell cannot hold the workload's keys, or `None` if it can or is another program.
fn key_too_long(cell: &Cell) -> Option<String> {
    let target = &cell.target;
    let info =
        synthetic::info(&target.store).filter(|_| target.address.is_none() && target.program.is_none())?;
    let (Size::Fixed(longest) | Size::Uniform(_, longest)) = cell.workload.key_bytes;
    let (_, most) = info.key_length;
    (longest as usize > most).then(|| format!("{} has keys of at most {most} bytes", target.store))
}

/// Returns the reason why the store of a cell cannot run its workload, or `None` if no reason is known.
pub fn unsupported_reason(cell: &Cell) -> Option<String> {
    let (target, work) = (&cell.target, &cell.workload);
    let store = &target.store;
    if work.counts_allocations
        && synthetic::info(store).is_some_and(|info| !info.capabilities.counts_allocations)
    {
        return Some(format!("{store} allocates in C or C++, where allocations are not counted"));
    }
    if let Some(reason) = key_too_long(cell) {
        return Some(reason);
    }
    let is_ordered = || synthetic::info(store).is_none_or(|info| info.capabilities.ordered);
    match work.step {
        CellKind::Operations if work.kinds().any(|kind| kind == Operation::Scan) => match target.access {
            Access::Wire => Some("no Redis command scans a range of keys".into()),
            Access::InProcess if !is_ordered() => Some(format!(
                "{store} does not keep keys in order, so it cannot \
            scan"
            )),
            Access::InProcess => None,
        },
        CellKind::Operations | CellKind::SourceScan | CellKind::SourceGet => None,
        CellKind::Retain | CellKind::Pop if synthetic::is_reference(store) => {
            Some("there is nothing to remove".into())
        }
        CellKind::Pop if !is_ordered() => {
            Some(format!("{store} does not keep keys in order, so there is no first key"))
        }
        CellKind::Retain | CellKind::Pop => None,
        CellKind::Count if synthetic::is_reference(store) => Some("there is nothing to count".into()),
        CellKind::Count => None,
        CellKind::DiskSize | CellKind::Compact | CellKind::Recovery if !target.persistent => {
            Some(format!("{store} in memory has no files"))
        }
        CellKind::DiskSize | CellKind::Compact | CellKind::Recovery => None,
    }
}
