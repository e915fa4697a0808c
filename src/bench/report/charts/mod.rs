//! Charts as SVG, drawn when the page is written. The page contains them compressed, and its script decompresses those
//! of a table when the table is opened.

use super::{comparison_group::ComparisonGroup, measured_cell::Entry};
use crate::bench::result::{
    metric::{Metric, Unit},
    number_format,
    spread::Spread,
};
use askama::Template;

mod axis;
pub mod by_operation;
pub mod latency_by_load;
mod lines;
pub mod soak;

pub use lines::{latency, timeline};

/// Width of every chart in SVG units; a phone shows about one unit per pixel.
const WIDTH: f64 = 360.0;

/// Assigns colours and marker shapes to stores, the same in all charts of the page. Colours repeat after
/// [`COLOURS`] stores and shapes after another number, so that their combinations repeat later.
pub struct Styles(Vec<String>);

/// Style in which one store is drawn.
#[derive(Clone, Copy)]
pub struct Style {
    /// Number of the colour in the style sheet, from 0.
    pub colour: usize,
    /// Index in [`shapes`] of the shape that marks points of the line.
    pub mark: usize,
    /// SVG dash pattern of the line.
    pub dash: &'static str,
}

const COLOURS: usize = 8;

const SHAPES: [(&str, &str); 7] = [
    ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "none"),
    ("M-3.5 -3.5h7v7h-7z", "6 2"),
    ("M0 -4.5l4.5 8h-9z", "2 2"),
    ("M0 -5l5 5l-5 5l-5 -5z", "8 2 2 2"),
    ("M-4 -1.3h2.7v-2.7h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7z", "4 2"),
    ("M0 4.5l4.5 -8h-9z", "1 2"),
    ("M-4 -4l8 8m0 -8l-8 8", "10 3"),
];

/// Returns the SVG paths of the shapes that mark points of lines, centred at 0, 0. The page defines each shape once,
/// and charts refer to it.
pub fn shapes() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|(shape, _)| *shape)
}

impl Styles {
    /// Assigns a style to each distinct label of a store, in the order of first occurrence.
    pub fn new(labels: impl Iterator<Item = String>) -> Self {
        Self(number_format::distinct(labels))
    }

    /// Returns the style of the store with this label; for an unknown label, that of the first store.
    pub fn of(&self, label: &str) -> Style {
        let number = self.0.iter().position(|known| known == label).unwrap_or_default();
        let mark = number % SHAPES.len();
        let dash = SHAPES.get(mark).map_or("none", |(_, dash)| dash);
        Style { colour: number % COLOURS, mark, dash }
    }
}

#[derive(Template)]
#[template(path = "bars.svg")]
struct Bars {
    width: f64,
    height: f64,
    /// Text alternative of the chart.
    words: String,
    headings: Vec<Heading>,
    bars: Vec<Bar>,
}

/// Heading above a group of rows.
struct Heading {
    y: f64,
    text: String,
}

struct Bar {
    y: f64,
    label: String,
    full_label: String,
    colour: usize,
    value: Option<BarValue>,
    text: String,
    text_x: f64,
}

struct BarValue {
    length: f64,
    min: f64,
    max: f64,
}

/// Layout of bar charts: start of the bars, maximum length of a bar, and height of a row, in SVG units.
const BARS_FROM: f64 = 100.0;
const BARS_WIDTH: f64 = 180.0;
const BAR_STEP: f64 = 24.0;

/// Draws a bar for the median of each cell, from zero, with the range of its repetitions as a whisker.
/// Returns `None` if no cell has the metric.
pub fn bars(
    contest: &ComparisonGroup<'_, '_>,
    measure: &Metric,
    styles: &Styles,
) -> Option<Result<String, askama::Error>> {
    let spreads: Vec<_> = contest.entries.iter().map(|entry| (*entry, entry.spread(measure))).collect();
    let largest = Spread::of(spreads.iter().filter_map(|(_, spread)| Some(spread.as_ref()?.max)))?.max;
    let scale = if largest > 0.0 { BARS_WIDTH / largest } else { 0.0 };
    let mut bars = Vec::new();
    let mut y = 4.0;
    for (entry, spread) in &spreads {
        bars.push(bar(entry, spread.as_ref(), measure.unit, scale, y, styles));
        y += BAR_STEP;
    }
    let said: Vec<_> = bars.iter().map(|bar| format!("{} {}", bar.full_label, bar.text)).collect();
    let words =
        format!("{} of {}, {}: {}.", measure.title, contest.title, measure.better.words(), said.join("; "));
    Some(Bars { width: WIDTH, height: y + 2.0, words, headings: Vec::new(), bars }.render())
}

fn bar(entry: &Entry<'_>, spread: Option<&Spread>, unit: Unit, scale: f64, y: f64, styles: &Styles) -> Bar {
    let full_label = entry.label();
    let value = spread.map(|spread| BarValue {
        length: spread.median * scale,
        min: BARS_FROM + spread.min * scale,
        max: BARS_FROM + spread.max * scale,
    });
    let text = match spread {
        Some(spread) => number_format::short(unit, spread.median),
        None => entry.state.without_figure().to_owned(),
    };
    let text_x = value.as_ref().map_or(BARS_FROM, |value| value.max) + 6.0;
    let colour = styles.of(&full_label).colour;
    Bar { y, label: cut(&full_label), full_label, colour, value, text, text_x }
}

/// Shortens a label to 14 characters, so that it fits next to the bars. The start and the end stay, because labels of
/// the two sides of a duel differ at the end.
fn cut(label: &str) -> String {
    const START: usize = 7;
    const END: usize = 6;
    let letters = label.chars().count();
    if letters <= START + 1 + END {
        return label.to_owned();
    }
    label.chars().take(START).chain(['\u{2026}']).chain(label.chars().skip(letters - END)).collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_label_keeps_its_start_and_its_end() {
        assert_eq!(cut("rocksdb-blob old"), "rocksdb\u{2026}ob old");
        assert_eq!(cut("rocksdb-blob new"), "rocksdb\u{2026}ob new");
        assert_eq!(cut("lmdb/read-ahead"), "lmdb/re\u{2026}-ahead");
        assert_eq!(cut("rocksdb-blob/4"), "rocksdb-blob/4");
    }
}
