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
use std::{
    ops::{Bound, ControlFlow},
    sync::Arc,
};

/// Callback that receives a key and its value, both borrowed for the call, or the error of a value that cannot be
/// read.
pub type VisitEntry<'v> = dyn FnMut(&[u8], Result<Entry<'_>, Error>) -> ControlFlow<()> + 'v;

/// Callback that receives the index of a key in the list of keys to read, and its value, or `None` if the key does not
/// exist or has expired.
pub type VisitLookup<'v> = dyn FnMut(usize, Option<Entry<'_>>) + 'v;

/// Stored keys that one step of an unordered engine's incremental scan has returned, the index of the next one to
/// visit, and the engine's position behind them (0: end).
type ScanStep = (Arc<[Box<[u8]>]>, usize, u64);

/// Maximum number of keys whose values one step of an incremental scan reads in one call of the engine.
const MAX_LOOKUP_KEYS: usize = 1024;

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
    fn walk(&mut self, cursor: u64, count: usize, visit: &mut VisitEntry<'_>) -> Result<u64, Error>;
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
        let (arena, moment) = (bumpalo::Bump::new(), ExpirationClock::default());
        let stored: Vec<_> = keys.iter().map(|key| self.space.encode_key(key, &arena)).collect();
        self.store.read_long(&stored, &mut |index, value| {
            visit(index, moment.entry(value));
            ControlFlow::Continue(())
        })
    }

    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitEntry<'_>) -> Result<(), Error> {
        let moment = ExpirationClock::default();
        Ok(raw_scan::scan(self.store.source(), self.space, range, &mut |_, key, value| {
            moment.each(value).map_or(ControlFlow::Continue(()), |entry| visit(key, entry))
        })?)
    }

    fn count(&mut self) -> Result<u64, Error> {
        self.store.count_keys(self.space)
    }

    fn sample(&mut self, random: u64, visit: &mut VisitEntry<'_>) -> Result<(), Error> {
        let moment = ExpirationClock::default();
        Ok(raw_scan::sample(self.store.source(), self.space, random, &mut |_, key, value| {
            moment.each(value).map_or(ControlFlow::Continue(()), |entry| visit(key, entry))
        })?)
    }

    fn is_ordered(&self) -> bool {
        self.store.info().capabilities.ordered
    }

    fn walk(&mut self, cursor: u64, count: usize, visit: &mut VisitEntry<'_>) -> Result<u64, Error> {
        let moment = ExpirationClock::default();
        self.store.walk(self.space, cursor, count, &mut |_, key, value| {
            moment.each(value).map_or(ControlFlow::Continue(()), |entry| visit(key, entry))
        })
    }
}

impl Store {
    /// Runs one step of an incremental scan (SCAN) of the keys of a database: see [`Keyspace::walk`].
    pub(super) fn walk(
        &self,
        space: Database,
        cursor: u64,
        count: usize,
        visit: &mut VisitStored<'_>,
    ) -> Result<u64, Error> {
        let place = self.cursors().find(space, cursor);
        let next = if self.info().capabilities.ordered {
            self.walk_in_order(space, place, count, visit)?
        } else {
            self.walk_without_order(space, place, count, visit)?
        };
        Ok(next.map_or(0, |place| self.cursors().keep(space, place, cursor)))
    }

    fn walk_in_order(
        &self,
        space: Database,
        place: ScanPosition,
        count: usize,
        visit: &mut VisitStored<'_>,
    ) -> Result<Option<ScanPosition>, Error> {
        let (first, mut last) = match place {
            ScanPosition::AfterKey { segment, key } => (segment, Some(key)),
            ScanPosition::Begin | ScanPosition::InScanStep { .. } => (0, None),
        };
        let mut left = count.max(1);
        for (number, segment) in space.raw_ranges(KeyRange::ALL).iter().enumerate().skip(first) {
            let mut range = segment.range();
            if let Some(key) = &last {
                range.start = Bound::Excluded(key);
            }
            let mut reached = None;
            self.scan_each(range, &mut |stored, value| {
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

    fn walk_without_order(
        &self,
        space: Database,
        place: ScanPosition,
        count: usize,
        visit: &mut VisitStored<'_>,
    ) -> Result<Option<ScanPosition>, Error> {
        let count = count.max(1);
        let (mut left, mut from, mut position) = match place {
            ScanPosition::InScanStep { left, from, position } => (left, from, position),
            ScanPosition::Begin | ScanPosition::AfterKey { .. } => self.gather(space, 0, count)?,
        };
        let mut visited = 0;
        loop {
            let rest = left.get(from..).unwrap_or_default();
            let now = rest.get(..(count - visited).min(MAX_LOOKUP_KEYS)).unwrap_or(rest);
            self.visit_all(space, now, visit)?;
            (visited, from) = (visited + now.len(), from + now.len());
            if from < left.len() && visited >= count {
                return Ok(Some(ScanPosition::InScanStep { left, from, position }));
            }
            if from < left.len() {
                continue;
            }
            if position == 0 {
                return Ok(None);
            }
            if visited >= count {
                return Ok(Some(ScanPosition::InScanStep { left: [].into(), from: 0, position }));
            }
            (left, from, position) = self.gather(space, position, count - visited)?;
        }
    }

    /// Returns about `count` stored keys of the database from the engine's scan position `position` on, and the
    /// position behind them. There may be fewer, or none, if keys of other databases are in between.
    fn gather(&self, space: Database, position: u64, count: usize) -> Result<ScanStep, Error> {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        // The limit also counts keys of other databases, of which there may be many.
        let mut left = count.max(MAX_LOOKUP_KEYS);
        let next = self.walk_each(position, &mut |stored, _| {
            if space.decode_key(stored).is_some() {
                keys.push(stored.into());
            }
            left -= 1;
            if left > 0 && keys.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok((keys.into(), 0, next))
    }

    /// Reads the stored keys `keys`, and calls `visit` for those that still exist and belong to the database `space`.
    fn visit_all(
        &self,
        space: Database,
        keys: &[Box<[u8]>],
        visit: &mut VisitStored<'_>,
    ) -> Result<(), Error> {
        let keys: Vec<&[u8]> = keys.iter().map(Box::as_ref).collect();
        self.read_each(&keys, &mut |index, value| {
            if let (Some(stored), Some(value)) = (keys.get(index), value.transpose())
                && let Some(key) = space.decode_key(stored)
            {
                let _visited = visit(stored, key, value);
            }
        })
    }
}
