//! What a power cut may take back under `everysec` and `no`: how old the oldest write is that no finished sync covers. Under
//! `everysec` further writes wait for the sync when it gets too old. Without that, all that is acknowledged while a slow disk
//! syncs for 20 seconds could be lost with it.

use super::sync_primitives::{AtomicU64, Condvar, Mutex, Ordering};
use std::{
    sync::PoisonError,
    time::{Duration, Instant, SystemTime},
};

/// Times are nanoseconds since `start`; 0 stands for none.
pub(super) struct SyncTracker {
    start: Instant,
    limit: Duration,
    /// When the first write came that no sync has begun to cover. A line that is not written stays shared by
    /// all cores, so only the first write after the begin of a sync writes it.
    first_unsynced: AtomicU64,
    /// When the first write came that the running sync covers.
    syncing: AtomicU64,
    /// When the last sync ended well.
    synced: AtomicU64,
    /// How often writes had to wait.
    delays: AtomicU64,
    /// Held during a sync: who comes second finds out whether the first covered it.
    sync_lock: Mutex<()>,
    ended: (Mutex<()>, Condvar),
}

/// Where the syncs of `everysec` stand.
#[derive(Clone, Copy, Debug)]
pub struct SyncState {
    /// Age of the oldest write that a power cut could take back; `None` when all are synced.
    pub oldest_unsynced: Option<Duration>,
    /// When the last sync ended well; `None` when there was nothing to sync yet.
    pub last_sync: Option<SystemTime>,
    /// How often writes had to wait for a sync.
    pub delays: u64,
}

impl SyncTracker {
    /// Writes wait when the oldest that is being synced is older than `limit`.
    pub fn new(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
            first_unsynced: AtomicU64::new(0),
            syncing: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            delays: AtomicU64::new(0),
            sync_lock: Mutex::default(),
            ended: Default::default(),
        }
    }

    /// Notes that something was written.
    #[inline]
    pub fn note_write(&self) {
        if self.first_unsynced.load(Ordering::Relaxed) == 0 {
            self.first_unsynced.store(self.now(), Ordering::Release);
        }
    }

    /// Runs `sync` if something was written since the last one began.
    pub fn sync<E>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let _alone = self.sync_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = self.first_unsynced.load(Ordering::Acquire);
        if oldest == 0 {
            return Ok(());
        }
        // In this order, so that at no moment there seems to be nothing unsynced.
        self.syncing.store(oldest, Ordering::Release);
        self.first_unsynced.swap(0, Ordering::AcqRel);
        let ended = Ended(self);
        sync()?;
        drop(ended);
        self.synced.store(self.now(), Ordering::Release);
        Ok(())
    }

    /// Whether a sync is running. Between syncs there is nothing to wait for: the next begins within a second.
    #[inline]
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::Acquire) != 0
    }

    /// Waits while a sync is running and the oldest write that it covers is too old.
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
        oldest != 0 && self.age(oldest) >= self.limit
    }

    pub fn state(&self) -> SyncState {
        // In the order in which a sync moves it on, so that it is seen in one of the places.
        let [waiting, syncing, synced] =
            [&self.first_unsynced, &self.syncing, &self.synced].map(|time| time.load(Ordering::Acquire));
        let oldest = if syncing == 0 { waiting } else { syncing };
        SyncState {
            oldest_unsynced: (oldest != 0).then(|| self.age(oldest)),
            last_sync: (synced != 0).then(|| SystemTime::now() - self.age(synced)),
            delays: self.delays.load(Ordering::Relaxed),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn age(&self, time: u64) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(time))
    }
}

/// Lets those go on that wait for the sync, also when it failed or panicked: they find out by themselves.
struct Ended<'a>(&'a SyncTracker);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let (lock, ended) = &self.0.ended;
        let _alone = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.syncing.store(0, Ordering::Release);
        ended.notify_all();
    }
}
