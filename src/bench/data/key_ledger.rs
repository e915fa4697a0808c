//! Ledger of the keys that a store should hold and of the versions of their values, shared by all threads and all cells
//! that use the same data. No key is inserted twice, and no deleted key is inserted again.

use super::{
    allowed_versions::{OldestVersion, ValueVersions},
    atomic_table::TRACKED,
    expirations::{Expirations, Lifetime, ReadStart},
    keys::KeyChooser,
};
use crate::bench::result::Workload;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Mutex, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

/// Ledger of the keys that a store should hold: those with the numbers `deleted..inserted`, without the set `popped`.
#[derive(Debug)]
pub struct KeyLedger {
    /// Maximum number of keys that may ever be inserted.
    limit: u64,
    /// Number of the next key to insert: all lower numbers have been given to threads.
    next: AtomicU64,
    /// Number of the first key whose insert is not yet acknowledged: all inserts below it are.
    inserted: AtomicU64,
    /// Acknowledged inserts of keys above `inserted`, as ranges of key numbers: from the first number to the number
    /// after the last.
    ahead: Mutex<BTreeMap<u64, u64>>,
    /// Number of the next key to delete: all lower numbers have been given to threads.
    deleted: AtomicU64,
    /// Numbers of keys that were removed out of order, so that `deleted` does not cover them.
    popped: RwLock<HashSet<u64>>,
    /// Versions of the values of all keys.
    pub versions: ValueVersions,
    /// Expiration times of the values; `None` if they do not expire. An expired key still counts as existing here.
    pub expirations: Option<Expirations>,
}

/// Bounds of the version and expiration time of a key, as known when a read of the key began.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadBegin {
    /// Oldest version that the read may return.
    pub oldest: OldestVersion,
    /// Start of the read and bounds of the key's expiration time; `None` if values do not expire.
    expiration: Option<ReadStart>,
}

impl KeyLedger {
    /// Creates a ledger of a store that is empty and will get at most `limit` keys.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            next: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            ahead: Mutex::default(),
            deleted: AtomicU64::new(0),
            popped: RwLock::default(),
            versions: ValueVersions::default(),
            expirations: None,
        }
    }

    /// Makes the ledger record the expiration times of values that live for `ttl_ms` milliseconds; `None`: values do
    /// not expire. The memory for the expiration times of the first `keys` keys is allocated at once.
    pub fn with_ttl(self, ttl_ms: Option<u64>, keys: u64) -> Self {
        Self { expirations: ttl_ms.map(|ttl_ms| Expirations::new(ttl_ms, keys)), ..self }
    }

    /// Returns the bytes of memory for the versions of the first `keys` keys.
    pub fn version_bytes(keys: u64) -> u64 {
        8 * keys.min(TRACKED)
    }

    /// Allocates the memory for the versions of the first `keys` keys now, before the first update.
    pub fn with_versions(self, keys: u64) -> Self {
        self.versions.allocate(keys);
        self
    }

    /// Returns what a read of key `index` that begins now may return: bounds of the version and of the expiration time.
    #[inline]
    pub fn begin_read(&self, index: u64) -> ReadBegin {
        // In this order: see `Expirations::begin_read`.
        let oldest = self.versions.oldest(index);
        let expiration = self.expirations.as_ref().map(|expirations| expirations.begin_read(index));
        ReadBegin { oldest, expiration }
    }

    /// Returns `true` if a read of a key that began at `begin`, and ends now, may have found nothing because the value
    /// has expired.
    pub fn may_have_expired(&self, begin: ReadBegin) -> bool {
        let known = self.expirations.as_ref().zip(begin.expiration);
        known.is_some_and(|(expirations, start)| expirations.may_be_absent(start))
    }

    /// Returns `true` if a read of key `index` that began at `begin`, and found a value, should have found that the
    /// value has expired.
    pub fn must_have_expired(&self, index: u64, begin: ReadBegin) -> bool {
        begin.expiration.is_some_and(ReadStart::finds_only_expired)
            && self.versions.is_unchanged(index, begin.oldest)
    }

    /// Records the end of an update of key `index`, which was acknowledged (`succeeded`) or failed. `lifetime` is that
    /// of the written value; `None` if values do not expire.
    pub fn end_update(&self, index: u64, lifetime: Option<Lifetime>, succeeded: bool) {
        let known = self.expirations.as_ref().zip(lifetime);
        if let Some((expirations, lifetime)) = known {
            expirations.acknowledge(index, lifetime);
        }
        if let (true, Some((expirations, lifetime))) = (self.versions.end(index, succeeded), known) {
            expirations.acknowledge_alone(index, lifetime);
        }
    }

    /// Records that the insert of key `index` was acknowledged. Operations choose the key only when all inserts of
    /// lower key numbers are acknowledged.
    pub fn end_insert(&self, index: u64, lifetime: Option<Lifetime>) {
        if let Some((expirations, lifetime)) = self.expirations.as_ref().zip(lifetime) {
            expirations.acknowledge(index, lifetime);
            expirations.acknowledge_alone(index, lifetime);
        }
        self.inserted(index);
    }

    /// Returns the number of the next key to insert, which no other call returns; `None` if `limit` keys have been
    /// given out.
    pub fn insert(&self) -> Option<u64> {
        let index = self.next.fetch_add(1, SeqCst);
        (index < self.limit).then_some(index)
    }

    fn inserted(&self, index: u64) {
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

    /// Returns the number of the next key to delete, the lowest that exists, which no other call returns; `None` if no
    /// key is left.
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

    /// Records that the keys `indices`, which need not be the next ones to delete, were removed. No thread
    /// may call [`KeyLedger::delete`] meanwhile.
    pub fn mark_removed(&self, indices: &[u64]) {
        self.popped.write().unwrap_or_else(PoisonError::into_inner).extend(indices);
    }

    fn popped(&self) -> RwLockReadGuard<'_, HashSet<u64>> {
        self.popped.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if the key `index` was given to a delete, or was removed by
    /// [`KeyLedger::mark_removed`].
    pub fn is_deleted(&self, index: u64) -> bool {
        index < self.deleted.load(SeqCst) || self.popped().contains(&index)
    }

    /// Returns the number of the first key that exists, and the number after that of the last one; keys in between may
    /// have been removed.
    #[inline]
    pub fn range(&self) -> (u64, u64) {
        (self.deleted.load(SeqCst), self.end())
    }

    /// Creates the chooser of a workload's keys, from which the choosers of its threads or clients are made
    /// ([`KeyChooser::for_thread`]). The number of keys is that of the keys that exist now, at least one.
    pub fn chooser(&self, workload: &Workload) -> KeyChooser {
        KeyChooser::new(workload.order, self.span().max(1), workload.seed, u64::from(workload.threads))
    }

    #[inline]
    fn end(&self) -> u64 {
        self.inserted.load(SeqCst)
    }

    /// Returns the number of keys that exist, if no insert or delete is running.
    pub fn count(&self) -> u64 {
        let (first, end) = self.range();
        let popped = self.popped().iter().filter(|index| **index >= first).count();
        end.saturating_sub(first) - popped as u64
    }

    /// Returns the number of keys from the first to the last that exist; some in between may have been removed.
    pub fn span(&self) -> u64 {
        let (first, end) = self.range();
        end.saturating_sub(first)
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
