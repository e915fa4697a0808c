//! Layout of tidwall's KVBench: a row for each store, pipeline depth, number of clients and fsync policy.

use super::{
    markdown_table::Grid,
    measured::{NONE, OwnMetrics},
    published::{Published, Table},
};
use crate::bench::result::{
    Cell,
    metric::THROUGHPUT,
    number_format::{self, distinct},
};

pub(super) fn layout(facts: &Published, ours: &OwnMetrics<'_>) -> String {
    facts.tables.iter().map(|table| of(table, ours)).collect()
}

fn of(table: &Table, ours: &OwnMetrics<'_>) -> String {
    let labels = ours.run.row_heading.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let columns = table.columns.iter().flat_map(|name| [format!("{name} published"), format!("{name} ours")]);
    let mut grid = Grid::new(labels.len(), labels.iter().cloned().chain(columns));
    for row in rows(table, ours) {
        let cell = |column: &str| ours.cells().find(|cell: &&Cell| cell.row == row && cell.column == column);
        let figures = table.columns.iter().flat_map(|column| {
            let figure = ours.figure(cell(column), THROUGHPUT.of, number_format::grouped);
            let published = table.figure(row, column).and_then(|text| text.parse().ok());
            [published.map_or(NONE.into(), number_format::grouped), figure]
        });
        grid.push(row.split(" | ").map(str::to_owned).chain(figures).collect());
    }
    format!("\n## {}: {}\n\nPublished: {}.\n\n{grid}", table.name, table.unit, table.machine)
}

/// Returns the row labels, grouped by load (pipeline depth and number of clients), in the order of the publication. In
/// each group, rows that only this run has come last.
fn rows<'a>(table: &'a Table, ours: &OwnMetrics<'a>) -> Vec<&'a str> {
    let all = distinct(table.names().chain(ours.cells().map(|cell| cell.row.as_str())));
    let load = |row: &'a str| row.split(" | ").skip(1).take(2).collect::<Vec<_>>();
    let loads = distinct(all.iter().copied().map(load));
    loads.iter().flat_map(|wanted| all.iter().copied().filter(move |row| load(row) == *wanted)).collect()
}
