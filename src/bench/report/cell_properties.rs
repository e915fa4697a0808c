//! Price of a store's speed: its loss bounds, its memory, its files, and the time to recover it from a kill or to open
//! it.

use super::measured_cell::Entry;
use crate::bench::result::{
    comparability,
    metric::{DISK, MEMORY, Metric, RECOVERY, REOPEN},
    number_format,
};

/// Returns the price of a cell's store as text, as far as it is known: "loses nothing; 43.0 MiB of memory, 12.0 MiB on
/// disk, opens in 4.10 ms". The time is that of the recovery from a kill if the cell measured one. Memory, files and
/// times are medians.
pub fn price(entry: &Entry<'_>) -> String {
    let median = |metric: &Metric, before: &str, after: &str| {
        let value = entry.spread(metric).filter(|spread| spread.median > 0.0)?.median;
        Some(format!("{before}{}{after}", number_format::short(metric.unit, value)))
    };
    let time = median(&RECOVERY, "recovers from a kill in ", "").or_else(|| median(&REOPEN, "opens in ", ""));
    let costs = [median(&MEMORY, "", " of memory"), median(&DISK, "", " on disk"), time];
    let costs = costs.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let loses = comparability::loses(&entry.cell.target).map(comparability::at_most);
    loses.into_iter().chain(Some(costs).filter(|costs| !costs.is_empty())).collect::<Vec<_>>().join("; ")
}
