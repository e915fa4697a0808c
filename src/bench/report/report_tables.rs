//! Benchmark runs arranged as tables.

use super::{
    measured_cell::{self, Entry},
    ranking::{Ranking, rankings},
};
use crate::bench::result::{
    Cell, Run,
    comparability::Level,
    metric::{self, Metric},
    run_file::RunFile,
};
use std::ptr;

/// Benchmark runs of a report, arranged as tables.
pub struct Report<'a> {
    /// Benchmark runs, oldest first.
    pub runs: &'a [RunFile],
    /// Number of the environment of each run, from 1. Runs of one environment may share tables: see [`groups`].
    pub environments: Vec<usize>,
    /// Tables of the report, in the order in which the runs contain their first cells.
    pub tables: Vec<Table<'a>>,
}

/// Table of cells with equal level (access, commit path and fsync policy), machine and program version.
pub struct Table<'a> {
    /// Name of the table, as the run's cells give it ([`Cell::table`]).
    pub title: &'a str,
    /// Level (access, commit path and fsync policy) of all cells.
    pub level: Level,
    /// First run from which the table has cells, as text; `None` unless the report combines runs of several machines or
    /// programs, or several runs of the same cell.
    pub source: Option<String>,
    /// Labels of the rows of the report's table, from top to bottom.
    pub rows: Vec<Head>,
    /// Headings of the columns at the left of the table, into which row labels are split.
    pub row_headings: Vec<String>,
    /// Labels of the columns of the report's table, from left to right.
    pub columns: Vec<Head>,
    /// Cells (store and workload) of the table, measured or not, in the order of the runs and of each run's list of
    /// cells.
    pub entries: Vec<Entry<'a>>,
    /// Footnotes of the table. Cells and labels refer to them by numbers that count from 1.
    pub notes: Vec<String>,
    group: usize,
}

/// Label of a row or column of a table.
pub struct Head {
    /// Whole label of the row or column.
    pub label: String,
    /// Label of the row, split at ` | ` into one part for each of the table's row headings.
    pub parts: Vec<String>,
    /// Numbers, from 1, of the table's footnotes to which the row or column label refers.
    pub notes: Vec<usize>,
}

impl<'a> Report<'a> {
    /// Arranges runs as tables. A table is split if it would mix levels (access, commit path, fsync policy), machines
    /// or programs, or contain a cell of a store twice.
    pub fn new(runs: &'a [RunFile]) -> Self {
        let groups = groups(runs);
        let several = groups.iter().any(|group| *group > 0);
        let mut tables: Vec<Table<'a>> = Vec::new();
        for (file, group) in runs.iter().zip(groups.iter().copied()) {
            for cell in &file.run.cells {
                let level = Level::of(&cell.target);
                let fits = |table: &&mut Table<'a>| {
                    (table.title, table.level, table.group) == (cell.table.as_str(), level, group)
                };
                match tables.iter_mut().find(fits) {
                    Some(table) => table.push(&file.run, cell),
                    None => {
                        let source = several.then(|| source(file, group));
                        let mut table = Table::new(&cell.table, level, group, source);
                        table.push(&file.run, cell);
                        tables.push(table);
                    }
                }
            }
        }
        for table in &mut tables {
            table.head();
            table.annotate();
        }
        Self { runs, environments: groups.into_iter().map(|group| group + 1).collect(), tables }
    }

    /// Returns the rankings of the tables in which `--may-lose` chose the fsync policy of each store, each ranking with
    /// its table.
    pub fn by_policy(&self) -> Vec<(&Table<'a>, Ranking<'_, 'a>)> {
        let of = |table: &'_ Table<'a>| table.level.may_lose.is_some();
        let tables = self.tables.iter().filter(|table| of(table));
        tables.flat_map(|table| rankings(&table.entries).into_iter().map(move |one| (table, one))).collect()
    }

    /// Returns a sentence about the cells of which other programs disturbed every repetition, or `None` if there are
    /// none.
    pub fn disturbed(&self) -> Option<String> {
        measured_cell::disturbed(self.entries().map(|entry| (entry.run, entry.cell)))
    }

    /// Returns all cells of all tables.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<'a>> {
        self.tables.iter().flat_map(|table| &table.entries)
    }
}

impl<'a> Table<'a> {
    fn new(title: &'a str, level: Level, group: usize, source: Option<String>) -> Self {
        let (rows, columns, entries, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { title, level, source, rows, row_headings: Vec::new(), columns, entries, notes, group }
    }

    fn push(&mut self, run: &'a Run, cell: &'a Cell) {
        let column = position(&mut self.columns, &cell.column);
        let mut row = position(&mut self.rows, &cell.row);
        let is_other_work = |one: &Entry<'_>| {
            let [known, new] = [one.cell, cell].map(|cell| &cell.workload);
            one.place.0 == row && !ptr::eq(one.run, run) && known.name == new.name && known != new
        };
        if self.at(row, column).is_some() || !cell.reference && self.entries.iter().any(is_other_work) {
            // The row has this column already, or other work of the same name: of another run, or of a cell that differs
            // in a setting that the table does not show.
            row = position(&mut self.rows, &format!("{} ({})", cell.row, run.started));
            if self.at(row, column).is_some() {
                row = position(&mut self.rows, &format!("{} ({})", cell.row, cell.id));
            }
        }
        self.entries.push(Entry::new(run, cell, self.group, (row, column)));
    }

    /// Returns the cell at a row and column of the table, both counted from 0; `None` if there is none.
    pub fn at(&self, row: usize, column: usize) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.place == (row, column))
    }

    /// Returns the text that compares the size of the data with the engines' cache and the memory. Metrics
    /// are hard to interpret without it.
    pub fn ratio(&self) -> String {
        measured_cell::ratio(&self.entries)
    }

    /// Returns the main metric of the table's cells, or `None` if the cells have different ones.
    pub fn figure(&self) -> Option<&'static Metric> {
        let mut figures = self.entries.iter().map(|entry| entry.cell.figure);
        let first = figures.next()?;
        figures.all(|figure| figure == first).then(|| metric::of_figure(first))
    }

    /// Returns how the operations of the table's cells start, as text.
    pub fn pacing(&self) -> &'static str {
        measured_cell::pacing(&self.entries)
    }

    /// Splits the table's row labels at ` | `, if each has as many parts as the run's row heading.
    fn head(&mut self) {
        const BAR: &str = " | ";
        let heading = self.entries.first().map_or("", |entry| entry.run.row_heading.as_str());
        let headings: Vec<_> = heading.split(BAR).map(str::to_owned).collect();
        if self.rows.iter().all(|row| row.label.split(BAR).count() == headings.len()) {
            for row in &mut self.rows {
                row.parts = row.label.split(BAR).map(str::to_owned).collect();
            }
            self.row_headings = headings;
        } else {
            self.row_headings = vec![heading.to_owned()];
        }
    }

    /// Numbers the footnotes and places them where the fewest references suffice: an engine's caveats at the
    /// row or column label if every row or column has a single store, otherwise at each cell.
    fn annotate(&mut self) {
        let rows: Vec<_> = (0..self.rows.len()).map(|row| self.only_store(|place| place.0 == row)).collect();
        let columns: Vec<_> =
            (0..self.columns.len()).map(|column| self.only_store(|place| place.1 == column)).collect();
        let by_row = rows.iter().all(Option::is_some);
        let by_column = columns.iter().all(Option::is_some) && !(by_row && distinct(&rows) > 1);
        let Self { entries, notes, rows: row_heads, columns: column_heads, .. } = self;
        if by_column {
            mark(column_heads, &columns, notes);
        } else if by_row {
            mark(row_heads, &rows, notes);
        }
        for entry in entries {
            let mut remarks = entry.remarks();
            if !by_row && !by_column {
                remarks.extend(caveats(entry.cell));
            }
            entry.notes = remarks.into_iter().map(|remark| note(notes, remark)).collect();
            entry.notes.sort_unstable();
            entry.notes.dedup();
        }
    }

    /// Returns a cell of the row or column that `part` selects, or `None` if that has several stores or no cell.
    fn only_store(&self, part: impl Fn((usize, usize)) -> bool) -> Option<&'a Cell> {
        let mut cells = self.entries.iter().filter(|entry| part(entry.place)).map(|entry| entry.cell);
        let first = cells.next()?;
        cells.all(|cell| cell.target.store == first.target.store).then_some(first)
    }
}

fn distinct(cells: &[Option<&Cell>]) -> usize {
    let mut stores: Vec<_> = cells.iter().flatten().map(|cell| &cell.target.store).collect();
    stores.sort();
    stores.dedup();
    stores.len()
}

fn mark(heads: &mut [Head], cells: &[Option<&Cell>], notes: &mut Vec<String>) {
    for (head, cell) in heads.iter_mut().zip(cells) {
        let caveats = cell.iter().flat_map(|cell| caveats(cell));
        head.notes = caveats.map(|caveat| note(notes, caveat)).collect();
    }
}

/// Returns the caveats of a cell's store as one footnote, so that a label has one mark; nothing if there are none.
fn caveats(cell: &Cell) -> impl Iterator<Item = String> {
    let caveats = &cell.target.caveats;
    let all = format!("{}: {}", cell.target.store, caveats.join("; "));
    (!caveats.is_empty()).then_some(all).into_iter()
}

/// Returns the number of the footnote `text`, which is appended to `notes` if missing.
fn note(notes: &mut Vec<String>, text: String) -> usize {
    if let Some(known) = notes.iter().position(|known| *known == text) {
        return known + 1;
    }
    notes.push(text);
    notes.len()
}

fn position(heads: &mut Vec<Head>, label: &str) -> usize {
    heads.iter().position(|head| head.label == label).unwrap_or_else(|| {
        heads.push(Head { label: label.to_owned(), parts: vec![label.to_owned()], notes: Vec::new() });
        heads.len() - 1
    })
}

/// Returns a group number for each run. Runs with equal numbers may share tables: they were made by the same
/// program on the same machine, with the same `--memory-limit`, `--cold` and `--cpus`, have no cell in common except
/// cells that measure the harness, and no table whose stores took turns in one of them.
fn groups(files: &[RunFile]) -> Vec<usize> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    let mut numbers = Vec::new();
    for RunFile { run, .. } in files {
        let fits = |group: &Vec<&Run>| group.iter().all(|other| may_share(run, other));
        let number = groups.iter().position(fits).unwrap_or_else(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups.get_mut(number).into_iter().for_each(|group| group.push(run));
        numbers.push(number);
    }
    numbers
}

fn may_share(a: &Run, b: &Run) -> bool {
    let (one, other) = (&a.environment, &b.environment);
    let have_one_program = one.program.is_none() || other.program.is_none() || one.program == other.program;
    a.version == b.version
        && one.commit == other.commit
        && have_one_program
        && one
            .libraries
            .iter()
            .all(|(store, version)| other.libraries.get(store).is_none_or(|v| v == version))
        && (&one.cpu, one.cores, one.memory_bytes) == (&other.cpu, other.cores, other.memory_bytes)
        && (&one.system, &one.file_system, &one.device) == (&other.system, &other.file_system, &other.device)
        && (&one.memory_limit_bytes, &one.cold, &one.cpus)
            == (&other.memory_limit_bytes, &other.cold, &other.cpus)
        && !a.cells.iter().any(|cell| !cell.reference && b.cells.iter().any(|other| cell.id == other.id))
        && !have_turns_in_common(a, b)
}

/// Returns `true` if stores of both runs have done the same work at the same level, so that a table would have both, and
/// those of at least one run took turns: such figures contain write-back or not, and are of other blocks.
fn have_turns_in_common(a: &Run, b: &Run) -> bool {
    let in_turns = |run: &Run, cell: &Cell| run.comparison(&cell.id).is_some();
    let clashes = |one: &Cell, other: &Cell| {
        one.workload == other.workload
            && Level::of(&one.target) == Level::of(&other.target)
            && (in_turns(a, one) || in_turns(b, other))
    };
    a.cells
        .iter()
        .any(|one| !one.reference && b.cells.iter().any(|other| !other.reference && clashes(one, other)))
}

fn source(file: &RunFile, group: usize) -> String {
    let cpu = file.run.environment.cpu.as_deref().unwrap_or("unknown processor");
    format!("run of {} on {cpu} (environment {})", file.run.started, group + 1)
}
