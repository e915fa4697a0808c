//! Cells of a benchmark run: a target and a workload each.

use crate::engine::{Loss, LossClass};
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One engine (or server) x workload x setting: a number in a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Unique in the run, and the same in every run of the same cell, so that runs can be compared.
    pub id: String,
    /// The table it belongs to. A table never mixes durability levels, or in process and over the wire.
    pub table: String,
    /// Its row in that table.
    pub row: String,
    /// Its column in that table.
    pub column: String,
    /// What is measured.
    pub target: Target,
    /// What it is made to do.
    pub workload: Workload,
    /// Cells of one group are measured one after the other in one process, on the same data: `get` reads
    /// what `set` has written. They stand side by side. A cell without one has a process of its own.
    #[serde(default)]
    pub group: Option<String>,
    /// Whether it runs at the same time as the cell before it, until that one ends.
    #[serde(default)]
    pub together: bool,
    /// What of the measurement its table shows.
    #[serde(default)]
    pub figure: Figure,
    /// Whether it measures the harness, not an engine. Such a cell is in no table of engines.
    #[serde(default)]
    pub reference: bool,
    /// Block device of its own. Such a cell measures bytes and sizes, no rates, latencies or times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_device: Option<OwnDevice>,
}

/// A loop device with a file system for the files of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnDevice {
    /// Read-ahead of the device in KiB; absent: that of the machine's device.
    pub read_ahead_kib: Option<u64>,
}

/// The part of a measurement that a table shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations in each second; more is better.
    #[default]
    Throughput,
    /// Measured time in milliseconds; less is better.
    Milliseconds,
    /// Bytes on disk; less is better.
    DiskBytes,
    /// Bytes read from the device by GET; less is better.
    DeviceReadBytes,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// In process or over the wire.
    pub access: Access,
    /// Engine name, or the name given to a foreign server (`redis`).
    pub store: String,
    /// Whether it has files.
    pub persistent: bool,
    /// `always`, `everysec`, `no`; absent for a server that cannot be asked.
    pub fsync: Option<String>,
    /// Who commits what its threads write.
    #[serde(default)]
    pub commits: Commits,
    /// How much of what is acknowledged a fault takes; absent where nobody knows.
    #[serde(default)]
    pub loses: Option<Loses>,
    /// The most that the run allowed a store to lose (`--may-lose`). The fsync policy was chosen by it, so
    /// targets with equal values are ranked together whatever their policies.
    #[serde(default)]
    pub may_lose: Option<Loses>,
    /// Cache budget in bytes.
    pub cache_bytes: u64,
    /// `none` or `lz4`.
    pub compression: String,
    /// Address of a server that was already running.
    pub address: Option<String>,
    /// Name of the program that serves it, where that is another one than kvbench: `redis-server`.
    #[serde(default)]
    pub program: Option<String>,
    /// Read-ahead of a memory map by the kernel: `on` or `off`; absent: the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<String>,
    /// Sentences from the engine's description that a reader of its numbers must know.
    pub caveats: Vec<String>,
}

/// How much of what was acknowledged is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loses {
    /// When the process is killed.
    pub kill: LossClass,
    /// When the machine loses power.
    pub power_cut: LossClass,
}

/// How operations reach the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Calls of `dyn Engine` from the threads of the driver.
    InProcess,
    /// RESP over loopback to a server process.
    Wire,
}

/// Who commits what threads in process write. Over the wire it is the server, always in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Commits {
    /// Each thread calls the engine with its own writes, as a program that embeds it does: at the same time
    /// where the engine allows that, else in turn.
    #[default]
    Own,
    /// One thread takes what all of them wait for, and makes one commit of it, as our server does.
    Groups,
}

/// What an engine is made to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Name, such as `set` or `ycsb-a`.
    pub name: String,
    /// Parts of each kind of operation: weights, in the order of their names.
    pub mix: BTreeMap<Operation, f64>,
    /// Keys that are loaded before, and that operations choose from.
    pub keys: u64,
    /// Key length in bytes.
    pub key_bytes: Size,
    /// Value length in bytes.
    pub value_bytes: Size,
    /// The part of a value that is random, from 0 to 1; the rest compresses.
    #[serde(default = "all")]
    pub value_entropy: f64,
    /// How keys are chosen.
    pub order: Order,
    /// Driver threads, or clients over the wire.
    pub threads: u32,
    /// Writes in one atomic batch, or requests in one pipeline over the wire.
    pub batch: u32,
    /// Ends after so many seconds ...
    pub seconds: Option<f64>,
    /// ... or after so many operations, whichever is given.
    pub operations: Option<u64>,
    /// Seconds of the same load before measuring.
    pub warmup_seconds: f64,
    /// Operations started in each second, when they do not wait for each other (open loop). Latency
    /// then counts from the intended start.
    pub rate: Option<f64>,
    /// Pairs that one scan visits.
    pub scan_length: u32,
    /// `true` if each scan visits a random number of pairs from 1 to `scan_length`, all equally likely.
    #[serde(default)]
    pub random_scan_length: bool,
    /// So many first bytes of a key are the prefix of the keys that a scan visits; without, it goes from a
    /// key on.
    #[serde(default)]
    pub prefix_bytes: Option<u32>,
    /// Whether allocations are counted, in place of time: counting takes some.
    #[serde(default)]
    pub counts_allocations: bool,
    /// Seed of everything random in the first repetition. Each further repetition has a seed made from it, the same
    /// for all stores.
    pub seed: u64,
    /// What the cell does in place of operations of `mix`, if anything.
    #[serde(default)]
    pub step: CellKind,
    /// Whether keys are spread over all byte strings (a hash of their number) or lie in the order of
    /// their numbers.
    #[serde(default)]
    pub hashed_keys: bool,
    /// File of the pairs, when they are not made: records of one key and one value.
    #[serde(default)]
    pub data: Option<String>,
    /// Time to live of values that operations write, in milliseconds; absent if they do not expire. Loaded values expire
    /// evenly over this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

fn all() -> f64 {
    1.0
}

/// What a cell does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Step")]
pub enum CellKind {
    /// Operations of the mix.
    #[default]
    Operations,
    /// Counts the keys once.
    Count,
    /// Syncs: its number is what the cells before it left on disk.
    DiskSize,
    /// Makes the files as small as the engine can, and closes them; the cells after it find them so.
    Compact,
    /// Reads the file of pairs into memory with one thread, without an engine.
    SourceScan,
    /// Reads pairs of that file by their keys with one thread, through an index of them in memory.
    SourceGet,
    /// Walks over all keys in their order and removes every other one, by chance.
    Retain,
    /// Removes as many keys as the workload has operations, always the first of those that are left.
    Pop,
    /// Opens the store after its process was killed while it updated, and its files were dropped from the page cache.
    Recovery,
}

/// Kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads a key that is there, and checks its value.
    Get,
    /// Reads a key that is not there.
    GetMiss,
    /// Replaces the value of a key that is there.
    Update,
    /// Adds a key.
    Insert,
    /// Reads a key and writes a value made from it.
    ReadModifyWrite,
    /// Visits pairs from a key on.
    Scan,
    /// Removes a key.
    Delete,
}

impl Operation {
    /// Returns `true` if the operation writes to the store.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::GetMiss | Self::Scan)
    }
}

/// All kinds of operation, in the order of tables.
pub const OPERATIONS: [Operation; 7] = [
    Operation::Get,
    Operation::GetMiss,
    Operation::Update,
    Operation::Insert,
    Operation::ReadModifyWrite,
    Operation::Scan,
    Operation::Delete,
];

/// Length of keys or values: fixed, or random for each key.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// So many bytes.
    Fixed(u32),
    /// Each length of the range equally likely, both ends included.
    Uniform(u32, u32),
}

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other.
    Sequential,
    /// Each equally likely.
    Uniform,
    /// YCSB's scrambled zipfian with this theta (0.99 there): a rank of ten billion, hashed to a key.
    Zipfian(f64),
    /// Zipfian, counted from the key inserted last.
    Latest,
    /// The first part gets the second part of all operations: 0.1, 0.9 is "90% to 10% of keys".
    HotSet(f64, f64),
}

impl From<Loss> for Loses {
    fn from(loss: Loss) -> Self {
        Self { kill: loss.kill.extent, power_cut: loss.power_cut.extent }
    }
}
