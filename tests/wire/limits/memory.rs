//! What clients cost: memory in proportion to what they sent, whatever they announce or leave unread.

use crate::{
    every_store::{Running, in_memory, on_every_store},
    frames::{Received, ask, bulk, exchange, info, peak_growth, peak_rss, replies, rss},
    support::{Client, PATIENCE, request, stores},
};
use std::{
    iter, thread,
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;

fn expect_rss_below(running: &Running, limit: u64, what: &str) {
    let rss = rss(&running.server);
    assert!(rss < limit, "{what}: {} MiB resident, not below {} MiB", rss / MIB, limit / MIB);
}

/// The same, of memory that is given back a moment later.
fn await_rss_below(running: &Running, limit: u64, what: &str) {
    let deadline = Instant::now() + PATIENCE;
    while rss(&running.server) >= limit && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    expect_rss_below(running, limit, what);
}

#[test]
fn a_client_that_does_not_read_is_not_read_for() {
    on_every_store(|running| {
        // 2,000 MiB of replies once, a fifth of it for each further store.
        let is_first = running.store == "map" && running.is_in_memory();
        check_unread_replies(running, if is_first { 2000 } else { 400 });
    });
}

fn check_unread_replies(running: &Running, count: usize) {
    let value: Vec<u8> = (0..MIB).map(|n| (n * n % 251) as u8).collect();
    let (mut lazy, mut other) = (running.connect(), running.connect());
    ask(&mut other, &[&b"SET"[..], b"big", &value]);
    let expected = bulk(&value);
    assert_eq!(ask(&mut other, &["GET", "big"]), expected);
    let base = rss(&running.server);
    lazy.send(request(&["GET", "big"]).repeat(count));
    for _ in 0..200 {
        assert_eq!(ask(&mut other, &["GET", "big"]), expected);
        expect_rss_below(running, base + 100 * MIB, "replies nobody reads");
    }
    for _ in 0..count {
        assert!(replies(&mut lazy, 1)[0] == expected, "a reply is damaged");
    }
    let peak = peak_rss(&running.server);
    assert!(peak < base + 100 * MIB, "{} MiB at most, {} MiB before", peak / MIB, base / MIB);
    lazy.send("PING\r\n");
    lazy.expect("+PONG\r\n");
}

#[test]
fn an_idle_connection_costs_little() {
    // One file of this process and one of the server's for each, and some for the other tests.
    let files = rlimit::increase_nofile_limit(16_000).unwrap();
    let count = usize::try_from(files).unwrap().saturating_sub(1500).min(10_000);
    assert!(count >= 2000, "raise the hard limit of open files (ulimit -Hn) from {files} to 4000 at least");
    let running = in_memory(&["--maxclients", "12000"]);
    let mut clients: Vec<Client> = (0..100).map(|_| served(&running)).collect();
    let base = rss(&running.server);
    clients.extend((0..count).map(|_| served(&running)));
    let each = rss(&running.server).saturating_sub(base) / count as u64;
    assert!(each < 8 << 10, "{each} bytes for an idle connection");
    assert_eq!(info(&mut clients[0], "connected_clients"), count as u64 + 100);
    for client in &mut clients {
        client.send("ECHO again\r\n");
    }
    for client in &mut clients {
        client.expect("$5\r\nagain\r\n");
    }
}

fn served(running: &Running) -> Client {
    let mut client = running.connect();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    client
}

#[test]
fn a_large_value_comes_back_and_its_memory_is_given_back() {
    const SIZE: u64 = 64 * MIB;
    let value: Vec<u8> = (0..SIZE).map(|n| (n * n % 251) as u8).collect();
    let set = request(&[&b"SET"[..], b"k", &value]);
    on_every_store(|running| {
        let mut client = running.connect();
        let base = rss(&running.server);
        assert_eq!(exchange(&mut client, &set, 1), [b"+OK\r\n"]);
        assert!(ask(&mut client, &["GET", "k"]) == bulk(&value), "the value is damaged");
        // An append-only file keeps its last record's buffer until the next one.
        assert_eq!(ask(&mut client, &["SET", "small", "x"]), b"+OK\r\n");
        // Libraries keep caches of their own; what the server held for the connection is gone.
        if running.info().own_format.is_some() {
            await_rss_below(running, base + SIZE + 32 * MIB, "one copy of the value");
            assert_eq!(ask(&mut client, &["DEL", "k"]), b":1\r\n");
            await_rss_below(running, base + 32 * MIB, "nothing");
        }
    });
}

#[test]
fn a_request_of_very_many_words_leaves_little_behind() {
    on_every_store(|running| {
        // Libraries keep caches of their own, and the allocator more of it where several threads had lists.
        if !running.info().capabilities.memory_resident {
            return;
        }
        let mut client = running.connect();
        assert_eq!(ask(&mut client, &["SET", "k", "v"]), b"+OK\r\n");
        let base = rss(&running.server);
        let pairs = 3_000_000;
        let header = |command, words| format!("*{}\r\n$4\r\n{command}\r\n", 1 + words).into_bytes();
        // Lists of what to write are many times their size in bytes.
        let set = [header("MSET", pairs * 2), b"$1\r\nk\r\n$1\r\nv\r\n".repeat(pairs)].concat();
        assert_eq!(exchange(&mut client, &set, 1), [b"+OK\r\n"]);
        let get = [header("MGET", pairs), b"$1\r\nk\r\n".repeat(pairs)].concat();
        let values = [format!("*{pairs}\r\n").into(), b"$1\r\nv\r\n".repeat(pairs)].concat();
        assert!(exchange(&mut client, &get, 1) == [values]);
        // An append-only file keeps its last record's buffer until the next one.
        assert_eq!(ask(&mut client, &["SET", "k", "v"]), b"+OK\r\n");
        // The allocator keeps some of it for later.
        await_rss_below(running, base + 64 * MIB, "a third of the lists at most");
    });
}

#[test]
fn a_half_sent_request_costs_what_was_sent() {
    const CLIENTS: usize = 200;
    let running = in_memory(&[]);
    let mut watcher = running.connect();
    // Small ones wait apart from the read buffers, large ones keep theirs.
    for (len, allowed) in [(1000, 8 << 10), (200_000, 512 << 10)] {
        let base = rss(&running.server);
        let received = Received::so_far(&mut watcher);
        let mut start = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$300000000\r\n".to_vec();
        start.resize(len, b'x');
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| running.connect()).collect();
        for client in &mut clients {
            client.send(&start);
        }
        received.wait_for(CLIENTS * len, &mut watcher);
        let limit = base + (CLIENTS * allowed) as u64 + 8 * MIB;
        expect_rss_below(&running, limit, "half a request each");
        assert_eq!(ask(&mut watcher, &["DBSIZE"]), b":0\r\n");
    }
}

#[test]
fn a_key_that_is_watched_again_costs_nothing_more() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let before = rss(&running.server);
    for _ in 0..50 {
        let done = exchange(&mut client, &b"WATCH key\r\n".repeat(10_000), 10_000);
        assert!(done.iter().all(|reply| reply == b"+OK\r\n"));
    }
    expect_rss_below(&running, before + 16 * MIB, "half a million times WATCH of one key");
}

#[test]
fn a_client_that_ends_monitor_costs_nothing_more() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let before = rss(&running.server);
    for _ in 0..20 {
        exchange(&mut client, &b"MONITOR\r\nRESET\r\n".repeat(10_000), 20_000);
    }
    expect_rss_below(&running, before + 8 * MIB, "200,000 times MONITOR, each time ended");
}

/// A histogram takes two kilobytes, and one is named here by nine bytes.
#[test]
fn histograms_of_one_command_many_times_cost_what_their_reply_costs() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    ask(&mut client, &["GET", "k"]);
    let before = peak_rss(&running.server);
    let names = ["LATENCY", "HISTOGRAM"].into_iter().chain(std::iter::repeat_n("get", 100_000));
    let reply = ask(&mut client, &names.collect::<Vec<_>>());
    assert!(reply.len() > 100_000 * 20, "{} bytes", reply.len());
    let more = peak_growth(&running.server, before);
    assert!(more < 100 * MIB, "{} MiB for a reply of {} MiB", more / MIB, reply.len() as u64 / MIB);
}

/// The name of a client is in its line, and the line once for each number.
#[test]
fn a_list_of_clients_with_long_names_takes_no_more_than_the_output_limit() {
    let running = in_memory(&["--client-output-buffer-limit", "8MiB"]);
    let [mut one, mut other] = [running.connect(), running.connect()];
    assert_eq!(ask(&mut one, &["CLIENT", "SETNAME", &"x".repeat(4 << 20)]), b"+OK\r\n");
    let reply = String::from_utf8(ask(&mut one, &["CLIENT", "ID"])).unwrap();
    let id = reply[1..].trim_end();
    let before = peak_rss(&running.server);
    let words = ["CLIENT", "LIST", "ID"].into_iter().chain(std::iter::repeat_n(id, 500));
    one.send(request(&words.collect::<Vec<_>>()));
    one.expect_closed();
    let more = peak_growth(&running.server, before);
    assert!(more < 100 * MIB, "{} MiB for a reply of 8 MiB at most", more / MIB);
    // The limit holds in RESP3, too.
    ask(&mut other, &["HELLO", "3"]);
    assert_eq!(ask(&mut other, &["CLIENT", "SETNAME", &"x".repeat(16 << 20)]), b"+OK\r\n");
    other.send(request(&["CLIENT", "LIST"]));
    other.expect_closed();
}

#[test]
fn info_of_very_many_words_costs_what_they_take_in_the_request() {
    const WORDS: usize = 3_000_000;
    let running = in_memory(&[]);
    let mut client = running.connect();
    let base = rss(&running.server);
    let words_for = |command: &str| {
        let header = format!("*{}\r\n$4\r\n{command}\r\n", 1 + WORDS);
        [header.as_bytes(), &b"$1\r\na\r\n".repeat(WORDS)].concat()
    };
    // This one is refused as soon as it is decoded.
    let refused = exchange(&mut client, &words_for("ECHO"), 1).remove(0);
    assert!(refused.starts_with(b"-ERR wrong number of arguments"), "{}", refused.escape_ascii());
    await_rss_below(&running, base + 64 * MIB, "the memory of the refused request");
    let before = peak_rss(&running.server);
    // No section has this name.
    assert_eq!(exchange(&mut client, &words_for("INFO"), 1), [b"$0\r\n\r\n"]);
    let more = peak_growth(&running.server, before);
    assert!(more < 100 * MIB, "{} MiB more than for a refused request of this size", more / MIB);
}

/// Each of these requests copies the whole value, and all are in one commit without a limit.
#[test]
fn a_pipeline_that_changes_a_large_value_costs_a_few_copies() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    ask(&mut client, &[&b"SET"[..], b"k", &vec![0; 4 << 20]]);
    let before = peak_rss(&running.server);
    let bits: Vec<u8> = (0..200).flat_map(|bit| request(&["SETBIT", "k", &bit.to_string(), "1"])).collect();
    let found = exchange(&mut client, &bits, 200);
    assert!(found.iter().all(|reply| reply == b":0\r\n"));
    assert_eq!(ask(&mut client, &["BITCOUNT", "k"]), b":200\r\n");
    let more = peak_growth(&running.server, before);
    assert!(more < 200 * MIB, "{} MiB for 200 requests", more / MIB);
}

#[test]
fn a_client_watches_no_more_keys_than_its_buffer_holds() {
    let running = in_memory(&["--client-query-buffer-limit", "1MiB"]);
    let mut client = running.connect();
    let key = |name: &str| name.repeat(300_000);
    assert_eq!(ask(&mut client, &["WATCH", &key("a")]), b"+OK\r\n");
    let refused = b"-ERR the watched keys need more memory than --client-query-buffer-limit\r\n";
    assert_eq!(ask(&mut client, &["WATCH", &key("b")]), refused);
    assert_eq!(ask(&mut client, &["UNWATCH"]), b"+OK\r\n");
    assert_eq!(ask(&mut client, &["WATCH", &key("b")]), b"+OK\r\n");
    // Short keys need more memory for their entries than for themselves.
    assert_eq!(ask(&mut client, &["UNWATCH"]), b"+OK\r\n");
    let words: Vec<_> = iter::once("WATCH".to_owned()).chain((0..8_000).map(|n| n.to_string())).collect();
    assert_eq!(ask(&mut client, &words), refused);
}

/// PING alone has four bytes.
#[test]
fn short_requests_of_a_transaction_count_with_their_memory() {
    let running = in_memory(&["--client-query-buffer-limit", "1MiB"]);
    let mut client = running.connect();
    assert_eq!(ask(&mut client, &["MULTI"]), b"+OK\r\n");
    let found = exchange(&mut client, "PING\r\n".repeat(50_000).as_bytes(), 50_000);
    let refused = b"-ERR the transaction needs more memory than --client-query-buffer-limit\r\n";
    assert!(found[..30_000].iter().all(|reply| reply == b"+QUEUED\r\n") && found.last().unwrap() == refused);
}

/// Each request copies the whole value until the commit, and EXEC is one commit.
#[test]
fn a_transaction_copies_no_more_than_its_buffer_holds() {
    for (store, path) in stores().map(|store| (store, "data")).chain([("map", ":memory:")]) {
        let running = Running::start(store, path, &["--client-query-buffer-limit", "1MiB"]);
        let mut client = running.connect();
        let transaction = |bits: usize| {
            let set = |bit: String| request(&["SETBIT", "large", &bit, "1"]);
            let bits = (0..bits).flat_map(|bit| set(bit.to_string()));
            [request(&["MULTI"]), request(&["SET", "other", "new"]), bits.collect(), request(&["EXEC"])]
                .concat()
        };
        assert_eq!(ask(&mut client, &["SETRANGE", "large", "8388607", "x"]), b":8388608\r\n");
        let before = peak_rss(&running.server);
        let found = exchange(&mut client, &transaction(200), 203);
        assert!(
            found[202].starts_with(b"-ERR the transaction needs more memory than"),
            "{:?}",
            found[202].escape_ascii()
        );
        assert!(peak_growth(&running.server, before) < 400 * MIB, "{store}");
        assert_eq!(ask(&mut client, &["MGET", "other"]), b"*1\r\n$-1\r\n", "nothing is written");
        assert_eq!(ask(&mut client, &["GETBIT", "large", "0"]), b":0\r\n", "nothing is written");
        let found = exchange(&mut client, &transaction(3), 6);
        assert_eq!(found[5], b"*4\r\n+OK\r\n:0\r\n:0\r\n:0\r\n", "{store}");
        assert_eq!(ask(&mut client, &["BITCOUNT", "large"]), b":7\r\n");
    }
}
