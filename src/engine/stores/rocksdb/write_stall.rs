//! Detection of writes to RocksDB that stall because the disk is full.
//!
//! RocksDB stops writes while its memtables are full and waits for the flush. If the flush finds no space,
//! later writes fail at once, but the stalled write waits until there is space again, possibly for hours. Its
//! client, and all clients whose writes queue behind it, must get an error like the others; the shutdown of the
//! process waits for it too. So a thread checks every second, and ends such a wait by stopping RocksDB's
//! background work: reads continue, and writes fail from then on, which they do after a failed write anyway.

use rocksdb::{
    DB,
    properties::{BACKGROUND_ERRORS, IS_WRITE_STOPPED},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const PERIOD: Duration = Duration::from_secs(1);

/// Numbers of writes to a RocksDB database that have started and that have ended.
#[derive(Default)]
struct Writes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Thread that checks every second whether a write to a RocksDB database stalls because the disk is full, until this
/// value is dropped. If so, it stops RocksDB's background work, so that writes fail instead.
pub(super) struct StallMonitor {
    writes: Arc<Writes>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl StallMonitor {
    pub fn start(db: Arc<DB>) -> std::io::Result<Self> {
        let writes = Arc::<Writes>::default();
        let (stop, stopped) = channel();
        let mut look = StallSample::new(db, writes.clone());
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PERIOD) {
                look.again();
            }
        };
        let thread = thread::Builder::new().name("rocksdb-stall".into()).spawn(run)?;
        Ok(Self { writes, thread: Some((stop, thread)) })
    }

    /// Runs `write`, counts it as begun and ended, so that a stall is detected, and returns its result.
    pub fn run<R>(&self, write: impl FnOnce() -> R) -> R {
        self.writes.begun.fetch_add(1, Ordering::Relaxed);
        let result = write();
        self.writes.ended.fetch_add(1, Ordering::Relaxed);
        result
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            if thread.join().is_err() {
                log::error!("rocksdb: the thread that watches stalled writes panicked");
            }
        }
    }
}

struct StallSample {
    db: Arc<DB>,
    writes: Arc<Writes>,
    /// Number of writes to the database that had ended at the last check.
    ended: u64,
    /// Numbers of RocksDB's background errors at the two latest checks that saw writes progress, or no write, older
    /// first: a stalled write may wait for work that failed since the older one. RocksDB counts errors since its start,
    /// including those it recovered from.
    failures: [u64; 2],
}

impl StallSample {
    fn new(db: Arc<DB>, writes: Arc<Writes>) -> Self {
        Self { db, writes, ended: 0, failures: [0; 2] }
    }

    fn again(&mut self) {
        let ended = self.writes.ended.load(Ordering::Relaxed);
        let is_idle = self.writes.begun.load(Ordering::Relaxed) == ended;
        let [before, last] = self.failures;
        let failures = self.property(BACKGROUND_ERRORS).unwrap_or(last);
        if ended != self.ended || is_idle {
            self.ended = ended;
            self.failures = [last, failures];
        } else if failures > before && self.property(IS_WRITE_STOPPED) == Some(1) {
            log::error!(
                "rocksdb: a write waits for background work that has failed (is the disk full?); the write fails"
            );
            self.db.cancel_all_background_work(false);
        }
    }

    fn property(&self, name: &rocksdb::properties::PropName) -> Option<u64> {
        self.db.property_int_value(name).ok().flatten()
    }
}
