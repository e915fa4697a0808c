//! Cells as suites make them: their names, their groups, their rates.

use crate::{
    bench::result::{Cell, CellKind, Figure, Operation, Target, Workload, loss_class::Level, number_format},
    engine::synthetic,
};

/// A cell of `suite` in the row `row` of its store's column.
pub(super) fn cell(suite: &str, target: Target, workload: Workload, row: &str) -> Cell {
    let level = Level::of(&target);
    let access = level.access_words();
    let column = match (target.persistent, &target.address) {
        (false, None) if !synthetic::is_reference(&target.store) => format!("{}/memory", target.store),
        _ => target.store.clone(),
    };
    let place = access.replace(", ", "-").replace(' ', "-");
    Cell {
        id: format!(
            "{suite}/{place}/{}/{}/t{}/b{}/{}",
            target.store,
            level.durability_word(),
            workload.threads,
            workload.batch,
            row.replace(' ', "-")
        ),
        table: format!("{suite}: {}, {access}", level.durability_words()),
        row: row.into(),
        column,
        reference: synthetic::is_reference(&target.store),
        target,
        workload,
        group: None,
        together: false,
        figure: Figure::Throughput,
    }
}

/// Makes cells a group: measured in one process, in their order.
pub(super) fn group(mut cells: Vec<Cell>) -> Vec<Cell> {
    let name = cells.first().map(|cell| cell.id.clone());
    cells.iter_mut().for_each(|cell| cell.group.clone_from(&name));
    cells
}

/// Says in the heading of the cells' tables how much is done.
pub(super) fn headed(mut cells: Vec<Cell>, work: &str) -> Vec<Cell> {
    cells.iter_mut().for_each(|cell| cell.table = format!("{}; {work}", cell.table));
    cells
}

/// A number of keys for people.
pub(super) fn count(keys: u64) -> String {
    number_format::grouped(keys as f64)
}

/// A cell for each rate, of those that can go on at one.
pub(super) fn at_rates(cells: Vec<Cell>, rates: &[f64]) -> Vec<Cell> {
    if rates.is_empty() {
        return cells;
    }
    let mut paced = Vec::new();
    for step in cells.chunk_by(|_, next| next.together) {
        // At a rate a time tells only how many operations there were.
        let steady = |cell: &Cell| {
            cell.workload.step == CellKind::Operations
                && cell.workload.is_steady()
                && cell.figure == Figure::Throughput
        };
        if !step.first().is_some_and(steady) {
            paced.extend_from_slice(step);
            continue;
        }
        for rate in rates {
            paced.extend(step.iter().map(|cell| at_rate(cell, *rate)));
        }
    }
    paced
}

/// Operations of a cold store until most of what is read no longer comes from the device: of a twentieth of the keys at
/// most, but enough for a median.
pub(super) fn while_cold(mut cells: Vec<Cell>) -> Vec<Cell> {
    for Cell { workload, .. } in &mut cells {
        if workload.step == CellKind::Operations && workload.is_steady() && workload.operations.is_none() {
            let pairs =
                if workload.kinds().any(|kind| kind == Operation::Scan) { workload.scan_length } else { 1 };
            workload.operations = Some((workload.keys / 20 / u64::from(pairs.max(1))).max(100));
        }
    }
    cells
}

/// What runs beside another cell goes as fast as it can.
fn at_rate(cell: &Cell, rate: f64) -> Cell {
    let mut cell = cell.clone();
    cell.workload.rate = (!cell.together).then_some(rate);
    cell.id = format!("{}/{rate}-a-second", cell.id);
    // Where a row has several parts, the first one tells what is measured.
    let (first, rest) = cell.row.split_once(" | ").unwrap_or((&cell.row, ""));
    let separator = if rest.is_empty() { "" } else { " | " };
    cell.row = format!("{first} at {rate}/s{separator}{rest}");
    cell
}
