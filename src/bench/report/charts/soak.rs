//! Charts of the seconds of a soak.

use super::{
    Styles,
    axis::Axis,
    lines::{BOTTOM, LEFT, Lines, Mark, RIGHT, TOP, series, tick},
};
use crate::bench::{
    report::comparison_group::ComparisonGroup,
    result::{
        metric::Unit,
        soak::{ANONYMOUS, CPU, ENGINE, FILES, P99, Soak, WRITTEN},
        statistics,
    },
};
use askama::Template;
use std::collections::BTreeSet;

/// Names of the series of CPU time of the benchmark's own threads: those that work, and the one that reads the values.
const DRIVER: [&str; 2] = ["cpu_ms/driver", "cpu_ms/sampler"];
/// Maximum number of points of a line.
const POINTS: usize = 60;

/// Values over time that a chart shows, of all stores.
pub struct OverTime {
    /// Title of the chart.
    pub title: String,
    unit: Unit,
    is_logarithmic: bool,
    /// Function that returns the values of each second, given the soak and the name of a series.
    values: fn(&Soak, &str) -> Vec<Option<f64>>,
    name: String,
}

/// Returns the charts that the soaks of a comparison group have; none without a soak.
pub fn kinds(contest: &ComparisonGroup<'_, '_>) -> Vec<OverTime> {
    let soaks: Vec<&Soak> =
        contest.entries.iter().filter_map(|entry| entry.typical()?.soak.as_ref()).collect();
    if soaks.is_empty() {
        return Vec::new();
    }
    let of = |title: &str, unit, name: &str| OverTime {
        title: title.to_owned(),
        unit,
        is_logarithmic: unit == Unit::Microseconds,
        values: |soak, name| soak.values(name).to_vec(),
        name: name.to_owned(),
    };
    let mut charts = vec![
        of("latency p99", Unit::Microseconds, P99),
        of("size on disk", Unit::Bytes, FILES),
        of("memory without files behind it", Unit::Bytes, ANONYMOUS),
        of("bytes written each second", Unit::Bytes, WRITTEN),
        OverTime {
            values: other_cpus,
            ..of("CPUs used by threads other than the benchmark's", Unit::Times, CPU)
        },
    ];
    let gauges: BTreeSet<&String> =
        soaks.iter().flat_map(|soak| &soak.backlogs).filter(|name| name.starts_with(ENGINE)).collect();
    charts.extend(gauges.into_iter().map(|name| {
        let unit = if name.ends_with("bytes") { Unit::Bytes } else { Unit::Count };
        of(&name.trim_start_matches(ENGINE).replace('_', " "), unit, name)
    }));
    charts
}

/// Returns the number of CPUs that other threads than the benchmark's used in each second.
fn other_cpus(soak: &Soak, prefix: &str) -> Vec<Option<f64>> {
    let others: Vec<_> = soak
        .series
        .iter()
        .filter(|(name, _)| name.starts_with(prefix) && !DRIVER.contains(&name.as_str()))
        .map(|(_, values)| values)
        .collect();
    let sum =
        |second: usize| others.iter().filter_map(|values| values.get(second).copied().flatten()).sum::<f64>();
    (0..soak.seconds()).map(|second| Some(sum(second) / 1e3)).collect()
}

/// Draws a line for each store that has the values. Each point is the mean of some seconds, at their end.
pub fn chart(
    contest: &ComparisonGroup<'_, '_>,
    kind: &OverTime,
    styles: &Styles,
) -> Option<Result<String, askama::Error>> {
    let points = |soak: &Soak| {
        let values = (kind.values)(soak, &kind.name);
        let joined = values.len().div_ceil(POINTS).max(1);
        let mean = |seconds: &[Option<f64>]| {
            let known: Vec<f64> = seconds.iter().copied().flatten().collect();
            statistics::mean(&known)
        };
        let means = values.chunks(joined).map(mean).enumerate();
        #[expect(clippy::cast_precision_loss, reason = "pixels")]
        let points = means.filter_map(|(number, mean)| Some((((number + 1) * joined) as f64, mean?)));
        // A logarithmic axis cannot show 0.
        points.filter(|(_, value)| !kind.is_logarithmic || *value > 0.0).collect::<Vec<_>>()
    };
    let found: Vec<_> = contest
        .entries
        .iter()
        .filter_map(|entry| Some((entry.label(), points(entry.typical()?.soak.as_ref()?))))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let all = || found.iter().flat_map(|(_, points)| points);
    let largest = all().map(|point| point.1).reduce(f64::max)?;
    let smallest = all().map(|point| point.1).reduce(f64::min)?;
    let x = Axis::linear(all().map(|point| point.0).reduce(f64::max)?, (LEFT, RIGHT));
    let y = match kind.is_logarithmic {
        true => Axis::logarithmic(smallest, largest, (BOTTOM, TOP)),
        false => Axis::linear(largest * 1.05, (BOTTOM, TOP)),
    };
    let lines = found.iter().map(|(label, points)| {
        let marks = points.iter().map(|(second, value)| Mark {
            x: x.place(*second),
            y: y.place(*value),
            text: String::new(),
        });
        series(label, styles, marks.collect(), 10)
    });
    let chart = Lines {
        words: format!("{} over time: {}", kind.title, contest.title),
        x_ticks: x.ticks().into_iter().map(|s| (x.place(s), tick(Unit::Seconds, s))).collect(),
        y_ticks: y.ticks().into_iter().map(|value| (y.place(value), tick(kind.unit, value))).collect(),
        series: lines.collect(),
        ..Lines::empty()
    };
    Some(chart.render())
}
