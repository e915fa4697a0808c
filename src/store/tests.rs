//! Tests of failing writes and slow syncs, over engines made for them.

use super::{CommitQueue, Database, Error, Store, Txn, Watch, Work, sync_state::SyncTracker};
use crate::engine::{
    self, Batch, Engine, Fsync, Info, KeyRange, Kind, Location, OpenOptions, VisitEach, VisitPair, VisitValue,
};
use std::{
    collections::HashSet,
    fs,
    io::Write,
    ops::ControlFlow,
    path::Path,
    slice,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

/// Engine for tests: a map in memory, with a limit on write batches, syncs that the test ends, and faults.
struct Limited {
    engine: Box<dyn Engine>,
    /// Maximum size of a write batch in bytes; a larger one fails as on a full disk.
    room: usize,
    writes: Arc<AtomicUsize>,
    /// Channels to the test: for each sync, one announces its start, and the other receives the outcome with which
    /// it ends.
    syncs: Option<Mutex<(Sender<()>, Receiver<Outcome>)>>,
    /// `true` if all reads of the test engine fail.
    unreadable: bool,
    /// Function that returns the error that scans report for the value of the key `victim`; `None` for no error.
    victim: Option<fn() -> engine::Error>,
}

enum Outcome {
    Good,
    Failed,
    Panicked,
}

impl Limited {
    fn new(room: usize) -> Self {
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let engine = Kind::find("map").unwrap().open(&options).unwrap();
        Self { engine, room, writes: Arc::default(), syncs: None, unreadable: false, victim: None }
    }
}

impl Engine for Limited {
    fn info(&self) -> &'static Info {
        self.engine.info()
    }

    fn key_limits(&self) -> (usize, usize) {
        self.engine.key_limits()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> engine::Result<()> {
        if self.unreadable {
            return Err(engine::Error::Library { engine: "limited", message: "unreadable".into() });
        }
        self.engine.read(keys, visit)
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> engine::Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        if batch.bytes() > self.room {
            return Err(engine::Error::Full { engine: "limited", detail: "too small".into() });
        }
        self.engine.write(batch, sync)
    }

    fn set_fsync(&self, _: Fsync) -> engine::Result<()> {
        Ok(())
    }

    fn sync(&self) -> engine::Result<()> {
        let Some(syncs) = &self.syncs else { return Ok(()) };
        let syncs = syncs.lock().unwrap();
        syncs.0.send(()).unwrap();
        match syncs.1.recv().unwrap() {
            Outcome::Good => Ok(()),
            Outcome::Failed => {
                Err(engine::Error::Library { engine: "limited", message: "the disk is gone".into() })
            }
            Outcome::Panicked => panic!("on purpose"),
        }
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> engine::Result<()> {
        self.engine.scan(range, visit)
    }

    fn scan_each(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> engine::Result<()> {
        self.engine.scan_each(range, &mut |key, value| match self.victim {
            Some(error) if key == b"victim" => visit(key, Err(error().of_value(0, key, true))),
            _ => visit(key, value),
        })
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

/// Commit request that sets one key if it is absent, and keeps the outcome.
#[derive(Clone, Debug, Default, PartialEq)]
struct SetNew {
    key: String,
    value: Vec<u8>,
    reply: Option<Result<bool, String>>,
}

fn set_new(key: impl Into<String>, len: usize) -> SetNew {
    SetNew { key: key.into(), value: vec![b'v'; len], reply: None }
}

impl Work for SetNew {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        let (key, value) = (self.key.as_bytes(), &self.value);
        let outcome = txn.contains(key).and_then(|is_there| match is_there {
            true => Ok(false),
            false => txn.put(key, value).map(|()| true),
        });
        self.reply = Some(outcome.map_err(|error| error.to_string()));
    }

    fn fail(&mut self, error: &Error) {
        self.reply = Some(Err(error.to_string()));
    }

    fn bytes(&self) -> usize {
        self.value.len()
    }
}

/// Commit request whose commands are the closure `call`.
struct Call<F, R> {
    call: F,
    /// Outcome of the last call of the closure, or the error of the commit.
    outcome: Option<Result<R, String>>,
}

impl<F: FnMut(&mut Txn<'_>) -> Result<R, Error> + Send, R: Send> Work for Call<F, R> {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        self.outcome = Some((self.call)(txn).map_err(|error| error.to_string()));
    }

    fn fail(&mut self, error: &Error) {
        self.outcome = Some(Err(error.to_string()));
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Executes `call` as the only commit request of a commit group, and returns its outcome, or the error of the
/// commit.
pub(super) fn commit<R: Send>(
    store: &Store,
    call: impl FnMut(&mut Txn<'_>) -> Result<R, Error> + Send,
) -> Result<R, String> {
    let mut work = Call { call, outcome: None };
    store.commit(slice::from_mut(&mut work));
    work.outcome.unwrap()
}

/// Returns a store over `map`, in memory, with `keys` keys.
pub(super) fn map_store_with(keys: u32) -> Store {
    let options = OpenOptions::new(Location::Memory, Fsync::No);
    let store = Store::new(Kind::find("map").unwrap().open(&options).unwrap(), Fsync::No);
    commit(&store, |txn| {
        (0..keys).try_for_each(|key| txn.put(txn.copy_to_arena(&key.to_be_bytes()), b"value"))
    })
    .unwrap();
    store
}

/// Returns a `bitcask` store with `keys` keys that have an expiration time. Their values are corrupt, so that
/// [`Store::corrupt_reads`] counts how many of them were read.
pub(super) fn store_of_corrupt_values(directory: &Path, keys: u32) -> Store {
    const VALUE: &[u8] = b"once readable";
    let path = directory.join("data");
    let options = OpenOptions::new(Location::Path(path.clone()), Fsync::No);
    let store = Store::new(Kind::find("bitcask").unwrap().open(&options).unwrap(), Fsync::No);
    commit(&store, |txn| {
        (0..keys).try_for_each(|key| {
            txn.put_with_expiration(txn.copy_to_arena(&key.to_be_bytes()), VALUE, 1 << 45)
        })
    })
    .unwrap();
    // Waits for the background thread, which reads the files too.
    store.engine().quiesce().unwrap();
    let mut corrupted = 0;
    for entry in fs::read_dir(&path).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "segment") {
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            if bytes[at..].starts_with(VALUE) {
                bytes[at] ^= 1;
                corrupted += 1;
            }
        }
        // The engine has the file open, and may have locked it: other bytes stay as they are.
        fs::OpenOptions::new().write(true).open(&path).unwrap().write_all(&bytes).unwrap();
    }
    assert_eq!(corrupted, keys);
    store
}

fn value(store: &Store, key: &str) -> Option<usize> {
    let mut len = None;
    store
        .read(&[key.as_bytes()], &mut |_, value| {
            len = value.map(<[u8]>::len);
            ControlFlow::Continue(())
        })
        .unwrap();
    len
}

#[test]
fn only_the_request_that_is_out_of_space_fails() {
    for guilty in [0, 1, 9, 19] {
        let store = Store::new(Box::new(Limited::new(1000)), Fsync::Always);
        let mut group: Vec<_> = (0..20).map(|n| set_new(format!("key-{n}"), 10)).collect();
        group[guilty].value = vec![b'v'; 2000];
        store.commit(&mut group);
        for (n, part) in group.iter().enumerate() {
            match &part.reply {
                Some(Ok(true)) if n != guilty => assert_eq!(value(&store, &part.key), Some(10)),
                Some(Err(text)) if n == guilty => {
                    assert!(text.contains("is full"), "{text}");
                    assert_eq!(value(&store, &part.key), None);
                }
                other => panic!("{n} with {guilty} guilty: {other:?}"),
            }
        }
        assert_eq!(store.read_only_cause(), None);
    }
}

#[test]
fn parts_see_what_those_before_them_did_in_the_second_try_only() {
    let store = Store::new(Box::new(Limited::new(1000)), Fsync::Always);
    // The second request is out of space, so the third is the first to set the key.
    let mut group = [set_new("other", 1), set_new("key", 2000), set_new("key", 7), set_new("key", 8)];
    store.commit(&mut group);
    let replies = group.map(|part| part.reply.unwrap());
    assert!(replies[1].is_err(), "{replies:?}");
    assert_eq!([&replies[0], &replies[2], &replies[3]], [&Ok(true), &Ok(true), &Ok(false)]);
    assert_eq!(value(&store, "key"), Some(7));
}

#[test]
fn a_guilty_part_costs_few_tries() {
    let engine = Limited::new(30_000);
    let writes = engine.writes.clone();
    let store = Store::new(Box::new(engine), Fsync::Always);
    let mut group: Vec<_> = (0..1024).map(|n| set_new(format!("key-{n}"), 10)).collect();
    group[700].value = vec![b'v'; 40_000];
    store.commit(&mut group);
    assert_eq!(group.iter().filter(|part| part.reply.as_ref().unwrap().is_err()).count(), 1);
    assert_eq!(writes.load(Ordering::Relaxed), 1 + 2 * 10);
}

#[test]
fn a_short_commit_does_not_wait_for_a_long_one() {
    let store = Store::new(Box::new(Limited::new(1 << 20)), Fsync::No);
    let mut short = set_new("key", 2);
    // Another commit runs, for which the long one waits.
    let running = store.writer.lock().unwrap();
    thread::scope(|scope| {
        let long = scope.spawn(|| store.commit_long(&mut [set_new("key", 1)]));
        while store.long.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert!(!store.commit_short(&mut short));
        assert_eq!(short.reply, None);
        drop(running);
        long.join().unwrap();
    });
    assert!(store.commit_short(&mut short));
    assert_eq!((short.reply, value(&store, "key")), (Some(Ok(false)), Some(1)));
}

#[test]
fn a_long_commit_lets_a_short_one_go_first_that_already_waits() {
    let store = Store::new(Box::new(Limited::new(1 << 20)), Fsync::No);
    let (mut long, mut short) = ([set_new("key", 1)], [set_new("key", 2)]);
    store.short_waiting.fetch_add(1, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| store.commit_long(&mut long));
        while store.long.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        store.commit(&mut short);
        store.short_waiting.fetch_sub(1, Ordering::SeqCst);
    });
    assert_eq!((&short[0].reply, &long[0].reply), (&Some(Ok(true)), &Some(Ok(false))));
}

#[test]
fn a_group_that_copies_large_values_is_several_commits() {
    const SIZE: usize = 8 << 20;
    let engine = Limited::new(usize::MAX);
    let writes = engine.writes.clone();
    let store = Store::new(Box::new(engine), Fsync::No);
    let count_up = |txn: &mut Txn<'_>| -> Result<u8, Error> {
        let mut value = txn.read(b"key", |value| value.map_or_else(|| vec![0; SIZE], Vec::from))?;
        value[0] += 1;
        txn.put(b"key", txn.copy_to_arena(&value))?;
        Ok(value[0])
    };
    let mut group: Vec<_> = (0..20).map(|_| Call { call: count_up, outcome: None }).collect();
    store.commit(&mut group);
    let outcomes: Vec<_> = group.into_iter().map(|work| work.outcome.unwrap().unwrap()).collect();
    assert_eq!(outcomes, (1..=20).collect::<Vec<u8>>(), "in order, and once");
    // At most four copies of 8 MiB each are below 32 MiB before the last one.
    let writes = writes.load(Ordering::Relaxed);
    assert!((5..=20).contains(&writes), "{writes} writes");
}

/// The other commit requests of its group are committed.
#[test]
fn a_transaction_that_copies_too_much_fails_alone() {
    let store = Store::new(Box::new(Limited::new(usize::MAX)), Fsync::No);
    let put = |key: u8| {
        let call = move |txn: &mut Txn<'_>| -> Result<(), Error> {
            txn.put(txn.copy_to_arena(&[key]), b"value")?;
            if key == 2 {
                txn.fail_too_large();
            }
            Ok(())
        };
        Call { call, outcome: None }
    };
    let mut group: Vec<_> = (0..5).map(put).collect();
    store.commit(&mut group);
    for (key, work) in (0..5).zip(group) {
        let is_there = commit(&store, move |txn| txn.contains(&[key])).unwrap();
        assert_eq!((work.outcome.unwrap().is_ok(), is_there), (key != 2, key != 2), "{key}");
    }
    assert_eq!(store.read_only_cause(), None);
}

/// What one commit request has read ends no commit of the group: its replies would not leave earlier.
#[test]
fn a_group_that_reads_large_values_is_one_commit() {
    let engine = Limited::new(usize::MAX);
    let writes = engine.writes.clone();
    let store = Store::new(Box::new(engine), Fsync::No);
    store.commit(&mut [set_new("large", 20 << 20)]);
    let before = writes.load(Ordering::Relaxed);
    let read_twice = |txn: &mut Txn<'_>| -> Result<(bool, bool), Error> {
        let was_reached = txn.has_reached_limit();
        for _ in 0..2 {
            txn.read(b"large", |_| ())?;
        }
        txn.put(b"key", b"value")?;
        Ok((was_reached, txn.has_reached_limit()))
    };
    let mut group: Vec<_> = (0..3).map(|_| Call { call: read_twice, outcome: None }).collect();
    store.commit(&mut group);
    for work in group {
        assert_eq!(work.outcome, Some(Ok((false, true))), "each commit request has a limit of its own");
    }
    assert_eq!(writes.load(Ordering::Relaxed) - before, 1);
}

/// Store under `everysec` with its commit thread; the test begins and ends its syncs.
struct Syncing {
    store: Arc<Store>,
    queue: Arc<CommitQueue<SetNew>>,
    committed: Receiver<SetNew>,
    begun: Receiver<()>,
    end: Sender<Outcome>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Syncing {
    fn start(limit: Duration) -> Self {
        let ((begin, begun), (end, ending)) = (channel(), channel());
        let mut engine = Limited::new(usize::MAX);
        engine.syncs = Some(Mutex::new((begin, ending)));
        let store = Arc::new(Store::new(Box::new(engine), Fsync::EverySec).with_max_unsynced(limit));
        let queue = Arc::new(CommitQueue::default());
        let (done, committed) = channel();
        let (target, source) = (store.clone(), queue.clone());
        let deliver =
            move |group: &mut Vec<SetNew>, _| group.drain(..).for_each(|part| done.send(part).unwrap());
        let committer = thread::spawn(move || source.run(&target, || 1, deliver));
        Self { store, queue, committed, begun, end, threads: vec![committer] }
    }

    fn submit(&self, key: &str) {
        if self.queue.push(set_new(key, 1)) {
            self.queue.wake();
        }
    }

    fn reply(&self) -> Result<bool, String> {
        self.committed.recv().unwrap().reply.unwrap()
    }

    fn set(&self, key: &str) -> Result<bool, String> {
        self.submit(key);
        self.reply()
    }

    /// Begins a sync on a thread of its own, as the timer of `everysec` does, and waits until the engine is syncing.
    fn begin(&mut self) {
        let store = self.store.clone();
        self.threads.push(thread::spawn(move || {
            store.sync_if_written();
        }));
        self.begun.recv().unwrap();
    }

    fn end(&mut self, outcome: Outcome) {
        self.end.send(outcome).unwrap();
        self.threads.pop().unwrap().join().unwrap();
    }

    fn wait_until_delayed(&self, times: u64) {
        while self.store.sync_state().unwrap().delays < times {
            thread::yield_now();
        }
        assert!(self.committed.try_recv().is_err(), "acknowledged though the sync has not ended");
    }

    fn stop(self) {
        self.queue.close();
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn writes_wait_for_a_sync_that_lasts_too_long() {
    let mut syncing = Syncing::start(Duration::ZERO);
    assert!(syncing.store.sync_state().unwrap().oldest_unsynced.is_none());
    for round in 1..=3 {
        let [before, during] = ["before", "during"].map(|word| format!("{word}-{round}"));
        assert_eq!(syncing.set(&before), Ok(true));
        syncing.begin();
        let first = syncing.store.sync_state().unwrap().oldest_unsynced.unwrap();
        syncing.submit(&during);
        syncing.wait_until_delayed(round);
        assert_eq!((value(&syncing.store, &before), value(&syncing.store, &during)), (Some(1), None));
        assert!(syncing.store.sync_state().unwrap().oldest_unsynced.unwrap() > first);
        syncing.end(Outcome::Good);
        assert_eq!(syncing.reply(), Ok(true));
        // The delayed write is not synced; the next sync covers it.
        let state = syncing.store.sync_state().unwrap();
        assert!(state.oldest_unsynced.is_some() && state.last_sync.is_some(), "{state:?}");
    }
    syncing.stop();
}

#[test]
fn writes_go_on_beside_a_sync_until_it_lasts_too_long() {
    let mut syncing = Syncing::start(Duration::MAX);
    assert_eq!(syncing.set("before"), Ok(true));
    syncing.begin();
    for n in 0..100 {
        assert_eq!(syncing.set(&n.to_string()), Ok(true));
    }
    assert_eq!(syncing.store.sync_state().unwrap().delays, 0);
    syncing.end(Outcome::Good);
    syncing.stop();
}

#[test]
fn writes_delayed_by_a_failed_sync_fail() {
    for outcome in [Outcome::Failed, Outcome::Panicked] {
        let mut syncing = Syncing::start(Duration::ZERO);
        assert_eq!(syncing.set("before"), Ok(true));
        syncing.begin();
        syncing.submit("during");
        syncing.wait_until_delayed(1);
        syncing.end(outcome);
        assert!(syncing.reply().is_err_and(|text| text.starts_with("MISCONF ")));
        assert_eq!(value(&syncing.store, "during"), None);
        assert!(syncing.store.read_only_cause().is_some());
        syncing.stop();
    }
}

#[test]
fn a_sync_covers_what_was_written_before_it_began() {
    let mut syncing = Syncing::start(Duration::MAX);
    // Without writes there is nothing to sync: this returns at once.
    syncing.store.sync_if_written();
    assert!(syncing.store.sync_state().unwrap().last_sync.is_none());
    syncing.set("first").unwrap();
    syncing.begin();
    syncing.set("second").unwrap();
    syncing.end(Outcome::Good);
    assert!(syncing.store.sync_state().unwrap().oldest_unsynced.is_some());
    syncing.begin();
    syncing.end(Outcome::Good);
    assert!(syncing.store.sync_state().unwrap().oldest_unsynced.is_none());
    syncing.store.sync_if_written();
    syncing.stop();
}

/// One sync ends the waits of all threads that began to wait before it, although more is written meanwhile.
#[test]
fn a_sync_ends_the_waits_that_began_before_it() {
    const THREADS: usize = 10;
    let tracker = SyncTracker::new(Duration::MAX);
    let (waiting, syncs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    tracker.note_write();
    let wait = || {
        let begun = tracker.begun();
        waiting.fetch_add(1, Ordering::Relaxed);
        tracker.sync_since(begun, || {
            tracker.note_write();
            syncs.fetch_add(1, Ordering::Relaxed);
            while waiting.load(Ordering::Relaxed) < THREADS {
                thread::yield_now();
            }
            Ok::<(), ()>(())
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(wait)).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
    });
    // The first sync covers only the threads that waited when it began; the second one covers the others.
    let syncs = syncs.load(Ordering::Relaxed);
    assert!(syncs <= 2, "{syncs} syncs");
}

/// A failed sync ends no wait with success: the thread that waited for it syncs itself.
#[test]
fn a_failed_sync_ends_no_other_wait() {
    let tracker = SyncTracker::new(Duration::MAX);
    tracker.note_write();
    let begun = tracker.begun();
    let fail = || {
        tracker.note_write();
        Err("the disk is gone")
    };
    assert_eq!(tracker.sync_since(begun, fail), Err("the disk is gone"));
    assert!(!tracker.has_synced_since(begun));
    assert_eq!(tracker.sync_since(begun, fail), Err("the disk is gone"));
    assert_eq!(tracker.sync_since(begun, || Ok::<(), ()>(())), Ok(()));
    assert!(tracker.has_synced_since(begun) && !tracker.has_synced_since(tracker.begun()));
}

#[test]
fn a_change_to_always_returns_when_everything_is_synced() {
    for (outcome, is_well) in [(Outcome::Good, true), (Outcome::Failed, false)] {
        let mut syncing = Syncing::start(Duration::MAX);
        syncing.set("first").unwrap();
        syncing.begin();
        syncing.set("second").unwrap();
        let store = syncing.store.clone();
        let change = thread::spawn(move || store.set_fsync(Fsync::Always).map_err(|error| error.to_string()));
        while syncing.store.fsync() != Fsync::Always {
            thread::yield_now();
        }
        syncing.end(Outcome::Good);
        // The first sync does not cover the second write.
        syncing.begun.recv().unwrap();
        assert!(!change.is_finished() && !syncing.store.is_synced());
        syncing.end.send(outcome).unwrap();
        assert_eq!(change.join().unwrap().is_ok(), is_well);
        assert_eq!(syncing.store.is_synced(), is_well);
        syncing.stop();
    }
}

#[test]
fn writes_under_no_are_synced_after_a_change_to_everysec() {
    let mut syncing = Syncing::start(Duration::ZERO);
    syncing.store.set_fsync(Fsync::No).unwrap();
    syncing.set("old").unwrap();
    // Under `no` a sync delays no write, however old the oldest unsynced write is.
    syncing.begin();
    assert_eq!(syncing.set("beside"), Ok(true));
    syncing.end(Outcome::Good);
    syncing.store.set_fsync(Fsync::EverySec).unwrap();
    assert!(syncing.store.sync_state().unwrap().oldest_unsynced.is_some());
    syncing.begin();
    syncing.end(Outcome::Good);
    assert!(syncing.store.is_synced());
    syncing.stop();
}

/// A store is read-only from the start if its marker records cannot be read, because they may exist.
#[test]
fn a_store_whose_records_cannot_be_read_takes_no_writes() {
    let limited = Limited { unreadable: true, ..Limited::new(usize::MAX) };
    let store = Store::new(Box::new(limited), Fsync::No);
    assert!(store.read_only_cause().is_some_and(|fault| fault.contains("unreadable")));
}

/// Own writes that were not committed, because a request of the group is out of space, do not count as changes of
/// a watched key; committed ones do.
#[test]
fn uncommitted_writes_do_not_modify_a_watched_key() {
    for clears in [false, true] {
        let store = Store::new(Box::new(Limited::new(100)), Fsync::No);
        commit(&store, |txn| txn.put(b"key", b"v")).unwrap();
        let watched = commit(&store, |txn| txn.watch(b"key", &HashSet::new())).unwrap();
        let watched = HashSet::from_iter(watched);
        let work = |length: usize| {
            let watched = &watched;
            let call = move |txn: &mut Txn<'_>| {
                let is_unchanged = txn.are_unchanged(watched)?;
                match clears {
                    true => txn.clear()?,
                    false => txn.put(b"key", b"own")?,
                }
                txn.put(b"value", txn.copy_to_arena(&vec![b'x'; length]))?;
                Ok(is_unchanged)
            };
            Call { call, outcome: None }
        };
        let mut group = [work(0), work(200)];
        store.commit(&mut group);
        let [first, second] = group.map(|work| work.outcome.unwrap());
        assert_eq!(first, Ok(true), "clears {clears}");
        assert!(second.is_err());
        let mut last = work(0);
        store.commit(slice::from_mut(&mut last));
        assert_eq!(last.outcome, Some(Ok(false)), "clears {clears}");
    }
}

/// Begins to watch the key `key`.
fn watch_key(txn: &mut Txn<'_>) -> Result<Watch, Error> {
    Ok(txn.watch(b"key", &HashSet::new())?.unwrap())
}

/// A commit that fails undoes its marks of a watched key. It leaves the key alone if all clients have unwatched it
/// since, and others watch it now, whatever the commit writes to it then.
#[test]
fn failed_commit_leaves_a_key_alone_that_is_watched_again() {
    for (writes_before, writes_after) in [(1, 0), (2, 1), (0, 1), (3, 3)] {
        let store = Store::new(Box::new(Limited::new(100)), Fsync::No);
        let (first, mut second) = (commit(&store, watch_key).unwrap(), None);
        let failed = commit(&store, |txn| {
            (0..writes_before).try_for_each(|_| txn.put(b"key", b"own"))?;
            store.unwatch(&first);
            second = Some(watch_key(txn)?);
            (0..writes_after).try_for_each(|_| txn.put(b"key", b"own"))?;
            txn.put(b"value", &[b'x'; 200])
        });
        assert!(failed.is_err());
        let watched = HashSet::from_iter(second);
        let is_unchanged = || commit(&store, |txn| txn.are_unchanged(&watched));
        assert_eq!(is_unchanged(), Ok(true), "{writes_before} {writes_after}");
        commit(&store, |txn| txn.put(b"key", b"v")).unwrap();
        assert_eq!(is_unchanged(), Ok(false), "{writes_before} {writes_after}");
    }
}

/// SWAPDB marks a moved value as corrupt only if its error means corruption; if its file just cannot be opened,
/// SWAPDB fails and changes nothing.
#[test]
fn swap_marks_a_value_as_corrupt_only_if_it_is() {
    let io = || engine::Error::io("open", "segment")(std::io::ErrorKind::PermissionDenied.into());
    let moved = || engine::Error::Moved { path: "segment".into() };
    let corrupt = || engine::Error::Library { engine: "limited", message: "wrong checksum".into() };
    for (victim, swaps) in [(io as fn() -> _, false), (moved, false), (corrupt, true)] {
        let store =
            Store::new(Box::new(Limited { victim: Some(victim), ..Limited::new(usize::MAX) }), Fsync::No);
        store.commit(&mut [set_new("victim", 10), set_new("other", 20)]);
        let swap = commit(&store, |txn| txn.swap_databases(Database::new(0), Database::new(1)));
        assert_eq!(swap.is_ok(), swaps, "{swap:?}");
        let expected = if swaps { [None, None] } else { [Some(10), Some(20)] };
        assert_eq!(["victim", "other"].map(|key| value(&store, key)), expected);
    }
}
