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

/// Writes that began, and that ended.
#[derive(Default)]
struct Writes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Looks after one database until dropped.
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

    /// Runs a write.
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
    /// The writes that had ended at the last look.
    ended: u64,
    /// Failures of background work at the last look that saw writes move, and at the one before: those since
    /// then may be what the write that does not move waits for. RocksDB counts them from the start on, also
    /// those it got over.
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
