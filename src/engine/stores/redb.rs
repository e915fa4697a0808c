//! `redb`: a copy-on-write B+ tree in one file, in Rust.

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, Fsync, FsyncSupport,
    Info, KeyRange, Kind, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Snapshot, Status,
    VisitPair, VisitValue, WriteOp, Writers,
    files::{self, FirstFile},
    mutex::lock,
};
use crossbeam_utils::sync::ShardedLock;
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata, TableDefinition,
    WriteTransaction, backends::InMemoryBackend,
};
use std::{
    fs::File,
    io::Read,
    mem,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// Entry of the engine `redb` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Redb::open, recognise, Check::OnCopy(check_copy));

const NAME: &str = "redb";

/// Loss bound of a kill or power cut under the fsync policy `no`, see [`PENDING`].
const SINCE_SYNC: LossBound =
    LossBound::new(LossClass::Buffer, "what redb's buffer of at most 100,000 commits holds");

static INFO: Info = Info {
    name: NAME,
    library: "redb 4.4.0",
    own_format: None,
    family: Family::CowBTree,
    status: Status::Stable,
    needs: &[],
    capabilities: Capabilities {
        ordered: true,
        in_memory: true,
        constant_count: true,
        compacts: true,
        finds_corruption: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::Serialized,
    fsync: FsyncSupport::Changeable,
    key_length: (0, MAX_KEY),
    compression: &[Compression::None],
    cache: "page cache of this size, part of it for pages not yet written",
    open_files: OpenFiles::always(8),
    cluster_flag: None,
    loss: [
        Loss::NOTHING,
        Loss { kill: LossBound::seconds("about a second"), power_cut: LossBound::seconds("about a second") },
        Loss { kill: SINCE_SYNC, power_cut: SINCE_SYNC },
    ],
    caveats: &[
        Caveat::unsynced(
            "Under everysec and no, redb keeps commits in its own memory until the next synced commit, so a killed \
            process loses them too. Under no, one commit in 100,000 is synced.",
        ),
        Caveat::in_files(
            "After a kill the next start reads the whole file to repair it. redb's quick repair would avoid this, \
            but syncs every commit twice; it is off.",
        ),
        Caveat::under(
            Fsync::EverySec,
            "The sync of everysec is a commit of its own: writes wait while it writes the pages of the last second \
            and syncs them.",
        ),
        Caveat::in_files(
            "After a failed read, write or sync (also on a full disk) it refuses reads and writes until a restart.",
        ),
        Caveat::new(
            "All reads share a table that is opened after each commit. To begin a transaction and open the table \
            for each read, as a small program does, would cost as much as several look-ups.",
        ),
        Caveat::new(
            "For each key that it changes, a commit copies the pages from the root to the leaf, so small batches \
            write many times their size.",
        ),
    ],
    same_design: &["bolt", "bbolt", "boltdb"],
    log_targets: &[],
};

/// Maximum length of a key, in bytes: Redis' limit. redb's own limit is 3 GiB.
const MAX_KEY: usize = 512 << 20;

/// Maximum number of consecutive commits without a sync: redb keeps some bytes in memory for each, so the commit after
/// them is synced. [`INFO`] documents the number.
const PENDING: u32 = if cfg!(test) { 100 } else { 100_000 };

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("kvbench");

/// The first bytes of a redb file.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

fn recognise(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == MAGIC
}

struct Redb {
    /// The table of all pairs as of the last commit, shared by all readers: starting a transaction and opening the
    /// table costs several times a lookup. It pins the pages of that commit, until the next one. Declared before `db`,
    /// so that it is dropped before the database closes.
    latest: ShardedLock<Arc<Table>>,
    /// Held by a thread while it opens the table after a commit, until that is `latest`: `write` and `sync` may both do so,
    /// and the older state must not replace the newer one.
    opening: Mutex<()>,
    db: Database,
    /// Path of the data file; `None` for data in memory.
    path: Option<PathBuf>,
    /// `true` if the database may have commits that were not synced.
    unsynced: AtomicBool,
    /// Number of commits since the last synced commit.
    pending: AtomicU32,
    /// Held by a thread while it syncs the database: a thread that finds nothing unsynced must still wait for the
    /// running sync of another thread.
    syncing: Mutex<()>,
}

impl Redb {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let mut builder = Database::builder();
        builder.set_cache_size(usize::try_from(options.cache_size).unwrap_or(usize::MAX));
        let path = options.location.path().map(Path::to_owned);
        let first = path.as_deref().map_or(Ok(None), FirstFile::begin)?;
        let fail = |error| fail(error, path.as_deref());
        let db = match first.as_ref().map(FirstFile::path).or(path.as_deref()) {
            None => builder.create_with_backend(InMemoryBackend::new()),
            Some(path) => builder.create(path),
        };
        let db = db.map_err(|error| fail(error.into()))?;
        let latest = create_table(&db).map_err(fail)?;
        if let Some(path) = &path {
            first.map_or_else(|| files::sync_path(files::parent(path)), FirstFile::end)?;
        }
        Ok(Box::new(Self::new(latest, db, path)))
    }

    fn new(latest: Table, db: Database, path: Option<PathBuf>) -> Self {
        let latest = ShardedLock::new(Arc::new(latest));
        let (opening, unsynced, pending, syncing) = Default::default();
        Self { latest, opening, db, path, unsynced, pending, syncing }
    }

    fn fail(&self, error: impl Into<redb::Error>) -> Error {
        fail(error, self.path.as_deref())
    }

    /// Returns the table of all pairs as of the last commit, which all reads share.
    fn latest(&self) -> Arc<Table> {
        Arc::clone(&self.latest.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin_read(&self) -> ReadTable<'_> {
        ReadTable { engine: self, table: self.latest() }
    }

    /// Commits `txn`, then makes its changes visible to reads.
    fn commit(&self, txn: WriteTransaction) -> Result<(), redb::Error> {
        txn.commit()?;
        let opening = lock(&self.opening);
        // No read waits meanwhile: this reads the root page, which has the size of the largest value in it.
        let table = Arc::new(self.db.begin_read()?.open_table(TABLE)?);
        let old = mem::replace(&mut *self.latest.write().unwrap_or_else(PoisonError::into_inner), table);
        drop(opening);
        drop(old);
        Ok(())
    }

    fn apply(&self, batch: &Batch<'_>, durability: Durability) -> Result<(), redb::Error> {
        let (clear, ops) = batch.after_clear();
        // Dropped without a commit, the transaction leaves nothing behind.
        let mut txn = self.db.begin_write()?;
        txn.set_durability(durability)?;
        if clear {
            txn.delete_table(TABLE)?;
        }
        {
            let mut table = txn.open_table(TABLE)?;
            for op in ops {
                match op {
                    WriteOp::Put { key, value } => drop(table.insert(key, value)?),
                    WriteOp::Delete { key } => drop(table.remove(key)?),
                    WriteOp::Clear => {}
                }
            }
        }
        self.commit(txn)
    }
}

fn create_table(db: &Database) -> Result<Table, redb::Error> {
    let txn = db.begin_write()?;
    txn.open_table(TABLE)?;
    txn.commit()?;
    Ok(db.begin_read()?.open_table(TABLE)?)
}

/// Checks the copy of a store's file at `path` with redb's own check (every page against its checksum, and the list of
/// free pages), then by a scan of all pairs.
fn check_copy(path: &Path) -> Result<CheckReport> {
    let fail = |error: redb::DatabaseError| fail(error, Some(path));
    let mut db = Database::builder().open(path).map_err(fail)?;
    if !db.check_integrity().map_err(fail)? {
        let message = "redb's own check found damage".into();
        return Err(Error::Library { engine: NAME, message });
    }
    drop(db);
    CheckReport::by_scan(Redb::open(&OpenOptions::for_check(path))?)
}

fn fail(error: impl Into<redb::Error>, path: Option<&Path>) -> Error {
    match (error.into(), path) {
        (redb::Error::DatabaseAlreadyOpen, Some(path)) => Error::Locked { path: path.into() },
        (redb::Error::Io(source), Some(path)) => Error::Io { action: "access", path: path.into(), source },
        (error, _) => Error::library(NAME, error),
    }
}

/// The table of all pairs as of a commit.
struct ReadTable<'e> {
    engine: &'e Redb,
    table: Arc<Table>,
}

impl Snapshot for ReadTable<'_> {
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let Self { engine, table } = self;
        for (index, key) in keys.iter().enumerate() {
            let value = table.get(*key).map_err(|error| engine.fail(error).of_value(index, key, false))?;
            if let ControlFlow::Break(()) = visit(index, value.as_ref().map(|value| value.value())) {
                break;
            }
        }
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let Self { engine, table } = self;
        for pair in table.range::<&[u8]>((range.start, range.end)).map_err(|error| engine.fail(error))? {
            let (key, value) = pair.map_err(|error| engine.fail(error))?;
            if let ControlFlow::Break(()) = visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}

impl Engine for Redb {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn is_memory_only(&self) -> bool {
        self.path.is_none()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.begin_read().read(keys, visit)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(self.begin_read())))
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(NAME, self.key_limits())?;
        let sync = sync || self.pending.load(Ordering::Relaxed) >= PENDING;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        self.apply(batch, durability).map_err(|error| self.fail(error))?;
        // Several threads may write at the same time; the count need not be exact.
        match sync {
            true => self.pending.store(0, Ordering::Relaxed),
            false => drop(self.pending.fetch_add(1, Ordering::Relaxed)),
        }
        // A synced commit makes all earlier ones durable too, but another thread may have committed after it.
        if !sync {
            self.unsynced.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let _one = lock(&self.syncing);
        if !self.unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.apply(&Batch::default(), Durability::Immediate).map_err(|error| {
            // Cleared before the commit, because another thread may set it meanwhile: the next sync must fail, too.
            self.unsynced.store(true, Ordering::Release);
            self.fail(error)
        })?;
        self.pending.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.begin_read().scan(range, visit)
    }

    fn count(&self) -> Result<u64> {
        self.latest().len().map_err(|error| self.fail(error))
    }

    fn disk_size(&self) -> Result<u64> {
        self.path.as_deref().map_or(Ok(0), files::disk_size)
    }

    fn compact(self: Box<Self>) -> Result<()> {
        if self.path.is_none() {
            return Err(Error::no_files(NAME));
        }
        let Self { latest, mut db, path, .. } = *self;
        // redb does not compact while there is a reader.
        drop(latest);
        // The compaction starts with a synced commit, which makes all earlier ones durable.
        db.compact().map_err(|error| fail(error, path.as_deref()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::registry::when_unlocked;
    use redb::StorageBackend;
    use std::{fs, io};

    /// Storage in memory whose writes and syncs fail while a flag is set.
    #[derive(Debug)]
    struct FailingStorage(InMemoryBackend, Arc<AtomicBool>);

    impl FailingStorage {
        fn check(&self) -> io::Result<()> {
            if self.1.load(Ordering::Relaxed) { Err(io::Error::other("a test")) } else { Ok(()) }
        }
    }

    impl StorageBackend for FailingStorage {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.check()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.check().and_then(|()| self.0.write(offset, data))
        }
    }

    /// Returns the number of keys that the next start would find if the process were killed now: opens a copy of the
    /// file.
    fn left_by_a_kill(path: &Path) -> u64 {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        let engine = when_unlocked(|| Redb::open(&OpenOptions::for_check(&copy))).unwrap();
        engine.count().unwrap()
    }

    #[test]
    fn unsynced_commits_are_synced_at_the_pending_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let engine = Redb::open(&OpenOptions::for_check(&path)).unwrap();
        let write = |number: u32, sync| {
            let mut batch = Batch::default();
            let key = number.to_be_bytes();
            batch.put(&key, b"value");
            engine.write(&batch, sync).unwrap();
        };
        (0..PENDING).for_each(|number| write(number, false));
        assert_eq!(left_by_a_kill(&path), 0);
        write(PENDING, false);
        assert_eq!(left_by_a_kill(&path), u64::from(PENDING) + 1);
        // The count restarts at every synced commit, also at one that the caller requested.
        (0..PENDING / 2).for_each(|number| write(PENDING * 2 + number, false));
        write(PENDING * 3, true);
        let synced = left_by_a_kill(&path);
        (0..PENDING).for_each(|number| write(PENDING * 4 + number, false));
        assert_eq!(left_by_a_kill(&path), synced);
    }

    #[test]
    fn every_sync_after_a_failed_one_fails() {
        let fails = Arc::new(AtomicBool::new(false));
        let storage = FailingStorage(InMemoryBackend::new(), Arc::clone(&fails));
        let db = Database::builder().create_with_backend(storage).unwrap();
        let engine = Redb::new(create_table(&db).unwrap(), db, None);
        let mut batch = Batch::default();
        batch.put(b"key", b"value");
        engine.write(&batch, false).unwrap();
        fails.store(true, Ordering::Relaxed);
        engine.sync().unwrap_err();
        engine.sync().unwrap_err();
        engine.close().unwrap_err();
    }
}
