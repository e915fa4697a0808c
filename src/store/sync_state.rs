//! Age of the oldest write that no finished sync covers: a power cut may lose as much under `everysec` and `no`.
//! Under `everysec` new writes wait for the running sync if that age exceeds a limit. Without the limit, all writes
//! that are acknowledged while a slow disk syncs for 20 seconds could be lost.

use super::{
    pause_aware_clock,
    sync_primitives::{AtomicU64, Condvar, Mutex, Ordering},
};
use std::{
    sync::PoisonError,
    time::{Duration, Instant, SystemTime},
};

/// Times of unsynced writes, in nanoseconds of running time, and of syncs, in nanoseconds since `start`; 0 stands for
/// none.
pub(super) struct SyncTracker {
    start: Instant,
    limit: Duration,
    /// Time of the first write that no sync has begun to cover. A cache line that is not written stays shared by
    /// all cores, so only the first write after the start of a sync writes it.
    first_unsynced: AtomicU64,
    /// Running time of the process at the first write that the running sync covers; 0 if no sync is running.
    syncing: AtomicU64,
    /// Time at which the last successful sync ended, in nanoseconds since `start`; 0 if there was none.
    synced: AtomicU64,
    /// Number of times that a write had to wait for a sync, under `everysec`.
    delays: AtomicU64,
    /// Number of syncs that have begun: the number of the latest one.
    begun: AtomicU64,
    /// Number of the last sync that succeeded; 0 if there was none.
    succeeded: AtomicU64,
    /// Serialises syncs. A caller that had to wait returns at once if a sync has covered its writes meanwhile.
    sync_lock: Mutex<()>,
    ended: (Mutex<()>, Condvar),
}

/// Age of unsynced writes, time of the last sync, and number of delayed writes.
#[derive(Clone, Copy, Debug)]
pub struct SyncState {
    /// Age of the oldest write that a power cut could lose, in running time of this process; `None` if all are synced.
    pub oldest_unsynced: Option<Duration>,
    /// Time at which the last successful sync ended; `None` if there was none yet.
    pub last_sync: Option<SystemTime>,
    /// Number of times since the store was opened that a write had to wait for a sync under `everysec`.
    pub delays: u64,
}

impl SyncTracker {
    /// Creates a tracker under which writes wait while a running sync covers a write older than `limit`.
    pub fn new(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
            first_unsynced: AtomicU64::new(0),
            syncing: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            delays: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            sync_lock: Mutex::default(),
            ended: Default::default(),
        }
    }

    /// Records that something was written, with the time of the first write since the last sync began.
    #[inline]
    pub fn note_write(&self) {
        if self.first_unsynced.load(Ordering::Relaxed) == 0 {
            self.first_unsynced.store(running(), Ordering::Release);
        }
    }

    /// Returns the number of syncs that have begun. Every later sync covers the writes that the caller has noted.
    pub fn begun(&self) -> u64 {
        // A write, so that a sync that begins later also sees what this thread has written before.
        self.begun.fetch_add(0, Ordering::AcqRel)
    }

    /// Returns `true` if a sync has succeeded that began after [`SyncTracker::begun`] returned `begun`.
    pub fn has_synced_since(&self, begun: u64) -> bool {
        self.succeeded.load(Ordering::Acquire) > begun
    }

    /// Waits for a running sync, and then runs `sync`, unless nothing was written since the last sync began, or
    /// [`SyncTracker::has_synced_since`] returns `true` for `begun`. So one sync ends the waits of all callers that
    /// called [`SyncTracker::begun`] before it began.
    pub fn sync_since<E>(&self, begun: u64, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let _alone = self.sync_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = self.first_unsynced.load(Ordering::Acquire);
        if oldest == 0 || self.has_synced_since(begun) {
            return Ok(());
        }
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        // In this order, so that the writes never seem to be synced.
        self.syncing.store(oldest, Ordering::Release);
        self.first_unsynced.swap(0, Ordering::AcqRel);
        let ended = Ended(self);
        sync()?;
        drop(ended);
        self.synced.store(self.since_start(), Ordering::Release);
        self.succeeded.store(number, Ordering::Release);
        Ok(())
    }

    /// Returns `true` if a sync is running. Between syncs a write need not wait: under `everysec` the next sync begins
    /// within a second.
    #[inline]
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::Acquire) != 0
    }

    /// Waits while a sync is running that covers a write older than the limit, and counts the delay.
    #[cold]
    pub fn wait(&self) {
        if !self.is_overdue() {
            return;
        }
        self.delays.fetch_add(1, Ordering::Relaxed);
        let (lock, ended) = &self.ended;
        let mut guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_overdue() {
            guard = ended.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_overdue(&self) -> bool {
        let oldest = self.syncing.load(Ordering::Acquire);
        oldest != 0 && age(oldest) >= self.limit
    }

    pub fn state(&self) -> SyncState {
        // In the order in which a sync moves the time on, so that the time is found in one of the fields.
        let [waiting, syncing, synced] =
            [&self.first_unsynced, &self.syncing, &self.synced].map(|time| time.load(Ordering::Acquire));
        let oldest = if syncing == 0 { waiting } else { syncing };
        SyncState {
            oldest_unsynced: (oldest != 0).then(|| age(oldest)),
            last_sync: (synced != 0)
                .then(|| SystemTime::now() - Duration::from_nanos(self.since_start().saturating_sub(synced))),
            delays: self.delays.load(Ordering::Relaxed),
        }
    }

    fn since_start(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Returns the time in nanoseconds for which this process has run, without the time in which it was stopped; at least
/// 1.
fn running() -> u64 {
    nanoseconds(pause_aware_clock::now())
}

fn age(time: u64) -> Duration {
    Duration::from_nanos(running().saturating_sub(time))
}

/// Wakes, when it is dropped, the threads whose writes wait for the running sync, also if the sync failed or panicked:
/// those threads find the failure themselves.
struct Ended<'a>(&'a SyncTracker);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let (lock, ended) = &self.0.ended;
        let _alone = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.syncing.store(0, Ordering::Release);
        ended.notify_all();
    }
}
