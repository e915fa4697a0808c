//! `fjall`: fjall 3, a log-structured merge tree in Rust.

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, FsyncSupport, Gauge,
    Info, KeyRange, Kind, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Setting, Snapshot,
    Status, VisitPair, VisitValue, WriteOp, Writers,
    files::{self, FirstTree},
};
use crossbeam_utils::sync::ShardedLock;
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable,
    config::CompressionPolicy,
};
use std::{
    io, mem,
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Entry of the engine `fjall` in the list of engines.
pub const KIND: Kind =
    Kind::new(&INFO, Fjall::open, recognise, Check::OnCopy(check_copy)).with_settings(|options| {
        let (block_cache, memtable) = sizes(options);
        vec![("block cache", Setting::Bytes(block_cache)), ("memtable", Setting::Bytes(memtable))]
    });

const NAME: &str = "fjall";

static INFO: Info = Info {
    name: NAME,
    library: "fjall 3.1.13, lsm-tree 3.1.10",
    own_format: None,
    family: Family::Lsm,
    status: Status::Stable,
    needs: &[],
    capabilities: Capabilities {
        ordered: true,
        compacts: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::Serialized,
    fsync: FsyncSupport::Changeable,
    key_length: KEY_LIMITS,
    compression: &[Compression::None, Compression::Lz4],
    cache: "one budget: half of it for the block cache, an eighth (at most 64 MiB) for each memtable, of which two \
            are usual and four the most; outside of it, indexes of the first two levels and filters of the first",
    // Journals, directories, SST files that are being written; plus one SST file per read that is not open
    // already.
    open_files: OpenFiles { least: OWN_FILES + 16, most: OWN_FILES + 900, per_read: 1 },
    cluster_flag: None,
    loss: [
        Loss::NOTHING,
        Loss::power_cut(LossBound::seconds("about a second")),
        Loss::power_cut(LossBound::new(LossClass::Unwritten, "what the system had not written")),
    ],
    caveats: &[
        Caveat::new(
            "Flushes and compactions run on two background threads, during the load that is measured.",
        ),
        Caveat::new(
            "Writes that are faster than flushes and compactions stall (from 20 runs in L0), then halt. fjall halts them \
            at 4 sealed memtables or 30 runs, even after its background work has failed (on a full disk), so kvbench \
            halts them before: at 2 sealed memtables or 28 runs, with an error after such a failure.",
        ),
        Caveat::new(
            "All reads share a snapshot that is taken after each commit, because fjall's plain get sees parts of a \
            batch that is being applied.",
        ),
        Caveat::new(
            "A sync holds the lock of the journal: under everysec, writes wait for the timer's sync, and under \
            every policy for the sync at the beginning of each memtable flush.",
        ),
        Caveat::new(
            "fjall may take a corrupt batch for the end of its journal, and then drops everything behind it without an \
            error (fjall's issue 311). A value with a flipped bit in the journal it finds, and does not start.",
        ),
        Caveat::new(
            "FLUSHDB deletes every key separately, because fjall's own clear cannot be part of a batch.",
        ),
        Caveat::new(
            "The journal keeps up to 64 MB of writes that are already in tables. Small writes are not compressed \
            in it.",
        ),
        Caveat::new("--compression has an effect only when the data are created."),
        Caveat::new("After a failed write (also on a full disk) it accepts no writes until a restart."),
        Caveat::new("Keys have 1 to 65,535 bytes."),
    ],
    same_design: &["leveldb", "goleveldb", "pebble", "pebbledb"],
    log_targets: &["fjall", "lsm_tree"],
};

/// Minimum and maximum length of a key, in bytes: fjall panics at an empty key and writes the length into 16
/// bits.
const KEY_LIMITS: (usize, usize) = (1, u16::MAX as usize);

/// Number of files that fjall may have open besides SST files that are read: journals, directories, SST files that are
/// being written.
const OWN_FILES: u64 = 24;

/// Upper limit of the size of a memtable in bytes: fjall's default. A smaller cache makes it smaller.
const MEMTABLE: u64 = 64 << 20;

/// Number of fjall's threads for flushes and compactions: as many as RocksDB has here, and fjall's default on two
/// cores.
const THREADS: usize = 2;

/// Number of sealed memtables at which fjall halts writes.
const HALT_SEALED_MEMTABLES: usize = 4;

/// Number of runs in the first level (L0) at which fjall halts writes. From 20 on it stalls each write by a short loop.
const HALT_L0_RUNS: usize = 30;

/// Number of memtables that may be sealed, or flushed to a run each, between kvbench's check and that of fjall at the
/// end of the commit: the active one, and the one that the commit fills.
const SEALED_BY_COMMIT: usize = 2;

/// Name of fjall's directory inside the store's directory.
const TREE: &str = "fjall";

/// Name of the file by which fjall recognises its data.
const VERSION: &str = "version";

const KEYSPACE: &str = "kv";

fn recognise(path: &Path) -> bool {
    path.join(TREE).join(VERSION).is_file()
}

struct Fjall {
    /// Snapshot that reads use: the state after the last complete batch.
    latest: ShardedLock<Arc<fjall::Snapshot>>,
    /// Held from before a commit, whose halts are judged for one writer, to its snapshot: a flush makes the applied part
    /// of a batch visible in new snapshots.
    writing: Mutex<()>,
    keyspace: Keyspace,
    db: Database,
    path: PathBuf,
}

impl Fjall {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let path = options.location.on_disk(NAME)?;
        if let Some(first) = FirstTree::begin(path, TREE)? {
            drop(open_at(first.path(), options).map_err(|error| fail(error, path))?);
            first.end()?;
        }
        let (db, keyspace) = open_at(&path.join(TREE), options).map_err(|error| fail(error, path))?;
        let latest = ShardedLock::new(Arc::new(db.snapshot()));
        Ok(Box::new(Self { latest, writing: Mutex::default(), keyspace, db, path: path.into() }))
    }

    fn fail(&self, error: fjall::Error) -> Error {
        fail(error, &self.path)
    }

    /// Returns the snapshot of the last commit, which all reads share.
    fn latest(&self) -> Arc<fjall::Snapshot> {
        Arc::clone(&self.latest.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin_read(&self) -> CommittedState<'_> {
        CommittedState { engine: self, snapshot: self.latest() }
    }

    /// Replaces the snapshot that all reads share by a snapshot of the current state, so that later reads see the last
    /// commit. The caller holds `writing`.
    fn show(&self) {
        let snapshot = Arc::new(self.db.snapshot());
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        let old = mem::replace(&mut *latest, snapshot);
        drop(latest);
        drop(old);
    }

    fn apply(&self, batch: &Batch<'_>, sync: bool) -> Result<(), fjall::Error> {
        let (clear, ops) = batch.after_clear();
        let mode = if sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut converted = self.db.batch().durability(Some(mode));
        if clear {
            for pair in self.latest().iter(&self.keyspace) {
                converted.remove(&self.keyspace, pair.key()?);
            }
        }
        for op in ops {
            match *op {
                WriteOp::Put { key, value } => converted.insert(&self.keyspace, key, value),
                WriteOp::Delete { key } => converted.remove(&self.keyspace, key),
                WriteOp::Clear => {}
            }
        }
        converted.commit()
    }

    /// Waits, before a write, until there are so few sealed memtables and runs in L0 that fjall does not halt the
    /// commit: fjall would go on waiting after background work has failed. If there is a wait, returns an error if
    /// background work has failed; otherwise the commit finds that.
    fn halt_write(&self) -> Result<(), fjall::Error> {
        self.wait_while(|| {
            halts_write(self.keyspace.sealed_memtable_count(), self.keyspace.tree.l0_run_count())
        })
    }

    /// Waits while `busy` returns `true`, checked every millisecond. Returns an error if background work has failed and
    /// `busy` still returns `true`.
    fn wait_while(&self, busy: impl Fn() -> bool) -> Result<(), fjall::Error> {
        while busy() {
            // Reports failures of background work.
            self.db.persist(PersistMode::Buffer)?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Flushes the memtable to an SST file, and waits for the compactions that follow.
    fn flush(&self) -> Result<(), fjall::Error> {
        self.keyspace.rotate_memtable()?;
        // A compaction may start shortly after a flush, so the wait ends only after several idle checks.
        let mut quiet = 0;
        while quiet < 3 {
            let busy = || {
                self.keyspace.sealed_memtable_count() + self.db.outstanding_flushes() > 0
                    || self.db.active_compactions() > 0
            };
            quiet = if busy() { 0 } else { quiet + 1 };
            self.wait_while(busy)?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Returns `true` if fjall might halt a commit that begins with these numbers of sealed memtables and of runs in L0.
fn halts_write(sealed_memtables: usize, l0_runs: usize) -> bool {
    sealed_memtables + SEALED_BY_COMMIT >= HALT_SEALED_MEMTABLES || l0_runs + SEALED_BY_COMMIT >= HALT_L0_RUNS
}

/// Returns the range with the same keys whose bounds are no longer than a key: fjall panics at a longer one.
fn within_limits(range: KeyRange<'_>) -> KeyRange<'_> {
    fn cut(key: &[u8]) -> Option<&[u8]> {
        key.get(..KEY_LIMITS.1).filter(|cut| cut.len() < key.len())
    }
    let KeyRange { start, end } = range;
    KeyRange {
        // No key is between a bound and what is left of it.
        start: match start {
            Bound::Included(key) | Bound::Excluded(key) => cut(key).map_or(start, Bound::Excluded),
            Bound::Unbounded => start,
        },
        end: match end {
            Bound::Included(key) | Bound::Excluded(key) => cut(key).map_or(end, Bound::Included),
            Bound::Unbounded => end,
        },
    }
}

/// Returns the sizes of the block cache and of a memtable, in bytes.
fn sizes(options: &OpenOptions) -> (u64, u64) {
    (options.cache_size / 2, (options.cache_size / 8).clamp(1 << 20, MEMTABLE))
}

fn open_at(path: &Path, options: &OpenOptions) -> Result<(Database, Keyspace), fjall::Error> {
    let (block_cache, memtable) = sizes(options);
    let compression = match options.compression {
        Compression::None => CompressionType::None,
        Compression::Lz4 => CompressionType::Lz4,
    };
    let files = options.max_files.clamp(INFO.open_files.least, INFO.open_files.most) - OWN_FILES;
    let db = Database::builder(path)
        .cache_size(block_cache)
        .worker_threads(THREADS)
        .max_cached_files(Some(files as usize))
        .journal_compression(compression)
        .open()?;
    let create = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(memtable)
            .data_block_compression_policy(CompressionPolicy::all(compression))
    };
    let keyspace = db.keyspace(KEYSPACE, create)?;
    Ok((db, keyspace))
}

/// Checks the copy of a store's files at `path` by a scan: fjall compares each block with its checksum when it reads
/// the block.
fn check_copy(path: &Path) -> Result<CheckReport> {
    let remark = "some damage in its journal is not found: fjall takes it for the end of the journal, as after a crash";
    let db = Fjall::open(&OpenOptions::for_check(path)).map_err(|error| match error {
        Error::Io { source, .. } if MISSING.contains(&source.kind()) => Error::library(
            NAME,
            format!("a file of its data is missing or empty ({source}); restore a backup"),
        ),
        error => error,
    })?;
    Ok(CheckReport::by_scan(db)?.with_remark(remark))
}

/// Kinds of the errors with which fjall refuses to open data if one of their files is missing or empty.
const MISSING: [io::ErrorKind; 3] =
    [io::ErrorKind::NotFound, io::ErrorKind::AlreadyExists, io::ErrorKind::InvalidInput];

fn fail(error: fjall::Error, path: &Path) -> Error {
    match error {
        fjall::Error::Locked => Error::Locked { path: path.into() },
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            Error::Io { action: "access", path: path.into(), source }
        }
        fjall::Error::Poisoned => {
            Error::library(NAME, "an earlier write or its background work failed; it accepts no writes")
        }
        error => Error::library(NAME, error),
    }
}

/// fjall's snapshot of the state after a commit.
struct CommittedState<'e> {
    engine: &'e Fjall,
    snapshot: Arc<fjall::Snapshot>,
}

impl Snapshot for CommittedState<'_> {
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let Self { engine, snapshot } = self;
        let (min, max) = KEY_LIMITS;
        for (index, key) in keys.iter().enumerate() {
            let value = match key.len() {
                len if (min..=max).contains(&len) => snapshot
                    .get(&engine.keyspace, key)
                    .map_err(|error| engine.fail(error).of_value(index, key, false))?,
                _ => None,
            };
            if let ControlFlow::Break(()) = visit(index, value.as_deref()) {
                break;
            }
        }
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let range = within_limits(range);
        if range.is_empty() {
            return Ok(());
        }
        let Self { engine, snapshot } = self;
        for pair in snapshot.range::<&[u8], _>(&engine.keyspace, (range.start, range.end)) {
            let (key, value) = pair.into_inner().map_err(|error| engine.fail(error))?;
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

impl Engine for Fjall {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.begin_read().read(keys, visit)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(self.begin_read())))
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(NAME, KEY_LIMITS)?;
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.halt_write().and_then(|()| self.apply(batch, sync)).map_err(|error| self.fail(error))?;
        self.show();
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.db.persist(PersistMode::SyncData).map_err(|error| self.fail(error))
    }

    fn quiesce(&self) -> Result<()> {
        self.sync()?;
        self.flush().map_err(|error| self.fail(error))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.begin_read().scan(range, visit)
    }

    fn count(&self) -> Result<u64> {
        let mut count = 0;
        for pair in self.latest().iter(&self.keyspace) {
            pair.key().map_err(|error| self.fail(error))?;
            count += 1;
        }
        Ok(count)
    }

    fn disk_size(&self) -> Result<u64> {
        files::disk_size(&self.path)
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, help, count| {
            let value = u64::try_from(count).unwrap_or(u64::MAX);
            Gauge { name, help, value, is_backlog: true }
        };
        vec![
            gauge(
                "sealed_memtables",
                "Memtables that wait to be flushed.",
                self.keyspace.sealed_memtable_count(),
            ),
            gauge("level_0_runs", "Sorted runs in level 0.", self.keyspace.tree.l0_run_count()),
            gauge("journals", "Files of the journal.", self.db.journal_count()),
        ]
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.quiesce()?;
        self.keyspace.major_compact().map_err(|error| self.fail(error))?;
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::registry::when_unlocked;
    use std::{
        iter,
        sync::atomic::{AtomicBool, Ordering},
    };

    #[test]
    fn writes_halt_before_fjall_would() {
        assert_eq!([0, 1, 2, 3].map(|sealed| halts_write(sealed, 0)), [false, false, true, true]);
        assert_eq!([20, 27, 28, 29].map(|runs| halts_write(0, runs)), [false, false, true, true]);
    }

    /// A flush makes the applied part of a batch visible in snapshots of the database, such as that of another writer.
    #[test]
    fn flushes_beside_two_writers_leave_batches_whole() {
        let dir = tempfile::tempdir().unwrap();
        // The memtable holds half of a batch.
        let options = OpenOptions { cache_size: 8 << 20, ..OpenOptions::for_check(&dir.path().join("data")) };
        // A first start locks the database twice.
        let engine = when_unlocked(|| Fjall::open(&options)).unwrap();
        let keys: Vec<Vec<u8>> = (0..200).map(|key| format!("key {key}").into_bytes()).collect();
        let is_done = AtomicBool::new(false);
        let write = |keys: &[Vec<u8>], value: &[u8]| {
            let mut batch = Batch::default();
            keys.iter().for_each(|key| batch.put(key, value));
            engine.write(&batch, false).unwrap();
        };
        let differ = || {
            let mut seen = Vec::new();
            let ends = [&*keys[0], &*keys[199]];
            let visit = &mut |_, value: Option<&[u8]>| {
                seen.push(value.map(|value| value[0]));
                ControlFlow::Continue(())
            };
            engine.read(&ends, visit).unwrap();
            seen[0] != seen[1]
        };
        let until_done = |work: &dyn Fn() -> bool| {
            iter::from_fn(|| (!is_done.load(Ordering::Relaxed)).then(work)).filter(|found| *found).count()
        };
        let mixed = thread::scope(|scope| {
            scope.spawn(|| {
                until_done(&|| {
                    write(&[b"other".to_vec()], b"value");
                    false
                })
            });
            let reader = scope.spawn(|| until_done(&differ));
            (0..100).for_each(|round| write(&keys, &[round; 10_000]));
            is_done.store(true, Ordering::Relaxed);
            reader.join().unwrap()
        });
        assert_eq!(mixed, 0, "reads saw parts of several batches");
    }
}
