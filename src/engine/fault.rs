//! Engines that fail on purpose, now and then, to see that a benchmark notices: `failing` returns errors,
//! `wrong-value` returns values that nobody wrote. Otherwise they are `btree`.

use super::{
    Batch, Caveat, Engine, Error, Info, KeyRange, Kind, OpenOptions, Result, VisitPair, VisitValue, btree,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Every so many calls of one kind are wrong.
const EVERY: u64 = 97;
/// Batches from this size on succeed, so that the load before a measurement does.
const LARGE: usize = 100;

/// Fails reads, scans and small writes.
pub const FAILING: Kind = Kind {
    info: &FAILING_INFO,
    open: |options| open(&FAILING_INFO, false, options),
    recognise: btree::KIND.recognise,
    check: btree::KIND.check,
};

/// Returns wrong values.
pub const WRONG_VALUE: Kind = Kind {
    info: &WRONG_INFO,
    open: |options| open(&WRONG_INFO, true, options),
    recognise: btree::KIND.recognise,
    check: btree::KIND.check,
};

static FAILING_INFO: Info = Info {
    name: "failing",
    library: "none",
    caveats: &[Caveat::new("fails on purpose")],
    ..*btree::KIND.info
};

static WRONG_INFO: Info = Info { name: "wrong-value", ..FAILING_INFO };

fn open(info: &'static Info, lies: bool, options: &OpenOptions) -> Result<Box<dyn Engine>> {
    let engine = (btree::KIND.open)(options)?;
    Ok(Box::new(Faulty { engine, info, lies, reads: AtomicU64::new(1), writes: AtomicU64::new(1) }))
}

struct Faulty {
    engine: Box<dyn Engine>,
    info: &'static Info,
    /// Whether values are wrong; else calls fail.
    lies: bool,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Faulty {
    fn is_due(calls: &AtomicU64) -> bool {
        calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY)
    }

    fn fail(&self, calls: &AtomicU64) -> Result<()> {
        match !self.lies && Self::is_due(calls) {
            true => Err(Error::Library { engine: self.info.name, message: "failed on purpose".into() }),
            false => Ok(()),
        }
    }

    /// The value with its last byte changed, now and then.
    fn distort<R>(&self, value: &[u8], visit: impl FnOnce(&[u8]) -> R) -> R {
        if !self.lies || !Self::is_due(&self.reads) {
            return visit(value);
        }
        let mut wrong = value.to_vec();
        if let Some(last) = wrong.last_mut() {
            *last ^= 1;
        }
        visit(&wrong)
    }
}

impl Engine for Faulty {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn key_limits(&self) -> (usize, usize) {
        self.engine.key_limits()
    }

    fn is_memory_only(&self) -> bool {
        self.engine.is_memory_only()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.fail(&self.reads)?;
        self.engine.read(keys, &mut |index, value| match value {
            Some(value) => self.distort(value, |value| visit(index, Some(value))),
            None => visit(index, None),
        })
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        if batch.len() < LARGE {
            self.fail(&self.writes)?;
        }
        self.engine.write(batch, sync)
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.fail(&self.reads)?;
        self.engine.scan(range, &mut |key, value| self.distort(value, |value| visit(key, value)))
    }

    fn count(&self) -> Result<u64> {
        self.engine.count()
    }

    fn disk_size(&self) -> Result<u64> {
        self.engine.disk_size()
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.engine.compact()
    }

    fn close(&self) -> Result<()> {
        self.engine.close()
    }
}
