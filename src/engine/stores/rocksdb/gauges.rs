//! Gauges from RocksDB's properties, which cost nothing until they are read. RocksDB's statistics, which are
//! counted with every read and write, stay off.

use crate::engine::Gauge;
use rocksdb::{
    DB,
    properties::{
        ACTUAL_DELAYED_WRITE_RATE, BACKGROUND_ERRORS, BLOCK_CACHE_PINNED_USAGE, BLOCK_CACHE_USAGE,
        CUR_SIZE_ALL_MEM_TABLES, ESTIMATE_NUM_KEYS, ESTIMATE_PENDING_COMPACTION_BYTES,
        ESTIMATE_TABLE_READERS_MEM, IS_WRITE_STOPPED, NUM_IMMUTABLE_MEM_TABLE, NUM_RUNNING_COMPACTIONS,
        NUM_RUNNING_FLUSHES, NUM_SNAPSHOTS, PropName, TOTAL_SST_FILES_SIZE,
    },
};

const PROPERTIES: &[(&PropName, &str, &str)] = &[
    (
        ACTUAL_DELAYED_WRITE_RATE,
        "delayed_write_rate_bytes",
        "Rate to which writes are slowed down; 0 is not at all.",
    ),
    (BACKGROUND_ERRORS, "background_errors", "Errors of flushes and compactions."),
    (BLOCK_CACHE_PINNED_USAGE, "block_cache_pinned_bytes", "Block cache that cannot be given back now."),
    (BLOCK_CACHE_USAGE, "block_cache_bytes", "Block cache in use."),
    (CUR_SIZE_ALL_MEM_TABLES, "memtable_bytes", "Memtables."),
    (ESTIMATE_NUM_KEYS, "estimated_keys", "Keys, estimated."),
    (
        ESTIMATE_PENDING_COMPACTION_BYTES,
        "pending_compaction_bytes",
        "Bytes that compaction has yet to rewrite.",
    ),
    (ESTIMATE_TABLE_READERS_MEM, "table_reader_bytes", "Indexes and filters outside the block cache."),
    (IS_WRITE_STOPPED, "write_stopped", "1 while writes are stopped."),
    (NUM_IMMUTABLE_MEM_TABLE, "immutable_memtables", "Memtables that wait to be flushed."),
    (NUM_RUNNING_COMPACTIONS, "running_compactions", "Compactions that run."),
    (NUM_RUNNING_FLUSHES, "running_flushes", "Flushes that run."),
    (NUM_SNAPSHOTS, "snapshots", "Snapshots that are held."),
    (TOTAL_SST_FILES_SIZE, "table_file_bytes", "Table files."),
];

/// Returns the gauges that this version of RocksDB provides for a database.
pub fn figures(db: &DB) -> Vec<Gauge> {
    let known = PROPERTIES.iter().filter_map(|(property, name, help)| {
        let value = db.property_int_value(*property).ok()??;
        Some(Gauge { name, help, value })
    });
    known.collect()
}
