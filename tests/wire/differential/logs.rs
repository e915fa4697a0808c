//! redis-server loads our append-only file, whatever a kill has left of it.

use super::{LENGTH, deadlines::contents, redis::Redis, stream::Stream};
use crate::{
    every_store::Running,
    frames::exchange,
    support::{Client, Server, request, stores_that},
};
use kvbench::engine::{Batch, Engine, Fsync, Kind, Location, OpenOptions};
use redis_protocol::resp2::types::OwnedFrame;
use std::{collections::BTreeMap, fs, path::Path};

/// All pairs of all databases, in order.
fn all(client: &mut Client) -> Vec<(Vec<u8>, String)> {
    let pairs = contents(client).into_iter().map(|pair| {
        let (value, deadline) = (pair.value, OwnedFrame::Integer(pair.deadline));
        (pair.key, format!("{value} until {deadline:?} in {}", pair.database))
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    pairs
}

/// Writes a stream of requests, and returns what is there then.
fn fill(mut client: Client, length: usize) -> Vec<(Vec<u8>, String)> {
    let mut stream = Stream::new(1, false);
    let mut sent = 0;
    while sent < length {
        let requests = stream.chunk();
        sent += requests.len();
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.bytes.clone()).collect();
        exchange(&mut client, &bytes, requests.len());
    }
    // The stream may end in a transaction.
    client.call(&["DISCARD"]);
    client.call(&["SET", "last", &"v".repeat(100_000)]);
    let pairs = all(&mut client);
    assert!(pairs.len() > 1, "the stream left {} keys", pairs.len());
    pairs
}

#[test]
fn redis_loads_our_append_only_file() {
    for store in stores_that(|info| info.capabilities.memory_resident) {
        let mut running = Running::start(store, "data", &[]);
        let ours = fill(running.connect(), LENGTH);
        running.connect().send("SHUTDOWN\r\n");
        assert!(running.server.wait().success());
        let redis = Redis::start_on(Some(&running.data()), &[]);
        assert_eq!(all(&mut redis.connect()), ours, "{store}");
    }
}

#[test]
fn redis_loads_the_append_only_file_of_a_server_that_was_killed() {
    for fsync in ["always", "everysec", "no"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &["--store", "map", "--path", "data", "--fsync", fsync]);
        let ours = fill(server.connect(), LENGTH);
        server.kill();
        let redis = Redis::start_on(Some(&dir.path().join("data")), &[]);
        assert_eq!(all(&mut redis.connect()), ours, "{fsync}");
    }
}

/// A log of Redis may end with another database selected than that of the first writes behind it.
#[test]
fn redis_loads_writes_of_database_0_behind_its_own_log_that_ends_in_database_3() {
    let log: Vec<u8> = [
        &["SELECT", "0"][..],
        &["SET", "x", "x0"],
        &["SELECT", "3"],
        &["SET", "a", "a3"],
        &["SET", "b", "b3"],
    ]
    .iter()
    .flat_map(|words| request(words))
    .collect();
    for is_killed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        fs::write(&path, &log).unwrap();
        let start = || Server::start(dir.path(), &["--store", "map", "--path", "data"]);
        let server = start();
        let mut client = server.connect();
        for words in [&["SET", "a", "new"][..], &["SET", "b", "1"], &["DEL", "b", "x"]] {
            client.call(words);
        }
        let ours = all(&mut client);
        assert_eq!(ours.len(), 3, "{ours:?}");
        if is_killed {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        let redis = Redis::start_on(Some(&path), &[]);
        assert_eq!(all(&mut redis.connect()), ours, "redis-server, killed: {is_killed}");
        assert_eq!(all(&mut start().connect()), ours, "kvbench, killed: {is_killed}");
    }
}

/// A kill ends a write between two pages. What is behind is filler then, of which Redis must make nothing.
#[test]
fn redis_loads_a_log_whose_last_batch_a_kill_has_torn() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let engine = open(&path);
    let mut torn = 0;
    // A large one is followed by enough filler for all the others.
    write(&*engine, &[(b"base".to_vec(), vec![b'b'; 60_000])]);
    for number in 0..6_usize {
        let before = (fs::read(&path).unwrap(), pairs(&*engine));
        write(&*engine, &batch(number));
        let after = fs::read(&path).unwrap();
        torn += tear(before, &after, &format!("batch {number}")).0;
    }
    assert!(torn > 20, "{torn} torn logs");
}

/// The record of a deadline stands behind that of the value; here a page ends in the midst of it, or close to it.
#[test]
fn redis_loads_a_log_in_which_a_kill_has_torn_a_deadline() {
    const UNTIL: u64 = 4_102_444_800_000;
    const LENGTH: usize = 5000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let engine = open(&path);
    write(&*engine, &[(b"base".to_vec(), vec![b'b'; 60_000])]);
    let value = |length| [&b"\xffkvbench"[..], &UNTIL.to_be_bytes(), &vec![b'v'; length]].concat();
    let key = b"key".to_vec();
    let before = (fs::read(&path).unwrap(), pairs(&*engine));
    write(&*engine, &[(key.clone(), value(LENGTH))]);
    let after = fs::read(&path).unwrap();
    let (_, mut end) = tear(before, &after, "the first");
    let place = after.windows(9).position(|window| window == b"PEXPIREAT").unwrap();
    let begin = after.windows(10).position(|window| window == b"$3\r\nkey\r\n$").unwrap();
    let mut torn = 0;
    for inside in [-8, -1, 0, 4, 9, 11, 14, 20, 33] {
        // From the batch's begin to the deadline is as far as the first time, but for the length.
        let far = (end + place - begin) as i64 + 60 + inside;
        let more = usize::try_from((-far).rem_euclid(4096)).unwrap();
        let before = (fs::read(&path).unwrap(), pairs(&*engine));
        write(&*engine, &[(key.clone(), value(LENGTH + more))]);
        let (count, last) = tear(before, &fs::read(&path).unwrap(), &format!("byte {inside}"));
        (torn, end) = (torn + count, last);
    }
    assert!(torn > 9, "{torn} torn logs");
}

/// Lets redis-server load what a kill can leave of the last batch, which was written over filler: all pages before
/// one, and of the others what was there. Returns how often, and where the batch ends.
fn tear(before: (Vec<u8>, BTreeMap<Vec<u8>, String>), after: &[u8], what: &str) -> (usize, usize) {
    let (old, pairs) = before;
    assert_eq!(old.len(), after.len(), "{what}: written over filler");
    let first = old.iter().zip(after).position(|(one, other)| one != other).unwrap();
    let last = old.iter().zip(after).rposition(|(one, other)| one != other).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("torn");
    let expected: Vec<_> = pairs.into_iter().collect();
    // The mark behind it, a frame of no bytes, may be torn without harm.
    let mark = after[..last].windows(3).rposition(|window| window == b"#F:").unwrap();
    let is_mark = after[mark..].get(21..29) == Some(b"00000000");
    let pages = first / 4096 + 1..=(if is_mark { mark - 1 } else { last }) / 4096;
    for page in pages.clone() {
        fs::write(&copy, [&after[..page * 4096], &old[page * 4096..]].concat()).unwrap();
        let redis = Redis::start_on(Some(&copy), &[]);
        assert!(all(&mut redis.connect()) == expected, "{what}, torn at page {page}");
    }
    (pages.count(), last + 1)
}

fn open(path: &Path) -> Box<dyn Engine> {
    let options = OpenOptions::new(Location::Path(path.into()), Fsync::Always);
    Kind::find("map").unwrap().open(&options).unwrap()
}

/// Small records, records of odd sizes, and single ones that cross a page.
fn batch(number: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (count, length) = [(400, 0), (1, 9000), (300, 33), (1, 4096), (20, 1001), (2, 12_000)][number];
    (0..count).map(|key| (format!("key {number} {key}").into_bytes(), vec![b'v'; length])).collect()
}

fn write(engine: &dyn Engine, pairs: &[(Vec<u8>, Vec<u8>)]) {
    let mut batch = Batch::default();
    pairs.iter().for_each(|(key, value)| batch.put(key, value));
    engine.write(&batch, true).unwrap();
}

fn pairs(engine: &dyn Engine) -> BTreeMap<Vec<u8>, String> {
    let mut pairs = BTreeMap::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        // A value with a deadline has it before it; a key like that is a record of kvbench's own.
        let (value, until) =
            match value.strip_prefix(b"\xffkvbench").and_then(|rest| rest.split_first_chunk()) {
                Some((until, value)) => (value, i64::from_be_bytes(*until)),
                None => (value, -1),
            };
        if !key.starts_with(b"\xffkvbench") {
            let value = OwnedFrame::BulkString(value.to_vec());
            pairs.insert(key.to_vec(), format!("{value:?} until Integer({until}) in 0"));
        }
        std::ops::ControlFlow::Continue(())
    };
    engine.scan(kvbench::engine::KeyRange::ALL, &mut visit).unwrap();
    pairs
}
