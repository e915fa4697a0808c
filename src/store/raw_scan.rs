//! Scans of the stored pairs of one database.

use super::{corrupt_reads::CorruptReads, database_keys::Database};
use crate::engine::{Engine, KeyRange, Result, Transaction, VisitEach};
use std::ops::ControlFlow;

/// Callback that receives the stored key, the key without header, and the stored value, or the error of a value
/// that cannot be read.
pub(super) type VisitStored<'v> = dyn FnMut(&[u8], &[u8], Result<&[u8]>) -> ControlFlow<()> + 'v;

/// Source of the stored pairs that a scan visits.
pub(super) enum Source<'s, 't> {
    /// Engine in its current state, and the counter of its corrupt reads.
    Engine(&'s dyn Engine, &'s CorruptReads),
    /// Transaction, and `true` if it scans in ascending order of the keys.
    Shared(&'s mut (dyn Transaction + 't), bool),
}

impl Source<'_, '_> {
    fn is_ordered(&self) -> bool {
        match self {
            Self::Engine(engine, _) => engine.info().capabilities.ordered,
            Self::Shared(_, is_ordered) => *is_ordered,
        }
    }

    fn raw_scan(&mut self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> Result<()> {
        match self {
            Self::Engine(engine, corrupt_reads) => corrupt_reads.scan_each(*engine, range, visit),
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

/// Visits the stored pairs of one database in an unordered engine from the engine's scan position `random` on, until
/// `visit` stops or the pairs end. Visits nothing in an ordered engine or a transaction.
pub(super) fn sample(
    source: Source<'_, '_>,
    space: Database,
    random: u64,
    visit: &mut VisitStored<'_>,
) -> Result<()> {
    if let Source::Engine(engine, corrupt_reads) = source
        && !engine.info().capabilities.ordered
    {
        corrupt_reads.walk_each(engine, random, &mut |stored, value| match space.decode_key(stored) {
            Some(key) => visit(stored, key, value),
            None => ControlFlow::Continue(()),
        })?;
    }
    Ok(())
}
