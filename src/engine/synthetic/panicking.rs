//! Engine that panics at one call, otherwise `btree`. The environment variable `KVBENCH_PANIC` names the call as
//! `OPENING:CALL:NUMBER`: `2:read:5` is the fifth read after the second opening of a path. A benchmark opens a store
//! for the load, for the cells, and for the verification.

use crate::engine::{
    Batch, Caveat, Engine, Info, KeyRange, Kind, OpenOptions, Result, VisitPair, VisitValue, stores::btree,
};
use std::{
    env,
    fs::OpenOptions as FileOptions,
    io::Write,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

const VARIABLE: &str = "KVBENCH_PANIC";

/// Engine that panics at the call that the environment variable names.
pub const KIND: Kind = Kind { info: &INFO, open, ..btree::KIND };

static INFO: Info = Info {
    name: "panicking",
    library: "none",
    caveats: &[Caveat::new("panics on purpose")],
    ..*btree::KIND.info
};

fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
    let opening = options.location.path().map_or(0, opening);
    let asked = env::var(VARIABLE).unwrap_or_default();
    let mut parts = asked.split(':');
    let is_this = parts.next().and_then(|part| part.parse().ok()) == Some(opening);
    let call = parts.next().filter(|_| is_this).unwrap_or_default().to_owned();
    let number = parts.next().and_then(|part| part.parse().ok()).unwrap_or(1);
    let engine = (btree::KIND.open)(options)?;
    let engine = Panicking { engine, call, left: AtomicU64::new(number) };
    engine.at("open");
    Ok(Box::new(engine))
}

/// Counts the openings of a path in a file beside it, because processes open it one after the other.
fn opening(path: &Path) -> u64 {
    let path = path.with_added_extension("openings");
    // A test that expects a panic fails if the file cannot be written.
    let file = FileOptions::new().create(true).append(true).open(&path);
    let _written = file.and_then(|mut file| file.write_all(b"."));
    path.metadata().map_or(0, |metadata| metadata.len())
}

struct Panicking {
    engine: Box<dyn Engine>,
    /// Name of the call that panics; empty for none.
    call: String,
    /// Number of such calls up to the one that panics.
    left: AtomicU64,
}

impl Panicking {
    #[expect(clippy::panic, reason = "on purpose")]
    fn at(&self, call: &str) {
        if self.call == call && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            panic!("{call} panicked on purpose");
        }
    }
}

impl Engine for Panicking {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn key_limits(&self) -> (usize, usize) {
        self.engine.key_limits()
    }

    fn is_memory_only(&self) -> bool {
        self.engine.is_memory_only()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.at("read");
        self.engine.read(keys, visit)
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        self.at("write");
        self.engine.write(batch, sync)
    }

    fn sync(&self) -> Result<()> {
        self.at("sync");
        self.engine.sync()
    }

    fn quiesce(&self) -> Result<()> {
        self.at("quiesce");
        self.engine.quiesce()
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.at("scan");
        self.engine.scan(range, visit)
    }

    fn count(&self) -> Result<u64> {
        self.at("count");
        self.engine.count()
    }

    fn disk_size(&self) -> Result<u64> {
        self.engine.disk_size()
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.at("compact");
        self.engine.compact()
    }

    fn close(&self) -> Result<()> {
        self.at("close");
        self.engine.close()
    }
}
