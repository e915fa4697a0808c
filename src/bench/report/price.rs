//! Price of a store beside its result: memory, size of the files, and times to open the store again.

use super::{comparison_group::ComparisonGroup, measured_cell::Entry, scenarios::is_measured_as_usual};
use crate::bench::result::{
    metric::{DISK, MEMORY, Metric, RECOVERY, REOPEN},
    number_format,
};
use std::cmp::Ordering;

/// Column heads of a table of prices, in the order of [`price`].
pub const PRICE_HEADS: [&str; 4] = ["Memory", "Disk", "Reopens in", "Recovers in"];

/// Returns the price of a store as text: of its cell `entry` peak memory of the process with the engine, size of the files
/// and time to open the store again after a close; of all cells of the store (`all`) the time to open it after a kill,
/// which is measured in cells of its own, in the one with the most data. Empty texts for what was not measured.
pub fn price(entry: &Entry<'_>, all: &[&Entry<'_>]) -> [String; 4] {
    let text = |measure: &Metric, value: Option<f64>| {
        let value = value.filter(|value| *value > 0.0);
        value.map_or(String::new(), |value| number_format::short(measure.unit, value))
    };
    let own = |measure: &Metric| text(measure, entry.spread(measure).map(|spread| spread.median));
    let recovery = with_most_data(all, &RECOVERY).map(|(_, seconds)| seconds);
    [own(&MEMORY), own(&DISK), own(&REOPEN), text(&RECOVERY, recovery)]
}

/// Returns the index of the work that has the most data, the first of several; `None` without works. All stores that are
/// compared in several works have their prices from this one.
pub fn priced_work(works: &[ComparisonGroup<'_, '_>]) -> Option<usize> {
    let data = |work: &ComparisonGroup<'_, '_>| work.entries.first().map_or(0.0, |entry| entry.data_bytes());
    // `max_by` returns the last of several that are equal.
    let works = works.iter().enumerate().rev();
    works.max_by(|(_, one), (_, other)| data(one).total_cmp(&data(other))).map(|(place, _)| place)
}

/// Returns the planned size of the data in bytes, and the median of a metric, of the cell with the most data at its end; of
/// several such cells, the one with the largest median. Soaks and found rates count only if there is no other cell. `None`
/// if no cell has the metric.
pub fn with_most_data(entries: &[&Entry<'_>], measure: &Metric) -> Option<(f64, f64)> {
    largest(entries, |entry| Some((entry.left_bytes(), entry.spread(measure)?.median)))
}

/// Returns the largest pair of numbers that `pair` returns for a cell: by the first number, then by the second. Soaks and
/// found rates count only if no other cell has a pair.
pub fn largest(
    entries: &[&Entry<'_>],
    pair: impl Fn(&Entry<'_>) -> Option<(f64, f64)>,
) -> Option<(f64, f64)> {
    let pairs = entries.iter().filter_map(|entry| Some((is_measured_as_usual(entry), pair(entry)?)));
    let largest = pairs.max_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    largest.map(|(_, pair)| pair)
}
