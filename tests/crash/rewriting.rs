//! `kill -9` while the append-only file is being rewritten, or segments are merged.

use crate::{
    client::write_until,
    kill::{CLIENTS, Killing},
    support::{Client, PATIENCE, Server, stores_that},
};
use kvbench::engine::Fsync;
use rand::{Rng, rngs::StdRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// The stores that have an append-only file and nothing else.
fn with_one_log() -> impl Iterator<Item = &'static str> {
    stores_that(|info| info.capabilities.rewrites_log && info.capabilities.memory_resident)
}

/// Kills of one data directory.
const ROUNDS: usize = 12;

#[test]
fn a_kill_in_the_midst_of_a_rewrite_loses_nothing() {
    for store in with_one_log() {
        run(Killing::new(store, Fsync::Always, CLIENTS));
    }
}

/// FLUSHDB changes the keys of all clients, so what it leaves can only be told of one that is alone.
#[test]
fn a_kill_in_the_midst_of_a_rewrite_brings_back_nothing_that_was_flushed() {
    for store in with_one_log() {
        let mut killing = Killing::new(store, Fsync::Always, 1);
        killing.histories[0].flushes = true;
        run(killing);
    }
}

/// Each round's merge moves all that is alive, and removes all segments but those written since.
#[test]
fn a_kill_in_the_midst_of_a_merge_loses_nothing() {
    let inside = merge(Killing::new("bitcask", Fsync::Always, CLIENTS));
    assert!(inside > 0, "no kill hit a merge");
}

#[test]
fn a_kill_in_the_midst_of_a_merge_brings_back_nothing_that_was_flushed() {
    let mut killing = Killing::new("bitcask", Fsync::Always, 1);
    killing.histories[0].flushes = true;
    // What is left is merged in no time.
    merge(killing);
}

/// Returns how many kills left an unfinished merge.
fn merge(mut killing: Killing) -> usize {
    let segments = |dir: &Path| {
        let names = fs::read_dir(dir.join("data")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|suffix| suffix == "segment")).count()
    };
    let mut inside = 0;
    for round in 0..ROUNDS {
        let enough = killing.rng.random_range(500..3000);
        let pause = Duration::from_micros(killing.rng.random_range(0..2000));
        let finished = killing.rng.random_range(0..4);
        eprintln!("round {round}, {enough} writes, {finished} merges, then a kill {pause:?} into another");
        let server = killing.start();
        let dir = killing.dir.path().to_owned();
        let end = |server: Server| {
            let mut client = server.connect();
            for _ in 0..finished {
                let started = Instant::now();
                while let OwnedFrame::Error(error) = client.call(&["BGREWRITEAOF"]) {
                    assert!(error.contains("already rewriting"), "{error}");
                    assert!(started.elapsed() < PATIENCE, "the merge does not end");
                    thread::sleep(Duration::from_micros(50));
                }
            }
            // The kill is to hit a merge, however long this machine takes for what is before it.
            let started = Instant::now();
            while segments(&dir) < 2 && started.elapsed() < PATIENCE {
                client.call(&["BGREWRITEAOF"]);
            }
            thread::sleep(pause);
            server.kill();
        };
        write_until(server, &mut killing.histories, &mut killing.rngs, enough, end);
        inside += usize::from(segments(killing.dir.path()) > 1);
        if round % 2 == 1 {
            killing.kill_while_it_opens();
        }
        killing.check(true);
    }
    eprintln!("{inside} of {ROUNDS} kills left an unfinished merge");
    inside
}

fn run(mut killing: Killing) {
    let log = Log::new(killing.dir.path());
    let mut inside = 0;
    for round in 0..ROUNDS {
        let enough = killing.rng.random_range(500..3000);
        let moment = Moment::random(&mut killing.rng);
        eprintln!("{}: round {round}, {enough} writes, then {moment:?}", killing.store);
        let server = killing.start();
        let end = |server| moment.kill(server, &log);
        write_until(server, &mut killing.histories, &mut killing.rngs, enough, end);
        inside += usize::from(log.fresh.exists());
        if round % 2 == 1 {
            killing.kill_while_it_opens();
        }
        killing.check(true);
        assert!(!log.fresh.exists(), "an unfinished rewrite is left after a restart");
    }
    eprintln!("{}: {inside} of {ROUNDS} kills left an unfinished rewrite", killing.store);
    assert!(inside > 0, "no kill hit a rewrite");
}

/// The files of a store.
struct Log {
    path: PathBuf,
    /// Of a rewrite that runs.
    fresh: PathBuf,
}

impl Log {
    fn new(dir: &Path) -> Self {
        Self { path: dir.join("data"), fresh: dir.join("data.rewrite") }
    }

    /// Tells a rewritten log from the one before.
    fn inode(&self) -> u64 {
        fs::metadata(&self.path).unwrap().ino()
    }

    fn len(&self) -> u64 {
        fs::metadata(&self.path).unwrap().len()
    }

    /// How far a rewrite is that runs.
    fn fresh_len(&self) -> Option<u64> {
        fs::metadata(&self.fresh).ok().map(|metadata| metadata.len())
    }
}

/// When to kill: at a place in a rewrite, not at a time, which would be another one on each machine.
#[derive(Debug)]
struct Moment {
    /// Rewrites that finish before.
    finished: usize,
    /// How long the new file is, in hundredths of what the rewrite before made; `None`: it is the log.
    percent: Option<u64>,
    /// How much later.
    delay: Duration,
}

impl Moment {
    fn random(rng: &mut StdRng) -> Self {
        let percent = match rng.random_range(0..4) {
            // As soon as there is a file,
            0 => Some(0),
            // while it grows, near the end by what is written meanwhile,
            1 | 2 => Some(rng.random_range(1..130)),
            // or as soon as it has the log's name.
            _ => None,
        };
        // What is wrong about the name is so for less than a sync takes.
        let delay = if percent.is_none() || rng.random() { 0 } else { rng.random_range(0..2000) };
        Self { finished: rng.random_range(1..4), percent, delay: Duration::from_micros(delay) }
    }

    /// Rewrites the log again and again, and kills the server when the moment has come.
    fn kill(self, server: Server, log: &Log) {
        let mut client = server.connect();
        for _ in 0..self.finished {
            rewrite_until(&mut client, log, None);
        }
        let enough = self.percent.map(|percent| log.len() * percent / 100);
        rewrite_until(&mut client, log, enough);
        // Below 100% the kill is to hit a rewrite, however fast this machine completes one.
        let deadline = Instant::now() + PATIENCE;
        while self.percent.is_some_and(|percent| percent < 100) && !log.fresh.exists() {
            assert!(Instant::now() < deadline, "no rewrite was met");
            client.call(&["BGREWRITEAOF"]);
        }
        thread::sleep(self.delay);
        server.kill();
    }
}

/// Starts a rewrite, and waits until it is over, or until the new file has `enough` bytes.
fn rewrite_until(client: &mut Client, log: &Log, enough: Option<u64>) {
    let deadline = Instant::now() + PATIENCE;
    let before = log.inode();
    while let OwnedFrame::Error(error) = client.call(&["BGREWRITEAOF"]) {
        // The one before has replaced the log, but not quite ended.
        assert!(error.contains("already rewriting"), "{error}");
    }
    let has_enough = |len| enough.is_some_and(|enough| len >= enough);
    while log.inode() == before && !log.fresh_len().is_some_and(has_enough) {
        assert!(Instant::now() < deadline, "the rewrite does not end");
        thread::sleep(Duration::from_micros(50));
    }
}
