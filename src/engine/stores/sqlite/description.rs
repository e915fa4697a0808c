//! Static description of the engine `sqlite`.

use crate::engine::{
    Capabilities, Caveat, Compression, Family, FsyncSupport, Info, Loss, LossBound, LossClass, OpenFiles,
    Status, Tool, Writers,
};

pub(super) const NAME: &str = "sqlite";

/// Maximum length of a key, in bytes: together with the largest value of Redis, 512 MiB, it stays below SQLite's limit.
const MAX_KEY: usize = 400 << 20;

/// Number of files that SQLite may have open besides those of reading connections: the data, the WAL and its index, the
/// lock; temporarily a journal and a directory.
pub(super) const OWN_FILES: u64 = 16;

pub(super) static INFO: Info = Info {
    name: NAME,
    library: "rusqlite 0.41.1, libsqlite3-sys 0.39.1",
    own_format: None,
    family: Family::LoggedBTree,
    status: Status::Stable,
    needs: &[Tool::Cc],
    capabilities: Capabilities {
        ordered: true,
        in_memory: true,
        compacts: true,
        finds_corruption: true,
        ..Capabilities::NONE
    },
    writers: Writers::Serialized,
    fsync: FsyncSupport::Changeable,
    key_length: (0, MAX_KEY),
    compression: &[Compression::None],
    cache: "page caches, of which the connection that writes and one reader a core have equal shares (unused if fewer \
            threads read); further readers have 512 KiB each",
    // Two files per reader.
    open_files: OpenFiles { least: OWN_FILES + 2 * 16, most: OWN_FILES + 2 * 128, per_read: 0 },
    cluster_flag: None,
    loss: [
        Loss::NOTHING,
        Loss::power_cut(LossBound::seconds("about a second")),
        Loss::power_cut(LossBound::new(LossClass::Unwritten, "what the system had not written")),
    ],
    caveats: &[
        Caveat::in_files(
            "After every thousand pages of the log, a commit also copies them to the data file and syncs both (a \
            checkpoint): under every policy this commit waits for the disk.",
        ),
        Caveat::in_files("While a scan stays open, the log grows by everything that is written."),
        Caveat::in_files(
            "A commit by one connection makes the page caches of all others invalid: reads during writes fetch \
            each page from the operating system.",
        ),
        Caveat::new(
            "Each look-up is a prepared statement in SQLite's virtual machine, as in programs that embed it.",
        ),
        Caveat::new(
            "Each read begins a transaction of its own, as SQLite does outside of BEGIN and COMMIT; redb's reads share \
            one.",
        ),
        Caveat::new(
            "Keys are in an index beside the table: a GET goes through two trees, and a scan reads each value from \
            another place of the file.",
        ),
        Caveat::new("A value above about 4,000 bytes has pages of its own, and each of them costs a read."),
        Caveat::new("A key and its value together have less than 1,000,000,000 bytes."),
        Caveat::new("Pages of the data file have no checksums; those of the log have."),
        Caveat::in_memory(
            "In memory there is one connection: reads take turns, and writes wait while a scan runs.",
        ),
    ],
    same_design: &["cznic/kv"],
    log_targets: &[],
};
