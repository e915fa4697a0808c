//! Static description of RocksDB, with values in its SST files and with large values in blob files.

use crate::engine::{Caveat, Compression, Family, Info, Loss, LossBound, LossClass, OpenFiles, Writers};

pub(super) static PLAIN: Info = info("rocksdb", &PLAIN_CAVEATS);

pub(super) static BLOB: Info = info("rocksdb-blob", &BLOB_CAVEATS);

/// Minimum size of a value that is stored in a blob file, in bytes.
pub(super) const SMALLEST_BLOB: u64 = 1024;

/// Number of open files other than SST files, plus SST files that are being written.
pub(super) const OWN_FILES: u64 = 32;

/// Maximum number of open files: the more SST files stay open, the fewer reads open one. 65,536 SST files hold
/// several terabytes.
pub(super) const MOST_FILES: u64 = 1 << 16;

const fn info(name: &'static str, caveats: &'static [Caveat]) -> Info {
    Info {
        name,
        library: "rocksdb 0.25.0, librocksdb-sys 0.19.0+11.8.1",
        family: Family::Lsm,
        ordered: true,
        in_memory: true,
        constant_count: false,
        allocates_in_rust: false,
        has_map_size: false,
        has_direct_reads: true,
        writers: Writers::Concurrent,
        compression: &[Compression::None, Compression::Lz4],
        cache: "one budget: block cache (HyperClockCache) with indexes and filters, of which up to half for memtables \
                (at most two of 64 MiB)",
        // The WAL, RocksDB's text log, the manifest, directories; SST files of a compaction.
        open_files: OpenFiles { least: OWN_FILES + 96, most: MOST_FILES, per_read: 0 },
        loss: [
            Loss::NOTHING,
            Loss::power_cut(LossBound::seconds("about a second")),
            Loss::power_cut(LossBound::new(LossClass::Unwritten, "what the system had not written")),
        ],
        caveats,
    }
}

const CAVEATS: [Caveat; 6] = [
    Caveat::new("Flushes and compactions run on two background threads, during the load that is measured."),
    Caveat::new(
        "Writes that are faster than compaction are slowed down, then stopped, until compaction catches up.",
    ),
    Caveat::new(
        "Bloom filters with 10 bits for each key are on: a read of an absent key skips most table files.",
    ),
    Caveat::new(
        "FLUSHDB writes one range deletion for all keys; the files shrink when compaction reaches them.",
    ),
    Caveat::in_files(
        "After a failed write (also on a full disk) it accepts no writes until a restart. It reserves space for \
        the files that it writes: with less than about 80 MB free, a write or a start may fail.",
    ),
    Caveat::in_memory(
        "In memory, RocksDB uses its own in-memory file system: the same log and table files, without a disk.",
    ),
];

static PLAIN_CAVEATS: [Caveat; 6] = CAVEATS;

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
