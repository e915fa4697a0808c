//! What a run writes: one JSON file, rewritten after every measurement, so that a run that was stopped
//! is not lost and can be resumed.
//!
//! The JSON schema is made from these types and published as `docs/result.schema.json`. All durations
//! are in the unit their name ends with, sizes in bytes. A value that could not be measured is `null`,
//! never a guess.

pub mod files;
pub mod floor;
pub mod histogram;
pub mod level;
pub mod measure;
pub mod numbers;
pub mod spread;
pub mod statistics;
pub mod work;

use crate::engine::{Extent, Loss};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format. A reader refuses a file of a higher one. Since 2 an outcome can be `unsupported`,
/// and a step `compact`.
pub const SCHEMA_VERSION: u32 = 2;

/// One run of `kvbench bench`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// kvbench's version.
    pub version: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The command line that makes this run again.
    pub command: Vec<String>,
    /// Name of the suite, absent for a workload made of flags.
    pub suite: Option<String>,
    /// Where and with what it ran.
    pub environment: Environment,
    /// Heading of the tables' row names: `Store | Pipeline | Clients`, with as many parts as [`Cell::row`] has.
    #[serde(default)]
    pub row_heading: String,
    /// Everything that is to be measured, in the order of the tables. Known before the first measurement.
    pub cells: Vec<Cell>,
    /// Stores that were asked for but have no cells at some level, each with the reason.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// How often each cell is measured.
    pub repetitions: u32,
    /// What has been measured so far, in the order it was.
    pub samples: Vec<Sample>,
    /// Set when every cell has all its samples.
    pub finished: bool,
}

/// The machine and the software.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Processor model.
    pub cpu: Option<String>,
    /// Logical cores this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel release.
    pub system: String,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// The directory the data were in.
    pub directory: String,
    /// Type of its file system.
    pub file_system: Option<String>,
    /// Its block device.
    pub device: Option<String>,
    /// Median time of appending 4 KiB to a file there and `fdatasync`, in microseconds.
    pub fsync_us: Option<f64>,
    /// Load average of the last minute when the run began.
    pub load_average: Option<f64>,
    /// Git commit of the program, with `+` when it had uncommitted changes.
    pub commit: Option<String>,
    /// Version of the compiler that built it.
    pub rustc: Option<String>,
    /// Engine name to library and version.
    pub libraries: BTreeMap<String, String>,
    /// What the stores and the drivers could use of the memory, with the page cache (`--memory-limit`).
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// How the files of a store were put out of the page cache before each cell (`--cold`).
    #[serde(default)]
    pub cold: Option<String>,
    /// Processors of the engines and of the drivers (`--cpus`).
    #[serde(default)]
    pub cpus: Option<String>,
    /// How this build's figures stood against known truths, if `kvbench calibrate` was run with it.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// What makes figures of this machine or directory doubtful, each with the remedy.
    pub warnings: Vec<String>,
}

/// What came of `kvbench calibrate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Git commit of the program, as in [`Environment::commit`].
    pub commit: Option<String>,
    /// Checksum of the program: another one of the same commit is another one.
    pub program: u32,
    /// When it ended, RFC 3339, UTC.
    pub date: String,
    /// Whether every figure was where the truth allows.
    pub passed: bool,
    /// Figures that were looked at.
    pub figures: usize,
    /// Those that were elsewhere.
    pub failed: Vec<String>,
    /// The largest error of a figure measured in process, as a part of its truth, ...
    pub worst_error: f64,
    /// ... and which figure that was.
    pub worst_figure: String,
}

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
}

/// The part of a [`Measurement`] that a table shows.
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
    /// Cache budget in bytes.
    pub cache_bytes: u64,
    /// `none` or `lz4`.
    pub compression: String,
    /// Address of a server that was already running.
    pub address: Option<String>,
    /// Sentences from the engine's description that a reader of its numbers must know.
    pub caveats: Vec<String>,
}

/// How much of what was acknowledged is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loses {
    /// When the process is killed.
    pub kill: Extent,
    /// When the machine loses power.
    pub power_cut: Extent,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Seed of everything random.
    pub seed: u64,
    /// What the cell does in place of operations of `mix`, if anything.
    #[serde(default)]
    pub step: Step,
    /// Whether keys are spread over all byte strings (a hash of their number) or lie in the order of
    /// their numbers.
    #[serde(default)]
    pub hashed_keys: bool,
    /// File of the pairs, when they are not made: records of one key and one value.
    #[serde(default)]
    pub data: Option<String>,
}

fn all() -> f64 {
    1.0
}

/// What a cell does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
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

/// Kinds of operation, for tables by kind.
pub const OPERATIONS: [Operation; 7] = [
    Operation::Get,
    Operation::GetMiss,
    Operation::Update,
    Operation::Insert,
    Operation::ReadModifyWrite,
    Operation::Scan,
    Operation::Delete,
];

/// A length: always the same, or drawn anew for each key.
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

/// One measurement of one cell.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// [`Cell::id`].
    pub cell: String,
    /// From 0.
    pub repetition: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// What others did to the machine meanwhile, where that is known.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
}

/// What others took of all processors in the course of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Part that other programs of this machine took.
    pub foreign: f64,
    /// Part that other machines took from this one, a virtual one.
    pub stolen: f64,
}

impl Disturbance {
    /// Both together.
    pub fn part(&self) -> f64 {
        self.foreign + self.stolen
    }
}

/// What came of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub enum Outcome {
    /// Numbers. They count only where [`Measurement::is_sound`].
    Measured(Measurement),
    /// None, and why.
    Failed(String),
    /// None, since the target has no such thing: which, in words. That is no failure.
    Unsupported(String),
}

/// The numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Operations that succeeded, with the right value, in the measured time.
    pub operations: u64,
    /// Measured time.
    pub seconds: f64,
    /// Operations in each second; 0 of a step that is done once.
    pub throughput: f64,
    /// Keys that were there before its first operation; counted in the engine where `keys_after` says so.
    #[serde(default)]
    pub keys_before: Option<u64>,
    /// Keys that were there after its last operation. They are what the driver has written and removed, and
    /// the engine has been asked for its own count wherever it knows that, or the operations could have
    /// changed it.
    #[serde(default)]
    pub keys_after: Option<u64>,
    /// Values that were read and compared after the last operation of the cell's group, of files after
    /// they had been closed and opened again. Of more than five million keys so many are drawn by chance.
    #[serde(default)]
    pub verified_values: Option<u64>,
    /// Operations that ended in an error.
    pub errors: u64,
    /// Reads that did not find what was there.
    pub misses: u64,
    /// Reads that found another value than was written.
    pub wrong_values: u64,
    /// The first error, miss or wrong value, in words.
    pub first_fault: Option<String>,
    /// Latency over all operations, also those that never started.
    pub latency: Latency,
    /// Operations whose intended start came, at a rate, but that had not begun by the end. They count in
    /// `latency`, with the time that they had waited by then, and nowhere else.
    #[serde(default)]
    pub unstarted_operations: u64,
    /// At a rate: how much later than intended an operation began that its thread had waited for. It is the
    /// harness' and the scheduler's part of the latency.
    #[serde(default)]
    pub lateness: Option<Latency>,
    /// Whether its throughput is above half of what the same operations reach over an engine that does
    /// nothing: then much of the figure is the harness' own.
    #[serde(default)]
    pub near_floor: Option<bool>,
    /// Count and latency by kind of operation.
    pub by_operation: BTreeMap<Operation, Latency>,
    /// Operations of each equal slice of the measured time.
    pub timeline: Vec<u64>,
    /// Length of a slice.
    pub timeline_slice_seconds: f64,
    /// Processor time of the process with the engine (over the wire: of the server), by operation.
    pub cpu_us_per_operation: Option<f64>,
    /// Largest resident memory of that process in the measured time. In process it is without what the
    /// process had before it opened the engine; over the wire it is that of the whole server.
    pub peak_memory_bytes: Option<u64>,
    /// Its memory without a file behind it, at the end of the measured time, counted likewise.
    #[serde(default)]
    pub anonymous_bytes: Option<u64>,
    /// Bytes of the store's files that it had in memory by mapping them, at the end of the measured time.
    /// What the system's page cache holds beside is in no process.
    #[serde(default)]
    pub mapped_bytes: Option<u64>,
    /// Bytes of keys and values that operations wrote, or deleted.
    pub user_bytes: u64,
    /// Bytes that process wrote to files in the measured time and while it settled afterwards: flushes,
    /// compactions and write-back of what these cells have caused, and of nothing before them.
    pub written_bytes: Option<u64>,
    /// Bytes that the block device took in the same time, from all programs of the machine.
    #[serde(default)]
    pub device_bytes: Option<u64>,
    /// `written_bytes / user_bytes`, from 1 MiB of `user_bytes` on.
    pub write_amplification: Option<f64>,
    /// Bytes used on disk once settled, without what is reserved behind the end of files.
    pub disk_bytes: Option<u64>,
    /// `disk_bytes` by bytes of the keys and values that are alive.
    pub space_amplification: Option<f64>,
    /// The files at the end of the measured time.
    #[serde(default)]
    pub live_size: Option<FileSize>,
    /// The files once settled: all is flushed, no background work is left.
    #[serde(default)]
    pub settled_size: Option<FileSize>,
    /// The files once closed; of the last cells of a group, after which the store is closed.
    #[serde(default)]
    pub closed_size: Option<FileSize>,
    /// Time to settle after the measured time.
    #[serde(default)]
    pub settle_seconds: Option<f64>,
    /// Time to load the keys before.
    pub load_seconds: Option<f64>,
    /// Time to close.
    pub close_seconds: Option<f64>,
    /// Time to open again what was closed.
    pub reopen_seconds: Option<f64>,
    /// What is doubtful about this measurement.
    pub warnings: Vec<String>,
}

/// The size of a store's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSize {
    /// Sum of their lengths.
    pub length_bytes: u64,
    /// What the file system has allocated for them, with what is reserved behind their ends.
    pub block_bytes: u64,
    /// What it has allocated within their lengths.
    pub used_bytes: u64,
}

/// How long operations took, from an HDR histogram of three digits.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Operations counted.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// 99.99th percentile; `null` with fewer operations than it takes to have one.
    #[serde(default)]
    pub p9999_us: Option<f64>,
    /// Largest.
    pub max_us: f64,
    /// The histogram in nanoseconds, as HdrHistogram's V2 encoding with compression, in base64; of all
    /// operations together, not of their kinds.
    #[serde(default)]
    pub histogram: Option<String>,
}

impl From<Loss> for Loses {
    fn from(loss: Loss) -> Self {
        Self { kill: loss.kill.extent, power_cut: loss.power_cut.extent }
    }
}

impl Measurement {
    /// Whether every operation did what it should. Nothing else may be shown as throughput.
    pub fn is_sound(&self) -> bool {
        self.errors == 0 && self.misses == 0 && self.wrong_values == 0 && self.operations > 0
    }
}

impl Run {
    /// The sound measurements of a cell.
    pub fn measurements(&self, cell: &str) -> impl Iterator<Item = &Measurement> {
        self.samples.iter().filter(move |sample| sample.cell == cell).filter_map(|sample| {
            match &sample.outcome {
                Outcome::Measured(measurement) if measurement.is_sound() => Some(measurement),
                _ => None,
            }
        })
    }

    /// Why a cell cannot be measured, if it is so.
    pub fn unsupported(&self, cell: &str) -> Option<&str> {
        let mut outcomes = self.samples.iter().filter(|sample| sample.cell == cell).map(|s| &s.outcome);
        outcomes.find_map(|outcome| match outcome {
            Outcome::Unsupported(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Whether a cell has been measured so often as the run asks.
    pub fn has(&self, cell: &str, repetition: u32) -> bool {
        self.samples.iter().any(|sample| sample.cell == cell && sample.repetition == repetition)
    }
}
