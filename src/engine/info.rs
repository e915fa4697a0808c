//! What an engine is and what it promises: the one source of `kvbench stores`, the README's tables
//! and the caveats beside every result.

use serde::{Deserialize, Serialize};
use std::fmt;

/// When a write is acknowledged (`--fsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fsync {
    /// On stable storage.
    Always,
    /// Handed to the engine; synced within a second.
    EverySec,
    /// Handed to the engine; synced when the engine or the operating system likes.
    No,
}

impl Fsync {
    /// Every policy, strongest first.
    pub const ALL: [Self; 3] = [Self::Always, Self::EverySec, Self::No];

    /// The word of the command line, and of Redis' `appendfsync`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySec => "everysec",
            Self::No => "no",
        }
    }
}

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where acknowledged writes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// In files, synced as the policy says.
    Files(Fsync),
    /// In memory only.
    Memory,
}

impl Durability {
    /// The word of the command line and of cell names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Files(fsync) => fsync.as_str(),
            Self::Memory => "memory",
        }
    }
}

/// Block compression (`--compression`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Stored as it is.
    None,
    /// LZ4 block format.
    Lz4,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        })
    }
}

/// The data structure that holds the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Latch-free B+ tree over a page log (the Bw-tree's kind).
    LogBTree,
    /// B-tree changed in place, after a write-ahead log.
    LoggedBTree,
    /// Ranges of keys on several machines, each on several of them.
    Cluster,
    /// Slots of keys on several machines, each copied to others afterwards.
    Slots,
}

impl Family {
    /// Whether all data are in memory, whatever is on disk as well, so that no read waits for a device.
    pub fn is_in_memory(self) -> bool {
        matches!(self, Self::HashTable | Self::MemoryBTree)
    }

    /// Whether other processes may write to the same data, so that nothing about them may be remembered.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Cluster | Self::Slots)
    }

    /// Whether only what is in one slot can be written, or read, together.
    pub fn is_sharded(self) -> bool {
        matches!(self, Self::Slots)
    }

    /// Whether there is another policy than [`Fsync::Always`].
    pub fn has_policies(self) -> bool {
        !matches!(self, Self::Cluster)
    }
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

/// What an engine does when several threads are in `write` at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writers {
    /// They must not: who calls it sees to that.
    One,
    /// It lets in one after the other, also to sync.
    Serialized,
    /// It works on several at once, or syncs them together.
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

/// How much of what was acknowledged is lost, from the least to the most. Figures of engines that lose
/// different amounts are no answers to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "bench", derive(schemars::JsonSchema), schemars(rename = "Extent"))]
#[serde(rename_all = "kebab-case")]
pub enum LossClass {
    /// Nothing.
    Nothing,
    /// The last seconds, by a timer.
    Seconds,
    /// What the operating system had not written yet, when it likes.
    Unwritten,
    /// What the engine had kept to itself, a part of its data, and what the system had not written.
    Buffer,
    /// All there is.
    Everything,
}

impl LossClass {
    /// All of them, from the least to the most.
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

/// What is lost of the acknowledged writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossBound {
    /// How much, to be compared with others.
    pub extent: LossClass,
    /// The same in this engine's words.
    pub words: &'static str,
}

impl LossBound {
    /// Nothing.
    pub const NOTHING: Self = Self::new(LossClass::Nothing, "nothing");
    /// All.
    pub const EVERYTHING: Self = Self::new(LossClass::Everything, "everything");

    /// So much, said so.
    pub const fn new(extent: LossClass, words: &'static str) -> Self {
        Self { extent, words }
    }

    /// The last seconds.
    pub const fn seconds(words: &'static str) -> Self {
        Self::new(LossClass::Seconds, words)
    }
}

impl fmt::Display for LossBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words)
    }
}

/// What one `--fsync` word means for an engine: the acknowledged writes that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When the process is killed (`kill -9`, a panic, the out-of-memory killer).
    pub kill: LossBound,
    /// When the machine loses power or its kernel stops.
    pub power_cut: LossBound,
}

impl Loss {
    /// A kill and a power cut lose nothing.
    pub const NOTHING: Self = Self { kill: LossBound::NOTHING, power_cut: LossBound::NOTHING };
    /// Either loses all.
    pub const EVERYTHING: Self = Self { kill: LossBound::EVERYTHING, power_cut: LossBound::EVERYTHING };
    /// A kill loses nothing, a power cut this.
    pub const fn power_cut(power_cut: LossBound) -> Self {
        Self { kill: LossBound::NOTHING, power_cut }
    }
}

/// A sentence that travels with results, and the durabilities at which it is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caveat {
    /// The sentence.
    pub text: &'static str,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    All,
    Files,
    Memory,
    Unsynced,
    Policy(Fsync),
}

impl Caveat {
    /// True of files and in memory.
    pub const fn new(text: &'static str) -> Self {
        Self { text, at: At::All }
    }

    /// True of files.
    pub const fn in_files(text: &'static str) -> Self {
        Self { text, at: At::Files }
    }

    /// True in memory.
    pub const fn in_memory(text: &'static str) -> Self {
        Self { text, at: At::Memory }
    }

    /// True of files under `everysec` and `no`.
    pub const fn unsynced(text: &'static str) -> Self {
        Self { text, at: At::Unsynced }
    }

    /// True of files under one policy.
    pub const fn under(fsync: Fsync, text: &'static str) -> Self {
        Self { text, at: At::Policy(fsync) }
    }

    /// Whether it is true at a durability.
    pub fn holds(&self, durability: Durability) -> bool {
        match (self.at, durability) {
            (At::All, _) | (At::Memory, Durability::Memory) | (At::Files, Durability::Files(_)) => true,
            (At::Unsynced, Durability::Files(fsync)) => fsync != Fsync::Always,
            (At::Policy(policy), Durability::Files(fsync)) => policy == fsync,
            _ => false,
        }
    }
}

/// The files that an engine may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// It cannot do with fewer; those for a moment count too.
    pub least: u64,
    /// It has no use for more.
    pub most: u64,
    /// In addition, for each read while it runs.
    pub per_read: u64,
}

impl OpenFiles {
    /// The same number whatever the data.
    pub const fn always(number: u64) -> Self {
        Self { least: number, most: number, per_read: 0 }
    }
}

/// An engine, described.
#[derive(Debug)]
pub struct Info {
    /// The word behind `--store`.
    pub name: &'static str,
    /// Crate (and native library) the engine is, with versions: `heed 0.23.1`.
    pub library: &'static str,
    /// Its data structure.
    pub family: Family,
    /// Whether `scan` visits keys in ascending byte order, and a range costs what it holds.
    pub ordered: bool,
    /// Whether `--path :memory:` works.
    pub in_memory: bool,
    /// Whether `count` costs the same whatever the size; otherwise it scans every key.
    pub constant_count: bool,
    /// Whether all that it allocates is allocated in Rust, where allocations can be counted; those of C and C++ are not
    /// seen.
    pub allocates_in_rust: bool,
    /// Whether `--map-size` limits its data file.
    pub has_map_size: bool,
    /// Whether `--direct-reads` works.
    pub has_direct_reads: bool,
    /// What it does with several writers.
    pub writers: Writers,
    /// The values of `--compression` it takes.
    pub compression: &'static [Compression],
    /// How it uses `--cache-size`.
    pub cache: &'static str,
    /// How many files it may have open.
    pub open_files: OpenFiles,
    /// Losses under `always`, `everysec` and `no`.
    pub loss: [Loss; 3],
    /// Sentences that travel with the results they are true of.
    pub caveats: &'static [Caveat],
}

impl Info {
    /// The caveats of a durability.
    pub fn caveats_at(&self, durability: Durability) -> impl Iterator<Item = &'static str> {
        self.caveats.iter().filter(move |caveat| caveat.holds(durability)).map(|caveat| caveat.text)
    }

    /// What a durability loses.
    pub fn loss_at(&self, durability: Durability) -> Loss {
        match durability {
            Durability::Files(fsync) => self.loss(fsync),
            Durability::Memory => Loss::EVERYTHING,
        }
    }

    /// What `fsync` loses.
    pub fn loss(&self, fsync: Fsync) -> Loss {
        let [always, everysec, no] = self.loss;
        match fsync {
            Fsync::Always => always,
            Fsync::EverySec => everysec,
            Fsync::No => no,
        }
    }
}
