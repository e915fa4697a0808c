//! RocksDB, with the settings of `engine/stores/rocksdb` under `no`.

use super::{Settings, Side, answer, length};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WriteBatch, WriteBufferManager,
    WriteOptions,
};
use std::path::Path;

pub(super) struct Bare(pub(super) DB);

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    Box::new(Bare(DB::open(&options(settings).0, path).expect("opens")))
}

/// The options, and the cache that is among them.
pub(super) fn options(settings: Settings) -> (Options, Cache) {
    let size = |name| settings.adapter_bytes(name);
    let cache = Cache::new_hyper_clock_cache(size("block cache") as usize, 0);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(size("memtable") as usize);
    options.set_target_file_size_base(size("table file"));
    options.set_max_bytes_for_level_base(size("L1"));
    options.set_max_write_buffer_number(2);
    options.set_memtable_whole_key_filtering(true);
    options.set_memtable_prefix_bloom_ratio(0.02);
    let memtables = size("all memtables") as usize;
    let memtables = WriteBufferManager::new_write_buffer_manager_with_cache(memtables, false, cache.clone());
    options.set_write_buffer_manager(&memtables);
    options.set_compression_type(DBCompressionType::None);
    options.set_max_background_jobs(2);
    (options, cache)
}

impl Side for Bare {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        let mut bytes = 0;
        for key in keys {
            let value = self.0.get_pinned(key).expect("reads");
            bytes += answer(reply, value.as_deref());
        }
        bytes
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let snapshot = self.0.snapshot();
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        let value = |key: &&[u8]| self.0.get_pinned_opt(key, &options).expect("reads");
        keys.iter().map(|key| length(value(key).as_deref())).sum()
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let mut batch = WriteBatch::default();
        for (key, value) in pairs {
            batch.put(key, value);
        }
        self.0.write_opt(batch, &WriteOptions::default()).expect("writes");
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).expect("reads")
    }
}
