//! Versions of fjall: all reads share a snapshot that is taken after each commit, because a read during a commit, with a
//! snapshot of its own or without, may see parts of the batch that is being applied.

use crate::{Failure, Library, info, wait_while};
use kvbench::engine::{
    Batch, Family, Info, KeyRange, OpenFiles, OpenOptions, VisitPair, VisitValue, WriteOp,
};
use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

/// Name of the partition (version 2) or keyspace (version 3) that holds the pairs.
const NAME: &str = "kv";

/// Returns the sizes of the block cache and of a memtable, in bytes: those of kvbench's own engine `fjall`.
fn sizes(options: &OpenOptions) -> (u64, u64) {
    (options.cache_size / 2, (options.cache_size / 8).clamp(1 << 20, 64 << 20))
}

/// Number of files that fjall may have open besides tables: journals, directories, tables that are being written.
const OWN_FILES: u64 = 24;

/// Returns the number of tables that may be open.
fn tables(options: &OpenOptions) -> usize {
    let files = options.max_files.clamp(OPEN_FILES.least, OPEN_FILES.most) - OWN_FILES;
    usize::try_from(files).unwrap_or(usize::MAX)
}

const OPEN_FILES: OpenFiles = OpenFiles { least: OWN_FILES + 16, most: OWN_FILES + 900, per_read: 1 };

const fn fjall_info(name: &'static str, library: &'static str) -> Info {
    Info { open_files: OPEN_FILES, ..info(name, library, Family::Lsm) }
}

/// Returns `true` if fjall accepts a key of this length; it panics at others.
fn is_key(key: &[u8]) -> bool {
    (1..=usize::from(u16::MAX)).contains(&key.len())
}

/// Snapshot that reads use: the state after the last commit.
struct Latest<S> {
    snapshot: RwLock<Arc<S>>,
    /// Held from a commit to its snapshot: a flush makes the applied part of a batch visible in new snapshots.
    writing: Mutex<()>,
}

impl<S> Latest<S> {
    fn new(snapshot: S) -> Self {
        Self { snapshot: RwLock::new(Arc::new(snapshot)), writing: Mutex::new(()) }
    }

    fn get(&self) -> Arc<S> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Commits a batch, and keeps the snapshot that `commit` then returns.
    fn after(&self, commit: impl FnOnce() -> Result<S, Failure>) -> Result<(), Failure> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = Arc::new(commit()?);
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
        Ok(())
    }
}

/// Defines the methods of [`Library`] that are the same in all versions; `$pairs` is the field with the pairs.
macro_rules! common {
    ($fjall:ident, $pairs:ident) => {
        fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Failure> {
            let snapshot = self.latest.get();
            for (index, key) in keys.iter().enumerate() {
                let value = if is_key(key) { self.get(&snapshot, key)? } else { None };
                if visit(index, value.as_deref()).is_break() {
                    break;
                }
            }
            Ok(())
        }

        fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<(), Failure> {
            let (clear, ops) = batch.after_clear();
            let mode = if sync { $fjall::PersistMode::SyncData } else { $fjall::PersistMode::Buffer };
            let mut converted = self.db.batch().durability(Some(mode));
            if clear {
                self.scan(KeyRange::ALL, &mut |key, _| {
                    converted.remove(&self.$pairs, key);
                    ControlFlow::Continue(())
                })?;
            }
            for op in ops {
                match *op {
                    WriteOp::Put { key, value } => converted.insert(&self.$pairs, key, value),
                    WriteOp::Delete { key } => converted.remove(&self.$pairs, key),
                    WriteOp::Clear => {}
                }
            }
            self.latest.after(|| {
                converted.commit()?;
                Ok(self.snapshot())
            })
        }

        fn sync(&self) -> Result<(), Failure> {
            Ok(self.db.persist($fjall::PersistMode::SyncData)?)
        }

        fn quiesce(&self) -> Result<(), Failure> {
            self.sync()?;
            self.$pairs.rotate_memtable()?;
            wait_while(
                || self.$pairs.tree.sealed_memtable_count() > 0 || self.db.active_compactions() > 0,
                || Ok(self.db.persist($fjall::PersistMode::Buffer)?),
            )
        }

        fn count(&self) -> Result<u64, Failure> {
            let mut count = 0;
            self.scan(KeyRange::ALL, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            Ok(count)
        }
    };
}

pub mod v2 {
    use super::*;
    use fjall2::{
        AbstractTree, CompressionType, Config, Keyspace, PartitionCreateOptions, PartitionHandle, Slice,
        Snapshot,
    };

    pub struct Fjall {
        latest: Latest<Snapshot>,
        partition: PartitionHandle,
        db: Keyspace,
    }

    impl Fjall {
        fn snapshot(&self) -> Snapshot {
            self.partition.snapshot_at(self.db.instant())
        }

        fn get(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Slice>, Failure> {
            Ok(snapshot.get(key)?)
        }
    }

    impl Library for Fjall {
        const INFO: &'static Info =
            &fjall_info("fjall-2", concat!(env!("FJALL_2"), ", ", env!("LSM_TREE_2")));

        fn open(path: &Path, options: &OpenOptions) -> Result<Self, Failure> {
            let (cache, memtable) = sizes(options);
            let db = Config::new(path).cache_size(cache).flush_workers(1).compaction_workers(1);
            let db = db.max_open_files(tables(options)).open()?;
            let create = PartitionCreateOptions::default()
                .max_memtable_size(u32::try_from(memtable)?)
                .compression(CompressionType::None);
            let partition = db.open_partition(NAME, create)?;
            Ok(Self { latest: Latest::new(partition.snapshot_at(db.instant())), partition, db })
        }

        fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<(), Failure> {
            for pair in self.latest.get().range::<&[u8], _>((range.start, range.end)) {
                let (key, value) = pair?;
                if visit(&key, &value).is_break() {
                    break;
                }
            }
            Ok(())
        }

        common!(fjall2, partition);
    }
}

pub mod v3 {
    use super::*;
    use fjall3::{
        AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, Readable, Slice, Snapshot,
        config::CompressionPolicy,
    };

    pub struct Fjall {
        latest: Latest<Snapshot>,
        keyspace: Keyspace,
        db: Database,
    }

    impl Fjall {
        fn snapshot(&self) -> Snapshot {
            self.db.snapshot()
        }

        fn get(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Slice>, Failure> {
            Ok(snapshot.get(&self.keyspace, key)?)
        }
    }

    impl Library for Fjall {
        const INFO: &'static Info =
            &fjall_info("fjall-3", concat!(env!("FJALL_3"), ", ", env!("LSM_TREE_3")));

        fn open(path: &Path, options: &OpenOptions) -> Result<Self, Failure> {
            let (cache, memtable) = sizes(options);
            let none = CompressionType::None;
            let builder = Database::builder(path).cache_size(cache).worker_threads(2);
            let db = builder.journal_compression(none).max_cached_files(Some(tables(options))).open()?;
            let create = || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(memtable)
                    .data_block_compression_policy(CompressionPolicy::all(none))
            };
            let keyspace = db.keyspace(NAME, create)?;
            Ok(Self { latest: Latest::new(db.snapshot()), keyspace, db })
        }

        fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<(), Failure> {
            let snapshot = self.latest.get();
            for pair in snapshot.range::<&[u8], _>(&self.keyspace, (range.start, range.end)) {
                let (key, value) = pair.into_inner()?;
                if visit(&key, &value).is_break() {
                    break;
                }
            }
            Ok(())
        }

        common!(fjall3, keyspace);
    }
}
