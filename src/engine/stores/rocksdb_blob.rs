//! `rocksdb-blob`: RocksDB with large values in separate files (BlobDB).

use super::rocksdb::{CAVEATS, RocksDb, check_copy, compression_type, db_options, info, recognise, settings};
use crate::engine::{Caveat, Check, Engine, Info, Kind, OpenOptions, Result, Setting};

/// Entry of the engine `rocksdb-blob` in the list of engines.
pub const KIND: Kind =
    Kind::new(&INFO, open, recognise, Check::OnCopy(check_copy)).with_settings(|options| {
        [settings(options), vec![("smallest blob", Setting::Bytes(SMALLEST_BLOB))]].concat()
    });

static INFO: Info = info("rocksdb-blob", &BLOB_CAVEATS, &["badger", "badgerdb"]);

/// Minimum size of a value that is stored in a blob file, in bytes.
const SMALLEST_BLOB: u64 = 1024;

static BLOB_CAVEATS: [Caveat; 8] = [
    Caveat::new(
        "Values of 1024 bytes and more are in separate files (blobs), which compaction does not rewrite; smaller \
        values are in the tables, as with rocksdb.",
    ),
    Caveat::new(
        "Overwritten blobs occupy space until compaction reaches keys of the oldest quarter of the blob files: \
        updates of large values write less and occupy more.",
    ),
    CAVEATS[0],
    CAVEATS[1],
    CAVEATS[2],
    CAVEATS[3],
    CAVEATS[4],
    CAVEATS[5],
];

/// Opens a `rocksdb-blob` store: it writes large values to blob files when a memtable is flushed; SST files then hold
/// their positions. Compactions copy the live values that they meet in the oldest quarter of the blob files to new
/// ones; a blob file without live values is removed.
fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
    let (mut db_options, cache) = db_options(options, INFO.name)?;
    db_options.set_enable_blob_files(true);
    db_options.set_min_blob_size(SMALLEST_BLOB);
    db_options.set_enable_blob_gc(true);
    db_options.set_blob_compression_type(compression_type(options.compression));
    // The block cache holds blobs too; without this, each read of a blob would read its file.
    db_options.set_blob_cache(&cache);
    RocksDb::open(options, &INFO, db_options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Batch, Fsync, Location};
    use std::ops::ControlFlow;

    #[test]
    fn the_cache_holds_blobs() {
        const LENGTH: usize = 100_000;
        let dir = tempfile::tempdir().unwrap();
        let location = Location::Path(dir.path().join("store"));
        let engine = open(&OpenOptions::new(location, Fsync::No)).unwrap();
        let mut batch = Batch::default();
        batch.put(b"key", &[1; LENGTH]);
        engine.write(&batch, false).unwrap();
        engine.quiesce().unwrap();
        let cached = || {
            let gauges = engine.gauges();
            gauges.iter().find(|gauge| gauge.name == "block_cache_bytes").unwrap().value
        };
        let before = cached();
        engine.read(&[b"key"], &mut |_, _| ControlFlow::Continue(())).unwrap();
        let grown = cached() - before;
        assert!(grown >= LENGTH as u64, "{grown} bytes");
        engine.close().unwrap();
    }
}
