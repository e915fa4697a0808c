//! Engine wrapper that adds a fixed share to the time of reads, writes and scans, or an allocation to each, which
//! `kvbench compare` and `kvbench duel` must find (`benches/compare_proof.py`, `benches/duel_proof.py`), or memory that each
//! reads, which a processor's cache loses while other stores have their turn (`benches/turns_proof.py`). Other calls, such as
//! a sync without a write, stay as they are.

use crate::engine::{Batch, Engine, Fsync, Info, KeyRange, Result, VisitPair, VisitValue};
use std::{
    cell::Cell,
    env,
    num::NonZeroUsize,
    str::FromStr,
    time::{Duration, Instant},
};

/// Environment variable with a store and the fraction (from 0, below 1) of its speed that the store loses in reads,
/// writes and scans: `btree=0.15`.
const VARIABLE: &str = "KVBENCH_SLOWED";

/// Environment variable with a store that makes an allocation in each read, write and scan.
const ALLOCATES: &str = "KVBENCH_ALLOCATES";

/// Environment variable with stores, each with the MiB of memory from which each read, write and scan takes [`LINES`]
/// values at random places: `map=8,btree=64`.
const READS_MEMORY: &str = "KVBENCH_READS_MEMORY";

/// Number of values that are read from the memory of `KVBENCH_READS_MEMORY`, one after the other.
const LINES: usize = 64;

/// Returns `engine`, slowed down if the environment variable `KVBENCH_SLOWED` names `store`, with more allocations if
/// `KVBENCH_ALLOCATES` does, and with reads of memory if `KVBENCH_READS_MEMORY` does.
pub(super) fn as_asked(store: &str, engine: Box<dyn Engine>) -> Box<dyn Engine> {
    let part = asked::<f64>(VARIABLE, store).filter(|part| (0.0..1.0).contains(part));
    let allocates = env::var(ALLOCATES).is_ok_and(|name| name == store);
    let mib: Option<usize> = asked(READS_MEMORY, store);
    if part.is_none() && !allocates && mib.is_none() {
        return engine;
    }
    let more = part.map_or(0.0, |part| part / (1.0 - part));
    // Not zeros, which would all be one page.
    let memory = vec![1; mib.unwrap_or(0) << 20 >> 3];
    Box::new(Slowed { engine, more, allocates, memory })
}

/// Returns the value that an environment variable, with `STORE=VALUE` or several of them, gives to a store.
fn asked<T: FromStr>(variable: &str, store: &str) -> Option<T> {
    let text = env::var(variable).ok()?;
    let (_, value) =
        text.split(',').filter_map(|part| part.split_once('=')).find(|(name, _)| *name == store)?;
    value.parse().ok()
}

/// Shortest time in seconds to spin: many times that of a look at the clock, so that a fraction of a short call is exact
/// on average.
const LEAST: f64 = 1e-6;

thread_local! {
    /// Time in seconds that this thread has yet to spin.
    static DUE: Cell<f64> = const { Cell::new(0.0) };
    /// State of the generator of places in the memory that is read.
    static PLACE: Cell<u64> = const { Cell::new(1) };
}

struct Slowed {
    engine: Box<dyn Engine>,
    /// Added time as a fraction of the time that a read, write or scan takes without it.
    more: f64,
    /// `true` if each read, write and scan makes an allocation.
    allocates: bool,
    /// Memory that each read, write and scan reads; empty if none.
    memory: Vec<u64>,
}

impl Slowed {
    /// Runs `work`, and adds the configured fraction of its time to that which this thread has to spin. Spins once that
    /// is [`LEAST`].
    fn slowly<T>(&self, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        if self.allocates {
            drop(std::hint::black_box(Box::new(0_u8)));
        }
        self.read_memory();
        let result = work();
        let taken = begin.elapsed();
        let due = DUE.get() + taken.as_secs_f64() * self.more;
        if due < LEAST {
            DUE.set(due);
            return result;
        }
        while begin.elapsed() - taken < Duration::from_secs_f64(due) {
            std::hint::spin_loop();
        }
        // The clock shows how much too long it was.
        DUE.set(due - (begin.elapsed() - taken).as_secs_f64());
        result
    }

    /// Reads [`LINES`] values of the memory. Each place depends on the value before it, so the reads cannot overlap.
    fn read_memory(&self) {
        let Some(values) = NonZeroUsize::new(self.memory.len()) else { return };
        let mut place = PLACE.get();
        for _ in 0..LINES {
            // Knuth's MMIX generator, whose high bits are the random ones.
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = self.memory.get((place >> 32) as usize % values);
            place = place.wrapping_add(std::hint::black_box(value.copied().unwrap_or(0)));
        }
        PLACE.set(place);
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

    fn scan_part(&self, key: &[u8]) -> u64 {
        self.engine.scan_part(key)
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
