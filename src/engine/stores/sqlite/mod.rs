//! `sqlite`: SQLite through rusqlite. A B-tree in one file, with a write-ahead log beside it.

mod description;
mod pool;
mod statements;

use crate::engine::{
    Batch, Check, CheckReport, Engine, Error, Fsync, Gauge, Info, KeyRange, Kind, OpenOptions, Result,
    Snapshot, VisitPair, VisitValue, error,
    files::{self, FirstDirectory},
};
use description::{INFO, NAME, OWN_FILES};
use pool::{Pool, PooledConnection, Settings, set_synchronous, settings};
use rusqlite::{Connection, ErrorCode};
use statements::{CREATE, ReadTransaction, apply, begin_transaction, end_transaction, get, scan};
use std::{
    fs::{File, Metadata},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Entry of the engine `sqlite` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Sqlite::open, recognise, Check::OnCopy(check_copy))
    .with_coordination_files(&[INDEX])
    .with_settings(settings);

/// End of the name of the file with the index of SQLite's write-ahead log.
const INDEX: &str = "-shm";

const DATA: &str = "data.sqlite3";
const LOG: &str = "data.sqlite3-wal";
const LOG_INDEX: &str = "data.sqlite3-shm";
/// Name of the lock file that excludes other processes; SQLite itself would admit them.
const LOCK: &str = "lock";

/// Size of a page in the WAL, in bytes: SQLite's default, without the header of the page.
const PAGE: u64 = 4096;

/// Number of bytes of a long key or value in one page.
const PAGE_CONTENT: u64 = 4092;

/// Size of a region of the index of the WAL, in bytes. SQLite extends the index by one region, or by two where a memory
/// page has 64 KiB.
const REGION: u64 = 32 << 10;

/// Number of pages of the WAL in the first region of its index; each further region has some more.
const PAGES_PER_REGION: u64 = 4062;

/// Application id in the file's header, which distinguishes the file from other programs' databases: "kvb1".
const APPLICATION: i32 = 0x6b76_6231;

fn recognise(path: &Path) -> bool {
    const OFFSET: usize = 68;
    let header = files::read_start(&path.join(DATA), OFFSET + 4);
    header.starts_with(b"SQLite format 3\0") && header.ends_with(&APPLICATION.to_be_bytes())
}

/// Returns `true` for a file that an interrupted first start may have left: the data is at most an empty table.
fn is_first(name: &str, metadata: &Metadata) -> bool {
    let is_data = name.starts_with(DATA) && metadata.len() <= 64 << 10;
    metadata.is_file() && (name == LOCK && metadata.len() == 0 || is_data)
}

struct Sqlite {
    /// Connections for reads of a store on disk; reads in memory use `writer`. Declared before `files`, so that
    /// connections are closed before the lock in `files` is released.
    readers: Pool,
    writer: Mutex<Connection>,
    files: Option<Files>,
    /// `true` if SQLite does not sync commits: under every fsync policy but `always`.
    commits_unsynced: AtomicBool,
}

/// Path and open files of a `sqlite` store on disk; a store in memory has none.
struct Files {
    path: PathBuf,
    /// The WAL, opened separately so that syncs can run during SQLite's commits. SQLite holds no locks on this
    /// file that closing it would release.
    log: File,
    /// The index of the WAL, opened separately to allocate its disk space. Must be closed after all connections: POSIX
    /// releases SQLite's locks on the index when any of its descriptors is closed.
    log_index: File,
    _lock: File,
}

impl Files {
    /// Allocates the disk space of the index of the WAL for a commit of `batch`. SQLite itself would extend the index
    /// only when the whole commit is in the WAL: if the disk had no space, the write would fail, and be there after a
    /// restart. The caller must hold the lock of the connection that writes.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Full`] without space for the index; nothing was written then.
    fn reserve_log_index(&self, batch: &Batch<'_>) -> Result<()> {
        let length = |file: &File| match file.metadata() {
            Ok(found) => Ok(found.len()),
            Err(error) => Err(Error::io("read", &self.path)(error)),
        };
        let pages = length(&self.log)? / PAGE + most_pages(batch);
        // SQLite allocates the first region when it opens the WAL.
        if pages <= PAGES_PER_REGION {
            return Ok(());
        }
        let needed = pages.div_ceil(PAGES_PER_REGION).next_multiple_of(2) * REGION;
        let present = length(&self.log_index)?;
        if needed <= present {
            return Ok(());
        }
        match files::allocate(&self.log_index, present, needed - present) {
            Err(error) if error::is_out_of_space(&error) => {
                let path = self.path.join(LOG_INDEX);
                Err(Error::Full { engine: NAME, detail: format!("{}: {error}", path.display()) })
            }
            // Where the file system cannot allocate space in advance, SQLite extends the index.
            _ => Ok(()),
        }
    }
}

impl Sqlite {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let engine = match options.location.path() {
            None => Self::open_in_memory(options).map_err(|error| fail(error, None))?,
            Some(path) => Self::open_at(path, options)?,
        };
        Ok(Box::new(engine))
    }

    fn open_in_memory(options: &OpenOptions) -> rusqlite::Result<Self> {
        let writer = Connection::open_in_memory()?;
        Settings::new(None, options).apply(&writer)?;
        writer.execute(CREATE, [])?;
        let readers = Pool::new(Settings::new(None, options), 0);
        Ok(Self {
            readers,
            writer: Mutex::new(writer),
            files: None,
            commits_unsynced: commits_unsynced(options),
        })
    }

    fn open_at(path: &Path, options: &OpenOptions) -> Result<Self> {
        let place = FirstDirectory::begin(path, NAME, is_first)?;
        let lock = files::open_locked(&path.join(LOCK), path)?;
        let settings = Settings::new(Some(path.join(DATA)), options);
        let fail = |error| fail(error, Some(path));
        let (writer, _) = settings.connect().map_err(fail)?;
        create(&writer).and_then(|()| begin_log(&writer)).map_err(fail)?;
        let log = path.join(LOG);
        let log = File::open(&log).map_err(Error::io("open", log))?;
        let log_index = path.join(LOG_INDEX);
        let opened = File::options().read(true).write(true).open(&log_index);
        let log_index = opened.map_err(Error::io("open", log_index))?;
        // SQLite creates a new WAL file after each clean shutdown.
        files::sync_path(path)?;
        place.end()?;
        let files = Some(Files { path: path.into(), log, log_index, _lock: lock });
        let most = options.max_files.clamp(INFO.open_files.least, INFO.open_files.most) - OWN_FILES;
        let (readers, writer) = (Pool::new(settings, most as usize / 2), Mutex::new(writer));
        Ok(Self { readers, writer, files, commits_unsynced: commits_unsynced(options) })
    }

    fn path(&self) -> Option<&Path> {
        self.files.as_ref().map(|files| files.path.as_path())
    }

    fn fail(&self, error: rusqlite::Error) -> Error {
        fail(error, self.path())
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `read` on a connection that no other thread uses meanwhile, and returns the result. Waits for a connection
    /// if necessary; in memory there is only the one that also writes.
    fn reading<R>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R> {
        let outcome = match self.files {
            Some(_) => self.readers.with_connection(read),
            None => read(&self.writer()),
        };
        outcome.map_err(|error| self.fail(error))
    }
}

fn commits_unsynced(options: &OpenOptions) -> AtomicBool {
    AtomicBool::new(options.fsync != Fsync::Always)
}

/// Creates the table of the pairs if it does not exist, and checkpoints it into the data file, synced under any fsync
/// policy.
fn create(connection: &Connection) -> rusqlite::Result<()> {
    let found: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if found == APPLICATION {
        return Ok(());
    }
    connection.execute(CREATE, [])?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    checkpoint(connection)
}

/// Commits a change of a version number, so that the WAL gets its header: SQLite syncs the header with the first
/// commit, under every fsync policy.
fn begin_log(connection: &Connection) -> rusqlite::Result<()> {
    /// Version of the schema of the store's table, in the header of the SQLite file (`user_version`).
    const VERSION: i32 = 1;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Returns an upper bound of the number of pages that a commit of `batch` appends to the WAL.
fn most_pages(batch: &Batch<'_>) -> u64 {
    /// Number of pages of the two trees that each write of many changes, at most.
    const PER_WRITE: u64 = 8;
    /// Number of pages that a commit of few writes changes in addition.
    const PER_COMMIT: u64 = 64;
    // Keys are stored twice.
    batch.bytes() as u64 * 2 / PAGE_CONTENT + batch.len() as u64 * PER_WRITE + PER_COMMIT
}

/// Transaction for many reads by one thread, on a connection of the pool. When dropped, it ends the transaction and
/// returns the connection.
struct PooledSnapshot<'e> {
    engine: &'e Sqlite,
    connection: PooledConnection<'e>,
}

impl<'e> PooledSnapshot<'e> {
    fn begin(engine: &'e Sqlite) -> rusqlite::Result<Self> {
        let connection = engine.readers.acquire()?;
        begin_transaction(&connection)?;
        // The first read decides which state the transaction sees.
        get(&connection, &[&[]], &mut None, &mut |_, _| ControlFlow::Continue(()))?;
        Ok(Self { engine, connection })
    }
}

impl Drop for PooledSnapshot<'_> {
    fn drop(&mut self) {
        // Otherwise the pool closes the connection, and the transaction with it.
        if end_transaction(&self.connection).is_ok() {
            self.connection.keep();
        }
    }
}

impl Snapshot for PooledSnapshot<'_> {
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let mut failed = None;
        let read = get(&self.connection, keys, &mut failed, visit);
        read.map_err(|error| of_failed_key(self.engine.fail(error), keys, failed))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        scan(&self.connection, range, visit).map_err(|error| self.engine.fail(error))
    }
}

/// Returns the error of a read of `keys`: [`Error::Value`] if it concerns only the value of the key at the index
/// `failed`.
fn of_failed_key(error: Error, keys: &[&[u8]], failed: Option<usize>) -> Error {
    match failed.and_then(|index| keys.get(index).map(|key| (index, key))) {
        Some((index, key)) => error.of_value(index, key, false),
        None => error,
    }
}

/// Copies SQLite's WAL to the data file and empties it. If a connection reads from the WAL for longer than the lock
/// timeout, the rest of the WAL stays, and no error is returned.
fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Checks the copy of a store's files at `path` with SQLite's own check of every page and of the order of keys, then by
/// a scan.
fn check_copy(path: &Path) -> Result<CheckReport> {
    let remark = "damaged keys and values are not found: SQLite's pages have no checksums";
    let fail = |error| fail(error, Some(path));
    let engine = Sqlite::open_at(path, &OpenOptions::for_check(path))?;
    let found: String =
        engine.writer().query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(fail)?;
    if found != "ok" {
        return Err(Error::library(NAME, found));
    }
    Ok(CheckReport::by_scan(Box::new(engine))?.with_remark(remark))
}

fn fail(error: rusqlite::Error, path: Option<&Path>) -> Error {
    let place = path.map_or_else(|| ":memory:".into(), |path| path.display().to_string());
    match error.sqlite_error_code() {
        // A transaction that ran out of space is rolled back: no commit follows its pages in the WAL.
        Some(ErrorCode::DiskFull) => Error::Full { engine: NAME, detail: format!("{place}: {error}") },
        Some(ErrorCode::TooBig) => Error::Full {
            engine: NAME,
            detail: "a key and its value have less than 1,000,000,000 bytes".into(),
        },
        Some(_) => Error::library(NAME, format!("{place}: {error}")),
        None => Error::library(NAME, error),
    }
}

impl Engine for Sqlite {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn is_memory_only(&self) -> bool {
        self.files.is_none()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let mut failed = None;
        let read = self.reading(|connection| match keys {
            // One statement reads one snapshot; several statements need a transaction for that.
            [] | [_] => get(connection, keys, &mut failed, visit),
            _ => {
                let transaction = ReadTransaction::begin(connection)?;
                get(connection, keys, &mut failed, visit)?;
                transaction.end()
            }
        });
        read.map_err(|error| of_failed_key(error, keys, failed))
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        // In memory there is one connection, which also writes.
        if self.files.is_none() {
            return Ok(None);
        }
        let snapshot = PooledSnapshot::begin(self).map_err(|error| self.fail(error))?;
        Ok(Some(Box::new(snapshot)))
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(NAME, self.key_limits())?;
        let mut writer = self.writer();
        if let Some(files) = &self.files {
            files.reserve_log_index(batch)?;
        }
        apply(&mut writer, batch).map_err(|error| {
            match (error.sqlite_error_code(), self.fail(error)) {
                // SQLite has rolled the transaction back.
                (Some(ErrorCode::DatabaseCorrupt), Error::Library { engine, message }) => {
                    Error::CorruptWrite { engine, message }
                }
                // Another program writes to the file for longer than the lock timeout.
                (Some(ErrorCode::DatabaseBusy), Error::Library { engine, message }) => {
                    Error::Unavailable { engine, detail: message }
                }
                (_, error) => error,
            }
        })?;
        drop(writer);
        // Under `always` SQLite syncs the commit before it becomes visible.
        if sync && self.commits_unsynced.load(Ordering::Relaxed) { self.sync() } else { Ok(()) }
    }

    /// Syncs the WAL. Takes no lock of SQLite, so commits can run at the same time.
    fn sync(&self) -> Result<()> {
        match &self.files {
            Some(Files { log, path, .. }) => log.sync_data().map_err(Error::io("sync", path.join(LOG))),
            None => Ok(()),
        }
    }

    fn set_fsync(&self, fsync: Fsync) -> Result<()> {
        set_synchronous(&self.writer(), fsync).map_err(|error| self.fail(error))?;
        self.commits_unsynced.store(fsync != Fsync::Always, Ordering::Relaxed);
        Ok(())
    }

    fn quiesce(&self) -> Result<()> {
        self.sync()?;
        match self.files {
            Some(_) => checkpoint(&self.writer()).map_err(|error| self.fail(error)),
            None => Ok(()),
        }
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.reading(|connection| scan(connection, range, visit))
    }

    fn count(&self) -> Result<u64> {
        let count = |connection: &Connection| {
            connection.prepare_cached("SELECT count(*) FROM kv")?.query_row([], |row| row.get::<_, i64>(0))
        };
        Ok(self.reading(count)?.cast_unsigned())
    }

    fn disk_size(&self) -> Result<u64> {
        self.path().map_or(Ok(0), files::disk_size)
    }

    fn gauges(&self) -> Vec<Gauge> {
        let length =
            self.files.as_ref().and_then(|files| files.log.metadata().ok()).map(|metadata| metadata.len());
        let gauge = |value| Gauge { name: "wal_bytes", help: "Length of the WAL.", value, is_backlog: true };
        length.map(gauge).into_iter().collect()
    }

    fn compact(self: Box<Self>) -> Result<()> {
        if self.files.is_none() {
            return Err(Error::no_files(NAME));
        }
        let vacuum = |connection: &Connection| {
            connection.execute("VACUUM", [])?;
            checkpoint(connection)
        };
        vacuum(&self.writer()).map_err(|error| self.fail(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Location, WriteOp};
    use std::{
        fs,
        panic::{AssertUnwindSafe, catch_unwind},
    };

    fn in_memory() -> Sqlite {
        Sqlite::open_in_memory(&OpenOptions::new(Location::Memory, Fsync::No)).unwrap()
    }

    fn put(engine: &Sqlite, key: &[u8]) {
        let mut batch = Batch::default();
        batch.put(key, b"value");
        engine.write(&batch, false).unwrap();
    }

    /// Returns the result of a read of `keys`, and the number of values that were passed.
    fn read(engine: &Sqlite, keys: &[&[u8]]) -> (Result<()>, usize) {
        let mut visits = 0;
        let result = engine.read(keys, &mut |_, _| {
            visits += 1;
            ControlFlow::Continue(())
        });
        (result, visits)
    }

    /// In memory there is one connection for all reads and writes.
    #[test]
    fn read_of_several_keys_that_fails_or_panics_leaves_no_transaction_open() {
        let engine = in_memory();
        put(&engine, b"a");
        let read_and_panic = || engine.read(&[b"a", b"b"], &mut |_, _| panic!("a test"));
        catch_unwind(AssertUnwindSafe(read_and_panic)).unwrap_err();
        put(&engine, b"b");
        engine.writer().execute("DROP TABLE kv", []).unwrap();
        read(&engine, &[b"a", b"b"]).0.unwrap_err();
        engine.writer().execute(CREATE, []).unwrap();
        put(&engine, b"a");
        let (result, visits) = read(&engine, &[b"a", b"b"]);
        result.unwrap();
        assert_eq!(visits, 2);
    }

    /// SQLite admits other programs. A write that waits too long for one of them fails, and later ones succeed.
    #[test]
    fn lock_of_another_program_fails_writes_only_while_it_lasts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let engine = Sqlite::open_at(&path, &OpenOptions::for_check(&path)).unwrap();
        put(&engine, b"a");
        engine.writer().busy_timeout(std::time::Duration::from_millis(10)).unwrap();
        let other = Connection::open(path.join(DATA)).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut batch = Batch::default();
        batch.put(b"b", b"value");
        let error = engine.write(&batch, false).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }) && error.is_rolled_back(), "{error}");
        assert!(error.to_string().contains("nothing was written; try again"), "{error}");
        other.execute_batch("ROLLBACK").unwrap();
        put(&engine, b"c");
        assert_eq!(engine.count().unwrap(), 2);
    }

    #[test]
    fn only_the_error_of_one_value_names_its_key() {
        let engine = in_memory();
        engine.writer().execute_batch("DROP TABLE kv; CREATE TABLE kv (k PRIMARY KEY, v)").unwrap();
        engine.writer().execute("INSERT INTO kv VALUES (?1, 7)", (&b"b"[..],)).unwrap();
        for (keys, failed) in [(&[&b"a"[..], b"b", b"c"][..], 1), (&[&b"b"[..]], 0)] {
            let (result, visits) = read(&engine, keys);
            let error = result.unwrap_err();
            assert!(
                matches!(&error, Error::Value { index, key, .. } if *index == failed && key == b"b"),
                "{error}"
            );
            assert_eq!(visits, failed);
        }
        engine.writer().execute("DROP TABLE kv", []).unwrap();
        for keys in [&[&b"a"[..], b"b"][..], &[&b"b"[..]]] {
            let error = read(&engine, keys).0.unwrap_err();
            assert!(matches!(error, Error::Library { .. }), "{error}");
        }
    }

    fn on_disk() -> (tempfile::TempDir, PathBuf, Sqlite) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let engine = Sqlite::open_at(&path, &OpenOptions::for_check(&path)).unwrap();
        (dir, path, engine)
    }

    /// The space that is reserved for a commit suffices: SQLite does not extend the index of the WAL. Nor does it shorten
    /// the index.
    #[test]
    fn index_of_the_wal_has_the_reserved_length_after_a_commit() {
        let (_dir, path, engine) = on_disk();
        let length = |name| fs::metadata(path.join(name)).unwrap().len();
        let (long, short) = (vec![b'v'; 20 << 20], [b'v'; 1000]);
        let keys: Vec<_> =
            (0..20_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).collect();
        let put = |key, value| WriteOp::Put { key, value };
        let mut reserved = Vec::new();
        for ops in [
            vec![put(b"few", b"small")],
            keys.iter().map(|key| put(key, b"small")).collect(),
            keys.iter().step_by(7).map(|key| put(key, &short)).collect(),
            vec![put(b"key", &long)],
            vec![put(&long[..9 << 20], b"value")],
            keys.iter().map(|key| WriteOp::Delete { key }).collect(),
        ] {
            let batch = Batch::of(&ops);
            checkpoint(&engine.writer()).unwrap();
            assert_eq!(length(LOG), 0);
            engine.files.as_ref().unwrap().reserve_log_index(&batch).unwrap();
            reserved.push(length(LOG_INDEX));
            engine.write(&batch, false).unwrap();
            let pages = length(LOG) / PAGE;
            assert!(pages <= most_pages(&batch), "{pages} pages, {} writes", ops.len());
            assert_eq!(reserved.last(), Some(&length(LOG_INDEX)));
        }
        assert!(reserved.is_sorted() && reserved[0] < reserved[1], "{reserved:?}");
    }

    /// The marker is a temporary table, which only its connection has.
    #[test]
    fn snapshot_is_of_its_beginning_and_returns_its_connection() {
        let (_dir, _path, engine) = on_disk();
        engine.reading(|connection| connection.execute_batch("CREATE TEMP TABLE marker (x)")).unwrap();
        for number in 0..3_u8 {
            let snapshot = engine.snapshot().unwrap().unwrap();
            put(&engine, &[number]);
            let mut found = Vec::new();
            let mut visit = |_, value: Option<&[u8]>| {
                found.push(value.is_some());
                ControlFlow::Continue(())
            };
            snapshot.read(&[&[number]], &mut visit).unwrap();
            drop(snapshot);
            assert_eq!((found, engine.count().unwrap()), (vec![false], u64::from(number) + 1));
            engine.reading(|connection| connection.prepare("SELECT x FROM marker").map(drop)).unwrap();
        }
    }

    #[test]
    fn failed_connection_fails_the_whole_read() {
        let (dir, path, engine) = on_disk();
        fs::rename(path.join(DATA), dir.path().join("moved")).unwrap();
        fs::create_dir(path.join(DATA)).unwrap();
        for keys in [&[&b"a"[..], b"b"][..], &[&b"b"[..]]] {
            let (result, visits) = read(&engine, keys);
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Library { .. }), "{error}");
            assert_eq!(visits, 0);
        }
    }
}
