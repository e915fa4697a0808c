//! The engine that the threads call.

use super::group_commit::Groups;
use crate::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        run::allocations,
    },
    engine::{self, Batch, Engine, Writers},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks that the read-modify-writes of all keys share.
const STRIPES: usize = 1024;

/// An engine under measurement and what is known of its content.
pub struct InProcessBench<'e> {
    /// The engine.
    pub engine: &'e dyn Engine,
    /// The pairs.
    pub data: &'e Data,
    /// Those that are there.
    pub live: &'e KeyLedger,
    /// Whether a write returns only when it is on stable storage.
    pub sync: bool,
    /// Whether something syncs every second.
    pub sync_every_second: bool,
    /// Whether the writes that wait are committed together, as our server does it; else each thread calls
    /// the engine with its own, as a program that embeds it.
    pub in_groups: bool,
    /// Whether it is the engine that does nothing: its scans know the keys that were there at the first one.
    pub is_reference: bool,
    /// Whether the engine's allocations are counted.
    pub counts: bool,
    pub(super) groups: Groups,
    /// Held by the thread that writes, where the engine takes one at a time and leaves it to its caller.
    turn: Option<Mutex<()>>,
    /// Held from the read to the write of a read-modify-write, by all keys whose number leaves this rest.
    stripes: Vec<Mutex<()>>,
}

impl<'e> InProcessBench<'e> {
    /// An engine that holds what `live` says.
    pub fn new(engine: &'e dyn Engine, data: &'e Data, live: &'e KeyLedger) -> Self {
        Self {
            engine,
            data,
            live,
            sync: false,
            sync_every_second: false,
            in_groups: false,
            is_reference: false,
            counts: false,
            groups: Groups::default(),
            turn: (engine.info().writers == Writers::One).then(Mutex::default),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }

    /// Commits a batch.
    pub(super) fn write(&self, batch: &Batch<'_>) -> engine::Result<()> {
        let _turn = self.turn.as_ref().map(lock);
        self.call(|| self.engine.write(batch, self.sync))
    }

    /// Calls the engine; what it allocates is counted where that is wanted, and nothing of the harness'.
    #[inline]
    pub(super) fn call<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.counts { allocations::counted(work) } else { work() }
    }

    /// Keeps other read-modify-writes from this key.
    pub(super) fn hold(&self, index: u64) -> Option<MutexGuard<'_, ()>> {
        self.stripes.get(index as usize % STRIPES).map(lock)
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
