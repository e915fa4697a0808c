//! The current fsync policy of a store, which may change while the store is in use.

use crate::engine::Fsync;
use std::sync::atomic::{AtomicU8, Ordering};

/// Current fsync policy of a store, readable without a lock.
pub(super) struct FsyncPolicy(AtomicU8);

impl FsyncPolicy {
    pub fn new(fsync: Fsync) -> Self {
        Self(AtomicU8::new(fsync as u8))
    }

    /// Returns `true` if the current fsync policy is `fsync`.
    #[inline]
    pub fn is(&self, fsync: Fsync) -> bool {
        self.0.load(Ordering::Relaxed) == fsync as u8
    }

    pub fn get(&self) -> Fsync {
        Fsync::ALL.into_iter().find(|fsync| self.is(*fsync)).unwrap_or(Fsync::Always)
    }

    pub fn set(&self, fsync: Fsync) {
        self.0.store(fsync as u8, Ordering::Relaxed);
    }
}
