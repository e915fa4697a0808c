//! The stored pairs of one database, as the engine has them.

use super::{corrupt::CorruptReads, database::Database};
use crate::engine::{Engine, KeyRange, Result, Transaction, VisitEach};
use std::ops::ControlFlow;

/// Called with a key as it is stored, the key, and the value as it is stored, or why it cannot be read.
pub(super) type VisitStored<'v> = dyn FnMut(&[u8], &[u8], Result<&[u8]>) -> ControlFlow<()> + 'v;

/// Where pairs are scanned.
pub(super) enum Source<'s, 't> {
    /// As the engine has them now.
    Engine(&'s dyn Engine, &'s CorruptReads),
    /// As a transaction sees them, and whether that is in order.
    Shared(&'s mut (dyn Transaction + 't), bool),
}

impl Source<'_, '_> {
    fn is_ordered(&self) -> bool {
        match self {
            Self::Engine(engine, _) => engine.info().ordered,
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

/// Visits the stored pairs of one database whose keys are in `range`.
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

/// Visits stored pairs of one database at a place of an engine without order, and behind it.
pub(super) fn sample(
    source: Source<'_, '_>,
    space: Database,
    random: u64,
    visit: &mut VisitStored<'_>,
) -> Result<()> {
    if let Source::Engine(engine, corrupt_reads) = source
        && !engine.info().ordered
    {
        corrupt_reads.walk_each(engine, random, &mut |stored, value| match space.decode_key(stored) {
            Some(key) => visit(stored, key, value),
            None => ControlFlow::Continue(()),
        })?;
    }
    Ok(())
}
