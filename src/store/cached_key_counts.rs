//! Number of keys of each database, and of those with an expiration time, for INFO; and the cache of the last count.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Numbers of keys of one database, and of those with an expiration time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyStats {
    /// Number of keys of the database.
    pub keys: u64,
    /// Number of keys of the database that have an expiration time.
    pub expires: u64,
    /// Sum of the remaining lifetimes of the database's keys that have an expiration time, in milliseconds.
    pub(super) ttl_sum_ms: u64,
}

impl KeyStats {
    /// Returns the mean remaining lifetime of the database's keys that have an expiration time, in milliseconds; 0
    /// if there are none.
    pub fn mean_ttl_ms(&self) -> u64 {
        self.ttl_sum_ms / self.expires.max(1)
    }
}

/// Key statistics by database index; databases without keys are left out.
pub type KeyCounts = BTreeMap<u8, KeyStats>;

/// Cached result of the last key count of all databases; `None` before the first.
#[derive(Default)]
pub(super) struct CachedKeyStats(Mutex<Option<Last>>);

pub(super) struct Last {
    pub counts: Option<KeyCounts>,
    /// Time until which the result of the count is reused.
    pub until: Instant,
}

impl CachedKeyStats {
    pub fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
