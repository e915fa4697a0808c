//! Tests of what a worker executes itself, and what it leaves to other threads.

use super::request_batch::{RequestBatch, StepKind};
use crate::{
    command::CommandTable,
    engine::{Batch, Engine, Fsync, Kind, Location, OpenOptions},
    resp::{Decoder, Limits},
    store::Store,
};
use std::slice;

fn in_memory() -> Box<dyn Engine> {
    let options = OpenOptions::new(Location::Memory, Fsync::No);
    Kind::find("map").unwrap().open(&options).unwrap()
}

/// Returns the request batch of a worker that has received `requests`.
fn received(requests: &str) -> Box<RequestBatch> {
    let mut exchange = Box::new(RequestBatch::new());
    exchange.input.extend(requests.as_bytes());
    Decoder::new(Limits::default()).decode(&mut exchange.input, &mut exchange.requests).unwrap();
    exchange.resolve(&CommandTable::without(&[]));
    exchange
}

#[test]
fn the_keys_of_a_read_run_are_shared_out_once_each_in_order() {
    let mut exchange = received("GET a\r\nMGET b c d\r\nEXISTS e f\r\nSTRLEN g\r\nSET h 1\r\nGET i\r\n");
    assert!(matches!(exchange.next_run(), Some(StepKind::Read)));
    for most in 0..10 {
        let parts = exchange.key_chunks(most);
        assert!(parts.len() <= most.max(1), "{most}: {parts:?}");
        assert!(parts.iter().all(|part| part.len() <= 7_usize.div_ceil(most.max(1))), "{most}: {parts:?}");
        assert_eq!(parts.concat(), [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]);
    }
}

/// Length of a value in bytes that is too large for a worker to copy in a write.
const LONG: usize = 300 << 10;

fn with_values() -> Store {
    let engine = in_memory();
    let mut batch = Batch::default();
    batch.put(b"short", b"value");
    let long = vec![b'v'; LONG];
    batch.put(b"long", &long);
    engine.write(&batch, false).unwrap();
    Store::new(engine, Fsync::No)
}

fn commit(store: &Store, exchange: &mut Box<RequestBatch>) {
    store.commit(slice::from_mut(exchange));
}

const ABOUT_A_VALUE: &[&str] = &[
    "APPEND long x",
    "BITFIELD long SET u8 0 1",
    "BITOP NOT none long",
    "COPY long none",
    "EXPIRE long 100",
    "GET long",
    "GETDEL long",
    "GETEX long EX 100",
    "GETSET long x",
    "INCR long",
    "MGET none long",
    "MOVE long 1",
    "PERSIST long",
    "RENAME long none",
    "RENAMENX long none",
    "SET long x GET",
    "SETBIT long 0 1",
    "SETRANGE long 0 x",
];

/// Requests that work on a large value.
const TO_A_LONG_VALUE: &[&str] =
    &["BITFIELD none SET u8 2400000 1", "SETBIT none 4294967295 1", "SETRANGE none 500000000 x"];

#[test]
fn a_worker_does_not_work_on_long_values() {
    for command in ABOUT_A_VALUE.iter().chain(TO_A_LONG_VALUE) {
        let (store, mut exchange) =
            (with_values(), received(&format!("SET a 1\r\n{command}\r\nSET b 1\r\n")));
        assert!(
            matches!(exchange.next_run(), Some(StepKind::Write)) && !exchange.is_next_large(),
            "{command}"
        );
        commit(&store, &mut exchange);
        assert_eq!((exchange.position(), exchange.reply.bytes()), (1, &b"+OK\r\n"[..]), "{command}");
        assert!(exchange.is_midway(), "{command}");
        assert!(matches!(exchange.next_run(), Some(StepKind::Read | StepKind::Write)), "{command}");
        assert!(exchange.is_next_large(), "{command}");
    }
}

#[test]
fn commands_on_short_values_share_a_commit() {
    for command in ABOUT_A_VALUE {
        let command = command.replace("long", "short");
        let (store, mut exchange) =
            (with_values(), received(&format!("SET a 1\r\n{command}\r\nSET b 1\r\n")));
        assert!(exchange.next_run().is_some());
        commit(&store, &mut exchange);
        assert_eq!(exchange.position(), 3, "{command}");
        assert!(!exchange.is_midway(), "{command}");
    }
}

#[test]
fn unfinished_requests_of_a_worker_are_executed_once() {
    let (store, mut exchange) =
        (with_values(), received("APPEND long x\r\nSTRLEN long\r\nAPPEND long x\r\n"));
    let mut runs = 0;
    while let Some(run) = exchange.next_run() {
        runs += 1;
        match (run, exchange.is_next_large()) {
            (StepKind::Write, true) => store.commit_long(slice::from_mut(&mut exchange)),
            (StepKind::Write, false) => commit(&store, &mut exchange),
            (_, _) => assert_eq!(exchange.read(&store), 1),
        }
    }
    let replies = format!(":{}\r\n:{}\r\n:{}\r\n", LONG + 1, LONG + 1, LONG + 2);
    assert_eq!(str::from_utf8(exchange.reply.bytes()), Ok(&*replies));
    // Each APPEND is found to work on a large value before it is executed.
    assert_eq!(runs, 5);
}

/// Each of the requests alone would be short enough.
#[test]
fn a_worker_goes_over_few_long_values() {
    let store = with_values();
    let mut exchange = received(&"BITCOUNT long\r\n".repeat(20));
    assert!(matches!(exchange.next_run(), Some(StepKind::Read)));
    assert_eq!(exchange.read_on_worker(&store), (6, true));
    assert_eq!(exchange.read(&store), 14);
}

#[test]
fn a_worker_copies_no_long_replies() {
    const LONG: usize = 3 << 20;
    let engine = in_memory();
    let mut batch = Batch::default();
    batch.put(b"short", b"value");
    let long = vec![b'v'; LONG];
    batch.put(b"long", &long);
    engine.write(&batch, false).unwrap();
    let store = Store::new(engine, Fsync::No);

    let mut exchange = RequestBatch::new();
    exchange.input.extend(b"GET short\r\nMGET short short long\r\nGET short\r\n");
    let mut decoder = Decoder::new(Limits::default());
    decoder.decode(&mut exchange.input, &mut exchange.requests).unwrap();
    exchange.resolve(&CommandTable::without(&[]));
    assert!(matches!(exchange.next_run(), Some(StepKind::Read)));
    let short = b"$5\r\nvalue\r\n";
    assert_eq!(exchange.read_on_worker(&store), (1, true));
    assert_eq!(exchange.reply.bytes(), short);
    // The request with the long value; its reply is sent before the next request is executed.
    assert_eq!(exchange.read(&store), 1);
    assert_eq!(exchange.reply.len(), LONG + short.len() * 3 + b"*3\r\n".len() + b"$3145728\r\n\r\n".len());
    exchange.reply.truncate(0);
    assert!(matches!(exchange.next_run(), Some(StepKind::Read)));
    assert_eq!(exchange.read_on_worker(&store), (1, false));
    assert_eq!(exchange.reply.bytes(), short);
    assert!(exchange.next_run().is_none());
}
