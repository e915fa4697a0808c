//! Tables of a benchmark run as text for a terminal, in the layout of the benchmark on which the suite is
//! modelled.

use super::{
    expired_read_notes,
    measured_cell::{self, Entry},
    price::PRICE_HEADS,
    ranking::{RankedStore, Ranking, listed, rankings, verdicts},
    soak_notes,
};
use crate::{
    bench::{
        plan::suites,
        result::{
            Cell, CellKind, Figure, Loses, Measurement, Run, comparability, harness_share,
            interleaved_comparison::{Block, Comparison, End},
            metric::{P99, THROUGHPUT, Unit},
            number_format::{self, distinct},
            spread::Spread,
            text_table,
        },
    },
    engine::LossClass,
};
use std::fmt::Write;

/// Returns all tables of a run as text, each with its verdict, followed by the harness overhead. The verdicts of
/// interleaved comparisons come before all tables, those on stores without another one of the same workload after them.
pub fn text(run: &Run) -> String {
    let mut text = String::new();
    if !run.comparisons.is_empty() {
        first_verdicts(&mut text, run);
    }
    let names = run.cells.iter().filter(|cell| !cell.reference).map(|cell| cell.table.as_str());
    let mut single = SingleStores::default();
    for name in distinct(names) {
        let cells: Vec<_> = run.cells.iter().filter(|cell| !cell.reference && cell.table == name).collect();
        table(&mut text, run, name, &cells, &mut single);
        if run.suite.as_deref().and_then(suites::find).is_some_and(|suite| suite.mean_latency) {
            let timed = |cell: &&Cell| cell.workload.step == CellKind::Operations;
            let timed: Vec<_> = cells.into_iter().filter(timed).collect();
            let _ = writeln!(text, "\n{name}: mean latency, ns\n");
            render(&mut text, run, &timed, &run.row_heading, Losses::Hidden, &|cell| mean_ns(run, cell));
        }
    }
    if !run.cells.iter().any(|cell| cell.target.may_lose.is_some()) {
        paragraph(&mut text, "left out: ", run.left_out.iter().map(String::as_str).collect());
    }
    let single = single.verdicts();
    paragraph(&mut text, "verdict: ", single.iter().map(String::as_str).collect());
    let soaks = soaks(run);
    paragraph(&mut text, "", soaks.iter().map(String::as_str).collect());
    text.push_str(&floor(run));
    text.push_str(&disturbed(run));
    text
}

/// Workloads of a run that were measured with one store only. For each such store, one verdict covers all of its
/// workloads.
#[derive(Default)]
struct SingleStores {
    /// Name of the only store of each workload that has no other.
    names: Vec<String>,
    /// Number of all workloads of the run.
    workloads: usize,
}

impl SingleStores {
    /// Records the rankings of a table that have one store only, and returns the other rankings.
    fn extract<'r, 'a>(&mut self, rankings: Vec<Ranking<'r, 'a>>) -> Vec<Ranking<'r, 'a>> {
        self.workloads += rankings.len();
        let (single, others): (Vec<_>, Vec<_>) =
            rankings.into_iter().partition(|ranking| ranking.only_store().is_some());
        self.names.extend(single.iter().filter_map(Ranking::only_store));
        others
    }

    /// Returns a verdict for each store that was the only one of a workload, as a sentence without a final stop.
    fn verdicts(&self) -> Vec<String> {
        let verdict = |store: &str| {
            let count = self.names.iter().filter(|other| *other == store).count();
            let of = match count == self.workloads {
                true => String::new(),
                false => format!(" of {count} of {} workloads", self.workloads),
            };
            format!("{store} is the only store{of}: nothing to compare it with")
        };
        distinct(self.names.iter().map(String::as_str)).into_iter().map(verdict).collect()
    }
}

/// Appends the title `name` of a table of `cells`, the verdicts on the table's workloads, and the table. The verdicts of
/// interleaved comparisons are left out, because they stand above all tables; workloads with only one store are added to
/// `single` instead.
fn table(text: &mut String, run: &Run, name: &str, cells: &[&Cell], single: &mut SingleStores) {
    let entries: Vec<_> = cells.iter().map(|cell| Entry::new(run, cell, 0, (0, 0))).collect();
    let rankings = rankings(&entries);
    let best: Vec<_> = rankings.iter().filter_map(|one| Some(one.winner()?.entry.cell.id.clone())).collect();
    let by_policy = rankings.iter().any(|ranking| ranking.by_policy);
    let takes_turns = |cell: &Cell| run.comparison(&cell.id).is_some();
    // If all stores of a comparison have failed, its ranking has none.
    let is_compared = |ranking: &Ranking<'_, '_>| match ranking.places.as_slice() {
        [] => cells.iter().any(|cell| takes_turns(cell)),
        places => places.iter().any(|place| takes_turns(place.entry.cell)),
    };
    let has_title = !by_policy || !rankings.iter().all(is_compared);
    if has_title {
        let _ = writeln!(text, "\n{name}: {}", unit(&entries));
        let _ = writeln!(text, "{}", measured_cell::ratio(&entries));
    }
    let mut below = String::new();
    if by_policy {
        let ranked_cells = rankings.iter().flat_map(|ranking| &ranking.places).map(|place| place.entry.cell);
        let shown = rankings.iter().filter(|ranking| !is_compared(ranking));
        shown.for_each(|ranking| below.push_str(&ranked(ranking, rankings.len() > 1)));
        explain_floor(&mut below, run, ranked_cells);
    } else {
        // The table has no prices; rankings of many workloads would be long.
        let is_one = cells.windows(2).all(|pair| matches!(pair, [one, other] if one.row == other.row));
        let shown =
            rankings.iter().filter(|ranking| is_one && !is_compared(ranking) && ranking.places.len() > 1);
        for ranking in shown {
            below.push_str(&ranked(ranking, rankings.len() > 1));
            below.push('\n');
        }
        render(&mut below, run, cells, &run.row_heading, Losses::Shown, &|cell| {
            let mark = if best.contains(&cell.id) { " *" } else { "  " };
            format!("{}{mark}", figure(run, cell))
        });
    }
    let (compared, others): (Vec<_>, Vec<_>) = rankings.into_iter().partition(is_compared);
    single.workloads += compared.len();
    let verdicts = verdicts(&single.extract(others));
    paragraph(text, "verdict: ", verdicts.iter().map(String::as_str).collect());
    text.push_str(if has_title { "\n" } else { "" });
    text.push_str(&below);
    let expired = expired_read_notes::lines(run, cells);
    paragraph(text, "expired: ", expired.iter().map(String::as_str).collect());
}

/// Appends the verdict of each interleaved comparison, with its ranking of the stores, the number of blocks
/// (repetitions), and the reason why the comparison ended.
fn first_verdicts(text: &mut String, run: &Run) {
    for comparison in &run.comparisons {
        let entries: Vec<_> =
            cells_of(run, comparison).map(|cell| Entry::new(run, cell, 0, (0, 0))).collect();
        let rankings = rankings(&entries);
        for verdict in verdicts(&rankings) {
            let _ = writeln!(text, "{}: {verdict}", comparison.id);
        }
        for ranking in &rankings {
            for line in ranked(ranking, rankings.len() > 1).lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
        let end = match comparison.end {
            Some(End::Decided) => "each pair has a verdict",
            Some(End::Planned) => "the last planned look is over",
            Some(End::FirstBlocks) => "--detect measures more",
            Some(End::Budget) => "--budget allows no more",
            Some(End::Failed) if run.sound_stores(comparison).len() > 1 => {
                "the store that is in all groups failed"
            }
            Some(End::Failed) => "fewer than two stores could be measured",
            None => "not complete",
        };
        let seconds = number_format::duration(comparison.seconds());
        let _ = writeln!(text, "  {} blocks in {seconds}; {end}", comparison.blocks.len());
        if let Some(groups) = comparison.groups_text(&run.cells) {
            let _ = writeln!(text, "  {groups}");
        }
        write_back(text, run, comparison);
        for doubt in comparison.doubts(run.environment.foreign_limit, &run.cells) {
            let _ = writeln!(text, "  {doubt}");
        }
        for sentence in rankings.iter().filter_map(latencies) {
            let _ = writeln!(text, "  {sentence}");
        }
        if let Some(less_work) = run.less_work_text(comparison) {
            let _ = writeln!(text, "  {less_work}");
        }
        if let Some(findings) = comparison.findings(&run.sound_stores(comparison)) {
            let _ = writeln!(text, "  {findings}");
        }
    }
}

/// Returns the cells of an interleaved comparison, and those of stores that cannot run its workload: they are in no
/// comparison, and the verdict says that they are left out.
fn cells_of<'r>(run: &'r Run, comparison: &'r Comparison) -> impl Iterator<Item = &'r Cell> {
    let is_compared = |cell: &Cell| comparison.cells.contains(&cell.id);
    let first = run.cells.iter().find(|cell| is_compared(cell));
    let is_in_row =
        move |cell: &Cell| first.is_some_and(|first| (&first.table, &first.row) == (&cell.table, &cell.row));
    run.cells
        .iter()
        .filter(move |cell| is_compared(cell) || is_in_row(cell) && run.unsupported(&cell.id).is_some())
}

/// Appends the rate of each store that has not failed, without and with the write-back after its slices, if any
/// followed.
fn write_back(text: &mut String, run: &Run, comparison: &Comparison) {
    if comparison.blocks.iter().any(Block::has_write_back) {
        let rates = run.sound_stores(comparison).into_iter().filter_map(|store| {
            let cell = run.cells.iter().find(|cell| comparison.cells.get(store) == Some(&cell.id))?;
            let exact = |rate| number_format::exact(Unit::PerSecond, rate);
            let without = exact(median_rate(comparison, store, Comparison::rate_without_write_back)?);
            let with = exact(median_rate(comparison, store, Comparison::rate)?);
            Some(format!("{} {without} and {with}", cell.column))
        });
        let rates: Vec<_> = rates.collect();
        if !rates.is_empty() {
            let _ = writeln!(text, "  operations/s without and with write-back: {}", rates.join("; "));
        }
    }
}

/// Returns the median of a store's rate over the blocks of a comparison, or `None` if no block has one. `store` is the
/// index of the store in the comparison.
fn median_rate(
    comparison: &Comparison,
    store: usize,
    rate: fn(&Comparison, &Block, usize) -> Option<f64>,
) -> Option<f64> {
    Some(Spread::of(comparison.blocks.iter().filter_map(|block| rate(comparison, block, store)))?.median)
}

/// Rate at which the latencies of stores are compared, as a fraction of the rate of the slowest store in a closed loop.
const RATE_FOR_LATENCIES: f64 = 0.7;

/// Returns a sentence that names the rate at which the latencies of the ranked stores can be compared, or `None` for one
/// store and for rates below one operation per second. A store that loses more than the ranking allows does not set the
/// rate, nor does one below a tenth of the median rate: at its rate the others would be idle.
fn latencies(ranking: &Ranking<'_, '_>) -> Option<String> {
    let rate_of =
        |place: &RankedStore<'_, '_>| Some((place.entry.spread(&THROUGHPUT)?.median, ranking.name(place)));
    let mut rates: Vec<_> = ranking.places.iter().filter_map(rate_of).collect();
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (median, _) = rates.get(rates.len() / 2)?;
    let (below, others) = rates.split_at(rates.partition_point(|(rate, _)| *rate < median / 10.0));
    let (slowest, name) = others.first()?;
    let rate = RATE_FOR_LATENCIES * slowest;
    // Two significant digits.
    let unit = 10_f64.powf(rate.log10().floor() - 1.0).max(1.0);
    let rate = (rate / unit).floor() * unit;
    let below: Vec<_> = below.iter().map(|(_, name)| name.clone()).collect();
    let below = match below.is_empty() {
        true => String::new(),
        false => format!("; {} cannot keep up: less than a tenth of the median rate", listed(&below)),
    };
    (rates.len() > 1 && rate >= 1.0).then(|| {
        format!(
            "latencies are of a closed loop: each store at its own highest rate. --rate {rate:.0} (not with \
             --detect or --budget) compares them at one rate, {:.0}% of that of {name}{below}",
            100.0 * RATE_FOR_LATENCIES
        )
    })
}

/// Returns a ranking of stores as a table with a row for each store, below its title if `is_titled`. Columns without
/// values are left out.
fn ranked(ranking: &Ranking<'_, '_>, is_titled: bool) -> String {
    let heads = ["Store", "Policy", "A kill loses", "A power cut loses", ranking.measure.heading()];
    let heads = heads.into_iter().chain(["to the first (95%)", "p99"]).chain(PRICE_HEADS);
    let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
    lines.extend(ranking.shown().into_iter().map(|row| {
        let best = if row.is_winner { " *" } else { "  " };
        let floor = if row.is_near_floor { "~" } else { "" };
        let disturbed = if row.is_disturbed { "!" } else { "" };
        let promises = [row.policy, row.kill, row.power_cut].map(str::to_owned);
        let values = [format!("{}{best}{floor}{disturbed}", row.value), row.to_first, row.p99];
        std::iter::once(row.store).chain(promises).chain(values).chain(row.price).collect()
    }));
    let title = if is_titled { format!("{}\n", ranking.title) } else { String::new() };
    title + &text_table::text(&text_table::without_empty_columns(lines), 4, "  ")
}

/// Returns the line that explains the mark `!` of values that other programs disturbed in every repetition, with their
/// number and the limit of the run; empty if there are none.
fn disturbed(run: &Run) -> String {
    let found = measured_cell::disturbed(run.cells.iter().map(|cell| (run, cell)));
    let (Some(words), Some(limit)) = (found, run.environment.foreign_limit) else { return String::new() };
    format!("\n!: {words} --foreign allows {:.0}%.\n", limit * 100.0)
}

/// Returns the text that explains the values of a table, for its title.
fn unit(entries: &[Entry<'_>]) -> String {
    let value = match entries.iter().all(|entry| entry.cell.figure == Figure::Throughput) {
        true => "operations/s, then the 99th percentile of latency",
        false => "operations/s with the 99th percentile of latency, or the unit shown",
    };
    let pacing = Some(measured_cell::pacing(entries)).filter(|words| !words.is_empty());
    let pacing = pacing.map_or(String::new(), |words| format!(" ({words})"));
    format!("{value}{pacing}; * is better than all others of the same work (95%)")
}

/// Returns the harness overhead as text: one number if the run has one reference cell, otherwise a table.
fn floor(run: &Run) -> String {
    let is_shown = |cell: &&Cell| cell.reference && run.unsupported(&cell.id).is_none();
    let cells: Vec<_> = run.cells.iter().filter(is_shown).collect();
    if let [cell] = cells.as_slice() {
        return format!("\nharness overhead: mean latency {} ns\n", mean_ns(run, cell));
    }
    let mut text = String::new();
    if !cells.is_empty() {
        text.push_str("\nharness overhead: mean latency, ns\n\n");
        render(&mut text, run, &cells, &run.row_heading, Losses::Hidden, &|cell| mean_ns(run, cell));
    }
    text
}

/// Returns a line about each cell of a run that was a soak, or for which a rate was searched.
fn soaks(run: &Run) -> Vec<String> {
    let entries = run.cells.iter().map(|cell| Entry::new(run, cell, 0, (0, 0)));
    let line = |entry: Entry<'_>| {
        let level = comparability::Level::of(&entry.cell.target);
        let measurement = entry.typical()?;
        let (kind, sentence) = match soak_notes::search_sentence(measurement) {
            Some(sentence) => ("rate", sentence),
            None => ("soak", soak_notes::sentence(measurement)?),
        };
        Some(format!("{kind}: {}, {level}: {sentence}", entry.label()))
    };
    entries.filter_map(line).collect()
}

/// Appends `lines` below a table, each preceded by `start`.
fn paragraph(text: &mut String, start: &str, lines: Vec<&str>) {
    for (number, line) in lines.into_iter().enumerate() {
        let blank = if number == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{blank}{start}{line}");
    }
}

/// Choice whether lines under the column heads of a table say what a kill and a power cut may lose.
#[derive(Clone, Copy, PartialEq)]
enum Losses {
    Shown,
    Hidden,
}

fn render(
    text: &mut String,
    run: &Run,
    cells: &[&Cell],
    heading: &str,
    losses: Losses,
    show: &dyn Fn(&Cell) -> String,
) {
    let columns = distinct(cells.iter().map(|cell| cell.column.as_str()));
    // The column with the most rows has them in the right order.
    let rows_of = |column: &str| cells.iter().filter(|cell| cell.column == column).count();
    let fullest = columns.iter().rev().max_by_key(|column| rows_of(column));
    let (first, others): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| fullest.is_some_and(|column| cell.column == *column));
    let rows = distinct(first.into_iter().chain(others).map(|cell| cell.row.as_str()));
    // A name may contain the bar: then no row is split.
    let count = |name: &str| name.split(" | ").count();
    let is_split = rows.iter().all(|row| count(row) == count(heading));
    let parts = |name: &str| match is_split {
        true => name.split(" | ").map(str::to_owned).collect::<Vec<_>>(),
        false => vec![name.to_owned()],
    };
    let labels = parts(heading).len();
    let mut lines = vec![[parts(heading), columns.iter().map(ToString::to_string).collect()].concat()];
    if losses == Losses::Shown && labels == 1 {
        lines.extend(loss_lines(cells, &columns));
    }
    for row in rows {
        let mut line = parts(row);
        line.extend(columns.iter().map(|column| {
            let cell = cells.iter().find(|cell| cell.row == row && cell.column == *column);
            // The column has no cell for this row.
            let Some(cell) = cell else { return String::new() };
            match run.unsupported(&cell.id) {
                Some(_) => "n/a".into(),
                None if run.has_failed(&cell.id) || is_complete(run, cell) => {
                    format!("{}{}{}", show(cell), floor_mark(run, cell), disturbed_mark(run, cell))
                }
                None => "-".into(),
            }
        }));
        lines.push(line);
    }
    text.push_str(&text_table::text(&lines, labels, " | "));
    explain_floor(text, run, cells.iter().copied());
    paragraph(text, "n/a: ", distinct(cells.iter().filter_map(|cell| run.unsupported(&cell.id))));
}

/// Returns two lines of a table: what each column's store may lose after a kill and after a power cut. Returns none if
/// the loss of a column is not known, or differs between cells of the column.
fn loss_lines(cells: &[&Cell], columns: &[&str]) -> Vec<Vec<String>> {
    let loses = |column: &&str| {
        let mut own = cells.iter().filter(|cell| cell.column == *column);
        let first = comparability::loses(&own.next()?.target)?;
        own.all(|cell| comparability::loses(&cell.target) == Some(first)).then_some(first)
    };
    let Some(losses) = columns.iter().map(loses).collect::<Option<Vec<_>>>() else { return Vec::new() };
    let line = |name: &str, of: fn(&Loses) -> LossClass| {
        let words = losses.iter().map(|loses| format!("{}  ", comparability::brief(of(loses))));
        std::iter::once(name.to_owned()).chain(words).collect()
    };
    vec![line("a kill loses", |loses| loses.kill), line("a power cut loses", |loses| loses.power_cut)]
}

/// Returns the mark `!` if other programs disturbed every repetition of a cell, otherwise an empty string.
fn disturbed_mark(run: &Run, cell: &Cell) -> &'static str {
    if run.disturbed_part(&cell.id).is_some() { "!" } else { "" }
}

/// Returns the mark `~` if the harness overhead may account for more than half of the measured time,
/// otherwise an empty string.
fn floor_mark(run: &Run, cell: &Cell) -> &'static str {
    let near = run.measurements(&cell.id).any(|measurement| measurement.near_floor == Some(true));
    if near { "~" } else { "" }
}

/// Appends the line that explains the mark `~`, if any of the cells has it.
fn explain_floor<'c>(text: &mut String, run: &Run, mut cells: impl Iterator<Item = &'c Cell>) {
    if cells.any(|cell| !floor_mark(run, cell).is_empty()) {
        paragraph(text, "~: ", vec![harness_share::NEAR_FLOOR]);
    }
}

fn is_complete(run: &Run, cell: &Cell) -> bool {
    (0..run.repetitions_of(&cell.id)).all(|repetition| run.has(&cell.id, repetition))
}

/// Returns the median of a cell's main metric as text, of throughput with the p99 latency; "failed" if a repetition
/// failed or is missing, or if no repetition has the metric.
fn figure(run: &Run, cell: &Cell) -> String {
    median(run, cell, |measurement| match cell.figure {
        Figure::Throughput => Some(measurement.throughput),
        Figure::Milliseconds => Some(measurement.seconds * 1e3),
        Figure::DiskBytes => measurement.disk_bytes.map(|bytes| bytes as f64),
        Figure::DeviceReadBytes => measurement.device_read_bytes_per_get,
    })
    .map_or("failed".into(), |number| match cell.figure {
        Figure::Throughput => format!("{}  {:>8}", number_format::grouped(number), p99(run, cell)),
        Figure::Milliseconds if number < 10.0 => format!("{number:.2}ms"),
        Figure::Milliseconds => format!("{number:.0}ms"),
        Figure::DiskBytes => format!("{:.2} MiB", number / f64::from(1 << 20)),
        Figure::DeviceReadBytes => format!("{:.1} KiB", number / 1024.0),
    })
}

fn p99(run: &Run, cell: &Cell) -> String {
    median(run, cell, P99.of).map_or(String::new(), |us| number_format::short(Unit::Microseconds, us))
}

fn mean_ns(run: &Run, cell: &Cell) -> String {
    if cell.workload.step != CellKind::Operations {
        return String::new();
    }
    let mean = |measurement: &Measurement| Some(measurement.latency.mean_us * 1e3);
    median(run, cell, mean).map_or("failed".into(), |number| format!("{number:.0}"))
}

/// Returns the median of a value over the repetitions of a cell that other programs did not disturb, or over all if
/// each was disturbed; `None` if a repetition failed or is missing, or if no repetition has the value.
fn median(run: &Run, cell: &Cell, number: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    if run.has_failed(&cell.id) || !is_complete(run, cell) {
        return None;
    }
    Some(Spread::of(run.measurements(&cell.id).filter_map(number))?.median)
}
