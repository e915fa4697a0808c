//! Layout of YCSB's core workloads: throughput, and mean latency by kind of operation, at each requested rate.

use super::{
    markdown_table::Grid,
    measured::{NONE, OwnMetrics},
    published::{Published, Table},
};
use crate::bench::result::{
    Cell, Operation,
    metric::THROUGHPUT,
    number_format::{self, distinct},
};

pub(super) fn layout(facts: &Published, ours: &OwnMetrics<'_>) -> String {
    let Some(published) = facts.tables.first() else { return String::new() };
    let tables = distinct(ours.cells().map(|cell| cell.table.as_str()));
    let mut text = format!("\nPublished: {}.\n", published.machine);
    for table in tables {
        let cells: Vec<_> = ours.cells().filter(|cell| cell.table == table).collect();
        text += &format!("\n## {table}: throughput, operations/s\n\n{}", throughput(published, ours, &cells));
        text += &format!("\n## {table}: mean latency, microseconds\n\n{}", latency(ours, &cells));
    }
    text
}

fn columns<'c>(cells: &[&'c Cell]) -> Vec<&'c str> {
    distinct(cells.iter().map(|cell| cell.column.as_str()))
}

fn find<'c>(cells: &[&'c Cell], row: &str, column: &str) -> Option<&'c Cell> {
    cells.iter().copied().find(|cell| cell.row == row && cell.column == column)
}

/// Returns a table of the workloads: their published description, and the throughput that was measured here.
fn throughput(published: &Table, ours: &OwnMetrics<'_>, cells: &[&Cell]) -> Grid {
    let columns = columns(cells);
    let words = published.columns.iter().map(|name| format!("{name}, published"));
    let heads =
        ["workload".to_owned()].into_iter().chain(words).chain(columns.iter().map(ToString::to_string));
    let mut grid = Grid::new(1 + published.columns.len(), heads);
    for row in distinct(cells.iter().map(|cell| cell.row.as_str())) {
        let workload = row.split(" at ").next().unwrap_or(row);
        let said = published.columns.iter().map(|column| published.figure(workload, column).unwrap_or(NONE));
        let figures = columns
            .iter()
            .map(|column| ours.figure(find(cells, row, column), THROUGHPUT.of, number_format::grouped));
        grid.push([row].into_iter().chain(said).map(str::to_owned).chain(figures).collect());
    }
    grid
}

/// Returns a table of the mean latencies that were measured here, in microseconds by kind of operation.
fn latency(ours: &OwnMetrics<'_>, cells: &[&Cell]) -> Grid {
    let columns = columns(cells);
    let heads = ["workload", "operation"].into_iter().chain(columns.iter().copied());
    let mut grid = Grid::new(2, heads.map(str::to_owned));
    for row in distinct(cells.iter().map(|cell| cell.row.as_str())) {
        let first = cells.iter().find(|cell| cell.row == row);
        let kinds: Vec<Operation> = first.map(|cell| cell.workload.kinds().collect()).unwrap_or_default();
        for kind in kinds {
            let mean = |column: &&str| {
                let cell = find(cells, row, column);
                ours.figure(cell, |m| Some(m.by_operation.get(&kind)?.mean_us), number_format::digits)
            };
            let words = [row, number_format::operation(kind)].map(str::to_owned);
            grid.push(words.into_iter().chain(columns.iter().map(mean)).collect());
        }
    }
    grid
}
