//! WATCH: whether keys have changed since.
//!
//! A key that is watched has a version, which a write of it makes larger. To watch, to write and to compare all
//! happen in commits, one after the other. Nobody else pays: without a watched key, a write looks at one flag.

use hashbrown::HashMap;
use std::{
    borrow::Borrow,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

#[derive(Default)]
struct WatchedKey {
    version: u64,
    /// How often it is watched.
    watchers: usize,
}

/// The keys that are watched, as they are stored.
#[derive(Default)]
pub(super) struct WatchTable {
    any: AtomicBool,
    keys: Mutex<HashMap<Box<[u8]>, WatchedKey>>,
    /// With a secret of its own, so that nobody can choose values of one digest.
    digests: RandomState,
}

/// A key that a client watches, and what it was then. A client watches a key once, so the key alone is compared.
#[derive(Debug)]
pub struct Watch {
    pub(super) stored: Box<[u8]>,
    pub(super) version: u64,
    /// When it was to expire; 0 is never.
    pub(super) deadline: u64,
    /// Of what was stored.
    pub(super) digest: u64,
}

impl Watch {
    /// The key as it is stored.
    pub fn key(&self) -> &[u8] {
        &self.stored
    }
}

impl Borrow<[u8]> for Watch {
    fn borrow(&self) -> &[u8] {
        &self.stored
    }
}

impl Hash for Watch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stored.hash(state);
    }
}

impl PartialEq for Watch {
    fn eq(&self, other: &Self) -> bool {
        self.stored == other.stored
    }
}

impl Eq for Watch {}

impl WatchTable {
    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// A number for what is stored, to see later whether it is the same.
    pub(super) fn digest(&self, value: Option<&[u8]>) -> u64 {
        self.digests.hash_one(value)
    }

    pub(super) fn add(&self, stored: &[u8], deadline: u64, digest: u64) -> Watch {
        let mut keys = self.lock();
        let watched = keys.entry(stored.into()).or_default();
        watched.watchers += 1;
        self.any.store(true, Ordering::Relaxed);
        Watch { stored: stored.into(), version: watched.version, deadline, digest }
    }

    pub(super) fn remove(&self, watch: &Watch) {
        let mut keys = self.lock();
        if let Some(watched) = keys.get_mut(&watch.stored) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                keys.remove(&watch.stored);
            }
        }
        self.any.store(!keys.is_empty(), Ordering::Relaxed);
    }

    /// Notes that a key is written, and tells whether it is watched.
    pub(super) fn bump_version(&self, stored: &[u8]) -> bool {
        let mut keys = self.lock();
        let Some(watched) = keys.get_mut(stored) else { return false };
        watched.version += 1;
        true
    }

    /// Takes back that keys were written, in the commit that noted it.
    pub(super) fn revert_version(&self, touched: &[&[u8]]) {
        let mut keys = self.lock();
        for stored in touched {
            if let Some(watched) = keys.get_mut(*stored) {
                watched.version -= 1;
            }
        }
    }

    pub(super) fn is_unchanged(&self, watch: &Watch) -> bool {
        self.lock().get(&watch.stored).is_some_and(|watched| watched.version == watch.version)
    }

    /// The keys that are watched.
    pub(super) fn keys(&self) -> Vec<Box<[u8]>> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, WatchedKey>> {
        // Nothing can panic half-way while it is held.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
