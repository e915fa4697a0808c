//! Sentences that explain the ranking of a scenario: what its ratios are, which work has the prices, and what makes the
//! comparison doubtful.

use super::{
    comparison_group::ComparisonGroup, environment::IN_TURNS, price::priced_work, scenarios::Scenario,
};
use crate::bench::result::metric::{DISK, MEMORY, REOPEN, THROUGHPUT};
use std::ptr;

/// Sentences on all rankings: why a ratio can differ from that of two results, and what the latencies are.
pub const ABOUT_VALUES: &str = "The ratio is the mean over repetitions, the result the median; they can differ. p99 is the \
    99th percentile of the latency, p99.9 the 99.9th, of each store at its own highest rate (closed loop).";

/// Maximum number of characters of the doubts about a work that stand below a ranking.
const MAX_DOUBTS: usize = 300;

/// Returns the sentences that belong below the ranking of a scenario, whose stores are compared in `works`.
pub fn of(works: &[ComparisonGroup<'_, '_>], scenario: &Scenario) -> Vec<String> {
    let is_throughput = ptr::eq(scenario.measure, &THROUGHPUT);
    let doubts = works.iter().filter(|_| is_throughput).filter_map(doubts);
    source_of_prices(works).into_iter().chain(doubts).collect()
}

/// Returns a sentence that names the work whose prices the ranking shows; `None` with a single work, and without prices.
fn source_of_prices(works: &[ComparisonGroup<'_, '_>]) -> Option<String> {
    let work = works.get(priced_work(works)?).filter(|_| works.len() > 1)?;
    let prices = [&MEMORY, &DISK, &REOPEN];
    let is_measured = work.entries.iter().any(|entry| prices.iter().any(|one| entry.spread(one).is_some()));
    is_measured.then(|| format!("Memory, disk and the time to reopen are those of {}.", work.title))
}

/// Returns the doubts about a work in which stores took turns as a sentence, or a reference to the doubts if they are
/// long; `None` if stores took no turns, and without doubts.
fn doubts(work: &ComparisonGroup<'_, '_>) -> Option<String> {
    // A store that cannot run the work has a cell in no comparison.
    let mut runs = work.entries.iter().map(|entry| (entry.run, entry.run.comparison(&entry.cell.id)));
    let (run, comparison) = runs.find_map(|(run, comparison)| Some((run, comparison?)))?;
    let doubts = comparison.doubts(run.environment.foreign_limit, &run.cells).join("; ");
    let words = match doubts.chars().count() {
        0 => return None,
        1..=MAX_DOUBTS => doubts,
        _ => format!("see \"{IN_TURNS}\" of the run of {} below", run.started),
    };
    Some(format!("Doubts about {}: {words}.", work.title))
}
