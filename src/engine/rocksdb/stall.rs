//! Writes that wait for room on a full disk.
//!
//! RocksDB stops writes while its memtables are full and waits for the flush. When that finds no room, later
//! writes fail at once, but the one that waits goes on waiting until there is room again, for hours perhaps. Its
//! client, and all whose writes queue behind it, are owed an error like the others; the orderly end of the
//! process waits for it too. So somebody looks every second, and ends what waits in vain by ending RocksDB's
//! background work: reads go on, and writes fail from then on, which they do after a failed write anyway.

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

/// Looks after one database until dropped.
pub(super) struct Watch {
    /// Begins and ends of writes: odd while one is under way. There is one writer.
    steps: Arc<AtomicU64>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watch {
    pub fn start(db: Arc<DB>) -> std::io::Result<Self> {
        let steps = Arc::<AtomicU64>::default();
        let (stop, stopped) = channel();
        let mut look = Look::new(db, steps.clone());
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PERIOD) {
                look.again();
            }
        };
        let thread = thread::Builder::new().name("rocksdb-stall".into()).spawn(run)?;
        Ok(Self { steps, thread: Some((stop, thread)) })
    }

    /// Runs a write.
    pub fn run<R>(&self, write: impl FnOnce() -> R) -> R {
        let step = self.steps.load(Ordering::Relaxed);
        self.steps.store(step + 1, Ordering::Relaxed);
        let result = write();
        self.steps.store(step + 2, Ordering::Relaxed);
        result
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            if thread.join().is_err() {
                log::error!("rocksdb: the watch over stalled writes panicked");
            }
        }
    }
}

struct Look {
    db: Arc<DB>,
    steps: Arc<AtomicU64>,
    /// The steps at the last look.
    seen: u64,
    /// Failures of background work at the last look that saw writes move, and at the one before: those since
    /// then may be what the write that does not move waits for. RocksDB counts them from the start on, also
    /// those it got over.
    failures: [u64; 2],
}

impl Look {
    fn new(db: Arc<DB>, steps: Arc<AtomicU64>) -> Self {
        Self { db, steps, seen: 0, failures: [0; 2] }
    }

    fn again(&mut self) {
        let steps = self.steps.load(Ordering::Relaxed);
        let [before, last] = self.failures;
        let failures = self.property(BACKGROUND_ERRORS).unwrap_or(last);
        if steps != self.seen || steps.is_multiple_of(2) {
            self.seen = steps;
            self.failures = [last, failures];
        } else if failures > before && self.property(IS_WRITE_STOPPED) == Some(1) {
            log::error!(
                "rocksdb: a write waits for background work that failed (a full disk?): it is given up"
            );
            self.db.cancel_all_background_work(false);
        }
    }

    fn property(&self, name: &rocksdb::properties::PropName) -> Option<u64> {
        self.db.property_int_value(name).ok().flatten()
    }
}
