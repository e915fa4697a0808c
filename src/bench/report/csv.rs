//! CSV report for spreadsheets and scripts, with one line per cell. Each metric has three columns: its name, which
//! contains the unit if there is one, followed by `_median`, `_min` or `_max`.

use super::{
    measured_cell::{Entry, State},
    report_tables::{Report, Table},
};
use crate::bench::result::{comparability::Level, metric, number_format};

const HEAD: [&str; 25] = [
    "run",
    "suite",
    "table",
    "row",
    "column",
    "cell",
    "store",
    "access",
    "durability",
    "cache_bytes",
    "compression",
    "workload",
    "mix",
    "keys",
    "key_bytes",
    "value_bytes",
    "order",
    "threads",
    "batch",
    "rate",
    "seed",
    "commit",
    "samples",
    "state",
    "fault",
];

/// Renders the report as CSV with a header line.
pub fn render(report: &Report<'_>) -> String {
    let mut head: Vec<String> = HEAD.iter().map(ToString::to_string).collect();
    for measure in metric::METRICS {
        head.extend(["median", "min", "max"].map(|part| format!("{}_{part}", measure.name)));
    }
    let mut text = line(&head);
    for table in &report.tables {
        for entry in &table.entries {
            text.push_str(&line(&row(table, entry)));
        }
    }
    text
}

fn row(table: &Table<'_>, entry: &Entry<'_>) -> Vec<String> {
    let mut fields = origin(table, entry);
    fields.extend(workload(entry));
    let (state, fault) = match &entry.state {
        State::Sound => ("sound", ""),
        State::Faulty(fault) => ("faulty", fault.as_str()),
        State::Unsupported(reason) => ("unsupported", reason.as_str()),
        State::Missing => ("missing", ""),
    };
    fields.extend([entry.samples().to_string(), state.to_owned(), fault.to_owned()]);
    for measure in metric::METRICS {
        match entry.spread(measure) {
            Some(spread) => fields.extend([spread.median, spread.min, spread.max].map(|v| v.to_string())),
            None => fields.extend([(); 3].map(|()| String::new())),
        }
    }
    fields
}

fn origin(table: &Table<'_>, entry: &Entry<'_>) -> Vec<String> {
    let (run, cell) = (entry.run, entry.cell);
    let level = Level::of(&cell.target);
    vec![
        run.started.clone(),
        run.suite.clone().unwrap_or_default(),
        table.title.to_owned(),
        cell.row.clone(),
        cell.column.clone(),
        cell.id.clone(),
        cell.target.store.clone(),
        level.access_words().to_owned(),
        // The policy that ran, also where --may-lose chose it.
        Level { may_lose: None, ..level }.durability_words(),
        cell.target.cache_bytes.to_string(),
        cell.target.compression.to_string(),
    ]
}

fn workload(entry: &Entry<'_>) -> Vec<String> {
    let work = &entry.cell.workload;
    vec![
        work.name.clone(),
        number_format::mix(&work.mix),
        work.keys.to_string(),
        number_format::length(work.key_bytes),
        number_format::length(work.value_bytes),
        number_format::order(work.order),
        work.threads.to_string(),
        work.batch.to_string(),
        work.rate.map(|rate| rate.to_string()).unwrap_or_default(),
        work.seed.to_string(),
        entry.run.environment.commit.clone().unwrap_or_default(),
    ]
}

/// Formats one line of CSV: fields are quoted according to RFC 4180, and the line ends with a line feed alone.
fn line(fields: &[String]) -> String {
    let quoted: Vec<_> = fields.iter().map(|field| quote(field)).collect();
    format!("{}\n", quoted.join(","))
}

fn quote(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
