//! Static description of `bitcask`.

use crate::engine::{
    Capabilities, Caveat, Compression, Error, Family, FsyncSupport, Info, OpenFiles, Status, Writers, aof,
};

pub(super) const NAME: &str = "bitcask";

/// Number of files that `bitcask` may have open besides the sealed segments that it keeps open: the lock file, the
/// active segment, and temporarily a new segment, a hint file, a segment that is read for its hint file, a directory.
pub(super) const OWN_FILES: u64 = 12;

pub(super) static INFO: Info = Info {
    name: NAME,
    library: "hashbrown 0.17.1",
    // The number is the one in a segment's first line.
    own_format: Some("kvbench's segments, format 3"),
    family: Family::HashIndex,
    status: Status::Stable,
    needs: &[],
    capabilities: Capabilities {
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
    cache: "not used: keys are in memory, values in the system's page cache",
    // Each read of a sealed segment that is not kept open opens the file.
    open_files: OpenFiles { least: OWN_FILES + 16, most: OWN_FILES + 4096, per_read: 1 },
    cluster_flag: None,
    loss: aof::LOSS,
    caveats: &[
        Caveat::new("All keys must fit in memory: each takes its own length and about 55 bytes."),
        Caveat::new("A value is read from its file by a system call, also when the page is in memory."),
        Caveat::new(
            "SCAN, KEYS and what else looks at all keys read all values too, since their deadlines are with them.",
        ),
        Caveat::new(
            "Files are merged in the background when more than half of them, and at least 64 MiB, is dead: the \
            values that are alive in the oldest file are written anew, then it is removed. So a file of cold values is \
            rewritten, too.",
        ),
        Caveat::new(
            "80 MiB of the disk are kept free for merges and deletes: writes of values are refused before. On a disk \
            below 4 GiB files are shorter, and 2% of it (at least 1.25 MiB) are kept free.",
        ),
        Caveat::new(
            "Under everysec and no, what was written is synced after every 8 MiB as well, so that no later sync takes \
            long.",
        ),
        aof::PADDING_CAVEAT,
    ],
    same_design: &["nutsdb"],
    log_targets: &[],
};

/// Converts [`Error::Corrupt`], whose advice is `kvbench repair`, to an error that advises to restore a backup:
/// `kvbench repair` can repair an AOF, but not a segment. Returns any other error unchanged.
pub(super) fn advise_backup(error: Error) -> Error {
    match error {
        Error::Corrupt { path, offset, detail, .. } => {
            let path = path.display();
            let message = format!(
                "{path} is damaged at byte {offset}: {detail}; nothing was changed; restore a backup"
            );
            Error::Library { engine: NAME, message }
        }
        error => error,
    }
}
