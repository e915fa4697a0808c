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
        soak::{ANONYMOUS, CPU, ENGINE, FILES, MAX, P50, P99, RESIDENT, Soak, WRITTEN},
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
    /// `true` if a point is the largest value of its seconds, not their mean.
    is_largest: bool,
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
        is_largest: false,
        values: |soak, name| soak.values(name).to_vec(),
        name: name.to_owned(),
    };
    let mut charts = vec![
        of("latency p50", Unit::Microseconds, P50),
        of("latency p99", Unit::Microseconds, P99),
        OverTime { is_largest: true, ..of("largest latency", Unit::Microseconds, MAX) },
        of("size on disk", Unit::Bytes, FILES),
        of("memory without files behind it", Unit::Bytes, ANONYMOUS),
        of("memory with mapped files", Unit::Bytes, RESIDENT),
        of("bytes written each second", Unit::Bytes, WRITTEN),
        OverTime {
            values: other_cpus,
            ..of("CPUs used by threads other than the benchmark's", Unit::Times, CPU)
        },
    ];
    let gauges: BTreeSet<&str> = soaks.iter().flat_map(|soak| gauges(soak)).collect();
    charts.extend(gauges.into_iter().map(|name| {
        let unit = if name.ends_with("bytes") { Unit::Bytes } else { Unit::Count };
        of(&name.trim_start_matches(ENGINE).replace('_', " "), unit, name)
    }));
    charts
}

/// Returns the names of the engine's gauges that are charted: those of deferred work, and those that are 0 in some seconds
/// and not in others, as in a stall.
fn gauges(soak: &Soak) -> impl Iterator<Item = &str> {
    let comes_and_goes = |values: &[Option<f64>]| {
        let is_none = |value: &f64| *value == 0.0;
        let known = || values.iter().flatten();
        known().any(is_none) && !known().all(is_none)
    };
    soak.series
        .iter()
        .filter(move |(name, values)| {
            name.starts_with(ENGINE) && (soak.backlogs.contains(name) || comes_and_goes(values))
        })
        .map(|(name, _)| name.as_str())
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

/// Draws a line for each store that has the values. Each point is the mean of some seconds, or their largest value, at
/// their end. Seconds without a value, because no operation ended in them, are a gap.
pub fn chart(
    contest: &ComparisonGroup<'_, '_>,
    kind: &OverTime,
    styles: &Styles,
) -> Option<Result<String, askama::Error>> {
    let found: Vec<_> = contest
        .entries
        .iter()
        .filter_map(|entry| Some((entry.label(), points(entry.typical()?.soak.as_ref()?, kind))))
        .filter(|(_, points)| points.iter().any(|(_, value)| value.is_some()))
        .collect();
    let values = || found.iter().flat_map(|(_, points)| points).filter_map(|(_, value)| *value);
    let (largest, smallest) = (values().reduce(f64::max)?, values().reduce(f64::min)?);
    let seconds = found.iter().flat_map(|(_, points)| points).map(|(second, _)| *second);
    let x = Axis::linear(seconds.reduce(f64::max)?, (LEFT, RIGHT));
    let y = match kind.is_logarithmic {
        true => Axis::logarithmic(smallest, largest, (BOTTOM, TOP)),
        false => Axis::linear(largest * 1.05, (BOTTOM, TOP)),
    };
    let lines = found.iter().map(|(label, points)| {
        let mark = |second: f64, value| Mark { x: x.place(second), y: y.place(value), text: String::new() };
        let marks = points.iter().map(|(second, value)| value.map(|value| mark(*second, value)));
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

/// Returns the points of a line: the end of some seconds, at most [`POINTS`] times, with their value. A logarithmic
/// axis cannot show 0.
fn points(soak: &Soak, kind: &OverTime) -> Vec<(f64, Option<f64>)> {
    let values = (kind.values)(soak, &kind.name);
    let joined = values.len().div_ceil(POINTS).max(1);
    let value = |seconds: &[Option<f64>]| {
        let known: Vec<f64> = seconds.iter().copied().flatten().collect();
        let value =
            if kind.is_largest { known.into_iter().reduce(f64::max) } else { statistics::mean(&known) };
        value.filter(|value| !kind.is_logarithmic || *value > 0.0)
    };
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let end = |number: usize| ((number + 1) * joined).min(values.len()) as f64;
    values.chunks(joined).enumerate().map(|(number, seconds)| (end(number), value(seconds))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that stands still for 45 seconds has a gap, and then the latency of the operation that waited.
    #[test]
    fn a_stall_is_a_gap_and_the_largest_latency() {
        let latency = |second| match second {
            600..645 => None,
            645 => Some(45e6),
            _ => Some(100.0),
        };
        let series = [(MAX.to_owned(), (0..1800).map(latency).collect())].into();
        let soak = Soak { series, backlogs: Vec::new() };
        let kind = OverTime {
            title: String::new(),
            unit: Unit::Microseconds,
            is_logarithmic: true,
            is_largest: true,
            values: |soak, name| soak.values(name).to_vec(),
            name: MAX.to_owned(),
        };
        let points = points(&soak, &kind);
        assert_eq!(points.len(), 60);
        assert_eq!(
            points[19..23].to_vec(),
            [(600.0, Some(100.0)), (630.0, None), (660.0, Some(45e6)), (690.0, Some(100.0))]
        );
    }
}
