//! Between commands and the engine: the only place that decides what is committed together, when it
//! is synced, and whether writes are still accepted.

mod queue;
mod txn;

use crate::engine::{Batch, Engine, Fsync, Info, KeyRange, VisitPair, VisitValue};
use bumpalo::Bump;
use std::{
    mem,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

pub use queue::CommitQueue;
pub use txn::Txn;

use crate::engine;

/// Why the store did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine failed.
    #[error("ERR {0}")]
    Engine(#[from] engine::Error),
    /// An earlier write or sync failed, and what reached the disk is unknown.
    #[error("MISCONF writes are refused until a restart, because an earlier one failed: {0}")]
    Refused(String),
}

/// A part of a commit: what one connection wants written.
pub trait Work: Send {
    /// Runs the commands against `txn` and notes their replies, which nobody sees before the commit.
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>);

    /// Replaces the replies noted by `run`: nothing of it was committed.
    fn fail(&mut self, error: &Error);

    /// About how many bytes it writes, to bound a group.
    fn weight(&self) -> usize;
}

/// One engine with its durability policy.
pub struct Store {
    engine: Box<dyn Engine>,
    fsync: Fsync,
    /// Set by the first write or sync that failed in a way that cannot be undone.
    fault: OnceLock<String>,
    /// Held while a group commits: engines take one batch at a time.
    writer: Mutex<Scratch>,
    /// Whether something was written since the last sync began.
    unsynced: AtomicBool,
}

/// Memory that one commit after the other uses.
#[derive(Default)]
struct Scratch {
    arena: Bump,
    batch: Batch<'static>,
}

impl Store {
    /// A store over an open engine.
    pub fn new(engine: Box<dyn Engine>, fsync: Fsync) -> Self {
        Self {
            engine,
            fsync,
            fault: OnceLock::new(),
            writer: Mutex::default(),
            unsynced: AtomicBool::new(false),
        }
    }

    /// What the engine is.
    pub fn info(&self) -> &'static Info {
        self.engine.info()
    }

    /// The durability policy.
    pub fn fsync(&self) -> Fsync {
        self.fsync
    }

    /// Whether commits never wait for a device, so that any thread may run them.
    pub fn is_memory_only(&self) -> bool {
        self.engine.is_memory_only()
    }

    /// Whether reads may wait for a device.
    pub fn reads_may_wait(&self) -> bool {
        !self.is_memory_only() && !self.engine.info().family.is_in_memory()
    }

    /// Why writes are refused, if they are.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// See [`Engine::read`].
    #[inline]
    pub fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Error> {
        Ok(self.engine.read(keys, visit)?)
    }

    /// See [`Engine::scan`].
    pub fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<(), Error> {
        Ok(self.engine.scan(range, visit)?)
    }

    /// See [`Engine::count`].
    pub fn count(&self) -> Result<u64, Error> {
        Ok(self.engine.count()?)
    }

    /// See [`Engine::disk_size`].
    pub fn disk_size(&self) -> Result<u64, Error> {
        Ok(self.engine.disk_size()?)
    }

    /// See [`Engine::rewrite`].
    pub fn rewrite(&self) -> Result<(), Error> {
        Ok(self.engine.rewrite()?)
    }

    /// Runs the group in order and commits all its writes as one atomic batch, synced under
    /// `always`. When that fails, every part is told.
    pub fn commit<W: Work>(&self, group: &mut [W]) {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.try_commit(group)));
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => {
                Error::Refused(self.fault.get_or_init(|| "the engine panicked (see the log)".into()).clone())
            }
        };
        log::error!("commit failed: {error}");
        for work in group {
            work.fail(&error);
        }
    }

    fn try_commit<W: Work>(&self, group: &mut [W]) -> Result<(), Error> {
        // A commit that panicked left only scratch memory behind.
        let mut scratch = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Scratch { arena, batch } = &mut *scratch;
        arena.reset();
        let mut txn = Txn::new(&*self.engine, arena, mem::take(batch).recycle(), self.fault());
        for work in group {
            work.run(&mut txn);
        }
        let written = txn.into_batch();
        let outcome = if written.is_empty() { Ok(()) } else { self.write(&written) };
        *batch = written.recycle();
        outcome
    }

    fn write(&self, batch: &Batch<'_>) -> Result<(), Error> {
        self.engine.write(batch, self.fsync == Fsync::Always).map_err(|error| self.latch(error))?;
        // Only what `sync_if_written` reads; a line that is not written stays shared by all cores.
        if self.fsync == Fsync::EverySec && !self.unsynced.load(Ordering::Relaxed) {
            self.unsynced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Makes all that was written so far durable, if anything was since the last call. A failure
    /// ends writing: under `everysec` those writes have been acknowledged.
    pub fn sync_if_written(&self) {
        if self.unsynced.swap(false, Ordering::AcqRel)
            && let Err(error) = self.engine.sync()
        {
            let error = self.latch(error);
            log::error!("sync failed: {error}");
        }
    }

    /// Syncs and closes the engine. Nothing may follow.
    pub fn close(&self) -> Result<(), Error> {
        Ok(self.engine.close()?)
    }

    fn latch(&self, error: engine::Error) -> Error {
        if !error.is_undone() {
            let _ = self.fault.set(error.to_string());
        }
        Error::Engine(error)
    }
}
