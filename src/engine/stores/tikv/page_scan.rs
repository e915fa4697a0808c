//! Where keys are in the cluster, and how long ranges are read in pages.

use crate::engine::{KeyRange, prefix_end};
use std::ops::Bound;
use tikv_client::BoundRange;

/// Pairs of the first page, and most of any.
const LIMITS: (u32, u32) = (16, 1024);

/// A page of about so many bytes is large enough.
const BYTES: usize = 1 << 20;

/// Keys of a page without values.
const KEYS: u32 = 4096;

/// The keys with the prefix of this store.
pub(super) struct Keys {
    prefix: Vec<u8>,
}

impl Keys {
    pub fn new(prefix: &[u8]) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Bytes that stand before each key.
    pub fn prefix(&self) -> usize {
        self.prefix.len()
    }

    pub fn stored(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    pub fn key<'k>(&self, stored: &'k [u8]) -> &'k [u8] {
        stored.strip_prefix(self.prefix.as_slice()).unwrap_or(stored)
    }

    /// Where the keys of a range are: the first of them, and the first behind them, `None` at the end of all.
    pub fn bounds(&self, range: KeyRange<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
        let start = match range.start {
            Bound::Included(key) => self.stored(key),
            Bound::Excluded(key) => behind(self.stored(key)),
            Bound::Unbounded => self.prefix.clone(),
        };
        let end = match range.end {
            Bound::Included(key) => Some(behind(self.stored(key))),
            Bound::Excluded(key) => Some(self.stored(key)),
            Bound::Unbounded => prefix_end(&self.prefix),
        };
        (start, end)
    }
}

/// The next key in byte order.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// What is still to be read of a range.
pub(super) struct Pages {
    left: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    limit: u32,
    most: u32,
}

impl Pages {
    pub fn new((start, end): (Vec<u8>, Option<Vec<u8>>)) -> Self {
        Self { left: Some(start), end, limit: LIMITS.0, most: LIMITS.1 }
    }

    /// The same without values.
    pub fn of_keys((start, end): (Vec<u8>, Option<Vec<u8>>)) -> Self {
        Self { left: Some(start), end, limit: KEYS, most: KEYS }
    }

    /// The range and the most pairs of the next page.
    pub fn next(&self) -> Option<(BoundRange, u32)> {
        let start = self.left.clone()?;
        let range = match &self.end {
            Some(end) => (start..end.clone()).into(),
            None => (start..).into(),
        };
        Some((range, self.limit))
    }

    /// Goes on behind a page of so many pairs and bytes of values, which ended with this key.
    pub fn note(&mut self, pairs: usize, bytes: usize, last: Option<&Vec<u8>>) {
        let is_last = pairs < self.limit as usize;
        self.left = last.filter(|_| !is_last).map(|last| behind(last.clone()));
        self.limit = match bytes {
            0..BYTES => (self.limit * 2).min(self.most),
            _ => (self.limit / 2).max(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_prefix() {
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
        assert_eq!(pages.left.as_deref(), Some(&b"k\0"[..]));
        pages.note(31, 1, Some(&b"z".to_vec()));
        assert!(pages.next().is_none());
    }
}
