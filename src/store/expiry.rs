//! Active expiration: the removal of expired values.
//!
//! Commands treat a value as absent once its expiration time has passed: see
//! [`ExpirationClock`](super::ExpirationClock). This file removes it from the engine. Future expiration times are
//! kept in memory, the earliest ones first, up to a limit; those that are not kept, or that are older than the last
//! restart, are found by a slow incremental scan of all keys. The scan also removes values that have expired when it
//! visits them. The commit that removes a value first checks its expiration time again.
//!
//! A store in which no value ever had an expiration time has neither the scan nor the marker record that requests
//! it. If other processes may write to the same data, every start requests the scan.

use super::{Entry, Error, Store, Txn, Work, expiration_clock::Expires, incremental_scan::IncrementalScan};
use crate::engine::key_value_headers;
use hashbrown::HashMap;
use log::Level;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum memory in bytes for the kept expiration times with their keys, including [`OVERHEAD`] for each.
const MAX_KEY_MEMORY: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Maximum length in bytes of a stored key whose expiration time is kept, so that one key displaces few others.
const MAX_KEPT_KEY: usize = MAX_KEY_MEMORY / 64;

/// Estimated memory per expiration time that active expiration keeps, in bytes, without the key.
const OVERHEAD: usize = 96;

/// Maximum number of keys that one commit of active expiration removes, and number of keys that a step of its scan
/// visits.
const STEP: usize = 1024;

/// Minimum time in milliseconds from the start of a scan of all keys to the start of the next one, unless memory for
/// more expiration times is free.
const MIN_SCAN_INTERVAL: u64 = 60_000;

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
    /// `true` if a new scan of all keys must find expiration times of stored values that are not kept in memory, and
    /// starts as soon as half of the memory is free; a running scan does not count.
    incomplete: bool,
    /// Earliest expiration time that is not kept in memory, in milliseconds since 1970 (0: unknown), or `None` if all
    /// of them are kept or left to the running scan. A new scan starts when that time has passed, even if no memory is
    /// free.
    missed: Option<u64>,
    /// Earliest time in milliseconds since 1970 at which a scan may start because `missed` has passed.
    scan_not_before: u64,
    scan: Option<IncrementalScan>,
    /// `true` if a step of a running scan comes before the next removal.
    is_scan_next: bool,
    /// `true` if a scan of all keys has ended: it has logged all values that cannot be read, so later scans log them
    /// only at the level debug.
    has_scanned_all: bool,
    stopped: bool,
}

/// Next job of the thread that removes expired values.
enum ExpiryJob {
    Remove(Vec<Arc<[u8]>>),
    Scan(IncrementalScan),
    Stop,
}

impl Index {
    /// Records the expiration time `deadline` of `key`, in place of an earlier one. Above [`MAX_KEY_MEMORY`], the
    /// latest expiration times, maybe this one, are forgotten, and the index becomes incomplete. That of a key longer
    /// than [`MAX_KEPT_KEY`] is left to a scan. Returns `true` if `deadline` is new for the key and now the earliest
    /// of all: the thread that removes expired values must then be woken.
    fn add(&mut self, deadline: u64, key: &[u8]) -> bool {
        if key.len() > MAX_KEPT_KEY {
            return self.miss(deadline);
        }
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
            && let Some((latest, key)) = self.order.pop_last()
        {
            self.incomplete = true;
            self.miss(latest);
            self.forget(&key);
        }
        self.order.first().is_some_and(|(first, _)| *first == deadline)
    }

    /// Requests a scan for the expiration time `deadline`, which is not kept, once it has passed. Returns `true` if it
    /// is the earliest expiration time that is not kept.
    fn miss(&mut self, deadline: u64) -> bool {
        let is_earliest = self.missed.is_none_or(|missed| deadline < missed);
        if is_earliest {
            self.missed = Some(deadline);
        }
        is_earliest
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
        *self = Self::default();
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

    /// Returns the time in milliseconds since 1970 from which a scan must look for expired values whose expiration
    /// times are not kept, or `None` if there are no such values.
    fn next_scan(&self) -> Option<u64> {
        self.missed.map(|missed| missed.max(self.scan_not_before))
    }

    /// Returns the job of the thread that removes expired values at the time `now`, in milliseconds since 1970, or
    /// `None` if the thread has nothing to do yet. Removals and steps of a running scan alternate, so that the scan
    /// advances even if values expire all the time. Only after a removal of [`STEP`] keys the next removal comes first.
    fn next_job(&mut self, now: u64) -> Option<ExpiryJob> {
        if self.stopped {
            return Some(ExpiryJob::Stop);
        }
        // The clock may have been set back since the last scan.
        self.scan_not_before = self.scan_not_before.min(now.saturating_add(MIN_SCAN_INTERVAL));
        let has_room = self.incomplete && self.bytes <= MAX_KEY_MEMORY / 2;
        if self.scan.is_none() && (has_room || self.next_scan().is_some_and(|time| time <= now)) {
            (self.incomplete, self.missed) = (false, None);
            self.scan_not_before = now.saturating_add(MIN_SCAN_INTERVAL);
            self.scan = Some(IncrementalScan::default());
        }
        if mem::take(&mut self.is_scan_next)
            && let Some(scan) = self.scan.take()
        {
            return Some(ExpiryJob::Scan(scan));
        }
        let due = self.take_due(now);
        if due.is_empty() {
            return self.scan.take().map(ExpiryJob::Scan);
        }
        self.is_scan_next = due.len() < STEP;
        Some(ExpiryJob::Remove(due))
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
        let mut index = self.lock();
        index.incomplete = true;
        index.miss(0);
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
            if let Some(job) = index.next_job(now) {
                return job;
            }
            let first = index.order.first().map(|(deadline, _)| *deadline);
            index = match first.into_iter().chain(index.next_scan()).min() {
                None => self.wake.wait(index).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let time = time_to_wait(next, now);
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

/// Returns for how long active expiration waits at the time `now` if its next job is due at `next`, both in
/// milliseconds since 1970.
fn time_to_wait(next: u64, now: u64) -> Duration {
    Duration::from_millis(next.saturating_sub(now)).clamp(PAUSE, MAX_WAIT)
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
                ExpiryJob::Scan(scan) => self.scan_expiration_times(scan),
            };
            note(begin.elapsed());
            if let Err(error) = &outcome {
                log::debug!("what has expired is not removed: {error}");
                if self.read_only_cause().is_some() {
                    return;
                }
                self.expiry.request_full_scan();
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

    /// Runs the next step of the scan of all keys. Removes the values that have expired, and keeps the later expiration
    /// times for active expiration.
    fn scan_expiration_times(&self, mut scan: IncrementalScan) -> Result<(), Error> {
        let now = super::ExpirationClock::default().now();
        let mut due: Vec<Arc<[u8]>> = Vec::new();
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let level = if self.expiry.lock().has_scanned_all { Level::Debug } else { Level::Warn };
        let step = scan.step(self, STEP, &mut |key, value| match value.map(key_value_headers::entry) {
            Ok(Entry { deadline: 0, .. }) => {}
            Ok(Entry { deadline, .. }) if deadline <= now => due.push(key.into()),
            Ok(Entry { deadline, .. }) => found.push((deadline, key.to_vec())),
            Err(error) => log::log!(level, "active expiration passes over a value: {error}"),
        });
        let more = match step {
            Err(Error::Engine(error)) if self.reads.is_corruption(&error) => {
                // The engine names no key. The keys that are skipped expire when a command reads them.
                if !scan.has_skipped() {
                    log::log!(level, "active expiration passes over some keys: {error}");
                }
                scan.skip()
            }
            step => step?,
        };
        let mut index = self.expiry.lock();
        index.has_scanned_all |= !more;
        for (deadline, key) in &found {
            index.add_read(*deadline, key);
        }
        index.scan = more.then_some(scan);
        drop(index);
        // An engine that cannot stop visits more keys in a step than one commit removes.
        let is_stopped = || self.expiry.lock().stopped;
        due.chunks(STEP).take_while(|_| !is_stopped()).try_for_each(|keys| self.remove(keys.to_vec()))
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
        after_scan: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
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
            if let Some(commit) = self.after_scan.get() {
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
        let after_scan = Arc::new(OnceLock::<Box<dyn Fn() + Send + Sync>>::new());
        let overtaken = Overtaken { engine, after_scan: Arc::clone(&after_scan) };
        let store = Arc::new(Store::new(Box::new(overtaken), Fsync::No));
        commit(&store, |txn| txn.put_with_expiration(KEY, b"value", read)).unwrap();
        // A restart forgets the index.
        store.expiry.lock().forget_all();
        let weak = Arc::downgrade(&store);
        let put = move |txn: &mut Txn<'_>| txn.put_with_expiration(KEY, b"value", committed);
        let commit = move || commit(&weak.upgrade().unwrap(), put).unwrap();
        assert!(after_scan.set(Box::new(commit)).is_ok());
        scan(&store);
        store
    }

    fn scan(store: &Store) {
        let mut scan = Some(IncrementalScan::default());
        while let Some(next) = scan {
            store.scan_expiration_times(next).unwrap();
            scan = store.expiry.lock().scan.take();
        }
    }

    /// Adds keys with expiration times from `SOON` on until memory for no further one is left. Returns the earliest
    /// expiration time that is not kept.
    fn fill(index: &mut Index) -> u64 {
        let mut deadline = SOON;
        while index.missed.is_none() {
            deadline += 1;
            index.add(deadline, &deadline.to_be_bytes());
        }
        assert!(index.bytes > MAX_KEY_MEMORY / 2);
        index.missed.unwrap()
    }

    fn is_scan(job: Option<ExpiryJob>) -> bool {
        matches!(job, Some(ExpiryJob::Scan(_)))
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
    fn scan_does_not_replace_an_expiration_time_by_a_later_one() {
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

    #[test]
    fn scan_goes_on_while_values_expire_all_the_time() {
        let expiry = Expiry::default();
        expiry.request_full_scan();
        for _ in 0..3 {
            expiry.add(&[(1, KEY)]);
            assert!(matches!(expiry.next(), ExpiryJob::Remove(_)));
            expiry.add(&[(1, KEY)]);
            let ExpiryJob::Scan(scan) = expiry.next() else { panic!("the scan has no turn") };
            expiry.lock().scan = Some(scan);
        }
    }

    #[test]
    fn scan_waits_for_removals_that_fall_behind() {
        let mut index = Index { scan: Some(IncrementalScan::default()), ..Index::default() };
        for number in 0..=STEP {
            index.add(SOON, &number.to_be_bytes());
        }
        for expected in [STEP, 1] {
            let Some(ExpiryJob::Remove(keys)) = index.next_job(SOON) else { panic!("no removal") };
            assert_eq!(keys.len(), expected);
        }
        assert!(is_scan(index.next_job(SOON)));
    }

    #[test]
    fn full_memory_does_not_keep_the_scan_from_finding_values_that_have_expired() {
        let mut index = Index::default();
        let missed = fill(&mut index);
        assert!(index.next_job(SOON).is_none());
        // Each value is set again when it has expired, so the memory stays full.
        while let Some(ExpiryJob::Remove(keys)) = index.next_job(missed - 1) {
            for key in keys {
                index.add(LATER, &key);
            }
        }
        assert!(index.bytes > MAX_KEY_MEMORY / 2);
        assert!(is_scan(index.next_job(missed)));
        assert!(index.next_job(missed).is_none());
    }

    #[test]
    fn scan_for_missed_expiration_times_starts_at_most_once_a_minute() {
        let mut index = Index::default();
        let missed = fill(&mut index);
        index.missed = Some(SOON);
        assert!(is_scan(index.next_job(SOON)));
        index.missed = Some(SOON);
        assert!(index.next_job(SOON).is_none());
        // The clock is set back, so the last scan was in the future.
        index.scan_not_before = missed + 2 * MIN_SCAN_INTERVAL;
        assert!(index.next_job(SOON - MIN_SCAN_INTERVAL).is_none());
        assert!(is_scan(index.next_job(SOON)));
    }

    #[test]
    fn scan_starts_when_half_of_the_memory_is_free() {
        let mut index = Index::default();
        fill(&mut index);
        let middle = SOON + u64::try_from(index.order.len() / 2).unwrap();
        while index.bytes > MAX_KEY_MEMORY / 2 {
            assert!(matches!(index.next_job(middle + 1), Some(ExpiryJob::Remove(_))));
        }
        assert!(is_scan(index.next_job(SOON)));
    }

    #[test]
    fn long_key_displaces_no_other_and_is_scanned_for_when_it_expires() {
        let mut index = Index::default();
        let long_key = vec![b'k'; MAX_KEY_MEMORY + 1];
        index.add(LATER, KEY);
        assert!(index.add(SOON, &long_key));
        assert_eq!(index.deadlines.keys().map(|key| &**key).collect::<Vec<_>>(), [KEY]);
        assert!(index.next_job(SOON - 1).is_none());
        assert!(is_scan(index.next_job(SOON)));
        assert!(index.next_job(SOON).is_none());
        // The scan finds an outdated expiration time again.
        index.add_read(SOON, &long_key);
        assert!(index.next_job(SOON + MIN_SCAN_INTERVAL - 1).is_none());
        assert!(is_scan(index.next_job(SOON + MIN_SCAN_INTERVAL)));
    }

    #[test]
    fn scan_removes_a_long_key_that_has_expired() {
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let engine = Kind::find("map").unwrap().open(&options).unwrap();
        let store = Store::new(engine, Fsync::No);
        let key = vec![b'k'; MAX_KEY_MEMORY + 1];
        commit(&store, |txn| txn.put_with_expiration(txn.copy_to_arena(&key), b"value", 1)).unwrap();
        scan(&store);
        assert_eq!(store.expiry.removed(), 1);
    }
}
