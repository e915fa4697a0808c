//! Background thread of the engine `bitcask`: it syncs, merges segments, and writes hint files, and the manifest if an
//! earlier attempt to write that failed.

use super::{description::NAME, reads_and_writes::Files, segment_hint};
use crate::engine::{Error, Result};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// Requests of other threads to the background thread of `bitcask`, and the state of that thread.
#[derive(Default)]
struct Jobs {
    /// `true` if the background thread must look for segments to sync, to merge or to write hint files for.
    look: bool,
    /// `true` if the background thread must merge all segments (`BGREWRITEAOF`), or is merging them.
    rewrite: bool,
    /// `true` if the background thread must end, or has ended.
    stop: bool,
    /// `true` while the background thread looks for work or does it.
    busy: bool,
    /// Error of the latest work, until it is taken.
    failed: Option<Error>,
}

/// State shared by the background thread of `bitcask` and the threads that give it work or wait for it.
#[derive(Default)]
struct WorkerSignals {
    jobs: Mutex<Jobs>,
    changed: Condvar,
    /// `true` if the background thread must end: it reads this copy of [`Jobs::stop`] without a lock during its work.
    stop: AtomicBool,
}

impl WorkerSignals {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        // No code panics while the lock is held.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until `until` returns `true`, or until the background thread must end or has ended. Returns the locked
    /// jobs.
    fn wait<'d>(&'d self, mut until: impl FnMut(&Jobs) -> bool) -> MutexGuard<'d, Jobs> {
        let waited = self.changed.wait_while(self.jobs(), |jobs| !jobs.stop && !until(jobs));
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the background thread of `bitcask`. Dropping it stops the thread.
pub(super) struct Background {
    signals: Arc<WorkerSignals>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Guard that marks the background thread as ended when that returns or panics, so that no other thread waits for it.
struct EndGuard(Arc<WorkerSignals>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        let mut jobs = self.0.jobs();
        (jobs.stop, jobs.busy) = (true, false);
        self.0.changed.notify_all();
    }
}

impl Background {
    /// Starts the background thread, which looks at once for segments to sync, to merge or to write hint files for.
    pub(super) fn start(files: Arc<Files>) -> Result<Self> {
        let signals = Arc::new(WorkerSignals::default());
        signals.jobs().look = true;
        let (end, at) = (EndGuard(Arc::clone(&signals)), files.directory.clone());
        let thread = thread::Builder::new().name("bitcask".into()).spawn(move || run(&end.0, &files));
        let thread = thread.map_err(Error::io("start a thread for", at))?;
        Ok(Self { signals, thread: Mutex::new(Some(thread)) })
    }

    /// Makes the background thread look for segments to sync, to merge or to write hint files for. Does not wait for
    /// it.
    pub(super) fn wake(&self) {
        self.signals.jobs().look = true;
        self.signals.changed.notify_all();
    }

    /// Makes the background thread merge all segments, also those with few dead bytes, and does not wait for it.
    /// Returns `false` if such a merge is already requested or running.
    pub(super) fn rewrite(&self) -> bool {
        let mut jobs = self.signals.jobs();
        let first = !jobs.rewrite;
        jobs.rewrite = true;
        self.signals.changed.notify_all();
        first
    }

    /// Makes the background thread look for segments to sync, to merge or to write hint files for, and waits until it
    /// has done this work, until the work has failed, or until the thread has ended.
    ///
    /// # Errors
    ///
    /// Fails with the error of the work, which is logged too.
    pub(super) fn finish(&self) -> Result<()> {
        self.wake();
        let mut jobs = self.signals.wait(|jobs| !jobs.busy && !jobs.look && !jobs.rewrite);
        jobs.failed.take().map_or(Ok(()), Err)
    }

    /// Makes the background thread abandon a running merge and end, and waits until it has ended.
    pub(super) fn stop(&self) {
        self.signals.stop.store(true, Ordering::Relaxed);
        self.signals.jobs().stop = true;
        self.signals.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            log::error!("{NAME}: the thread for merges panicked");
        }
    }
}

/// Stops the background thread: otherwise it would outlive the engine and keep files open.
impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(signals: &WorkerSignals, files: &Files) {
    loop {
        let mut jobs = signals.wait(|jobs| jobs.look || jobs.rewrite);
        if jobs.stop {
            return;
        }
        // The request stays set until the rewrite has ended, so that another one is refused.
        let rewrite = jobs.rewrite;
        (jobs.look, jobs.busy) = (false, true);
        drop(jobs);
        let failed = work(files, rewrite, &|| signals.stop.load(Ordering::Relaxed)).err();
        if let Some(error) = &failed {
            log::error!("{NAME}: files stay as they are: {error}");
        }
        let mut jobs = signals.jobs();
        (jobs.busy, jobs.failed) = (false, failed);
        jobs.rewrite &= !rewrite;
        signals.changed.notify_all();
    }
}

/// Syncs, merges segments and writes hint files, as far as that is due. Merges all segments if `rewrite`.
pub(super) fn work(files: &Files, rewrite: bool, stop: &dyn Fn() -> bool) -> Result<()> {
    files.sync_if_due()?;
    files.retry_manifest()?;
    // A value that cannot be read prevents merges, but no hint files.
    let merged = merge(files, rewrite, stop);
    merged.and(write_hints(files, stop))
}

fn merge(files: &Files, rewrite: bool, stop: &dyn Fn() -> bool) -> Result<()> {
    if rewrite {
        files.merge_all(stop)?;
    }
    while let Some(source) = files.next_merge()? {
        if !files.merge(&source, stop)? {
            break;
        }
    }
    Ok(())
}

fn write_hints(files: &Files, stop: &dyn Fn() -> bool) -> Result<()> {
    let mut failed = Ok(());
    for segment in files.segments.sealed() {
        // A start works without hint files, but merges and deletes need space.
        if stop() || files.is_short_of_space() {
            break;
        }
        if !segment.has_hint.load(Ordering::Relaxed) {
            // A segment that cannot be read gets no hint; the segments behind it do.
            let written = segment_hint::write_hint(&segment);
            failed = failed.and(written).and(files.sync_if_due());
        }
    }
    failed
}
