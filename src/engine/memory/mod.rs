//! The engine around a table in memory: what [`map`](super::map) and [`btree`](super::btree) share.

use super::{
    Batch, Engine, Error, Info, KeyRange, Location, Op, OpenOptions, Result, VisitPair, VisitValue,
    aof::{self, Aof},
};
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use std::{
    mem,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

#[cfg(test)]
mod tests;

/// Longest key and longest value: Redis' own limit (`proto-max-bulk-len`).
pub(super) const MAX_LENGTH: usize = 512 << 20;

/// A data structure that holds pairs. `T::default()` is the empty one.
pub(super) trait Table: Default + Send + Sync + 'static {
    /// A place in a walk over all pairs; at first before them all.
    type Position: Default;

    /// Calls `visit` for each of `keys`, in order, until it stops that.
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>);

    /// Carries out `ops`, in order. There is no `Clear` among them.
    fn write(&mut self, ops: &[Op<'_>]);

    /// Number of keys, without counting them.
    fn len(&self) -> usize;

    /// Visits the pairs of `range` until `visit` stops it, in the table's order.
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>);

    /// Goes on with a walk, during which the table may change: visits pairs until `visit` stops it
    /// (and perhaps a few more, up to a place to go on from), and returns whether there may be more.
    /// A whole walk visits every key that was there all the time.
    fn walk(&self, position: &mut Self::Position, visit: &mut VisitPair<'_>) -> bool;
}

/// Carries out a batch. Returns the table that `Op::Clear` replaced.
fn apply<T: Table>(table: &mut T, batch: &Batch<'_>) -> Option<T> {
    let (clear, ops) = batch.after_clear();
    let cleared = clear.then(|| mem::take(table));
    table.write(ops);
    cleared
}

/// An engine over one table.
pub(super) struct Memory<T: Table> {
    shared: Arc<Shared<T>>,
    rewriter: Mutex<Option<JoinHandle<()>>>,
}

/// What the engine shares with the thread that rewrites its log.
struct Shared<T> {
    info: &'static Info,
    /// Every connection reads. A plain `RwLock` would make each of them write the one cache line
    /// of its reader count; here a reader touches the line of its own shard, and the one writer
    /// pays for all shards, once a batch.
    table: ShardedLock<T>,
    /// `None` in memory.
    log: Option<Aof>,
}

impl<T: Table> Memory<T> {
    /// Opens the engine described by `info`.
    pub(super) fn open(info: &'static Info, options: &OpenOptions) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Self::open_as(info, &options.location)?))
    }

    fn open_as(info: &'static Info, location: &Location) -> Result<Self> {
        let mut table = T::default();
        let log = match location {
            Location::Memory => None,
            Location::Path(path) => Some(Aof::open(path, info.name, &mut |batch| {
                apply(&mut table, batch);
            })?),
        };
        let shared = Arc::new(Shared { info, table: ShardedLock::new(table), log });
        Ok(Self { shared, rewriter: Mutex::default() })
    }

    fn rewriter(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        // Nothing that can panic half-way is done while it is held.
        self.rewriter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a running rewrite give up, and waits until it has.
    fn stop_rewriter(&self) {
        let Some(log) = &self.shared.log else { return };
        log.cancel_rewrite();
        self.join_rewriter();
    }

    fn join_rewriter(&self) {
        if let Some(thread) = self.rewriter().take()
            && thread.join().is_err()
        {
            log::error!("{}: the rewrite of the append-only file panicked", self.shared.info.name);
        }
    }
}

/// A dropped engine leaves no thread behind, which would keep the log locked.
impl<T: Table> Drop for Memory<T> {
    fn drop(&mut self) {
        self.stop_rewriter();
    }
}

impl<T: Table> Shared<T> {
    // A poisoned lock is taken as it is, for reading and writing: a table is whole after each of its
    // operations, so at worst half a batch of a panicked writer shows, and refusing to answer would
    // turn the one panic into one of every later call.

    fn table(&self) -> ShardedLockReadGuard<'_, T> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> ShardedLockWriteGuard<'_, T> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails when the batch holds what the engine does not take.
    fn check(&self, batch: &Batch<'_>) -> Result<()> {
        // No single part can be over the limit that all of them together keep.
        if batch.bytes() <= MAX_LENGTH {
            return Ok(());
        }
        let engine = self.info.name;
        batch.check_keys(engine, (0, MAX_LENGTH))?;
        for op in batch.ops() {
            if let Op::Put { value, .. } = op
                && value.len() > MAX_LENGTH
            {
                let what = format!("takes values of up to {MAX_LENGTH} bytes, not of {}", value.len());
                return Err(Error::Unsupported { engine, what });
            }
        }
        Ok(())
    }

    /// Applies the batch while no reader looks. Returns the table that `Op::Clear` replaced: to
    /// free millions of entries takes seconds, which readers need not wait for.
    #[must_use = "to be dropped after the locks"]
    fn apply(&self, batch: &Batch<'_>) -> Option<T> {
        apply(&mut *self.table_mut(), batch)
    }

    fn rewrite(&self, log: &Aof) -> Result<()> {
        let mut position = T::Position::default();
        log.rewrite(|buffer| {
            self.table().walk(&mut position, &mut |key, value| {
                aof::encode_set(key, value, buffer);
                if buffer.len() < aof::STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        })
    }

    /// Rewrites the log on a thread of its own, where nobody waits for the outcome.
    fn rewrite_beside(&self, log: &Aof) {
        match self.rewrite(log) {
            Ok(()) => {}
            Err(error @ Error::Unsupported { .. }) => log::info!("{error}"),
            Err(error) => log::error!("{}: the append-only file stays as it is: {error}", self.info.name),
        }
    }
}

impl<T: Table> Engine for Memory<T> {
    fn info(&self) -> &'static Info {
        self.shared.info
    }

    fn key_limits(&self) -> (usize, usize) {
        (0, MAX_LENGTH)
    }

    fn is_memory_only(&self) -> bool {
        self.shared.log.is_none()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.shared.table().read(keys, visit);
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        self.shared.check(batch)?;
        let Some(log) = &self.shared.log else {
            drop(self.shared.apply(batch));
            return Ok(());
        };
        drop(log.append(batch, sync, || self.shared.apply(batch))?);
        if log.is_outgrown()
            && let Err(error) = self.rewrite()
            && !matches!(error, Error::Unsupported { .. })
        {
            log::error!("{error}");
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.shared.log.as_ref().map_or(Ok(()), Aof::sync)
    }

    fn settle(&self) -> Result<()> {
        self.join_rewriter();
        self.sync()
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.shared.table().scan(range, visit);
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        Ok(self.shared.table().len() as u64)
    }

    fn disk_size(&self) -> Result<u64> {
        self.shared.log.as_ref().map_or(Ok(0), Aof::disk_size)
    }

    fn rewrite(&self) -> Result<()> {
        let engine = self.shared.info.name;
        let Some(log) = &self.shared.log else {
            let what = "in memory has no append-only file to rewrite".into();
            return Err(Error::Unsupported { engine, what });
        };
        let mut rewriter = self.rewriter();
        if rewriter.as_ref().is_some_and(|thread| !thread.is_finished()) {
            let what = "is already rewriting its append-only file".into();
            return Err(Error::Unsupported { engine, what });
        }
        let shared = Arc::clone(&self.shared);
        let work = move || shared.log.iter().for_each(|log| shared.rewrite_beside(log));
        let thread = thread::Builder::new().name("aof-rewrite".into()).spawn(work);
        *rewriter = Some(thread.map_err(Error::io("start a thread to rewrite", log.path()))?);
        Ok(())
    }

    fn compact(self: Box<Self>) -> Result<()> {
        let Some(log) = &self.shared.log else {
            return Err(Error::no_files(self.shared.info.name));
        };
        // One that runs may have begun before the last deletes.
        self.join_rewriter();
        let rewritten = self.shared.rewrite(log);
        rewritten.and(self.close())
    }

    fn close(&self) -> Result<()> {
        self.stop_rewriter();
        self.shared.log.as_ref().map_or(Ok(()), Aof::close)
    }
}
