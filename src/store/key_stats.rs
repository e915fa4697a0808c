//! Numbers of keys per database.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Key statistics of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyStats {
    /// Number of keys.
    pub keys: u64,
    /// Number of keys that have an expiration time.
    pub expires: u64,
    /// Sum of the remaining lifetimes of the keys that have an expiration time, in milliseconds.
    pub(super) ttl_sum_ms: u64,
}

impl KeyStats {
    /// Returns the mean remaining lifetime of the keys that have an expiration time, in milliseconds; 0 if there
    /// are none.
    pub fn mean_ttl_ms(&self) -> u64 {
        self.ttl_sum_ms / self.expires.max(1)
    }
}

/// Key statistics by database index; databases without keys are left out.
pub type KeyCounts = BTreeMap<u8, KeyStats>;

/// Result of the last key count.
#[derive(Default)]
pub(super) struct CachedKeyStats(Mutex<Option<Last>>);

pub(super) struct Last {
    pub counts: Option<KeyCounts>,
    /// Time until which the result is reused.
    pub until: Instant,
}

impl CachedKeyStats {
    pub fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
