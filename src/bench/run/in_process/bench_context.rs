//! Engine that the driver's threads call, and the pairs that it should hold.

use super::soak_recorder::SoakRecorder;
use crate::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        run::allocations,
    },
    engine::{self, Batch, Engine, Writers},
    store::Store,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of locks that the read-modify-writes of all keys share.
const STRIPES: usize = 1024;

/// Engine under measurement in this process, with the pairs that it should hold and the way in which it is called.
pub struct InProcessBench<'e> {
    /// The engine under measurement.
    pub engine: &'e dyn Engine,
    /// Generator of the keys and values that the workload may write.
    pub data: &'e Data,
    /// Record of the keys that should exist, and of the versions of their values.
    pub live: &'e KeyLedger,
    /// `true` if a write returns only when it is durable.
    pub sync: bool,
    /// `true` if a thread of the driver syncs the engine every second (fsync policy `everysec`).
    pub sync_every_second: bool,
    /// `true` if a commit thread commits waiting writes together, as kvbench's server does it. Otherwise each
    /// thread commits its own writes, as in a program that embeds the engine.
    pub in_groups: bool,
    /// Keyspace layer over `engine`, through which values that expire are written; `None` if they do not expire.
    pub store: Option<&'e Store>,
    /// `true` while the keys are loaded: loaded values expire evenly over the time to live.
    pub is_load: bool,
    /// `true` for the no-op engine, whose scans return the keys that existed at the first scan.
    pub is_reference: bool,
    /// `true` if the engine's memory allocations are counted.
    pub counts: bool,
    /// Recorder of each second of a soak; otherwise `None`.
    pub soak: Option<&'e SoakRecorder<'e>>,
    /// Lock held by the thread that writes, if the engine takes one write at a time and leaves the locking to its
    /// caller; otherwise `None`.
    turn: Option<Mutex<()>>,
    /// Locks, each held from the read to the write of a read-modify-write. A key uses the lock of its number modulo the
    /// number of locks.
    stripes: Vec<Mutex<()>>,
}

impl<'e> InProcessBench<'e> {
    /// Creates a benchmark of `engine`, which must hold the pairs that `live` records. Writes are not synced, until
    /// fields are set.
    pub fn new(engine: &'e dyn Engine, data: &'e Data, live: &'e KeyLedger) -> Self {
        Self {
            engine,
            data,
            live,
            sync: false,
            sync_every_second: false,
            in_groups: false,
            store: None,
            is_load: false,
            is_reference: false,
            counts: false,
            soak: None,
            turn: (engine.info().writers == Writers::One).then(Mutex::default),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }

    /// Commits a write batch, and syncs it if `sync` is set. Waits for other writers if the engine takes one at a time.
    pub(super) fn write(&self, batch: &Batch<'_>) -> engine::Result<()> {
        let _turn = self.turn.as_ref().map(lock);
        self.call(|| self.engine.write(batch, self.sync))
    }

    /// Runs `work`, which calls the engine. If allocations are counted, those during the call are counted, and none of
    /// the harness.
    #[inline]
    pub(super) fn call<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.counts { allocations::counted(work) } else { work() }
    }

    /// Locks the key with the number `index` against other read-modify-writes, until the guard is dropped.
    pub(super) fn hold(&self, index: u64) -> Option<MutexGuard<'_, ()>> {
        self.stripes.get(index as usize % STRIPES).map(lock)
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
