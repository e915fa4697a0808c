//! One thread of the driver in process: executes operations, checks what they return and records their latency.

use super::{
    bench_context::InProcessBench,
    group_commit::{self, CommitRequest, OutcomeSlot, Write},
};
use crate::{
    bench::{
        data::keys::KeyChooser,
        plan::workload::Mix,
        result::{Operation, Workload},
        run::{
            pace::{Clock, Pace},
            panics,
            recorder::{Fault, Recorder},
        },
    },
    engine::{self, Batch, KeyRange, Snapshot},
    store::{CommitQueue, ExpirationClock},
};
use std::{
    mem,
    ops::{Bound, ControlFlow},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Initial capacity in bytes of a thread's buffers for keys, large enough for most keys: a buffer that grows during a
/// scan would be counted as an allocation of the engine.
const KEY: usize = 256;

/// Limits at which a driver thread stops; the first that is reached applies.
pub(super) struct End<'s> {
    /// Time at which the thread stops, in nanoseconds of the clock; `u64::MAX` without a time limit.
    pub time: u64,
    pub operations: u64,
    pub stop: Option<&'s AtomicBool>,
}

pub(super) struct Worker<'b> {
    bench: &'b InProcessBench<'b>,
    clock: Clock,
    workload: &'b Workload,
    chooser: KeyChooser,
    /// Snapshot from which the thread reads while it executes a workload with one snapshot.
    snapshot: Option<Box<dyn Snapshot + 'b>>,
    pub pace: Pace,
    pub recorder: Recorder,
    key: Vec<u8>,
    scratch: Vec<u8>,
    /// Key that the current scan visited last.
    last: Vec<u8>,
    /// First key after the range of a scan by prefix; `None` if the scan goes on from a key without an end.
    range_end: Option<Vec<u8>>,
    /// Writes of the current batch: the first `waiting` elements are not committed yet, the others are spare.
    writes: Vec<Write>,
    waiting: usize,
    /// Bytes of the values that the deletes of the current batch remove.
    freed: usize,
    batch: Batch<'static>,
    /// Queue of the commit thread; `None` if this thread commits its own writes.
    pub groups: Option<&'b CommitQueue<CommitRequest>>,
    slot: Arc<OutcomeSlot>,
}

/// Outcome of a read of one key, compared with what it may return.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    Nothing,
    /// No value, because it has expired or may have expired.
    Expired,
    Right,
    /// A value that the store returned although its expiration time had passed before the read.
    Outlived,
    /// A value of this key with this version, which is older or newer than the versions that the read may return.
    Stale(u32),
    Wrong,
}

impl<'b> Worker<'b> {
    pub fn new(
        bench: &'b InProcessBench<'b>,
        clock: Clock,
        workload: &'b Workload,
        chooser: KeyChooser,
    ) -> Self {
        Self {
            bench,
            clock,
            workload,
            chooser,
            snapshot: None,
            pace: Pace::new(None, 0, 0, 1),
            recorder: Recorder::new(0, workload.timeline_interval()),
            key: Vec::new(),
            scratch: Vec::with_capacity(KEY),
            last: Vec::with_capacity(KEY),
            range_end: None,
            writes: vec![Write::spare(); workload.batch.max(1) as usize],
            waiting: 0,
            freed: 0,
            batch: Batch::default(),
            groups: None,
            slot: Arc::default(),
        }
    }

    /// Executes operations of the mix like [`Worker::run`], but records a panic of the engine as a fault instead of
    /// passing it on.
    pub fn run_caught(&mut self, mix: Option<Mix>, end: End<'_>) {
        if let Err(message) = panics::caught(|| self.run(mix, end)) {
            self.recorder.fault(Fault::Error(message));
        }
    }

    /// Executes operations of the mix, and commits the last batch. Stops at the time or the number of operations in
    /// `end`, after its first operation when `end.stop` is set, after 1000 faults, or with a fault if no key is left
    /// for an operation. Without a mix, does nothing.
    pub fn run(&mut self, mix: Option<Mix>, end: End<'_>) {
        let Some(mix) = mix else { return };
        if self.workload.one_snapshot {
            match self.bench.engine.snapshot() {
                Ok(snapshot) => self.snapshot = snapshot,
                Err(error) => return self.recorder.fault(Fault::Error(format!("snapshot: {error}"))),
            }
        }
        let mut left = end.operations;
        let mut now = self.clock.now();
        while left > 0 && now < end.time && !self.recorder.has_too_many_faults() {
            // A workload that runs together with a short one does one operation at least.
            let began = left < end.operations;
            if began && end.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                break;
            }
            let start = self.pace.next(now);
            if start > now {
                if start >= end.time {
                    break;
                }
                // After a write that waits for its batch, `now` is the intended start of that write, and this start may be
                // past.
                if self.clock.now() < start {
                    Pace::wait(&self.clock, start);
                    self.recorder.began(start, self.clock.now());
                }
            }
            left -= 1;
            let operation = mix.pick(|| self.chooser.random());
            let Some(time) = self.perform(operation, start) else {
                self.recorder.fault(Fault::dry(operation));
                break;
            };
            now = time;
        }
        self.commit();
        self.snapshot = None;
        self.recorder.extend_to(self.clock.now());
        if self.workload.rate.is_some() && left > 0 && end.time < u64::MAX {
            self.recorder.extend_to(end.time);
        }
        if end.time < u64::MAX
            && let Some(starts) = self.pace.left(end.time, left)
        {
            self.recorder.missed_starts(starts, self.recorder.end);
        }
    }

    /// Executes one operation of the mix, whose latency counts from `start`, and returns the time after it, both in
    /// nanoseconds of the clock. A write that does not fill its batch is not committed yet; in an open loop the
    /// returned time is then `start`. `None` if no key is left for the operation.
    #[inline]
    fn perform(&mut self, operation: Operation, start: u64) -> Option<u64> {
        match operation {
            Operation::Get => {
                let index = self.choose()?;
                Some(self.get(index, start))
            }
            Operation::GetMiss => Some(self.get_miss(start)),
            Operation::Update => {
                let index = self.choose()?;
                Some(self.update(index, start))
            }
            Operation::Insert => self.insert(start),
            Operation::ReadModifyWrite => {
                let index = self.choose()?;
                Some(self.read_modify_write(index, start))
            }
            Operation::Scan => {
                let index = self.choose()?;
                Some(self.scan(index, start))
            }
            Operation::Delete => self.delete(start),
        }
    }

    #[inline]
    fn choose(&mut self) -> Option<u64> {
        let (first, end) = self.bench.live.range();
        self.chooser.choose(first, end)
    }

    #[inline]
    fn get(&mut self, index: u64, start: u64) -> u64 {
        let found = self.look_up(index);
        let now = self.clock.now();
        match found {
            Ok(found @ (Found::Right | Found::Expired)) => {
                self.count_read(found);
                self.recorder.success(Operation::Get, start, now);
            }
            // Another thread deleted the key before the read.
            Ok(Found::Nothing) if self.bench.live.is_deleted(index) => {
                self.recorder.success(Operation::Get, start, now);
            }
            other => self.bad_read("get", index, other),
        }
        now
    }

    fn get_miss(&mut self, start: u64) -> u64 {
        let index = self.bench.data.absent(self.chooser.random());
        let found = self.look_up(index);
        let now = self.clock.now();
        match found {
            // With a time to live, a key that was never written is reported like one that may have expired.
            Ok(Found::Nothing | Found::Expired) => self.recorder.success(Operation::GetMiss, start, now),
            Ok(_) => {
                let key = self.key.escape_ascii();
                self.recorder.fault(Fault::Wrong(format!("get of {key} found a value that nobody wrote")));
            }
            Err(error) => self.recorder.fault(Fault::Error(format!("get: {error}"))),
        }
        now
    }

    #[inline]
    fn count_read(&mut self, found: Found) {
        if found == Found::Expired { self.recorder.expired_read() } else { self.recorder.hit() }
    }

    #[inline]
    fn look_up(&mut self, index: u64) -> engine::Result<Found> {
        let (data, live) = (self.bench.data, self.bench.live);
        data.key(index, &mut self.key);
        let mut found = Found::Nothing;
        let begin = live.begin_read(index);
        let mut visit = |_, stored: Option<&[u8]>| {
            let value = match live.expirations {
                Some(_) => ExpirationClock::default().unexpired(stored),
                None => stored,
            };
            if let Some(value) = value {
                found = data.check(index, value).map_or(Found::Wrong, Found::Stale);
            }
            ControlFlow::Continue(())
        };
        self.bench.call(|| match &self.snapshot {
            Some(snapshot) => snapshot.read(&[&self.key], &mut visit),
            None => self.bench.engine.read(&[&self.key], &mut visit),
        })?;
        Ok(match found {
            Found::Stale(version)
                if live.versions.allow(index, begin.oldest, version, data.version_bits(index)) =>
            {
                if live.must_have_expired(index, begin) { Found::Outlived } else { Found::Right }
            }
            Found::Nothing if live.may_have_expired(begin) => Found::Expired,
            other => other,
        })
    }

    #[cold]
    fn bad_read(&mut self, what: &str, index: u64, found: engine::Result<Found>) {
        let key = format!("key {index} ({})", self.key.escape_ascii());
        self.recorder.fault(match found {
            Ok(Found::Nothing) => Fault::Miss(format!("{what} of {key} found nothing")),
            Ok(Found::Stale(version)) => Fault::Wrong(format!(
                "{what} of {key} found version {version} of its value, which is not the last acknowledged version"
            )),
            Ok(Found::Outlived) => {
                Fault::Wrong(format!("{what} of {key} found a value whose expiration time had passed"))
            }
            Ok(_) => Fault::Wrong(format!("{what} of {key} found a value that differs from what was written")),
            Err(error) => Fault::Error(format!("{what}: {error}")),
        });
    }

    /// Adds a write of key `index` to this thread's batch: a put of version `version`, or a delete if it is `None`.
    fn add(&mut self, kind: Operation, index: u64, version: Option<u32>, start: u64) {
        let data = self.bench.data;
        let Some(write) = self.writes.get_mut(self.waiting) else { return };
        data.key(index, &mut write.key);
        match version {
            Some(version) => data.value(index, version, write.value.get_or_insert_default()),
            None => write.value = None,
        }
        (write.kind, write.index, write.start) = (kind, index, start);
        let expirations = self.bench.live.expirations.as_ref();
        write.lifetime = expirations.map(|expirations| expirations.lifetime(index, self.bench.is_load));
        self.waiting += 1;
    }

    fn new_version(&mut self, index: u64) -> u32 {
        self.bench.live.versions.begin(index, || self.chooser.random())
    }

    fn update(&mut self, index: u64, start: u64) -> u64 {
        let version = self.new_version(index);
        self.add(Operation::Update, index, Some(version), start);
        self.commit_when_full(start)
    }

    fn insert(&mut self, start: u64) -> Option<u64> {
        let index = self.bench.live.insert()?;
        self.add(Operation::Insert, index, Some(0), start);
        Some(self.commit_when_full(start))
    }

    fn delete(&mut self, start: u64) -> Option<u64> {
        let index = self.bench.live.delete()?;
        // A delete also counts the bytes of the value as written.
        self.freed += self.bench.data.value_length(index);
        self.add(Operation::Delete, index, None, start);
        Some(self.commit_when_full(start))
    }

    fn commit_when_full(&mut self, start: u64) -> u64 {
        if self.waiting < self.writes.len() {
            // The write ends with its batch, and the next one starts as soon as this one has joined the
            // batch.
            return if self.workload.rate.is_some() { start } else { self.clock.now() };
        }
        self.commit()
    }

    /// Commits the writes of this thread's batch together, and returns the time after it in nanoseconds of the clock.
    /// The latency of each write is the time from its own start to the end of the commit.
    fn commit(&mut self) -> u64 {
        let count = mem::take(&mut self.waiting);
        if count == 0 {
            return self.clock.now();
        }
        let outcome = self.write(count);
        let now = self.clock.now();
        let freed = mem::take(&mut self.freed);
        if outcome.is_ok() {
            self.recorder.wrote(freed);
        }
        let live = self.bench.live;
        for write in self.writes.iter().take(count) {
            if matches!(write.kind, Operation::Update | Operation::ReadModifyWrite) {
                live.end_update(write.index, write.lifetime, outcome.is_ok());
            }
            if let Err(error) = &outcome {
                self.recorder.fault(Fault::Error(format!("write: {error}")));
                continue;
            }
            if write.kind == Operation::Insert {
                live.end_insert(write.index, write.lifetime);
            }
            self.recorder.wrote(write.key.len() + write.value.as_ref().map_or(0, Vec::len));
            self.recorder.success(write.kind, write.start, now);
        }
        now
    }

    fn write(&mut self, count: usize) -> Result<(), String> {
        if let Some(queue) = self.groups {
            let writes = mem::take(&mut self.writes);
            let outcome;
            (self.writes, outcome) = group_commit::commit(queue, &self.slot, writes, count);
            return outcome;
        }
        if let Some(store) = self.bench.store {
            let writes = mem::take(&mut self.writes);
            let outcome;
            (self.writes, outcome) = group_commit::commit_here(store, &self.slot, writes, count);
            return outcome;
        }
        let mut batch = mem::take(&mut self.batch).recycle();
        self.writes.iter().take(count).for_each(|write| batch.push(write.op()));
        let outcome = self.bench.write(&batch);
        self.batch = batch.recycle();
        outcome.map_err(|error| error.to_string())
    }

    /// Commits the waiting writes of this thread, then reads and replaces the value of key `index`, under a lock
    /// against other read-modify-writes of the key. An expired or deleted key is not written. Returns the time
    /// afterwards in nanoseconds of the clock.
    fn read_modify_write(&mut self, index: u64, start: u64) -> u64 {
        self.commit();
        let held = self.bench.hold(index);
        let found = self.look_up(index);
        if let Ok(Found::Right) = found {
            self.count_read(Found::Right);
        } else {
            drop(held);
            let now = self.clock.now();
            match found {
                // There is no value to change.
                Ok(Found::Expired) => {
                    self.count_read(Found::Expired);
                    self.recorder.success(Operation::ReadModifyWrite, start, now);
                }
                // Another thread deleted the key before the read: there is no value to change.
                Ok(Found::Nothing) if self.bench.live.is_deleted(index) => {
                    self.recorder.success(Operation::ReadModifyWrite, start, now);
                }
                found => self.bad_read("read-modify-write", index, found),
            }
            return now;
        }
        let version = self.new_version(index);
        self.add(Operation::ReadModifyWrite, index, Some(version), start);
        self.commit()
    }

    /// Scans pairs from key `index` on, or those with its prefix. Checks the value of each pair, the order of keys, and
    /// that the scan does not end too early. Returns the time after it in nanoseconds of the clock.
    fn scan(&mut self, index: u64, start: u64) -> u64 {
        let length = match self.workload.random_scan_length {
            true => self.chooser.up_to(self.workload.scan_length),
            false => self.workload.scan_length.max(1),
        };
        let (data, live) = (self.bench.data, self.bench.live);
        let index = self.bounds(index);
        // A scan need not visit keys that are inserted after it has begun.
        let (_, end) = live.range();
        let range = KeyRange {
            start: Bound::Included(&self.key),
            end: self.range_end.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
        };
        let (mut last, mut scratch) = (mem::take(&mut self.last), mem::take(&mut self.scratch));
        last.clear();
        let is_whole_key = self.range_end.is_none();
        let (mut visited, mut fault) = (0, None);
        let mut visit = |key: &[u8], value: &[u8]| {
            let right = match visited {
                // Another thread may have deleted the key since it was chosen.
                0 if is_whole_key => {
                    key == self.key.as_slice() || (key > self.key.as_slice() && live.is_deleted(index))
                }
                0 => key.starts_with(&self.key),
                _ => key > last.as_slice(),
            };
            let checked = data.index(key, &mut scratch).and_then(|index| data.check(index, value));
            if !right || checked.is_none() {
                fault = Some(format!("scan from key {index} visited {} wrongly", key.escape_ascii()));
                return ControlFlow::Break(());
            }
            last.clear();
            last.extend_from_slice(key);
            visited += 1;
            if visited < length { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let outcome = self.bench.call(|| match &self.snapshot {
            Some(snapshot) => snapshot.scan(range, &mut visit),
            None => self.bench.engine.scan(range, &mut visit),
        });
        (self.last, self.scratch) = (last, scratch);
        let now = self.clock.now();
        match (outcome, fault) {
            (Err(error), _) => self.recorder.fault(Fault::Error(format!("scan: {error}"))),
            (Ok(()), Some(fault)) => self.recorder.fault(Fault::Wrong(fault)),
            (Ok(()), None) if visited < length && !self.may_end(index, visited, end) => {
                self.recorder
                    .fault(Fault::Miss(format!("scan from key {index} ended after {visited} pairs")));
            }
            (Ok(()), None) => self.recorder.success(Operation::Scan, start, now),
        }
        now
    }

    /// Sets the bounds of a scan that is asked to begin at key `index`, or at the first key with its prefix. Returns
    /// the number of the key that the scan should visit first.
    fn bounds(&mut self, index: u64) -> u64 {
        self.bench.data.key(index, &mut self.key);
        let Some(length) = self.workload.prefix_bytes else { return index };
        self.key.truncate(length as usize);
        self.range_end = engine::prefix_end(&self.key);
        // Keys are in the order of their numbers, so keys with the same prefix are adjacent.
        let together = 1u64 << (8 * (8 - length.min(8)));
        (index / together * together).max(self.bench.live.range().0)
    }

    /// Returns `true` if a correct scan from the key with the number `index` may end after `visited` pairs,
    /// fewer than it was asked for, when the keys up to the number `end` existed as it began. The keys after a hashed key
    /// are estimated, because only their mean number is known.
    fn may_end(&self, index: u64, visited: u32, end: u64) -> bool {
        let (first, _) = self.bench.live.range();
        if self.bench.is_reference || self.bench.live.is_deleted(index) {
            return true;
        }
        // A scan by prefix ends after the last key with that prefix. A key that is not hashed begins with its
        // number in eight bytes, so 256 keys share a prefix of seven bytes, 65,536 one of six, and so on.
        let prefixed = self.workload.prefix_bytes.map(|length| 1u64 << (8 * (8 - length.min(8))));
        let end = prefixed.map_or(end, |together| end.min((index / together + 1) * together));
        match self.bench.data.keys() {
            Some(keys) if keys.is_hashed() => {
                let expected = keys.share_after(index) * end.saturating_sub(first) as f64;
                f64::from(visited) + 10.0 * (expected + 10.0).sqrt() >= expected
            }
            _ => index + u64::from(visited) >= end,
        }
    }
}
