//! Connections to one database: SQLite lets one thread at a time use each.

use crate::engine::{Fsync, OpenOptions};
use rusqlite::{Connection, OpenFlags};
use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// A quarter of SQLite's default: there are as many as reads at once, and the system's cache is behind them.
const SMALL_CACHE: u64 = 512 << 10;

/// How long a connection waits for a lock that another one has for a moment.
const PATIENCE: Duration = Duration::from_secs(30);

/// How connections are opened.
pub(super) struct Settings {
    /// `None` in memory.
    data: Option<PathBuf>,
    fsync: Fsync,
    /// Connections that have an equal share of the cache.
    shares: usize,
    cache_size: u64,
    opened: AtomicUsize,
}

/// A connection, and whether it has a share of the cache.
type Shared = (Connection, bool);

impl Settings {
    pub fn new(data: Option<PathBuf>, options: &OpenOptions) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let shares = if data.is_some() { 1 + cores } else { 1 };
        Self { data, fsync: options.fsync, shares, cache_size: options.cache_size, opened: 0.into() }
    }

    /// A new connection to the file, which is created when missing.
    pub fn connect(&self) -> rusqlite::Result<Shared> {
        // One thread at a time has it, so it needs no lock of its own.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(self.data.as_deref().unwrap_or(":memory:".as_ref()), flags)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let has_share = self.apply(&connection)?;
        Ok((connection, has_share))
    }

    /// Sets what is not kept in the file. Returns whether the connection got a share of the cache.
    pub fn apply(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let share = self.cache_size / self.shares as u64;
        let is_early = self.opened.fetch_add(1, Ordering::Relaxed) < self.shares;
        let cache = if is_early { share } else { share.min(SMALL_CACHE) };
        // A negative number is of KiB, a positive one of pages.
        let kib = i64::try_from(cache.max(64 << 10) >> 10).unwrap_or(i64::MAX);
        connection.pragma_update(None, "cache_size", -kib)?;
        set_synchronous(connection, self.fsync)?;
        Ok(is_early)
    }
}

/// NORMAL syncs in checkpoints only: a power cut takes the last commits, and never the file.
pub(super) fn set_synchronous(connection: &Connection, fsync: Fsync) -> rusqlite::Result<()> {
    let synchronous = if fsync == Fsync::Always { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", synchronous)
}

/// Connections for readers, at most so many. A read that finds none waits for one.
pub(super) struct Pool {
    settings: Settings,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    /// Those with a share of the cache are at the back.
    idle: VecDeque<Shared>,
    /// How many more may be opened.
    left: usize,
}

impl Pool {
    pub fn new(settings: Settings, most: usize) -> Self {
        let state = Mutex::new(State { idle: VecDeque::new(), left: most });
        Self { settings, state, returned: Condvar::new() }
    }

    /// Runs `read` on a connection that no other thread has.
    pub fn lend<R>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> rusqlite::Result<R> {
        let mut lent = Lent { pool: self, connection: self.take() };
        let connection = match lent.connection.take() {
            Some(connection) => connection,
            None => self.settings.connect()?,
        };
        let result = read(&connection.0)?;
        // One that failed, or was left in the midst of a read, is closed instead.
        lent.connection = Some(connection);
        Ok(result)
    }

    /// One that waits, or `None` when a new one may be opened.
    fn take(&self) -> Option<Shared> {
        let mut state = self.lock();
        loop {
            // The one that was used last has the warmest cache, if it has one.
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

/// A connection's place in the pool: dropped, it takes the connection back, or the right to open another.
struct Lent<'p> {
    pool: &'p Pool,
    connection: Option<Shared>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        match self.connection.take() {
            Some(connection @ (_, true)) => state.idle.push_back(connection),
            Some(connection) => state.idle.push_front(connection),
            None => state.left += 1,
        }
        drop(state);
        self.pool.returned.notify_one();
    }
}
