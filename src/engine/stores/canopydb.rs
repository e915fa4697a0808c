//! `canopydb`: a B+ tree behind a write-ahead log, in Rust.

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, FsyncSupport, Info,
    KeyRange, Kind, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Snapshot, Status, VisitPair,
    VisitValue, WriteOp, Writers,
    files::{self, FirstTree},
    refusal::Refusal,
};
use canopydb::{Database, DbOptions, EnvOptions, Tree, TreeOptions};
use std::{
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Entry of the engine `canopydb` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Canopy::open, recognise, Check::OnCopy(check_copy));

const NAME: &str = "canopydb";

static INFO: Info = Info {
    name: NAME,
    library: "canopydb 0.2.5",
    own_format: None,
    family: Family::CowBTree,
    status: Status::Experimental,
    needs: &[],
    capabilities: Capabilities {
        ordered: true,
        constant_count: true,
        compacts: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::Serialized,
    fsync: FsyncSupport::Changeable,
    key_length: (0, MAX_KEY),
    compression: &[Compression::None],
    cache: "page cache of this size; besides, pages that are not yet in the file: usually 64 MiB, at most 256 MiB",
    // The lock, the data, and WAL files, which are switched at each checkpoint.
    open_files: OpenFiles::always(32),
    cluster_flag: None,
    loss: [
        Loss { kill: FULL_DISK, power_cut: FULL_DISK },
        Loss {
            kill: FULL_DISK,
            power_cut: LossBound::new(
                LossClass::Everything,
                "about a second; possibly everything after a full disk",
            ),
        },
        Loss {
            kill: FULL_DISK,
            power_cut: LossBound::new(
                LossClass::Everything,
                "what the system had not written; possibly everything after a full disk",
            ),
        },
    ],
    caveats: &[
        Caveat::new(
            "Experimental: a library of one author. It is not in the default build (--features canopydb), and depends on a \
            release candidate of dashmap.",
        ),
        Caveat::new(
            "Changed pages stay in memory until a checkpoint writes them: every 30 seconds, or when they are 64 MiB. A \
            start replays the log since the last one.",
        ),
        Caveat::new(
            "It takes damage in its log for the end of the log, and drops everything behind it without an error.",
        ),
        Caveat::new(
            "Each read begins a transaction and looks up its tree: a transaction of canopydb cannot be shared by threads.",
        ),
        Caveat::new(
            "In 10 of 20 tests with a full disk (kvbench torture --store canopydb --fsync always --mode full), writes that \
             were acknowledged around the first failed write were gone after the next kill, and not only the last ones.",
        ),
        Caveat::new(
            "After a failed write or sync (also on a full disk) it accepts no writes until a restart.",
        ),
    ],
    same_design: &[],
    log_targets: &["canopydb"],
};

/// Loss bound of a kill of `canopydb`, and of a power cut under the fsync policy `always`: a write that runs out of
/// space may corrupt canopydb's WAL, which the next start reads up to the corruption.
const FULL_DISK: LossBound = LossBound::new(
    LossClass::Everything,
    "usually nothing; after a full disk possibly everything (10 of 20 tests)",
);

/// Maximum length of a key, in bytes: Redis' limit. canopydb's own limit is 1 GiB.
const MAX_KEY: usize = 512 << 20;

/// Name of canopydb's directory inside the store's directory.
const ENVIRONMENT: &str = "canopydb";

/// Name of the file that canopydb locks, which exists from the first start on.
const LOCK: &str = "LOCK";

/// Name of the only tree of the canopydb database, which holds all keys.
const TREE: &[u8] = b"kv";

fn recognise(path: &Path) -> bool {
    path.join(ENVIRONMENT).join(LOCK).is_file()
}

struct Canopy {
    db: Database,
    path: PathBuf,
    /// Refusal of writes and syncs after one of them has failed. After a failed write, half of a
    /// commit may be in the WAL; canopydb would continue behind it, and the next start would take it for the end of the
    /// WAL. After a panic, it would wait for the commit that did not end.
    refusal: Refusal,
    /// Held during a sync: canopydb's own returns at once while another one runs.
    syncing: Mutex<()>,
}

/// Guard of a write or sync: if that panics, `refusal` refuses all later ones.
struct RefusesAfterPanic<'e>(&'e Refusal);

impl Drop for RefusesAfterPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set(|| "refused since an earlier panic".into());
        }
    }
}

impl Canopy {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let path = options.location.on_disk(NAME)?;
        if let Some(first) = FirstTree::begin(path, ENVIRONMENT)? {
            fs::create_dir(first.path()).map_err(Error::io("create", first.path()))?;
            drop(open_at(first.path(), options).map_err(|error| fail(error, path))?);
            first.end()?;
        }
        let db = open_at(&path.join(ENVIRONMENT), options).map_err(|error| fail(error, path))?;
        Ok(Box::new(Self::new(db, path)))
    }

    fn new(db: Database, path: &Path) -> Self {
        Self { db, path: path.into(), refusal: Refusal::default(), syncing: Mutex::default() }
    }

    fn fail(&self, error: canopydb::Error) -> Error {
        fail(error, &self.path)
    }

    fn begin_read(&self) -> Result<ReadTransaction<'_>> {
        let txn = self.db.begin_read().map_err(|error| self.fail(error))?;
        Ok(ReadTransaction { engine: self, txn })
    }

    /// Runs `change`, which writes to the WAL or syncs it. Fails without running it if an earlier change failed.
    fn change(&self, change: impl FnOnce() -> Result<(), canopydb::Error>) -> Result<()> {
        self.refusal.check(&self.path)?;
        let _guard = RefusesAfterPanic(&self.refusal);
        change().map_err(|error| {
            self.refusal.set_after(&error);
            self.fail(error)
        })
    }

    fn apply(&self, batch: &Batch<'_>, sync: bool) -> Result<(), canopydb::Error> {
        let (clear, ops) = batch.after_clear();
        // Dropped without a commit, the transaction leaves no trace.
        let txn = self.db.begin_write()?;
        {
            let mut tree = txn.get_tree(TREE)?.ok_or_else(missing)?;
            if clear {
                tree.clear()?;
            }
            for op in ops {
                match *op {
                    WriteOp::Put { key, value } => tree.insert(key, value)?,
                    WriteOp::Delete { key } => drop(tree.delete(key)?),
                    WriteOp::Clear => {}
                }
            }
        }
        txn.commit_with(sync)?;
        Ok(())
    }
}

fn missing() -> canopydb::Error {
    canopydb::Error::Io(io::Error::new(io::ErrorKind::InvalidData, "the tree of the keys is missing"))
}

fn open_at(path: &Path, options: &OpenOptions) -> Result<Database, canopydb::Error> {
    let mut environment = EnvOptions::new(path);
    environment.page_cache_size = usize::try_from(options.cache_size).unwrap_or(usize::MAX);
    environment.file_lock_timeout = Duration::ZERO;
    // kvbench has its own timer.
    environment.wal_background_sync_interval = None;
    let db = Database::with_options(environment, DbOptions::new())?;
    if db.begin_read()?.get_tree(TREE)?.is_none() {
        let mut tree = TreeOptions::new();
        tree.compress_overflow_values = None;
        let txn = db.begin_write()?;
        drop(txn.get_or_create_tree_with(TREE, tree)?);
        txn.commit_with(true)?;
    }
    Ok(db)
}

/// Checks the copy of a store's files at `path` by a scan. Pages have no checksums, so the scan finds only corruption
/// that makes a page unreadable or changes the number of keys, but no changed key or value.
fn check_copy(path: &Path) -> Result<CheckReport> {
    let remark =
        "canopydb's pages have no checksums here, and damage in its log is taken for the end of the log";
    Ok(CheckReport::by_scan(Canopy::open(&OpenOptions::for_check(path))?)?.with_remark(remark))
}

fn fail(error: canopydb::Error, path: &Path) -> Error {
    match error {
        canopydb::Error::EnvironmentLocked => Error::Locked { path: path.into() },
        canopydb::Error::Io(source) | canopydb::Error::FatalIo(source) => {
            Error::Io { action: "access", path: path.into(), source }
        }
        error => Error::library(NAME, error),
    }
}

/// canopydb's transaction for reads.
struct ReadTransaction<'e> {
    engine: &'e Canopy,
    txn: canopydb::ReadTransaction,
}

impl ReadTransaction<'_> {
    /// Returns the tree of all pairs.
    fn tree(&self) -> Result<Tree<'_>> {
        let tree = self.txn.get_tree(TREE).and_then(|tree| tree.ok_or_else(missing));
        tree.map_err(|error| self.engine.fail(error))
    }
}

impl Snapshot for ReadTransaction<'_> {
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let tree = self.tree()?;
        for (index, key) in keys.iter().enumerate() {
            let value = tree.get(key).map_err(|error| self.engine.fail(error).of_value(index, key, false))?;
            if let ControlFlow::Break(()) = visit(index, value.as_deref()) {
                break;
            }
        }
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let tree = self.tree()?;
        let fail = |error| self.engine.fail(error);
        for pair in tree.range::<&[u8]>((range.start, range.end)).map_err(fail)? {
            let (key, value) = pair.map_err(fail)?;
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

impl Engine for Canopy {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.begin_read()?.read(keys, visit)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(self.begin_read()?)))
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(NAME, self.key_limits())?;
        self.change(|| self.apply(batch, sync))
    }

    fn sync(&self) -> Result<()> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(|| self.db.sync())
    }

    fn quiesce(&self) -> Result<()> {
        self.sync()?;
        self.db.checkpoint().map_err(|error| self.fail(error))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.begin_read()?.scan(range, visit)
    }

    fn count(&self) -> Result<u64> {
        Ok(self.begin_read()?.tree()?.len())
    }

    fn disk_size(&self) -> Result<u64> {
        files::disk_size(&self.path)
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.db.compact().map_err(|error| self.fail(error))?;
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{self, AssertUnwindSafe};

    #[test]
    fn missing_tree_fails_the_whole_read() {
        let dir = tempfile::tempdir().unwrap();
        let db = open_at(dir.path(), &OpenOptions::for_check(dir.path())).unwrap();
        let engine = Canopy::new(db, dir.path());
        let txn = engine.db.begin_write().unwrap();
        assert!(txn.delete_tree(TREE).unwrap());
        txn.commit_with(false).unwrap();
        let error = engine.read(&[b"a", b"b"], &mut |_, _| panic!("nothing can be read")).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }

    /// canopydb itself would wait for the commit that did not end.
    #[test]
    fn nothing_is_written_after_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        let engine =
            Canopy::new(open_at(dir.path(), &OpenOptions::for_check(dir.path())).unwrap(), dir.path());
        let change = panic::catch_unwind(AssertUnwindSafe(|| engine.change(|| panic!("a test"))));
        assert!(change.is_err());
        let write = engine.write(&Batch::of(&[WriteOp::Delete { key: b"key" }]), false);
        for result in [write, engine.sync()] {
            assert!(result.unwrap_err().to_string().contains("refused since an earlier panic"));
        }
        assert_eq!(engine.count().unwrap(), 0);
    }
}
