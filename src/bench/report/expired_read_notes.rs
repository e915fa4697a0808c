//! Sentences about reads and removals of expired keys, for workloads whose values have a time to live.

use crate::bench::result::{Cell, Measurement, Run, number_format, spread::Spread};

/// Difference between two stores' shares of expired reads (each from 0 to 1) above which they have not done the same
/// work.
const UNEQUAL: f64 = 0.05;

/// Returns a sentence for each cell of a table whose values expire, and one more if the shares of expired reads of two
/// cells with the same requested rate differ by more than 5 percentage points.
pub fn lines(run: &Run, cells: &[&Cell]) -> Vec<String> {
    let shares: Vec<_> = cells.iter().filter_map(|cell| Some((*cell, share(run, cell)?))).collect();
    let mut lines: Vec<_> = shares.iter().map(|(cell, share)| line(run, cell, *share)).collect();
    let is_unequal = shares.iter().any(|(one, larger)| {
        shares
            .iter()
            .any(|(other, smaller)| one.workload.rate == other.workload.rate && larger - smaller > UNEQUAL)
    });
    if is_unequal {
        lines.push(
            "the shares differ, because a faster store renews more values before they expire: to compare equal work, \
             add a --rate that all stores reach"
                .into(),
        );
    }
    lines
}

/// Returns the share of reads that found that their key had expired, from 0 to 1: the median over the repetitions;
/// `None` if values do not expire.
fn share(run: &Run, cell: &Cell) -> Option<f64> {
    let of = |one: &Measurement| {
        let (hits, expired) = (one.hits?, one.expired_reads?);
        Some(expired as f64 / (hits + expired).max(1) as f64)
    };
    Some(Spread::of(run.measurements(&cell.id).filter_map(of))?.median)
}

fn line(run: &Run, cell: &Cell, share: f64) -> String {
    let keys = run.measurements(&cell.id).filter_map(|one| Some(one.expired_keys? as f64));
    let removed = match Spread::of(keys) {
        Some(keys) => format!("{} expired keys were removed", number_format::grouped(keys.median)),
        None => "the number of removed keys is not known".into(),
    };
    let (store, percent) = (&cell.target.store, share * 100.0);
    format!("{store}: {percent:.1}% of reads found that the key had expired; {removed}")
}
