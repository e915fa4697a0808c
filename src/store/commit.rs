//! Commits the commit requests of a group: as one write batch, as several if they copy very much, or, with hash slots,
//! each by itself. After a failure the group is executed again, or split until only the requests at fault fail, or the
//! store becomes read-only; the clients concerned receive the error.

use super::{Error, Scratch, Store, Txn, Work, write_set::CommitPayload};
use crate::engine::{self, Batch, Fsync, page_cache};
use bumpalo::Bump;
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    mem,
    panic::{self, AssertUnwindSafe},
    slice,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Maximum size in bytes of the arena (memory of keys and values that were copied for a commit) that the next commit
/// reuses; a larger arena is freed.
const MAX_REUSED_ARENA: usize = 1 << 20;

/// Maximum number of commits of one commit group that run concurrently on an engine with hash slots. Most of their
/// time is spent in the network and on the disks of other machines: 50 clients reach 3,000 SETs per second with 8,
/// and 8,000 with 64.
const MAX_CONCURRENT_COMMITS: usize = 64;

/// Error with which the commit of a commit group failed, and the reaction to it.
struct Failure {
    error: Error,
    after: OnFailure,
}

/// Reaction of the store to a failed commit of a commit group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnFailure {
    /// The engine has rolled back the commit: the two halves of the commit group are committed one after the other.
    Split,
    /// The commit group is executed again, because other processes changed what it had read. After
    /// [`Backoff::RETRY_LIMIT`] its clients receive the error instead.
    Rerun,
    /// The clients of the commit group receive the error. Later groups may succeed.
    Report,
    /// The clients of the commit group receive the error, and the store becomes read-only.
    SetReadOnly,
}

impl OnFailure {
    fn of(error: &engine::Error) -> Self {
        use engine::Error::{Conflict, Unavailable, Unknown};
        match error {
            Conflict { .. } => Self::Rerun,
            Unavailable { .. } | Unknown { .. } => Self::Report,
            error if error.is_rolled_back() => Self::Split,
            _ => Self::SetReadOnly,
        }
    }
}

/// Pauses between attempts at one commit group. They become longer up to a limit, and their lengths are random, so
/// that they differ between processes.
#[derive(Default)]
struct Backoff {
    begin: Option<Instant>,
    pause: Duration,
}

impl Backoff {
    /// Time since the first failed attempt after which a commit group is no longer retried because of transaction
    /// conflicts.
    const RETRY_LIMIT: Duration = Duration::from_secs(10);
    const MAX_PAUSE: Duration = Duration::from_millis(100);

    /// Sleeps before another attempt. Returns `false` if the commit group must not be retried any more, because
    /// [`Self::RETRY_LIMIT`] has passed.
    fn pause(&mut self) -> bool {
        let begin = *self.begin.get_or_insert_with(Instant::now);
        self.pause = (self.pause * 2).clamp(Duration::from_millis(1), Self::MAX_PAUSE);
        let random = RandomState::new().hash_one(self.pause) % 1000;
        thread::sleep(self.pause.mul_f64(0.5 + random as f64 / 2000.0));
        begin.elapsed() < Self::RETRY_LIMIT
    }
}

impl Store {
    /// Runs the commit requests of `group` in order and commits all their writes, synced under `always`: as one atomic
    /// batch, or as several if the requests copy more than about 32 MiB of keys and values. If a commit fails and the
    /// engine has rolled it back, the halves of its requests are tried, so that in the end only those requests fail that
    /// cannot be written alone either. A commit that has read what other processes changed meanwhile is executed again.
    /// With hash slots, each commit request is committed separately.
    pub fn commit<W: Work>(&self, group: &mut [W]) {
        if self.is_sharded() { self.commit_by_slot(group) } else { self.commit_group(group) }
    }

    /// Commits each commit request of a group separately. Those that read nothing (blind ones) are sent to the
    /// engine together. The others are spread over lanes by hash slot, and each lane has a thread: those of one slot
    /// are committed one after the other, because concurrent ones would only conflict with each other. Requests of
    /// different lanes that use the same keys cost another attempt, no more.
    fn commit_by_slot<W: Work>(&self, group: &mut [W]) {
        let (mut blind, mut lanes) = (Vec::new(), BTreeMap::<usize, Vec<&mut W>>::new());
        for work in group {
            if work.is_blind() {
                blind.push(work);
            } else {
                lanes.entry(usize::from(work.slot(self)) % MAX_CONCURRENT_COMMITS).or_default().push(work);
            }
        }
        let commit = |lane: Vec<&mut W>| {
            lane.into_iter().for_each(|work| self.commit_group(slice::from_mut(work)));
        };
        // This thread commits a lane too, unless it has the blind requests.
        let threads = lanes.len().saturating_sub(usize::from(blind.is_empty()));
        let lanes = Mutex::new(lanes.into_values());
        let next = || lanes.lock().unwrap_or_else(PoisonError::into_inner).next();
        let commit_lanes = || {
            while let Some(lane) = next() {
                commit(lane);
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads {
                // If no more threads can be started, the others commit its lane.
                let _ = thread::Builder::new().spawn_scoped(scope, commit_lanes);
            }
            if !blind.is_empty() {
                self.commit_blind(&mut blind);
            }
            commit_lanes();
        });
    }

    /// Commits a group: in one commit, unless its requests copy very much ([`Txn::has_copied_much`]); then in several,
    /// one after the other.
    fn commit_group<W: Work>(&self, mut group: &mut [W]) {
        while !group.is_empty() {
            let count = self.commit_first(group, None);
            group = mem::take(&mut group).split_at_mut(count).1;
        }
    }

    /// Commits the first commit requests of a group, as many as may share a commit, and returns their number. `writer`
    /// is the lock of commits if the caller holds it.
    fn commit_first<W: Work>(&self, group: &mut [W], mut writer: Option<MutexGuard<'_, Scratch>>) -> usize {
        let mut attempts = Backoff::default();
        let (count, failure) = loop {
            let (count, outcome) = self.attempt(group, writer.take());
            let Err(failure) = outcome else { return count };
            if failure.after != OnFailure::Rerun || !attempts.pause() {
                break (count, failure);
            }
        };
        let (group, _) = group.split_at_mut(count);
        if failure.after == OnFailure::Split && count > 1 {
            let (first, second) = group.split_at_mut(count / 2);
            for half in [first, second] {
                self.commit_group(half);
            }
            return count;
        }
        if let ([work], OnFailure::Split) = (&mut *group, failure.after)
            && work.split()
        {
            self.commit_group(group);
            return count;
        }
        self.report(&failure);
        group.iter_mut().for_each(|work| work.fail(&failure.error));
        count
    }

    /// Logs the failure of a commit, unless only the request is at fault (keys in several hash slots), or a failure
    /// of a rolled back commit was logged already and no write has succeeded since.
    fn report(&self, failure: &Failure) {
        let is_news = match failure.error {
            Error::CrossSlot | Error::TransactionTooLarge => false,
            _ => failure.after != OnFailure::Split || !self.is_full.swap(true, Ordering::Relaxed),
        };
        if is_news {
            log::error!("commit failed: {}", failure.error);
        }
    }

    /// Commits each request of blind commit requests (those that read nothing) separately, all of them concurrently.
    fn commit_blind<W: Work>(&self, works: &mut [&mut W]) {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.try_commit_blind(works)));
        if let Ok((outcomes, ends)) = outcome {
            let mut start = 0;
            for (work, end) in works.iter_mut().zip(ends) {
                let outcomes = outcomes.get(start..end).unwrap_or_default();
                if outcomes.iter().any(Result::is_err) {
                    work.fail_some(outcomes);
                }
                start = end;
            }
        } else {
            let error = self.set_read_only();
            works.iter_mut().for_each(|work| work.fail(&error));
        }
    }

    /// Runs blind commit requests and writes each of their requests separately. Returns the outcome of each request,
    /// and for each commit request the number of requests up to its end.
    fn try_commit_blind<W: Work>(&self, works: &mut [&mut W]) -> (Vec<Result<(), Error>>, Vec<usize>) {
        let (arena, markers) = (Bump::new(), self.markers());
        let (mut txn, mut ends) = (Txn::new(self, &arena, Batch::default(), markers), Vec::new());
        // A transaction that is blind copies no more than it has queued, so it is never too large.
        for work in works {
            work.run(&mut txn);
            txn.end_part();
            ends.push(txn.part_count());
        }
        let CommitPayload { batch, deadlines, markers, .. } = txn.into_payload();
        let outcomes = self.engine().write_parts(&batch, self.policy.is(Fsync::Always));
        self.note(&deadlines, markers);
        let is_written = outcomes.iter().any(Result::is_ok);
        let mut reported = None;
        let outcomes = outcomes.into_iter().map(|outcome| {
            outcome.map_err(|error| {
                let failure = self.failure(error.into());
                // A lost node may leave the outcome of hundreds of requests unknown: one line in the log is enough.
                let words = Some(failure.error.to_string());
                if reported != words {
                    self.report(&failure);
                    reported = words;
                }
                failure.error
            })
        });
        let outcomes = outcomes.collect();
        if is_written {
            self.note_write();
        }
        (outcomes, ends)
    }

    /// Commits a commit group that takes long, after the commits of [`Store::commit_short`] that already wait. Until this
    /// returns, [`Store::commit_short`] refuses others.
    pub fn commit_long<W: Work>(&self, group: &mut [W]) {
        self.long.fetch_add(1, Ordering::SeqCst);
        while self.short_waiting.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        self.commit(group);
        self.long.fetch_sub(1, Ordering::SeqCst);
    }

    /// Commits `work` alone and returns `true`, unless it would wait for a commit of [`Store::commit_long`]: then returns
    /// `false` and has done nothing. May wait for other commits. For a store in memory only.
    #[must_use = "the request may not have been committed"]
    pub fn commit_short<W: Work>(&self, work: &mut W) -> bool {
        let Some(writer) = self.lock_before_long_commits() else { return false };
        self.commit_first(slice::from_mut(work), Some(writer));
        true
    }

    /// Locks `writer`, or returns `None` if a long commit runs or waits for the lock.
    fn lock_before_long_commits(&self) -> Option<MutexGuard<'_, Scratch>> {
        if self.long.load(Ordering::Relaxed) > 0 {
            return None;
        }
        match self.writer.try_lock() {
            Ok(writer) => return Some(writer),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        // Either this thread sees that a long commit has begun, or that commit sees that this thread waits.
        self.short_waiting.fetch_add(1, Ordering::SeqCst);
        let is_alone = self.long.load(Ordering::SeqCst) == 0;
        let writer = is_alone.then(|| self.lock_writer());
        self.short_waiting.fetch_sub(1, Ordering::SeqCst);
        writer
    }

    fn lock_writer(&self) -> MutexGuard<'_, Scratch> {
        // A commit that panicked left only scratch memory behind.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries to commit the first commit requests of a group. Returns their number, at least 1, and the outcome of their
    /// commit. `writer` is the lock of commits if the caller holds it.
    fn attempt<W: Work>(
        &self,
        group: &mut [W],
        writer: Option<MutexGuard<'_, Scratch>>,
    ) -> (usize, Result<(), Failure>) {
        let mut count = group.len();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| self.try_commit(group, writer, &mut count)));
        let outcome = match outcome {
            Ok(outcome) => outcome.map_err(|error| self.failure(error)),
            Err(_) => Err(Failure { error: self.set_read_only(), after: OnFailure::SetReadOnly }),
        };
        (count, outcome)
    }

    /// Returns `error` with the reaction to it, and makes the store read-only if that is the reaction.
    fn failure(&self, error: Error) -> Failure {
        let after = match &error {
            Error::Engine(error) => OnFailure::of(error),
            Error::CrossSlot => OnFailure::Report,
            // The other commit requests of the group are not at fault.
            Error::TransactionTooLarge => OnFailure::Split,
            Error::ReadOnly(_) => OnFailure::SetReadOnly,
        };
        if let (OnFailure::SetReadOnly, Error::Engine(error)) = (after, &error) {
            self.note_fault(error.to_string());
        }
        Failure { error, after }
    }

    /// Commits the first commit requests of a group, and sets `count` to the number of those that were run; if it fails
    /// before it runs any, `count` keeps its value. `writer` is the lock of commits if the caller holds it.
    fn try_commit<W: Work>(
        &self,
        group: &mut [W],
        writer: Option<MutexGuard<'_, Scratch>>,
        count: &mut usize,
    ) -> Result<(), Error> {
        if self.unsynced.is_syncing() && self.policy.is(Fsync::EverySec) {
            self.unsynced.wait();
        }
        if self.is_shared() {
            // Several commits run concurrently, so each has scratch memory of its own.
            return self.commit_with(&mut Scratch::default(), group, count);
        }
        let mut scratch = writer.unwrap_or_else(|| self.lock_writer());
        let outcome = self.commit_with(&mut scratch, group, count);
        let arena = &mut scratch.arena;
        let grown = (arena.allocated_bytes() > MAX_REUSED_ARENA).then(|| mem::take(arena));
        // The lock is released first, because the arena's pages take long to be freed.
        drop(scratch);
        drop(grown);
        outcome
    }

    fn commit_with<W: Work>(
        &self,
        scratch: &mut Scratch,
        group: &mut [W],
        count: &mut usize,
    ) -> Result<(), Error> {
        let Scratch { arena, batch } = scratch;
        arena.reset();
        let markers = self.markers();
        let mut txn = Txn::new(self, arena, mem::take(batch).recycle(), markers);
        if self.commits_concurrently() {
            let mut keys = Vec::new();
            group.iter().for_each(|work| work.keys_to_read(&mut keys));
            txn.prefetch(&keys)?;
        }
        for (index, work) in group.iter_mut().enumerate() {
            // The first one always runs, however much memory for copies is left from the previous commit.
            if index > 0 && txn.has_copied_much() {
                break;
            }
            *count = index + 1;
            work.run(&mut txn);
            txn.end_part();
            if txn.is_too_large() {
                break;
            }
        }
        let is_too_large = txn.is_too_large();
        let CommitPayload { batch: written, deadlines, markers, touched, transaction } = txn.into_payload();
        let outcome = match (written.is_empty(), transaction) {
            _ if is_too_large => Err(Error::TransactionTooLarge),
            // The engine checks whether the reads were consistent, and of one hash slot.
            (true, Some(transaction)) if self.is_sharded() => Ok(transaction.commit(&written)?),
            (true, _) => Ok(()),
            (false, Some(transaction)) => Ok(transaction.commit(&written)?),
            (false, None) => self.write(&written),
        };
        match &outcome {
            Ok(()) => self.note(&deadlines, markers),
            // The group may be retried, and must not see its own changes as those of another client.
            Err(_) if !touched.is_empty() => self.watches.revert_versions(&touched),
            Err(_) => {}
        }
        *batch = written.recycle();
        outcome
    }

    pub(super) fn write(&self, batch: &Batch<'_>) -> Result<(), Error> {
        self.engine().write(batch, self.policy.is(Fsync::Always))?;
        self.note_write();
        Ok(())
    }

    /// Records that a batch was written: the next commit that the engine rolls back is logged again, and without
    /// `always` the write is not synced yet.
    fn note_write(&self) {
        // Usually only read: a cache line that is not written stays shared by all cores.
        if self.is_full.load(Ordering::Relaxed) {
            self.is_full.store(false, Ordering::Relaxed);
        }
        if !self.policy.is(Fsync::Always) {
            self.unsynced.note_write();
        }
    }

    pub(super) fn set_read_only(&self) -> Error {
        Error::ReadOnly(self.note_fault("the engine panicked (see the log)".into()).to_owned())
    }

    /// Makes the store read-only because of the failure `fault`, and marks its data for the next start, unless the engine
    /// recovers by itself. Returns the first failure.
    pub(super) fn note_fault(&self, fault: String) -> &str {
        if let (Some(path), None, false) =
            (&self.path, self.fault.get(), self.info().capabilities.recovers_failed_syncs)
            && let Err(error) = page_cache::mark_failed_sync(path)
        {
            log::error!("{error}. Restart the machine before the next start, or empty the page cache");
        }
        self.fault.get_or_init(|| fault)
    }
}
