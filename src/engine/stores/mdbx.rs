//! `mdbx`: libmdbx. LMDB's successor: a memory-mapped copy-on-write B+ tree in one file.

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, Fsync, FsyncSupport,
    Info, KeyRange, Kind, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Setting, Snapshot,
    Status, Tool, VisitPair, VisitValue, WriteOp, Writers,
    files::{self, FirstDirectory},
    mmap_read_ahead::{self, Advice},
    refusal::Refusal,
};
use libmdbx::{
    Database, DatabaseOptions, Mode, NoWriteMap, PageSize, RO, ReadWriteOptions, SyncMode, Transaction,
    WriteFlags,
};
use std::{
    borrow::Cow,
    fs::{self, File, Metadata},
    io,
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
};

/// Entry of the engine `mdbx` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Mdbx::open, recognise, Check::OnCopy(check_copy))
    .with_before_threads(disable_stderr_log)
    .with_coordination_files(&[READERS])
    .with_settings(|options| vec![("sync mode", Setting::Mode(sync_mode(options.fsync).1))]);

const NAME: &str = "mdbx";

static INFO: Info = Info {
    name: NAME,
    library: "libmdbx 0.9.0, mdbx-sys 14.4.0",
    own_format: None,
    family: Family::CowBTree,
    status: Status::Stable,
    needs: &[Tool::Cc, Tool::Libclang],
    capabilities: Capabilities {
        ordered: true,
        constant_count: true,
        compacts: true,
        finds_corruption: true,
        map_size: true,
        ..Capabilities::NONE
    },
    writers: Writers::Serialized,
    fsync: FsyncSupport::AlwaysFixedAtOpen,
    key_length: (0, MAX_KEY),
    compression: &[Compression::None],
    cache: "not used: the operating system's page cache holds the map",
    open_files: OpenFiles::always(16),
    cluster_flag: None,
    loss: [
        Loss::NOTHING,
        Loss::power_cut(LossBound::new(
            LossClass::Everything,
            "about a second, and possibly the whole database (it may not open again)",
        )),
        Loss::power_cut(LossBound::new(
            LossClass::Everything,
            "what the system had not written, and possibly the whole database (it may not open again)",
        )),
    ],
    caveats: &[
        Caveat::under(
            Fsync::EverySec,
            "Under everysec MDBX runs with SAFE_NOSYNC: after a power cut it goes back to the last synced commit. A \
             cut that leaves writes out of order was seen to leave a file that it calls corrupted (kvbench torture \
             --store mdbx --fsync everysec --mode power).",
        ),
        Caveat::under(
            Fsync::No,
            "Under no MDBX runs with UTTERLY_NOSYNC, as LMDB with MDB_NOSYNC: it writes to the pages of the last \
             synced commit again, so a power cut may leave a file that cannot be opened.",
        ),
        Caveat::unsynced(
            "If the process is killed and the machine is restarted, even in an orderly way, before the data are opened \
             again, the loss is that of a power cut: MDBX accepts a commit that was not synced only within the boot of \
             the machine that made it. Under everysec it goes back to the last synced commit; under no it may not open \
             the file.",
        ),
        Caveat::new(
            "The data can grow to --map-size; a write beyond it fails as a whole, and so may FLUSHDB then: first delete \
             some keys. The file shrinks when much of its end is free.",
        ),
        Caveat::new(
            "For each key that it changes, a commit copies the pages from the root to the leaf, so small batches \
            write many times their size.",
        ),
        Caveat::new("While a scan stays open, freed pages are not used again, and the file grows."),
        Caveat::new(
            "The crate begins and ends each write transaction on a thread of its own: two thread switches for each \
            commit.",
        ),
        Caveat::new(
            "Each read begins a transaction of its own, as programs that embed MDBX do; redb's reads share one.",
        ),
        Caveat::in_files(
            "A failed read of the disk kills the process (SIGBUS), as with every memory map; a failed write does \
            not.",
        ),
        Caveat::new("After a failed write (also on a full disk) it accepts no writes until a restart."),
        Caveat::new("Keys have up to 2022 bytes."),
    ],
    same_design: &["bolt", "bbolt", "boltdb"],
    log_targets: &["libmdbx"],
};

/// Maximum length of a key in MDBX with pages of 4 KiB, in bytes.
const MAX_KEY: usize = 2022;
const PAGE: usize = 4096;

/// Number of slots in MDBX's table of readers: each read uses one while it runs.
const MAX_READERS: u32 = 4096;

const DATA: &str = "mdbx.dat";
/// Name of the file with MDBX's table of readers.
const READERS: &str = "mdbx.lck";
/// Name of the lock file that excludes other processes; MDBX itself would admit them.
const LOCK: &str = "lock";
/// Name of the compacted copy of the data file, until it replaces that; [`COPY_READERS`] is the copy's table of
/// readers.
const COPY: &str = "mdbx.dat.compact";
const COPY_READERS: &str = "mdbx.dat.compact-lck";

/// Limits MDBX's log, which goes to standard error, to errors. By default MDBX also logs notices, among them some in
/// each child that a process forks, whether or not the child has data open.
fn disable_stderr_log() {
    #[expect(unsafe_code, reason = "a call that the crate does not wrap")]
    // SAFETY: it sets the log level, and does not change the logger.
    unsafe {
        let flags = mdbx_sys::MDBX_DBG_DONTCHANGE;
        mdbx_sys::mdbx_setup_debug_nofmt(mdbx_sys::MDBX_LOG_ERROR, flags, None, std::ptr::null_mut(), 0);
    }
}

fn recognise(path: &Path) -> bool {
    path.join(DATA).is_file()
}

/// Returns `true` for a file that an interrupted first start may have left: a data file has its first pages
/// only.
fn is_first(name: &str, metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    // The file has its full length from the start, and is sparse.
    let is_data = name == DATA && metadata.blocks() <= 2048;
    metadata.is_file() && ([READERS, LOCK].contains(&name) || is_data)
}

struct Mdbx {
    /// Open MDBX database. Declared before `_lock`, so that the database is closed before the lock is released.
    db: Database<NoWriteMap>,
    advice: Advice,
    path: PathBuf,
    map_size: u64,
    fsync: Fsync,
    /// Refusal of writes and syncs after a failed sync: the kernel reports the failure once, so another sync would succeed
    /// without the lost pages.
    refusal: Refusal,
    _lock: File,
}

impl Mdbx {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let path = options.location.on_disk(NAME)?;
        Ok(Box::new(Self::open_here(path, options)?))
    }

    fn open_here(path: &Path, options: &OpenOptions) -> Result<Self> {
        let place = FirstDirectory::begin(path, NAME, is_first)?;
        let lock = files::open_locked(&path.join(LOCK), path)?;
        for name in [COPY, COPY_READERS] {
            files::remove_leftover(&path.join(name))?;
        }
        // Size of the header, and of a slot for each reader.
        files::reserve(&path.join(READERS), 4096 + 64 * u64::from(MAX_READERS))?;
        let data = path.join(DATA);
        let (length, limit) = (files::length(&data)?, mmap_read_ahead::limit(options.read_ahead));
        let fail = |error| fail(error, path, options.map_size);
        let db = Database::open_with_options(path, settings(options, length, length > limit));
        let db = db.map_err(|error| match error {
            libmdbx::Error::OutOfMemory => Error::no_address_space(NAME, options.map_size),
            error => fail(error),
        })?;
        db.sync(true).map_err(fail)?;
        // MDBX writes the first pages of a new file without a sync, and its own sync does nothing before the first
        // commit.
        files::sync_path(&data)?;
        files::sync_path(path)?;
        place.end()?;
        // MDBX got the setting as an option too, but does not apply it to a part of its map.
        let advice = Advice::new(NAME, data, limit, false);
        advice.grown_to(length, length);
        // A map that is smaller than the data does not fit their copy.
        let (path, map_size, fsync) = (path.into(), options.map_size.max(length), options.fsync);
        let refusal = Refusal::default();
        Ok(Self { db, advice, path, map_size, fsync, refusal, _lock: lock })
    }

    fn fail(&self, error: libmdbx::Error) -> Error {
        fail(error, &self.path, self.map_size)
    }

    fn begin_read(&self) -> Result<ReadTransaction<'_>> {
        let txn = self.db.begin_ro_txn().map_err(|error| self.fail(error))?;
        Ok(ReadTransaction { engine: self, txn })
    }

    fn apply(&self, batch: &Batch<'_>) -> libmdbx::Result<()> {
        let (clear, ops) = batch.after_clear();
        // Dropped without a commit, the transaction leaves no trace.
        let txn = self.db.begin_rw_txn()?;
        let table = txn.open_table(None)?;
        if clear {
            txn.clear_table(&table)?;
        }
        for op in ops {
            match *op {
                WriteOp::Put { key, value } => txn.put(&table, key, value, WriteFlags::empty())?,
                WriteOp::Delete { key } => drop(txn.del(&table, key, None)?),
                WriteOp::Clear => {}
            }
        }
        txn.commit().map(drop)
    }

    /// Switches the kernel's read-ahead of the memory map off if the data file has grown and exceeds the limit of
    /// `--read-ahead`. MDBX maps the whole file and gives advice of its own at each growth, so this is repeated then.
    fn advise_if_grown(&self) {
        if let Ok(length) = files::length(&self.path.join(DATA)) {
            self.advice.grown_to(length, length);
        }
    }

    /// Writes all pairs, in order, to a new data file at `path`.
    fn copy_to(&self, path: &Path) -> libmdbx::Result<()> {
        let settings = DatabaseOptions { no_sub_dir: true, ..options_of(SyncMode::Durable, self.map_size) };
        let copy = Database::<NoWriteMap>::open_with_options(path, settings)?;
        let (from, to) = (self.db.begin_ro_txn()?, copy.begin_rw_txn()?);
        let (old, new) = (from.open_table(None)?, to.open_table(None)?);
        for pair in from.cursor(&old)?.iter_start::<Cow<'_, [u8]>, Cow<'_, [u8]>>() {
            let (key, value) = pair?;
            to.put(&new, key, value, WriteFlags::APPEND)?;
        }
        to.commit().map(drop)
    }
}

/// Returns MDBX's sync mode under an fsync policy, with its name.
fn sync_mode(fsync: Fsync) -> (SyncMode, &'static str) {
    // A mode that keeps the last synced commit cannot be compared with LMDB's, which does not. Under `everysec`
    // keeping it costs little: it is replaced every second.
    match fsync {
        Fsync::Always => (SyncMode::Durable, "MDBX_SYNC_DURABLE"),
        Fsync::EverySec => (SyncMode::SafeNoSync, "MDBX_SAFE_NOSYNC"),
        Fsync::No => (SyncMode::UtterlyNoSync, "MDBX_UTTERLY_NOSYNC"),
    }
}

/// Returns MDBX's options for a data file of `length` bytes.
fn settings(options: &OpenOptions, length: u64, no_rdahead: bool) -> DatabaseOptions {
    // MDBX refuses a map that is smaller than the data.
    DatabaseOptions {
        max_readers: Some(MAX_READERS),
        no_rdahead,
        ..options_of(sync_mode(options.fsync).0, options.map_size.max(length))
    }
}

fn options_of(sync_mode: SyncMode, map_size: u64) -> DatabaseOptions {
    const SMALLEST: u64 = 1 << 20;
    let max_size = isize::try_from(map_size.max(SMALLEST)).unwrap_or(isize::MAX);
    DatabaseOptions {
        page_size: Some(PageSize::Set(PAGE)),
        mode: Mode::ReadWrite(ReadWriteOptions {
            sync_mode,
            max_size: Some(max_size),
            ..ReadWriteOptions::default()
        }),
        ..DatabaseOptions::default()
    }
}

/// Returns `true` if `key` is behind `end`, the end of the scanned range.
fn is_past(end: Bound<&[u8]>, key: &[u8]) -> bool {
    match end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

/// Checks the copy of a store's files at `path` by a scan of all pairs. MDBX has no page checksums, so changed keys and
/// values are not detected.
fn check_copy(path: &Path) -> Result<CheckReport> {
    let remark = "damaged keys and values are not found: MDBX has no checksums";
    Ok(CheckReport::by_scan(Mdbx::open(&OpenOptions::for_check(path))?)?.with_remark(remark))
}

fn fail(error: libmdbx::Error, path: &Path, map_size: u64) -> Error {
    match error {
        libmdbx::Error::MapFull => {
            let detail = format!("the data have reached --map-size ({map_size} bytes); raise it");
            Error::Full { engine: NAME, detail }
        }
        libmdbx::Error::TxnFull => {
            Error::Full { engine: NAME, detail: "one commit changes too many pages".into() }
        }
        libmdbx::Error::TooLarge => Error::no_address_space(NAME, map_size),
        libmdbx::Error::OutOfMemory => {
            Error::Full { engine: NAME, detail: "too little memory for this operation".into() }
        }
        libmdbx::Error::Busy => Error::Locked { path: path.into() },
        libmdbx::Error::IoError(source) => Error::Io { action: "access", path: path.into(), source },
        libmdbx::Error::Other(code) if code > 0 => {
            Error::Io { action: "access", path: path.into(), source: io::Error::from_raw_os_error(code) }
        }
        error => Error::library(NAME, format!("{}: {error}", path.display())),
    }
}

/// MDBX's transaction for reads.
struct ReadTransaction<'e> {
    engine: &'e Mdbx,
    txn: Transaction<'e, RO, NoWriteMap>,
}

impl Snapshot for ReadTransaction<'_> {
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let Self { engine, txn } = self;
        let table = txn.open_table(None).map_err(|error| engine.fail(error))?;
        for (index, key) in keys.iter().enumerate() {
            let value: Option<Cow<'_, [u8]>> = match key.len() {
                ..=MAX_KEY => {
                    txn.get(&table, key).map_err(|error| engine.fail(error).of_value(index, key, false))?
                }
                _ => None,
            };
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
        let Self { engine, txn } = self;
        let table = txn.open_table(None).map_err(|error| engine.fail(error))?;
        let mut cursor = txn.cursor(&table).map_err(|error| engine.fail(error))?;
        let pairs = match range.start {
            Bound::Included(start) | Bound::Excluded(start) => cursor.iter_from(start),
            Bound::Unbounded => cursor.iter_start(),
        };
        for pair in pairs {
            let (key, value): (Cow<'_, [u8]>, Cow<'_, [u8]>) = pair.map_err(|error| engine.fail(error))?;
            if range.start == Bound::Excluded(&*key) {
                continue;
            }
            if is_past(range.end, &key) || visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Engine for Mdbx {
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
        self.refusal.check(&self.path)?;
        self.apply(batch).map_err(|error| self.fail(error))?;
        self.advise_if_grown();
        // Under `always` MDBX syncs the commit before it becomes visible.
        if sync && self.fsync != Fsync::Always { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        self.refusal.check(&self.path)?;
        self.db.sync(true).map(drop).map_err(|error| {
            self.refusal.set_after(&error);
            self.fail(error)
        })
    }

    /// Changes the fsync policy between `everysec` and `no`; any other change fails. MDBX cannot change its mode while
    /// the file is open, so the mode of the start stays. A power cut then costs no more than the loss bounds of both
    /// policies, which include the whole database, but what is left of it depends on the mode.
    fn set_fsync(&self, fsync: Fsync) -> Result<()> {
        match (self.fsync, fsync) {
            (Fsync::EverySec | Fsync::No, Fsync::EverySec | Fsync::No) => Ok(()),
            _ => Err(Error::fixed_policy(NAME, fsync)),
        }
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.begin_read()?.scan(range, visit)
    }

    fn count(&self) -> Result<u64> {
        let txn = self.begin_read()?.txn;
        let entries = || Ok(txn.table_stat(&txn.open_table(None)?)?.entries() as u64);
        entries().map_err(|error| self.fail(error))
    }

    fn disk_size(&self) -> Result<u64> {
        files::disk_size(&self.path)
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.sync()?;
        let copy = self.path.join(COPY);
        self.copy_to(&copy).map_err(|error| self.fail(error))?;
        // The lock is held until the end, so that no other process opens either file meanwhile.
        let Self { db, path, _lock, .. } = *self;
        drop(db);
        let data = path.join(DATA);
        let old = fs::metadata(&data).map_err(Error::io("read", &data))?;
        // MDBX itself does not sync the first pages of a file that has no commit.
        File::open(&copy)
            .and_then(|written| written.set_permissions(old.permissions()).and_then(|()| written.sync_all()))
            .map_err(Error::io("sync", &copy))?;
        fs::rename(&copy, &data).map_err(Error::io("rename", copy))?;
        files::remove_leftover(&path.join(COPY_READERS))?;
        files::sync_path(&path)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::engine::{Location, ReadAhead, mmap_read_ahead::tests::is_random, registry::when_unlocked};
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    fn open(path: &Path, read_ahead: ReadAhead) -> Mdbx {
        let location = Location::Path(path.into());
        let options = OpenOptions { read_ahead, map_size: 1 << 30, ..OpenOptions::new(location, Fsync::No) };
        when_unlocked(|| Mdbx::open_here(path, &options)).unwrap()
    }

    /// An error that is not rolled back would make the store read-only.
    #[test]
    fn errors_of_a_commit_that_needs_too_much_are_rolled_back() {
        for (error, text) in [
            (libmdbx::Error::TxnFull, "one commit changes too many pages"),
            (libmdbx::Error::OutOfMemory, "too little memory for this operation"),
            (libmdbx::Error::MapFull, "--map-size (64 bytes)"),
        ] {
            let error = fail(error, Path::new("data"), 64);
            assert!(error.is_rolled_back() && error.to_string().contains(text), "{error}");
        }
    }

    fn flags(mdbx: &Mdbx) -> u32 {
        let mut flags = 0;
        #[expect(unsafe_code, reason = "a call that the crate does not wrap")]
        // SAFETY: the environment is open, and the call only reads its flags.
        let code = unsafe { mdbx_sys::mdbx_env_get_flags(mdbx.db.ptr().0, &raw mut flags) };
        assert_eq!(code, 0);
        flags & mdbx_sys::MDBX_UTTERLY_NOSYNC
    }

    #[test]
    fn data_larger_than_the_map_size_are_compacted() {
        let dir = tempfile::tempdir().unwrap();
        let location = Location::Path(dir.path().into());
        let small = OpenOptions { map_size: 1 << 20, ..OpenOptions::new(location, Fsync::No) };
        let mdbx = open(dir.path(), ReadAhead::default());
        let keys: Vec<[u8; 4]> = (0..5000_u32).map(u32::to_be_bytes).collect();
        let mut batch = Batch::default();
        keys.iter().for_each(|key| batch.put(key, &[7; 1000]));
        mdbx.write(&batch, true).unwrap();
        drop(mdbx);
        let open_small = || when_unlocked(|| Mdbx::open_here(dir.path(), &small)).unwrap();
        Box::new(open_small()).compact().unwrap();
        assert_eq!(open_small().count().unwrap(), 5000);
    }

    #[test]
    fn each_policy_has_its_mode() {
        for (fsync, mode) in [
            (Fsync::Always, 0),
            (Fsync::EverySec, mdbx_sys::MDBX_SAFE_NOSYNC),
            (Fsync::No, mdbx_sys::MDBX_UTTERLY_NOSYNC),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let options = OpenOptions::new(Location::Path(dir.path().into()), fsync);
            let options = OpenOptions { map_size: 1 << 30, ..options };
            let mdbx = Mdbx::open_here(dir.path(), &options).unwrap();
            assert_eq!(flags(&mdbx), mode, "{fsync}");
        }
    }

    /// Returns the identification of this boot of the machine, as MDBX reports it, in the bytes in which a data file
    /// contains it.
    fn boot_id(mdbx: &Mdbx) -> [u8; 16] {
        #[expect(unsafe_code, reason = "a call that the crate does not wrap")]
        // SAFETY: the environment is open, and the call fills in the plain integers of the structure.
        let current = unsafe {
            let mut info: mdbx_sys::MDBX_envinfo = std::mem::zeroed();
            let (env, size) = (mdbx.db.ptr().0, size_of_val(&info));
            assert_eq!(mdbx_sys::mdbx_env_info_ex(env, std::ptr::null(), &raw mut info, size), 0);
            info.mi_bootid.current
        };
        let mut id = [0; 16];
        id[..8].copy_from_slice(&current.x.to_ne_bytes());
        id[8..].copy_from_slice(&current.y.to_ne_bytes());
        id
    }

    /// A kill alone loses nothing. If the machine restarts before the next start, unsynced commits are lost
    /// (`everysec`) or the file is corrupt (`no`). The test copies the file of an open store, and changes the id of the
    /// boot in the copy.
    #[test]
    fn restart_of_the_machine_after_a_kill_costs_what_was_not_synced() {
        for (fsync, kept) in [(Fsync::Always, Some(21)), (Fsync::EverySec, Some(1)), (Fsync::No, None)] {
            let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let options = |path: &Path| OpenOptions {
                map_size: 1 << 30,
                ..OpenOptions::new(Location::Path(path.into()), fsync)
            };
            let mdbx = Mdbx::open_here(dir.path(), &options(dir.path())).unwrap();
            for key in 0..=20_u32 {
                let key = key.to_be_bytes();
                let mut batch = Batch::default();
                batch.put(&key, b"value");
                mdbx.write(&batch, key == [0; 4]).unwrap();
            }
            let (killed, id) = (fs::read(dir.path().join(DATA)).unwrap(), boot_id(&mdbx));
            assert_ne!(id, [0; 16], "this machine identifies its boots");
            let open_copy = |bytes: &[u8]| {
                fs::write(copy.path().join(DATA), bytes).unwrap();
                let opened = when_unlocked(|| Mdbx::open_here(copy.path(), &options(copy.path())));
                opened.map(|mdbx| mdbx.count().unwrap())
            };
            assert_eq!(open_copy(&killed).unwrap(), 21, "{fsync}: a kill alone");
            let mut restarted = killed;
            let at: Vec<_> = (0..3 * PAGE - 16).filter(|at| restarted[*at..][..16] == id).collect();
            assert!(!at.is_empty());
            at.into_iter().for_each(|at| restarted[at] ^= 1);
            let outcome = open_copy(&restarted).map_err(|error| error.to_string());
            match kept {
                Some(kept) => assert_eq!(outcome, Ok(kept), "{fsync}"),
                None => {
                    assert!(outcome.as_ref().is_err_and(|error| error.contains("CORRUPT")), "{outcome:?}")
                }
            }
        }
    }

    #[test]
    fn read_ahead_is_as_chosen() {
        for (choice, random) in [(ReadAhead::Auto, false), (ReadAhead::On, false), (ReadAhead::Off, true)] {
            let dir = tempfile::tempdir().unwrap();
            drop(open(dir.path(), choice));
            let _mdbx = open(dir.path(), choice);
            assert_eq!(is_random(&dir.path().join(DATA)), random, "{choice:?}");
        }
    }

    #[test]
    fn read_ahead_ends_when_the_data_outgrow_memory_and_stays_off_while_they_grow() {
        let dir = tempfile::tempdir().unwrap();
        let mut mdbx = open(dir.path(), ReadAhead::On);
        mdbx.advice.limit = 2 << 20;
        let value = vec![1; 100_000];
        for key in 0..400_u32 {
            let key = key.to_be_bytes();
            let mut batch = Batch::default();
            batch.put(&key, &value);
            mdbx.write(&batch, false).unwrap();
            if files::length(&dir.path().join(DATA)).unwrap() > mdbx.advice.limit {
                assert!(is_random(&dir.path().join(DATA)));
            }
        }
        assert!(is_random(&dir.path().join(DATA)));
    }

    #[test]
    fn a_compacted_file_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let mdbx = open(dir.path(), ReadAhead::On);
        let data = dir.path().join(DATA);
        fs::set_permissions(&data, Permissions::from_mode(0o600)).unwrap();
        Box::new(mdbx).compact().unwrap();
        assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
