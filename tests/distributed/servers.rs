//! Several servers over the same keys.

use crate::{
    cluster::{CLUSTER, prefix, serve, shared},
    support::{Client, Server},
};
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};
use std::thread;

pub fn bulk(value: &str) -> OwnedFrame {
    OwnedFrame::BulkString(value.into())
}

pub fn text(value: &str) -> OwnedFrame {
    OwnedFrame::SimpleString(value.into())
}

pub fn two(test: &str) -> (Server, Server, Client, Client) {
    let prefix = prefix(test);
    let (one, other) = (serve(&prefix), serve(&prefix));
    let clients = (one.connect(), other.connect());
    (one, other, clients.0, clients.1)
}

/// Of 50 clients of each server.
#[test]
fn increments_of_two_servers_add_up() {
    const CLIENTS: usize = 50;
    const EACH: usize = 20;
    let _cluster = shared();
    let (one, other, mut client, _) = two("increments");
    thread::scope(|scope| {
        for server in [&one, &other] {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = server.connect();
                    for _ in 0..EACH {
                        let reply = client.call(&["INCR", "counter"]);
                        assert!(matches!(reply, OwnedFrame::Integer(_)), "{reply:?}");
                    }
                });
            }
        }
    });
    assert_eq!(client.call(&["GET", "counter"]), bulk(&(2 * CLIENTS * EACH).to_string()));
}

/// What is moved from one to the other is always there once.
#[test]
fn transfers_of_two_servers_keep_the_sum() {
    let _cluster = shared();
    let (one, other, mut client, _) = two("transfers");
    client.call(&["MSET", "{x}a", "1000", "{x}b", "1000"]);
    thread::scope(|scope| {
        for (server, from, to) in [(&one, "{x}a", "{x}b"), (&other, "{x}b", "{x}a")] {
            for _ in 0..5 {
                scope.spawn(move || {
                    let mut client = server.connect();
                    for _ in 0..20 {
                        client.call(&["MULTI"]);
                        client.call(&["DECRBY", from, "3"]);
                        client.call(&["INCRBY", to, "3"]);
                        let reply = client.call(&["EXEC"]);
                        assert!(
                            matches!(&reply, OwnedFrame::Array(replies) if replies.len() == 2),
                            "{reply:?}"
                        );
                    }
                });
            }
        }
        scope.spawn(|| {
            let mut client = other.connect();
            for _ in 0..50 {
                let OwnedFrame::Array(values) = client.call(&["MGET", "{x}a", "{x}b"]) else {
                    panic!("no array")
                };
                let sum: i64 =
                    values.iter().map(|value| value.as_str().unwrap().parse::<i64>().unwrap()).sum();
                assert_eq!(sum, 2000);
            }
        });
    });
}

#[test]
fn what_one_server_writes_the_other_reads() {
    let _cluster = shared();
    let (_one, _other, mut client, mut beside) = two("both");
    for number in 0..20 {
        let value = number.to_string();
        assert_eq!(client.call(&["SET", "key", &value]), text("OK"));
        assert_eq!(beside.call(&["GET", "key"]), bulk(&value));
    }
    // A deadline, and another database.
    client.call(&["SET", "short", "v", "PX", "1"]);
    client.call(&["SELECT", "3"]);
    client.call(&["SET", "key", "third"]);
    thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(beside.call(&["GET", "short"]), OwnedFrame::Null);
    assert_eq!(beside.call(&["KEYS", "*"]), OwnedFrame::Array(vec![bulk("key")]));
    beside.call(&["FLUSHDB"]);
    assert_eq!(beside.call(&["DBSIZE"]), OwnedFrame::Integer(0));
    assert_eq!(client.call(&["GET", "key"]), bulk("third"));
    beside.call(&["FLUSHALL"]);
    assert_eq!(client.call(&["GET", "key"]), OwnedFrame::Null);
    // The record that others exist is nobody's to forget.
    client.call(&["SET", "key", "again"]);
    beside.call(&["FLUSHDB"]);
    assert_eq!(client.call(&["GET", "key"]), bulk("again"));
}

#[test]
fn a_watched_key_that_another_server_writes_stops_exec() {
    let _cluster = shared();
    let (_one, _other, mut client, mut beside) = two("watch");
    client.call(&["SET", "key", "1"]);
    for (value, outcome) in [("2", OwnedFrame::Null), ("2", OwnedFrame::Array(vec![text("OK")]))] {
        client.call(&["WATCH", "key"]);
        // The second time it stays what it was.
        beside.call(&["SET", "key", value]);
        client.call(&["MULTI"]);
        client.call(&["SET", "{key}done", value]);
        assert_eq!(client.call(&["EXEC"]), outcome);
    }
}

#[test]
fn servers_with_other_prefixes_have_other_keys() {
    let _cluster = shared();
    let (one, other) = (serve(&prefix("one")), serve(&prefix("other")));
    let (mut client, mut beside) = (one.connect(), other.connect());
    client.call(&["SET", "key", "value"]);
    assert_eq!(beside.call(&["GET", "key"]), OwnedFrame::Null);
    beside.call(&["FLUSHALL"]);
    assert_eq!(client.call(&["KEYS", "*"]), OwnedFrame::Array(vec![bulk("key")]));
}

/// In several transactions.
#[test]
fn flushall_removes_more_keys_than_a_transaction_does() {
    let _cluster = shared();
    let (_one, _other, mut client, mut beside) = two("flushall");
    for thousand in 0..5 {
        let pair = |number: usize| [format!("key:{{{thousand}}}:{number}"), String::from("v")];
        let words = [String::from("MSET")].into_iter().chain((0..1000).flat_map(pair));
        assert_eq!(client.call(&words.collect::<Vec<_>>()), text("OK"));
    }
    assert_eq!(beside.call(&["DBSIZE"]), OwnedFrame::Integer(5000));
    // What follows it in the same transaction stays.
    for words in [&["MULTI"][..], &["FLUSHALL"], &["SET", "key:{1}:1", "new"]] {
        beside.call(words);
    }
    assert_eq!(beside.call(&["EXEC"]), OwnedFrame::Array(vec![text("OK"), text("OK")]));
    assert_eq!(client.call(&["KEYS", "*"]), OwnedFrame::Array(vec![bulk("key:{1}:1")]));
}

/// And the server goes on.
#[test]
fn what_is_too_large_is_refused_by_name() {
    let _cluster = shared();
    let (_one, _other, mut client, _) = two("large");
    let (pairs, key, words) = match CLUSTER.has_slots() {
        true => (200_001, 65_535, ["200000 keys", "65"]),
        false => (20_001, 4000, ["20000 writes", "4000 bytes"]),
    };
    let many: Vec<_> = [String::from("MSET")]
        .into_iter()
        .chain((0..pairs).flat_map(|n| [format!("{{x}}{n}"), "v".into()]))
        .collect();
    let key = vec!["SET".into(), "k".repeat(key), "v".into()];
    for (request, word) in [many, key].into_iter().zip(words) {
        let reply = client.call(&request);
        assert!(matches!(&reply, OwnedFrame::Error(error) if error.contains(word)), "{word}: {reply:?}");
    }
    if !CLUSTER.has_slots() {
        let reply = client.call(&["SET", "key", &"v".repeat((6 << 20) + 1)]);
        assert!(matches!(&reply, OwnedFrame::Error(error) if error.contains("6291456 bytes")), "{reply:?}");
    }
    assert_eq!(client.call(&["SET", "key", "v"]), text("OK"));
}

/// Of keys whose values end: whoever finds them, they are gone everywhere and stay so.
#[test]
fn what_expires_is_removed_once() {
    let _cluster = shared();
    let (_one, _other, mut client, mut beside) = two("expiry");
    for number in 0..100 {
        client.call(&["SET", &format!("key:{number}"), "v", "PX", "200"]);
        beside.call(&["GET", &format!("key:{number}")]);
    }
    // A new value of the same name is not taken with the old one.
    thread::sleep(std::time::Duration::from_millis(201));
    for number in 0..100 {
        beside.call(&["SET", &format!("key:{number}"), "new"]);
    }
    thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(100));
}
