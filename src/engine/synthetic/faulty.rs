//! Engines that fail on purpose, otherwise `btree`. Three test that a benchmark notices: `failing` sometimes
//! returns errors, `wrong-value` sometimes returns values that no client wrote, and `forgetful` undoes the last
//! update when it is closed. While a file `<path>.hold` (in memory: `<store>.hold`) exists, `slow-sync` does not
//! end its syncs, `slow-scan` does not end its scans, counts, size queries and large reads, and `slow-read` does not end
//! its reads; each creates a file `<path>.held` when one waits. `panicking` panics at one call, which the environment
//! variable `KVBENCH_PANIC` names as `OPENING:CALL:NUMBER`: `2:read:5` is the fifth read after the second opening of a
//! path. A benchmark opens a store for the load, for the cells, and for the verification.

use crate::engine::{
    Batch, Capabilities, Caveat, Engine, Error, Fsync, Info, KeyRange, Kind, OpenOptions, Result, Status,
    VisitPair, VisitValue, WriteOp, stores::btree,
};
use std::{
    env,
    fs::File,
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Interval of the faults: one in this number of reads and scans, and of small writes, fails (`failing`), or one in
/// this number of returned values is changed (`wrong-value`).
const EVERY: u64 = 97;
/// Minimum number of writes of a batch that always succeeds, so that the load before a measurement does.
const LOAD_BATCH: usize = 100;

/// Engine that returns an error from one in 97 reads and scans, and from one in 97 small writes.
pub const FAILING: Kind =
    Kind { info: &FAILING_INFO, open: |options| open(&FAILING_INFO, Fault::Errors, options), ..btree::KIND };

/// Engine that changes one in 97 values that it returns.
pub const WRONG_VALUE: Kind =
    Kind { info: &WRONG_INFO, open: |options| open(&WRONG_INFO, Fault::Lies, options), ..btree::KIND };

/// Engine that undoes its last update when it is closed: opened again, it has an old value, with an unchanged number
/// of keys.
pub const FORGETFUL: Kind = Kind {
    info: &FORGETFUL_INFO,
    open: |options| open(&FORGETFUL_INFO, Fault::Forgets(Mutex::default()), options),
    ..btree::KIND
};

/// Engine whose syncs do not end while a file exists that the test creates. A write that syncs is not delayed.
pub const SLOW_SYNC: Kind = Kind {
    info: &SLOW_SYNC_INFO,
    open: |options| open(&SLOW_SYNC_INFO, Fault::SlowSyncs(PauseFile::of(&SLOW_SYNC_INFO, options)), options),
    ..btree::KIND
};

/// Engine whose scans, counts, size queries and large reads do not end while a file exists that the test creates.
pub const SLOW_SCAN: Kind = Kind {
    info: &SLOW_SCAN_INFO,
    open: |options| open(&SLOW_SCAN_INFO, Fault::SlowScans(PauseFile::of(&SLOW_SCAN_INFO, options)), options),
    ..btree::KIND
};

/// Engine whose reads do not end while a file exists that the test creates. Its description says that its data are not
/// in memory, so that the server expects such reads.
pub const SLOW_READ: Kind = Kind {
    info: &SLOW_READ_INFO,
    open: |options| open(&SLOW_READ_INFO, Fault::SlowReads(PauseFile::of(&SLOW_READ_INFO, options)), options),
    ..btree::KIND
};

/// Engine that panics at one call, which the environment variable `KVBENCH_PANIC` names.
pub const PANICKING: Kind = Kind {
    info: &PANICKING_INFO,
    open: |options| {
        let engine = FaultyEngine::open(&PANICKING_INFO, Fault::panics(options), options)?;
        engine.panic_at("open");
        Ok(Box::new(engine))
    },
    ..btree::KIND
};

static FAILING_INFO: Info = Info {
    name: "failing",
    library: "none",
    status: Status::Synthetic,
    caveats: &[Caveat::new("fails on purpose")],
    ..*btree::KIND.info
};

static WRONG_INFO: Info = Info { name: "wrong-value", ..FAILING_INFO };

static FORGETFUL_INFO: Info = Info { name: "forgetful", ..FAILING_INFO };

static SLOW_SYNC_INFO: Info = Info { name: "slow-sync", ..FAILING_INFO };

static SLOW_SCAN_INFO: Info = Info { name: "slow-scan", ..FAILING_INFO };

static SLOW_READ_INFO: Info = Info {
    name: "slow-read",
    capabilities: Capabilities { memory_resident: false, ..FAILING_INFO.capabilities },
    ..FAILING_INFO
};

static PANICKING_INFO: Info = Info { name: "panicking", ..FAILING_INFO };

enum Fault {
    /// One in [`EVERY`] reads and scans, and one in [`EVERY`] small writes, fails.
    Errors,
    /// One in [`EVERY`] values is returned with another last byte.
    Lies,
    /// A close undoes the last update. Holds the last updated key with its previous value.
    Forgets(Mutex<Option<(Vec<u8>, Vec<u8>)>>),
    /// Syncs of the engine, other than those of writes, wait while this file exists.
    SlowSyncs(PauseFile),
    /// Scans, counts, size queries and large reads of the engine wait while this file exists.
    SlowScans(PauseFile),
    /// Reads of the engine wait while this file exists.
    SlowReads(PauseFile),
    /// One call of the engine panics.
    Panics {
        /// Name of the call that panics, such as `read`; empty for none.
        call: String,
        /// Number of calls of this name up to the one that panics.
        left: AtomicU64,
    },
}

impl Fault {
    /// Returns the fault that the environment variable `KVBENCH_PANIC` asks for; counts this opening of the path.
    fn panics(options: &OpenOptions) -> Self {
        let opening = options.location.path().map_or(0, count_opening);
        let asked = env::var("KVBENCH_PANIC").unwrap_or_default();
        let mut parts = asked.split(':');
        let is_this = parts.next().and_then(|part| part.parse().ok()) == Some(opening);
        let call = parts.next().filter(|_| is_this).unwrap_or_default().to_owned();
        let number = parts.next().and_then(|part| part.parse().ok()).unwrap_or(1);
        Self::Panics { call, left: AtomicU64::new(number) }
    }
}

/// Counts an open of `path`, and returns the number of opens so far. The count is kept in a file beside `path`, because
/// several processes open it one after the other.
fn count_opening(path: &Path) -> u64 {
    let path = path.with_added_extension("openings");
    // A test that expects a panic fails if the file cannot be written.
    let file = File::options().create(true).append(true).open(&path);
    let _written = file.and_then(|mut file| file.write_all(b"."));
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// File that delays the operations of an engine as long as it exists.
struct PauseFile(PathBuf);

impl PauseFile {
    fn of(info: &Info, options: &OpenOptions) -> Self {
        let beside = options.location.path().unwrap_or(Path::new(info.name));
        Self(beside.with_added_extension("hold"))
    }

    /// Waits while the file exists, after creating a file `.held` by which the test notices it.
    fn wait(&self) {
        if self.0.exists() {
            // A test that expects the file fails without it.
            let _made = File::create(self.0.with_extension("held"));
        }
        while self.0.exists() {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn open(info: &'static Info, fault: Fault, options: &OpenOptions) -> Result<Box<dyn Engine>> {
    Ok(Box::new(FaultyEngine::open(info, fault, options)?))
}

struct FaultyEngine {
    engine: Box<dyn Engine>,
    info: &'static Info,
    fault: Fault,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl FaultyEngine {
    fn open(info: &'static Info, fault: Fault, options: &OpenOptions) -> Result<Self> {
        let engine = (btree::KIND.open)(options)?;
        Ok(Self { engine, info, fault, reads: AtomicU64::new(1), writes: AtomicU64::new(1) })
    }

    /// Panics if `call` is the call at which `panicking` panics.
    #[expect(clippy::panic, reason = "on purpose")]
    fn panic_at(&self, call: &str) {
        if let Fault::Panics { call: name, left } = &self.fault
            && name == call
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            panic!("{call} panicked on purpose");
        }
    }

    fn is_due(calls: &AtomicU64) -> bool {
        calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY)
    }

    fn fail(&self, calls: &AtomicU64) -> Result<()> {
        match matches!(self.fault, Fault::Errors) && Self::is_due(calls) {
            true => Err(Error::Library { engine: self.info.name, message: "failed on purpose".into() }),
            false => Ok(()),
        }
    }

    fn wait_to_scan(&self) {
        if let Fault::SlowScans(hold) = &self.fault {
            hold.wait();
        }
    }

    /// Keeps the value that a write is about to replace, if the engine is to undo its last update.
    fn remember(&self, batch: &Batch<'_>) -> Result<()> {
        let Fault::Forgets(last) = &self.fault else { return Ok(()) };
        for op in batch.ops() {
            let WriteOp::Put { key, .. } = *op else { continue };
            let mut note = |_: usize, old: Option<&[u8]>| {
                if let Some(old) = old {
                    *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((key.into(), old.into()));
                }
                ControlFlow::Continue(())
            };
            self.engine.read(&[key], &mut note)?;
        }
        Ok(())
    }

    /// Undoes the last update, if the engine is `forgetful`.
    fn forget(&self) -> Result<()> {
        let Fault::Forgets(last) = &self.fault else { return Ok(()) };
        let last = last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((key, old)) = &last else { return Ok(()) };
        let mut batch = Batch::default();
        batch.put(key, old);
        self.engine.write(&batch, false)
    }

    /// Calls `visit` with the value; the engine `wrong-value` changes the last byte of one in [`EVERY`] values.
    fn distort<R>(&self, value: &[u8], visit: impl FnOnce(&[u8]) -> R) -> R {
        if !matches!(self.fault, Fault::Lies) || !Self::is_due(&self.reads) {
            return visit(value);
        }
        let mut wrong = value.to_vec();
        if let Some(last) = wrong.last_mut() {
            *last ^= 1;
        }
        visit(&wrong)
    }
}

impl Engine for FaultyEngine {
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
        self.panic_at("read");
        if let Fault::SlowReads(hold) = &self.fault {
            hold.wait();
        }
        self.fail(&self.reads)?;
        self.engine.read(keys, &mut |index, value| match value {
            Some(value) => self.distort(value, |value| visit(index, Some(value))),
            None => visit(index, None),
        })
    }

    fn read_large(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.wait_to_scan();
        self.read(keys, visit)
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        self.panic_at("write");
        if batch.len() < LOAD_BATCH {
            self.fail(&self.writes)?;
        }
        self.remember(batch)?;
        self.engine.write(batch, sync)
    }

    fn sync(&self) -> Result<()> {
        self.panic_at("sync");
        if let Fault::SlowSyncs(hold) = &self.fault {
            hold.wait();
        }
        self.engine.sync()
    }

    fn set_fsync(&self, fsync: Fsync) -> Result<()> {
        self.engine.set_fsync(fsync)
    }

    fn quiesce(&self) -> Result<()> {
        self.panic_at("quiesce");
        self.engine.quiesce()
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.panic_at("scan");
        self.fail(&self.reads)?;
        self.wait_to_scan();
        self.engine.scan(range, &mut |key, value| self.distort(value, |value| visit(key, value)))
    }

    fn count(&self) -> Result<u64> {
        self.panic_at("count");
        self.wait_to_scan();
        self.engine.count()
    }

    fn disk_size(&self) -> Result<u64> {
        self.wait_to_scan();
        self.engine.disk_size()
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.panic_at("compact");
        self.engine.compact()
    }

    fn close(&self) -> Result<()> {
        self.panic_at("close");
        self.forget()?;
        self.engine.close()
    }
}
