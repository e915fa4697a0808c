//! The page: one file that needs no network, for people who choose an engine.

use super::{
    answers::{self, Answer},
    charts::{Style, Styles},
    contest::{Contest, contests},
    entry::{Entry, State},
    environment::{self, Described},
    model::{Head, Report, Table},
    panels::{self, ChartGroup},
};
use crate::bench::{
    result::measure::{self, Better, Measure},
    result::numbers,
};
use askama::Template;

const STYLE_SHEET: &str = include_str!("templates/report.css");
const SCRIPT: &str = include_str!("templates/report.js");

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    style_sheet: &'static str,
    script: &'static str,
    summary: String,
    warnings: usize,
    answers: Vec<Answer>,
    sections: Vec<Section<'a>>,
    runs: Vec<Described<'a>>,
}

/// A table with its charts.
struct Section<'a> {
    id: String,
    table: &'a Table<'a>,
    level: String,
    tabs: Vec<Tab>,
    rows: Vec<Row<'a>>,
    /// Stores in the line charts.
    legend: Vec<(String, Style)>,
    charts: Vec<ChartGroup>,
}

/// What a table can show: a measure, or first of all what each cell is about.
struct Tab {
    name: &'static str,
    title: &'static str,
    words: &'static str,
    better: &'static str,
    /// Absent where cells are about different measures.
    measure: Option<&'static Measure>,
}

struct Row<'a> {
    head: &'a Head,
    places: Vec<Option<Place<'a>>>,
}

struct Place<'a> {
    figures: Vec<Figure>,
    /// Stands for the figures that are missing.
    without: &'static str,
    state: &'a State,
    notes: &'a [usize],
}

impl Section<'_> {
    /// Whether the title of the table tells its level already.
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

/// One figure of a cell; the page shows those of one measure at a time.
struct Figure {
    measure: &'static str,
    /// For sorting.
    raw: f64,
    text: String,
    range: String,
    best: bool,
    hidden: bool,
}

/// The page.
pub fn render(report: &Report<'_>) -> Result<String, askama::Error> {
    let styles = Styles::new(report.entries().map(Entry::label));
    let runs: Vec<_> = report.runs.iter().map(environment::describe).collect();
    let tables = report.tables.iter().enumerate();
    let sections = tables.map(|(number, table)| section(number + 1, table, &styles));
    Page {
        style_sheet: STYLE_SHEET,
        script: SCRIPT,
        summary: summary(report),
        warnings: runs.iter().map(|run| run.warnings.len()).sum(),
        answers: answers::answers(report),
        sections: sections.collect::<Result<_, _>>()?,
        runs,
    }
    .render()
}

fn summary(report: &Report<'_>) -> String {
    let mut machines: Vec<String> = Vec::new();
    for file in report.runs {
        let place = &file.run.environment;
        let cpu = place.cpu.as_deref().unwrap_or("unknown processor");
        let machine = format!("{cpu}, {} cores, {}", place.cores, place.system);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    let (runs, cells) = (report.runs.len(), report.entries().count());
    let plural = if runs == 1 { "" } else { "s" };
    format!("{runs} run{plural}, {cells} cells, on {}", machines.join(" and on "))
}

fn section<'a>(number: usize, table: &'a Table<'a>, styles: &Styles) -> Result<Section<'a>, askama::Error> {
    let contests = contests(&table.entries);
    let tabs = tabs(table);
    let rows = table.rows.iter().enumerate().map(|(row, head)| Row {
        head,
        places: (0..table.columns.len())
            .map(|column| table.at(row, column).map(|entry| place(entry, &tabs, &contests)))
            .collect(),
    });
    let mut legend: Vec<(String, Style)> = Vec::new();
    for label in table.entries.iter().filter(|entry| entry.state == State::Sound).map(Entry::label) {
        if !legend.iter().any(|(known, _)| *known == label) {
            legend.push((label.clone(), styles.of(&label)));
        }
    }
    Ok(Section {
        id: format!("t{number}"),
        table,
        level: table.level.to_string(),
        rows: rows.collect(),
        tabs,
        legend,
        charts: panels::groups(&contests, styles)?,
    })
}

fn tabs(table: &Table<'_>) -> Vec<Tab> {
    let main = table.figure();
    let first = main.map_or(
        Tab { name: "result", title: "Result", words: "each in its unit", better: "lower", measure: None },
        Tab::new,
    );
    let shown = |measure: &&Measure| {
        let is_main = main.is_some_and(|main| std::ptr::eq(main, *measure));
        measure.in_tables && !is_main && table.entries.iter().any(|entry| entry.spread(measure).is_some())
    };
    let mut tabs = vec![first];
    tabs.extend(measure::ALL.into_iter().filter(shown).map(Tab::new));
    tabs
}

impl Tab {
    fn new(measure: &'static Measure) -> Self {
        let better = if measure.better == Better::Higher { "higher" } else { "lower" };
        let (name, title, words) = (measure.name, measure.title, measure.better.words());
        Self { name, title, words, better, measure: Some(measure) }
    }
}

fn place<'a>(entry: &'a Entry<'a>, tabs: &[Tab], contests: &[Contest<'a, 'a>]) -> Place<'a> {
    let figures = tabs.iter().enumerate().filter_map(|(number, tab)| {
        let measure = tab.measure.unwrap_or_else(|| measure::of_figure(entry.cell.figure));
        let spread = entry.spread(measure)?;
        let text = |value| numbers::exact(measure.unit, value);
        let range = if spread.samples > 1 {
            format!("{} \u{2013} {}", text(spread.min), text(spread.max))
        } else {
            "once".to_owned()
        };
        Some(Figure {
            measure: tab.name,
            raw: spread.median,
            text: text(spread.median),
            range,
            best: contests.iter().filter_map(|one| one.best(measure)).any(|best| std::ptr::eq(best, entry)),
            hidden: number > 0,
        })
    });
    Place {
        figures: figures.collect(),
        without: entry.state.without_figure(),
        state: &entry.state,
        notes: &entry.notes,
    }
}
