//! Functions with which suites make and change cells: names, groups, rates.

use crate::{
    bench::{
        plan::options::{Options, PlanError},
        result::{
            Cell, CellKind, Figure, Operation, Side, Target, Workload, comparability::Level, number_format,
        },
    },
    engine::{ReadAhead, synthetic},
};

/// Returns a cell of `suite` that is shown in the row `row`, in the column of its store.
pub(super) fn cell(suite: &str, target: Target, workload: Workload, row: &str) -> Cell {
    let level = Level::of(&target);
    let access = level.access_words();
    let mut column = match (target.persistent, &target.address) {
        _ if target.may_lose.is_some() => format!("{} {}", target.store, level.durability_word()),
        (false, None) if !synthetic::is_reference(&target.store) => format!("{}/memory", target.store),
        _ => target.store.clone(),
    };
    // The engine's default setting has the plain name.
    let reads_ahead = target.read_ahead == Some(ReadAhead::On);
    if reads_ahead {
        column.push_str("/read-ahead");
    }
    Cell {
        id: format!(
            "{suite}/{}/{}{}/{}/t{}/b{}/{}",
            level.access_id(),
            target.store,
            if reads_ahead { "/read-ahead" } else { "" },
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
        own_device: None,
    }
}

/// Returns the cells of the workloads that `--workloads` names, or all without that flag: by their row, such as `b`, or
/// by the name of the workload, such as `ycsb-b`.
///
/// # Errors
///
/// Fails if the suite has no workload of one of the names, or if its workloads continue on each other's data.
pub(super) fn of_workloads(mut cells: Vec<Cell>, options: &Options) -> Result<Vec<Cell>, PlanError> {
    let (Some(suite), false) = (options.suite, options.workloads.is_empty()) else { return Ok(cells) };
    if cells.iter().any(|cell| cell.group.is_some() || cell.together) {
        return Err(PlanError::DependentWorkloads(suite.name));
    }
    let is_of = |cell: &Cell, name: &str| {
        [&cell.row, &cell.workload.name].iter().any(|other| other.eq_ignore_ascii_case(name))
    };
    for name in &options.workloads {
        if !cells.iter().any(|cell| is_of(cell, name)) {
            let able = number_format::distinct(cells.iter().map(|cell| cell.row.as_str())).join(", ");
            let (suite, name) = (suite.name, name.clone());
            return Err(PlanError::UnknownWorkload { suite, name, able });
        }
    }
    cells.retain(|cell| options.workloads.iter().any(|name| is_of(cell, name)));
    Ok(cells)
}

/// Makes `cells` a group: measured in one process, in this order, on the same data.
pub(super) fn group(mut cells: Vec<Cell>) -> Vec<Cell> {
    let name = cells.first().map(|cell| cell.id.clone());
    cells.iter_mut().for_each(|cell| cell.group.clone_from(&name));
    cells
}

/// Adds `work`, a description of the amount of work, to the table heading of each cell.
pub(super) fn headed(mut cells: Vec<Cell>, work: &str) -> Vec<Cell> {
    cells.iter_mut().for_each(|cell| cell.table = format!("{}; {work}", cell.table));
    cells
}

/// Formats a number of keys with digit groups, for people.
pub(super) fn count(keys: u64) -> String {
    number_format::grouped(keys as f64)
}

/// Returns a copy of each cell for each of `rates`, in operations per second; equal rates give one copy. Cells that
/// cannot run at a rate (they only fill or empty the store, or their main metric is a time, a size or bytes) stay as they
/// are, as do all if `rates` is empty. Cells that run together are copied as a whole, and only the first of them runs at
/// the rate.
pub(super) fn at_rates(cells: Vec<Cell>, rates: &[f64]) -> Vec<Cell> {
    if rates.is_empty() {
        return cells;
    }
    let mut paced = Vec::new();
    for step in cells.chunk_by(|_, next| next.together) {
        // Excludes cells whose metric is a time: at a fixed rate, the time would only show the number of
        // operations.
        let steady = |cell: &Cell| {
            cell.workload.step == CellKind::Operations
                && cell.workload.is_steady()
                && cell.figure == Figure::Throughput
        };
        if !step.first().is_some_and(steady) {
            paced.extend_from_slice(step);
            continue;
        }
        for (place, rate) in rates.iter().enumerate() {
            if !rates.iter().take(place).any(|earlier| earlier == rate) {
                paced.extend(step.iter().map(|cell| at_rate(cell, *rate)));
            }
        }
    }
    paced
}

/// Limits the operations of `--cold` cells, so that most reads still come from the device: they read at most
/// a twentieth of the keys, but do at least 100 operations, enough for a median.
pub(super) fn while_cold(mut cells: Vec<Cell>) -> Vec<Cell> {
    for Cell { workload, .. } in &mut cells {
        if workload.step == CellKind::Operations && workload.is_steady() && workload.operations.is_none() {
            let scans = workload.kinds().any(|kind| kind == Operation::Scan);
            let pairs = match workload.random_scan_length {
                _ if !scans => 1,
                true => workload.scan_length.div_ceil(2),
                false => workload.scan_length,
            };
            workload.operations = Some((workload.keys / 20 / u64::from(pairs.max(1))).max(100));
        }
    }
    cells
}

/// Returns `true` if a cell can be measured without the cells before it, and for any time.
pub fn is_alone_and_steady(cell: &Cell) -> bool {
    is_alone(cell) && cell.workload.step == CellKind::Operations && cell.workload.is_steady()
}

/// Returns `true` if a cell can be measured without the cells before it, on the device of all others.
pub(super) fn is_alone(cell: &Cell) -> bool {
    cell.group.is_none() && !cell.together && cell.own_device.is_none()
}

/// Returns each cell once for each program of a duel. The two have a table of their own, since programs are compared, not
/// stores.
pub(super) fn of_both_programs(cells: Vec<Cell>) -> Vec<Cell> {
    let both = |cell: Cell| {
        Side::BOTH.map(|side| Cell {
            id: format!("{}/{}", cell.id, side.name()),
            table: format!("{}; {}, {}", cell.table, cell.column, cell.row),
            column: format!("{} {}", cell.column, side.name()),
            target: Target { side: Some(side), ..cell.target.clone() },
            ..cell.clone()
        })
    };
    cells.into_iter().flat_map(both).collect()
}

/// Returns a copy of `cell` at `rate` operations per second. A cell that runs together with another one stays
/// a closed loop.
fn at_rate(cell: &Cell, rate: f64) -> Cell {
    let mut cell = cell.clone();
    cell.workload.rate = (!cell.together).then_some(rate);
    cell.id = format!("{}/{rate}-a-second", cell.id);
    // In a row name of several parts, the first part names the workload.
    let (first, rest) = cell.row.split_once(" | ").unwrap_or((&cell.row, ""));
    let separator = if rest.is_empty() { "" } else { " | " };
    cell.row = format!("{first} at {rate}/s{separator}{rest}");
    cell
}
