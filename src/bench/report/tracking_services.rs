//! Results in the formats of services that track benchmarks over time.

use crate::bench::result::{
    Cell, Run,
    metric::{METRICS, Metric, P99, THROUGHPUT, Unit},
    number_format,
    run_file::RunFile,
    spread::Spread,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Format of an export. The help of `kvbench export` shows the comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Bencher Metric Format, with the adapter `json`: throughput and the 99th percentile of latency
    Bencher,
    /// The tool is customBiggerIsBetter for throughput, and customSmallerIsBetter for all other metrics
    GithubActionBenchmark,
}

/// Reason why nothing can be exported (`kvbench export`).
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no metric of this name.
    #[error(
        "--metric {0}: there is no such metric; choose one of {known}",
        known = METRICS.map(|metric| metric.name).join(", ")
    )]
    UnknownMetric(String),
    /// Bencher's format always has the same metrics.
    #[error(
        "--metric: bencher gets throughput and p99 latency; leave out --metric, or use github-action-benchmark"
    )]
    MetricOfBencher,
    /// No cell has a value.
    #[error(
        "no store in these results has a value of {0}; `kvbench report` shows what was measured and what failed"
    )]
    NoValue(&'static str),
}

/// Returns the medians of all cells as JSON, without cells that failed or that measure the harness. Of a cell that
/// several runs measured, only the newest run counts, also if the cell failed in it: `runs` are sorted from the oldest to
/// the newest. `metric` is the name of the metric for GitHub's format, by default that of throughput; Bencher's format has
/// throughput and the 99th percentile of the latency, in nanoseconds.
///
/// # Errors
///
/// Fails if there is no metric of the name `metric`, if a metric is given with Bencher's format, or if no cell has a value.
pub fn export(runs: &[RunFile], format: Format, metric: Option<&str>) -> Result<Value, ExportError> {
    if format == Format::Bencher && metric.is_some() {
        return Err(ExportError::MetricOfBencher);
    }
    let asked = |name: &str| {
        let found = METRICS.into_iter().find(|known| known.name == name);
        found.ok_or_else(|| ExportError::UnknownMetric(name.into()))
    };
    let metric = metric.map_or(Ok(&THROUGHPUT), asked)?;
    let found = match format {
        Format::Bencher => bencher(runs),
        Format::GithubActionBenchmark => github(runs, metric),
    };
    let is_empty =
        found.as_object().is_some_and(Map::is_empty) || found.as_array().is_some_and(Vec::is_empty);
    if is_empty { Err(ExportError::NoValue(metric.name)) } else { Ok(found) }
}

/// Returns the cells that measure a store, not the harness overhead, each with the newest run that has it; without those
/// of which a repetition failed in that run.
fn cells(runs: &[RunFile]) -> impl Iterator<Item = (&Run, &Cell)> {
    let all = runs.iter().flat_map(|file| file.run.cells.iter().map(|cell| (&file.run, cell)));
    let newest: BTreeMap<&str, (&Run, &Cell)> =
        all.map(|(run, cell)| (cell.id.as_str(), (run, cell))).collect();
    newest.into_values().filter(|(run, cell)| !cell.reference && !run.has_failed(&cell.id))
}

fn spread(run: &Run, cell: &Cell, metric: &Metric) -> Option<Spread> {
    Spread::of(run.measurements(&cell.id).filter_map(metric.of))
}

fn bencher(runs: &[RunFile]) -> Value {
    let mut benchmarks = Map::new();
    for (run, cell) in cells(runs) {
        let mut measures = Map::new();
        for (slug, metric) in [("throughput", &THROUGHPUT), ("latency", &P99)] {
            let Some(found) = spread(run, cell, metric) else { continue };
            // Bencher's built-in measure of latency is in nanoseconds.
            let scale = if metric.unit == Unit::Microseconds { 1e3 } else { 1.0 };
            let value = json!({
                "value": found.median * scale,
                "lower_value": found.min * scale,
                "upper_value": found.max * scale,
            });
            measures.insert(slug.into(), value);
        }
        if !measures.is_empty() {
            benchmarks.insert(cell.id.clone(), measures.into());
        }
    }
    benchmarks.into()
}

fn github(runs: &[RunFile], metric: &'static Metric) -> Value {
    let entries = cells(runs).filter_map(|(run, cell)| {
        let found = spread(run, cell, metric)?;
        let entry = json!({
            "name": cell.id,
            "unit": unit(metric.unit),
            "value": found.median,
            "range": format!("\u{b1} {}", number_format::digits((found.max - found.min) / 2.0)),
            "extra": format!("{}, {} repetitions", metric.title, found.samples),
        });
        Some(entry)
    });
    entries.collect()
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::PerSecond => "operations/s",
        Unit::Microseconds => "us",
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::Times => "times",
        Unit::Count => "count",
    }
}
