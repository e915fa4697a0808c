//! Keys and values that are hard: binary, empty, long; and finding them.

use super::{expect, expect_alive};
use crate::{
    every_store::on_every_store,
    frames::{ask, bulk, exchange, reply_len, sorted},
    support::{Client, request},
};

/// The elements of an array reply.
fn elements(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut at = reply.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut elements = Vec::new();
    while let Some(len) = reply_len(&reply[at..]) {
        elements.push(reply[at..at + len].to_vec());
        at += len;
    }
    elements
}

#[test]
fn keys_and_values_hold_any_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    let samples: [&[u8]; 6] = [&all, b"\r\n", b"$-1\r\n*0\r\n", b"\0", b"\xff\xff", b"a\0b"];
    on_every_store(|running| {
        let mut client = running.connect();
        for key in samples {
            for value in samples.into_iter().chain([&b""[..]]) {
                assert_eq!(ask(&mut client, &[b"SET", key, value]), b"+OK\r\n");
                assert_eq!(ask(&mut client, &[b"GET", key]), bulk(value));
                assert_eq!(ask(&mut client, &[b"MGET", key]), [b"*1\r\n", &bulk(value)[..]].concat());
            }
        }
        let mut found = elements(&ask(&mut client, &["KEYS", "*"]));
        let mut expected: Vec<_> = samples.into_iter().map(bulk).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(ask(&mut client, &[&b"DEL"[..], &all, b"\0"]), b":2\r\n");
        assert_eq!(ask(&mut client, &[&b"EXISTS"[..], &all, b"\0", b"a\0b"]), b":1\r\n");
    });
}

/// Requests of so many keys that they are carried out apart from others, between small ones of one pipeline.
#[test]
fn very_many_keys_of_one_request_are_each_counted_once() {
    const KEYS: usize = 30_000;
    let names: Vec<String> = (0..KEYS).map(|number| format!("key {number}")).collect();
    let of_all = |command: &str| {
        let words: Vec<&str> = std::iter::once(command).chain(names.iter().map(String::as_str)).collect();
        request(&words)
    };
    let pairs: Vec<&str> = names.iter().flat_map(|name| [name, name]).map(String::as_str).collect();
    let set_all = request(&[&["MSET"], &pairs[..]].concat());
    let values: Vec<u8> = names.iter().flat_map(|name| bulk(name.as_bytes())).collect();
    let all_values = [format!("*{KEYS}\r\n").as_bytes(), &values].concat();
    on_every_store(|running| {
        let mut client = running.connect();
        let stream = [
            b"SET other x\r\nINCR n\r\n".as_slice(),
            &set_all,
            b"DBSIZE\r\nINCR n\r\n",
            &of_all("MGET"),
            &of_all("EXISTS"),
            b"DEL other other nothing\r\n",
            &of_all("DEL"),
            b"DBSIZE\r\nGET n\r\n",
            &of_all("DEL"),
        ];
        let found = exchange(&mut client, &stream.concat(), 11);
        let expected: [&[u8]; 11] = [
            b"+OK\r\n",
            b":1\r\n",
            b"+OK\r\n",
            b":30002\r\n",
            b":2\r\n",
            &all_values,
            b":30000\r\n",
            b":1\r\n",
            b":30000\r\n",
            b":1\r\n",
            b"$1\r\n2\r\n",
        ];
        assert!(found == expected, "{}", running.store);
        client.expect(":0\r\n");
    });
}

#[test]
fn the_empty_key_is_a_key_except_on_lmdb() {
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["GET", ""], "$-1");
        match running.key_limits() {
            Some((1, longest)) => {
                let refusal = format!(
                    "-ERR the key has 0 bytes, and {} takes keys of 1 to {longest} bytes",
                    running.store
                );
                expect_refused(&mut client, "", &refusal);
            }
            _ => expect_works(&mut client, ""),
        }
    });
}

#[test]
fn a_key_too_long_for_a_store_is_an_error_there_alone() {
    on_every_store(|running| {
        let mut client = running.connect();
        let Some((least, longest)) = running.key_limits() else {
            return expect_works(&mut client, &"k".repeat(10_000));
        };
        expect_works(&mut client, &"k".repeat(longest));
        for len in [longest + 1, longest + 10_000] {
            let refusal = format!(
                "-ERR the key has {len} bytes, and {} takes keys of {least} to {longest} bytes",
                running.store
            );
            expect_refused(&mut client, &"k".repeat(len), &refusal);
        }
    });
}

fn expect_works(client: &mut Client, key: &str) {
    expect(client, &["SET", key, "1"], "+OK");
    expect(client, &["GET", key], "$1\n1");
    expect(client, &["INCR", key], ":2");
    expect(client, &["EXISTS", key], ":1");
    expect(client, &["MSET", key, "v", "other", "v"], "+OK");
    expect(client, &["DEL", key, "other"], ":2");
    expect(client, &["GET", key], "$-1");
}

fn expect_refused(client: &mut Client, key: &str, refusal: &str) {
    expect(client, &["SET", key, "v"], refusal);
    expect(client, &["INCR", key], refusal);
    expect(client, &["MSET", "other", "v", key, "v"], refusal);
    // Reading it is no error, and of the MSET nothing was done.
    expect(client, &["GET", key], "$-1");
    expect(client, &["MGET", key, "other"], "*2\n$-1\n$-1");
    expect(client, &["EXISTS", key], ":0");
    expect(client, &["TYPE", key], "+none");
    expect(client, &["DEL", key], ":0");
    // Its neighbours in a pipeline, which share a commit with it, are not concerned.
    client.send(format!("SET a 1\r\nSET \"{key}\" v\r\nSET b 2\r\n"));
    client.expect(format!("+OK\r\n{refusal}\r\n+OK\r\n"));
    expect(client, &["DEL", "a", "b"], ":2");
    expect_alive(client);
}

#[test]
fn keys_finds_what_the_pattern_says() {
    on_every_store(|running| {
        let mut client = running.connect();
        for key in ["user:1", "user:2", "user:10", "item:1", "u*", "\u{e4}"] {
            expect(&mut client, &["SET", key, &format!("value of {key}")], "+OK");
        }
        for (pattern, found) in [
            ("user:*", &["user:1", "user:10", "user:2"][..]),
            ("user:?", &["user:1", "user:2"]),
            ("*:1", &["item:1", "user:1"]),
            ("[iu]*:1", &["item:1", "user:1"]),
            ("user:[^1]", &["user:2"]),
            ("u\\*", &["u*"]),
            ("u*", &["u*", "user:1", "user:10", "user:2"]),
            ("user:1", &["user:1"]),
            ("USER:1", &[]),
            ("", &[]),
        ] {
            let reply = sorted(&ask(&mut client, &["KEYS", pattern]));
            let mut expected: Vec<_> = found.iter().map(|key| bulk(key.as_bytes())).collect();
            expected.sort();
            assert_eq!(elements(&reply), expected, "{pattern}");
        }
    });
}

/// An engine that cannot look for it must not end the store's writes.
#[test]
fn a_pattern_longer_than_any_key_finds_nothing() {
    let long = "a".repeat(70_000);
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["SET", "a", "1"], "+OK");
        for pattern in [long.clone(), format!("{long}*")] {
            expect(&mut client, &["KEYS", &pattern], "*0");
            expect(&mut client, &["MULTI"], "+OK");
            expect(&mut client, &["KEYS", &pattern], "+QUEUED");
            expect(&mut client, &["EXEC"], "*1\n*0");
        }
        expect(&mut client, &["SET", "a", "2"], "+OK");
    });
}

#[test]
fn keys_takes_a_limit_and_gives_values() {
    on_every_store(|running| {
        let mut client = running.connect();
        for n in 0..20 {
            expect(&mut client, &["SET", &format!("key:{n:02}"), &format!("value:{n:02}")], "+OK");
        }
        expect(&mut client, &["SET", "other", "x"], "+OK");
        expect(&mut client, &["KEYS", "key:*", "LIMIT", "0"], "*0");
        for (limit, found) in [(1, 1), (7, 7), (20, 20), (21, 20), (i64::MAX, 20)] {
            let limit = limit.to_string();
            let keys = elements(&ask(&mut client, &["KEYS", "key:*", "LIMIT", &limit]));
            assert_eq!(keys.len(), found);
            let both = elements(&ask(&mut client, &["KEYS", "key:*", "WITHVALUES", "limit", &limit]));
            assert_eq!(both.len(), 2 * found);
            for pair in both.chunks(2) {
                let (key, value) = (str::from_utf8(&pair[0]).unwrap(), str::from_utf8(&pair[1]).unwrap());
                assert!(key.starts_with("$6\r\nkey:"), "{key}");
                assert_eq!(value, key.replace("$6\r\nkey", "$8\r\nvalue"));
            }
        }
    });
}
