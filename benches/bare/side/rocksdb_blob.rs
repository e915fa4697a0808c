//! RocksDB with large values in separate files, with the settings of `engine/stores/rocksdb_blob.rs`.

use super::{
    Settings, Side,
    rocksdb::{Bare, options},
};
use rocksdb::DB;
use std::path::Path;

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    let mut options = options(settings);
    options.set_enable_blob_files(true);
    options.set_min_blob_size(1024);
    options.set_enable_blob_gc(true);
    Box::new(Bare(DB::open(&options, path).expect("opens")))
}
