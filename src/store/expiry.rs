//! Active expiration: the removal of expired values.
//!
//! Commands treat a value as absent once its expiration time has passed: see
//! [`ExpirationClock`](super::ExpirationClock). This file removes it from the engine. Future expiration times are
//! kept in memory, the earliest ones first, up to a limit; those that are not kept, or that are older than the last
//! restart, are found by a slow incremental scan of all keys. The commit that removes a value first checks its
//! expiration time again.
//!
//! A store in which no value ever had an expiration time has neither the scan nor the marker record that requests
//! it. If other processes may write to the same data, every start requests the scan.

use super::{Entry, Error, Store, Txn, Work, expiration_clock::Expires, incremental_scan::IncrementalScan};
use crate::engine::key_value_headers;
use hashbrown::HashMap;
use log::Level;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum memory in bytes for the kept expiration times with their keys, including [`OVERHEAD`] for each.
const MAX_KEY_MEMORY: usize = 64 << 20;

/// Estimated memory per expiration time that active expiration keeps, in bytes, without the key.
const OVERHEAD: usize = 96;

/// Maximum number of keys that one commit of active expiration removes, and number of keys that a step of its scan
/// visits.
const STEP: usize = 1024;

/// Pause between two commits, or two steps of the scan, of active expiration, so that values that expire about the
/// same time share a commit, and the scan is a negligible load.
const PAUSE: Duration = Duration::from_millis(10);

/// Pause of active expiration after a commit, or a step of the scan, failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Maximum time for which active expiration waits for the earliest expiration time before it reads the clock again,
/// which may have been set forward, or have continued while the machine was suspended.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Expiration times of a store's keys that are kept in memory for active expiration: all of them, or the earliest ones.
#[derive(Default)]
pub struct Expiry {
    /// Number of expired values that active expiration has removed since the start.
    removed: AtomicU64,
    index: Mutex<Index>,
    wake: Condvar,
}

#[derive(Default)]
struct Index {
    deadlines: HashMap<Arc<[u8]>, u64>,
    order: BTreeSet<(u64, Arc<[u8]>)>,
    bytes: usize,
    /// `true` if a new scan of all keys must find expiration times of stored values that are not kept in memory; a
    /// running scan does not count.
    incomplete: bool,
    walk: Option<IncrementalScan>,
    /// `true` if a scan of all keys has ended: it has logged all values that cannot be read, so later scans log them
    /// only at the level debug.
    walked: bool,
    stopped: bool,
}

/// Next job of the thread that removes expired values.
enum ExpiryJob {
    Remove(Vec<Arc<[u8]>>),
    Walk(IncrementalScan),
    Stop,
}

impl Index {
    /// Records the expiration time `deadline` of `key`, in place of an earlier one. Above [`MAX_KEY_MEMORY`], the
    /// latest expiration times, maybe this one, are forgotten, and the index becomes incomplete. Returns `true` if
    /// `deadline` is new for the key and now the earliest of all: the thread that removes expired values must then be
    /// woken.
    fn add(&mut self, deadline: u64, key: &[u8]) -> bool {
        let key: Arc<[u8]> = match self.deadlines.get_key_value(key) {
            Some((_, old)) if *old == deadline => return false,
            Some((key, old)) => {
                let (key, old) = (key.clone(), *old);
                self.order.remove(&(old, key.clone()));
                key
            }
            None => {
                self.bytes += key.len() + OVERHEAD;
                key.into()
            }
        };
        self.deadlines.insert(key.clone(), deadline);
        self.order.insert((deadline, key));
        while self.bytes > MAX_KEY_MEMORY
            && let Some((_, key)) = self.order.pop_last()
        {
            self.incomplete = true;
            self.forget(&key);
        }
        self.order.first().is_some_and(|(first, _)| *first == deadline)
    }

    /// Records an expiration time that a scan or a removal has read from the store. A commit may have recorded another
    /// one since then: the earlier of the two is kept, because a removal that comes too early records the current one
    /// again.
    fn add_read(&mut self, deadline: u64, key: &[u8]) {
        if self.deadlines.get(key).is_none_or(|recorded| deadline < *recorded) {
            self.add(deadline, key);
        }
    }

    fn forget(&mut self, key: &[u8]) {
        if self.deadlines.remove(key).is_some() {
            self.bytes -= key.len() + OVERHEAD;
        }
    }

    #[cfg(test)]
    fn forget_all(&mut self) {
        (self.order, self.deadlines, self.bytes) = Default::default();
    }

    fn take_due(&mut self, now: u64) -> Vec<Arc<[u8]>> {
        let mut due = Vec::new();
        while due.len() < STEP
            && let Some((deadline, _)) = self.order.first()
            && *deadline <= now
            && let Some((_, key)) = self.order.pop_first()
        {
            self.forget(&key);
            due.push(key);
        }
        due
    }
}

impl Expiry {
    /// Returns the number of expired values that active expiration has removed since the start.
    pub fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// Keeps the expiration times that a commit has set, each with its stored key.
    #[inline]
    pub(super) fn note(&self, deadlines: &[(u64, &[u8])]) {
        if !deadlines.is_empty() {
            self.add(deadlines);
        }
    }

    /// Requests a scan of all keys for expiration times, because not all of them may be kept in memory.
    pub(super) fn request_full_scan(&self) {
        self.lock().incomplete = true;
    }

    #[cold]
    fn add(&self, deadlines: &[(u64, &[u8])]) {
        let mut index = self.lock();
        let mut first = false;
        deadlines.iter().for_each(|(deadline, key)| first |= index.add(*deadline, key));
        if first {
            self.wake.notify_one();
        }
    }

    /// Stops active expiration: lets [`Store::run_active_expiration`] return.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        // No code that can panic runs under this lock, so poisoning is ignored.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until values have expired, a step of the scan of all keys is due, or [`Expiry::stop`] is called, and
    /// returns the job for it.
    fn next(&self) -> ExpiryJob {
        let mut index = self.lock();
        loop {
            let now = super::ExpirationClock::default().now();
            if index.stopped {
                return ExpiryJob::Stop;
            }
            let due = index.take_due(now);
            if !due.is_empty() {
                return ExpiryJob::Remove(due);
            }
            if let Some(walk) = index.walk.take() {
                return ExpiryJob::Walk(walk);
            }
            if index.incomplete && index.bytes <= MAX_KEY_MEMORY / 2 {
                index.incomplete = false;
                index.walk = Some(IncrementalScan::default());
                continue;
            }
            index = match index.order.first() {
                None => self.wake.wait(index).unwrap_or_else(PoisonError::into_inner),
                Some((deadline, _)) => {
                    let time = time_to_wait(*deadline, now);
                    self.wake.wait_timeout(index, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn pause(&self, time: Duration) {
        let index = self.lock();
        if !index.stopped {
            let waited = self.wake.wait_timeout_while(index, time, |index| !index.stopped);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Returns for how long active expiration waits at the time `now` if the earliest expiration time is `deadline`, both
/// in milliseconds since 1970.
fn time_to_wait(deadline: u64, now: u64) -> Duration {
    Duration::from_millis(deadline.saturating_sub(now)).clamp(PAUSE, MAX_WAIT)
}

impl Store {
    /// Removes values as they expire, until [`Expiry::stop`], or until a job fails in a store that is read-only.
    /// Calls `note` with the duration of each job.
    pub fn run_active_expiration(&self, note: impl Fn(Duration)) {
        loop {
            let task = self.expiry.next();
            // With many values due there is no pause, or active expiration would fall behind.
            let is_behind = matches!(&task, ExpiryJob::Remove(keys) if keys.len() >= STEP);
            let begin = Instant::now();
            let outcome = match task {
                ExpiryJob::Stop => return,
                ExpiryJob::Remove(keys) => self.remove(keys),
                ExpiryJob::Walk(walk) => self.scan_step(walk),
            };
            note(begin.elapsed());
            if let Err(error) = &outcome {
                log::debug!("what has expired is not removed: {error}");
                if self.read_only_cause().is_some() {
                    return;
                }
                self.expiry.lock().incomplete = true;
            }
            match outcome {
                Ok(()) if is_behind => {}
                Ok(()) => self.expiry.pause(PAUSE),
                Err(_) => self.expiry.pause(PAUSE_AFTER_FAILURE),
            }
        }
    }

    fn remove(&self, keys: Vec<Arc<[u8]>>) -> Result<(), Error> {
        let mut parts: BTreeMap<u16, Vec<Arc<[u8]>>> = BTreeMap::new();
        if self.is_sharded() {
            keys.into_iter().for_each(|key| parts.entry(self.slot(&key)).or_default().push(key));
        } else {
            parts.insert(0, keys);
        }
        let new = |keys| ExpireBatch { keys, removed: 0, alive: Vec::new(), error: None };
        let mut group: Vec<_> = parts.into_values().map(new).collect();
        self.commit(&mut group);
        let mut index = self.expiry.lock();
        for (deadline, key) in group.iter().flat_map(|work| &work.alive) {
            index.add_read(*deadline, key);
        }
        drop(index);
        let removed = group.iter().map(|work| work.removed).sum();
        self.expiry.removed.fetch_add(removed, Ordering::Relaxed);
        group.into_iter().find_map(|work| work.error).map_or(Ok(()), Err)
    }

    /// Runs the next step of the scan of all keys, and keeps the expiration times that it finds for active expiration.
    fn scan_step(&self, mut walk: IncrementalScan) -> Result<(), Error> {
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let level = if self.expiry.lock().walked { Level::Debug } else { Level::Warn };
        let step = walk.step(self, STEP, &mut |key, value| match value.map(key_value_headers::entry) {
            Ok(Entry { deadline: 0, .. }) => {}
            Ok(Entry { deadline, .. }) => found.push((deadline, key.to_vec())),
            Err(error) => log::log!(level, "active expiration passes over a value: {error}"),
        });
        let more = match step {
            Err(Error::Engine(error)) if self.corrupt_reads.is_corruption(&error) => {
                // The engine names no key. The keys that are skipped expire when a command reads them.
                if !walk.has_skipped() {
                    log::log!(level, "active expiration passes over some keys: {error}");
                }
                walk.skip()
            }
            step => step?,
        };
        let mut index = self.expiry.lock();
        index.walked |= !more;
        for (deadline, key) in &found {
            index.add_read(*deadline, key);
        }
        index.walk = more.then_some(walk);
        Ok(())
    }
}

/// Commit request of active expiration, which removes those values of `keys` that have expired.
struct ExpireBatch {
    keys: Vec<Arc<[u8]>>,
    removed: u64,
    /// Keys of the batch whose values turned out not to have expired, with their current expiration times: the value
    /// was written again after its earlier expiration time was recorded, or the clock was set back.
    alive: Vec<(u64, Arc<[u8]>)>,
    error: Option<Error>,
}

impl Work for ExpireBatch {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        (self.removed, self.alive, self.error) = Default::default();
        for key in &self.keys {
            match txn.delete_if_expired(key) {
                Ok(Some(Expires::Past)) => self.removed += 1,
                Ok(Some(Expires::At(deadline))) => self.alive.push((deadline, Arc::clone(key))),
                Ok(None) => {}
                // The key was due, but may have been given a later expiration time since.
                Err(error) if error.index_of_value().is_some() => {
                    log::warn!("active expiration passes over a value: {error}");
                }
                Err(error) => self.error = Some(error),
            }
        }
    }

    fn fail(&mut self, error: &Error) {
        (self.removed, self.alive) = Default::default();
        self.error = Some(Error::ReadOnly(error.to_string()));
    }

    fn bytes(&self) -> usize {
        self.keys.iter().map(|key| key.len()).sum()
    }

    fn slot(&self, store: &Store) -> u16 {
        self.keys.first().map_or(0, |key| store.slot(key))
    }

    fn keys_to_read(&self, keys: &mut Vec<Vec<u8>>) {
        keys.extend(self.keys.iter().map(|key| key.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::{
            self, Batch, Engine, Fsync, Info, KeyRange, Kind, Location, OpenOptions, VisitPair, VisitValue,
        },
        store::tests::commit,
    };
    use std::sync::OnceLock;

    /// Expiration time in milliseconds since 1970 that is never reached while a test runs, before `LATER`.
    const SOON: u64 = 1 << 50;
    const LATER: u64 = 1 << 51;

    const KEY: &[u8] = b"key";

    /// Map in memory, whose incremental scan is followed by a commit before the caller receives the visited pairs.
    struct Overtaken {
        engine: Box<dyn Engine>,
        after_walk: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
    }

    impl Engine for Overtaken {
        fn info(&self) -> &'static Info {
            self.engine.info()
        }

        fn key_limits(&self) -> (usize, usize) {
            self.engine.key_limits()
        }

        fn is_memory_only(&self) -> bool {
            true
        }

        fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> engine::Result<()> {
            self.engine.read(keys, visit)
        }

        fn write(&self, batch: &Batch<'_>, sync: bool) -> engine::Result<()> {
            self.engine.write(batch, sync)
        }

        fn set_fsync(&self, _: Fsync) -> engine::Result<()> {
            Ok(())
        }

        fn sync(&self) -> engine::Result<()> {
            Ok(())
        }

        fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> engine::Result<()> {
            self.engine.scan(range, visit)
        }

        fn scan_step(&self, position: u64, visit: &mut VisitPair<'_>) -> engine::Result<u64> {
            let next = self.engine.scan_step(position, visit)?;
            if let Some(commit) = self.after_walk.get() {
                commit();
            }
            Ok(next)
        }

        fn count(&self) -> engine::Result<u64> {
            self.engine.count()
        }

        fn disk_size(&self) -> engine::Result<u64> {
            self.engine.disk_size()
        }

        fn close(&self) -> engine::Result<()> {
            self.engine.close()
        }
    }

    /// Creates a store whose scan reads the key with the expiration time `read`, before a commit sets it to
    /// `committed`.
    fn overtaken(read: u64, committed: u64) -> Arc<Store> {
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let engine = Kind::find("map").unwrap().open(&options).unwrap();
        let after_walk = Arc::new(OnceLock::<Box<dyn Fn() + Send + Sync>>::new());
        let overtaken = Overtaken { engine, after_walk: Arc::clone(&after_walk) };
        let store = Arc::new(Store::new(Box::new(overtaken), Fsync::No));
        commit(&store, |txn| txn.put_with_expiration(KEY, b"value", read)).unwrap();
        // A restart forgets the index.
        store.expiry.lock().forget_all();
        let weak = Arc::downgrade(&store);
        let put = move |txn: &mut Txn<'_>| txn.put_with_expiration(KEY, b"value", committed);
        let commit = move || commit(&weak.upgrade().unwrap(), put).unwrap();
        assert!(after_walk.set(Box::new(commit)).is_ok());
        let mut walk = Some(IncrementalScan::default());
        while let Some(next) = walk {
            store.scan_step(next).unwrap();
            walk = store.expiry.lock().walk.take();
        }
        store
    }

    fn recorded(store: &Store) -> Option<u64> {
        let index = store.expiry.lock();
        assert_eq!(index.order.len(), index.deadlines.len());
        index.deadlines.get(KEY).copied()
    }

    /// Takes the one key that is due at `now`, and removes it if its value has really expired. Returns the number of
    /// values removed so far.
    fn remove_due(store: &Store, now: u64) -> u64 {
        let due = store.expiry.lock().take_due(now);
        assert_eq!(due.len(), 1);
        store.remove(due).unwrap();
        store.expiry.removed()
    }

    #[test]
    fn walk_does_not_replace_an_expiration_time_by_a_later_one() {
        assert_eq!(recorded(&overtaken(LATER, SOON)), Some(SOON));
    }

    #[test]
    fn removal_that_finds_a_value_alive_records_its_expiration_time() {
        let store = overtaken(SOON, LATER);
        // The scan has read an outdated expiration time.
        assert_eq!(remove_due(&store, SOON), 0);
        assert_eq!(recorded(&store), Some(LATER));
        // The clock was ahead, and is set back.
        assert_eq!(remove_due(&store, LATER), 0);
        assert_eq!(recorded(&store), Some(LATER));
    }

    #[test]
    fn clock_is_read_again_at_least_every_second() {
        for (milliseconds, expected) in [(0, PAUSE), (500, Duration::from_millis(500)), (LATER, MAX_WAIT)] {
            assert_eq!(time_to_wait(SOON + milliseconds, SOON), expected);
        }
    }

    #[test]
    fn removal_does_not_record_values_that_do_not_expire() {
        let store = overtaken(SOON, 0);
        assert_eq!(remove_due(&store, SOON), 0);
        assert_eq!(recorded(&store), None);
    }
}
