//! Versions of watched keys (WATCH).
//!
//! A watched key has a version, which each write of the key increments. Watching, writing and comparing all happen in
//! commits, one after the other. If other processes may write to the same data, commits may run concurrently; digests
//! of the value are compared then, too. Without a watched key a write checks one flag.

use hashbrown::HashMap;
use std::{
    borrow::Borrow,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

struct WatchedKey {
    /// Number of this entry of the table, which no other entry has had.
    entry: u64,
    version: u64,
    /// Number of connections that watch this key now.
    watchers: usize,
}

/// Versions of the watched keys, by stored key.
#[derive(Default)]
pub(super) struct WatchTable {
    any: AtomicBool,
    /// Number of entries that the table has had.
    entries: AtomicU64,
    keys: Mutex<HashMap<Box<[u8]>, WatchedKey>>,
    /// Hash function with a random secret, so that no client can choose values of equal digests.
    digests: RandomState,
}

/// Increment of the version of a watched key by a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch<'g> {
    stored: &'g [u8],
    /// Number of the entry of the watch table. All clients may unwatch the key before the commit fails, and others
    /// watch it, in a new entry.
    entry: u64,
}

/// Key that a client watches, with its state at that time. A client watches a key once, so comparisons use the key
/// only.
#[derive(Debug)]
pub struct Watch {
    pub(super) stored: Box<[u8]>,
    pub(super) version: u64,
    /// Expiration time when the key was watched, in milliseconds since 1970; 0: never.
    pub(super) deadline: u64,
    /// Digest of the stored value when the key was watched; 0 if no other process can write to the data.
    pub(super) digest: u64,
}

impl Watch {
    /// Returns the stored form of the watched key.
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
    /// Returns `true` if any connection watches a key.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Returns a digest of a stored value (`None`: absent), to detect changes.
    pub(super) fn digest(&self, value: Option<&[u8]>) -> u64 {
        self.digests.hash_one(value)
    }

    pub(super) fn add(&self, stored: &[u8], deadline: u64, digest: u64) -> Watch {
        let mut keys = self.lock();
        let new = || {
            let entry = self.entries.fetch_add(1, Ordering::Relaxed);
            WatchedKey { entry, version: 0, watchers: 0 }
        };
        let watched = keys.entry(stored.into()).or_insert_with(new);
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

    /// Increments the version of the stored key `stored`, which a commit writes, if a client watches it; otherwise
    /// returns `None`.
    pub(super) fn bump_version<'g>(&self, stored: &'g [u8]) -> Option<Touch<'g>> {
        let mut keys = self.lock();
        let watched = keys.get_mut(stored)?;
        watched.version += 1;
        Some(Touch { stored, entry: watched.entry })
    }

    /// Undoes the increments `touched` of versions: they were made for writes that were then not committed.
    pub(super) fn revert_versions(&self, touched: &[Touch<'_>]) {
        let mut keys = self.lock();
        for touch in touched {
            if let Some(watched) = keys.get_mut(touch.stored)
                && watched.entry == touch.entry
            {
                watched.version -= 1;
            }
        }
    }

    pub(super) fn is_unchanged(&self, watch: &Watch) -> bool {
        self.lock().get(&watch.stored).is_some_and(|watched| watched.version == watch.version)
    }

    /// Returns the stored forms of all watched keys.
    pub(super) fn keys(&self) -> Vec<Box<[u8]>> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, WatchedKey>> {
        // No code that can panic runs under this lock, so poisoning is ignored.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
