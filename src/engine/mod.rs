//! Storage engines behind one object-safe trait, and the list of them.
//!
//! An engine is one file or folder in `stores` that imports its crate and nothing from the layers above. To add
//! one: write that file, add its line to the list in `stores/mod.rs`, and give it a Cargo feature.

mod aof;
mod batch;
mod check;
mod cluster_access;
mod description;
mod error;
pub mod files;
pub mod key_value_headers;
pub mod machine_memory;
mod memory_table;
mod mmap_read_ahead;
mod mutex;
mod options;
pub mod page_cache;
mod refusal;
mod registry;
mod stores;
pub mod synthetic;

use std::{
    ops::{Bound, ControlFlow, RangeBounds},
    path::Path,
};

pub use aof::Repaired;
pub use batch::{Batch, WriteOp};
pub use check::{Check, CheckReport};
pub(crate) use cluster_access::{LONGEST_PASSWORD, NoPassword, read_password};
pub use description::{
    Capabilities, Caveat, Family, FsyncSupport, Info, Loss, LossBound, LossClass, OpenFiles, Status, Tool,
    Writers,
};
pub use error::{Error, Result};
pub use options::{ClusterAccess, Compression, Durability, Fsync, Location, OpenOptions, ReadAhead};
pub use registry::{
    DISTRIBUTED, FAULTY, KINDS, absent, absent_hint, all_kinds, feature, kinds, prepare, register,
};

/// Callback that receives the index of a key and its value, or `None` if it is absent. The value is borrowed from
/// the engine's own memory for the call.
pub type VisitValue<'v> = dyn FnMut(usize, Option<&[u8]>) -> ControlFlow<()> + 'v;

/// Callback that receives a key and its value, both borrowed for the call.
pub type VisitPair<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Callback that receives a key and its value, both borrowed for the call, or the error of a value that cannot be
/// read.
pub type VisitEach<'v> = dyn FnMut(&[u8], Result<&[u8]>) -> ControlFlow<()> + 'v;

/// Callback that receives a key, borrowed for the call.
pub type VisitKey<'v> = dyn FnMut(&[u8]) -> ControlFlow<()> + 'v;

/// Open key-value engine: a library with its data in this process or in files, or the client of a cluster.
///
/// Any number of threads may call `read`, `scan`, `count` and `sync` at any time. [`Info::writers`] limits the
/// number of threads in `write`: with [`Writers::One`] the caller lets in one at a time. Batches that many threads
/// write take effect one after the other, each as a whole, in some order; a batch that clears is written while no
/// other is, whatever the engine. (The store makes one batch of all waiting writes, and lets in one at a time unless
/// other processes may write to the same data.)
///
/// With hash slots ([`Capabilities::hash_slots`]) this holds for keys of one slot: a scan, a count and the removal of
/// all keys go from slot to slot.
///
/// No call delays others for long, however many keys it processes: an engine without snapshots of its own works in
/// bounded chunks. Only a batch may: later writes wait for it.
///
/// Threads that end must have been joined before the engine is dropped: LMDB touches its lock file in the last
/// moments of each thread that has read. If that file is unmapped meanwhile, the process crashes; if the next one
/// is mapped at the same address, one of its readers loses its slot. The end of a [`std::thread::scope`] does not
/// wait for those moments, [`std::thread::ScopedJoinHandle::join`] does.
pub trait Engine: Send + Sync {
    /// Returns the static description of this engine and its guarantees.
    fn info(&self) -> &'static Info;

    /// Returns the minimum and maximum length of a key in bytes, both inclusive. A key outside is absent for `read`
    /// and an [`Error::KeyLength`] for `write`.
    fn key_limits(&self) -> (usize, usize) {
        self.info().key_length
    }

    /// Returns `true` if no call to this engine can block on a device (the engine has no files). The default is
    /// `false`, the value of an engine whose data are always in files or on other machines.
    fn is_memory_only(&self) -> bool {
        false
    }

    /// Calls `visit` for each of `keys`, in order, under one snapshot: it sees all of a batch or nothing of it.
    /// `visit` may stop the reading.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if one value cannot be read: `visit` was called for the keys before it, and the caller may
    /// continue after that key with another call. Any other error concerns all keys that were not visited.
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()>;

    /// Reads like `read`, for a caller that copies large values. `map` and `btree`, which have no snapshots of their
    /// own, then block writes for a few MiB of values at a time, not for all of them, and copy a longer value before
    /// they pass it to `visit`.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::read`].
    fn read_large(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.read(keys, visit)
    }

    /// Begins a snapshot for many reads by this thread. Returns `None` if it would save no work of the engine's reads,
    /// such as the start of a transaction, or would exclude writes. While a thread holds a snapshot, it calls nothing else
    /// of the engine.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::read`] that concern all keys.
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(None)
    }

    /// Reads values that are available without waiting for a machine that does not reply: returns for each of
    /// `keys` its value, or `Some(None)` if it is absent; `None` if it must be read by [`Engine::read`]. Used only if
    /// reads wait for the network.
    fn read_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        keys.iter().map(|_| None).collect()
    }

    /// Applies the batch atomically, in order. With `sync`, returns only when the batch is durable, and readers do
    /// not see it before (see `info().caveats` for the engine that cannot hide it). On an error nothing of the
    /// batch is visible, except that after [`Error::Unknown`] the batch may take effect. [`Error::is_rolled_back`] is
    /// `true` if the engine has undone the batch and takes further writes.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`], [`Error::Full`], and every failure of the library or the disk. After an error for which
    /// [`Error::is_rolled_back`] is `false`, the engine may refuse all later writes.
    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()>;

    /// Writes each part of a batch ([`Batch::end_part`]) atomically and separately, parts with the same key in
    /// their order, and returns the outcome of each. Used with hash slots only: parts may be in different ones.
    fn write_parts(&self, batch: &Batch<'_>, sync: bool) -> Vec<Result<()>> {
        batch.parts().map(|part| self.write(&Batch::of(part), sync)).collect()
    }

    /// Returns the hash slot of a key. Used only if transactions and batches are limited to keys of one slot
    /// ([`Capabilities::hash_slots`]); other engines have one slot, 0.
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    /// Begins a transaction if other processes may write to the same data ([`Capabilities::multi_writer`]). Otherwise
    /// returns `None`: reads stay valid until this process writes.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the machines that hold the data do not reply.
    fn begin(&self) -> Result<Option<Box<dyn Transaction + '_>>> {
        Ok(None)
    }

    /// Makes every batch durable that was written before the call.
    ///
    /// # Errors
    ///
    /// Fails if the disk refuses the sync: the durability of earlier writes is unknown.
    fn sync(&self) -> Result<()>;

    /// Prepares for another fsync policy than [`OpenOptions::fsync`], while no `write` runs. Later calls of `write`
    /// follow the new policy. An engine that has to be opened for its policy returns [`Error::Unsupported`], and
    /// does not change.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the engine has to be opened for the policy, and failures of the library.
    fn set_fsync(&self, fsync: Fsync) -> Result<()> {
        match self.info().fsync {
            FsyncSupport::Changeable => Ok(()),
            _ => Err(Error::fixed_policy(self.info().name, fsync)),
        }
    }

    /// Does the deferred work of the writes so far, and makes them durable: returns when memory is flushed and no
    /// background work is left, provided that no client writes meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::sync`], and of flushes and compactions.
    fn quiesce(&self) -> Result<()> {
        self.sync()
    }

    /// Visits the pairs of `range` under one snapshot, in ascending byte order of the keys if the engine is
    /// [ordered](Capabilities::ordered). `visit` may stop the scan.
    ///
    /// # Errors
    ///
    /// Fails with the value or the block that cannot be read, after `visit` was called for the pairs before it.
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()>;

    /// Scans like [`Engine::scan`], but calls `visit` with an error for a value that cannot be read, and continues
    /// after it. An engine that does not know the key of such a value returns the error.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::scan`].
    fn scan_each(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> Result<()> {
        self.scan(range, &mut |key, value| visit(key, Ok(value)))
    }

    /// Continues an incremental scan of all pairs at `position` (0: start; any number is a valid position). The
    /// data consist of numbered parts, and a position is the number of the next part. A step visits whole parts,
    /// in ascending order of their numbers: after `visit` stops it, it visits the rest of the part. Returns the
    /// position to continue from, which is at most 65,535, or 0 at the end. The scan is no snapshot, but visits
    /// every key that exists throughout. Used only for unordered engines: in an ordered one an incremental scan
    /// is a series of scans, each from behind the last key. An engine that cannot stop has one part.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::scan`].
    fn scan_step(&self, _position: u64, visit: &mut VisitPair<'_>) -> Result<u64> {
        scan_at_once(self, visit)
    }

    /// Returns the number of the part in which [`Engine::scan_step`] visits `key`. As long as a key exists, it
    /// stays in its part. An engine that implements `scan_step` also implements this method.
    fn scan_part(&self, _key: &[u8]) -> u64 {
        0
    }

    /// Scans like [`Engine::scan_step`], but continues after values that cannot be read, as [`Engine::scan_each`]
    /// does.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::scan_step`].
    fn scan_step_each(&self, position: u64, visit: &mut VisitEach<'_>) -> Result<u64> {
        self.scan_step(position, &mut |key, value| visit(key, Ok(value)))
    }

    /// Visits the keys of the same parts as [`Engine::scan_step_each`], without their values. An engine that finds keys
    /// without reading their values implements this method: a part may have very many keys.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::scan_step_each`].
    fn scan_step_keys(&self, position: u64, visit: &mut VisitKey<'_>) -> Result<u64> {
        self.scan_step_each(position, &mut |key, _| visit(key))
    }

    /// Returns the exact number of keys.
    ///
    /// # Errors
    ///
    /// Fails if the data cannot be read.
    fn count(&self) -> Result<u64>;

    /// Returns the size of the engine's files on disk in bytes, 0 in memory.
    ///
    /// # Errors
    ///
    /// Errors of [`files::disk_size`].
    fn disk_size(&self) -> Result<u64>;

    /// Returns values that the engine reports about itself, at negligible cost; empty if it reports none.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// Rewrites the files to hold only live data, while serving (`BGREWRITEAOF`). Returns when the work has begun.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the engine has no append-only file or is already rewriting it, and failures before the
    /// work begins.
    fn rewrite_log(&self) -> Result<()> {
        let engine = self.info().name;
        Err(Error::Unsupported { engine, what: "has no append-only file to rewrite".into() })
    }

    /// Makes the files as small as this engine can, then closes it. The data stay the same, also on failure. An
    /// engine without files, or without a way to shrink them, closes and returns [`Error::Unsupported`].
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if there are no files or no way to shrink them, and failures of the library or the disk.
    fn compact(self: Box<Self>) -> Result<()> {
        self.close()?;
        let engine = self.info().name;
        Err(Error::Unsupported { engine, what: "has no way to compact its files".into() })
    }

    /// Syncs and closes. No other call may follow; dropping without it behaves like a kill, except that the
    /// engine's own destructor runs. The default only syncs: the destructor closes the files.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::sync`].
    fn close(&self) -> Result<()> {
        self.sync()
    }
}

/// State of an engine's data at one time ([`Engine::snapshot`]). Later commits do not change what it returns.
pub trait Snapshot {
    /// Reads like [`Engine::read`].
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::read`].
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()>;

    /// Scans like [`Engine::scan`].
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::scan`].
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()>;
}

/// Isolated reads and one write of data that other processes write, too.
pub trait Transaction {
    /// Reads like [`Engine::read`], under the snapshot of the transaction's start. With hash slots, values are read
    /// when they are requested: that all of them existed at one time is known when [`Transaction::commit`]
    /// succeeds.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::read`].
    fn read(&mut self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()>;

    /// Reads the values of `keys` in advance, because [`Transaction::read`] will probably need them. They count as
    /// read when `Transaction::read` returns them; it also returns the errors. Used only if each read waits for the
    /// network.
    fn prefetch(&mut self, _keys: &[&[u8]]) {}

    /// Scans like [`Engine::scan`], under the snapshot of the transaction's start.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::scan`].
    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()>;

    /// Applies the batch atomically, in order.
    ///
    /// # Errors
    ///
    /// [`Error::CrossSlot`] if the keys that are read and written are not in one hash slot of a sharded engine.
    /// [`Error::Conflict`] if other clients have written, since the start of the transaction, a key that is written
    /// here or was read by `read`. A key that a `scan` visited may have changed.
    fn commit(self: Box<Self>, batch: &Batch<'_>) -> Result<()>;
}

/// Visits all pairs in one step of an incremental scan.
fn scan_at_once(engine: &(impl Engine + ?Sized), visit: &mut VisitPair<'_>) -> Result<u64> {
    engine.scan(KeyRange::ALL, &mut |key, value| {
        let _pause = visit(key, value);
        ControlFlow::Continue(())
    })?;
    Ok(0)
}

/// Value that an engine reports about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// Name of the value: lower-case words with underscores, the unit last.
    pub name: &'static str,
    /// Description of the value in one sentence.
    pub help: &'static str,
    /// Current value, in the unit with which the name ends.
    pub value: u64,
    /// `true` if the value is deferred work of the engine, or space that it has not given back.
    pub is_backlog: bool,
}

/// Value of a setting with which kvbench opens an engine's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Size in bytes.
    Bytes(u64),
    /// Mode by the library's own name, or `on` or `off`.
    Mode(&'static str),
}

/// Registered engine: its description and the functions that need no open engine.
#[derive(Debug)]
pub struct Kind {
    /// Static description of the engine.
    pub info: &'static Info,
    /// Function that opens the engine's data, or creates them.
    pub open: fn(&OpenOptions) -> Result<Box<dyn Engine>>,
    /// Function that returns `true` if the files at a path look like this engine's.
    pub recognise: fn(&Path) -> bool,
    /// Way in which `kvbench check` checks the files for corruption.
    pub check: Check,
    /// Function that repairs the file at a path by cutting it off at the first corruption (`kvbench repair`); `None` if
    /// kvbench cannot repair the engine's data.
    pub repair: Option<fn(&Path) -> Result<Repaired>>,
    /// Function that prepares the engine's library. [`prepare`] calls it for all engines at the start of a process,
    /// before the process starts threads or other processes, whether or not the process opens the engine.
    pub before_threads: fn(),
    /// Ends of the names of mapped files that hold no data, such as lock tables: processes coordinate through them, and
    /// each start makes them again.
    pub coordination_files: &'static [&'static str],
    /// Function that returns the settings of the engine's library that follow from the options, each with its name.
    pub settings: fn(&OpenOptions) -> Vec<(&'static str, Setting)>,
    /// Path of the program that has the engine; `None` for an engine of this program. See [`Kind::in_program`].
    pub program: Option<&'static Path>,
}

impl Kind {
    /// Creates an entry for an engine that cannot be repaired, needs no preparation, and maps no files without data.
    pub const fn new(
        info: &'static Info,
        open: fn(&OpenOptions) -> Result<Box<dyn Engine>>,
        recognise: fn(&Path) -> bool,
        check: Check,
    ) -> Self {
        Self {
            info,
            open,
            recognise,
            check,
            repair: None,
            before_threads: || {},
            coordination_files: &[],
            settings: |_| Vec::new(),
            program: None,
        }
    }

    /// Creates an entry for an engine of another kvbench program, which `kvbench bench` starts to measure it: a program can
    /// link only one version of a C library. This program cannot open the engine's data.
    pub const fn in_program(info: &'static Info, program: &'static Path) -> Self {
        fn absent<T>() -> Result<T> {
            Err(Error::Unsupported { engine: "this engine", what: "is in another program".into() })
        }
        Self {
            program: Some(program),
            ..Self::new(info, |_| absent(), |_| false, Check::OnCopy(|_| absent()))
        }
    }

    /// Adds the function for `kvbench repair` to the entry.
    pub const fn with_repair(self, repair: fn(&Path) -> Result<Repaired>) -> Self {
        Self { repair: Some(repair), ..self }
    }

    /// Adds the function that prepares the engine's library before the process starts threads to the entry.
    pub const fn with_before_threads(self, before_threads: fn()) -> Self {
        Self { before_threads, ..self }
    }

    /// Adds the ends of the names of mapped files that hold no data to the entry.
    pub const fn with_coordination_files(self, coordination_files: &'static [&'static str]) -> Self {
        Self { coordination_files, ..self }
    }

    /// Adds the function that returns the settings of the engine's library to the entry.
    pub const fn with_settings(self, settings: fn(&OpenOptions) -> Vec<(&'static str, Setting)>) -> Self {
        Self { settings, ..self }
    }
}

/// Range of keys in byte order, given by its two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// Lower bound of the keys in the range.
    pub start: Bound<&'a [u8]>,
    /// Upper bound of the keys in the range.
    pub end: Bound<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Range of all keys.
    pub const ALL: KeyRange<'static> = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };

    /// Returns `true` if no key is within the bounds because they cross, are equal and one of them is excluded, or the
    /// upper one excludes even the empty key. `BTreeMap::range` panics on some of these ranges. `false` does not mean
    /// that there is a key within the bounds: between `a` and `a\0`, both excluded, there is none.
    pub fn is_empty(&self) -> bool {
        match (self.start, self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            _ => false,
        }
    }

    /// Returns `true` if `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&(self.start, self.end), key)
    }
}

/// Returns the first key after all keys that start with `prefix`, or `None` if there is no such key.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}
