//! Cells of a benchmark run: each is one store or server with its settings (the target), and one workload.

use super::latency_goal::LatencyGoal;
use crate::engine::{Compression, Fsync, Loss, LossClass, ReadAhead};
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cell of a benchmark run: one store or server, one workload, one setting. A table shows it as one number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Id of the cell: unique in a run, and equal in all runs of the same store, workload and setting, so that runs can
    /// be compared.
    pub id: String,
    /// Name of the table that shows the cell. Except for the harness overhead, all cells of a table are measured in
    /// process, or all over the wire, and under one fsync policy unless `--may-lose` chose the policies.
    pub table: String,
    /// Label of the cell's row in the table; ` | ` separates its parts, one for each part of the run's `row_heading`.
    pub row: String,
    /// Heading of the cell's column in the table.
    pub column: String,
    /// Store or server that the cell measures, with its settings.
    pub target: Target,
    /// Workload that the store executes.
    pub workload: Workload,
    /// Name of the cell's group. The cells of a group follow each other in the list, and are measured one after the
    /// other in one process on the same data: `get` reads what `set` has written. A cell without a group has a process
    /// and data of its own.
    #[serde(default)]
    pub group: Option<String>,
    /// `true` if the cell runs at the same time as the previous cell of the list, until that one ends.
    #[serde(default)]
    pub together: bool,
    /// Main metric of the cell: the one that its table shows.
    #[serde(default)]
    pub figure: Figure,
    /// `true` if the cell measures the harness overhead with the no-op engine, and no store. Such a cell is in no table
    /// of stores.
    #[serde(default)]
    pub reference: bool,
    /// Block device for the files of this cell alone; absent: they are on the device of `--dir`. Such a cell measures
    /// bytes and sizes, no rates, latencies or times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_device: Option<OwnDevice>,
}

/// Loop device with a file system of its own, on which the kernel counts what one cell's store reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnDevice {
    /// Read-ahead of the loop device in KiB; absent: that of the device of `--dir`.
    pub read_ahead_kib: Option<u64>,
}

/// Main metric of a cell: the one that its table shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations per second; more is better.
    #[default]
    Throughput,
    /// Duration of the measurement in milliseconds; less is better.
    Milliseconds,
    /// Size of the store's files in bytes; less is better.
    DiskBytes,
    /// Bytes read from the block device per GET; less is better.
    DeviceReadBytes,
}

/// Store or server that a cell measures, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Path of operations to the store: function calls in process, or RESP requests over the wire.
    pub access: Access,
    /// Name of the engine (`rocksdb`), or the name given to an external server (`redis`).
    pub store: String,
    /// `true` if the store is known to have files; `false` if all data are in memory, or the server's setting is
    /// unknown.
    pub persistent: bool,
    /// fsync policy: `always`, `everysec` or `no` (`no` also for a store without files); absent if that of an external
    /// server is not known.
    #[schemars(with = "Option<String>")]
    pub fsync: Option<Fsync>,
    /// Commit path of writes in process: each thread by itself, or one thread for all (group commit).
    #[serde(default)]
    pub commits: Commits,
    /// Upper bound on the acknowledged writes that a kill or a power cut may lose; absent if it is not known.
    #[serde(default)]
    pub loses: Option<Loses>,
    /// Largest loss that the user allows (`--may-lose`); absent without the flag. Each store has its fastest fsync
    /// policy that loses no more, and targets with equal values are ranked together whatever their policies.
    #[serde(default)]
    pub may_lose: Option<Loses>,
    /// Maximum size of the engine's cache in bytes; 0 for a server other than kvbench, whose cache is not known.
    pub cache_bytes: u64,
    /// Compression of the store's blocks on disk: `none` or `lz4`.
    #[schemars(with = "String")]
    pub compression: Compression,
    /// `HOST:PORT` of a server that was already running (`--target`); absent in process, and if the run starts the
    /// server.
    pub address: Option<String>,
    /// Name of the program that the run starts to serve the store if it is not kvbench (`redis-server`); otherwise
    /// absent, also for a server that was already running.
    #[serde(default)]
    pub program: Option<String>,
    /// Read-ahead by the kernel in the memory map of the engine's data file: `on` or `off`; absent: the engine's
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub read_ahead: Option<ReadAhead>,
    /// Program of a duel that measures the store; absent if the program that planned the run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Sentences that qualify the store's results, from the engine's description or, for an external server, on how its
    /// durability is known; reports show them as footnotes.
    pub caveats: Vec<String>,
}

/// One of the two programs that `kvbench duel` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The program before a change.
    Old,
    /// The program after the change.
    New,
}

impl Side {
    /// Both sides, in the order of tables.
    pub const BOTH: [Self; 2] = [Self::Old, Self::New];

    /// Returns the name of the side in ids and tables: `old` or `new`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

impl Target {
    /// Returns the target `store` with all data in memory (fsync policy `no`), without an engine cache or compression.
    /// Each thread commits its own writes, the loss bounds are not known, and there are no caveats.
    pub fn new(access: Access, store: impl Into<String>) -> Self {
        Self {
            access,
            store: store.into(),
            persistent: false,
            fsync: Some(Fsync::No),
            commits: Commits::Own,
            loses: None,
            may_lose: None,
            cache_bytes: 0,
            compression: Compression::None,
            address: None,
            program: None,
            read_ahead: None,
            side: None,
            caveats: Vec::new(),
        }
    }

    /// Returns the store, followed in a duel by the side: `redb` or `redb old`.
    pub fn store_and_side(&self) -> String {
        match self.side {
            Some(side) => format!("{} {}", self.store, side.name()),
            None => self.store.clone(),
        }
    }
}

/// Upper bounds on the acknowledged writes that a store may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loses {
    /// Upper bound on the loss by a kill of the process.
    pub kill: LossClass,
    /// Upper bound on the loss by a power cut of the machine.
    pub power_cut: LossClass,
}

/// Path of operations to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Function calls of the engine from the benchmark's threads.
    InProcess,
    /// RESP requests over TCP to a server process.
    Wire,
}

/// Commit path of writes in process. Over the wire the server commits, always in groups, and the value is `own`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Commits {
    /// Each thread calls the engine with its own writes, as a program that embeds the engine does: at the same time as
    /// other threads if the engine allows that, otherwise in turn.
    #[default]
    Own,
    /// One thread takes the writes of all waiting threads and commits them together, as the kvbench server does.
    Groups,
}

/// Workload of a cell: mix of operations, keys, values, and length of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Name of the workload, such as `set` or `ycsb-a`.
    pub name: String,
    /// Weight of each kind of operation: with `get` 3 and `update` 1, three of four operations read.
    pub mix: BTreeMap<Operation, f64>,
    /// Number of keys that are loaded before the measurement, and from which operations choose.
    pub keys: u64,
    /// Key length in bytes.
    pub key_bytes: Size,
    /// Value length in bytes.
    pub value_bytes: Size,
    /// Share of each value that is random bytes, from 0 to 1; the rest is zeros, which can be compressed.
    #[serde(default = "all")]
    pub value_entropy: f64,
    /// Order or distribution in which operations choose keys.
    pub order: Order,
    /// Number of benchmark threads in process, or of clients over the wire.
    pub threads: u32,
    /// Number of writes in one atomic batch in process, or of requests in one pipeline over the wire.
    pub batch: u32,
    /// Time limit of the measurement in seconds; absent: none. With `operations` too, the limit that is reached first
    /// ends it.
    pub seconds: Option<f64>,
    /// Number of operations, of all threads together, after which the measurement ends; absent: no such limit.
    pub operations: Option<u64>,
    /// Seconds before the measurement in which the mix runs without its inserts and deletes, to warm up; 0: no warm-up.
    pub warmup_seconds: f64,
    /// Operations that all threads together start per second, whether or not earlier ones have ended (open loop);
    /// latency then counts from the intended start. Absent: each thread starts an operation when its previous one has
    /// ended.
    pub rate: Option<f64>,
    /// Number of pairs that one scan visits; fewer only if no more keys follow.
    pub scan_length: u32,
    /// `true` if each scan visits a random number of pairs from 1 to `scan_length`, all equally likely.
    #[serde(default)]
    pub random_scan_length: bool,
    /// `true` if each thread reads from one snapshot of the store in process, if the engine would otherwise begin one
    /// for each read. The workload then only reads.
    #[serde(default)]
    pub one_snapshot: bool,
    /// Length in bytes of the key prefix that all pairs of a scan share; absent: a scan goes on from a chosen key,
    /// whatever the prefixes. In both cases it ends after `scan_length` pairs.
    #[serde(default)]
    pub prefix_bytes: Option<u32>,
    /// `true` if the cell measures the number and size of the engine's memory allocations, not its speed: counting
    /// takes time.
    #[serde(default)]
    pub counts_allocations: bool,
    /// `true` if instructions are counted, which makes switches between threads a little slower.
    #[serde(default)]
    pub counts_instructions: bool,
    /// Seed of all random keys, values and choices in repetition 0. Later repetitions have seeds derived from it, the
    /// same for all stores.
    pub seed: u64,
    /// Kind of work of the cell: operations of `mix`, or one action in place of them, such as a count of all keys.
    #[serde(default)]
    pub step: CellKind,
    /// `true` if keys are spread over all byte strings, by a hash of their numbers; `false` if they sort in the order
    /// of their numbers.
    #[serde(default)]
    pub hashed_keys: bool,
    /// Path of a file that holds the pairs, as records of one key and one value (`--data`); absent: pairs are
    /// generated.
    #[serde(default)]
    pub data: Option<String>,
    /// Time to live of values that operations write, in milliseconds; absent if they do not expire. Loaded values expire
    /// evenly over this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Latency for which the highest rate is searched (`--find-rate`); absent in other measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_goal: Option<LatencyGoal>,
    /// `true` if the measurement is a soak (`--minutes`): it records what happens in each second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub soak: bool,
}

fn all() -> f64 {
    1.0
}

/// Kind of work that a cell measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Step")]
pub enum CellKind {
    /// Executes operations of the workload's mix.
    #[default]
    Operations,
    /// Counts all keys of the store once.
    Count,
    /// Flushes and syncs the store, and measures the size of its files as the earlier cells of the group left them.
    DiskSize,
    /// Makes the store's files as small as the engine can, and opens the store again: later cells of the group use the
    /// small files.
    Compact,
    /// Reads the data file (`--data`) into memory, and each of its pairs in order, with one thread and without an
    /// engine.
    SourceScan,
    /// Reads values from the data file (`--data`) by key, through an index in memory, with one thread and without an
    /// engine.
    SourceGet,
    /// Scans all keys in the engine's order and removes about every other one, chosen at random.
    Retain,
    /// Removes the number of keys that `operations` says, always the first of the keys that are left.
    Pop,
    /// Opens the store and reads one key, after its process was killed during updates and its files were dropped from
    /// the page cache.
    Recovery,
}

/// Kind of operation of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads a key that exists, and checks its value.
    Get,
    /// Reads a key that does not exist.
    GetMiss,
    /// Replaces the value of a key that exists.
    Update,
    /// Inserts a key that does not exist.
    Insert,
    /// Reads the value of a key, checks it, and writes a new value, which does not depend on the one that was read.
    ReadModifyWrite,
    /// Visits pairs in key order, from a chosen key on, or from the first key with the prefix of a chosen key.
    Scan,
    /// Removes a key that exists.
    Delete,
}

impl Operation {
    /// Returns `true` if the operation writes to the store.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::GetMiss | Self::Scan)
    }
}

/// All kinds of operation, in the order in which tables list them.
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
    /// Equal length of all keys or values, in bytes.
    Fixed(u32),
    /// Smallest and largest length in bytes: each length from the first to the second, both included, is equally
    /// likely.
    Uniform(u32, u32),
}

/// Order or distribution in which operations choose keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Keys in the order of their numbers; after the last key, the first one follows.
    Sequential,
    /// Each key is equally likely.
    Uniform,
    /// YCSB's scrambled zipfian distribution with this theta (YCSB: 0.99): a rank below ten billion is drawn, and
    /// hashed to a key.
    Zipfian(f64),
    /// Zipfian distribution from the newest key back: the key that was inserted last is the most likely.
    Latest,
    /// Share of the keys that are hot, and share of the operations that choose them: 0.1 and 0.9 for 90% of operations
    /// on 10% of keys.
    HotSet(f64, f64),
}

impl From<Loss> for Loses {
    fn from(loss: Loss) -> Self {
        Self { kill: loss.kill.extent, power_cut: loss.power_cut.extent }
    }
}
