//! RocksDB with large values in separate files, with the settings of `engine/stores/rocksdb_blob.rs` under `no`.

use super::{
    Settings, Side,
    rocksdb::{Bare, options},
};
use rocksdb::DB;
use std::path::Path;

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    let (mut options, cache) = options(settings);
    options.set_enable_blob_files(true);
    options.set_min_blob_size(settings.adapter_bytes("smallest blob"));
    options.set_enable_blob_gc(true);
    options.set_blob_cache(&cache);
    Box::new(Bare(DB::open(&options, path).expect("opens")))
}
