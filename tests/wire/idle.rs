//! Clients that are silent, have gone, or do not read.

use crate::{
    every_store::{Running, in_memory},
    frames::{ask, info, replies},
    support::{Client, PATIENCE, request},
};
use std::{
    io::{ErrorKind, Read, Write},
    thread,
    time::{Duration, Instant},
};

/// Returns when only `expected` clients are left; asking keeps this one from being idle.
fn await_clients(client: &mut Client, expected: u64) {
    let deadline = Instant::now() + PATIENCE;
    while info(client, "connected_clients") != expected {
        assert!(Instant::now() < deadline, "{} clients are still there", info(client, "connected_clients"));
        thread::sleep(Duration::from_millis(5));
    }
}

fn start(args: &[&str]) -> (Running, Client) {
    let running = in_memory(args);
    let watcher = running.connect();
    (running, watcher)
}

#[test]
fn a_client_that_is_silent_is_closed_after_the_timeout_and_a_busy_one_is_not() {
    let (running, mut busy) = start(&["--timeout", "1"]);
    let (mut silent, mut half) = (running.connect(), running.connect());
    half.send("PING\r\n*2\r\n$3\r\nGET\r\n$5\r\nab");
    half.expect("+PONG\r\n");
    await_clients(&mut busy, 1);
    silent.expect_closed();
    half.expect_closed();
}

#[test]
fn a_client_that_does_not_read_its_replies_is_closed_after_the_timeout() {
    let (running, mut busy) = start(&["--timeout", "1"]);
    ask(&mut busy, &["SET", "big", &"v".repeat(1 << 20)]);
    let mut lazy = running.connect();
    lazy.send(request(&["GET", "big"]).repeat(100));
    // One reply has come, so it is being served.
    replies(&mut lazy, 1);
    await_clients(&mut busy, 1);
}

#[test]
fn without_a_timeout_nobody_is_closed_for_silence() {
    let (without, mut other) = start(&[]);
    let (changed, mut changing) = start(&["--timeout", "2"]);
    let mut silent = [without.connect(), changed.connect()];
    let ping = |client: &mut Client| {
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
    };
    silent.iter_mut().for_each(ping);
    // The timers of its clients run already, and end during the sleep.
    assert_eq!(ask(&mut changing, &["CONFIG", "SET", "timeout", "0"]), b"+OK\r\n");
    for client in [&mut other, &mut changing] {
        assert_eq!(ask(client, &["CONFIG", "GET", "timeout"]), b"*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n");
    }
    thread::sleep(Duration::from_secs(4));
    silent.iter_mut().for_each(ping);
}

/// Replies that nobody could hold, from a request of a few bytes for each.
#[test]
fn replies_beyond_the_limit_close_the_client_and_cost_no_more_than_it() {
    const MIB: u64 = 1 << 20;
    let (running, mut other) = start(&["--client-output-buffer-limit", "8MiB"]);
    let value = "v".repeat(MIB as usize);
    ask(&mut other, &["SET", "big", &value]);
    let base = crate::frames::rss(&running.server);
    let keys: Vec<_> = std::iter::once("MGET").chain(std::iter::repeat_n("big", 2000)).collect();
    let reads = request(&keys);
    // As a read, and as one between writes.
    let between_writes = [request(&["SET", "k", "v"]), reads.clone(), request(&["SET", "k", "v"])].concat();
    for requests in [reads, between_writes] {
        let mut client = running.connect();
        client.send(&requests);
        client.expect_closed();
    }
    let peak = crate::frames::peak_rss(&running.server);
    assert!(peak < base + 64 * MIB, "{} MiB at most, {} MiB before", peak / MIB, base / MIB);
    // Below the limit all is as it was, also for many replies that are larger together.
    assert_eq!(ask(&mut other, &["MGET", "big", "big", "big"]).len(), 3 * (value.len() + 12) + 4);
    other.send(request(&["GET", "big"]).repeat(20));
    assert_eq!(replies(&mut other, 20).len(), 20);
}

/// Most of a request of 2 MB.
pub fn large_request() -> Vec<u8> {
    [&b"*2\r\n$4\r\nECHO\r\n$2000000\r\n"[..], &[b'x'; 1_500_000]].concat()
}

/// Sends `bytes`, and fails unless the server closes the connection because its request is too large.
pub fn expect_too_large(client: &mut Client, bytes: &[u8]) {
    // The server may close before it has taken all of them.
    let _ = client.stream.write_all(bytes);
    let mut said = Vec::new();
    let end = client.stream.read_to_end(&mut said).map_err(|error| error.kind());
    assert_ne!(end, Err(ErrorKind::WouldBlock), "it is not closed");
    let expected = b"-ERR Protocol error: request larger than the query buffer limit\r\n";
    assert!(said.is_empty() || said == expected, "{}", said.escape_ascii());
}

#[test]
fn a_request_beyond_the_query_limit_closes_the_client() {
    let (running, mut other) = start(&["--client-query-buffer-limit", "1MiB"]);
    expect_too_large(&mut running.connect(), &large_request());
    let fits = "x".repeat(1_000_000);
    assert_eq!(ask(&mut other, &["ECHO", &fits]).len(), fits.len() + 12);
}
