//! HTML report for people who choose an engine: one file that needs no network.

use super::{
    chart_groups::{self, ChartGroup},
    charts::{Style, Styles},
    comparison_group::contests,
    environment::{self, EnvironmentText, Link},
    interactive_ranking,
    matrix::Matrix,
    measured_cell::{Entry, State},
    ranking::{Ranking, ShownStore, rankings, verdicts},
    report_tables::{Head, Report, Table},
    store_properties::{StoreProperties, promises},
};
use crate::bench::result::{
    metric::{self, Better, Metric, Unit},
    number_format,
};
use askama::Template;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::write::ZlibEncoder;
use std::{io::Write, path::PathBuf};

const STYLE_SHEET: &str = include_str!("templates/report.css");
const SCRIPT: &str = include_str!("templates/report.js");

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    style_sheet: &'static str,
    script: &'static str,
    summary: String,
    warnings: usize,
    /// Sentence about values that other programs disturbed in every repetition; empty if there are none.
    disturbed: String,
    /// Rankings of stores whose policies were chosen by `--may-lose`.
    rankings: Vec<ShownRanking>,
    matrix: Matrix,
    promises: Vec<StoreProperties>,
    /// JSON data of the page's chooser, which compares stores for a reader's own mix of reads and writes.
    data: String,
    sections: Vec<Section<'a>>,
    runs: Vec<EnvironmentText<'a>>,
}

/// Ranking of stores as text for the page.
struct ShownRanking {
    title: String,
    measure: &'static str,
    verdict: String,
    rows: Vec<ShownStore>,
}

/// Section of the HTML page: a table with its charts.
struct Section<'a> {
    id: String,
    table: &'a Table<'a>,
    level: String,
    /// Size of the data compared with cache and memory, as text.
    ratio: String,
    tabs: Vec<Tab>,
    rows: Vec<Row<'a>>,
    /// Rates of the cells without the write-back after their slices, as text; empty if there are none.
    without_write_back: String,
    /// Charts of the table, compressed (see [`Charts`]); empty if there are none.
    charts: String,
}

/// Charts of a table of the HTML page. Their SVG is repetitive, so it is compressed, and decompressed by the page's
/// script when the table is opened.
#[derive(Template)]
#[template(path = "charts.html")]
struct Charts<'a> {
    id: &'a str,
    /// Names of the stores, each with the style of its lines in the charts, for the legend.
    legend: Vec<(String, Style)>,
    charts: Vec<ChartGroup>,
}

impl Charts<'_> {
    /// Returns the rendered charts, compressed with zlib and encoded in base64; empty if there are none.
    fn packed(&self) -> Result<String, askama::Error> {
        if self.charts.is_empty() {
            return Ok(String::new());
        }
        let mut packer = ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(self.render()?.as_bytes()).map_err(askama::Error::custom)?;
        Ok(BASE64_STANDARD.encode(packer.finish().map_err(askama::Error::custom)?))
    }
}

/// Selectable view of a table: one metric or, in the first tab, the main metric of each cell.
struct Tab {
    name: &'static str,
    title: &'static str,
    /// Direction in which the values are better and, for latencies, how the operations start.
    words: String,
    better: &'static str,
    /// Name of the format in which the page's script shows the tab's values, such as "bytes".
    unit: &'static str,
    /// Metric of the tab; `None` if the cells have different main metrics.
    measure: Option<&'static Metric>,
}

struct Row<'a> {
    head: &'a Head,
    places: Vec<Option<Place<'a>>>,
}

struct Place<'a> {
    /// Value of the cell in the table's first tab; `None` if there is none.
    shown: Option<Figure>,
    /// Values of the cell in the tabs, for the script: for each tab its number, median, minimum, maximum, and 1 if the
    /// cell is the best of its ranking, otherwise 0. Tabs without a common metric, or in which the cell has no
    /// value, are left out.
    figures: String,
    /// Text that the table cell shows in place of a missing value, such as "failed".
    without: &'static str,
    state: &'a State,
    notes: &'a [usize],
}

impl Section<'_> {
    /// Returns `true` if the title of the table already names its level: access, commit path and fsync policy.
    fn titled_by_level(&self) -> bool {
        let level = &self.table.level;
        self.table.title.contains(level.access_words())
            && self.table.title.contains(&level.durability_words())
    }
}

impl Place<'_> {
    fn is_faulty(&self) -> bool {
        matches!(self.state, State::Faulty(_))
    }
}

/// Value of a cell in the first tab of its table, as text and as a number.
struct Figure {
    /// Unformatted value of the cell, by which the page sorts.
    raw: f64,
    text: String,
    range: String,
    best: bool,
}

/// Renders the HTML page. `links` are the paths of the result files relative to the page, in the order of the runs;
/// `None` for no copy.
pub fn render(report: &Report<'_>, links: &[Option<PathBuf>]) -> Result<String, askama::Error> {
    let styles = Styles::new(report.entries().map(Entry::label));
    let mut runs = environment::of_runs(report);
    for (run, link) in runs.iter_mut().zip(links) {
        run.link = link.as_deref().map(Link::to);
    }
    let promises = promises(report);
    let tables = report.tables.iter().enumerate();
    let sections = tables.map(|(number, table)| section(number + 1, table, &styles));
    Page {
        style_sheet: STYLE_SHEET,
        script: SCRIPT,
        summary: summary(report),
        warnings: runs.iter().map(|run| run.warnings.len()).sum(),
        disturbed: report.disturbed().unwrap_or_default(),
        rankings: report.by_policy().into_iter().map(shown_ranking).collect(),
        matrix: Matrix::of(report).without_unmeasured(),
        data: interactive_ranking::data(report, &promises).map_err(askama::Error::custom)?,
        promises,
        sections: sections.collect::<Result<_, _>>()?,
        runs,
    }
    .render()
}

fn shown_ranking((table, ranking): (&Table<'_>, Ranking<'_, '_>)) -> ShownRanking {
    ShownRanking {
        title: format!("{}: {}", table.title, ranking.title),
        measure: ranking.measure.heading(),
        verdict: verdicts(std::slice::from_ref(&ranking)).concat(),
        rows: ranking.shown(),
    }
}

fn summary(report: &Report<'_>) -> String {
    let machines = report.runs.iter().map(|file| {
        let place = &file.run.environment;
        let cpu = place.cpu.as_deref().unwrap_or("unknown processor");
        format!("{cpu}, {} cores, {}", place.cores, place.system)
    });
    let machines = number_format::distinct(machines);
    let (runs, cells) = (report.runs.len(), report.entries().count());
    let plural = if runs == 1 { "" } else { "s" };
    format!("{runs} run{plural}, {cells} cells, on {}", machines.join(" and on "))
}

fn section<'a>(number: usize, table: &'a Table<'a>, styles: &Styles) -> Result<Section<'a>, askama::Error> {
    let (contests, rankings) = (contests(&table.entries), rankings(&table.entries));
    let tabs = tabs(table);
    let best: Vec<_> = tabs.iter().map(|tab| best(tab, &rankings)).collect();
    let rows = table.rows.iter().enumerate().map(|(row, head)| Row {
        head,
        places: (0..table.columns.len())
            .map(|column| table.at(row, column).map(|entry| place(entry, &tabs, &best)))
            .collect(),
    });
    let mut legend: Vec<(String, Style)> = Vec::new();
    for label in table.entries.iter().filter(|entry| entry.state == State::Sound).map(Entry::label) {
        if !legend.iter().any(|(known, _)| *known == label) {
            legend.push((label.clone(), styles.of(&label)));
        }
    }
    let id = format!("t{number}");
    let charts = Charts { id: &id, legend, charts: chart_groups::groups(&contests, styles)? }.packed()?;
    Ok(Section {
        id,
        table,
        level: table.level.to_string(),
        ratio: table.ratio(),
        rows: rows.collect(),
        tabs,
        without_write_back: without_write_back(table),
        charts,
    })
}

/// Returns the rates of a table's cells without the write-back after their slices: "ycsb-a, map: 346 k/s; ...".
fn without_write_back(table: &Table<'_>) -> String {
    let rate = |entry: &Entry<'_>| {
        let (row, column) = entry.place;
        let [row, column] = [table.rows.get(row)?, table.columns.get(column)?].map(|head| &head.label);
        let rate = number_format::short(Unit::PerSecond, entry.rate_without_write_back()?);
        Some(format!("{row}, {column}: {rate}"))
    };
    table.entries.iter().filter_map(rate).collect::<Vec<_>>().join("; ")
}

fn tabs(table: &Table<'_>) -> Vec<Tab> {
    let main = table.figure();
    let first = main.map_or(
        Tab {
            name: "result",
            title: "Result",
            words: "each in its unit".to_owned(),
            better: "lower",
            unit: "",
            measure: None,
        },
        |measure| Tab::new(measure, table),
    );
    let shown = |measure: &&Metric| {
        let is_main = main.is_some_and(|main| std::ptr::eq(main, *measure));
        measure.in_tables && !is_main && table.entries.iter().any(|entry| entry.spread(measure).is_some())
    };
    let mut tabs = vec![first];
    tabs.extend(metric::METRICS.into_iter().filter(shown).map(|measure| Tab::new(measure, table)));
    tabs
}

impl Tab {
    fn new(measure: &'static Metric, table: &Table<'_>) -> Self {
        let better = if measure.better == Better::Higher { "higher" } else { "lower" };
        let (name, title) = (measure.name, measure.heading());
        let words = match measure.is_latency() {
            true => format!("{}; {}", measure.better.words(), table.pacing()),
            false => measure.better.words().to_owned(),
        };
        let unit = match measure.unit {
            Unit::PerSecond => "rate",
            Unit::Microseconds => "us",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Times => "times",
            Unit::Count => "count",
        };
        Self { name, title, words, better, unit, measure: Some(measure) }
    }
}

/// Returns the best cell of each ranking by the metric of a tab; rankings without a certain best are left out.
fn best<'a>(tab: &Tab, rankings: &[Ranking<'a, 'a>]) -> Vec<&'a Entry<'a>> {
    let of = |ranking: &Ranking<'a, 'a>| {
        let figure = ranking.places.first()?.entry.cell.figure;
        ranking.best(tab.measure.unwrap_or_else(|| metric::of_figure(figure)))
    };
    rankings.iter().filter_map(of).collect()
}

/// Collects the values of a cell for all tabs of its table. `best` holds, for each tab, the best cells of the table.
fn place<'a>(entry: &'a Entry<'a>, tabs: &[Tab], best: &[Vec<&'a Entry<'a>>]) -> Place<'a> {
    let (mut shown, mut figures) = (None, Vec::new());
    for (number, (tab, best)) in tabs.iter().zip(best).enumerate() {
        let measure = tab.measure.unwrap_or_else(|| metric::of_figure(entry.cell.figure));
        let Some(spread) = entry.spread(measure) else { continue };
        let best = best.iter().any(|best| std::ptr::eq(*best, entry));
        let text = |value| number_format::exact(measure.unit, value);
        let range = match spread.samples {
            1 => "measured once".to_owned(),
            several => format!("{} to {}, {several} repetitions", text(spread.min), text(spread.max)),
        };
        if number == 0 {
            shown = Some(Figure { raw: spread.median, text: text(spread.median), range, best });
        }
        let [median, min, max] = [spread.median, spread.min, spread.max].map(short);
        // A tab without a common metric has values of different units, which the script cannot format.
        if tab.measure.is_some() {
            figures.push(format!("{number} {median} {min} {max} {}", u8::from(best)));
        }
    }
    Place {
        shown,
        figures: figures.join(","),
        without: entry.state.without_figure(),
        state: &entry.state,
        notes: &entry.notes,
    }
}

/// Formats a value with four significant digits, in plain or scientific notation, whichever is shorter.
fn short(value: f64) -> String {
    let rounded = format!("{value:.3e}").parse().unwrap_or(value);
    let (plain, scientific) = (format!("{rounded}"), format!("{rounded:e}"));
    if scientific.len() < plain.len() { scientific } else { plain }
}
