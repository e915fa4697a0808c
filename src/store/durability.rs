//! The durability policy, which may change while the store is in use, and the syncs it asks for.

use super::{Error, Store, SyncState};
use crate::engine::Fsync;
use std::{
    panic::{self, AssertUnwindSafe},
    sync::PoisonError,
};

impl Store {
    /// The durability policy.
    pub fn fsync(&self) -> Fsync {
        self.policy.get()
    }

    /// Changes the durability policy. After a change to `always` all that was ever acknowledged is on stable storage.
    /// An engine that cannot change it fails, and keeps the one it has.
    pub fn set_fsync(&self, fsync: Fsync) -> Result<(), Error> {
        if self.policy.is(fsync) {
            return Ok(());
        }
        // Between two commits, so that each is made under one policy as a whole.
        let between_commits = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_memory_only() {
            self.engine.set_fsync(fsync)?;
        }
        self.policy.set(fsync);
        drop(between_commits);
        if fsync == Fsync::Always { self.sync() } else { Ok(()) }
    }

    /// Returns when all that was acknowledged before the call is on stable storage. Memory has nothing to sync.
    pub fn sync(&self) -> Result<(), Error> {
        if !self.is_memory_only() {
            self.run_sync();
        }
        match self.read_only_cause() {
            Some(fault) => Err(Error::ReadOnly(fault.into())),
            None => Ok(()),
        }
    }

    /// Whether all that was acknowledged is known to be on stable storage.
    pub fn is_synced(&self) -> bool {
        !self.is_memory_only()
            && self.read_only_cause().is_none()
            && self.unsynced.state().oldest_unsynced.is_none()
    }

    /// Makes all that was written so far durable, if anything was since the last call. A failure
    /// ends writing: those writes have been acknowledged. Returns whether there was anything.
    pub fn sync_if_written(&self) -> bool {
        if self.unsynced.state().oldest_unsynced.is_none() {
            return false;
        }
        self.run_sync();
        true
    }

    /// Waits for a sync that runs, and runs one if that does not cover everything.
    fn run_sync(&self) {
        let sync = || match panic::catch_unwind(AssertUnwindSafe(|| self.engine.sync())) {
            Ok(outcome) => outcome.map_err(|error| {
                let _first = self.fault.set(error.to_string());
                Error::Engine(error)
            }),
            Err(_) => Err(self.set_read_only()),
        };
        if let Err(error) = self.unsynced.sync(sync) {
            log::error!("sync failed: {error}");
        }
    }

    /// Where the syncs stand; `None` unless they are made every second.
    pub fn sync_state(&self) -> Option<SyncState> {
        (self.policy.is(Fsync::EverySec) && !self.is_memory_only()).then(|| self.unsynced.state())
    }
}
