//! `map`: a hash table in memory, an append-only file on disk.

use crate::engine::{
    Capabilities, Check, Compression, Family, FsyncSupport, Info, Kind, OpenFiles, Status, Writers, aof,
    memory_table::{MemoryEngine, hash_table::HashTable},
};

/// Entry of the engine `map` in the list of engines.
pub const KIND: Kind = Kind::new(
    &INFO,
    |options| MemoryEngine::<HashTable>::open(&INFO, options),
    aof::recognise,
    Check::InPlace(|path| aof::check(NAME, path)),
)
.with_repair(|path| aof::repair(NAME, path));

const NAME: &str = "map";

static INFO: Info = Info {
    name: NAME,
    library: "hashbrown 0.17.1",
    own_format: Some(aof::FORMAT),
    family: Family::HashTable,
    status: Status::Stable,
    needs: &[],
    capabilities: Capabilities {
        in_memory: true,
        memory_resident: true,
        constant_count: true,
        compacts: true,
        rewrites_log: true,
        recovers_failed_syncs: true,
        finds_corruption: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::One,
    fsync: FsyncSupport::Changeable,
    key_length: (0, aof::MAX_LENGTH),
    compression: &[Compression::None],
    cache: "not used: all data are in memory",
    open_files: OpenFiles::always(8),
    cluster_flag: None,
    loss: aof::LOSS,
    caveats: aof::CAVEATS,
    same_design: &["nutsdb"],
    log_targets: &[],
};
