//! The flags that only some engines use: `--cache-size`, `--map-size` and `--compression`.

use crate::{
    program::{info, run, serve},
    support::{Server, request, stores},
};
use kvbench::engine::{Compression, Kind};
use redis_protocol::resp2::types::OwnedFrame;
use std::{fs, path::Path};

/// Small: sled keeps pages with values of some KiB in memory, however small its cache.
const VALUE: usize = 400;

/// 64 MB of values.
const KEYS: usize = 160_000;

/// Keys of one request.
const BATCH: usize = 500;

#[test]
fn cache_size_bounds_the_cache_of_every_store_that_has_one() {
    for store in stores().filter(|store| !Kind::find(store).unwrap().info.cache.starts_with("not used")) {
        let dir = tempfile::tempdir().unwrap();
        if store == "rocksdb" {
            let _server = start(dir.path(), store, &["--cache-size", "48MiB"]);
            let log = fs::read_to_string(dir.path().join("data/LOG")).unwrap();
            assert!(log.contains(&format!("capacity : {}\n", 48 << 20)), "not in RocksDB's log");
            continue;
        }
        let server = start(dir.path(), store, &[]);
        fill(&server);
        assert!(server.terminate().success());
        let [small, large] = ["4MiB", "256MiB"].map(|size| {
            let server = start(dir.path(), store, &["--cache-size", size]);
            read_all(&server);
            memory(&server)
        });
        assert!(small + (24 << 20) < large, "{store}: {small} bytes resident, {large} with a larger cache");
    }
}

/// RocksDB ends the process if it gets no address space for its cache.
#[test]
fn cache_that_no_memory_could_hold_is_refused() {
    for store in stores().filter(|store| store.starts_with("rocksdb")) {
        let dir = tempfile::tempdir().unwrap();
        let ended =
            run(dir.path(), &["--store", store, "--path", "data", "--port", "0", "--cache-size", "1PiB"]);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("--cache-size 1125899906842624; lower it"), "{}", ended.stderr);
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    }
}

#[test]
fn a_full_map_names_map_size_and_the_server_goes_on() {
    for store in stores().filter(|store| *store == "lmdb") {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), store, &["--map-size", "1MiB"]);
        let mut client = server.connect();
        let large = vec![b'x'; 100_000];
        let refused = (0..)
            .map(|n: usize| client.call(&[b"SET", format!("key-{n}").as_bytes(), &large]))
            .find(|reply| !is_ok(reply));
        let Some(OwnedFrame::Error(text)) = refused else { panic!("{refused:?}") };
        assert!(text.starts_with("ERR ") && text.contains("--map-size"), "{text}");
        // The write that failed is undone as a whole, and a smaller one has room.
        assert!(is_ok(&client.call(&["SET", "small", "value"])));
        assert_eq!(client.call(&["GET", "key-0"]), OwnedFrame::BulkString(large.clone()));
        assert!(server.terminate().success());
        let server = start(dir.path(), store, &["--map-size", "16MiB"]);
        let mut client = server.connect();
        assert_eq!(client.call(&["EXISTS", "key-0", "small"]), OwnedFrame::Integer(2));
        assert!((0..50).all(|n| is_ok(&client.call(&[b"SET", format!("key-{n}").as_bytes(), &large]))));
    }
}

#[test]
fn compression_takes_less_of_the_disk() {
    let able = |store: &&str| Kind::find(store).unwrap().info.compression.contains(&Compression::Lz4);
    for store in stores().filter(able) {
        let [none, lz4] = ["none", "lz4"].map(|word| {
            let dir = tempfile::tempdir().unwrap();
            // A small cache comes with small memtables, which then are on disk.
            let server = start(dir.path(), store, &["--compression", word, "--cache-size", "8MiB"]);
            fill(&server);
            assert!(server.terminate().success());
            size(dir.path())
        });
        // More than half of the values; a log may keep its own length.
        let half = (KEYS * VALUE / 2) as u64;
        assert!(lz4 + half < none, "{store}: {lz4} bytes with lz4, {none} without");
    }
}

fn start(dir: &Path, store: &str, args: &[&str]) -> Server {
    serve(dir, &[&["--store", store, "--path", "data", "--fsync", "no"], args].concat())
}

/// Sets all keys to values that compress well, and differ.
fn fill(server: &Server) {
    let mut client = server.connect();
    for first in (0..KEYS).step_by(BATCH) {
        let mut args = vec![b"MSET".to_vec()];
        for n in first..first + BATCH {
            let value = format!("value {n} ").into_bytes().into_iter().cycle().take(VALUE).collect();
            args.extend([key(n).into_bytes(), value]);
        }
        client.send(request(&args));
        assert!(is_ok(&client.reply()));
    }
}

fn read_all(server: &Server) {
    let mut client = server.connect();
    for first in (0..KEYS).step_by(BATCH) {
        let mut args = vec!["MGET".to_owned()];
        args.extend((first..first + BATCH).map(key));
        let OwnedFrame::Array(values) = client.call(&args) else { panic!("no array from key {first} on") };
        let whole = |value: &OwnedFrame| matches!(value, OwnedFrame::BulkString(v) if v.len() == VALUE);
        assert_eq!(values.iter().filter(|value| whole(value)).count(), BATCH);
    }
}

fn key(n: usize) -> String {
    format!("key-{n:06}")
}

fn is_ok(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::SimpleString(text) if text == b"OK")
}

/// Resident memory of the server.
fn memory(server: &Server) -> u64 {
    info(&mut server.connect(), "memory", "used_memory_rss").parse().unwrap()
}

fn size(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| size(&entry.unwrap().path())).sum(),
        Err(_) => fs::metadata(path).unwrap().len(),
    }
}
