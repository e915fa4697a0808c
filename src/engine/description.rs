//! Static descriptions of engines and their guarantees: the one source of `kvbench stores` (also as JSON for
//! scripts), the README's tables, the caveats beside every result, and every question that depends on the engine.

use super::{Compression, Durability, Fsync};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Data structure in which an engine holds its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Hash table in memory, append-only file on disk.
    HashTable,
    /// Hash table of keys in memory, values in a log on disk.
    HashIndex,
    /// B-tree in memory, append-only file on disk.
    MemoryBTree,
    /// Log-structured merge tree.
    Lsm,
    /// Copy-on-write B+ tree.
    CowBTree,
    /// Latch-free B+ tree over a page log (like the Bw-tree).
    LogBTree,
    /// B-tree with a write-ahead log, updated in place.
    LoggedBTree,
    /// Ranges of keys on several machines, each replicated to several of them before it is acknowledged.
    Cluster,
    /// Hash slots of keys on several machines, each replicated to others afterwards.
    Slots,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HashTable => "hash table + AOF",
            Self::HashIndex => "hash index + log",
            Self::MemoryBTree => "B-tree + AOF",
            Self::Lsm => "LSM tree",
            Self::CowBTree => "copy-on-write B+ tree",
            Self::LogBTree => "log-structured B+ tree",
            Self::LoggedBTree => "B-tree + write-ahead log",
            Self::Cluster => "sharded, replicated",
            Self::Slots => "sharded, copied to replicas",
        })
    }
}

/// Behaviour of an engine if several threads call `write` at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writers {
    /// Concurrent calls are not allowed: the caller must serialise them.
    One,
    /// The engine serialises writes, including their syncs.
    Serialized,
    /// The engine executes several writes concurrently, or syncs them together.
    Concurrent,
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::One => "one at a time",
            Self::Serialized => "take turns",
            Self::Concurrent => "together",
        })
    }
}

/// Class of the acknowledged writes that may be lost, in ascending order. Results of engines with different classes
/// must not be ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "bench", derive(schemars::JsonSchema), schemars(rename = "Extent"))]
#[serde(rename_all = "kebab-case")]
pub enum LossClass {
    /// No acknowledged write may be lost.
    Nothing,
    /// Acknowledged writes of the last seconds may be lost: a timer starts the syncs.
    Seconds,
    /// Acknowledged writes may be lost that the operating system had not yet written to the disk; it chooses the
    /// time.
    Unwritten,
    /// Writes in the engine's own buffer, which may be a part of all data, and those that the operating system had not
    /// yet written to the disk.
    Buffer,
    /// All data may be lost.
    Everything,
}

impl LossClass {
    /// All classes of loss, in ascending order.
    pub const ALL: [Self; 5] =
        [Self::Nothing, Self::Seconds, Self::Unwritten, Self::Buffer, Self::Everything];
}

impl fmt::Display for LossClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "nothing",
            Self::Seconds => "seconds",
            Self::Unwritten => "what the system had not written",
            Self::Buffer => "the engine's buffer",
            Self::Everything => "everything",
        })
    }
}

/// Upper bound on the acknowledged writes that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LossBound {
    /// Class of the loss, comparable between engines.
    pub extent: LossClass,
    /// Description of the loss for this engine.
    pub words: &'static str,
}

impl LossBound {
    /// Bound of an engine that loses no acknowledged write.
    pub const NOTHING: Self = Self::new(LossClass::Nothing, "nothing");
    /// Bound of an engine that loses all acknowledged writes.
    pub const EVERYTHING: Self = Self::new(LossClass::Everything, "everything");

    /// Creates a bound of the class `extent`; `words` describes it for an engine.
    pub const fn new(extent: LossClass, words: &'static str) -> Self {
        Self { extent, words }
    }

    /// Creates a bound of the class [`LossClass::Seconds`], the writes of the last seconds; `words` describes it for
    /// an engine.
    pub const fn seconds(words: &'static str) -> Self {
        Self::new(LossClass::Seconds, words)
    }
}

impl fmt::Display for LossBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words)
    }
}

/// Upper bounds on the acknowledged writes that an engine may lose under one fsync policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Upper bound on the loss if the process is killed (`kill -9`, a panic, the out-of-memory killer).
    pub kill: LossBound,
    /// Upper bound on the loss if the machine loses power or its kernel crashes.
    pub power_cut: LossBound,
}

impl Loss {
    /// Bounds of an engine that loses no acknowledged write by a kill or a power cut.
    pub const NOTHING: Self = Self { kill: LossBound::NOTHING, power_cut: LossBound::NOTHING };
    /// Bounds of an engine that loses all writes by a kill or a power cut.
    pub const EVERYTHING: Self = Self { kill: LossBound::EVERYTHING, power_cut: LossBound::EVERYTHING };
    /// Creates the bounds of an engine that loses nothing by a kill, and `power_cut` by a power cut.
    pub const fn power_cut(power_cut: LossBound) -> Self {
        Self { kill: LossBound::NOTHING, power_cut }
    }
}

/// Sentence about an engine that accompanies its results, and where it is true: in memory or in files, under which
/// fsync policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Caveat {
    /// Text of the caveat.
    pub text: &'static str,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum At {
    All,
    Files,
    Memory,
    Unsynced,
    Policy(Fsync),
}

impl Caveat {
    /// Creates a caveat that is true for data in files and in memory.
    pub const fn new(text: &'static str) -> Self {
        Self { text, at: At::All }
    }

    /// Creates a caveat that is true for data in files.
    pub const fn in_files(text: &'static str) -> Self {
        Self { text, at: At::Files }
    }

    /// Creates a caveat that is true for data in memory.
    pub const fn in_memory(text: &'static str) -> Self {
        Self { text, at: At::Memory }
    }

    /// Creates a caveat that is true for data in files under `everysec` and `no`.
    pub const fn unsynced(text: &'static str) -> Self {
        Self { text, at: At::Unsynced }
    }

    /// Creates a caveat that is true for data in files under the fsync policy `fsync`.
    pub const fn under(fsync: Fsync, text: &'static str) -> Self {
        Self { text, at: At::Policy(fsync) }
    }

    /// Returns `true` if the caveat is true for data kept as `durability` says: in memory, or in files under an
    /// fsync policy.
    pub fn holds(&self, durability: Durability) -> bool {
        match (self.at, durability) {
            (At::All, _) | (At::Memory, Durability::Memory) | (At::Files, Durability::Files(_)) => true,
            (At::Unsynced, Durability::Files(fsync)) => fsync != Fsync::Always,
            (At::Policy(policy), Durability::Files(fsync)) => policy == fsync,
            _ => false,
        }
    }
}

/// Number of files that an engine may have open at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OpenFiles {
    /// Minimum number of open files that the engine needs, including files that are open only briefly.
    pub least: u64,
    /// Maximum number of open files that the engine can make use of.
    pub most: u64,
    /// Number of additional open files for each read while it runs.
    pub per_read: u64,
}

impl OpenFiles {
    /// Returns the numbers of an engine that has at most `number` files open, whatever its data, and no more during
    /// reads.
    pub const fn always(number: u64) -> Self {
        Self { least: number, most: number, per_read: 0 }
    }
}

/// Class of an engine: with data on this machine (stable or experimental), with data on other machines, or synthetic,
/// for the benchmark and tests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The engine is stable, and its data are on this machine.
    Stable,
    /// The engine's data are on this machine; the default build does not have it, and no measurement that others
    /// rely on contains it.
    Experimental,
    /// The engine's data are on other machines.
    Distributed,
    /// The engine exists for the benchmark or for tests, and `kvbench stores` does not list it.
    Synthetic,
}

/// Program or library that the build of an engine needs, besides Rust and a linker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// C compiler.
    Cc,
    /// C++ compiler.
    Cxx,
    /// libclang, for bindgen.
    Libclang,
}

/// Fsync policies that an engine supports, and their change while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FsyncSupport {
    /// The only fsync policy is `always`.
    AlwaysOnly,
    /// Any fsync policy can be chosen when the engine is opened, and does not change.
    FixedAtOpen,
    /// `always` is chosen when the engine is opened; `everysec` and `no` can replace each other later.
    AlwaysFixedAtOpen,
    /// The fsync policy can change at any time.
    Changeable,
}

/// Properties that an engine has or has not. A property is named in each engine that has it; the others follow by
/// `..Capabilities::NONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// `true` if `scan` visits keys in ascending byte order, and the cost of a range depends on the pairs in it
    /// only.
    pub ordered: bool,
    /// `true` if `--path :memory:` is supported.
    pub in_memory: bool,
    /// `true` if all data are in memory, with or without files, so that no read waits for a device.
    pub memory_resident: bool,
    /// `true` if other processes may write to the same data, so that no state of the data may be cached.
    pub multi_writer: bool,
    /// `true` if an atomic operation may use keys of one hash slot only.
    pub hash_slots: bool,
    /// `true` if `count` takes the same time whatever the number of keys; otherwise it scans every key.
    pub constant_count: bool,
    /// `true` if `compact` can make the files smaller; otherwise, and in memory, it returns
    /// [`Error::Unsupported`](super::Error::Unsupported).
    pub compacts: bool,
    /// `true` if `rewrite_log` (`BGREWRITEAOF`) is supported.
    pub rewrites_log: bool,
    /// `true` if a start makes durable what a failed sync has left in the page cache only; otherwise it must not find that
    /// there: see [`page_cache`](super::page_cache).
    pub recovers_failed_syncs: bool,
    /// `true` if `kvbench check` finds overwritten bytes in the data; otherwise it may take them for the end of a
    /// log.
    pub finds_corruption: bool,
    /// `true` if all memory is allocated in Rust, where allocations can be counted; those of C and C++ cannot.
    pub counts_allocations: bool,
    /// `true` if the data file is a memory map: `--map-size` limits it, and `--read-ahead` applies to it.
    pub map_size: bool,
    /// `true` if `--direct-reads` is supported.
    pub direct_reads: bool,
}

impl Capabilities {
    /// Capabilities with every property `false`, as the base of an engine's.
    pub const NONE: Self = Self {
        ordered: false,
        in_memory: false,
        memory_resident: false,
        multi_writer: false,
        hash_slots: false,
        constant_count: false,
        compacts: false,
        rewrites_log: false,
        recovers_failed_syncs: false,
        finds_corruption: false,
        counts_allocations: false,
        map_size: false,
        direct_reads: false,
    };
}

/// Static description of an engine: name, library, limits and guarantees. Each engine states every field, without
/// defaults.
#[derive(Debug, Serialize)]
pub struct Info {
    /// Name of the engine in `--store`.
    pub name: &'static str,
    /// Crate (and native library) of the engine, with versions: `heed 0.23.1`.
    pub library: &'static str,
    /// Name and version of kvbench's own file format; `None` if the engine's library has a format of its own.
    pub own_format: Option<&'static str>,
    /// Data structure in which the engine holds its keys.
    pub family: Family,
    /// Maturity of the engine, and the machine on which its data are.
    pub status: Status,
    /// Programs and libraries that a build with the engine needs.
    pub needs: &'static [Tool],
    /// Properties that the engine has or has not.
    pub capabilities: Capabilities,
    /// Behaviour of the engine if several threads call `write` at the same time.
    pub writers: Writers,
    /// Fsync policies that the engine supports, and whether they can change while it is open.
    pub fsync: FsyncSupport,
    /// Minimum and maximum length of a key in bytes, both inclusive, with the usual settings of a file system.
    pub key_length: (usize, usize),
    /// Values of `--compression` that the engine supports.
    pub compression: &'static [Compression],
    /// Description of the use that the engine makes of `--cache-size`.
    pub cache: &'static str,
    /// Number of files that the engine may have open.
    pub open_files: OpenFiles,
    /// Flag with the addresses of the machines that hold the data, and its description; `None` if the data are on
    /// this machine.
    pub cluster_flag: Option<&'static str>,
    /// Upper bounds on the loss by a kill and by a power cut: under `always`, `everysec` and `no`, in this order.
    pub loss: [Loss; 3],
    /// Sentences about the engine that accompany the results for which they are true.
    pub caveats: &'static [Caveat],
    /// Well-known engines of the same design that kvbench does not have, in lower case (docs/publications.md).
    pub same_design: &'static [&'static str],
    /// Targets of the log messages of the engine's libraries.
    pub log_targets: &'static [&'static str],
}

impl Info {
    /// Returns the name and version of the storage format: kvbench's own, or that of the engine's library.
    pub fn storage_format(&self) -> &'static str {
        self.own_format.unwrap_or(self.library)
    }

    /// Returns `true` if the engine supports the fsync policy `fsync`, chosen when it is opened.
    pub fn supports(&self, fsync: Fsync) -> bool {
        fsync == Fsync::Always || self.fsync != FsyncSupport::AlwaysOnly
    }

    /// Returns the texts of the engine's caveats that are true for data kept as `durability` says.
    pub fn caveats_at(&self, durability: Durability) -> impl Iterator<Item = &'static str> {
        self.caveats.iter().filter(move |caveat| caveat.holds(durability)).map(|caveat| caveat.text)
    }

    /// Returns the loss bounds of data kept as `durability` says; in memory everything is lost.
    pub fn loss_at(&self, durability: Durability) -> Loss {
        match durability {
            Durability::Files(fsync) => self.loss(fsync),
            Durability::Memory => Loss::EVERYTHING,
        }
    }

    /// Returns the loss bounds of the fsync policy `fsync`.
    pub fn loss(&self, fsync: Fsync) -> Loss {
        let [always, everysec, no] = self.loss;
        match fsync {
            Fsync::Always => always,
            Fsync::EverySec => everysec,
            Fsync::No => no,
        }
    }
}
