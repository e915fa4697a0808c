//! Positions of SCANs of ordered engines between their calls.
//!
//! A key does not fit into the number that Redis' clients know as a cursor, so the positions are kept here. If
//! there are too many, the oldest is discarded: of those of scans with one call, which are often abandoned, if they are
//! more than a quarter, otherwise of the others. A client that sends its cursor starts again, which SCAN allows: it only
//! guarantees that each key that exists throughout the scan is returned at least once. For the same reason an unknown
//! cursor starts a new scan.

use super::database_keys::Database;
use hashbrown::HashMap;
use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Maximum number of saved SCAN positions, and maximum total size of their keys in bytes.
const MAX_SAVED: (usize, usize) = (64 << 10, 64 << 20);

/// Largest cursor: integers up to this one are exact in every client, including JavaScript.
const LARGEST: u64 = 1 << 52;

/// Position of an incremental scan (SCAN) of the keys of a database in an ordered engine.
#[derive(Clone, Default)]
pub(super) enum ScanPosition {
    /// Start of the scan, before all keys.
    #[default]
    Begin,
    /// Position behind the stored key `key` in the range number `segment` of [`Database::raw_ranges`].
    AfterKey { segment: usize, key: Arc<[u8]> },
}

impl ScanPosition {
    /// Returns the size in bytes of the key that the position holds.
    fn bytes(&self) -> usize {
        match self {
            Self::Begin => 0,
            Self::AfterKey { key, .. } => key.len(),
        }
    }
}

struct SavedCursor {
    space: Database,
    place: ScanPosition,
    /// Cursor that the client had sent in the SCAN call that returned this cursor. The position of that earlier
    /// cursor is kept, too, in case the reply was lost.
    before: u64,
    bytes: usize,
}

#[derive(Default)]
struct Table {
    last: u64,
    kept: HashMap<u64, SavedCursor>,
    /// Cursors of scans with one call, the oldest first. Cursors that are forgotten may remain, here and below.
    begun: VecDeque<u64>,
    /// Cursors of scans with several calls, the oldest first.
    continued: VecDeque<u64>,
    bytes: usize,
}

/// Saved SCAN positions, by cursor.
#[derive(Default)]
pub(super) struct ScanCursors(Mutex<Table>);

impl ScanCursors {
    /// Returns the position of `cursor` in the database `space`, or the start if the cursor is unknown there.
    pub(super) fn find(&self, space: Database, cursor: u64) -> ScanPosition {
        let table = self.lock();
        match table.kept.get(&cursor) {
            Some(kept) if kept.space == space => kept.place.clone(),
            _ => ScanPosition::Begin,
        }
    }

    /// Saves the position that a SCAN call with the cursor `before` has reached. Returns the cursor of that
    /// position.
    pub(super) fn keep(&self, space: Database, place: ScanPosition, before: u64) -> u64 {
        let bytes = place.bytes();
        let mut table = self.lock();
        let continues = table.kept.get(&before).map(|kept| kept.before);
        table.forget(continues.unwrap_or(0));
        if table.last == 0 {
            // Random start, so that cursors from before a restart are unknown.
            table.last = RandomState::new().build_hasher().finish() % (LARGEST / 2);
        }
        table.last = table.last % LARGEST + 1;
        let cursor = table.last;
        table.bytes += bytes;
        let order = if continues.is_some() { &mut table.continued } else { &mut table.begun };
        order.push_back(cursor);
        table.kept.insert(cursor, SavedCursor { space, place, before, bytes });
        while table.kept.len() > MAX_SAVED.0 || table.bytes > MAX_SAVED.1 && table.kept.len() > 1 {
            // A finished scan leaves its last cursors among the others, so those alone may fill the table.
            let are_many = 4 * table.begun.len() > table.kept.len();
            let is_begun = are_many && table.begun.front().is_some_and(|oldest| *oldest != cursor);
            let order = if is_begun { &mut table.begun } else { &mut table.continued };
            let Some(oldest) = order.pop_front() else { break };
            table.forget(oldest);
        }
        // Positions that were discarded by other means leave their cursors.
        let Table { begun, continued, kept, .. } = &mut *table;
        if begun.len() + continued.len() > 2 * kept.len() + 16 {
            [begun, continued].into_iter().for_each(|order| order.retain(|cursor| kept.contains_key(cursor)));
        }
        cursor
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code that can panic runs under this lock, so poisoning is ignored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn forget(&mut self, cursor: u64) {
        if let Some(kept) = self.kept.remove(&cursor) {
            self.bytes -= kept.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(key: &[u8]) -> ScanPosition {
        ScanPosition::AfterKey { segment: 0, key: key.into() }
    }

    fn key(cursors: &ScanCursors, cursor: u64) -> Option<Vec<u8>> {
        match cursors.find(Database::default(), cursor) {
            ScanPosition::AfterKey { key, .. } => Some(key.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn an_incremental_scan_keeps_two_places_however_long_it_is() {
        let cursors = ScanCursors::default();
        let (mut before, mut cursor) = (0, 0);
        for step in 0..1000u32 {
            let next = cursors.keep(Database::default(), behind(&step.to_be_bytes()), cursor);
            assert!(next > 0 && next <= LARGEST);
            assert_eq!(key(&cursors, next), Some(step.to_be_bytes().to_vec()));
            assert!(step == 0 || key(&cursors, cursor).is_some());
            assert_eq!(key(&cursors, before), None);
            (before, cursor) = (cursor, next);
        }
        let table = cursors.lock();
        assert_eq!((table.kept.len(), table.bytes), (2, 8));
        assert!(table.begun.len() + table.continued.len() < 50);
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let cursors = ScanCursors::default();
        let all: Vec<u64> =
            (0..MAX_SAVED.0 + 10).map(|_| cursors.keep(Database::default(), behind(b"key"), 0)).collect();
        assert_eq!(key(&cursors, all[9]), None);
        assert!(all[10..].iter().all(|cursor| key(&cursors, *cursor).is_some()));
        let large = cursors.keep(Database::default(), behind(&vec![0; MAX_SAVED.1]), 0);
        assert!(key(&cursors, large).is_some());
        assert_eq!(cursors.lock().kept.len(), 1);
    }

    /// Otherwise the scan would begin again, and would never end if the others go on.
    #[test]
    fn scans_that_begin_do_not_end_one_that_continues() {
        let cursors = ScanCursors::default();
        let keep = |key: &[u8], before| cursors.keep(Database::default(), behind(key), before);
        let mut cursor = keep(b"first", keep(b"begin", 0));
        for step in 0..3u8 {
            for _ in 0..MAX_SAVED.0 + 10 {
                keep(b"key", 0);
            }
            assert!(key(&cursors, cursor).is_some(), "{step}");
            cursor = keep(&[step], cursor);
        }
        for _ in 0..4 {
            keep(&vec![0; MAX_SAVED.1 / 2], 0);
        }
        assert!(key(&cursors, cursor).is_some());
    }

    /// Scans that have ended leave their last cursors.
    #[test]
    fn scans_that_begin_go_on_beside_many_that_have_ended() {
        let cursors = ScanCursors::default();
        let keep = |key: &[u8], before| cursors.keep(Database::default(), behind(key), before);
        for _ in 0..MAX_SAVED.0 {
            (0..4).fold(0, |cursor, _| keep(b"ended", cursor));
        }
        let mut scans = [0; 1000];
        for step in 0..4u8 {
            for cursor in &mut scans {
                assert!(step == 0 || key(&cursors, *cursor) == Some(vec![step - 1]), "{step}");
                *cursor = keep(&[step], *cursor);
            }
        }
        assert!(cursors.lock().kept.len() <= MAX_SAVED.0);
    }

    #[test]
    fn another_database_and_an_unknown_number_begin() {
        let cursors = ScanCursors::default();
        let cursor = cursors.keep(Database::default(), behind(b"key"), 0);
        assert!(matches!(cursors.find(Database::new(1), cursor), ScanPosition::Begin));
        assert!(matches!(cursors.find(Database::default(), cursor + 1), ScanPosition::Begin));
    }
}
