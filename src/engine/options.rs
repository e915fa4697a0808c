//! Options with which an engine is opened, and their words on the command line.

use clap::{ValueEnum, builder::PossibleValue};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Fsync policy (`--fsync`): the state of a write when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// An acknowledged write is durable.
    Always,
    /// An acknowledged write was passed to the engine, and is synced about once a second.
    EverySec,
    /// An acknowledged write was passed to the engine, which, like the operating system, syncs it at any time.
    No,
}

impl Fsync {
    /// Every fsync policy, the strongest first.
    pub const ALL: [Self; 3] = [Self::Always, Self::EverySec, Self::No];

    /// Returns the value of `--fsync`, which is that of Redis' `appendfsync`.
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

impl ValueEnum for Fsync {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    /// Returns the word of the command line; a file for `--config` may also say `true` for `always` and `false` for
    /// `no`.
    fn to_possible_value(&self) -> Option<PossibleValue> {
        let word = PossibleValue::new(self.as_str());
        Some(match self {
            Self::Always => word.alias("true"),
            Self::EverySec => word,
            Self::No => word.alias("false"),
        })
    }
}

/// Place of acknowledged writes: files with an fsync policy, or memory only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Writes are in files, synced according to the fsync policy.
    Files(Fsync),
    /// Writes are in memory only.
    Memory,
}

impl Durability {
    /// Returns the name of this durability on the command line and in benchmark results: the fsync policy, or
    /// `memory`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Files(fsync) => fsync.as_str(),
            Self::Memory => "memory",
        }
    }
}

impl ValueEnum for Durability {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Files(Fsync::Always), Self::Files(Fsync::EverySec), Self::Files(Fsync::No), Self::Memory]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Files(fsync) => fsync.to_possible_value(),
            Self::Memory => Some(PossibleValue::new(self.word())),
        }
    }
}

/// Block compression (`--compression`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4 block format.
    Lz4,
}

impl Compression {
    /// Returns the value of `--compression`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl ValueEnum for Compression {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::None, Self::Lz4]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()))
    }
}

/// Location of an engine's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Data are in memory: lost when the process ends.
    Memory,
    /// Data are in a file or a directory, depending on the engine. Created if missing; its parent must exist.
    Path(PathBuf),
    /// Data are on other machines.
    Cluster {
        /// Addresses (`host:port`) of machines from which the others are discovered.
        nodes: Vec<String>,
        /// Prefix of every key in the cluster, so that other applications can use the same cluster.
        prefix: Vec<u8>,
        /// Password and certificates for the connections.
        access: ClusterAccess,
    },
}

impl Location {
    /// Returns the path of the data, or `None` if they are in memory or on other machines.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Memory | Self::Cluster { .. } => None,
        }
    }
}

/// Options with which an engine is opened. The caller has checked them against [`Info`](super::Info).
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Location of the data.
    pub location: Location,
    /// Fsync policy of the store when the engine is opened. [`FsyncSupport`](super::FsyncSupport) says which engines
    /// can change it later.
    pub fsync: Fsync,
    /// Cache budget in bytes; [`Info::cache`](super::Info::cache) describes its use.
    pub cache_size: u64,
    /// Maximum size of the memory map, and so of the data file, of LMDB and MDBX, in bytes.
    pub map_size: u64,
    /// Read-ahead of a memory map by the kernel.
    pub read_ahead: ReadAhead,
    /// Block compression.
    pub compression: Compression,
    /// `true` if SST files are read without the kernel's page cache.
    pub direct_reads: bool,
    /// Maximum number of files that the engine may have open, at least `Info::open_files.least`.
    pub max_files: u64,
}

impl OpenOptions {
    /// Creates options with a cache of 64 MiB, a map of at most 1 TiB, 65,536 files, and no compression.
    pub fn new(location: Location, fsync: Fsync) -> Self {
        Self {
            location,
            fsync,
            cache_size: 64 << 20,
            map_size: 1 << 40,
            read_ahead: ReadAhead::Auto,
            compression: Compression::None,
            direct_reads: false,
            max_files: 1 << 16,
        }
    }
}

/// Read-ahead by the kernel when a page of a memory-mapped file is not in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadAhead {
    /// The kernel reads ahead while the data fit into memory.
    #[default]
    Auto,
    /// The kernel always reads ahead.
    On,
    /// The kernel never reads ahead.
    Off,
}

impl ReadAhead {
    /// Returns the value of `--read-ahead`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl ValueEnum for ReadAhead {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Auto, Self::On, Self::Off]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()))
    }
}

/// Password and certificates for the connections to a cluster. The files are read when the store is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterAccess {
    /// User of the password; `None` for the default user.
    pub user: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// PEM file with the certificates of the authorities that sign the nodes' certificates. If set, connections use
    /// TLS.
    pub ca: Option<PathBuf>,
    /// PEM files with the certificate that is presented to the nodes, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}
