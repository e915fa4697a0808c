//! How many keys each database has.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// What one database has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCount {
    /// Keys.
    pub keys: u64,
    /// Keys that expire.
    pub expires: u64,
    /// Milliseconds that those have left, added up.
    pub(super) left: u64,
}

impl KeyCount {
    /// Milliseconds that keys which expire have left, in the mean; 0 when there are none.
    pub fn mean_left(&self) -> u64 {
        self.left / self.expires.max(1)
    }
}

/// Counts by number of the database; databases without keys are left out.
pub type KeyCounts = BTreeMap<u8, KeyCount>;

/// What was counted last.
#[derive(Default)]
pub(super) struct Counted(Mutex<Option<Last>>);

pub(super) struct Last {
    pub counts: Option<KeyCounts>,
    /// Until when it is told again.
    pub until: Instant,
}

impl Counted {
    pub fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
