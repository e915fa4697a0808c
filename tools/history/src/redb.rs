//! Versions of redb: for each read a transaction and its table are opened.

use crate::{Failure, Library, info};
use kvbench::engine::{
    Batch, Family, Info, KeyRange, Loss, LossBound, LossClass, OpenOptions, VisitPair, VisitValue, WriteOp,
};
use std::{
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// Maximum number of consecutive commits without a sync. redb keeps some bytes in memory for each, and versions 1 and 2 free
/// no page of the file until the next synced commit.
const PENDING: u32 = 10_000;

const fn redb_info(name: &'static str, library: &'static str) -> Info {
    let second = LossBound::seconds("about a second");
    let since_sync = LossBound::new(LossClass::Buffer, "what redb's buffer of at most 10,000 commits holds");
    Info {
        loss: [
            Loss::NOTHING,
            Loss { kill: second, power_cut: second },
            Loss { kill: since_sync, power_cut: since_sync },
        ],
        ..info(name, library, Family::CowBTree)
    }
}

/// Defines a module with a [`Library`] for a version of redb, from the dependency's name, the engine's name, the variable with
/// the version, the traits whose methods it needs, and `?` if `set_durability` returns a result.
macro_rules! version {
    ($module:ident, $redb:ident, $name:literal, $library:literal, [$($trait:ident),+] $(, $question:tt)?) => {
        pub mod $module {
            use super::*;
            use $redb::{Database, Durability, TableDefinition, $($trait),+};

            const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("kvbench");

            pub struct Redb {
                db: Database,
                /// `true` if the database may have commits that were not synced.
                unsynced: AtomicBool,
                /// Number of commits since the last synced commit.
                pending: AtomicU32,
                /// Held by a thread while it syncs the database.
                syncing: Mutex<()>,
            }

            impl Redb {
                fn apply(&self, batch: &Batch<'_>, sync: bool) -> Result<(), Failure> {
                    let (clear, ops) = batch.after_clear();
                    let mut txn = self.db.begin_write()?;
                    let durability = if sync { Durability::Immediate } else { Durability::None };
                    // The error of version 3.0.0 is no `std::error::Error`.
                    txn.set_durability(durability)$(.map_err(|error| format!("{error:?}"))$question)?;
                    if clear {
                        txn.delete_table(TABLE)?;
                    }
                    {
                        let mut table = txn.open_table(TABLE)?;
                        for op in ops {
                            match *op {
                                WriteOp::Put { key, value } => drop(table.insert(key, value)?),
                                WriteOp::Delete { key } => drop(table.remove(key)?),
                                WriteOp::Clear => {}
                            }
                        }
                    }
                    txn.commit()?;
                    match sync {
                        true => self.pending.store(0, Ordering::Relaxed),
                        false => {
                            self.pending.fetch_add(1, Ordering::Relaxed);
                            self.unsynced.store(true, Ordering::Release);
                        }
                    }
                    Ok(())
                }
            }

            impl Library for Redb {
                const INFO: &'static Info = &redb_info($name, env!($library));

                fn open(path: &Path, options: &OpenOptions) -> Result<Self, Failure> {
                    std::fs::create_dir_all(path)?;
                    let mut builder = Database::builder();
                    builder.set_cache_size(usize::try_from(options.cache_size)?);
                    let db = builder.create(path.join("data"))?;
                    let (unsynced, pending, syncing) = Default::default();
                    let redb = Self { db, unsynced, pending, syncing };
                    // Creates the table.
                    redb.apply(&Batch::default(), true)?;
                    Ok(redb)
                }

                fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Failure> {
                    let txn = self.db.begin_read()?;
                    let table = txn.open_table(TABLE)?;
                    for (index, key) in keys.iter().enumerate() {
                        let value = table.get(*key)?;
                        if visit(index, value.as_ref().map(|value| value.value())).is_break() {
                            break;
                        }
                    }
                    Ok(())
                }

                fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<(), Failure> {
                    self.apply(batch, sync || self.pending.load(Ordering::Relaxed) >= PENDING)
                }

                fn sync(&self) -> Result<(), Failure> {
                    let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
                    if !self.unsynced.swap(false, Ordering::AcqRel) {
                        return Ok(());
                    }
                    // The next sync after a failed one must fail, too.
                    self.apply(&Batch::default(), true).inspect_err(|_| self.unsynced.store(true, Ordering::Release))
                }

                fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<(), Failure> {
                    let txn = self.db.begin_read()?;
                    let table = txn.open_table(TABLE)?;
                    for pair in table.range::<&[u8]>((range.start, range.end))? {
                        let (key, value) = pair?;
                        if visit(key.value(), value.value()).is_break() {
                            break;
                        }
                    }
                    Ok(())
                }

                fn count(&self) -> Result<u64, Failure> {
                    Ok(self.db.begin_read()?.open_table(TABLE)?.len()?)
                }
            }
        }
    };
}

version!(v1, redb1, "redb-1", "REDB_1", [ReadableTable]);
version!(v2, redb2, "redb-2", "REDB_2", [ReadableTableMetadata]);
version!(v3, redb3, "redb-3", "REDB_3", [ReadableDatabase, ReadableTableMetadata], ?);
version!(v4, redb4, "redb-4", "REDB_4", [ReadableDatabase, ReadableTableMetadata], ?);
