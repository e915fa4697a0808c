//! RocksDB as an engine, with the sizes and filters of kvbench's own engine `rocksdb`, and an LRU cache.

use history::{Failure, Library, programs::rocksdb_info, wait_while};
use kvbench::engine::{Batch, Info, KeyRange, Kind, OpenOptions, VisitPair, VisitValue, WriteOp};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WriteBatch, WriteBufferManager,
    WriteOptions,
};
use std::{ops::Bound, path::Path};

/// The engine of this program, for `kvbench::main` and the tests.
pub static KINDS: &[Kind] = &[history::kind::<RocksDb>()];

/// Properties of RocksDB that are 0 when no background work is left.
const WORK: [&str; 4] = [
    "rocksdb.num-immutable-mem-table",
    "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending",
    "rocksdb.num-running-compactions",
];

struct RocksDb(DB);

impl RocksDb {
    /// Returns the value of an integer property of RocksDB, or 0 if this version does not have it.
    fn property(&self, name: &str) -> Result<u64, Failure> {
        Ok(self.0.property_int_value(name)?.unwrap_or(0))
    }
}

impl Library for RocksDb {
    const INFO: &'static Info = &rocksdb_info(env!("STORE"), env!("LIBRARY"));

    fn open(path: &Path, options: &OpenOptions) -> Result<Self, Failure> {
        let memtable = (options.cache_size / 4).clamp(1 << 20, 64 << 20);
        let cache = Cache::new_lru_cache(usize::try_from(options.cache_size)?);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_bloom_filter(10.0, false);
        let mut db = Options::default();
        db.create_if_missing(true);
        db.set_block_based_table_factory(&table);
        db.set_write_buffer_size(usize::try_from(memtable)?);
        db.set_target_file_size_base(memtable);
        db.set_max_bytes_for_level_base(4 * memtable);
        db.set_max_write_buffer_number(2);
        db.set_memtable_whole_key_filtering(true);
        db.set_memtable_prefix_bloom_ratio(0.02);
        let memtables = usize::try_from(options.cache_size / 2)?;
        let memtables = WriteBufferManager::new_write_buffer_manager_with_cache(memtables, false, cache);
        db.set_write_buffer_manager(&memtables);
        db.set_compression_type(DBCompressionType::None);
        db.set_max_background_jobs(2);
        db.set_max_open_files(i32::try_from(options.max_files).unwrap_or(i32::MAX));
        db.set_keep_log_file_num(4);
        Ok(Self(DB::open(&db, path)?))
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Failure> {
        if let [key] = keys {
            let value = self.0.get_pinned(key)?;
            let _ = visit(0, value.as_deref());
            return Ok(());
        }
        let snapshot = self.0.snapshot();
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        for (index, key) in keys.iter().enumerate() {
            let value = self.0.get_pinned_opt(key, &options)?;
            if visit(index, value.as_deref()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<(), Failure> {
        let (clear, ops) = batch.after_clear();
        let mut converted = WriteBatch::default();
        if clear {
            let mut iterator = self.0.raw_iterator();
            iterator.seek_to_last();
            iterator.status()?;
            if let Some(last) = iterator.key() {
                converted.delete_range([].as_slice(), &[last, &[0]].concat());
            }
        }
        for op in ops {
            match op {
                WriteOp::Put { key, value } => converted.put(key, value),
                WriteOp::Delete { key } => converted.delete(key),
                WriteOp::Clear => {}
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        Ok(self.0.write_opt(converted, &options)?)
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(self.0.flush_wal(true)?)
    }

    fn quiesce(&self) -> Result<(), Failure> {
        self.sync()?;
        self.0.flush()?;
        let is_busy = || WORK.iter().any(|name| self.property(name).is_ok_and(|value| value > 0));
        wait_while(is_busy, || match self.property("rocksdb.background-errors")? {
            0 => Ok(()),
            errors => Err(format!("{errors} errors of background work; see its LOG").into()),
        })
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<(), Failure> {
        let mut options = ReadOptions::default();
        match range.end {
            Bound::Included(end) => options.set_iterate_upper_bound([end, &[0]].concat()),
            Bound::Excluded(end) => options.set_iterate_upper_bound(end),
            Bound::Unbounded => {}
        }
        let mut iterator = self.0.raw_iterator_opt(options);
        match range.start {
            Bound::Included(start) => iterator.seek(start),
            Bound::Excluded(start) => iterator.seek([start, &[0]].concat()),
            Bound::Unbounded => iterator.seek_to_first(),
        }
        while let Some((key, value)) = iterator.item() {
            if visit(key, value).is_break() {
                return Ok(());
            }
            iterator.next();
        }
        Ok(iterator.status()?)
    }

    fn count(&self) -> Result<u64, Failure> {
        let mut count = 0;
        self.scan(KeyRange::ALL, &mut |_, _| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(count)
    }
}
