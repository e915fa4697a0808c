//! Many requests in one write: cut anywhere, they give what they give one by one.

use crate::{
    every_store::{Running, in_memory, on_every_store},
    frames::{Received, ask, exchange, replies, sorted},
    support::{Client, request},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Resp and inline, blank lines, a request of no arguments, errors, and a value that looks like RESP.
const STREAM: &[u8] =
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$13\r\n$3\r\nGET\r\n*0\r\n\r\n\r\nPING\r\n*0\r\n*-1\r\n\
    *2\r\n$3\r\nGET\r\n$1\r\nk\r\nset \"a b\" 'c d'\n*1\r\n$0\r\n\r\nget 'a b'\r\n\
    *3\r\n$6\r\nINCRBY\r\n$1\r\nn\r\n$2\r\n-7\r\nnosuch\r\n*1\r\n$3\r\nget\r\nDEL k n \"a b\"\r\n";

const STREAM_REPLIES: &[u8] = b"+OK\r\n+PONG\r\n$13\r\n$3\r\nGET\r\n*0\r\n\r\n+OK\r\n\
    -ERR unknown command '', with args beginning with: \r\n$3\r\nc d\r\n:-7\r\n\
    -ERR unknown command 'nosuch', with args beginning with: \r\n\
    -ERR wrong number of arguments for 'get' command\r\n:3\r\n";

#[test]
fn a_request_stream_may_be_cut_at_every_byte() {
    let running = in_memory(&[]);
    let (mut client, mut watcher) = (running.connect(), running.connect());
    for cut in 0..=STREAM.len() {
        let received = Received::so_far(&mut watcher);
        client.send(&STREAM[..cut]);
        // Only what was read apart has been cut.
        received.wait_for(cut, &mut watcher);
        client.send(&STREAM[cut..]);
        println!("cut at {cut}");
        client.expect(STREAM_REPLIES);
    }
    for byte in STREAM {
        client.send([*byte]);
    }
    client.expect(STREAM_REPLIES);
}

#[test]
fn a_pipeline_reads_its_own_writes() {
    on_every_store(|running| {
        let mut client = running.connect();
        client.send(
            "GET k\r\nSET k v\r\nGET k\r\nDEL k\r\nGET k\r\nINCR n\r\nINCR n\r\nGET n\r\n\
             MSET a 1 b 2\r\nMGET a b k\r\nEXISTS a a k\r\nTYPE a\r\nDBSIZE\r\nINCRBY a 9\r\n\
             SET e x\r\nFLUSHDB\r\nEXISTS a\r\nDBSIZE\r\nSET k w\r\nKEYS *\r\nINCR k\r\nGET k\r\n",
        );
        client.expect(
            "$-1\r\n+OK\r\n$1\r\nv\r\n:1\r\n$-1\r\n:1\r\n:2\r\n$1\r\n2\r\n\
             +OK\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n:2\r\n+string\r\n:3\r\n:10\r\n\
             +OK\r\n+OK\r\n:0\r\n:0\r\n+OK\r\n*1\r\n$1\r\nk\r\n\
             -ERR value is not an integer or out of range\r\n$1\r\nw\r\n",
        );
    });
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    const KEYS: &[&[u8]] = &[b"a", b"b", b"n", b"m", b"\0\r\n\xff"];
    prop::sample::select(KEYS).prop_map(<[u8]>::to_vec)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => any::<i8>().prop_map(|n| n.to_string().into_bytes()),
        1 => Just(b"9223372036854775807".to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..20),
        // Longer than what is sent at a time, and than the server's read buffer.
        1 => (1usize..100_000).prop_map(|len| vec![b'x'; len]),
    ]
}

/// A request whose reply depends on the data and on nothing else.
fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = |word: &str| Just(vec![word.as_bytes().to_vec()]);
    let named = |names: &'static [&'static str]| {
        prop::sample::select(names).prop_map(|name| vec![name.as_bytes().to_vec()])
    };
    let with =
        |head, tail: BoxedStrategy<Vec<Vec<u8>>>| (head, tail).prop_map(|(head, tail)| [head, tail].concat());
    let keys = || prop::collection::vec(key(), 1..5).boxed();
    let pair = || (key(), value()).prop_map(|(key, value)| vec![key, value]);
    let pairs = prop::collection::vec(pair(), 1..4).prop_map(|pairs| pairs.concat());
    prop_oneof![
        4 => with(named(&["SET", "set"]), pair().boxed()),
        4 => with(named(&["GET", "TYPE", "INCR", "DECR"]), key().prop_map(|key| vec![key]).boxed()),
        2 => with(named(&["INCRBY", "DECRBY"]), pair().boxed()),
        3 => with(named(&["DEL", "EXISTS", "MGET"]), keys()),
        2 => with(named(&["MSET", "mset"]), pairs.boxed()),
        1 => named(&["DBSIZE", "PING", "GET", "nosuch"]),
        1 => Just(vec![b"KEYS".to_vec(), b"*".to_vec()]),
        1 => word("FLUSHDB"),
    ]
}

/// The replies to `requests` on an empty store, sent in one write or one by one.
fn run(running: &Running, requests: &[Vec<Vec<u8>>], at_once: bool) -> Vec<Vec<u8>> {
    let mut client = running.connect();
    assert_eq!(ask(&mut client, &["FLUSHDB"]), b"+OK\r\n");
    let mut all = if at_once {
        let bytes: Vec<u8> = requests.iter().flat_map(|words| request(words)).collect();
        exchange(&mut client, &bytes, requests.len())
    } else {
        requests.iter().map(|words| ask(&mut client, words)).collect()
    };
    for (words, reply) in requests.iter().zip(&mut all) {
        if words[0] == b"KEYS" {
            *reply = sorted(reply);
        }
    }
    all
}

#[test]
fn a_pipeline_answers_as_its_requests_one_by_one() {
    on_every_store(|running| {
        let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
        let pipelines = prop::collection::vec(command(), 1..60);
        TestRunner::new(config)
            .run(&pipelines, |requests| {
                prop_assert_eq!(run(running, &requests, true), run(running, &requests, false));
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn ten_thousand_requests_at_once_are_answered_in_order() {
    const COUNT: usize = 10_000;
    on_every_store(|running| {
        let mut client = running.connect();
        let key = |n| format!("key:{n}");
        let sets: Vec<u8> = (0..COUNT).flat_map(|n| request(&["SET", &key(n), &n.to_string()])).collect();
        let gets: Vec<u8> = (0..COUNT).flat_map(|n| request(&["GET", &key(n)])).collect();
        let incrs: Vec<u8> = (0..COUNT).flat_map(|n| request(&["INCR", &key(n)])).collect();
        assert!(exchange(&mut client, &sets, COUNT).iter().all(|reply| reply == b"+OK\r\n"));
        for (n, reply) in exchange(&mut client, &gets, COUNT).iter().enumerate() {
            let value = n.to_string();
            assert_eq!(*reply, format!("${}\r\n{value}\r\n", value.len()).into_bytes());
        }
        for (n, reply) in exchange(&mut client, &incrs, COUNT).iter().enumerate() {
            assert_eq!(*reply, format!(":{}\r\n", n + 1).into_bytes());
        }
        assert_eq!(ask(&mut client, &["DBSIZE"]), format!(":{COUNT}\r\n").into_bytes());
    });
}

#[test]
fn nobody_reads_half_an_mset() {
    const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mset = |n: usize| {
        let value = n.to_string();
        let pairs = KEYS.iter().flat_map(|key| [*key, &value]);
        request(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>())
    };
    on_every_store(|running| {
        let done = AtomicBool::new(false);
        let mut writer = running.connect();
        let mut reader = running.connect();
        exchange(&mut writer, &mset(0), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=300 {
                    // Several in a commit, and a lone one: both must show as a whole.
                    exchange(&mut writer, &[mset(n), mset(n + 1), mset(n + 2)].concat(), 3);
                    exchange(&mut writer, &mset(n), 1);
                }
                done.store(true, Ordering::Release);
            });
            let mget = [&["MGET"], &KEYS[..]].concat();
            loop {
                let last = done.load(Ordering::Acquire);
                // A lone read, and one that shares a commit with a write.
                for reply in [ask(&mut reader, &mget), between_writes(&mut reader, &mget)] {
                    let values = str::from_utf8(&reply).unwrap().lines().skip(2).step_by(2);
                    let values: Vec<_> = values.collect();
                    assert_eq!(values.len(), KEYS.len());
                    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                }
                if last {
                    break;
                }
            }
        });
    });
}

fn between_writes(client: &mut Client, words: &[&str]) -> Vec<u8> {
    client.send([&request(&["SET", "x", "1"]), &request(words)[..], b"SET x 2\r\n"].concat());
    replies(client, 3).swap_remove(1)
}
