//! Scans of the stored pairs of one database.

use super::{counted_reads::CountedReads, database_keys::Database};
use crate::engine::{KeyRange, Result, Transaction, VisitEach};
use std::ops::ControlFlow;

/// Maximum number of keys whose values [`visit_listed`] reads with one call of the engine.
pub(super) const MAX_LOOKUP_KEYS: usize = 1024;

/// Callback that receives the stored key, the key without header, and the stored value, or the error of a value
/// that cannot be read.
pub(super) type VisitStored<'v> = dyn FnMut(&[u8], &[u8], Result<&[u8]>) -> ControlFlow<()> + 'v;

/// Source of the stored pairs that a scan visits.
pub(super) enum Source<'s, 't> {
    /// Engine in its current state.
    Engine(&'s CountedReads),
    /// Transaction, and `true` if it scans in ascending order of the keys.
    Shared(&'s mut (dyn Transaction + 't), bool),
}

impl Source<'_, '_> {
    fn is_ordered(&self) -> bool {
        match self {
            Self::Engine(reads) => reads.engine.info().capabilities.ordered,
            Self::Shared(_, is_ordered) => *is_ordered,
        }
    }

    fn raw_scan(&mut self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> Result<()> {
        match self {
            Self::Engine(reads) => reads.scan_each(range, visit),
            Self::Shared(transaction, _) => transaction.scan(range, &mut |key, value| visit(key, Ok(value))),
        }
    }
}

/// Visits the stored pairs of one database whose keys are in `range`. `visit` may stop the scan. In an ordered engine
/// each of the up to three ranges of [`Database::raw_ranges`] is a scan with a snapshot of its own.
pub(super) fn scan(
    mut source: Source<'_, '_>,
    space: Database,
    range: KeyRange<'_>,
    visit: &mut VisitStored<'_>,
) -> Result<()> {
    let mut after = ControlFlow::Continue(());
    let mut visit = |stored: &[u8], value: Result<&[u8]>| {
        if let Some(key) = space.decode_key(stored)
            && range.contains(key)
        {
            after = visit(stored, key, value);
        }
        after
    };
    if !source.is_ordered() {
        return source.raw_scan(KeyRange::ALL, &mut visit);
    }
    for segment in space.raw_ranges(range) {
        let mut stopped = false;
        source.raw_scan(segment.range(), &mut |stored, value| {
            let after = visit(stored, value);
            stopped = after.is_break();
            after
        })?;
        if stopped {
            break;
        }
    }
    Ok(())
}

/// Visits stored pairs of one database in an unordered engine, until `visit` stops or the pairs end. `random` selects the
/// engine's scan position and, in the part of the data there, the key with which the visits begin. Visits nothing in an
/// ordered engine or a transaction.
pub(super) fn sample(
    source: Source<'_, '_>,
    space: Database,
    random: u64,
    visit: &mut VisitStored<'_>,
) -> Result<()> {
    let Source::Engine(reads) = source else { return Ok(()) };
    if reads.engine.info().capabilities.ordered {
        return Ok(());
    }
    let mut position = random;
    loop {
        let mut listed = Vec::<Box<[u8]>>::new();
        let mut visited = 0;
        position = reads.scan_step_keys(position, &mut |stored| {
            if space.decode_key(stored).is_some() {
                listed.push(stored.into());
            }
            // Keys of other databases too: `map` holds its lock until the end of the call.
            visited += 1;
            if visited < MAX_LOOKUP_KEYS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        // A part may have more keys than `visit` accepts: each of them can be the first. The high bits hardly depend on
        // the position.
        let first = usize::try_from(random >> 32).unwrap_or(0) % listed.len().max(1);
        listed.rotate_left(first);
        let keys: Vec<&[u8]> = listed.iter().map(|stored| &**stored).collect();
        if visit_listed(reads, space, &keys, visit)?.is_break() || position == 0 {
            return Ok(());
        }
    }
}

/// Reads the values of stored keys, and calls `visit` for those keys that still exist, until it stops.
pub(super) fn visit_listed(
    reads: &CountedReads,
    space: Database,
    keys: &[&[u8]],
    visit: &mut VisitStored<'_>,
) -> Result<ControlFlow<()>> {
    let mut after = ControlFlow::Continue(());
    for keys in keys.chunks(MAX_LOOKUP_KEYS) {
        reads.read_each(keys, &mut |index, value| {
            if after.is_continue()
                && let (Some(stored), Some(value)) = (keys.get(index), value.transpose())
                && let Some(key) = space.decode_key(stored)
            {
                after = visit(stored, key, value);
            }
        })?;
        if after.is_break() {
            break;
        }
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::map_store_with, *};
    use std::collections::HashSet;

    /// Samples one key at a time of a map that is split into parts.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn sample_visits_no_key_after_its_end_and_begins_with_any_key_of_a_part() {
        let store = map_store_with(9000);
        let mut firsts = HashSet::new();
        for number in 0..2000_u64 {
            // A multiple of the number of parts: each sample begins with the first part.
            let random = (number << 32) / 384 * 384;
            let mut visited = Vec::new();
            let visit = &mut |_: &[u8], key: &[u8], _: Result<&[u8]>| {
                visited.push(key.to_vec());
                ControlFlow::Break(())
            };
            sample(store.source(), Database::default(), random, visit).unwrap();
            assert_eq!(visited.len(), 1);
            firsts.extend(visited);
        }
        assert!(firsts.len() > 500, "{} keys", firsts.len());
    }
}
