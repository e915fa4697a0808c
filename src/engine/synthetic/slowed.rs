//! Engine wrapper that adds a fixed share to the time of each read, write and scan, which `kvbench compare` must find
//! (`benches/compare_proof.py`). Other calls, such as a sync without a write, take no longer.

use crate::engine::{Batch, Engine, Fsync, Info, KeyRange, Result, VisitPair, VisitValue};
use std::{
    env,
    time::{Duration, Instant},
};

/// Environment variable with a store and the fraction (from 0, below 1) of its speed that the store loses in reads,
/// writes and scans: `btree=0.15`.
const VARIABLE: &str = "KVBENCH_SLOWED";

/// Returns `engine`, slowed down if the environment variable `KVBENCH_SLOWED` names `store`.
pub(super) fn as_asked(store: &str, engine: Box<dyn Engine>) -> Box<dyn Engine> {
    let asked = env::var(VARIABLE).ok();
    let part = asked.as_deref().and_then(|text| text.split_once('=')).filter(|(name, _)| *name == store);
    match part.and_then(|(_, part)| part.parse::<f64>().ok()).filter(|part| (0.0..1.0).contains(part)) {
        Some(part) => Box::new(Slowed { engine, more: part / (1.0 - part) }),
        None => engine,
    }
}

struct Slowed {
    engine: Box<dyn Engine>,
    /// Added time as a fraction of the time that a read, write or scan takes without it.
    more: f64,
}

impl Slowed {
    /// Runs `work`, then spins for the configured fraction of the time that `work` took.
    fn slowly<T>(&self, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = work();
        let taken = begin.elapsed();
        let end = taken + Duration::from_secs_f64(taken.as_secs_f64() * self.more);
        while begin.elapsed() < end {
            std::hint::spin_loop();
        }
        result
    }
}

impl Engine for Slowed {
    fn info(&self) -> &'static Info {
        self.engine.info()
    }

    fn key_limits(&self) -> (usize, usize) {
        self.engine.key_limits()
    }

    fn is_memory_only(&self) -> bool {
        self.engine.is_memory_only()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.slowly(|| self.engine.read(keys, visit))
    }

    fn read_large(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.slowly(|| self.engine.read_large(keys, visit))
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        self.slowly(|| self.engine.write(batch, sync))
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn set_fsync(&self, fsync: Fsync) -> Result<()> {
        self.engine.set_fsync(fsync)
    }

    fn quiesce(&self) -> Result<()> {
        self.engine.quiesce()
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.slowly(|| self.engine.scan(range, visit))
    }

    fn scan_step(&self, position: u64, visit: &mut VisitPair<'_>) -> Result<u64> {
        self.slowly(|| self.engine.scan_step(position, visit))
    }

    fn count(&self) -> Result<u64> {
        self.engine.count()
    }

    fn disk_size(&self) -> Result<u64> {
        self.engine.disk_size()
    }

    fn rewrite_log(&self) -> Result<()> {
        self.engine.rewrite_log()
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.engine.compact()
    }

    fn close(&self) -> Result<()> {
        self.engine.close()
    }
}
