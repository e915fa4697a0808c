//! LATENCY with something to tell.

use super::text;
use crate::{
    differential::Redis,
    every_store::{Running, in_memory},
    support::{Client, Server, wait_until},
};
use redis_protocol::resp2::types::OwnedFrame;
use std::{fs, thread, time::Duration};

/// With every number replaced, and what shows how large it is.
fn without_numbers(reply: &str) -> String {
    let mut shape = String::new();
    for char in reply.chars() {
        let char = if char.is_ascii_digit() { '0' } else { char };
        if !(char == '0' && shape.ends_with('0')) {
            shape.push(char);
        }
    }
    shape
}

#[test]
fn spikes_are_told_as_by_redis() {
    let (redis, running) = (Redis::start_with(&["--enable-debug-command", "yes"]), in_memory(&[]));
    let [ours, theirs] = [running.connect(), redis.connect()].map(|mut client| {
        text(&mut client, &["CONFIG", "SET", "latency-monitor-threshold", "1000"]);
        // The second is below the threshold, also on a busy machine.
        for time in ["1.1", "0.01"] {
            text(&mut client, &["DEBUG", "SLEEP", time]);
        }
        let mut replies = Vec::new();
        for request in
            ["LATEST", "HISTORY command", "HISTORY fast-command", "RESET nosuch", "RESET COMMAND", "LATEST"]
        {
            let words: Vec<_> = ["LATENCY"].into_iter().chain(request.split(' ')).collect();
            replies.push((request, without_numbers(&text(&mut client, &words))));
        }
        replies
    });
    assert_eq!(ours, theirs);
}

/// Names of commands and their bounds in microseconds.
fn histograms(client: &mut Client, commands: &[&str]) -> Vec<(String, Vec<i64>)> {
    let reply = client.call(&[&["LATENCY", "HISTOGRAM"], commands].concat());
    let OwnedFrame::Array(commands) = reply else { panic!("{reply:?}") };
    let histogram = |pair: &[OwnedFrame]| match pair {
        [OwnedFrame::BulkString(name), OwnedFrame::Array(fields)] => match &fields[..] {
            [_, OwnedFrame::Integer(_), _, OwnedFrame::Array(steps)] => {
                let bounds = steps.iter().step_by(2).map(|bound| match bound {
                    OwnedFrame::Integer(bound) => *bound,
                    other => panic!("{other:?}"),
                });
                (String::from_utf8(name.clone()).unwrap(), bounds.collect())
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    commands.chunks(2).map(histogram).collect()
}

#[test]
fn histograms_are_told_in_the_order_of_the_request() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let [ours, theirs] = [running.connect(), redis.connect()].map(|mut client| {
        for words in [&["SET", "k", "v"][..], &["GET", "k"], &["CLIENT", "ID"]] {
            client.call(words);
        }
        let asked = ["set", "GET", "nosuch", "client", "Client|Id", "set", "client|list", "incr", "get|x"];
        let told = histograms(&mut client, &asked);
        told.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours, ["set", "get", "client|id", "client|id", "set"]);
}

#[test]
fn bounds_of_histograms_are_those_of_redis() {
    let redis = Redis::start_with(&["--enable-debug-command", "yes"]);
    let running = in_memory(&[]);
    for mut client in [running.connect(), redis.connect()] {
        client.call(&["SET", "k", &"v".repeat(1 << 20)]);
        for micros in
            ["0.00001", "0.00003", "0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1", "0.2"]
        {
            client.call(&["DEBUG", "SLEEP", micros]);
            client.call(&["GET", "k"]);
            client.call(&["BITCOUNT", "k"]);
        }
        let told = histograms(&mut client, &[]);
        assert!(told.len() >= 4, "{told:?}");
        // The end of a bucket of Redis that begins at 1,024 times a power of two nanoseconds.
        let bounds: Vec<i64> = (10..31).map(|power| ((1 << power) + (1 << (power - 7)) - 1) / 1000).collect();
        assert_eq!(bounds[..8], [1, 2, 4, 8, 16, 33, 66, 132]);
        for bound in told.iter().flat_map(|(_, bounds)| bounds) {
            assert!(bounds.contains(bound), "{bound} in {told:?}");
        }
    }
}

/// Waits until LATENCY knows an event.
fn wait_for(event: &str, server: &Server) {
    let mut client = server.connect();
    wait_until(event, || text(&mut client, &["LATENCY", "LATEST"]).contains(event));
}

#[test]
fn slow_syncs_of_every_second_are_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--store", "slow-sync", "--path", "data", "--fsync", "everysec"];
    let server = Server::start(dir.path(), &[&args[..], &["--latency-monitor-threshold", "20"]].concat());
    let [hold, held] = ["data.hold", "data.held"].map(|name| dir.path().join(name));
    fs::write(&hold, "").unwrap();
    text(&mut server.connect(), &["SET", "k", "v"]);
    wait_until("no sync has begun", || held.exists());
    // The sync takes longer than the threshold.
    thread::sleep(Duration::from_millis(50));
    fs::remove_file(&hold).unwrap();
    wait_for("aof-fsync-everysec", &server);
}

#[test]
fn slow_commits_and_removals_are_events() {
    for (fsync, event) in [("always", "aof-fsync-always"), ("no", "aof-write")] {
        let running = Running::start("map", "data", &["--fsync", fsync, "--latency-monitor-threshold", "1"]);
        let (mut client, large) = (running.connect(), "x".repeat(32 << 20));
        // What is removed is written to the log: a long key.
        text(&mut client, &["SET", &large, "v", "PX", "1"]);
        wait_for(event, &running.server);
        wait_for("expire-cycle", &running.server);
    }
}
