//! One bit of one value flips in the files of each store: what notices it, and what else is hit. docs/durability.md has
//! the table.

use crate::{
    corruption::{ask, text},
    support::{Client, KVBENCH, RunToEnd, Server, stores},
};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Keys, all with values of their own.
const KEYS: u64 = 40;

/// The key whose value gets the bit: some were written before it, some after.
const VICTIM: u64 = 20;

/// Where a value is when its bit flips.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the data files, after an orderly end.
    Data,
    /// In the log that is replayed after a kill.
    Log,
}

fn key(number: u64) -> String {
    format!("key {number:02}")
}

/// Letters that are found only where this value is.
fn value(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 3000];
    StdRng::seed_from_u64(number).fill_bytes(&mut bytes);
    bytes.iter().map(|byte| b'a' + byte % 26).collect()
}

fn command(dir: &Path, store: &str) -> Command {
    let mut command = Command::new(KVBENCH);
    command.args(["--store", store, "--path", "data", "--fsync", "always", "--threads", "2"]);
    command.current_dir(dir).stderr(fs::File::create(dir.join("log")).unwrap());
    command
}

fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect()
}

/// Writes everything, ends the server as the place asks, and flips a bit in each copy of the value that is there.
/// Returns `false` if there is none.
fn prepare(dir: &Path, store: &str, place: Place) -> bool {
    let server = Server::start_command(&mut command(dir, store));
    let mut client = server.connect();
    for number in 0..KEYS {
        assert_eq!(text(&client.call(&[b"SET", key(number).as_bytes(), &value(number)])), "OK");
    }
    match place {
        Place::Log => server.kill(),
        Place::Data => {
            if store == "bitcask" {
                // So that the segment is sealed, and has a hint.
                (0..33)
                    .for_each(|n| drop(client.call(&["SET", &format!("filler {n}"), &"f".repeat(2 << 20)])));
            }
            assert_eq!(text(&client.call(&["DEBUG", "SETTLE"])), "OK");
            assert!(server.terminate().success());
        }
    }
    let (value, mut found) = (value(VICTIM), false);
    for path in files(&dir.join("data")) {
        let mut bytes = fs::read(&path).unwrap();
        let places = places_of(&value, &bytes);
        places.iter().for_each(|at| bytes[at + value.len() / 2] ^= 1);
        if !places.is_empty() && is_in(store, &path) == place {
            println!("{store}: {} of {} bytes at {places:?}", path.display(), bytes.len());
            fs::write(&path, bytes).unwrap();
            found = true;
        }
    }
    found
}

/// The places of a value.
fn places_of(value: &[u8], bytes: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(start) = bytes[at..].windows(8).position(|window| window == &value[..8]) {
        at += start;
        if bytes[at..].starts_with(value) {
            places.push(at);
        }
        at += 8;
    }
    places
}

/// What a file is to its store.
fn is_in(store: &str, path: &Path) -> Place {
    let name = path.file_name().unwrap().to_string_lossy();
    let is_log = match store {
        "map" | "btree" | "sled" => true,
        "bitcask" => name != "0000000001.segment" || !path.with_extension("hint").exists(),
        "rocksdb" | "rocksdb-blob" => name.ends_with(".log"),
        "sqlite" => name.ends_with("-wal"),
        "fjall" => name.ends_with(".jnl"),
        _ => false,
    };
    if is_log { Place::Log } else { Place::Data }
}

/// What the other keys are: as they were, or not.
fn others(client: &mut Client) -> &'static str {
    let replies: Vec<_> = (0..KEYS)
        .filter(|number| *number != VICTIM)
        .map(|number| (number, client.call(&["GET", &key(number)])))
        .filter(|(number, reply)| *reply != OwnedFrame::BulkString(value(*number)))
        .collect();
    if replies.is_empty() {
        return "as written";
    }
    let absent = replies.iter().all(|(number, reply)| *reply == OwnedFrame::Null && *number > VICTIM);
    if absent && replies.len() as u64 == KEYS - VICTIM - 1 { "later ones are lost" } else { "some fail too" }
}

/// A key that fails alone: others go on, and it can be replaced and removed.
fn assert_alone(store: &str, client: &mut Client) {
    let (victim, other) = (key(VICTIM), key(1));
    let replies = ask(client, &[&["GET", &other], &["GET", &victim], &["GET", &other], &["INCR", &victim]]);
    let other_value = String::from_utf8(value(1)).unwrap();
    assert_eq!((&replies[0], &replies[2]), (&other_value, &other_value), "{store}");
    for error in [&replies[1], &replies[3]] {
        assert!(error.starts_with("-ERR") && error.contains(&format!("\"{victim}\"")), "{store}: {error}");
    }
    let replies = ask(
        client,
        &[
            &["SET", "new", "1"],
            &["DEL", &other, &victim],
            &["GET", &victim],
            &["SET", &victim, "x"],
            &["GET", &victim],
        ],
    );
    assert_eq!(replies, ["OK", ":2", "null", "OK", "x"], "{store}");
    assert!(text(&client.call(&["INFO"])).contains("writes_refused:0"), "{store}");
}

/// SQLite finds a page whose header is corrupt. Only the keys of that page fail, and the store accepts further writes.
#[test]
#[cfg(feature = "sqlite")]
fn a_corrupt_page_of_sqlite_fails_its_own_keys_only() {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    assert!(prepare(dir.path(), "sqlite", Place::Data));
    let path = dir.path().join("data/data.sqlite3");
    let mut bytes = fs::read(&path).unwrap();
    let at = places_of(&value(VICTIM)[..1000], &bytes)[0] / PAGE * PAGE;
    bytes[at] ^= 0x55;
    fs::write(&path, bytes).unwrap();
    let server = Server::start_command(&mut command(dir.path(), "sqlite"));
    let mut client = server.connect();
    let victim = key(VICTIM);
    for number in (0..KEYS).filter(|number| *number != VICTIM) {
        assert_eq!(client.call(&["GET", &key(number)]), OwnedFrame::BulkString(value(number)));
    }
    let replies = ask(&mut client, &[&["GET", "key 01"], &["GET", &victim], &["GET", "key 02"]]);
    assert_eq!((replies[0].as_bytes(), replies[2].as_bytes()), (&*value(1), &*value(2)));
    assert!(replies[1].contains(&format!("\"{victim}\"")), "{}", replies[1]);
    // SQLite removes and replaces nothing in such a page.
    for words in [&["GET", &victim][..], &["DEL", &victim], &["SET", &victim, "x"]] {
        let reply = &ask(&mut client, &[words])[0];
        assert!(reply.starts_with("-ERR") && reply.contains("malformed"), "{words:?}: {reply}");
    }
    assert_eq!(ask(&mut client, &[&["SET", "new", "y"], &["GET", "new"]]), ["OK", "y"]);
    assert!(text(&client.call(&["INFO"])).contains("writes_refused:0"));
}

/// The scan at a start looks for expiration times in all blocks. It goes on behind a corrupt one, and ends.
#[test]
#[cfg(feature = "fjall")]
fn active_expiration_goes_on_behind_a_corrupt_block() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_command(&mut command(dir.path(), "fjall"));
    let mut client = server.connect();
    for number in 0..KEYS {
        client.call(&[b"SET", key(number).as_bytes(), &value(number), b"PXAT", b"4000000000000"]);
    }
    client.call(&["SET", "last", "v", "PX", "15000"]);
    client.call(&["DEBUG", "SETTLE"]);
    assert_eq!(client.call(&["EXISTS", "last"]), OwnedFrame::Integer(1), "it has expired too early");
    assert!(server.terminate().success());
    let mut flipped = 0;
    for path in files(&dir.path().join("data")).iter().filter(|path| is_in("fjall", path) == Place::Data) {
        let mut bytes = fs::read(path).unwrap();
        for at in places_of(&value(VICTIM), &bytes) {
            bytes[at] ^= 1;
            flipped += 1;
        }
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(flipped, 1);
    let server = Server::start_command(&mut command(dir.path(), "fjall"));
    let mut client = server.connect();
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while !text(&client.call(&["INFO"])).contains("expired_keys:1\r") {
        assert!(std::time::Instant::now() < deadline, "the key behind the corrupt block is not removed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(server.terminate().success());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(log.matches("active expiration passes over").count(), 1, "{log}");
}

/// One row of the table.
fn row(store: &str, place: Place) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    if !prepare(dir.path(), store, place) {
        return None;
    }
    let output = Command::new(KVBENCH).args(["check", "data"]).current_dir(dir.path()).run_to_end();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{store}: {told}");
    let check = match output.status.code() {
        Some(0) => "finds nothing",
        Some(1) => "finds it",
        _ => panic!("{store}: {told}"),
    };
    let (start, read, others) = match Server::try_start_command(&mut command(dir.path(), store)) {
        Err(_) => ("refused", "", ""),
        Ok(server) => {
            let mut client = server.connect();
            let reply = client.call(&["GET", &key(VICTIM)]);
            let read = match &reply {
                OwnedFrame::Null => "absent",
                OwnedFrame::Error(error) => {
                    println!("{store}: {error}");
                    "error"
                }
                OwnedFrame::BulkString(bytes) if *bytes == value(VICTIM) => "as written",
                _ => "**corrupt**",
            };
            let others = others(&mut client);
            if read == "error" {
                assert_alone(store, &mut client);
            }
            ("opens", read, others)
        }
    };
    println!("{}", fs::read_to_string(dir.path().join("log")).unwrap());
    let place = if place == Place::Log { "log" } else { "data" };
    Some(format!("| `{store}` | {place} | {start} | {read} | {others} | {check} |"))
}

#[test]
fn the_table_says_what_notices_a_flipped_bit() {
    let document = include_str!("../../docs/durability.md");
    let places = [Place::Data, Place::Log];
    // canopydb is experimental, and has no row.
    let stores: Vec<_> = stores().filter(|store| *store != "canopydb").collect();
    let rows: Vec<_> =
        stores.iter().flat_map(|store| places.map(|place| row(store, place))).flatten().collect();
    println!("{}", rows.join("\n"));
    for store in &stores {
        let rows = rows.iter().map(String::as_str);
        let mine: Vec<_> = rows.filter(|row| row.starts_with(&format!("| `{store}` |"))).collect();
        let told: Vec<_> = document
            .lines()
            .filter(|line| {
                ["data", "log"].iter().any(|place| line.starts_with(&format!("| `{store}` | {place} |")))
            })
            .collect();
        assert_eq!(mine, told, "the table of flipped bits in docs/durability.md");
    }
}
