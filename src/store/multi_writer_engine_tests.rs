//! Tests of stores that share their data with other stores, over an engine made for them.

use super::{Database, Error, Keyspace, Store, Txn, Work, tests::commit};
use crate::engine::{
    self, Batch, Capabilities, Engine, Error as Failure, Family, Fsync, FsyncSupport, Info, KeyRange, Kind,
    Transaction, VisitPair, VisitValue, WriteOp, key_value_headers,
};
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, LazyLock, Mutex, MutexGuard},
    thread,
};

/// Values by key, each with the version of its last write. A removed key stays, without a value (`None`).
type Values = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

#[derive(Default)]
struct Data {
    now: u64,
    pub values: Values,
    /// Errors with which the next commits fail, in order.
    pub failures: VecDeque<Failure>,
    /// Pair that another client writes at the start of the next commit, so that the commit may conflict.
    meddling: Option<(Vec<u8>, Vec<u8>)>,
    pub commits: u64,
    /// Keys that each call of [`Transaction::prefetch`] has got, in the order of the calls.
    prefetched: Vec<Vec<Vec<u8>>>,
}

impl Data {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.now += 1;
        self.values.insert(key.into(), (self.now, value.map(Vec::from)));
    }
}

/// Engine for tests whose clones share their data, like stores of several processes.
#[derive(Clone, Default)]
struct Shared {
    data: Arc<Mutex<Data>>,
    /// `true` if the engine behaves like a Redis Cluster: the first byte of a key stands for its slot, and a commit
    /// over two slots fails.
    has_slots: bool,
}

static INFO: LazyLock<Info> = LazyLock::new(|| Info {
    name: "shared",
    family: Family::Cluster,
    capabilities: Capabilities { ordered: true, multi_writer: true, ..Capabilities::NONE },
    fsync: FsyncSupport::FixedAtOpen,
    caveats: &[],
    ..*Kind::find("btree").unwrap().info
});

static SLOTS: LazyLock<Info> = LazyLock::new(|| Info {
    family: Family::Slots,
    capabilities: Capabilities { multi_writer: true, hash_slots: true, ..Capabilities::NONE },
    ..*INFO
});

impl Shared {
    pub fn with_slots() -> Self {
        Self { has_slots: true, ..Self::default() }
    }

    pub fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap()
    }

    pub fn store(&self) -> Store {
        Store::new(Box::new(self.clone()), Fsync::Always)
    }

    fn start(&self) -> Snapshot {
        let data = self.data();
        Snapshot { shared: self.clone(), at: data.now, values: data.values.clone(), seen: HashSet::new() }
    }
}

struct Snapshot {
    shared: Shared,
    at: u64,
    values: Values,
    seen: HashSet<Vec<u8>>,
}

impl Transaction for Snapshot {
    fn read(&mut self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> engine::Result<()> {
        for (index, key) in keys.iter().enumerate() {
            self.seen.insert(key.to_vec());
            let value = self.values.get(*key).and_then(|(_, value)| value.as_deref());
            if visit(index, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn prefetch(&mut self, keys: &[&[u8]]) {
        self.shared.data().prefetched.push(keys.iter().map(|key| key.to_vec()).collect());
    }

    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> engine::Result<()> {
        for (key, (_, value)) in &self.values {
            if let Some(value) = value
                && range.contains(key)
                && visit(key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn commit(self: Box<Self>, batch: &Batch<'_>) -> engine::Result<()> {
        let written = batch.ops().iter().filter_map(|op| match *op {
            WriteOp::Put { key, .. } | WriteOp::Delete { key } => Some(key),
            WriteOp::Clear => None,
        });
        let slots: HashSet<_> =
            self.seen.iter().map(Vec::as_slice).chain(written).map(|key| self.shared.slot(key)).collect();
        if self.shared.has_slots && slots.len() > 1 {
            return Err(Failure::CrossSlot);
        }
        let mut data = self.shared.data();
        data.commits += 1;
        if let Some((key, value)) = data.meddling.take() {
            data.put(&key, Some(&value));
        }
        if let Some(failure) = data.failures.pop_front() {
            return Err(failure);
        }
        let (clear, ops) = batch.after_clear();
        let key = |op: &WriteOp<'_>| match *op {
            WriteOp::Put { key, .. } | WriteOp::Delete { key } => Some(key.to_vec()),
            WriteOp::Clear => None,
        };
        let mut keys = self.seen.into_iter().chain(ops.iter().filter_map(key));
        if keys.any(|key| data.values.get(&key).is_some_and(|(at, _)| *at > self.at)) {
            return Err(Failure::Conflict { engine: "shared", detail: "a test".into() });
        }
        if clear {
            let all: Vec<_> = data.values.keys().cloned().collect();
            all.iter().for_each(|key| data.put(key, None));
        }
        for op in ops {
            match *op {
                WriteOp::Put { key, value } => data.put(key, Some(value)),
                WriteOp::Delete { key } => data.put(key, None),
                WriteOp::Clear => {}
            }
        }
        Ok(())
    }
}

impl Engine for Shared {
    fn info(&self) -> &'static Info {
        if self.has_slots { &SLOTS } else { &INFO }
    }

    fn slot(&self, key: &[u8]) -> u16 {
        key_value_headers::key(key).and_then(|(_, key)| key.first()).copied().unwrap_or(0).into()
    }

    fn key_limits(&self) -> (usize, usize) {
        (0, 1000)
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> engine::Result<()> {
        self.start().read(keys, visit)
    }

    fn write(&self, batch: &Batch<'_>, _: bool) -> engine::Result<()> {
        Box::new(self.start()).commit(batch)
    }

    fn begin(&self) -> engine::Result<Option<Box<dyn Transaction + '_>>> {
        Ok(Some(Box::new(self.start())))
    }

    fn sync(&self) -> engine::Result<()> {
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> engine::Result<()> {
        self.start().scan(range, visit)
    }

    fn count(&self) -> engine::Result<u64> {
        Ok(self.data().values.values().filter(|(_, value)| value.is_some()).count() as u64)
    }

    fn disk_size(&self) -> engine::Result<u64> {
        Ok(0)
    }
}

/// Commit request that adds one to the number stored under `key`, and keeps the new number or the error.
#[derive(Default)]
struct Increment {
    key: &'static str,
    reply: Option<Result<u64, String>>,
}

fn increment(key: &'static str) -> Increment {
    Increment { key, reply: None }
}

impl Work for Increment {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        let key = self.key.as_bytes();
        let number =
            |value: Option<&[u8]>| value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
        let outcome = txn.read(key, number).and_then(|number| {
            let value = txn.copy_to_arena(&(number + 1).to_be_bytes());
            txn.put(key, value).map(|()| number + 1)
        });
        self.reply = Some(outcome.map_err(|error| error.to_string()));
    }

    fn keys_to_read(&self, keys: &mut Vec<Vec<u8>>) {
        keys.push(self.key.into());
    }

    fn fail(&mut self, error: &Error) {
        self.reply = Some(Err(error.to_string()));
    }

    fn bytes(&self) -> usize {
        self.key.len()
    }
}

/// Commits one increment for each of `keys`, all in one commit group, and returns the new numbers or errors.
fn add(store: &Store, keys: &[&'static str]) -> Vec<Result<u64, String>> {
    let mut group: Vec<_> = keys.iter().map(|key| increment(key)).collect();
    store.commit(&mut group);
    group.into_iter().map(|work| work.reply.unwrap()).collect()
}

#[test]
fn increments_of_two_stores_add_up() {
    const EACH: u64 = 300;
    let shared = Shared::default();
    let stores = [shared.store(), shared.store()];
    thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| (0..EACH).for_each(|_| drop(add(store, &["a", "b", "a"]))));
        }
    });
    assert_eq!(add(&stores[0], &["a", "b"]), [Ok(4 * EACH + 1), Ok(2 * EACH + 1)]);
}

#[test]
fn keys_that_a_group_reads_are_prefetched_together() {
    let shared = Shared::default();
    add(&shared.store(), &["a", "b", "a"]);
    assert_eq!(shared.data().prefetched, [["a", "b", "a"].map(|key| key.as_bytes().to_vec())]);
}

#[test]
fn keys_that_have_expired_are_prefetched_before_they_are_removed() {
    let shared = Shared::default();
    let store = shared.store();
    commit(&store, |txn| txn.put_with_expiration(b"key", b"", 1)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| store.run_active_expiration(|_| ()));
        while store.expiry().removed() == 0 {
            thread::yield_now();
        }
        store.expiry().stop();
    });
    assert_eq!(shared.data().prefetched, [[b"key".to_vec()]]);
}

#[test]
fn a_group_that_others_were_in_the_way_of_is_run_again_as_a_whole() {
    let shared = Shared::default();
    let store = shared.store();
    shared.data().meddling = Some((b"b".to_vec(), 10_u64.to_be_bytes().to_vec()));
    assert_eq!(add(&store, &["a", "b", "c"]), [Ok(1), Ok(11), Ok(1)]);
    assert_eq!(shared.data().commits, 2);
}

/// A commit conflicts also if another client changed a key that it has only read.
#[test]
fn commit_conflicts_if_a_read_key_was_changed() {
    let shared = Shared::default();
    shared.data().meddling = Some((b"key".to_vec(), b"".to_vec()));
    let put_if_absent = |txn: &mut Txn<'_>| match txn.contains(b"key")? {
        true => Ok(false),
        false => txn.put(b"other", b"").map(|()| true),
    };
    assert_eq!(commit(&shared.store(), put_if_absent), Ok(false));
    assert!(!shared.data().values.contains_key(&b"other"[..]));
}

#[test]
fn unavailable_engine_fails_one_group_and_accepts_the_next() {
    for failure in [
        Failure::Unavailable { engine: "shared", detail: "a test".into() },
        Failure::Unknown { engine: "shared", detail: "a test".into() },
    ] {
        let (shared, text) = (Shared::default(), failure.to_string());
        let store = shared.store();
        shared.data().failures.push_back(failure);
        for reply in add(&store, &["a", "b", "c"]) {
            assert!(reply.is_err_and(|error| error.contains(&text)));
        }
        assert_eq!(shared.data().commits, 1, "its halves were tried: {text}");
        assert_eq!(store.read_only_cause(), None);
        assert_eq!(add(&store, &["a"]), [Ok(1)]);
    }
}

#[test]
fn a_watched_key_is_changed_by_another_store() {
    let shared = Shared::default();
    let (store, other) = (shared.store(), shared.store());
    for (changes, unchanged) in [(0, true), (1, false)] {
        let watch = commit(&store, |txn| txn.watch(b"key", &HashSet::new())).unwrap();
        let watched = HashSet::from_iter(watch);
        (0..changes).for_each(|_| drop(add(&other, &["key"])));
        assert_eq!(commit(&store, |txn| txn.are_unchanged(&watched)), Ok(unchanged));
    }
}

/// Sets the key `key` to an empty value in the database with the index `number`.
fn put_in(store: &Store, number: u8) {
    let put = |txn: &mut Txn<'_>| {
        txn.select(Database::new(number));
        txn.put(b"key", b"")
    };
    commit(store, put).unwrap();
}

fn flush(store: &Store, number: u8) {
    let flush = |txn: &mut Txn<'_>| {
        txn.select(Database::new(number));
        txn.flush_database()
    };
    commit(store, flush).unwrap();
}

#[test]
fn clearing_a_database_keeps_the_databases_of_other_stores() {
    let shared = Shared::default();
    let (store, other) = (shared.store(), shared.store());
    let count = |number| store.view(Database::new(number)).count().unwrap();
    put_in(&store, 0);
    put_in(&other, 3);
    assert_eq!((count(0), count(3)), (1, 1));
    flush(&store, 0);
    assert_eq!((count(0), count(3)), (0, 1));
    flush(&other, 3);
    assert_eq!((count(0), count(3)), (0, 0));
}

/// Keys of three hash slots. Their increments are committed one after the other, in this order, because an
/// [`Increment`] does not name its slot.
const THREE_SLOTS: [&str; 3] = ["a", "i", "q"];

#[test]
fn with_hash_slots_only_the_conflicting_request_is_retried() {
    let shared = Shared::with_slots();
    let store = shared.store();
    shared.data().meddling = Some((b"a".to_vec(), 10_u64.to_be_bytes().to_vec()));
    assert_eq!(add(&store, &THREE_SLOTS), [Ok(11), Ok(1), Ok(1)]);
    assert_eq!(shared.data().commits, 4);
}

#[test]
fn with_hash_slots_a_failure_fails_one_request() {
    let shared = Shared::with_slots();
    let store = shared.store();
    shared.data().failures.push_back(Failure::Unavailable { engine: "shared", detail: "a test".into() });
    let replies = add(&store, &THREE_SLOTS);
    assert!(matches!(&replies[0], Err(error) if error.contains("a test")), "{replies:?}");
    assert_eq!(replies[1..], [Ok(1), Ok(1)]);
    assert_eq!((shared.data().commits, store.read_only_cause()), (3, None));
}

#[test]
fn increments_in_many_slots_of_two_stores_add_up() {
    const EACH: u64 = 100;
    let shared = Shared::with_slots();
    let (stores, keys) = ([shared.store(), shared.store()], ["a", "b", "c", "d", "a", "i"]);
    thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| (0..EACH).for_each(|_| drop(add(store, &keys))));
        }
    });
    let expected = [4 * EACH + 1, 2 * EACH + 1, 2 * EACH + 1].map(Ok);
    assert_eq!(add(&stores[0], &["a", "b", "i"]), expected);
}

#[test]
fn cross_slot_commit_fails_with_crossslot_and_writes_nothing() {
    let words = "CROSSSLOT Keys in request don't hash to the same slot";
    for (read, written, crosses) in [
        (&["a"][..], &["a1", "a2"][..], false),
        (&["a", "b"], &[], true),
        (&["a"], &["b"], true),
        (&[], &["a", "b"], true),
        (&["a", "a1"], &[], false),
    ] {
        let shared = Shared::with_slots();
        let store = shared.store();
        let outcome = commit(&store, |txn| {
            read.iter().try_for_each(|key| txn.contains(key.as_bytes()).map(drop))?;
            written.iter().try_for_each(|key| txn.put(key.as_bytes(), b""))
        });
        assert_eq!(outcome, if crosses { Err(words.into()) } else { Ok(()) }, "{read:?} {written:?}");
        assert!(!crosses || shared.data().values.is_empty());
        assert_eq!(store.read_only_cause(), None);
    }
}

#[test]
fn with_hash_slots_a_database_is_cleared_slot_by_slot() {
    let shared = Shared::with_slots();
    let store = shared.store();
    add(&store, &["a", "b", "c"]);
    put_in(&store, 3);
    let count = |space| store.view(Database::new(space)).count().unwrap();
    assert_eq!((count(0), count(3)), (3, 1));
    flush(&store, 0);
    assert_eq!((count(0), count(3)), (0, 1));
}

/// FLUSHDB modifies the watched keys of its database, and FLUSHALL those of all databases.
#[test]
fn with_hash_slots_watched_keys_of_other_databases_stay_unchanged() {
    let store = Shared::with_slots().store();
    let watched = [0, 3].map(|number| {
        let watch = commit(&store, |txn| {
            txn.select(Database::new(number));
            txn.watch(b"key", &HashSet::new())
        });
        HashSet::from_iter(watch.unwrap())
    });
    let unchanged = || watched.each_ref().map(|keys| commit(&store, |txn| txn.are_unchanged(keys)).unwrap());
    assert_eq!(unchanged(), [true, true]);
    flush(&store, 3);
    assert_eq!(unchanged(), [true, false]);
    commit(&store, |txn| txn.clear()).unwrap();
    assert_eq!(unchanged(), [false, false]);
}

/// Blind commit request that sets each key by a request of its own, and keeps the outcome of each request.
struct Puts {
    keys: &'static [&'static str],
    outcomes: Vec<Result<(), String>>,
}

impl Work for Puts {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        assert!(self.outcomes.is_empty(), "it is not run again");
        for key in self.keys {
            if !self.outcomes.is_empty() {
                assert!(txn.end_request());
            }
            self.outcomes.push(txn.put(key.as_bytes(), b"").map_err(|error| error.to_string()));
        }
    }

    fn fail(&mut self, error: &Error) {
        panic!("{error}");
    }

    fn fail_some(&mut self, outcomes: &[Result<(), Error>]) {
        self.outcomes =
            outcomes.iter().map(|outcome| outcome.as_ref().copied().map_err(ToString::to_string)).collect();
    }

    fn bytes(&self) -> usize {
        0
    }

    fn is_blind(&self) -> bool {
        true
    }
}

#[test]
fn requests_of_blind_works_are_committed_one_by_one() {
    let shared = Shared::with_slots();
    let store = shared.store();
    let puts = |keys| Puts { keys, outcomes: Vec::new() };
    let mut group = [puts(&["a", "b", "a1"]), puts(&["c"]), puts(&["d", "e"])];
    shared.data().failures.push_back(Failure::Unavailable { engine: "shared", detail: "a test".into() });
    store.commit(&mut group);
    let failed: Vec<Vec<_>> =
        group.iter().map(|work| work.outcomes.iter().map(Result::is_err).collect()).collect();
    assert_eq!(failed, [&[true, false, false][..], &[false], &[false, false]]);
    assert!(matches!(&group[0].outcomes[0], Err(error) if error.contains("a test")));
    assert_eq!((shared.data().commits, store.read_only_cause()), (6, None));
    let keys: Vec<_> = shared.data().values.keys().cloned().collect();
    assert_eq!(keys, ["a1", "b", "c", "d", "e"].map(|key| key.as_bytes().to_vec()));
}

#[test]
fn failure_that_leaves_it_unknown_what_was_written_stops_writes_of_blind_works() {
    let shared = Shared::with_slots();
    let store = shared.store();
    shared.data().failures.push_back(Failure::Library { engine: "shared", message: "a test".into() });
    store.commit(&mut [Puts { keys: &["a", "b"], outcomes: Vec::new() }]);
    assert!(store.read_only_cause().is_some_and(|fault| fault.contains("a test")));
}
