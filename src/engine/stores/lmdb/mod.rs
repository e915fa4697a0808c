//! `lmdb`: LMDB through heed. A memory-mapped copy-on-write B+ tree in one file.

mod extend_ahead;
mod file;
#[cfg(test)]
mod read_ahead_tests;

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, Fsync, FsyncSupport,
    Info, KeyRange, Kind, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Setting, Snapshot,
    Status, Tool, VisitPair, VisitValue, WriteOp, Writers, error,
    files::{self, FirstDirectory},
    mmap_read_ahead::{self, Advice},
    refusal::Refusal,
};
use extend_ahead::Growth;
use heed::{
    CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, MdbError, RoTxn, WithTls,
    types::Bytes,
};
use std::{
    fs::File,
    io,
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// Entry of the engine `lmdb` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Lmdb::open, file::recognise, Check::OnCopy(check_copy))
    .with_coordination_files(&[file::LOCK])
    .with_settings(|options| {
        let is_set = if is_unsynced(options) { "on" } else { "off" };
        vec![("MDB_NOSYNC", Setting::Mode(is_set))]
    });

const NAME: &str = "lmdb";

static INFO: Info = Info {
    name: NAME,
    library: "heed 0.23.1, lmdb-master-sys 0.2.6",
    own_format: None,
    family: Family::CowBTree,
    status: Status::Stable,
    needs: &[Tool::Cc],
    capabilities: Capabilities {
        ordered: true,
        constant_count: true,
        compacts: true,
        finds_corruption: true,
        map_size: true,
        ..Capabilities::NONE
    },
    writers: Writers::Serialized,
    fsync: FsyncSupport::Changeable,
    key_length: (1, 1982),
    compression: &[Compression::None],
    cache: "not used: the operating system's page cache holds the map",
    open_files: OpenFiles::always(16),
    cluster_flag: None,
    loss: [
        Loss::NOTHING,
        Loss::power_cut(LossBound::new(
            LossClass::Everything,
            "the last second, and possibly the whole database (commits are not synced in order)",
        )),
        Loss::power_cut(LossBound::new(
            LossClass::Everything,
            "what the system had not written, and possibly the whole database (commits are not synced in order)",
        )),
    ],
    caveats: &[
        Caveat::unsynced(
            "Under everysec and no, LMDB runs with MDB_NOSYNC: a power cut may leave a file that cannot be opened, \
            unless the file system keeps the order of writes.",
        ),
        Caveat::new(
            "The data can grow to --map-size; a write beyond it fails as a whole, and so may FLUSHDB then: first delete \
            some keys. The file never shrinks; freed pages are used again.",
        ),
        Caveat::new(
            "For each key that it changes, a commit copies the pages from the root to the leaf, so small batches \
            write many times their size.",
        ),
        Caveat::in_files(
            "Data larger than half of memory are read without read-ahead (--read-ahead), as LMDB's documentation \
            advises: a cold GET then reads only the pages that it needs, but a cold scan is slower.",
        ),
        Caveat::in_files(
            "A failed read of the disk kills the process (SIGBUS), as with every memory map; a failed write does \
            not.",
        ),
        Caveat::new(
            "Each read begins a transaction of its own, as programs that embed LMDB do; redb's reads share one.",
        ),
        Caveat::in_files(
            "kvbench lengthens the file in advance and reads its end ahead, up to 6 MiB behind the data: on XFS, btrfs, \
            and ext4 since Linux 6.16, the write of a page then takes a third of the time. Programs that embed LMDB do \
            not do this.",
        ),
        Caveat::new("A value larger than half a page occupies whole pages of its own."),
        Caveat::new(
            "Keys have 1 to 1982 bytes with pages of 4 KiB (kvbench's build raises LMDB's default of 511).",
        ),
    ],
    same_design: &["bolt", "bbolt", "boltdb"],
    log_targets: &[],
};

/// Number of slots in LMDB's table of readers. Each thread that has read keeps one until it ends, so there must be more
/// slots than reading threads; a slot takes 64 bytes of the lock file.
const MAX_READERS: u32 = 4096;

/// Checks the copy of a store's files at `path` by a scan of all pairs. LMDB has no checksums, so changed keys and
/// values are not detected.
fn check_copy(path: &Path) -> Result<CheckReport> {
    let remark = "damaged keys and values are not found: LMDB has no checksums";
    Ok(CheckReport::by_scan(Lmdb::open(&OpenOptions::for_check(path))?)?.with_remark(remark))
}

struct Lmdb {
    /// LMDB environment. Declared before `_lock`, so that it is closed before the lock is released. Readers are tied to
    /// threads: starting a read then takes no lock that all readers share (a read of one key takes 285 ns instead of
    /// 390 ns while another reader runs). A thread cannot start a second read inside a `visit` callback.
    env: Env<WithTls>,
    db: Database<'static, Bytes, Bytes>,
    growth: Growth,
    path: PathBuf,
    /// `true` if LMDB does not sync commits: under every fsync policy but `always`.
    commits_unsynced: AtomicBool,
    /// Refusal of writes and syncs after a failed sync: the kernel reports the failure once, so another sync would succeed
    /// without the lost pages.
    refusal: Refusal,
    _lock: File,
}

impl Lmdb {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let path = options.location.on_disk(NAME)?;
        Ok(Box::new(Self::open_here(path, options)?))
    }

    fn open_here(path: &Path, options: &OpenOptions) -> Result<Self> {
        let place = FirstDirectory::begin(path, NAME, file::is_first)?;
        let lock = file::lock(path)?;
        // A compacted copy that a crash has left may be incomplete; the data file is intact.
        files::remove_leftover(&path.join(file::COPY))?;
        file::reserve_readers(path, MAX_READERS)?;
        let limit = mmap_read_ahead::limit(options.read_ahead);
        let is_random = files::length(&file::data(path))? > limit;
        let env = open_env(path, options, is_random)?;
        let fail = |error| fail(error, path, options.map_size);
        let db = env
            .write_txn()
            .and_then(|txn| {
                env.create_databases_and_commit(txn, |opener, txn| {
                    opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
                })
            })
            .map_err(fail)?
            .unwrap_commit();
        // In a new directory the file names are new too; LMDB does not sync the directory.
        env.force_sync().map_err(fail)?;
        files::sync_path(path)?;
        place.end()?;
        let advice = Advice::new(NAME, file::data(path), limit, is_random);
        let growth = Growth::new(&env, advice).map_err(fail)?;
        let commits_unsynced = AtomicBool::new(is_unsynced(options));
        let refusal = Refusal::default();
        Ok(Self { env, db, growth, path: path.into(), commits_unsynced, refusal, _lock: lock })
    }

    fn fail(&self, error: heed::Error) -> Error {
        fail(error, &self.path, self.env.info().map_size as u64)
    }

    /// Converts the error of a failed write of `batch`. A commit that runs out of space is aborted ([`Error::Full`]): its
    /// pages, even written ones, are not part of the tree, and the next transaction starts from the state before. If the
    /// meta page may have been written, LMDB itself fails the next transaction.
    fn fail_write(&self, error: heed::Error, batch: &Batch<'_>) -> Error {
        let full =
            |detail| Error::Full { engine: NAME, detail: format!("{}: {detail}", self.path.display()) };
        match error {
            heed::Error::Io(source) if error::is_out_of_space(&source) => full(source.to_string()),
            heed::Error::Io(source) if is_short_write(&source) && self.lacks_space_for(batch) => {
                full("too little space on the disk".into())
            }
            error => self.fail(error),
        }
    }

    /// Returns `true` if the free space of the disk is less than `batch` may need.
    fn lacks_space_for(&self, batch: &Batch<'_>) -> bool {
        /// Maximum number of bytes of short values, and of the tree, that LMDB writes in one call.
        const PAGES: u64 = 64 * 4096;
        let needed = batch.bytes() as u64 + PAGES;
        files::file_system_size(&self.path).is_some_and(|(_, free)| free < needed)
    }

    fn begin_read(&self) -> Result<ReadTransaction<'_>> {
        let txn = self.env.read_txn().map_err(|error| self.fail(error))?;
        Ok(ReadTransaction { engine: self, txn })
    }

    /// Returns `range` with a start that is not the empty key, which LMDB cannot store and refuses as a start. Returns
    /// `None` if the range is empty ([`KeyRange::is_empty`]).
    fn without_empty_key(range: KeyRange<'_>) -> Option<KeyRange<'_>> {
        if range.is_empty() {
            return None;
        }
        let start = match range.start {
            Bound::Included([]) | Bound::Excluded([]) => Bound::Unbounded,
            start => start,
        };
        Some(KeyRange { start, ..range })
    }
}

/// Returns `true` for EIO, which LMDB also reports if the disk had space for only a part of a write.
fn is_short_write(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::EIO as i32)
}

/// Returns `true` if LMDB does not sync commits.
fn is_unsynced(options: &OpenOptions) -> bool {
    options.fsync != Fsync::Always
}

fn open_env(path: &Path, options: &OpenOptions, is_random: bool) -> Result<Env<WithTls>> {
    let map_size = whole_pages(options.map_size);
    let mut env = EnvOpenOptions::new();
    env.map_size(map_size).max_readers(MAX_READERS);
    let mut flags = EnvFlags::empty();
    flags.set(EnvFlags::NO_SYNC, is_unsynced(options));
    flags.set(EnvFlags::NO_READ_AHEAD, is_random);
    #[expect(unsafe_code, reason = "a flag can cost the data of a power cut, hence unsafe in heed")]
    // SAFETY: neither call changes anything about memory; `INFO.caveats` documents the risk of `NO_SYNC`.
    unsafe {
        env.flags(flags);
    }
    #[expect(unsafe_code, reason = "the map is undefined when someone else changes the file")]
    // SAFETY: `file::lock` has excluded every other kvbench process, and the file is changed through LMDB only,
    // which synchronises its own processes.
    let env = unsafe { env.open(path) };
    env.map_err(|error| match error {
        heed::Error::Io(source) if source.kind() == io::ErrorKind::OutOfMemory => {
            Error::no_address_space(NAME, map_size as u64)
        }
        error => fail(error, path, options.map_size),
    })
}

/// Rounds `bytes` up to whole pages, as LMDB requires; 64 KiB is a multiple of every existing page size.
fn whole_pages(bytes: u64) -> usize {
    const UNIT: usize = 64 << 10;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    bytes.checked_next_multiple_of(UNIT).unwrap_or(usize::MAX - (UNIT - 1))
}

fn fail(error: heed::Error, path: &Path, map_size: u64) -> Error {
    match error {
        heed::Error::Mdb(MdbError::MapFull) => {
            let detail = format!("the data have reached --map-size ({map_size} bytes); raise it");
            Error::Full { engine: NAME, detail }
        }
        heed::Error::Mdb(MdbError::TxnFull) => {
            Error::Full { engine: NAME, detail: "one commit changes too many pages".into() }
        }
        heed::Error::EnvAlreadyOpened => Error::Locked { path: path.into() },
        heed::Error::Io(source) if source.kind() == io::ErrorKind::OutOfMemory => {
            Error::Full { engine: NAME, detail: "too little memory for this operation".into() }
        }
        heed::Error::Io(source) => Error::Io { action: "access", path: path.into(), source },
        error => Error::library(NAME, error),
    }
}

/// LMDB's transaction for reads. A thread has one at a time.
struct ReadTransaction<'e> {
    engine: &'e Lmdb,
    txn: RoTxn<'e, WithTls>,
}

impl Snapshot for ReadTransaction<'_> {
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let Self { engine, txn } = self;
        let (min, max) = engine.key_limits();
        for (index, key) in keys.iter().enumerate() {
            let value = if (min..=max).contains(&key.len()) {
                engine.db.get(txn, key).map_err(|error| engine.fail(error).of_value(index, key, false))?
            } else {
                None
            };
            if let ControlFlow::Break(()) = visit(index, value) {
                break;
            }
        }
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let Some(range) = Lmdb::without_empty_key(range) else { return Ok(()) };
        let Self { engine, txn } = self;
        let bounds = (range.start, range.end);
        for pair in engine.db.range(txn, &bounds).map_err(|error| engine.fail(error))? {
            let (key, value) = pair.map_err(|error| engine.fail(error))?;
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

impl Engine for Lmdb {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn key_limits(&self) -> (usize, usize) {
        (1, self.env.max_key_size())
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.begin_read()?.read(keys, visit)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(self.begin_read()?)))
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(NAME, self.key_limits())?;
        self.refusal.check(&self.path)?;
        // The transaction starts and ends on this thread, as LMDB's writer lock requires. Dropped without a
        // commit, it leaves no trace.
        let commit = || {
            let (clear, ops) = batch.after_clear();
            let mut txn = self.env.write_txn()?;
            self.growth.keep_ahead(&self.env);
            if clear {
                self.db.clear(&mut txn)?;
            }
            for op in ops {
                match op {
                    WriteOp::Put { key, value } => self.db.put(&mut txn, key, value)?,
                    WriteOp::Delete { key } => {
                        self.db.delete(&mut txn, key)?;
                    }
                    WriteOp::Clear => {}
                }
            }
            txn.commit()
        };
        commit().map_err(|error| self.fail_write(error, batch))?;
        // Under `always` LMDB syncs the commit before it becomes visible. The other policies do not promise
        // this order, and request no sync.
        if sync && self.commits_unsynced.load(Ordering::Relaxed) { self.sync() } else { Ok(()) }
    }

    /// Syncs all commits. Takes no lock of LMDB, so commits can run at the same time.
    fn sync(&self) -> Result<()> {
        self.refusal.check(&self.path)?;
        self.env.force_sync().map_err(|error| {
            self.refusal.set_after(&error);
            self.fail(error)
        })
    }

    fn set_fsync(&self, fsync: Fsync) -> Result<()> {
        let commits_unsynced = fsync != Fsync::Always;
        let mode = if commits_unsynced { FlagSetMode::Enable } else { FlagSetMode::Disable };
        #[expect(unsafe_code, reason = "the flag can cost the data of a power cut, hence unsafe in heed")]
        // SAFETY: the call changes nothing about memory, and no write runs at the same time.
        let set = unsafe { self.env.set_flags(EnvFlags::NO_SYNC, mode) };
        set.map_err(|error| self.fail(error))?;
        self.commits_unsynced.store(commits_unsynced, Ordering::Relaxed);
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.begin_read()?.scan(range, visit)
    }

    fn count(&self) -> Result<u64> {
        let txn = self.env.read_txn().map_err(|error| self.fail(error))?;
        self.db.len(&txn).map_err(|error| self.fail(error))
    }

    fn disk_size(&self) -> Result<u64> {
        files::disk_size(&self.path)
    }

    fn compact(self: Box<Self>) -> Result<()> {
        // Under the policies without syncs, the old file could be incomplete after a power cut.
        self.sync()?;
        // The lock is held until the end, so that no other process opens either file meanwhile.
        let Self { env, path, _lock, .. } = *self;
        let map_size = env.info().map_size as u64;
        file::compact(env, &path, |error| fail(error, &path, map_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that is not rolled back would make the store read-only.
    #[test]
    fn errors_of_a_commit_that_needs_too_much_are_rolled_back() {
        for (error, text) in [
            (heed::Error::Mdb(MdbError::TxnFull), "one commit changes too many pages"),
            (heed::Error::Io(io::ErrorKind::OutOfMemory.into()), "too little memory for this operation"),
            (heed::Error::Mdb(MdbError::MapFull), "--map-size (64 bytes)"),
        ] {
            let error = fail(error, Path::new("data"), 64);
            assert!(error.is_rolled_back() && error.to_string().contains(text), "{error}");
        }
    }
}
