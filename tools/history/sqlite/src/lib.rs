//! SQLite as an engine, with the statements that kvbench's own engine `sqlite` uses.

use history::{Failure, Library, programs::sqlite_info};
use kvbench::engine::{Batch, Fsync, Info, KeyRange, Kind, OpenOptions, VisitPair, VisitValue, WriteOp};
use rusqlite::{Connection, OpenFlags, ToSql, TransactionBehavior, params};
use std::{
    fs::{self, File},
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// The engine of this program, for `kvbench::main` and the tests.
pub static KINDS: &[Kind] = &[history::kind::<Sqlite>()];

/// Statement that creates the table of the pairs. STRICT, which kvbench's own engine has, is unknown before SQLite 3.37.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB NOT NULL)";
const GET: &str = "SELECT v FROM kv WHERE k = ?1";
const PUT: &str = "INSERT INTO kv (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
const DELETE: &str = "DELETE FROM kv WHERE k = ?1";

/// Maximum time that a connection waits for a lock that another one holds briefly.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

struct Sqlite {
    writer: Mutex<Writer>,
    /// Connections that no read uses now.
    readers: Mutex<Vec<Connection>>,
    /// The write-ahead log, opened separately so that it can be synced during a commit.
    log: File,
    data: PathBuf,
    /// Cache of each connection, in KiB.
    cache_kib: u64,
}

/// The connection that writes.
struct Writer {
    connection: Connection,
    /// `true` if SQLite syncs each commit.
    syncs: bool,
}

impl Writer {
    fn set_sync(&mut self, sync: bool) -> rusqlite::Result<()> {
        if self.syncs != sync {
            self.connection.execute_batch(&format!("PRAGMA synchronous = {}", synchronous(sync)))?;
            self.syncs = sync;
        }
        Ok(())
    }
}

/// Returns SQLite's `synchronous`: NORMAL syncs in checkpoints only.
fn synchronous(sync: bool) -> &'static str {
    if sync { "FULL" } else { "NORMAL" }
}

fn connect(data: &Path, cache_kib: u64) -> rusqlite::Result<Connection> {
    // Only one thread at a time uses a connection, so SQLite needs no mutex per connection.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(data, flags)?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    // A negative size of the cache is in KiB.
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA cache_size = -{cache_kib}; PRAGMA synchronous = {}",
        synchronous(false)
    ))?;
    Ok(connection)
}

fn get(connection: &Connection, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(GET)?;
    for (index, key) in keys.iter().enumerate() {
        let mut rows = statement.query(params![key])?;
        let flow = match rows.next()? {
            Some(row) => visit(index, Some(row.get_ref(0)?.as_blob()?)),
            None => visit(index, None),
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

impl Sqlite {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `read` on a connection that no other thread uses meanwhile. A connection whose read fails is closed.
    fn reading<R>(&self, read: impl FnOnce(&Connection) -> Result<R, Failure>) -> Result<R, Failure> {
        let idle = self.readers().pop();
        let connection = idle.map_or_else(|| connect(&self.data, self.cache_kib), Ok)?;
        let result = read(&connection)?;
        self.readers().push(connection);
        Ok(result)
    }
}

impl Library for Sqlite {
    const INFO: &'static Info = &sqlite_info(env!("STORE"), env!("LIBRARY"));

    fn open(path: &Path, options: &OpenOptions) -> Result<Self, Failure> {
        fs::create_dir_all(path)?;
        let data = path.join("data");
        // Equal shares for the connection that writes and for as many that read as there are cores.
        let connections = 1 + thread::available_parallelism().map_or(1, usize::from) as u64;
        let cache_kib = (options.cache_size / connections >> 10).max(64);
        let connection = connect(&data, cache_kib)?;
        // SQLite creates the log with the first commit, and syncs its header.
        connection.execute_batch(CREATE)?;
        connection.execute_batch("PRAGMA user_version = 1")?;
        let log = File::open(path.join("data-wal"))?;
        // SQLite makes a new log after each clean end.
        File::open(path)?.sync_all()?;
        let mut writer = Writer { connection, syncs: false };
        writer.set_sync(options.fsync == Fsync::Always)?;
        Ok(Self { writer: writer.into(), readers: Mutex::default(), log, data, cache_kib })
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Failure> {
        self.reading(|connection| {
            if keys.len() <= 1 {
                return get(connection, keys, visit);
            }
            // Several statements see one snapshot in a transaction only.
            connection.execute_batch("BEGIN")?;
            get(connection, keys, visit)?;
            Ok(connection.execute_batch("COMMIT")?)
        })
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<(), Failure> {
        let (clear, ops) = batch.after_clear();
        let mut writer = self.writer();
        writer.set_sync(sync)?;
        let txn = writer.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut put = txn.prepare_cached(PUT)?;
            let mut delete = txn.prepare_cached(DELETE)?;
            if clear {
                txn.execute_batch("DELETE FROM kv")?;
            }
            for op in ops {
                match *op {
                    WriteOp::Put { key, value } => drop(put.execute(params![key, value])?),
                    WriteOp::Delete { key } => drop(delete.execute(params![key])?),
                    WriteOp::Clear => {}
                }
            }
        }
        Ok(txn.commit()?)
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(self.log.sync_data()?)
    }

    fn quiesce(&self) -> Result<(), Failure> {
        self.sync()?;
        Ok(self.writer().connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<(), Failure> {
        let (start, from) = match range.start {
            Bound::Included(key) => ("k >= ?", Some(key)),
            Bound::Excluded(key) => ("k > ?", Some(key)),
            Bound::Unbounded => ("TRUE", None),
        };
        let (end, to) = match range.end {
            Bound::Included(key) => ("k <= ?", Some(key)),
            Bound::Excluded(key) => ("k < ?", Some(key)),
            Bound::Unbounded => ("TRUE", None),
        };
        let keys: Vec<&[u8]> = from.into_iter().chain(to).collect();
        let keys: Vec<&dyn ToSql> = keys.iter().map(|key| key as &dyn ToSql).collect();
        self.reading(|connection| {
            let text = format!("SELECT k, v FROM kv WHERE {start} AND {end} ORDER BY k");
            let mut statement = connection.prepare_cached(&text)?;
            let mut rows = statement.query(&keys[..])?;
            while let Some(row) = rows.next()? {
                if visit(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn count(&self) -> Result<u64, Failure> {
        self.reading(|connection| {
            let count: i64 = connection.query_row("SELECT count(*) FROM kv", [], |row| row.get(0))?;
            Ok(u64::try_from(count)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_named_by_the_version_of_sqlite() {
        let name = format!("sqlite-{}.", rusqlite::version());
        assert!(name.starts_with(&format!("{}.", Sqlite::INFO.name)), "{name}");
    }
}
