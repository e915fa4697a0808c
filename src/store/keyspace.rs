//! Reads of many keys of one database (MGET, SCAN, DBSIZE and others), in the engine's current state or within a
//! transaction.

use super::{
    Error, Store,
    database_keys::Database,
    expiration_clock::ExpirationClock,
    raw_scan::{self, VisitStored},
    scan_cursors::ScanPosition,
};
use crate::engine::{KeyRange, key_value_headers::Entry};
use std::ops::{Bound, ControlFlow};

/// Callback that receives a key and its value, both borrowed for the call, or the error of a value that cannot be
/// read.
pub type VisitEntry<'v> = dyn FnMut(&[u8], Result<Entry<'_>, Error>) -> ControlFlow<()> + 'v;

/// Callback that receives the index of a key in the list of keys to read, and its value, or `None` if the key does not
/// exist or has expired.
pub type VisitLookup<'v> = dyn FnMut(usize, Option<Entry<'_>>) + 'v;

/// Keys of one database. Expired values count as absent, except in `count`.
pub trait Keyspace {
    /// Calls `visit` with the index in `keys` and the value (`None` if absent) of each key, all under one snapshot.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::read`].
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut VisitLookup<'_>) -> Result<(), Error>;

    /// Visits the pairs of the database whose keys are in `range`, under one snapshot; but a [`StoreKeyspace`] of an
    /// ordered engine visits the keys of database 0 from `\xffkvbench` on under later snapshots. `visit` may stop the
    /// scan.
    ///
    /// # Errors
    ///
    /// Errors of the engine's scan; `visit` gets the error of a single value.
    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitEntry<'_>) -> Result<(), Error>;

    /// Returns the number of keys of the database. Some expired ones may be included.
    ///
    /// # Errors
    ///
    /// Errors of the engine's count or scan.
    fn count(&mut self) -> Result<u64, Error>;

    /// Visits the keys of the database in an unordered engine, from the engine's scan position `random` on, until
    /// `visit` stops or the keys end. Visits nothing in an ordered engine, and no uncommitted writes.
    ///
    /// # Errors
    ///
    /// Errors of the engine's scan.
    fn sample(&mut self, random: u64, visit: &mut VisitEntry<'_>) -> Result<(), Error>;

    /// Returns `true` if scans visit keys in ascending order.
    fn is_ordered(&self) -> bool;

    /// Continues an incremental scan of the database at `cursor` (0: start) for about `count` keys. Returns the cursor
    /// to continue from, 0 at the end. The whole scan visits every key that exists throughout at least once.
    ///
    /// # Errors
    ///
    /// Errors of the engine's scan.
    fn scan_step(&mut self, cursor: u64, count: usize, visit: &mut VisitEntry<'_>) -> Result<u64, Error>;
}

/// Keys of one database in the engine's current state; each call has a snapshot of its own.
pub struct StoreKeyspace<'s> {
    store: &'s Store,
    space: Database,
}

impl<'s> StoreKeyspace<'s> {
    pub(super) fn new(store: &'s Store, space: Database) -> Self {
        Self { store, space }
    }
}

impl Keyspace for StoreKeyspace<'_> {
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut VisitLookup<'_>) -> Result<(), Error> {
        let (arena, clock) = (bumpalo::Bump::new(), ExpirationClock::default());
        let stored: Vec<_> = keys.iter().map(|key| self.space.encode_key(key, &arena)).collect();
        self.store.read_long(&stored, &mut |index, value| {
            visit(index, clock.entry(value));
            ControlFlow::Continue(())
        })
    }

    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitEntry<'_>) -> Result<(), Error> {
        let clock = ExpirationClock::default();
        Ok(raw_scan::scan(self.store.source(), self.space, range, &mut |_, key, value| {
            clock.each(value).map_or(ControlFlow::Continue(()), |entry| visit(key, entry))
        })?)
    }

    fn count(&mut self) -> Result<u64, Error> {
        self.store.count_keys(self.space)
    }

    fn sample(&mut self, random: u64, visit: &mut VisitEntry<'_>) -> Result<(), Error> {
        let clock = ExpirationClock::default();
        Ok(raw_scan::sample(self.store.source(), self.space, random, &mut |_, key, value| {
            clock.each(value).map_or(ControlFlow::Continue(()), |entry| visit(key, entry))
        })?)
    }

    fn is_ordered(&self) -> bool {
        self.store.info().capabilities.ordered
    }

    fn scan_step(&mut self, cursor: u64, count: usize, visit: &mut VisitEntry<'_>) -> Result<u64, Error> {
        let clock = ExpirationClock::default();
        self.store.scan_step(self.space, cursor, count, &mut |_, key, value| {
            clock.each(value).map_or(ControlFlow::Continue(()), |entry| visit(key, entry))
        })
    }
}

impl Store {
    /// Runs one step of an incremental scan (SCAN) of the keys of a database: see [`Keyspace::scan_step`].
    pub(super) fn scan_step(
        &self,
        space: Database,
        cursor: u64,
        count: usize,
        visit: &mut VisitStored<'_>,
    ) -> Result<u64, Error> {
        if !self.info().capabilities.ordered {
            return self.scan_step_without_order(space, cursor, count, visit);
        }
        let place = self.cursors.find(space, cursor);
        let next = self.scan_step_in_order(space, place, count, visit)?;
        Ok(next.map_or(0, |place| self.cursors.keep(space, place, cursor)))
    }

    fn scan_step_in_order(
        &self,
        space: Database,
        place: ScanPosition,
        count: usize,
        visit: &mut VisitStored<'_>,
    ) -> Result<Option<ScanPosition>, Error> {
        let (first, mut last) = match place {
            ScanPosition::AfterKey { segment, key } => (segment, Some(key)),
            ScanPosition::Begin => (0, None),
        };
        let mut left = count.max(1);
        for (number, segment) in space.raw_ranges(KeyRange::ALL).iter().enumerate().skip(first) {
            let mut range = segment.range();
            if let Some(key) = &last {
                range.start = Bound::Excluded(key);
            }
            let mut reached = None;
            self.reads.scan_each(range, &mut |stored, value| {
                let Some(key) = space.decode_key(stored) else { return ControlFlow::Continue(()) };
                left -= 1;
                let after = visit(stored, key, value);
                if left > 0 && after.is_continue() {
                    return ControlFlow::Continue(());
                }
                reached = Some(stored.into());
                ControlFlow::Break(())
            })?;
            if let Some(key) = reached {
                return Ok(Some(ScanPosition::AfterKey { segment: number, key }));
            }
            last = None;
        }
        Ok(None)
    }
}
