//! Between commands and the engine: the only place that decides what is committed together, when it
//! is synced, and whether writes are still accepted.

#[cfg(test)]
mod blind;
mod commit;
mod commit_queue;
mod corrupt;
mod database;
mod durability;
mod expiration_clock;
mod expiry;
mod flush_swap;
mod fsync_policy;
mod incremental_scan;
mod key_counting;
mod key_stats;
mod keyspace;
mod lanes;
#[cfg(test)]
mod multi_writer_engine_tests;
mod own;
mod raw_scan;
mod scan_cursors;
#[cfg(test)]
mod schedules;
mod sync_primitives;
#[cfg(test)]
mod sync_schedules;
mod sync_state;
#[cfg(test)]
mod tests;
mod txn;
mod txn_keyspace;
mod watch;
mod write_set;
mod written;

use crate::engine::{Batch, Engine, Fsync, Info, KeyRange, VisitEach, VisitValue};
use bumpalo::Bump;
use corrupt::{CorruptReads, VisitRead};
use fsync_policy::FsyncPolicy;
use key_stats::CachedKeyStats;
use own::MarkerRecords;
use raw_scan::Source;
use scan_cursors::ScanCursors;
use std::{
    hint::black_box,
    ops::ControlFlow,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};
use sync_state::SyncTracker;
use watch::WatchTable;

pub use crate::engine::key_value_headers::Entry;
pub use commit_queue::CommitQueue;
pub use database::Database;
pub use expiration_clock::ExpirationClock;
pub use expiry::Expiry;
pub use key_stats::{KeyCounts, KeyStats};
pub use keyspace::{Keyspace, StoreKeyspace, VisitEntry, VisitLookup};
pub use sync_state::SyncState;
pub use txn::Txn;
pub use watch::Watch;

use crate::engine;

/// Bytes of the smallest page of memory.
const PAGE: usize = 4096;

/// Why the store did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine failed.
    #[error("ERR {0}")]
    Engine(engine::Error),
    /// What was to be done together is not in one slot. Nothing was written.
    #[error("{}", engine::Error::CrossSlot)]
    CrossSlot,
    /// An earlier write or sync failed, and what reached the disk is unknown.
    #[error("MISCONF writes are refused until a restart, because an earlier one failed: {0}")]
    ReadOnly(String),
    /// A value is longer than this thread should work on, or would become so (see [`Txn::lend_up_to`]). Nothing was
    /// done: it is to be done again where nobody waits for it.
    #[error("ERR the value is too long to be worked on here")]
    Long,
}

impl Error {
    /// Returns the index of a key, if the error concerns the value of that key only.
    pub fn index_of_value(&self) -> Option<usize> {
        match self {
            Self::Engine(engine::Error::Value { index, .. }) => Some(*index),
            _ => None,
        }
    }

    /// Returns `true` if a key that exists has a value that cannot be read.
    pub fn is_unreadable_value(&self) -> bool {
        matches!(self, Self::Engine(error) if error.is_unreadable_value())
    }

    /// Returns `true` if a key that exists has a corrupt value, and not one that another failure keeps from being read.
    pub(crate) fn is_corrupt_value(&self) -> bool {
        matches!(self, Self::Engine(error) if error.is_unreadable_value() && error.is_damage())
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

/// A part of a commit: what one connection wants written.
pub trait Work: Send {
    /// Runs the commands against `txn` and notes their replies, which nobody sees before the commit.
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>);

    /// Takes back the replies noted by `run`, to be run again: nothing of it was committed.
    fn rewind(&mut self);

    /// Replaces the replies noted by `run`: nothing of it was committed.
    fn fail(&mut self, error: &Error);

    /// Replaces the replies of the requests of which `outcomes` has an error, one for each that `run` ended by
    /// [`Txn::end_request`] and one for the last: the others were committed. Only called where there are slots, on a
    /// blind work.
    fn fail_some(&mut self, outcomes: &[Result<(), Error>]) {
        if let Some(error) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
            self.fail(error);
        }
    }

    /// About how many bytes it writes, to bound a group.
    fn bytes(&self) -> usize;

    /// The slot that it is about, as far as that is known before ([`Store::slot`]); 0 for any. Only asked where there are
    /// slots. There each part is committed by itself, of a blind one each request.
    fn slot(&self, _store: &Store) -> u16 {
        0
    }

    /// Whether `run` reads nothing, so that it does not matter what is written while it runs.
    fn is_blind(&self) -> bool {
        false
    }
}

/// One engine with its durability policy.
pub struct Store {
    engine: Box<dyn Engine>,
    /// Whether there are slots.
    sharded: bool,
    policy: FsyncPolicy,
    /// Set by the first write or sync that failed in a way that cannot be undone.
    fault: OnceLock<String>,
    /// Whether the last write found no room; each of those that follow would be a line in the log.
    is_full: AtomicBool,
    /// Held while a group commits: engines take one batch at a time.
    writer: Mutex<Scratch>,
    /// How many hold it for long, or are about to.
    long: AtomicUsize,
    /// What no sync has covered, unless each commit is synced.
    unsynced: SyncTracker,
    /// When values expire.
    expiry: Expiry,
    cursors: ScanCursors,
    watches: WatchTable,
    counted: CachedKeyStats,
    corrupt_reads: CorruptReads,
    /// Which records of the layer are there.
    own: AtomicU8,
}

/// Age of the oldest unsynced write from which on further ones wait for the sync under `everysec`, unless
/// another is set. Redis' figure.
pub const MAX_UNSYNCED: Duration = Duration::from_secs(2);

/// Memory that one commit after the other uses.
#[derive(Default)]
struct Scratch {
    arena: Bump,
    batch: Batch<'static>,
}

impl Store {
    /// A store over an open engine.
    pub fn new(engine: Box<dyn Engine>, fsync: Fsync) -> Self {
        let is_local = !engine.info().family.is_shared();
        let store = Self {
            sharded: engine.info().family.is_sharded(),
            engine,
            policy: FsyncPolicy::new(fsync),
            fault: OnceLock::new(),
            is_full: AtomicBool::new(false),
            writer: Mutex::default(),
            long: AtomicUsize::new(0),
            unsynced: SyncTracker::new(MAX_UNSYNCED),
            expiry: Expiry::default(),
            cursors: ScanCursors::default(),
            watches: WatchTable::default(),
            counted: CachedKeyStats::default(),
            corrupt_reads: CorruptReads::new(is_local),
            own: AtomicU8::new(0),
        };
        if store.is_shared() {
            // Others may use all of them.
            store.own.store(MarkerRecords::everything().bits(), Ordering::Relaxed);
            store.expiry.request_full_scan();
        } else {
            store.load_markers();
        }
        store
    }

    /// The same with another limit than [`MAX_UNSYNCED`].
    pub fn with_max_unsynced(self, limit: Duration) -> Self {
        Self { unsynced: SyncTracker::new(limit), ..self }
    }

    /// What the engine is.
    pub fn info(&self) -> &'static Info {
        self.engine.info()
    }

    /// Whether commits never wait for a device, so that any thread may run them.
    pub fn is_memory_only(&self) -> bool {
        self.engine.is_memory_only()
    }

    /// Whether other processes may write to the same data.
    pub fn is_shared(&self) -> bool {
        self.engine.info().family.is_shared()
    }

    /// Whether reads may wait for a device.
    pub fn reads_may_wait(&self) -> bool {
        !self.is_memory_only() && !self.engine.info().family.is_in_memory()
    }

    /// Why writes are refused, if they are.
    pub fn read_only_cause(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// See [`Engine::read`].
    #[inline]
    pub fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Error> {
        Ok(self.engine.read(keys, visit).map_err(|error| self.corrupt_reads.count(error))?)
    }

    /// Returns the number of reads that failed because data are corrupt, since the start.
    pub fn corrupt_reads(&self) -> u64 {
        self.corrupt_reads.get()
    }

    /// Returns what the engine has now, to be scanned.
    fn source(&self) -> Source<'_, '_> {
        Source::Engine(&*self.engine, &self.corrupt_reads)
    }

    /// Reads keys like [`Store::read`], and goes on behind a value that cannot be read, at a later moment.
    fn read_each(&self, keys: &[&[u8]], visit: &mut VisitRead<'_>) -> Result<(), Error> {
        Ok(self.corrupt_reads.read_each(&*self.engine, keys, visit)?)
    }

    /// See [`Engine::scan_each`].
    fn scan_each(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> engine::Result<()> {
        self.corrupt_reads.scan_each(&*self.engine, range, visit)
    }

    /// See [`Engine::walk_each`].
    fn walk_each(&self, position: u64, visit: &mut VisitEach<'_>) -> engine::Result<u64> {
        self.corrupt_reads.walk_each(&*self.engine, position, visit)
    }

    /// See [`Engine::read_now`].
    pub fn read_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        self.engine.read_now(keys)
    }

    /// Reads values for nothing but to have them in the cache. Returns their number; who reads them again finds errors.
    pub fn fetch(&self, keys: &[Vec<u8>]) -> usize {
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let _read_again = self.engine.read(&keys, &mut |_, value| {
            // Of a memory map, a page is read when it is touched.
            black_box(value.unwrap_or_default().iter().step_by(PAGE).fold(0, |sum, byte| sum ^ byte));
            ControlFlow::Continue(())
        });
        keys.len()
    }

    /// See [`Engine::read_large`].
    pub fn read_long(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Error> {
        Ok(self.engine.read_large(keys, visit).map_err(|error| self.corrupt_reads.count(error))?)
    }

    /// The keys of one database.
    pub fn view(&self, space: Database) -> StoreKeyspace<'_> {
        StoreKeyspace::new(self, space)
    }

    /// Number of keys in one database. Only where no key has a head the engine can tell.
    fn count_keys(&self, space: Database) -> Result<u64, Error> {
        let own = self.own();
        if !own.contains(MarkerRecords::KEY_HEADERS) {
            let all = if space == Database::default() { self.engine.count()? } else { own.len() };
            return Ok(all.saturating_sub(own.len()));
        }
        let mut count = 0;
        raw_scan::scan(self.source(), space, KeyRange::ALL, &mut |_, _, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// The layer's own records.
    #[inline]
    fn own(&self) -> MarkerRecords {
        MarkerRecords::from_bits(self.own.load(Ordering::Relaxed))
    }

    /// Notes what a commit has written.
    #[inline]
    fn note(&self, deadlines: &[(u64, &[u8])], own: Option<MarkerRecords>) {
        if let Some(own) = own {
            self.own.store(own.bits(), Ordering::Relaxed);
        }
        self.expiry.note(deadlines);
    }

    /// Looks for the layer's own records.
    fn load_markers(&self) {
        let mut own = MarkerRecords::default();
        let keys = MarkerRecords::ALL.map(|(_, key)| key);
        let found = self.read_each(&keys, &mut |index, value| {
            // A record whose value cannot be read exists, or may exist.
            if let (Some((record, _)), Ok(Some(_)) | Err(_)) = (MarkerRecords::ALL.get(index), value) {
                own.add(*record);
            }
        });
        if let Err(error) = found {
            // With all of them nothing is taken for absent, and without a write nothing is built on that.
            log::error!("cannot read the records of databases and deadlines: {error}");
            own = MarkerRecords::everything();
            let _first = self.fault.set(error.to_string());
        }
        self.own.store(own.bits(), Ordering::Relaxed);
        if own.contains(MarkerRecords::EXPIRATIONS) {
            self.expiry.request_full_scan();
        }
    }

    /// What expires.
    pub fn expiry(&self) -> &Expiry {
        &self.expiry
    }

    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Ends what [`Txn::watch`] began.
    pub fn unwatch(&self, watch: &Watch) {
        self.watches.remove(watch);
    }

    fn watches(&self) -> &WatchTable {
        &self.watches
    }

    fn cursors(&self) -> &ScanCursors {
        &self.cursors
    }

    /// See [`Engine::disk_size`].
    pub fn disk_size(&self) -> Result<u64, Error> {
        Ok(self.engine.disk_size()?)
    }

    /// See [`Engine::gauges`].
    pub fn figures(&self) -> Vec<engine::Gauge> {
        self.engine.gauges()
    }

    /// See [`Engine::rewrite_log`].
    pub fn rewrite(&self) -> Result<(), Error> {
        Ok(self.engine.rewrite_log()?)
    }

    /// See [`Engine::quiesce`].
    pub fn settle(&self) -> Result<(), Error> {
        Ok(self.engine.quiesce()?)
    }

    /// Syncs and closes the engine. Nothing may follow.
    pub fn close(&self) -> Result<(), Error> {
        Ok(self.engine.close()?)
    }
}
