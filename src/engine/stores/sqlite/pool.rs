//! Pool of SQLite connections to one database: SQLite allows one thread at a time per connection.

use crate::engine::{Fsync, OpenOptions, Setting};
use rusqlite::{Connection, OpenFlags};
use std::{
    collections::VecDeque,
    ops::Deref,
    path::PathBuf,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Maximum cache size in bytes of an SQLite connection that gets no equal share of the store's cache: a quarter of
/// SQLite's default. There is one connection per concurrent read, and the page cache holds the file too.
const SMALL_CACHE: u64 = 512 << 10;

/// Maximum time that an SQLite connection waits for a lock that another one holds briefly.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings with which SQLite connections are opened.
pub(super) struct Settings {
    /// Path of the data file; `None` for a database in memory.
    data: Option<PathBuf>,
    fsync: Fsync,
    /// Number of connections, the first to be opened, that get an equal share of the cache; later ones get at most
    /// [`SMALL_CACHE`].
    shares: usize,
    cache_size: u64,
    /// Number of open connections with an equal share of the cache.
    shared: AtomicUsize,
}

/// An SQLite connection, and `true` if it has an equal share of the store's cache.
type Shared = (Connection, bool);

impl Settings {
    pub fn new(data: Option<PathBuf>, options: &OpenOptions) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let shares = if data.is_some() { 1 + cores } else { 1 };
        Self { data, fsync: options.fsync, shares, cache_size: options.cache_size, shared: 0.into() }
    }

    /// Opens a connection to the database file, which is created if it does not exist.
    pub fn connect(&self) -> rusqlite::Result<Shared> {
        // Only one thread at a time uses a connection, so SQLite needs no mutex per connection.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(self.data.as_deref().unwrap_or(":memory:".as_ref()), flags)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let has_share = self.apply(&connection)?;
        Ok((connection, has_share))
    }

    /// Applies the settings that the file does not store to `connection`. Returns `true` if the connection got an equal
    /// share of the cache.
    pub fn apply(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let share = self.cache_size / self.shares as u64;
        let take = |shared: usize| (shared < self.shares).then_some(shared + 1);
        let has_share = self.shared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        let cache = if has_share { share } else { share.min(SMALL_CACHE) };
        // SQLite reads a negative number as KiB, a positive one as pages.
        let kib = i64::try_from(cache.max(64 << 10) >> 10).unwrap_or(i64::MAX);
        connection.pragma_update(None, "cache_size", -kib)?;
        set_synchronous(connection, self.fsync)?;
        Ok(has_share)
    }
}

/// Returns the names and values of SQLite's settings for `options`. Connections for as many readers as the machine has
/// cores get an equal share of the cache.
pub(super) fn settings(options: &OpenOptions) -> Vec<(&'static str, Setting)> {
    let synchronous = ("synchronous", Setting::Mode(synchronous(options.fsync)));
    match options.location.path() {
        None => vec![("cache", Setting::Bytes(options.cache_size)), synchronous],
        Some(_) => vec![
            (
                "caches of the writer and of a reader for each core, in equal shares, used or not, together",
                Setting::Bytes(options.cache_size),
            ),
            ("cache of each further reader at most", Setting::Bytes(SMALL_CACHE)),
            synchronous,
        ],
    }
}

/// Returns SQLite's `synchronous` for the fsync policy. NORMAL syncs in checkpoints only: a power cut loses the last
/// commits, but never corrupts the file.
fn synchronous(fsync: Fsync) -> &'static str {
    if fsync == Fsync::Always { "FULL" } else { "NORMAL" }
}

/// Sets SQLite's `synchronous` for the fsync policy.
pub(super) fn set_synchronous(connection: &Connection, fsync: Fsync) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", synchronous(fsync))
}

/// Pool of a limited number of SQLite connections for reads. A read waits if all of them are in use.
pub(super) struct Pool {
    settings: Settings,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    /// Idle connections; those with a share of the cache are at the back.
    idle: VecDeque<Shared>,
    /// Number of further connections that the pool may open.
    left: usize,
}

impl Pool {
    pub fn new(settings: Settings, most: usize) -> Self {
        let state = Mutex::new(State { idle: VecDeque::new(), left: most });
        Self { settings, state, returned: Condvar::new() }
    }

    /// Runs `read` on a connection of the pool that no other thread uses meanwhile, and returns the result. Waits if
    /// all connections are in use.
    pub fn with_connection<R>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<R>,
    ) -> rusqlite::Result<R> {
        let mut acquired = self.acquire()?;
        let result = read(&acquired)?;
        // A connection whose read failed or did not finish is closed.
        acquired.keep();
        Ok(result)
    }

    /// Returns a connection that no other thread uses meanwhile. Waits if all connections are in use.
    pub fn acquire(&self) -> rusqlite::Result<PooledConnection<'_>> {
        let mut acquired =
            PooledConnection { pool: self, connection: self.take(), has_share: false, is_kept: false };
        let connection = match acquired.connection.take() {
            Some(connection) => connection,
            None => self.settings.connect()?,
        };
        acquired.has_share = connection.1;
        acquired.connection = Some(connection);
        Ok(acquired)
    }

    /// Takes an idle connection from the pool, or the right to open one (`None`). Waits until one of them is available.
    fn take(&self) -> Option<Shared> {
        let mut state = self.lock();
        loop {
            // The connection that was used last has the warmest cache, if it has a share.
            if let Some(connection) = state.idle.pop_back() {
                return Some(connection);
            }
            if state.left > 0 {
                state.left -= 1;
                return None;
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connection of the pool, in use by one thread. When dropped, it returns the connection after [`PooledConnection::keep`]; otherwise
/// it closes the connection and returns the right to open another, with the share of the cache that the connection had.
pub(super) struct PooledConnection<'p> {
    pool: &'p Pool,
    /// `None` only before the connection is open, and while the guard is dropped.
    connection: Option<Shared>,
    /// `true` if the connection has an equal share of the cache.
    has_share: bool,
    /// `true` if the connection works and returns to the pool.
    is_kept: bool,
}

impl PooledConnection<'_> {
    /// Lets the connection return to the pool, because it works.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Deref for PooledConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.connection {
            Some((connection, _)) => connection,
            None => unreachable!("`Pool::acquire` sets the connection, and only `drop` takes it"),
        }
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let connection = self.connection.take().filter(|_| self.is_kept);
        let mut state = self.pool.lock();
        match connection {
            Some(connection @ (_, true)) => state.idle.push_back(connection),
            Some(connection) => state.idle.push_front(connection),
            None => {
                state.left += 1;
                self.pool.settings.shared.fetch_sub(usize::from(self.has_share), Ordering::Relaxed);
            }
        }
        drop(state);
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Location;

    #[test]
    fn a_failed_read_leaves_its_share_of_the_cache_to_the_next_connection() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions::new(Location::Path(dir.path().into()), Fsync::No);
        let pool = Pool::new(Settings::new(Some(dir.path().join("data")), &options), 4);
        let cache = || {
            pool.with_connection(|connection| {
                connection.pragma_query_value(None, "cache_size", |row| row.get::<_, i64>(0))
            })
        };
        let share = cache().unwrap();
        for _ in 0..=pool.settings.shares {
            pool.with_connection(|connection| connection.execute_batch("nonsense")).unwrap_err();
        }
        assert_eq!(cache().unwrap(), share);
    }
}
