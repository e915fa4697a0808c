//! Charts with a line for each store.

use super::{Style, Styles, WIDTH, axis::Axis};
use crate::bench::{
    report::{comparison_group::ComparisonGroup, measured_cell::Entry},
    result::{Measurement, metric::Unit, number_format},
};
use askama::Template;

#[derive(Template)]
#[template(path = "lines.svg")]
pub(super) struct Lines {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub bottom: f64,
    pub words: String,
    pub x_ticks: Vec<(f64, String)>,
    pub y_ticks: Vec<(f64, String)>,
    pub series: Vec<Series>,
}

pub(super) struct Series {
    /// Text alternative of the line: the label and the text of its markers.
    words: String,
    style: Style,
    /// Points of the line, in the syntax of SVG.
    path: String,
    marks: Vec<Mark>,
}

pub(super) struct Mark {
    pub x: f64,
    pub y: f64,
    pub text: String,
}

/// Edges of the area between the axes of a chart, in SVG units: left, right, top and bottom.
pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = WIDTH - 14.0;
pub(super) const TOP: f64 = 10.0;
pub(super) const BOTTOM: f64 = 180.0;
const HEIGHT: f64 = 204.0;

const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// Returns the latency percentiles in microseconds, over all repetitions together or, if the result file has
/// no histograms, of the repetition with the median throughput. A percentile is `None` if there are too few
/// operations to determine it.
fn percentiles(entry: &Entry<'_>) -> Option<Vec<Option<f64>>> {
    let quantiles = PERCENTILES.map(|(_, quantile)| quantile);
    let (values, count) = entry.percentiles(&quantiles).or_else(|| {
        let latency = &entry.typical()?.latency;
        let p9999 = latency.p9999_us.unwrap_or(latency.max_us);
        let values =
            vec![latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, p9999, latency.max_us];
        Some((values, latency.count))
    })?;
    let told = quantiles.map(|quantile| is_determined(quantile, count));
    Some(values.into_iter().zip(told).map(|(value, told)| Some(value).filter(|_| told)).collect())
}

/// Returns `true` if `count` operations suffice to determine `quantile`: at least one of them must lie beyond
/// it. The maximum (quantile 1) is always known.
#[expect(clippy::cast_precision_loss, reason = "compared with a hundred thousand at most")]
fn is_determined(quantile: f64, count: u64) -> bool {
    quantile >= 1.0 || count as f64 * (1.0 - quantile) > 1.0 - 1e-6
}

/// Draws a line for each store: its latency percentiles, from the median to the maximum.
pub fn latency(contest: &ComparisonGroup<'_, '_>, styles: &Styles) -> Option<Result<String, askama::Error>> {
    let of = |entry: &&Entry<'_>| Some((entry.label(), percentiles(entry)?));
    let found: Vec<_> = contest.entries.iter().filter_map(of).collect();
    let all = || found.iter().flat_map(|(_, values)| values.iter().flatten().copied()).filter(|us| *us > 0.0);
    let (smallest, largest) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let y = Axis::logarithmic(smallest, largest, (BOTTOM, TOP));
    let x = |position: f64| LEFT + 16.0 + position * (RIGHT - LEFT - 32.0) / 5.0;
    let text = |us: f64| number_format::short(Unit::Microseconds, us);
    let series = found.iter().map(|(label, values)| {
        let points = values.iter().zip(PERCENTILES).zip(0u8..);
        let marks = points.filter_map(|((us, (name, _)), position)| {
            // A latency below the clock's resolution is 0, which a logarithmic axis cannot show.
            let us = us.filter(|us| *us > 0.0)?;
            Some(Mark { x: x(f64::from(position)), y: y.place(us), text: format!("{name} {}", text(us)) })
        });
        series(label, styles, marks.map(Some).collect(), 1)
    });
    let chart = Lines {
        words: format!("Latency percentiles of {}", contest.title),
        x_ticks: PERCENTILES
            .into_iter()
            .zip(0u8..)
            .map(|((name, _), at)| (x(f64::from(at)), name.to_owned()))
            .collect(),
        y_ticks: y.ticks().into_iter().map(|us| (y.place(us), tick(Unit::Microseconds, us))).collect(),
        series: series.collect(),
        ..Lines::empty()
    };
    Some(chart.render())
}

/// Draws a line for each store: its throughput over time, in the repetition with the median throughput.
pub fn timeline(contest: &ComparisonGroup<'_, '_>, styles: &Styles) -> Option<Result<String, askama::Error>> {
    let mut found = typical(contest);
    found.retain(|(_, m)| m.timeline.len() > 1 && m.timeline_slice_seconds > 0.0);
    let all = || found.iter().flat_map(|(_, m)| rates(m));
    let largest = all().map(|(_, rate)| rate).reduce(f64::max)?;
    let end = all().map(|(second, _)| second).reduce(f64::max)?;
    let (x, y) = (Axis::linear(end, (LEFT, RIGHT)), Axis::linear(largest * 1.05, (BOTTOM, TOP)));
    let series = found.iter().map(|(label, measurement)| {
        let marks = rates(measurement).map(|(second, rate)| Mark {
            x: x.place(second),
            y: y.place(rate),
            text: String::new(),
        });
        series(label, styles, marks.map(Some).collect(), 10)
    });
    let said = found.iter().map(|(label, m)| {
        let rates = || rates(m).map(|(_, rate)| rate);
        let text = |rate: Option<f64>| number_format::short(Unit::PerSecond, rate.unwrap_or(0.0));
        format!("{label} from {} to {}", text(rates().reduce(f64::min)), text(rates().reduce(f64::max)))
    });
    let chart = Lines {
        words: words("Throughput over time", contest, said),
        x_ticks: x.ticks().into_iter().map(|s| (x.place(s), tick(Unit::Seconds, s))).collect(),
        y_ticks: y.ticks().into_iter().map(|rate| (y.place(rate), tick(Unit::PerSecond, rate))).collect(),
        series: series.collect(),
        ..Lines::empty()
    };
    Some(chart.render())
}

impl Lines {
    pub fn empty() -> Self {
        let (x_ticks, y_ticks, series, words) = (Vec::new(), Vec::new(), Vec::new(), String::new());
        let (width, height, left, right, bottom) = (WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM);
        Self { width, height, left, right, bottom, words, x_ticks, y_ticks, series }
    }
}

fn typical<'a>(contest: &ComparisonGroup<'_, 'a>) -> Vec<(String, &'a Measurement)> {
    contest.entries.iter().filter_map(|entry| Some((entry.label(), entry.typical()?))).collect()
}

/// Returns the end of each time slice in seconds, and the operations per second in it. Slices are joined so
/// that there are at most `ROOM`. The last one ends with the measurement (that of stores in turns, which did not count
/// all of its slices, ends before). It is left out if it is shorter than half a slice: it has only the operations that
/// began in time and ended too late.
#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn rates(measurement: &Measurement) -> impl Iterator<Item = (f64, f64)> {
    const ROOM: usize = 50;
    let joined = measurement.timeline.len().div_ceil(ROOM).max(1);
    let slice = measurement.timeline_slice_seconds;
    let slices = measurement.timeline.chunks(joined).enumerate();
    let (last, all) = (measurement.timeline.len().div_ceil(joined) - 1, measurement.seconds);
    slices.filter_map(move |(number, counts)| {
        let start = (number * joined) as f64 * slice;
        let full = start + counts.len() as f64 * slice;
        let end = if number == last && all >= start { full.min(all) } else { full };
        let operations = counts.iter().sum::<u64>() as f64;
        (end - start >= slice / 2.0).then(|| (end, operations / (end - start)))
    })
}

/// Builds a line through all points of `marks`, which has a gap where one is `None`, with a marker at every `every`-th
/// point counted back from the last. The line's text alternative consists of the text of its markers.
pub(super) fn series(label: &str, styles: &Styles, marks: Vec<Option<Mark>>, every: usize) -> Series {
    let points = |marks: &[Option<Mark>]| {
        let points = marks.iter().flatten().map(|mark| format!("{:.0},{:.0}", mark.x, mark.y));
        points.collect::<Vec<_>>().join(" ")
    };
    let parts = marks.split(Option::is_none).map(points).filter(|part| !part.is_empty());
    let path = parts.map(|part| format!("M{part}")).collect::<Vec<_>>().join("");
    let mut marks: Vec<Mark> = marks.into_iter().flatten().collect();
    let last = marks.len().saturating_sub(1);
    let mut number = 0;
    marks.retain(|_| {
        number += 1;
        (last + 1 - number).is_multiple_of(every)
    });
    let said: Vec<_> = marks.iter().map(|mark| mark.text.as_str()).filter(|text| !text.is_empty()).collect();
    let words = if said.is_empty() { label.to_owned() } else { format!("{label}: {}", said.join(", ")) };
    Series { words, style: styles.of(label), path, marks }
}

/// Formats the value of a tick without trailing zeros.
pub(super) fn tick(unit: Unit, value: f64) -> String {
    let text = number_format::short(unit, value);
    match text.split_once(['.', ' ', '/']) {
        Some((whole, rest)) if text.get(whole.len()..).is_some_and(|tail| tail.starts_with('.')) => {
            let (fraction, suffix) =
                rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            format!("{whole}{point}{fraction}{suffix}")
        }
        _ => text,
    }
}

fn words(what: &str, contest: &ComparisonGroup<'_, '_>, said: impl Iterator<Item = String>) -> String {
    format!("{what} of {}: {}.", contest.title, said.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 300 operations the 99.9th percentile cannot be determined.
    #[test]
    fn percentiles_need_operations() {
        let told = |count| PERCENTILES.map(|(_, quantile)| is_determined(quantile, count));
        assert_eq!(told(300), [true, true, true, false, false, true]);
        assert_eq!(told(1000), [true, true, true, true, false, true]);
        assert_eq!(told(10_000), [true; 6]);
    }

    /// A measurement of half an hour has 60 slices, and one more with the last operation of each thread.
    #[test]
    fn operations_that_end_late_do_not_lower_the_throughput() {
        let mut measurement = Measurement { seconds: 1800.2, ..Measurement::default() };
        measurement.timeline = [vec![300; 60], vec![2]].concat();
        measurement.timeline_slice_seconds = 30.0;
        let found: Vec<_> = rates(&measurement).collect();
        assert_eq!((found.len(), found.last()), (30, Some(&(1800.0, 10.0))), "{found:?}");
        // One that was stopped has a part of its last slice.
        measurement.seconds = 1820.0;
        assert_eq!(rates(&measurement).last(), Some((1820.0, 0.1)));
        // Stores in turns count only a part of the time.
        measurement.seconds = 900.0;
        assert_eq!(rates(&measurement).last(), Some((1830.0, 2.0 / 30.0)));
    }

    #[test]
    fn a_line_has_gaps() {
        let mark = |x: f64| Some(Mark { x, y: 1.0, text: String::new() });
        let styles = Styles::new(["map".to_owned()].into_iter());
        let line = series("map", &styles, vec![None, mark(1.0), mark(2.0), None, None, mark(3.0)], 10);
        assert_eq!((line.path.as_str(), line.marks.len()), ("M1,1 2,1M3,1", 1));
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(tick(Unit::Microseconds, 10.0), "10 \u{b5}s");
        assert_eq!(tick(Unit::PerSecond, 250_000.0), "250 k/s");
        assert_eq!(tick(Unit::Seconds, 2.5), "2.5 s");
        assert_eq!(tick(Unit::Seconds, 0.0), "0");
    }
}
