//! Order in which a SCAN visits the keys of an unordered engine, and the cursors that hold a position in that
//! order.

use super::database_keys::Database;
use std::hash::{BuildHasher, RandomState};

/// Number of bits of a cursor that hold the hash of a key.
const HASH_BITS: u32 = 22;

/// Number of bits of a cursor that hold the number of a part of the engine's data.
const PART_BITS: u32 = 16;

/// Number of bits of a cursor that hold the tag of its store and database. With them a cursor has 53 bits:
/// integers up to this length are exact in every client, including JavaScript.
const TAG_BITS: u32 = 15;

/// Largest number of a part ([`Engine::scan_part`](crate::engine::Engine::scan_part)).
pub(super) const MAX_PART: u64 = (1 << PART_BITS) - 1;

/// Place of a key in the order of SCAN: the number of its part, then a hash of the stored key.
///
/// Keys with the same place are visited by the same call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScanOrder(u64);

impl ScanOrder {
    /// End of the scan, behind all keys.
    pub(super) const END: Self = Self(1 << (PART_BITS + HASH_BITS));

    /// Returns the place of keys with the hash `hash`, of which the lowest bits count, in part number `part`.
    pub(super) fn new(part: u64, hash: u64) -> Self {
        Self(part << HASH_BITS | hash & ((1 << HASH_BITS) - 1))
    }

    /// Returns the place before all keys of part number `part`, or [`ScanOrder::END`] for a number above
    /// [`MAX_PART`].
    pub(super) fn start_of(part: u64) -> Self {
        Self(part << HASH_BITS).min(Self::END)
    }

    /// Returns the number of the part.
    pub(super) fn part(self) -> u64 {
        self.0 >> HASH_BITS
    }

    /// Returns the place before all keys of the part.
    pub(super) fn part_start(self) -> Self {
        Self::start_of(self.part())
    }

    /// Returns the place behind all keys of the part.
    pub(super) fn part_end(self) -> Self {
        Self::start_of(self.part() + 1)
    }
}

/// Secret of a store, from which the hashes of its keys and the tags of its cursors are computed.
///
/// The hash of a key stays the same until the store is closed. The tag is different for another database and
/// after a restart.
#[derive(Default)]
pub(super) struct ScanHasher(RandomState);

impl ScanHasher {
    /// Returns the place of a stored key in part number `part`.
    pub(super) fn order(&self, part: u64, stored: &[u8]) -> ScanOrder {
        ScanOrder::new(part, self.0.hash_one(stored))
    }

    /// Returns the cursor of a scan of the database `space` whose next key is at `next`.
    pub(super) fn cursor(&self, space: Database, next: ScanOrder) -> u64 {
        self.tag(space) << (PART_BITS + HASH_BITS) | next.0
    }

    /// Returns the place of the next key for a cursor. A cursor of another database, or from before a
    /// restart, begins a new scan, because it does not show which keys were visited.
    pub(super) fn next(&self, space: Database, cursor: u64) -> ScanOrder {
        if cursor >> (PART_BITS + HASH_BITS) == self.tag(space) {
            ScanOrder(cursor & (ScanOrder::END.0 - 1))
        } else {
            ScanOrder::default()
        }
    }

    /// Returns the tag of the cursors of a database. It is never 0, so that no small number is a cursor by
    /// accident.
    fn tag(&self, space: Database) -> u64 {
        self.0.hash_one(space.number()) % ((1 << TAG_BITS) - 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_holds_the_place_and_is_exact_in_a_double() {
        let hasher = ScanHasher::default();
        for space in [Database::default(), Database::new(15)] {
            for part in [0, 1, 383, MAX_PART] {
                for next in [hasher.order(part, b"key"), ScanOrder::start_of(part)] {
                    let cursor = hasher.cursor(space, next);
                    assert_eq!(hasher.next(space, cursor), next);
                    assert!(cursor > 0 && cursor < 1 << 53, "{cursor}");
                    assert_eq!((next.part(), next.part_start()), (part, ScanOrder::start_of(part)));
                    assert!(next < next.part_end() && next.part_end() <= ScanOrder::END);
                }
            }
        }
    }

    #[test]
    fn cursor_of_another_database_or_store_begins_a_scan() {
        let begin = ScanOrder::default();
        let hasher = ScanHasher::default();
        let next = hasher.order(7, b"key");
        // Tags have 15 bits, so two of them may be equal, but not many.
        let is_unknown =
            |other: &ScanHasher, space| other.next(space, hasher.cursor(Database::default(), next)) == begin;
        assert!((1..16).filter(|number| is_unknown(&hasher, Database::new(*number))).count() > 10);
        assert!((0..16).filter(|_| is_unknown(&ScanHasher::default(), Database::default())).count() > 10);
        for cursor in [0, 1, 1 << 37, 1 << 53, u64::MAX] {
            assert_eq!(hasher.next(Database::default(), cursor), begin);
        }
    }
}
