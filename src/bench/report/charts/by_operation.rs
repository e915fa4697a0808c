//! Charts of mixed workloads, with separate results for each kind of operation.

use super::{BAR_STEP, BARS_WIDTH, Bars, Heading, Style, Styles, WIDTH, axis::Axis, bar, cut, lines::tick};
use crate::bench::{
    report::{comparison_group::ComparisonGroup, measured_cell::Entry},
    result::{
        Latency, Measurement, OPERATIONS, Operation,
        metric::{Better, Unit},
        number_format,
        spread::Spread,
    },
};
use askama::Template;

/// Function that computes a metric of one kind of operation.
type Figure = fn(&Measurement, &Latency) -> f64;

fn spread(entry: &Entry<'_>, kind: Operation, figure: Figure) -> Option<Spread> {
    entry.spread_of(|measurement| Some(figure(measurement, measurement.by_operation.get(&kind)?)))
}

/// Returns the part of the throughput that is of one kind of operation. Like the throughput it counts the time of
/// write-back, so the parts add up to the figure in the table.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn per_second(measurement: &Measurement, latency: &Latency) -> f64 {
    measurement.throughput * latency.count as f64 / (measurement.operations as f64).max(1.0)
}

/// Returns the kinds of operation that a comparison group has measured, or `None` if there are fewer than
/// two.
fn kinds(contest: &ComparisonGroup<'_, '_>) -> Option<Vec<Operation>> {
    let done = |kind: &Operation| {
        contest.entries.iter().any(|entry| spread(entry, *kind, |_, latency| latency.p50_us).is_some())
    };
    let kinds: Vec<_> = OPERATIONS.into_iter().filter(done).collect();
    (kinds.len() > 1).then_some(kinds)
}

/// Draws the throughput as a bar for each kind of operation and cell. Returns `None` if the cells have only
/// one kind.
pub fn throughput(
    contest: &ComparisonGroup<'_, '_>,
    styles: &Styles,
) -> Option<Result<String, askama::Error>> {
    let kinds = kinds(contest)?;
    let spreads = |kind| contest.entries.iter().map(move |entry| (*entry, spread(entry, kind, per_second)));
    let all = kinds.iter().flat_map(|kind| spreads(*kind)).filter_map(|(_, spread)| Some(spread?.max));
    let largest = Spread::of(all)?.max;
    let scale = if largest > 0.0 { BARS_WIDTH / largest } else { 0.0 };
    let (mut bars, mut headings, mut said, mut y) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for kind in kinds {
        let heading = Heading::new(contest, kind, &mut y);
        for (entry, spread) in spreads(kind) {
            let bar = bar(entry, spread.as_ref(), Unit::PerSecond, scale, y, styles);
            said.push(format!("{}: {} {}", heading.text, bar.full_label, bar.text));
            bars.push(bar);
            y += BAR_STEP;
        }
        headings.push(heading);
    }
    let better = Better::Higher.words();
    let words = format!("Throughput by kind of {}, {better}: {}.", contest.title, said.join("; "));
    Some(Bars { width: WIDTH, height: y + 2.0, words, headings, bars }.render())
}

#[derive(Template)]
#[template(path = "ranges.svg")]
struct Ranges {
    width: f64,
    height: f64,
    bottom: f64,
    text_x: f64,
    words: String,
    ticks: Vec<(f64, String)>,
    headings: Vec<Heading>,
    rows: Vec<Row>,
}

struct Row {
    y: f64,
    label: String,
    /// Text alternative of the row.
    words: String,
    style: Style,
    /// Horizontal positions of the median and of the 99th percentile; `None` if there is no result.
    ends: Option<(f64, f64)>,
    text: String,
}

/// Horizontal layout of the latency chart, in SVG units: start and end of the ranges, and start of the text after them.
const FROM: f64 = 108.0;
const TO: f64 = 246.0;
const TEXT: f64 = 254.0;
const STEP: f64 = 20.0;

/// Draws the latency as a range from the median to the 99th percentile for each kind of operation and cell.
/// Returns `None` if the cells have only one kind.
pub fn latency(contest: &ComparisonGroup<'_, '_>, styles: &Styles) -> Option<Result<String, askama::Error>> {
    let kinds = kinds(contest)?;
    let all = || kinds.iter().flat_map(|kind| contest.entries.iter().filter_map(|entry| range(entry, *kind)));
    let smallest = all().map(|(p50, _)| p50).reduce(f64::min)?;
    let largest = all().map(|(_, p99)| p99).reduce(f64::max)?;
    let axis = Axis::logarithmic(smallest, largest, (FROM, TO));
    let (mut rows, mut headings, mut y) = (Vec::new(), Vec::new(), 0.0);
    for kind in &kinds {
        let heading = Heading::new(contest, *kind, &mut y);
        for entry in &contest.entries {
            rows.push(Row::new(entry, *kind, &heading.text, y + STEP / 2.0, &axis, styles));
            y += STEP;
        }
        headings.push(heading);
    }
    let said: Vec<_> = rows.iter().map(|row| row.words.as_str()).collect();
    let words = format!("Latency p50 / p99 by kind of {}: {}.", contest.title, said.join("; "));
    let ticks = ticks(&axis);
    let (width, height, bottom, text_x) = (WIDTH, y + 28.0, y + 4.0, TEXT);
    Some(Ranges { width, height, bottom, text_x, words, ticks, headings, rows }.render())
}

/// Returns positions and labels of those ticks of the axis that fit without overlapping.
fn ticks(axis: &Axis) -> Vec<(f64, String)> {
    const ROOM: f64 = 44.0;
    let mut end = f64::NEG_INFINITY;
    let mut ticks = Vec::new();
    for us in axis.ticks() {
        let place = axis.place(us);
        if place >= end {
            end = place + ROOM;
            ticks.push((place, tick(Unit::Microseconds, us)));
        }
    }
    ticks
}

/// Returns the median and the 99th percentile of the latency in microseconds, each as the median over the repetitions;
/// `None` without a result, or if the median is 0.
fn range(entry: &Entry<'_>, kind: Operation) -> Option<(f64, f64)> {
    let p50 = spread(entry, kind, |_, latency| latency.p50_us)?.median;
    let p99 = spread(entry, kind, |_, latency| latency.p99_us)?.median;
    // A latency below the clock's resolution is 0, which a logarithmic axis cannot show.
    (p50 > 0.0).then_some((p50, p99.max(p50)))
}

impl Row {
    fn new(entry: &Entry<'_>, kind: Operation, heading: &str, y: f64, axis: &Axis, styles: &Styles) -> Self {
        let (label, found) = (entry.label(), range(entry, kind));
        let short = |us| number_format::short(Unit::Microseconds, us);
        let text = match found {
            Some((p50, p99)) => format!("{} / {}", short(p50), short(p99)),
            None => entry.state.without_figure().to_owned(),
        };
        Self {
            y,
            words: format!("{heading}: {label} {text}"),
            style: styles.of(&label),
            label: cut(&label),
            ends: found.map(|(p50, p99)| (axis.place(p50), axis.place(p99))),
            text,
        }
    }
}

impl Heading {
    /// Creates the heading of a kind of operation at `y` and moves `y` below it.
    fn new(contest: &ComparisonGroup<'_, '_>, kind: Operation, y: &mut f64) -> Self {
        const HEIGHT: f64 = 26.0;
        const BASELINE: f64 = 17.0;
        let top = std::mem::replace(y, *y + HEIGHT);
        let mix = contest.entries.first().map(|entry| &entry.cell.workload.mix);
        Self { y: top + BASELINE, text: mix.map_or(String::new(), |mix| number_format::share(kind, mix)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The throughput counts write-back, the seconds do not.
    #[test]
    fn throughputs_of_the_kinds_add_up_to_the_throughput_of_the_cell() {
        let measurement =
            Measurement { operations: 400, seconds: 2.0, throughput: 100.0, ..Default::default() };
        let of = |count| per_second(&measurement, &Latency { count, ..Default::default() });
        assert!((of(300) - 75.0).abs() < 1e-9 && (of(100) - 25.0).abs() < 1e-9);
        assert!(per_second(&Measurement::default(), &Latency::default()).abs() < 1e-9);
    }
}
