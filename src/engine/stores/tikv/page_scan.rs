//! Stored form of keys in TiKV, and scans of long ranges in pages.

use crate::engine::{KeyRange, prefix_end};
use std::ops::Bound;
use tikv_client::BoundRange;

/// Number of pairs in the first page of a scan of TiKV, and maximum number in any page.
const PAIRS_PER_PAGE: (u32, u32) = (16, 1024);

/// Size of the values in a page of a scan, in bytes, from which the next page has half as many pairs.
const LARGE_PAGE: usize = 1 << 20;

/// Number of keys in a page of a scan of TiKV that reads no values.
const KEYS_PER_PAGE: u32 = 4096;

/// Encoder of the keys of a TiKV store, which share a prefix.
pub(super) struct Keys {
    prefix: Vec<u8>,
}

impl Keys {
    pub fn new(prefix: &[u8]) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Returns the length of the prefix that all stored keys of the store have, in bytes.
    pub fn prefix(&self) -> usize {
        self.prefix.len()
    }

    /// Returns the stored form of a key: the prefix, then the key.
    pub fn stored(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    /// Returns the key whose stored form is `stored`.
    pub fn key<'k>(&self, stored: &'k [u8]) -> &'k [u8] {
        stored.strip_prefix(self.prefix.as_slice()).unwrap_or(stored)
    }

    /// Returns the bounds of a range of keys in stored form: its inclusive start, and its exclusive end; `None` for no
    /// end.
    pub fn bounds(&self, range: KeyRange<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
        let start = match range.start {
            Bound::Included(key) => self.stored(key),
            Bound::Excluded(key) => successor(self.stored(key)),
            Bound::Unbounded => self.prefix.clone(),
        };
        let end = match range.end {
            Bound::Included(key) => Some(successor(self.stored(key))),
            Bound::Excluded(key) => Some(self.stored(key)),
            Bound::Unbounded => prefix_end(&self.prefix),
        };
        (start, end)
    }
}

/// Returns the key that follows `key` in byte order.
fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// State of a scan in pages: the rest of the range, and the size of the next page.
pub(super) struct Pages {
    /// Stored key at which the next page starts; `None` after the last one.
    next_start: Option<Vec<u8>>,
    /// Exclusive end of the scanned range, as a stored key; `None` for no end.
    end: Option<Vec<u8>>,
    /// Maximum number of pairs in the next page.
    limit: u32,
    /// Maximum number of pairs in any page.
    most: u32,
}

impl Pages {
    /// Starts a scan in pages of the pairs between these bounds: stored keys, an inclusive start and an exclusive end.
    pub fn new((start, end): (Vec<u8>, Option<Vec<u8>>)) -> Self {
        Self { next_start: Some(start), end, limit: PAIRS_PER_PAGE.0, most: PAIRS_PER_PAGE.1 }
    }

    /// Starts a scan in pages of the keys, without values, between these bounds: an inclusive start and an exclusive
    /// end.
    pub fn of_keys((start, end): (Vec<u8>, Option<Vec<u8>>)) -> Self {
        Self { next_start: Some(start), end, limit: KEYS_PER_PAGE, most: KEYS_PER_PAGE }
    }

    /// Returns the range of the next page and its maximum number of pairs, or `None` after the last page.
    pub fn next(&self) -> Option<(BoundRange, u32)> {
        let start = self.next_start.clone()?;
        let range = match &self.end {
            Some(end) => (start..end.clone()).into(),
            None => (start..).into(),
        };
        Some((range, self.limit))
    }

    /// Sets the start and the size of the next page, after a page of `pairs` pairs, whose values have `bytes` bytes and
    /// whose last stored key is `last`. A page that was not full is the last one.
    pub fn note(&mut self, pairs: usize, bytes: usize, last: Option<&Vec<u8>>) {
        let is_last = pairs < self.limit as usize;
        self.next_start = last.filter(|_| !is_last).map(|last| successor(last.clone()));
        self.limit = match bytes {
            0..LARGE_PAGE => (self.limit * 2).min(self.most),
            _ => (self.limit / 2).max(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_start_with_the_prefix() {
        let keys = Keys::new(b"p/");
        let range = |start, end| keys.bounds(KeyRange { start, end });
        let pair = |start: &[u8], end: &[u8]| (start.to_vec(), Some(end.to_vec()));
        assert_eq!(range(Bound::Unbounded, Bound::Unbounded), pair(b"p/", b"p0"));
        assert_eq!(range(Bound::Included(b"a"), Bound::Excluded(b"b")), pair(b"p/a", b"p/b"));
        assert_eq!(range(Bound::Excluded(b"a"), Bound::Included(b"b")), pair(b"p/a\0", b"p/b\0"));
        assert_eq!(Keys::new(b"\xff").bounds(KeyRange::ALL), (b"\xff".to_vec(), None));
        assert_eq!((keys.key(b"p/key"), keys.stored(b"key")), (&b"key"[..], b"p/key".to_vec()));
    }

    #[test]
    fn pages_grow_while_they_are_small_and_end_when_one_is_not_full() {
        let mut pages = Pages::new((b"a".to_vec(), None));
        let mut limits = Vec::new();
        for bytes in [1, 1, 2 << 20, 2 << 20, 1] {
            let (_, limit) = pages.next().unwrap();
            limits.push(limit);
            pages.note(limit as usize, bytes, Some(&b"k".to_vec()));
        }
        assert_eq!(limits, [16, 32, 64, 32, 16]);
        assert_eq!(pages.next_start.as_deref(), Some(&b"k\0"[..]));
        pages.note(31, 1, Some(&b"z".to_vec()));
        assert!(pages.next().is_none());
    }
}
