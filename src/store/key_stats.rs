//! How many keys each database has.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// What one database has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyStats {
    /// Keys.
    pub keys: u64,
    /// Keys that expire.
    pub expires: u64,
    /// Milliseconds that those have left, added up.
    pub(super) ttl_sum_ms: u64,
}

impl KeyStats {
    /// Milliseconds that keys which expire have left, in the mean; 0 when there are none.
    pub fn mean_ttl_ms(&self) -> u64 {
        self.ttl_sum_ms / self.expires.max(1)
    }
}

/// Counts by number of the database; databases without keys are left out.
pub type KeyCounts = BTreeMap<u8, KeyStats>;

/// What was counted last.
#[derive(Default)]
pub(super) struct CachedKeyStats(Mutex<Option<Last>>);

pub(super) struct Last {
    pub counts: Option<KeyCounts>,
    /// Until when it is told again.
    pub until: Instant,
}

impl CachedKeyStats {
    pub fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
