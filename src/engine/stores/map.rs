//! `map`: a hash table in memory, an append-only file on disk.

use crate::engine::{
    Check, Compression, Family, Info, Kind, OpenFiles, Writers, aof,
    memory_table::{MemoryEngine, hash_table::HashTable},
};

/// The engine's row in the list.
pub const KIND: Kind = Kind {
    info: &INFO,
    open: |options| MemoryEngine::<HashTable>::open(&INFO, options),
    recognise: aof::recognise,
    check: Check::InPlace(aof::check),
};

static INFO: Info = Info {
    name: "map",
    library: "hashbrown 0.17.1",
    family: Family::HashTable,
    ordered: false,
    in_memory: true,
    constant_count: true,
    allocates_in_rust: true,
    has_map_size: false,
    has_direct_reads: false,
    writers: Writers::One,
    compression: &[Compression::None],
    cache: "not used: all data are in memory",
    open_files: OpenFiles::always(8),
    loss: aof::LOSS,
    caveats: aof::CAVEATS,
};
