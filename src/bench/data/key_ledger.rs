//! Which keys are there, with which values: what inserts have added and deletes have taken, over all threads and all cells
//! of a group. No key is inserted twice, and none comes back.

use super::value_versions::ValueVersions;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Mutex, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

/// The numbers of the keys that exist: all of `deleted..inserted`, without those that were popped.
#[derive(Debug)]
pub struct KeyLedger {
    /// How many keys there can be.
    limit: u64,
    /// Numbers handed out for inserts.
    next: AtomicU64,
    /// Every insert before it was acknowledged.
    inserted: AtomicU64,
    /// Acknowledged inserts beyond `inserted`: first number to number after the last.
    ahead: Mutex<BTreeMap<u64, u64>>,
    /// Numbers handed out for deletes.
    deleted: AtomicU64,
    /// Keys of that range that are gone out of turn.
    popped: RwLock<HashSet<u64>>,
    /// What the values of these keys are.
    pub versions: ValueVersions,
}

impl KeyLedger {
    /// No keys, and at most `limit` of them to come.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            next: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            ahead: Mutex::default(),
            deleted: AtomicU64::new(0),
            popped: RwLock::default(),
            versions: ValueVersions::default(),
        }
    }

    /// The number of the next key to insert, if there is one.
    pub fn insert(&self) -> Option<u64> {
        let index = self.next.fetch_add(1, SeqCst);
        (index < self.limit).then_some(index)
    }

    /// Makes an inserted key visible to choosers, once all keys before it are.
    pub fn inserted(&self, index: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = self.inserted.load(SeqCst);
        if index != done {
            ahead.insert(index, index + 1);
            return;
        }
        done += 1;
        while let Some(end) = ahead.remove(&done) {
            done = end;
        }
        self.inserted.store(done, SeqCst);
    }

    /// The number of the next key to delete, if any is left.
    pub fn delete(&self) -> Option<u64> {
        let end = self.end();
        loop {
            let take = |first| (first < end).then_some(first + 1);
            let first = self.deleted.fetch_update(SeqCst, SeqCst, take).ok()?;
            if !self.popped().contains(&first) {
                return Some(first);
            }
        }
    }

    /// Notes that keys are gone which are not the next ones to delete. Nobody deletes meanwhile.
    pub fn mark_removed(&self, indices: &[u64]) {
        self.popped.write().unwrap_or_else(PoisonError::into_inner).extend(indices);
    }

    fn popped(&self) -> RwLockReadGuard<'_, HashSet<u64>> {
        self.popped.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a delete may have taken this key.
    pub fn is_deleted(&self, index: u64) -> bool {
        index < self.deleted.load(SeqCst) || self.popped().contains(&index)
    }

    /// First number that exists, and the one after the last.
    #[inline]
    pub fn range(&self) -> (u64, u64) {
        (self.deleted.load(SeqCst), self.end())
    }

    #[inline]
    fn end(&self) -> u64 {
        self.inserted.load(SeqCst)
    }

    /// How many keys exist when nothing is under way.
    pub fn count(&self) -> u64 {
        let (first, end) = self.range();
        let popped = self.popped().iter().filter(|index| **index >= first).count();
        end.saturating_sub(first) - popped as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popped_keys_are_gone_once() {
        let live = KeyLedger::new(10);
        for _ in 0..6 {
            live.inserted(live.insert().unwrap());
        }
        live.mark_removed(&[1, 4]);
        assert_eq!(live.count(), 4);
        assert!(live.is_deleted(4) && !live.is_deleted(5));
        let deleted: Vec<_> = std::iter::from_fn(|| live.delete()).collect();
        assert_eq!(deleted, [0, 2, 3, 5]);
        assert_eq!(live.count(), 0);
    }
}
