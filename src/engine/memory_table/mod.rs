//! Engine over a table in memory: the common part of [`map`](super::stores::map) and
//! [`btree`](super::stores::btree).

mod concurrent;
#[cfg(test)]
mod concurrent_scan_tests;
mod hash_entry;
mod hash_scan;
pub(super) mod hash_table;
mod hash_write;
#[cfg(test)]
mod large_value_tests;
mod parallel_replay;
mod snapshot;
mod table_and_pending;
mod table_trait;
#[cfg(test)]
mod tests;

use super::{
    Batch, Engine, Error, Info, KeyRange, Location, OpenOptions, Result, VisitPair, VisitValue,
    aof::{self, Aof},
    scan_at_once,
};
pub(super) use concurrent::{KEYS, SharedTable, free_garbage};
use std::{
    collections::VecDeque,
    fs,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};
pub(super) use table_trait::{
    ByteBudget, Change, SLOW_TO_FREE, ScanControl, Table, VisitNext, free_each, free_in_order,
};

/// Engine that keeps all pairs in one table in memory, and writes to an append-only file unless it has no files.
pub(super) struct MemoryEngine<T: Table> {
    shared: Arc<Shared<T>>,
    rewriter: Mutex<Option<JoinHandle<Result<()>>>>,
}

/// State that the engine shares with the thread that rewrites its append-only file.
struct Shared<T: Table> {
    info: &'static Info,
    table: SharedTable<T>,
    /// Append-only file; `None` for an engine without files.
    log: Option<Aof>,
}

impl<T: Table> MemoryEngine<T> {
    /// Opens the engine that `info` describes, `map` or `btree`: with the append-only file at the path in `options`, or
    /// only in memory.
    pub(super) fn open(info: &'static Info, options: &OpenOptions) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Self::open_as(info, &options.location)?))
    }

    fn open_as(info: &'static Info, location: &Location) -> Result<Self> {
        let length =
            location.path().and_then(|path| fs::metadata(path).ok()).map_or(0, |metadata| metadata.len());
        Self::open_by(parallel_replay::threads(length), length, info, location)
    }

    /// Opens the engine with `threads` threads that fill the table from an append-only file of `length` bytes.
    fn open_by(threads: usize, length: u64, info: &'static Info, location: &Location) -> Result<Self> {
        let (table, log) = match location.path() {
            None => (T::default(), None),
            Some(path) => {
                let (table, log) = parallel_replay::fill(threads, (path, length), |restore| {
                    Aof::open(path, info.name, &mut |batch: &Batch<'_>| restore(batch))
                })?;
                (table, Some(log))
            }
        };
        let shared =
            Arc::new(Shared { info, table: SharedTable::new(table, info.capabilities.ordered), log });
        Ok(Self { shared, rewriter: Mutex::default() })
    }

    fn rewriter(&self) -> MutexGuard<'_, Option<JoinHandle<Result<()>>>> {
        // No code that can panic half-way runs under this lock, so poisoning is ignored.
        self.rewriter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels a running rewrite of the append-only file, and waits for its end.
    fn stop_rewriter(&self) {
        let Some(log) = &self.shared.log else { return };
        log.cancel_rewrite();
        // A failure was logged, and the file is as before.
        let _ = self.join_rewriter();
    }

    /// Waits for a running rewrite of the append-only file. Returns the error of the latest rewrite, once.
    fn join_rewriter(&self) -> Result<()> {
        let thread = loop {
            // While the thread runs, its handle stays in place: `rewrite_log` starts no second rewrite beside it.
            let mut rewriter = self.rewriter();
            match rewriter.take_if(|thread| thread.is_finished()) {
                Some(thread) => break thread,
                None if rewriter.is_none() => return Ok(()),
                None => {}
            }
            drop(rewriter);
            thread::sleep(Duration::from_millis(1));
        };
        let name = self.shared.info.name;
        thread.join().unwrap_or_else(|_| {
            log::error!("{name}: the rewrite of the append-only file panicked");
            Err(Error::library(name, "the rewrite of the append-only file panicked"))
        })
    }
}

/// Cancels a running rewrite of the append-only file and waits for its thread, which would keep the file locked.
impl<T: Table> Drop for MemoryEngine<T> {
    fn drop(&mut self) {
        self.stop_rewriter();
    }
}

impl<T: Table> Shared<T> {
    fn rewrite(&self, log: &Aof) -> Result<()> {
        let mut position = T::Position::default();
        // A step of the scan ends only with a part of the table, whose records may need many frames. The first frame is
        // encoded in `buffer`, the others wait here for the next calls.
        let (mut waiting, mut more) = (VecDeque::<Vec<u8>>::new(), true);
        log.rewrite(|buffer| {
            if let Some(records) = waiting.pop_front() {
                buffer.extend_from_slice(&records);
            } else {
                more = self.table.scan_step(&mut position, &mut |key, value| {
                    if waiting.back().unwrap_or(buffer).len() >= aof::STEP {
                        waiting.push_back(Vec::new());
                    }
                    let records = waiting.back_mut().unwrap_or(buffer);
                    aof::encode_set(key, value, records);
                    if records.len() < aof::STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
            }
            more || !waiting.is_empty()
        })
    }

    /// Rewrites the append-only file and logs an error, on the thread that was started for it: a caller need not wait
    /// for the result. A rewrite that had no effect because it was cancelled or gained nothing is no error.
    fn rewrite_beside(&self, log: &Aof) -> Result<()> {
        match self.rewrite(log) {
            Err(error @ Error::Unsupported { .. }) => log::info!("{error}"),
            Err(error) => {
                log::error!("{}: the append-only file stays as it is: {error}", self.info.name);
                return Err(error);
            }
            Ok(()) => {}
        }
        Ok(())
    }
}

impl<T: Table> Engine for MemoryEngine<T> {
    fn info(&self) -> &'static Info {
        self.shared.info
    }

    fn is_memory_only(&self) -> bool {
        self.shared.log.is_none()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.shared.table.read(keys, visit);
        Ok(())
    }

    fn read_large(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.shared.table.read_long(keys, visit);
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_lengths(self.shared.info.name, aof::MAX_LENGTHS)?;
        let Some(log) = &self.shared.log else {
            free_garbage(self.shared.table.write(batch));
            return Ok(());
        };
        free_garbage(log.append(batch, sync, || self.shared.table.write(batch))?);
        if log.is_outgrown()
            && let Err(error) = self.rewrite_log()
            && !matches!(error, Error::Unsupported { .. })
        {
            log::error!("{error}");
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.shared.log.as_ref().map_or(Ok(()), Aof::sync)
    }

    fn quiesce(&self) -> Result<()> {
        self.join_rewriter().and(self.sync())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.shared.table.scan(range, visit);
        Ok(())
    }

    fn scan_step(&self, position: u64, visit: &mut VisitPair<'_>) -> Result<u64> {
        let Some(mut place) = T::place(position) else { return scan_at_once(self, visit) };
        if position == 0 {
            self.shared.table.wait_until_settled();
        }
        let more = self.shared.table.scan_step(&mut place, visit);
        Ok(if more { T::number(&place) } else { 0 })
    }

    fn scan_part(&self, key: &[u8]) -> u64 {
        self.shared.table.look(|table| table.position_number(key))
    }

    fn count(&self) -> Result<u64> {
        Ok(self.shared.table.len())
    }

    fn disk_size(&self) -> Result<u64> {
        self.shared.log.as_ref().map_or(Ok(0), Aof::disk_size)
    }

    fn rewrite_log(&self) -> Result<()> {
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
        let work = move || shared.log.as_ref().map_or(Ok(()), |log| shared.rewrite_beside(log));
        let thread = thread::Builder::new().name("aof-rewrite".into()).spawn(work);
        *rewriter = Some(thread.map_err(Error::io("start a thread to rewrite", log.path()))?);
        Ok(())
    }

    fn compact(self: Box<Self>) -> Result<()> {
        let Some(log) = &self.shared.log else {
            return Err(Error::no_files(self.shared.info.name));
        };
        // A running rewrite may have begun before the last deletes. Whether it failed does not matter: another follows.
        let _ = self.join_rewriter();
        let rewritten = self.shared.rewrite(log);
        rewritten.and(self.close())
    }

    fn close(&self) -> Result<()> {
        self.stop_rewriter();
        self.shared.log.as_ref().map_or(Ok(()), Aof::close)
    }
}
