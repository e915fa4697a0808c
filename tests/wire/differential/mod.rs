//! kvbench against redis-server itself: the same requests, byte-equal replies.
//!
//! `KVBENCH_SEED=<number>` replays one stream of a failure.

pub mod access;
mod deadlines;
mod hits;
mod logs;
mod objects;
mod redis;
mod requests;
mod stream;
mod table;
mod watching;

use crate::{
    every_store::{in_memory, on_every_store},
    frames::{ask, exchange, sorted},
    limits::violations,
    support::Client,
};
use deadlines::{compare_contents, tell_the_same};
pub use redis::Redis;
use std::{env, io::Read};
use stream::{Request, Stream};

/// Requests of one stream.
const LENGTH: usize = 3000;

fn seeds() -> Vec<u64> {
    match env::var("KVBENCH_SEED") {
        Ok(seed) => vec![seed.parse().expect("KVBENCH_SEED is a number")],
        Err(_) => vec![1, 2, 3],
    }
}

#[test]
fn replies_are_those_of_redis() {
    let redis = Redis::start();
    on_every_store(|running| {
        let mut deadlines = 0;
        for seed in seeds() {
            for protocol in ["2", "3"] {
                println!("KVBENCH_SEED={seed} HELLO {protocol}");
                let mut clients = [running.connect(), redis.connect()];
                for client in &mut clients {
                    assert_eq!(ask(client, &["FLUSHALL"]), b"+OK\r\n");
                    ask(client, &["HELLO", protocol]);
                }
                compare(&mut clients, &mut Stream::new(seed, running.key_limits().is_some()));
                deadlines += compare_contents(&mut [running.connect(), redis.connect()]);
            }
        }
        let all_seeds = env::var_os("KVBENCH_SEED").is_none();
        assert!(deadlines > 0 || !all_seeds, "no stream left a key that expires");
    });
}

/// Sends the stream in chunks of one to many requests, each in one write.
fn compare(clients: &mut [Client; 2], stream: &mut Stream) {
    let mut sent = 0;
    while sent < LENGTH {
        let requests = stream.chunk();
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.bytes.clone()).collect();
        let [ours, theirs] = clients.each_mut().map(|client| exchange(client, &bytes, requests.len()));
        for (index, request) in requests.iter().enumerate() {
            compare_one(request, &ours[index], &theirs[index], sent + index);
        }
        sent += requests.len();
    }
}

fn compare_one(request: &Request, ours: &[u8], theirs: &[u8], position: usize) {
    if tell_the_same(request, ours, theirs) == Some(true) {
        return;
    }
    let ordered = |reply: &[u8]| {
        let comparable = match reply {
            // An incremental scan in one step: its keys, behind the cursor.
            [b'*', ..] if request.is_unordered() => match reply.strip_prefix(b"*2\r\n$1\r\n0\r\n") {
                Some(keys) if keys.starts_with(b"*") => sorted(keys),
                _ => sorted(reply),
            },
            [b'$', length, ..] if request.is_random() && *length != b'-' => b"some key".to_vec(),
            _ => reply.to_vec(),
        };
        comparable.escape_ascii().to_string()
    };
    let (ours, theirs) = (ordered(ours), ordered(theirs));
    let request = request.bytes.escape_ascii();
    assert!(ours == theirs, "request {position}: {request}\n ours: {ours}\nRedis: {theirs}");
}

/// Asks both servers the same.
fn ask_all(clients: &mut [Client; 2], words: &[&str]) {
    clients.iter_mut().for_each(|client| drop(ask(client, words)));
}

/// Everything until the server closes.
fn rest(client: &mut Client) -> String {
    let mut bytes = Vec::new();
    // A reset instead of an end is fine: the bytes count.
    let _ = client.stream.read_to_end(&mut bytes);
    bytes.escape_ascii().to_string()
}

#[test]
fn protocol_errors_are_those_of_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    for (bytes, _) in violations() {
        let [ours, theirs] = [running.connect(), redis.connect()].map(|mut client| {
            client.send([b"SET k v\r\nGET k\r\n", &bytes[..]].concat());
            rest(&mut client)
        });
        assert_eq!(ours, theirs, "{}", bytes[..bytes.len().min(60)].escape_ascii());
    }
}
