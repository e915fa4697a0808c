//! `kill -9` at any moment, again and again on the same data.

use crate::{
    client::{look, write_until},
    corruption::text,
    history::History,
    seed,
    support::{KVBENCH, Server, stores, wait_until},
};
use kvbench::engine::{Fsync, Kind, LossClass};
use rand::{Rng, SeedableRng, rngs::StdRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

pub const CLIENTS: usize = 16;

/// Kills of one data directory.
const ROUNDS: usize = 8;

#[test]
fn under_always_a_kill_loses_nothing_on_any_store() {
    for store in stores() {
        Killing::new(store, Fsync::Always, CLIENTS).run(true);
    }
}

#[test]
fn a_kill_loses_nothing_under_everysec_where_the_store_says_so() {
    for store in stores().filter(|store| loses_nothing(store, Fsync::EverySec)) {
        Killing::new(store, Fsync::EverySec, CLIENTS).run(true);
    }
}

#[test]
fn a_kill_loses_nothing_under_no_where_the_store_says_so() {
    for store in stores().filter(|store| loses_nothing(store, Fsync::No)) {
        Killing::new(store, Fsync::No, CLIENTS).run(true);
    }
}

#[test]
fn a_kill_loses_only_the_last_writes_where_the_store_keeps_them_in_the_process() {
    for fsync in [Fsync::EverySec, Fsync::No] {
        for store in stores().filter(|store| !loses_nothing(store, fsync)) {
            Killing::new(store, fsync, CLIENTS).run(false);
        }
    }
}

#[test]
fn an_orderly_end_loses_nothing_under_any_policy() {
    for fsync in Fsync::ALL {
        for store in stores() {
            let mut run = Killing::new(store, fsync, CLIENTS);
            let server = run.start();
            let end = |server: Server| assert!(server.terminate().success());
            write_until(server, &mut run.histories, &mut run.rngs, 1000, end);
            run.check(true);
        }
    }
}

/// The engines that hand every write to the operating system before it is acknowledged.
#[test]
fn the_stores_that_write_through_promise_that_a_kill_loses_nothing() {
    for fsync in Fsync::ALL {
        for store in stores().filter(|store| {
            ["map", "btree", "bitcask", "rocksdb", "rocksdb-blob", "lmdb", "sqlite", "fjall", "mdbx"]
                .contains(store)
        }) {
            assert!(loses_nothing(store, fsync), "{store} under {fsync}");
        }
    }
    // canopydb promises less, because of full disks.
    assert!(stores().all(|store| store == "canopydb" || loses_nothing(store, Fsync::Always)));
}

/// Four seconds are four periods of the timer, and twice the two that sled may take.
#[test]
fn under_everysec_a_kill_spares_what_is_some_seconds_old() {
    let spares = |store: &str| {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), store, Fsync::EverySec);
        let mut client = server.connect();
        client.send("SET old 1\r\n");
        client.expect("+OK\r\n");
        thread::sleep(Duration::from_secs(4));
        // On a busy machine a sync is late. What is not synced is now at least four seconds old.
        wait_until(&format!("{store} does not sync"), || {
            let info = text(&client.call(&["INFO"]));
            let age = info.lines().find_map(|line| line.strip_prefix("oldest_unsynced_ms:")).unwrap();
            age.parse::<u64>().unwrap() < 4000
        });
        client.send("SET young 1\r\n");
        client.expect("+OK\r\n");
        server.kill();
        let server = start(dir.path(), store, Fsync::EverySec);
        assert_eq!(server.connect().call(&["EXISTS", "old"]), OwnedFrame::Integer(1), "{store}");
    };
    // All wait at the same time.
    thread::scope(|scope| stores().for_each(|store| drop(scope.spawn(move || spares(store)))));
}

pub fn loses_nothing(store: &str, fsync: Fsync) -> bool {
    Kind::find(store).unwrap().info.loss(fsync).kill.extent == LossClass::Nothing
}

fn start(dir: &Path, store: &str, fsync: Fsync) -> Server {
    Server::start(dir, &["--store", store, "--path", "data", "--fsync", fsync.as_str()])
}

/// Rounds of writing and killing on one data directory.
pub struct Killing {
    pub store: &'static str,
    fsync: Fsync,
    pub dir: tempfile::TempDir,
    pub rng: StdRng,
    pub histories: Vec<History>,
    pub rngs: Vec<StdRng>,
}

impl Killing {
    pub fn new(store: &'static str, fsync: Fsync, clients: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed());
        Self {
            store,
            fsync,
            dir: tempfile::tempdir().unwrap(),
            histories: (0..clients).map(History::new).collect(),
            rngs: (0..clients).map(|_| StdRng::from_rng(&mut rng)).collect(),
            rng,
        }
    }

    pub fn start(&self) -> Server {
        start(self.dir.path(), self.store, self.fsync)
    }

    /// `kept`: whether what was acknowledged must be there.
    fn run(mut self, kept: bool) {
        for round in 0..ROUNDS {
            let enough = self.rng.random_range(200..10_000);
            eprintln!("{} {}: round {round}, a kill after {enough} writes", self.store, self.fsync);
            let server = self.start();
            write_until(server, &mut self.histories, &mut self.rngs, enough, Server::kill);
            if round % 2 == 1 {
                self.kill_while_it_opens();
            }
            self.check(kept);
        }
    }

    /// A kill may also hit the repair of what the kill before it left.
    pub fn kill_while_it_opens(&mut self) {
        let mut process = Command::new(KVBENCH)
            .current_dir(&self.dir)
            .args(["--store", self.store, "--path", "data", "--fsync", self.fsync.as_str()])
            .args(["--port", "0", "--log-level", "error"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_micros(self.rng.random_range(500..20_000)));
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Looks at what is there, also through a count: nobody else wrote.
    pub fn check(&mut self, kept: bool) {
        let server = self.start();
        let mut client = server.connect();
        let mut keys = 0;
        for history in &mut self.histories {
            let found = look(&mut client, history);
            keys += found.len() as i64;
            history.settle(found, if kept { history.acknowledged } else { 0 });
        }
        assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(keys));
        if self.rng.random() {
            assert!(server.terminate().success());
        } else {
            server.kill();
        }
    }
}
