//! Reads of data that are not in the page cache, by clients that ask for many keys at a time.

use crate::{
    every_store::{Running, with_every_store},
    support::request,
};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{fs, fs::File, path::Path};

const KEYS: usize = 2000;

fn key(number: usize) -> String {
    format!("key:{number:06}")
}

fn value(number: usize) -> String {
    format!("{number}-").repeat(200)
}

/// Drops files from the page cache.
fn drop_cached(path: &Path) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| drop_cached(&entry.unwrap().path()));
    } else if let Ok(file) = File::open(path) {
        // The files that a server maps stay, and so do those of a file system in memory.
        let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }
}

/// Three batches of GETs and MGETs of random keys, of which some are absent, in pieces that more than one thread reads.
fn ask_at_random(running: &Running, seed: u64) {
    let (mut client, mut random) = (running.connect(), StdRng::seed_from_u64(seed));
    let expected = |number: usize| match number < KEYS {
        true => format!("${}\r\n{}\r\n", value(number).len(), value(number)),
        false => "$-1\r\n".into(),
    };
    for count in [1, 2, 40] {
        let numbers: Vec<usize> = (0..count).map(|_| random.random_range(0..KEYS * 11 / 10)).collect();
        let keys: Vec<String> = numbers.iter().map(|number| key(*number)).collect();
        let gets: Vec<u8> = keys.iter().flat_map(|key| request(&["GET", key])).collect();
        let mget = request(&[&["MGET".to_owned()][..], &keys].concat());
        let each: String = numbers.iter().map(|number| expected(*number)).collect();
        client.send([gets, mget].concat());
        client.expect(format!("{each}*{count}\r\n{each}"));
    }
}

#[test]
fn cold_batches_are_answered_as_warm_ones() {
    with_every_store(|running| {
        if running.is_in_memory() {
            return;
        }
        let mut client = running.connect();
        (0..KEYS).for_each(|number| client.send(request(&["SET", &key(number), &value(number)])));
        client.expect("+OK\r\n".repeat(KEYS));
        client.send("SHUTDOWN\r\n");
        client.expect_closed();
        let mut running = running;
        running.server.wait();
        File::open(running.data()).unwrap().sync_all().unwrap();
        drop_cached(&running.data());
        let running = running.restart();
        (0..10).for_each(|seed| ask_at_random(&running, seed));
    });
}
