//! Chart of latency against the offered load.

use super::{
    Styles,
    axis::Axis,
    lines::{BOTTOM, LEFT, Lines, Mark, RIGHT, TOP, series, tick},
};
use crate::bench::{
    report::comparison_group::{ComparisonGroup, is_comparable_at_other_rates},
    result::{comparability, metric::Unit, number_format},
};
use askama::Template;
use std::collections::BTreeMap;

/// Comparison groups (cells that may be ranked) of one workload that runs at several rates.
pub struct Loads<'c, 'r, 'a> {
    /// Short description of the workload.
    pub title: String,
    contests: Vec<&'c ComparisonGroup<'r, 'a>>,
}

/// Collects the comparison groups that run at a rate (open loop), by their workload without the rate and by the stores
/// that may be ranked. Workloads with only one rate are left out.
pub fn of<'c, 'r, 'a>(contests: &'c [ComparisonGroup<'r, 'a>]) -> Vec<Loads<'c, 'r, 'a>> {
    let mut found: Vec<Loads<'c, 'r, 'a>> = Vec::new();
    for contest in contests.iter().filter(|contest| contest.is_paced()) {
        let Some(first) = contest.entries.first() else { continue };
        let same = |loads: &&mut Loads<'c, 'r, 'a>| {
            let known = loads.contests.first().and_then(|known| known.entries.first());
            known.is_some_and(|known| {
                known.cell.table == first.cell.table && is_comparable_at_other_rates(known, first)
            })
        };
        match found.iter_mut().find(same) {
            Some(loads) => loads.contests.push(contest),
            None => found.push(Loads { title: title(contest), contests: vec![contest] }),
        }
    }
    found.retain(|loads| {
        let rates = loads.contests.iter().filter_map(|contest| contest.entries.first()?.cell.workload.rate);
        number_format::distinct(rates).len() > 1
    });
    found
}

fn title(contest: &ComparisonGroup<'_, '_>) -> String {
    let Some(entry) = contest.entries.first() else { return String::new() };
    let work = &entry.cell.workload;
    let losses = entry.may_lose().then(|| comparability::loses_words(&entry.cell.target)).flatten();
    let losses = losses.map_or(String::new(), |words| format!("; {words}"));
    format!("{}: {}, {} threads{losses}", work.name, number_format::mix(&work.mix), work.threads)
}

/// Returns, for each store, the points of its line: the rate in operations per second, and the 99th percentile of the
/// latency in microseconds.
fn points(loads: &Loads<'_, '_, '_>) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut found: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for entry in loads.contests.iter().flat_map(|contest| &contest.entries) {
        let p99 = || match entry.percentiles(&[0.99]) {
            Some((values, _)) => values.first().copied(),
            None => Some(entry.typical()?.latency.p99_us),
        };
        if let (Some(rate), Some(us)) = (entry.cell.workload.rate, p99().filter(|us| *us > 0.0)) {
            found.entry(entry.label()).or_default().push((rate, us));
        }
    }
    found.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    found
}

/// Draws a line for each store: the 99th percentile of the latency at each rate, over all repetitions together or, if
/// the result file has no histograms, of the repetition with the median throughput.
pub fn chart(loads: &Loads<'_, '_, '_>, styles: &Styles) -> Option<Result<String, askama::Error>> {
    let found = points(loads);
    let all = || found.values().flatten();
    let (smallest, largest) =
        (all().map(|point| point.1).reduce(f64::min)?, all().map(|point| point.1).reduce(f64::max)?);
    let x = Axis::linear(all().map(|point| point.0).reduce(f64::max)?, (LEFT, RIGHT));
    let y = Axis::logarithmic(smallest, largest, (BOTTOM, TOP));
    let series = found.iter().map(|(label, points)| {
        let marks = points.iter().map(|(rate, us)| Mark {
            x: x.place(*rate),
            y: y.place(*us),
            text: format!(
                "{} at {}",
                number_format::short(Unit::Microseconds, *us),
                number_format::short(Unit::PerSecond, *rate)
            ),
        });
        series(label, styles, marks.map(Some).collect(), 1)
    });
    let chart = Lines {
        words: format!("99th percentile of latency against offered load: {}", loads.title),
        x_ticks: x.ticks().into_iter().map(|rate| (x.place(rate), tick(Unit::PerSecond, rate))).collect(),
        y_ticks: y.ticks().into_iter().map(|us| (y.place(us), tick(Unit::Microseconds, us))).collect(),
        series: series.collect(),
        ..Lines::empty()
    };
    Some(chart.render())
}
