//! Storage engines behind one object-safe trait, and the list of them.
//!
//! An engine is one file or folder in `stores` that imports its crate and nothing from the layers above. To add one:
//! write that file, add its `KIND` to [`KINDS`] (in `registry.rs`), and give it a Cargo feature.

mod access;
mod aof;
mod batch;
mod check;
mod error;
mod first;
pub mod host;
mod info;
pub mod key_value_headers;
mod memory_table;
#[cfg(any(feature = "lmdb", feature = "mdbx"))]
mod mmap_read_ahead;
mod path;
mod registry;
mod stores;
#[cfg(feature = "bench")]
pub mod synthetic;

/// What engines need for their files: a first start that may be interrupted, locks, sizes.
pub mod files {
    pub use super::{
        first::{FirstDirectory, FirstFile, FirstTree, IsFirst},
        path::{disk_size, lock, open_locked, read_start, reserve, sync_dir},
    };
}

use std::{
    fmt,
    ops::{Bound, ControlFlow, RangeBounds},
    path::{Path, PathBuf},
};

pub use access::ClusterAccess;
pub(crate) use access::{LONGEST_PASSWORD, NoPassword, read_password};
pub use aof::{Repaired, repair_log};
pub use batch::{Batch, WriteOp};
pub use check::{Check, CheckReport};
pub use error::{Error, Result};
pub use info::{
    Caveat, Compression, Durability, Family, Fsync, Info, Loss, LossBound, LossClass, OpenFiles, Writers,
};
pub use registry::{DISTRIBUTED, FAULTY, KINDS, kinds, prepare, register, storage_format};

/// Called with the index of a key and its value, or `None` when it is absent. The value is lent
/// from the engine's own memory for the time of the call.
pub type VisitValue<'v> = dyn FnMut(usize, Option<&[u8]>) -> ControlFlow<()> + 'v;

/// Called with a key and its value, both lent for the time of the call.
pub type VisitPair<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Called with a key and its value, both lent for the time of the call, or with the error of a value that cannot be read.
pub type VisitEach<'v> = dyn FnMut(&[u8], Result<&[u8]>) -> ControlFlow<()> + 'v;

/// Calls what it is given while no other write runs, and returns what that returns.
pub type Turn<'t> = dyn FnMut(&mut dyn FnMut() -> Result<()>) -> Result<()> + 't;

/// An embedded key-value engine.
///
/// Any number of threads may call `read`, `scan`, `count` and `sync` at any time. How many may be in `write`
/// meanwhile tells [`Info::writers`]: of [`Writers::One`] the caller lets in one at a time, also while
/// `write_beside` works outside its turn. Batches that many threads write take effect one after the other, each
/// as a whole, in some order; a batch that clears is written while no other is, whatever the engine. (The store
/// lets in one at a time, always: it makes one batch of all that waits.)
///
/// Where there are slots ([`Family::is_sharded`]) this holds for keys of one slot: a scan, a count and the removal of all
/// keys go from slot to slot.
///
/// None of them keeps others waiting for long, however many keys it is about: an engine without snapshots
/// of its own works in bounded steps. Only a batch itself may: the writes after it wait for it.
///
/// Threads that end must have been joined before the engine is dropped: LMDB touches its lock file in
/// the last moments of each thread that has read. When that is unmapped meanwhile, the process crashes;
/// when the next one is mapped at the same place, a reader of that loses its slot. The end of a
/// [`std::thread::scope`] does not wait for those moments, [`std::thread::ScopedJoinHandle::join`] does.
pub trait Engine: Send + Sync {
    /// What this engine is and promises.
    fn info(&self) -> &'static Info;

    /// Shortest and longest key, in bytes, both inclusive. A key outside is absent for `read` and
    /// an [`Error::KeyLength`] for `write`.
    fn key_limits(&self) -> (usize, usize);

    /// Whether nothing this engine does can block on a device (it has no file behind it).
    fn is_memory_only(&self) -> bool;

    /// Calls `visit` for each of `keys`, in order, under one snapshot: it sees all of a batch or
    /// nothing of it. `visit` may stop the reading.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if one value cannot be read: `visit` was called for the keys before it, and the caller may go on
    /// behind it with another call. Any other error concerns all keys that were not visited.
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()>;

    /// Like `read`, for a caller that copies much. An engine without snapshots of its own lends long values, and
    /// many, without keeping others from writing, at the price of a copy.
    fn read_large(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.read(keys, visit)
    }

    /// Reads what can be read without waiting for a machine that does not answer: for each of `keys` its value, or that
    /// it has none; `None` if it must be read by [`Engine::read`]. Only of use where there are slots.
    fn read_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        keys.iter().map(|_| None).collect()
    }

    /// Applies the batch atomically, in order. With `sync`, returns only when the batch would
    /// survive a power cut, and readers do not see it before (see `info().caveats` for the engine
    /// that cannot hide it). On an error nothing of the batch is visible; whether the engine takes
    /// further writes tells [`Error::is_rolled_back`].
    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()>;

    /// Writes each part of a batch ([`Batch::end_client`]) atomically by itself, those with the same key in their order, and
    /// returns the outcome of each. Only of use where there are slots: parts may be in different ones.
    fn write_parts(&self, batch: &Batch<'_>, sync: bool) -> Vec<Result<()>> {
        batch.client_ends().map(|part| self.write(&Batch::of(part), sync)).collect()
    }

    /// Like `write` without `sync`, for a large batch whose order to other writes does not matter. An
    /// engine that can prepares it while other writes go on, and takes its `turn` to make it visible only.
    fn write_beside(&self, batch: &Batch<'_>, turn: &mut Turn<'_>) -> Result<()> {
        turn(&mut || self.write(batch, false))
    }

    /// The slot that a key is in. Only of use where transactions and batches may be about keys of one slot only
    /// ([`Family::is_sharded`]); elsewhere there is one.
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    /// Begins a transaction, where other processes may write to the same data
    /// ([`Family::is_shared`]). Otherwise there is none: what was read stays true until this process writes.
    fn begin(&self) -> Result<Option<Box<dyn Transaction + '_>>> {
        Ok(None)
    }

    /// Makes every batch that was written before the call survive a power cut.
    fn sync(&self) -> Result<()>;

    /// Prepares for another policy than that of [`OpenOptions::fsync`], while no `write` runs. Afterwards `write` is
    /// called as the new one asks. An engine that has to be opened for its policy returns
    /// [`Error::Unsupported`], and stays as it is.
    fn set_fsync(&self, fsync: Fsync) -> Result<()> {
        Err(Error::fixed_policy(self.info().name, fsync))
    }

    /// Does the work that the writes so far have left for later, and makes them survive a power cut: returns
    /// when memory is flushed and no background work is left, provided that nobody writes meanwhile.
    fn quiesce(&self) -> Result<()> {
        self.sync()
    }

    /// Visits the pairs of `range` under one snapshot, in ascending byte order of the keys where
    /// `info().ordered`. `visit` may stop the scan.
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()>;

    /// Like [`Engine::scan`], but calls `visit` with an error for a value that cannot be read, and goes on behind it. An
    /// engine that does not know the key of such a value returns the error.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::scan`].
    fn scan_each(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> Result<()> {
        self.scan(range, &mut |key, value| visit(key, Ok(value)))
    }

    /// Goes on with a walk over all pairs at `position`: 0 is the begin, and any number is a place. Returns where
    /// to go on, 0 at the end. `visit` may ask for a pause, which may come after some more pairs. The walk is no
    /// snapshot, but a key that is there all the time is visited. Only of use without order: in order, a walk
    /// is a row of scans, each from behind the last key. What cannot pause visits everything.
    fn scan_step(&self, _position: u64, visit: &mut VisitPair<'_>) -> Result<u64> {
        walk_at_once(self, visit)
    }

    /// Like [`Engine::scan_step`], but passes over values that cannot be read, as [`Engine::scan_each`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::scan_step`].
    fn walk_each(&self, position: u64, visit: &mut VisitEach<'_>) -> Result<u64> {
        self.scan_step(position, &mut |key, value| visit(key, Ok(value)))
    }

    /// The exact number of keys.
    fn count(&self) -> Result<u64>;

    /// Bytes the engine's files take on disk, 0 in memory.
    fn disk_size(&self) -> Result<u64>;

    /// What the engine counts of itself, at no cost worth mentioning.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// Rewrites the files to hold only what is alive, while serving (`BGREWRITEAOF`). Returns when
    /// the work has begun.
    fn rewrite_log(&self) -> Result<()> {
        let engine = self.info().name;
        Err(Error::Unsupported { engine, what: "has no append-only file to rewrite".into() })
    }

    /// Makes the files as small as this engine can, then closes it. What is in it stays the same, also
    /// when that fails. An engine without files, or without a way to shrink them, closes and returns
    /// [`Error::Unsupported`].
    fn compact(self: Box<Self>) -> Result<()> {
        self.close()?;
        let engine = self.info().name;
        Err(Error::Unsupported { engine, what: "has no way to compact its files".into() })
    }

    /// Syncs and closes. No other call may follow; dropping without it behaves like a kill, except
    /// that the engine's own destructor runs.
    fn close(&self) -> Result<()>;
}

/// Reads and one write of data that other processes write, too, as if nobody else did meanwhile.
pub trait Transaction {
    /// See [`Engine::read`]; the snapshot is that of the transaction's begin. Where there are slots, values are read when
    /// they are asked for: that all of them were there together is known when [`Transaction::commit`] succeeds.
    fn read(&mut self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()>;

    /// See [`Engine::scan`]; the snapshot is that of the transaction's begin.
    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()>;

    /// Applies the batch atomically, in order.
    ///
    /// # Errors
    ///
    /// [`Error::CrossSlot`] when what is read and written is not in one slot of those that there are.
    /// [`Error::Conflict`] when others have written since the begin what is written here, or what was read by `read`.
    /// What a `scan` visited may have changed.
    fn commit(self: Box<Self>, batch: &Batch<'_>) -> Result<()>;
}

/// A walk without a pause.
fn walk_at_once(engine: &(impl Engine + ?Sized), visit: &mut VisitPair<'_>) -> Result<u64> {
    engine.scan(KeyRange::ALL, &mut |key, value| {
        let _pause = visit(key, value);
        ControlFlow::Continue(())
    })?;
    Ok(0)
}

/// Something that an engine counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// Lower-case words with underscores, the unit last.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// The figure of this moment.
    pub value: u64,
}

/// Where an engine keeps its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Nowhere: gone with the process.
    Memory,
    /// A file or a directory, as the engine likes. Created when missing, its parent is not.
    Path(PathBuf),
    /// On other machines.
    Cluster {
        /// Of the machines that know the others: `host:port` each.
        nodes: Vec<String>,
        /// What every key begins with there, so that others have room beside it.
        prefix: Vec<u8>,
        /// Password and certificates for the connections.
        access: ClusterAccess,
    },
}

impl Location {
    /// Its path, if that is on this machine's disk.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Memory | Self::Cluster { .. } => None,
        }
    }
}

/// How to open an engine. The caller has checked it against [`Info`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Where the data are.
    pub location: Location,
    /// The policy the store will keep; engines that fix it at open (LMDB, sled) need it here.
    pub fsync: Fsync,
    /// Cache budget in bytes, used as `Info::cache` says.
    pub cache_size: u64,
    /// Largest size of LMDB's memory map, in bytes.
    pub map_size: u64,
    /// Whether the kernel reads ahead in a memory map.
    pub read_ahead: ReadAhead,
    /// Block compression.
    pub compression: Compression,
    /// Whether tables are read past the kernel's page cache.
    pub direct_reads: bool,
    /// Files it may have open, at least `Info::open_files.least`.
    pub max_files: u64,
}

impl OpenOptions {
    /// A cache of 64 MiB, a map of 1 TiB at most, 65,536 files, and nothing compressed.
    pub fn new(location: Location, fsync: Fsync) -> Self {
        Self {
            location,
            fsync,
            cache_size: 64 << 20,
            map_size: 1 << 40,
            read_ahead: ReadAhead::Auto,
            compression: Compression::None,
            direct_reads: false,
            max_files: 1 << 16,
        }
    }
}

/// Whether the kernel reads ahead when a page of a memory-mapped file is not in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// While the data fit into memory.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl fmt::Display for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// One row of the list of engines.
#[derive(Debug)]
pub struct Kind {
    /// What it is.
    pub info: &'static Info,
    /// Opens or creates the data.
    pub open: fn(&OpenOptions) -> Result<Box<dyn Engine>>,
    /// Whether the files at a path look like this engine's.
    pub recognise: fn(&Path) -> bool,
    /// Looks for damage in them.
    pub check: Check,
}

/// A range of keys in byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// Where it starts.
    pub start: Bound<&'a [u8]>,
    /// Where it ends.
    pub end: Bound<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Every key.
    pub const ALL: KeyRange<'static> = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };

    /// Whether no key can be inside (`BTreeMap::range` panics on such bounds).
    pub fn is_empty(&self) -> bool {
        match (self.start, self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            _ => false,
        }
    }

    /// Whether `key` is inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&(self.start, self.end), key)
    }
}

/// The first key after all keys that start with `prefix`, or `None` when there is no such key.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}
