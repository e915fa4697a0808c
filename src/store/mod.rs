//! Layer between commands and the engine: the only place that decides which writes are committed together, when
//! they are synced, and whether writes are still accepted.

mod cached_key_counts;
mod commit;
mod commit_queue;
mod counted_reads;
mod database_keys;
mod expiration_clock;
mod expiry;
mod flushdb_swapdb;
mod fsync_policy;
mod group_txn;
mod incremental_scan;
mod key_counting;
mod keyspace;
#[cfg(test)]
mod loom_tests;
#[cfg(test)]
mod multi_writer_engine_tests;
pub mod pause_aware_clock;
mod raw_scan;
mod scan_cursors;
mod scan_key_lists;
mod scan_order;
mod spawn_commit_threads;
mod sync_primitives;
mod sync_state;
mod syncing;
#[cfg(test)]
mod tests;
mod txn_keyspace;
mod unordered_scan;
mod watch;
mod write_set;

use crate::engine::{Batch, Engine, Fsync, Info, KeyRange, VisitValue};
use bumpalo::Bump;
use cached_key_counts::CachedKeyStats;
use counted_reads::CountedReads;
use database_keys::MarkerRecords;
use fsync_policy::FsyncPolicy;
use raw_scan::Source;
use scan_cursors::ScanCursors;
use scan_key_lists::UnorderedScans;
use std::{
    hint::black_box,
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};
use sync_state::SyncTracker;
use watch::WatchTable;

pub use crate::engine::key_value_headers::Entry;
pub use cached_key_counts::{KeyCounts, KeyStats};
pub use commit_queue::{CommitQueue, GROUP_BYTES as COMMIT_GROUP_BYTES};
pub use database_keys::Database;
pub use expiration_clock::ExpirationClock;
pub use expiry::Expiry;
pub use group_txn::{MAX_COPIED_OR_READ, Txn};
pub use keyspace::{Keyspace, StoreKeyspace, VisitEntry, VisitLookup};
pub use spawn_commit_threads::spawn_commit_threads;
pub use sync_state::SyncState;
pub use watch::Watch;

use crate::engine;

/// Size in bytes of the smallest memory page of any system: [`Store::fetch`] touches each page of a value.
const PAGE: usize = 4096;

/// Error of an operation of the store: of the engine, or of the store itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine failed, with this error.
    #[error("ERR {0}")]
    Engine(engine::Error),
    /// The keys of an atomic operation are not in one hash slot. Nothing was written.
    #[error("{}", engine::Error::CrossSlot)]
    CrossSlot,
    /// The requests of one EXEC copied too much ([`Txn::fail_too_large`]). Nothing was written but, in a store with hash slots,
    /// a FLUSHDB before them.
    #[error(
        "ERR the transaction needs more memory than --client-query-buffer-limit, because its requests change parts of \
         large values; send them in several transactions"
    )]
    TransactionTooLarge,
    /// The store is read-only: an earlier write or sync failed, and what reached the disk is unknown; or the marker
    /// records could not be read when the store was created.
    #[error("MISCONF writes are refused until a restart, because an earlier one failed: {0}")]
    ReadOnly(String),
}

impl Error {
    /// Returns the index, among the keys of the failed read, of the key whose value caused the error; `None` if the
    /// error concerns more than one value.
    pub fn index_of_value(&self) -> Option<usize> {
        match self {
            Self::Engine(engine::Error::Value { index, .. }) => Some(*index),
            _ => None,
        }
    }

    /// Returns `true` if the error is that of a key that exists, but whose value cannot be read.
    pub fn is_unreadable_value(&self) -> bool {
        matches!(self, Self::Engine(error) if error.is_unreadable_value())
    }

    /// Returns `true` if the error is that of a key that exists, but whose value is corrupt, and not just unreadable
    /// because of another failure.
    pub(crate) fn is_corrupt_value(&self) -> bool {
        matches!(self, Self::Engine(error) if error.is_unreadable_value() && error.is_corruption())
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::CrossSlot => Self::CrossSlot,
            error => Self::Engine(error),
        }
    }
}

/// Commit request: the commands that one connection contributes to a commit group.
pub trait Work: Send {
    /// Executes the commands against `txn` and keeps their replies, which are sent only after the commit. A later
    /// call means that nothing was committed before: it first discards the replies of the call before.
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>);

    /// Replaces the replies kept by `run`, which may have panicked, by `error`: none of its writes were committed.
    fn fail(&mut self, error: &Error);

    /// Replaces the replies of the requests for which `outcomes` has an error; the other requests were committed.
    /// There is one outcome for each request that `run` ended by [`Txn::end_request`], and one for the last. Called
    /// only for an engine with hash slots, on a blind commit request.
    fn fail_some(&mut self, outcomes: &[Result<(), Error>]) {
        if let Some(error) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
            self.fail(error);
        }
    }

    /// Called after the commit request has failed by itself because the engine has no space for it. Returns `true` if `run`
    /// will execute only its first request from now on; the caller passes the rest again. `false` if it is atomic.
    fn split(&mut self) -> bool {
        false
    }

    /// Returns the approximate number of bytes that the commit request writes, to limit the size of a commit group.
    fn bytes(&self) -> usize;

    /// Returns the hash slot of the keys ([`Store::slot`]), as far as that is known before `run`; 0 for any. Called
    /// only for an engine with hash slots, where each commit request is committed separately, and each request of a
    /// blind one.
    fn slot(&self, _store: &Store) -> u16 {
        0
    }

    /// Appends the stored keys that `run` will probably read, if they are known in advance and not too many. Used only
    /// if several groups are committed concurrently ([`Store::commits_concurrently`]).
    fn keys_to_read(&self, _keys: &mut Vec<Vec<u8>>) {}

    /// Returns the stored keys that `run` may read or write, or `None` if it may be any key. Used only if several
    /// groups are committed concurrently: if a key is missing here, one of two groups may have to run again.
    fn keys(&self) -> Option<Vec<Vec<u8>>> {
        None
    }

    /// Returns `true` if `run` reads nothing (a blind commit request), so that concurrent writes do not affect it.
    fn is_blind(&self) -> bool {
        false
    }
}

/// Engine, its fsync policy, the age of unsynced writes, and what the keyspace layer keeps in memory: expiration
/// times, SCAN cursors, watched keys, key counts. The commit queue is outside.
pub struct Store {
    reads: CountedReads,
    /// `true` if an atomic operation may use keys of one hash slot only.
    sharded: bool,
    policy: FsyncPolicy,
    /// Text of the error of the first write or sync that failed in a way that cannot be undone, or of the failed read
    /// of the marker records at the start. Once the text is set, the store is read-only.
    fault: OnceLock<String>,
    /// Path of the engine's data on this machine, which are marked if a write or sync fails; `None` if there is nothing to
    /// mark.
    path: Option<PathBuf>,
    /// `true` from a logged failure of a commit that the engine rolled back, usually for lack of space, until a write
    /// succeeds: meanwhile further failures of this kind are not logged.
    is_full: AtomicBool,
    /// Held while a commit group is committed, because engines take one write batch at a time; not used if other
    /// processes may write to the data. Holds memory for reuse.
    writer: Mutex<Scratch>,
    /// Number of commits that take long and hold the lock of commits, or wait for it.
    long: AtomicUsize,
    /// Number of calls of [`Store::commit_short`] that wait for the lock of commits. A long commit lets them go first.
    short_waiting: AtomicUsize,
    /// Times of the writes that no sync has covered, and of the syncs; unused if each commit is synced.
    unsynced: SyncTracker,
    /// Expiration times of keys that are kept in memory, for active expiration.
    expiry: Expiry,
    cursors: ScanCursors,
    unordered_scans: UnorderedScans,
    watches: WatchTable,
    counted: CachedKeyStats,
    /// Marker records (of expirations and of key headers) that the data hold, as [`MarkerRecords::bits`].
    markers: AtomicU8,
}

/// Default age of the oldest unsynced write from which `everysec` delays new writes until the running sync ends;
/// Redis uses the same limit.
pub const MAX_UNSYNCED: Duration = Duration::from_secs(2);

/// Memory of a commit (write batch, copies of keys and values) that the next commit reuses.
#[derive(Default)]
struct Scratch {
    arena: Bump,
    batch: Batch<'static>,
}

impl Store {
    /// Creates a store over an open engine, with the fsync policy `fsync`. If the marker records cannot be read, it
    /// is read-only.
    pub fn new(engine: Box<dyn Engine>, fsync: Fsync) -> Self {
        let store = Self {
            sharded: engine.info().capabilities.hash_slots,
            reads: CountedReads::new(engine),
            policy: FsyncPolicy::new(fsync),
            fault: OnceLock::new(),
            path: None,
            is_full: AtomicBool::new(false),
            writer: Mutex::default(),
            long: AtomicUsize::new(0),
            short_waiting: AtomicUsize::new(0),
            unsynced: SyncTracker::new(MAX_UNSYNCED),
            expiry: Expiry::default(),
            cursors: ScanCursors::default(),
            unordered_scans: UnorderedScans::default(),
            watches: WatchTable::default(),
            counted: CachedKeyStats::default(),
            markers: AtomicU8::new(0),
        };
        if store.is_shared() {
            // Other processes may create any of the marker records.
            store.markers.store(MarkerRecords::everything().bits(), Ordering::Relaxed);
            store.expiry.request_full_scan();
        } else {
            store.load_markers();
        }
        store
    }

    /// Sets the age of an unsynced write from which `everysec` delays new writes (default: [`MAX_UNSYNCED`]).
    pub fn with_max_unsynced(self, limit: Duration) -> Self {
        Self { unsynced: SyncTracker::new(limit), ..self }
    }

    /// Returns the store with the path of the engine's data: after a write or sync that fails, the next
    /// [`Kind::open`](crate::engine::Kind::open) reads them from the disk, not from the page cache.
    #[must_use]
    pub fn with_path(self, path: Option<PathBuf>) -> Self {
        Self { path, ..self }
    }

    /// Returns the static description of the engine.
    pub fn info(&self) -> &'static Info {
        self.engine().info()
    }

    /// Returns `true` if the engine has no files, so that commits never wait for a device and any thread may run
    /// them.
    pub fn is_memory_only(&self) -> bool {
        self.engine().is_memory_only()
    }

    /// Returns `true` if other processes may write to the same data.
    pub fn is_shared(&self) -> bool {
        self.engine().info().capabilities.multi_writer
    }

    /// Returns `true` if reads may wait for a device or the network.
    pub fn reads_may_wait(&self) -> bool {
        !self.is_memory_only() && !self.engine().info().capabilities.memory_resident
    }

    /// Returns `true` if an atomic operation may use keys of one hash slot only.
    #[inline]
    pub fn is_sharded(&self) -> bool {
        self.sharded
    }

    /// Returns `true` if several groups may be committed at the same time: each is a transaction of several machines,
    /// and its keys may be in any hash slots.
    pub fn commits_concurrently(&self) -> bool {
        self.is_shared() && !self.is_sharded()
    }

    /// Returns the hash slot of a stored key, or 0 for an engine without slots.
    pub fn slot(&self, key: &[u8]) -> u16 {
        self.engine().slot(key)
    }

    /// Returns the error that made the store read-only, or `None` if writes are accepted.
    pub fn read_only_cause(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Calls [`Engine::read`], and counts corrupt reads.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::read`].
    #[inline]
    pub fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Error> {
        Ok(self.engine().read(keys, visit).map_err(|error| self.reads.count(error))?)
    }

    /// Returns the number of reads that failed because data are corrupt, since the start.
    pub fn corrupt_reads(&self) -> u64 {
        self.reads.corrupt()
    }

    /// Returns the engine, in its current state, as a source of scans.
    fn source(&self) -> Source<'_, '_> {
        Source::Engine(&self.reads)
    }

    /// Returns for each of `keys` its value (`Some(None)`: absent), or `None` if it cannot be read without waiting
    /// for a machine that does not reply: see [`Engine::read_now`].
    pub fn read_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        self.engine().read_now(keys)
    }

    /// Prefetches the values of `keys` into the cache and returns `keys.len()`. Errors are ignored: the read that
    /// follows reports them.
    pub fn fetch(&self, keys: &[Vec<u8>]) -> usize {
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let _read_again = self.engine().read(&keys, &mut |_, value| {
            // An engine with a memory map reads a page from the device when the page is touched.
            black_box(value.unwrap_or_default().iter().step_by(PAGE).fold(0, |sum, byte| sum ^ byte));
            ControlFlow::Continue(())
        });
        keys.len()
    }

    /// Reads keys like [`Store::read`], for a caller that copies large values ([`Engine::read_large`]), and counts
    /// corrupt reads.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::read_large`].
    pub fn read_long(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Error> {
        Ok(self.engine().read_large(keys, visit).map_err(|error| self.reads.count(error))?)
    }

    /// Returns the keys of the database `space` for reads, each of which has a snapshot of its own.
    pub fn view(&self, space: Database) -> StoreKeyspace<'_> {
        StoreKeyspace::new(self, space)
    }

    /// Returns the number of keys of the database `space`. The engine's own count can be used only if no key has a
    /// key header; otherwise all keys are scanned.
    pub(crate) fn count_keys(&self, space: Database) -> Result<u64, Error> {
        let markers = self.markers();
        if !markers.contains(MarkerRecords::KEY_HEADERS) {
            let all = if space == Database::default() { self.engine().count()? } else { markers.len() };
            return Ok(all.saturating_sub(markers.len()));
        }
        let mut count = 0;
        raw_scan::scan(self.source(), space, KeyRange::ALL, &mut |_, _, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Returns the marker records that the data hold.
    #[inline]
    fn markers(&self) -> MarkerRecords {
        MarkerRecords::from_bits(self.markers.load(Ordering::Relaxed))
    }

    /// Keeps in memory the expiration times that a commit has set, each with its stored key, and the marker records
    /// that the data hold after the commit (`None` if unchanged).
    #[inline]
    fn note(&self, deadlines: &[(u64, &[u8])], markers: Option<MarkerRecords>) {
        if let Some(markers) = markers {
            self.markers.store(markers.bits(), Ordering::Relaxed);
        }
        self.expiry.note(deadlines);
    }

    /// Reads which marker records the data hold. If that fails, takes them all for present and makes the store
    /// read-only.
    fn load_markers(&self) {
        let mut markers = MarkerRecords::default();
        let keys = MarkerRecords::ALL.map(|(_, key)| key);
        let found = self.reads.read_each(&keys, &mut |index, value| {
            // A record whose value cannot be read exists, or may exist.
            if let (Some((record, _)), Ok(Some(_)) | Err(_)) = (MarkerRecords::ALL.get(index), value) {
                markers.add(*record);
            }
        });
        if let Err(error) = found.map_err(Error::from) {
            // With all records set, no key is taken for absent, and a read-only store writes nothing that relies on
            // them.
            log::error!("cannot read the records of databases and deadlines: {error}");
            markers = MarkerRecords::everything();
            let _first = self.fault.set(error.to_string());
        }
        self.markers.store(markers.bits(), Ordering::Relaxed);
        if markers.contains(MarkerRecords::EXPIRATIONS) {
            self.expiry.request_full_scan();
        }
    }

    /// Returns the expiration times that are kept in memory.
    pub fn expiry(&self) -> &Expiry {
        &self.expiry
    }

    #[inline]
    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.reads.engine
    }

    /// Returns the engine without closing it.
    #[cfg(feature = "bench")]
    pub(crate) fn into_engine(self) -> Box<dyn Engine> {
        self.reads.engine
    }

    /// Ends the watch of a key that [`Txn::watch`] began.
    pub fn unwatch(&self, watch: &Watch) {
        self.watches.remove(watch);
    }

    /// Returns the size of the engine's files in bytes: see [`Engine::disk_size`].
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::disk_size`].
    pub fn disk_size(&self) -> Result<u64, Error> {
        Ok(self.engine().disk_size()?)
    }

    /// Returns the gauges of the engine, values that it reports about itself: see [`Engine::gauges`].
    pub fn figures(&self) -> Vec<engine::Gauge> {
        self.engine().gauges()
    }

    /// Starts a rewrite of the append-only file: see [`Engine::rewrite_log`].
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::rewrite_log`].
    pub fn rewrite(&self) -> Result<(), Error> {
        Ok(self.engine().rewrite_log()?)
    }

    /// Flushes and syncs the engine, and waits until it has no background work left: see [`Engine::quiesce`].
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::quiesce`].
    pub fn settle(&self) -> Result<(), Error> {
        Ok(self.engine().quiesce()?)
    }

    /// Syncs and closes the engine. No other call may follow.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::close`].
    pub fn close(&self) -> Result<(), Error> {
        Ok(self.engine().close()?)
    }
}
