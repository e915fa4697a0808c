//! Tests of the division of requests into steps, and of what a worker executes itself.

use super::{
    commit_request::CommitRequest,
    read_step::{key_chunks, read, read_group, read_on_worker},
    request_batch::RequestBatch,
    step_planner::{ClientMode, Step, next_step},
    transaction::Transaction,
};
use crate::{
    command::{self, CommandTable, KeyHits, Progress},
    engine::{
        self, Batch, Capabilities, Engine, Fsync, Info, KeyRange, Kind, Location, OpenOptions, VisitPair,
        VisitValue,
    },
    resp::{Decoder, Limits},
    store::{Database, Store, Work},
};
use std::{
    ops::ControlFlow,
    slice,
    sync::{Arc, LazyLock, Mutex, mpsc},
};
use tokio::{runtime::Builder, task::spawn_blocking};

/// Returns a request batch that has received the bytes `requests` and decoded them.
fn received(requests: &str) -> RequestBatch {
    let mut batch = RequestBatch::new();
    batch.input.extend(requests.as_bytes());
    Decoder::new(Limits::default()).decode(&mut batch.input, &mut batch.requests).unwrap();
    batch.look_up(&CommandTable::without(&[]), &store_with(&[]), Database::default());
    batch
}

fn store_with(values: &[(&[u8], usize)]) -> Store {
    Store::new(engine_with(values), Fsync::No)
}

fn engine_with(values: &[(&[u8], usize)]) -> Box<dyn Engine> {
    let options = OpenOptions::new(Location::Memory, Fsync::No);
    let engine = Kind::find("map").unwrap().open(&options).unwrap();
    let values: Vec<_> = values.iter().map(|(key, len)| (*key, vec![b'v'; *len])).collect();
    let mut batch = Batch::default();
    values.iter().for_each(|(key, value)| batch.put(key, value));
    engine.write(&batch, false).unwrap();
    engine
}

/// Returns the requests of `batch` that a client in the state `mode` would execute together next.
fn step_in(mode: ClientMode, batch: &RequestBatch, store: &Store) -> Option<Step> {
    next_step(batch, (mode, Database::default()), None, store)
}

fn step(batch: &RequestBatch, store: &Store) -> Step {
    step_in(ClientMode::Normal, batch, store).unwrap()
}

/// Returns the steps into which the requests of a client in the state `mode` are divided: the kind of each step, and
/// the number of its requests. Nothing is executed.
fn plan(mode: ClientMode, requests: &str) -> Vec<(String, usize)> {
    plan_within(None, mode, requests)
}

/// Returns the steps of a client as [`plan`] does, with its open transaction, if any.
fn plan_within(transaction: Option<&Transaction>, mode: ClientMode, requests: &str) -> Vec<(String, usize)> {
    let (store, mut batch, mut steps) = (store_with(&[]), received(requests), Vec::new());
    while let Some(step) = next_step(&batch, (mode, Database::default()), transaction, &store) {
        let kind = format!("{:?}", step.kind);
        let name = kind.split('(').next().unwrap_or_default().to_owned();
        steps.push((if step.is_large { format!("large {name}") } else { name }, step.requests.len()));
        batch.next = step.requests.end;
    }
    steps
}

#[test]
fn requests_are_divided_into_steps_before_they_run() {
    let large = "x".repeat(300 << 10);
    for (requests, steps) in [
        ("GET a\r\nMGET b c\r\nEXISTS d\r\n".into(), &[("Read", 3)][..]),
        // Reads before writes do not join a commit, and reads after them neither.
        ("GET a\r\nSET a 1\r\nGET a\r\nDEL a\r\nGET a\r\n".into(), &[("Read", 1), ("Write", 3), ("Read", 1)]),
        ("SET a 1\r\nFLUSHALL\r\nSET b 1\r\n".into(), &[("Write", 1), ("large Write", 1), ("Write", 1)]),
        // A read of a whole value counts if it is in the commit.
        (
            "SET a 1\r\nBITCOUNT a\r\nGET a\r\nDEL a\r\nBITCOUNT a\r\n".into(),
            &[("large Write", 4), ("Read", 1)],
        ),
        ("SET a 1\r\nGET a\r\nSET a 2\r\nBITPOS a 1\r\n".into(), &[("Write", 3), ("Read", 1)]),
        (format!("SET a 1\r\nSET b {large}\r\nGET a\r\n"), &[("Write", 1), ("large Write", 1), ("Read", 1)]),
        (format!("WATCH a {large}\r\nWATCH a\r\n"), &[("large Transaction", 1), ("Transaction", 1)]),
        (
            "PING\r\nKEYS *\r\nCOMMAND\r\nINFO\r\nLATENCY HISTOGRAM\r\nMULTI\r\nNONE\r\nGET\r\n".into(),
            &[
                ("Session", 1),
                ("Keyspace", 1),
                ("Commands", 1),
                ("Blocking", 1),
                ("Blocking", 1),
                ("Transaction", 1),
                ("Refuse", 1),
                ("Refuse", 1),
            ],
        ),
    ] {
        let found = plan(ClientMode::Normal, &requests);
        assert!(found.iter().map(|(kind, count)| (&**kind, *count)).eq(steps.iter().copied()), "{found:?}");
    }
}

/// Each BITCOUNT of a commit may read a value of any length, and other writes wait.
#[test]
fn a_commit_ends_after_much_that_it_has_read() {
    let store = store_with(&[(b"large", 20 << 20)]);
    let batch = received("SET a 1\r\nBITCOUNT large\r\nBITCOUNT large\r\nBITCOUNT large\r\nSET b 1\r\n");
    let planned = step(&batch, &store);
    assert_eq!(planned.requests, 0..5);
    let mut request = CommitRequest::new(Box::new(batch), planned, Progress::default(), None);
    store.commit(slice::from_mut(&mut request));
    assert_eq!(request.batch.next, 3);
}

/// SETNX, SET with NX or XX, RENAMENX and DEL need to know only whether a key exists.
#[test]
fn a_commit_does_not_end_after_values_that_no_command_looks_at() {
    let store = store_with(&[(b"large", 20 << 20)]);
    let batch = received(
        "SET a 1\r\nSETNX large x\r\nSETNX large x\r\nSET large x NX\r\nSET none x XX\r\nSET large x NX\r\n\
         RENAMENX a large\r\nDEL large\r\nSET b 1\r\n",
    );
    let planned = step(&batch, &store);
    let mut request = CommitRequest::new(Box::new(batch), planned, Progress::default(), None);
    store.commit(slice::from_mut(&mut request));
    assert_eq!(request.batch.next, 9);
    let replies = b"+OK\r\n:0\r\n:0\r\n$-1\r\n$-1\r\n$-1\r\n:0\r\n:1\r\n+OK\r\n";
    assert_eq!(request.batch.reply.bytes(), replies);
}

#[test]
fn a_read_ends_when_its_reply_has_become_too_long() {
    let store = store_with(&[(b"large", 2 << 20)]);
    let mut batch = received("SET a 1\r\nMGET large large large\r\nSET b 1\r\n");
    batch.reply.set_limit(1 << 20);
    let planned = step(&batch, &store);
    let mut request = CommitRequest::new(Box::new(batch), planned, Progress::default(), None);
    store.commit(slice::from_mut(&mut request));
    assert!(request.batch.reply.has_overflowed());
    assert_eq!((request.batch.next, request.batch.hits), (3, KeyHits { hits: 1, misses: 0 }));
}

/// Returns the transaction of a client that watches `count` keys.
fn watching(store: &Arc<Store>, count: usize) -> Box<Transaction> {
    let keys: String = (0..count).map(|number| format!(" {number}")).collect();
    let batch = Box::new(received(&format!("WATCH{keys}\r\n")));
    let mut transaction = Box::new(Transaction::new(store.clone()));
    transaction.job = transaction.step(command::Transaction::Watch).unwrap();
    let planned = step(&batch, store);
    let mut request = CommitRequest::new(batch, planned, Progress::default(), Some(transaction));
    store.commit(slice::from_mut(&mut request));
    assert_eq!(request.batch.reply.bytes(), b"+OK\r\n");
    let mut transaction = request.transaction.unwrap();
    transaction.finish();
    transaction
}

#[test]
fn exec_that_compares_many_watched_keys_is_large() {
    let store = Arc::new(store_with(&[]));
    for (count, is_large) in [(100, false), (5000, true)] {
        let mut transaction = watching(&store, count);
        transaction.step(command::Transaction::Multi).unwrap();
        let state = (ClientMode::Normal, Database::default());
        let planned = next_step(&received("EXEC\r\n"), state, Some(&transaction), &store).unwrap();
        assert_eq!(planned.is_large, is_large, "{count}");
    }
}

/// By UNWATCH, and when a connection ends: each key takes a lock.
#[test]
fn many_watched_keys_are_unwatched_on_a_blocking_thread() {
    let store = Arc::new(store_with(&[]));
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        for (count, waiting) in [(100, 0), (5000, 2)] {
            let (release, released) = mpsc::channel::<()>();
            // The only blocking thread is busy until the test releases it.
            let busy = spawn_blocking(move || released.recv());
            let (mut one, other) = (watching(&store, count), watching(&store, count));
            one.step(command::Transaction::Unwatch).unwrap();
            drop(other);
            assert_eq!(Arc::strong_count(&store), 2 + waiting, "the test, one client, and what waits");
            drop(release);
            assert!(busy.await.unwrap().is_err());
            spawn_blocking(|| ()).await.unwrap();
            assert_eq!(Arc::strong_count(&store), 2);
        }
    });
    // Without a runtime there is no worker that would wait.
    drop(watching(&store, 5000));
    assert_eq!(Arc::strong_count(&store), 1);
}

#[test]
fn the_state_of_a_client_decides_what_its_requests_do() {
    let requests = "GET a\r\nGET b\r\nSET a 1\r\nSET b 1\r\nEXEC\r\nUNWATCH\r\nRESET\r\nNONE\r\n";
    let mut open = Transaction::new(Arc::new(store_with(&[])));
    open.step(command::Transaction::Multi).unwrap();
    let kinds = |transaction, mode| {
        plan_within(transaction, mode, requests)
            .into_iter()
            .map(|(kind, count)| {
                assert_eq!(count, 1);
                kind
            })
            .collect::<Vec<_>>()
    };
    let ends = ["Transaction", "Transaction", "Session", "Refuse"];
    assert_eq!(kinds(None, ClientMode::OneByOne), [&["Read", "Read", "Write", "Write"][..], &ends].concat());
    let queued = [&["Queue", "Queue", "Queue", "Queue", "Transaction", "Queue"][..], &ends[2..]].concat();
    for mode in [ClientMode::Normal, ClientMode::OneByOne] {
        assert_eq!(kinds(Some(&open), mode), queued);
    }
    for transaction in [None, Some(&open)] {
        let found = kinds(transaction, ClientMode::BeforeAuth);
        assert_eq!(found, [&["NoAuth"; 6][..], &ends[2..]].concat());
    }
    // The password was set after MULTI.
    assert_eq!(plan_within(Some(&open), ClientMode::BeforeAuth, "AUTH p\r\n"), [("Queue".to_owned(), 1)]);
}

#[test]
fn the_keys_of_a_read_step_are_divided_once_each_in_order() {
    let store = store_with(&[]);
    let batch = received("GET a\r\nMGET b c d\r\nEXISTS e f\r\nSTRLEN g\r\nSET h 1\r\nGET i\r\n");
    let step = step(&batch, &store);
    for most in 0..10 {
        let chunks = key_chunks(&batch, &step, most);
        assert!(chunks.len() <= most.max(1), "{most}: {chunks:?}");
        assert!(
            chunks.iter().all(|chunk| chunk.len() <= 7_usize.div_ceil(most.max(1))),
            "{most}: {chunks:?}"
        );
        assert_eq!(chunks.concat(), [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]);
    }
}

/// Returns the stored keys that a commit request uses, and those that are prefetched for it.
fn keys_of_commit(request: &CommitRequest) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut to_read = Vec::new();
    request.keys_to_read(&mut to_read);
    (request.keys().unwrap(), to_read)
}

#[test]
fn a_commit_of_a_long_removal_lists_the_keys_that_it_removes() {
    let key = |number: usize| format!("{number}").into_bytes();
    let named: String = (0..3000).map(|number| format!(" {number}")).collect();
    let store = store_with(&[(b"0", 1), (b"1024", 1), (b"2999", 1)]);
    let mut batch = Box::new(received(&format!("SET a 1\r\nDEL{named}\r\nSET b 1\r\n")));
    let (mut progress, mut commits) = (Progress::default(), Vec::new());
    while batch.next < 3 {
        let step = step(&batch, &store);
        let mut request = CommitRequest::new(batch, step, progress, None);
        let listed = keys_of_commit(&request);
        store.commit(slice::from_mut(&mut request));
        assert_eq!(keys_of_commit(&request), listed, "the same keys if the commit is repeated");
        (batch, progress) = (request.batch, request.progress);
        commits.push(listed);
    }
    let removed = [0..1024, 1024..2048, 2048..3000].map(|range| range.map(key).collect::<Vec<_>>());
    let [first, second, third] = removed;
    let all =
        [[&[b"a".to_vec()], &first[..]].concat(), second.clone(), [&third[..], &[b"b".to_vec()]].concat()];
    assert!(commits.iter().map(|(keys, _)| keys).eq(&all));
    assert!(commits.iter().map(|(_, to_read)| to_read).eq(&[first, second, third]), "SET reads no key");
    assert_eq!(batch.reply.bytes(), b"+OK\r\n:3\r\n+OK\r\n");
}

#[test]
fn a_worker_goes_over_few_long_values() {
    let store = store_with(&[(b"long", 300 << 10)]);
    let mut batch = received(&"BITCOUNT long\r\n".repeat(20));
    let step = step(&batch, &store);
    assert_eq!(read_on_worker(&mut batch, &step, &store), (6, true));
    assert_eq!(read(&mut batch, &step, &store), 14);
    assert_eq!((batch.next, batch.hits.hits), (20, 20));
}

#[test]
fn a_worker_copies_no_long_replies() {
    const REPLY_BYTES: usize = 3 << 20;
    let store = store_with(&[(b"short", 5), (b"long", REPLY_BYTES)]);
    let mut batch = received("GET short\r\nMGET short short long\r\nGET short\r\n");
    let all = step(&batch, &store);
    let short = b"$5\r\nvvvvv\r\n";
    assert_eq!(read_on_worker(&mut batch, &all, &store), (1, true));
    assert_eq!(batch.reply.bytes(), short);
    // The request with the long value; its reply is sent before the next request is executed.
    assert_eq!(read(&mut batch, &all, &store), 1);
    assert_eq!(
        batch.reply.len(),
        REPLY_BYTES + short.len() * 3 + b"*3\r\n".len() + b"$3145728\r\n\r\n".len()
    );
    batch.reply.truncate(0);
    let last = step(&batch, &store);
    assert_eq!(read_on_worker(&mut batch, &last, &store), (1, false));
    assert_eq!(batch.reply.bytes(), short);
    assert!(step_in(ClientMode::Normal, &batch, &store).is_none());
}

/// Stand-in for an engine whose reads wait for the network.
struct Remote {
    engine: Box<dyn Engine>,
    /// Number of keys of each call of `read_now`.
    grouped: Arc<Mutex<Vec<usize>>>,
}

impl Engine for Remote {
    fn info(&self) -> &'static Info {
        static INFO: LazyLock<Info> = LazyLock::new(|| Info {
            name: "remote",
            capabilities: Capabilities { multi_writer: true, ..Capabilities::NONE },
            ..*Kind::find("map").unwrap().info
        });
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> engine::Result<()> {
        self.engine.read(keys, visit)
    }

    fn read_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        let mut values = Vec::new();
        let mut visit = |_: usize, value: Option<&[u8]>| {
            values.push(Some(value.map(Vec::from)));
            ControlFlow::Continue(())
        };
        self.read(keys, &mut visit).unwrap();
        self.grouped.lock().unwrap().push(values.len());
        values
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> engine::Result<()> {
        self.engine.write(batch, sync)
    }

    fn sync(&self) -> engine::Result<()> {
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> engine::Result<()> {
        self.engine.scan(range, visit)
    }

    fn count(&self) -> engine::Result<u64> {
        self.engine.count()
    }

    fn disk_size(&self) -> engine::Result<u64> {
        Ok(0)
    }
}

/// Executes in one grouped read `counts[i]` GETs of a value of 10 KiB for each connection `i`, whose replies are
/// limited to `limit` bytes (0: no limit). Returns the number of answered requests of each connection, and the
/// number of keys that were read together.
fn read_together(counts: &[usize], limit: usize) -> (Vec<usize>, usize) {
    let grouped = Arc::default();
    let engine = Remote { engine: engine_with(&[(b"k", 10 << 10)]), grouped: Arc::clone(&grouped) };
    let store = Store::new(Box::new(engine), Fsync::No);
    let request = |count: &usize| {
        let mut batch = Box::new(received(&"GET k\r\n".repeat(*count)));
        batch.reply.set_limit(limit);
        let step = step(&batch, &store);
        CommitRequest::new(batch, step, Progress::default(), None)
    };
    let mut group: Vec<_> = counts.iter().map(request).collect();
    read_group(&mut group, &store);
    let answered = group.iter().map(|request| request.batch.next).collect();
    let keys = grouped.lock().unwrap().iter().sum();
    // On its own, a step that was left unexecuted is read as far as the reply allows.
    for request in group.iter_mut().filter(|request| request.batch.next == 0) {
        let count = request.step.requests.len();
        assert_eq!(
            read(&mut request.batch, &request.step, &store),
            count.min(if limit == 0 { 1024 } else { 26 })
        );
    }
    (answered, keys)
}

#[test]
fn no_value_of_a_grouped_read_is_read_twice() {
    // 1,000 KiB of replies.
    assert_eq!(read_together(&[100, 1], 0), (vec![100, 1], 101));
    // Steps of many keys, of which a reply may hold a few, are not grouped.
    assert_eq!(read_together(&[1000, 16, 129], 0), (vec![0, 16, 0], 16));
}

#[test]
fn grouped_reads_respect_the_limit_of_the_reply_buffer() {
    assert_eq!(read_together(&[100, 200], 1 << 20), (vec![26, 0], 100));
}
