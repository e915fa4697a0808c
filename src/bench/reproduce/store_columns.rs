//! Layouts with a column for each store. Each row has a line for each published table, and one for this run.

use super::{
    bar_chart,
    markdown_table::Grid,
    measured::{DISTURBED, NONE, OwnMetrics},
    published::{Published, Table},
};
use crate::{
    bench::result::{
        Cell, Figure, Measurement,
        comparability::Level,
        metric::Unit,
        number_format::{self, distinct},
    },
    engine::{Durability, Fsync},
};

/// Function that returns this run's cell in the row and the column with these names, or `None` if there is none.
type Find<'f> = &'f dyn Fn(&str, &str) -> Option<&'f Cell>;

/// Function that formats the value that a table shows of a cell of this run.
type Show<'f> = &'f dyn Fn(&Cell) -> String;

/// Table of a reproduced experiment: its rows, the published tables with a name for each, and the cells of this run.
struct StoreColumns<'f> {
    heading: &'f str,
    rows: Vec<&'f str>,
    published: Vec<(&'f str, &'f Table)>,
    /// Headings of the columns in which this run has cells.
    columns: Vec<&'f str>,
    find: Find<'f>,
    show: Show<'f>,
    /// Function that formats the published value and the one of this run per operation; `None` if the table has no
    /// lines with such values. Only redb's table has them, if this run has another number of keys than the publication.
    each: Option<FormatPair<'f>>,
}

/// Function that formats the published value and the one of this run, per operation, in a row and a column.
type FormatPair<'f> = &'f dyn Fn(&str, &str) -> [String; 2];

impl StoreColumns<'_> {
    fn grid(&self) -> Grid {
        let published = self.published.iter().flat_map(|(_, table)| table.columns.iter().map(String::as_str));
        let columns = distinct(published.chain(self.columns.iter().copied()));
        let heads = [self.heading, "from"].into_iter().chain(columns.iter().copied());
        let mut grid = Grid::new(2, heads.map(str::to_owned));
        for row in &self.rows {
            for (name, table) in &self.published {
                let figures = columns.iter().map(|column| table.figure(row, column).unwrap_or(NONE));
                grid.push_known([*row, *name].into_iter().chain(figures).map(str::to_owned).collect());
            }
            let figures =
                columns.iter().map(|column| (self.find)(row, column).map_or(NONE.into(), self.show));
            grid.push_known([*row, "ours"].map(str::to_owned).into_iter().chain(figures).collect());
            let Some(each) = self.each else { continue };
            let pairs: Vec<_> = columns.iter().map(|column| each(row, column)).collect();
            for (place, name) in ["published, each", "ours, each"].into_iter().enumerate() {
                let figures = pairs.iter().map(|pair| pair.get(place).cloned().unwrap_or_default());
                grid.push_known([*row, name].map(str::to_owned).into_iter().chain(figures).collect());
            }
        }
        grid
    }

    /// Returns a bar chart for each row, with the published values and those of this run.
    fn charts(&self, title: &str) -> String {
        let number = |text: &str| text.trim_end_matches(DISTURBED).replace(',', "").parse::<f64>().ok();
        let chart =
            |row: &&str| {
                let mut bars = Vec::new();
                for (name, table) in &self.published {
                    let figures = table
                        .columns
                        .iter()
                        .filter_map(|column| Some((column, number(table.figure(row, column)?)?)));
                    bars.extend(figures.map(|(column, figure)| (format!("{column}, {name}"), figure)));
                }
                let ours = self.columns.iter().filter_map(|column| Some((column, (self.find)(row, column)?)));
                bars.extend(ours.filter_map(|(column, cell)| {
                    Some((format!("{column}, ours"), number(&(self.show)(cell))?))
                }));
                bars.sort_by(|one, other| one.0.cmp(&other.0));
                bar_chart::chart(&format!("{row}, {title}"), &bars)
            };
        self.rows.iter().map(chart).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the rows `published`, and behind them those that only `cells` have: the rows of cells at a rate.
fn rows_with_own<'r>(published: &[&'r str], cells: impl Iterator<Item = &'r Cell>) -> Vec<&'r str> {
    distinct(published.iter().copied().chain(cells.map(|cell| cell.row.as_str())))
}

fn rate(ours: &OwnMetrics<'_>, cell: &Cell) -> String {
    ours.figure(Some(cell), |m| Some(m.throughput), |rate| format!("{rate:.0}"))
}

/// Returns the elapsed time per operation of a cell in nanoseconds, divided by `divisor`, as text.
fn time(ours: &OwnMetrics<'_>, cell: &Cell, divisor: u32) -> String {
    let each = |m: &Measurement| Some(1e9 / m.throughput / f64::from(divisor.max(1)));
    ours.figure(Some(cell), each, |ns| format!("{ns:.0}"))
}

/// Returns smallnest's tables and charts: throughput and "time", with and without sync, of two machines.
pub(super) fn smallnest(facts: &Published, ours: &OwnMetrics<'_>) -> String {
    let rows = rows_with_own(&["set", "get", "setmixed", "getmixed", "del"], ours.cells());
    let levels = [("nofsync", Fsync::No), ("fsync", Fsync::Always)]
        .map(|(word, fsync)| (word, Durability::Files(fsync)));
    let mut text = String::new();
    for (word, durability) in levels {
        for quantity in ["throughputs", "time"] {
            let end = format!(", {word}, {quantity}");
            let published =
                facts.tables.iter().filter_map(|table| Some((table.name.strip_suffix(&end)?, table)));
            let is_time = quantity == "time";
            let layout = StoreColumns {
                heading: "case",
                rows: rows.clone(),
                published: published.collect(),
                columns: ours.columns(durability),
                find: &|row, column| ours.cell(row, column, durability),
                // In mixed cases one of the threads writes, so the number of threads is right for them as well.
                show: &|cell| {
                    if is_time { time(ours, cell, cell.workload.threads) } else { rate(ours, cell) }
                },
                each: None,
            };
            let unit = if is_time { "ns, elapsed / operations / threads" } else { "operations/s" };
            let charts = layout.charts(&format!("{word}, {unit}"));
            text += &format!(
                "\n## {word}, {quantity}: {unit}\n\n{}\n{}\n{charts}",
                machines(&layout.published),
                layout.grid()
            );
        }
    }
    text
}

/// Returns XDAG's tables: throughput and "time" of three machines, with two numbers of blocks.
pub(super) fn xdag(facts: &Published, ours: &OwnMetrics<'_>) -> String {
    let tables = distinct(ours.cells().map(|cell| cell.table.as_str()));
    let mut text = String::new();
    for (place, ours_name) in tables.iter().enumerate() {
        // The publication has the smaller number of blocks for two machines, the larger one for the third.
        let is_large = place + 1 == tables.len() && place > 0;
        for quantity in ["throughputs", "time"] {
            let published = facts.tables.iter().filter(|table| table.name.ends_with(quantity));
            let published =
                published.filter(|table| tables.len() == 1 || table.name.contains("483,296") == is_large);
            let is_time = quantity == "time";
            let in_table = |row: &str, column: &str| {
                ours.cells().find(|cell| cell.table == *ours_name && cell.row == row && cell.column == column)
            };
            // The cells that read the file of blocks itself are found by the rows of the same work.
            let of_stores = ours.cells().filter(|cell| cell.table == *ours_name && cell.column != "XDAG");
            let layout = StoreColumns {
                heading: "case",
                rows: rows_with_own(&["set", "setmixed", "get", "get by key", "getmixed", "del"], of_stores),
                published: published.map(|table| (machine_of(table), table)).collect(),
                columns: distinct(
                    ours.cells().filter(|cell| cell.table == *ours_name).map(|cell| cell.column.as_str()),
                ),
                find: &|row, column| match (row, column) {
                    ("get", "XDAG") => in_table("source scan", column),
                    ("get by key", "XDAG") => in_table("source get", column),
                    _ => in_table(row, column),
                },
                show: &|cell| if is_time { time(ours, cell, 1) } else { rate(ours, cell) },
                each: None,
            };
            let unit = if is_time { "ns, elapsed / operations" } else { "operations/s" };
            text += &format!(
                "\n## {quantity}: {unit}\n\nOurs: {ours_name}. {}\n{}",
                machines(&layout.published),
                layout.grid()
            );
        }
    }
    text
}

fn machine_of(table: &Table) -> &str {
    table.name.split(", ").next().unwrap_or(&table.name)
}

/// Returns redb's table: a duration for each row, and sizes.
pub(super) fn redb(facts: &Published, ours: &OwnMetrics<'_>) -> String {
    let Some(table) = facts.tables.first() else { return String::new() };
    let each = |row: &str, column: &str| {
        let cell = ours.cells().find(|cell| cell.row == row && cell.column == column);
        let published = table.figure(row, column).and_then(|text| text.strip_suffix("ms")?.parse().ok());
        let published = published.zip(ours.their_operations(row)).and_then(|(ms, count)| each(ms, count));
        let own = |m: &Measurement| Some(m.seconds * 1e3).filter(|_| m.operations > 1);
        let count = cell.and_then(|cell| cell.workload.operations).unwrap_or(0);
        let own = ours.figure(cell, own, |ms| each(ms, count).unwrap_or_else(|| NONE.into()));
        [published.unwrap_or_else(|| NONE.into()), own]
    };
    let layout = StoreColumns {
        each: (ours.keys() != ours.their_keys()).then_some(&each),
        heading: "",
        rows: distinct(ours.cells().map(|cell| cell.row.as_str())),
        published: vec![("published", table)],
        columns: distinct(ours.cells().map(|cell| cell.column.as_str())),
        find: &|row, column| ours.cells().find(|cell| cell.row == row && cell.column == column),
        show: &|cell| match cell.figure {
            Figure::DiskBytes => ours.figure(
                Some(cell),
                |m| m.disk_bytes.map(|bytes| bytes as f64),
                |b| number_format::short(Unit::Bytes, b),
            ),
            Figure::Milliseconds | Figure::Throughput | Figure::DeviceReadBytes => ours.figure(
                Some(cell),
                |m| Some(m.seconds * 1e3),
                |ms| match ms {
                    few if few < 10.0 => format!("{few:.2}ms"),
                    many => format!("{many:.0}ms"),
                },
            ),
        },
    };
    let level = ours.cells().next().map(|cell| Level::of(&cell.target).to_string()).unwrap_or_default();
    format!(
        "\n## {}: {}\n\nOurs: {level}. {}\n{}",
        table.name,
        table.unit,
        machines(&layout.published),
        layout.grid()
    )
}

/// Returns, as text, the time per operation of `count` operations that took `ms` milliseconds, or `None` for a single
/// one.
fn each(ms: f64, count: u64) -> Option<String> {
    (count > 1).then(|| number_format::short(Unit::Microseconds, ms * 1e3 / count as f64))
}

/// Returns a line with the machines on which published tables were measured, each with the table's name.
fn machines(tables: &[(&str, &Table)]) -> String {
    let named = tables.iter().map(|(name, table)| format!("{name}: {}", table.machine)).collect::<Vec<_>>();
    format!("Published: {}.\n", distinct(named.iter().map(String::as_str)).join("; "))
}
