//! The fsync policy, which may change while the store is in use, and the syncs that it requires.

use super::{Error, Store, SyncState};
use crate::engine::Fsync;
use std::{
    panic::{self, AssertUnwindSafe},
    sync::PoisonError,
};

impl Store {
    /// Returns the current fsync policy.
    pub fn fsync(&self) -> Fsync {
        self.policy.get()
    }

    /// Changes the fsync policy. After a change to `always` all acknowledged writes are durable; if their sync fails,
    /// the policy is `always` nevertheless. If the engine cannot change the policy, fails and keeps the current one.
    ///
    /// # Errors
    ///
    /// [`Error::Engine`] if the engine cannot change its policy, and errors of [`Store::sync`].
    pub fn set_fsync(&self, fsync: Fsync) -> Result<(), Error> {
        if self.policy.is(fsync) {
            return Ok(());
        }
        // Between two commits, so that each commit has one policy as a whole.
        let between_commits = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_memory_only() {
            self.engine().set_fsync(fsync)?;
        }
        self.policy.set(fsync);
        drop(between_commits);
        if fsync == Fsync::Always { self.sync() } else { Ok(()) }
    }

    /// Waits until all writes that were acknowledged before the call are durable. An engine in memory has nothing to
    /// sync.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`] if this sync, or an earlier write or sync, failed.
    pub fn sync(&self) -> Result<(), Error> {
        self.sync_since(self.syncs_begun())
    }

    /// Returns the number of syncs that have begun, with which [`Store::sync_since`] waits for the writes that were
    /// acknowledged before this call.
    pub fn syncs_begun(&self) -> u64 {
        self.unsynced.begun()
    }

    /// Returns `true` if all writes that were acknowledged before [`Store::syncs_begun`] returned `begun` are known to
    /// be durable, because a later sync has succeeded, and no write or sync has failed.
    pub fn has_synced_since(&self, begun: u64) -> bool {
        self.read_only_cause().is_none() && self.unsynced.has_synced_since(begun)
    }

    /// Waits until all writes that were acknowledged before [`Store::syncs_begun`] returned `begun` are durable. An
    /// engine in memory has nothing to sync.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`] if this sync, or an earlier write or sync, failed.
    pub fn sync_since(&self, begun: u64) -> Result<(), Error> {
        if !self.is_memory_only() {
            self.run_sync(begun);
        }
        match self.read_only_cause() {
            Some(fault) => Err(Error::ReadOnly(fault.into())),
            None => Ok(()),
        }
    }

    /// Returns `true` if all acknowledged writes are known to be durable; `false` in memory.
    pub fn is_synced(&self) -> bool {
        !self.is_memory_only()
            && self.read_only_cause().is_none()
            && self.unsynced.state().oldest_unsynced.is_none()
    }

    /// Syncs all writes so far, if there were any since the last sync began. A failure makes the store read-only,
    /// because those writes have been acknowledged. Returns `true` if there were unsynced writes.
    pub fn sync_if_written(&self) -> bool {
        if self.unsynced.state().oldest_unsynced.is_none() {
            return false;
        }
        self.run_sync(self.syncs_begun());
        true
    }

    /// Waits for a running sync, and runs another unless all writes before [`Store::syncs_begun`] returned `begun` are
    /// covered then. A failure is logged and makes the store read-only.
    fn run_sync(&self, begun: u64) {
        let sync = || match panic::catch_unwind(AssertUnwindSafe(|| self.engine().sync())) {
            Ok(outcome) => outcome.map_err(|error| {
                self.note_fault(error.to_string());
                Error::Engine(error)
            }),
            Err(_) => Err(self.set_read_only()),
        };
        if let Err(error) = self.unsynced.sync_since(begun, sync) {
            log::error!("sync failed: {error}");
        }
    }

    /// Returns the state of the syncs, or `None` if the fsync policy is not `everysec` or the engine is in memory.
    pub fn sync_state(&self) -> Option<SyncState> {
        (self.policy.is(Fsync::EverySec) && !self.is_memory_only()).then(|| self.unsynced.state())
    }
}
