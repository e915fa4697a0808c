//! Mapping between the keys of one database and the stored keys of an engine, and the marker records: records under
//! reserved keys that state whether expirations or key headers are in use.

use crate::engine::{
    KeyRange,
    key_value_headers::{self, HEADER_MAGIC},
    prefix_end,
};
use bumpalo::Bump;
use std::ops::Bound;

/// Redis database, by its index: the keys of one database among all stored keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Database(u8);

/// Range of stored keys (keys with their key headers).
pub(super) struct RawRange {
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
}

impl RawRange {
    pub(super) fn range(&self) -> KeyRange<'_> {
        KeyRange { start: borrow(&self.start), end: borrow(&self.end) }
    }
}

fn borrow(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Database {
    /// Returns the database with the index `number`.
    pub fn new(number: u8) -> Self {
        Self(number)
    }

    /// Returns the index of the database.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the stored form of `key`: `key` itself in database 0, otherwise a key header and `key`. In database 0
    /// a key that looks as if it had a header gets one, too.
    #[inline(always)]
    pub fn encode_key<'k>(self, key: &'k [u8], arena: &'k Bump) -> &'k [u8] {
        if self.0 == 0 && !key_value_headers::may_have_header(key) {
            key
        } else {
            self.stored_with_head(key, arena)
        }
    }

    #[cold]
    fn stored_with_head<'k>(self, key: &'k [u8], arena: &'k Bump) -> &'k [u8] {
        if self.0 == 0 && !key_value_headers::needs_header(key) {
            return key;
        }
        let head = key_value_headers::key_head(self.0);
        let stored = arena.alloc_slice_fill_default(head.len() + key.len());
        let (before, after) = stored.split_at_mut(head.len());
        before.copy_from_slice(&head);
        after.copy_from_slice(key);
        stored
    }

    /// Returns the key whose stored form is `stored`, or `None` if `stored` belongs to another database or is a
    /// marker record.
    #[inline]
    pub fn decode_key(self, stored: &[u8]) -> Option<&[u8]> {
        key_value_headers::key(stored).and_then(|(space, key)| (space == self.0).then_some(key))
    }

    /// Returns up to three ranges of stored keys that together hold the keys of `range` in this database, for an
    /// ordered engine.
    pub(super) fn raw_ranges(self, range: KeyRange<'_>) -> Vec<RawRange> {
        let with_head =
            |bound: Bound<&[u8]>| bound.map(|key| [&key_value_headers::key_head(self.0), key].concat());
        let end_of_space =
            || prefix_end(&key_value_headers::key_head(self.0)).map_or(Bound::Unbounded, Bound::Excluded);
        let own = RawRange {
            start: match with_head(range.start) {
                Bound::Unbounded => Bound::Included(key_value_headers::key_head(self.0).to_vec()),
                start => start,
            },
            end: match with_head(range.end) {
                Bound::Unbounded => end_of_space(),
                end => end,
            },
        };
        if self.0 != 0 {
            return vec![own];
        }
        let (start, end) = (range.start.map(<[u8]>::to_vec), range.end.map(<[u8]>::to_vec));
        if matches!(range.end, Bound::Included(end) if end < &HEADER_MAGIC[..])
            || matches!(range.end, Bound::Excluded(end) if end <= &HEADER_MAGIC[..])
        {
            return vec![RawRange { start, end }];
        }
        let after = prefix_end(&HEADER_MAGIC).unwrap_or_default();
        let later = match &start {
            Bound::Included(key) | Bound::Excluded(key) if *key >= after => start.clone(),
            _ => Bound::Included(after),
        };
        vec![
            RawRange { start, end: Bound::Excluded(HEADER_MAGIC.to_vec()) },
            RawRange { start: later, end },
            own,
        ]
    }
}

/// Set of marker records: records under reserved keys that state whether expiration times or key headers are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkerRecords(u8);

impl MarkerRecords {
    /// Marker record that exists if values may have expiration times.
    pub(super) const EXPIRATIONS: Self = Self(1);
    /// Marker record that exists if stored keys may have key headers: keys of other databases than 0, and keys of
    /// database 0 that look as if they had a header.
    pub(super) const KEY_HEADERS: Self = Self(2);

    /// All marker records, each with its stored key.
    pub(super) const ALL: [(Self, &'static [u8]); 2] = [
        (Self::EXPIRATIONS, &key_value_headers::EXPIRATIONS_RECORD),
        (Self::KEY_HEADERS, &key_value_headers::KEY_HEADERS_RECORD),
    ];

    /// Returns the set of all marker records.
    pub(super) fn everything() -> Self {
        Self::ALL.iter().fold(Self::default(), |all, (record, _)| all.with(*record))
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// Returns the union of two sets of marker records.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the number of marker records in the set.
    pub(super) fn len(self) -> u64 {
        self.0.count_ones().into()
    }

    #[inline]
    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds a marker record to the set. Returns its stored key, or `None` if it was in the set already.
    pub(super) fn add(&mut self, other: Self) -> Option<&'static [u8]> {
        if self.contains(other) {
            return None;
        }
        self.0 |= other.0;
        Self::ALL.iter().find(|(own, _)| *own == other).map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_key_is_in_one_place_of_one_database() {
        let marked = [&HEADER_MAGIC[..], b"x"].concat();
        let keys =
            [&b""[..], b"a", b"k1", b"k2", b"\xff", b"\xffkvbenci", b"\xff\xff", &HEADER_MAGIC, &marked];
        let arena = Bump::new();
        let mut stored = BTreeMap::from([(key_value_headers::EXPIRATIONS_RECORD.to_vec(), (9, &b""[..]))]);
        for number in [0, 1, 2, 15] {
            for key in keys {
                stored.insert(Database::new(number).encode_key(key, &arena).to_vec(), (number, key));
            }
        }
        assert_eq!(stored.len(), 4 * keys.len() + 1);
        let bounds = |key: &'static [u8]| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        let starts = [&b"a"[..], b"k1", b"\xff", b"\xffkvbench", b"\xffkvbencx"].into_iter().flat_map(bounds);
        let ends =
            [&b"a"[..], b"k2", b"\xff\xff", b"\xffkvbench", b"\xffkvbenchx"].into_iter().flat_map(bounds);
        for (start, end) in starts.flat_map(|start| ends.clone().map(move |end| (start, end))) {
            let range = KeyRange { start, end };
            for number in [0, 1, 15] {
                let space = Database::new(number);
                let mut found: Vec<_> = vec![];
                for segment in space.raw_ranges(range) {
                    let inside = stored.keys().filter(|key| segment.range().contains(key));
                    found.extend(inside.map(|key| space.decode_key(key).expect("a key of the database")));
                }
                found.sort();
                let mut expected: Vec<_> = keys.iter().copied().filter(|key| range.contains(key)).collect();
                expected.sort();
                assert_eq!(found, expected, "{range:?} of {number}");
            }
        }
    }
}
