//! Options of a benchmark run, typed, and the errors of plans that cannot be measured.

pub use crate::engine::Durability;
use crate::{
    bench::result::{Commits, Loses, Operation, Order, Size, Target, statistics::margin::Margin},
    engine::Compression,
};
use clap::ValueEnum;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Default of `--seconds` with `--interleave`: running time of each store in a block.
const BLOCK_SECONDS: f64 = 2.0;

/// All options of `kvbench bench`. The suite chooses a value for each option that is absent.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--suite`
    pub suite: Option<Suite>,
    /// `--workloads`: names of the suite's workloads; empty for all.
    pub workloads: Vec<String>,
    /// `--stores`; empty for all stores of this build.
    pub stores: Vec<String>,
    /// `--fsync`; empty for the policies of the suite.
    pub durabilities: Vec<Durability>,
    /// `--may-lose`: the largest loss that is allowed; each store gets its fastest fsync policy that loses no
    /// more.
    pub may_lose: Option<Loses>,
    /// `--commits`; empty if each thread commits its own writes.
    pub commits: Vec<Commits>,
    /// `--wire`: starts a kvbench server for each cell.
    pub wire: bool,
    /// `--target`: a server that is already running.
    pub target: Option<ExternalServer>,
    /// `--seconds`
    pub seconds: Option<f64>,
    /// `--operations`
    pub operations: Option<u64>,
    /// `--keys`
    pub keys: Option<u64>,
    /// `--threads`
    pub threads: Option<u32>,
    /// `--warm-up`, in seconds.
    pub warmup_seconds: f64,
    /// `true` if the user gave `--warm-up`: a default warm-up is silently dropped where none is possible, an
    /// explicit one is an error.
    pub warmup_is_explicit: bool,
    /// `--rates`, in operations per second; empty for a closed loop.
    pub rates: Vec<f64>,
    /// `--repetitions`; with `--interleave`, the number of blocks replaces it.
    pub repetitions: u32,
    /// `--interleave`: stores take turns in one comparison.
    pub interleave: Option<Interleave>,
    /// `--seed`
    pub seed: u64,
    /// `--value-entropy`
    pub value_entropy: f64,
    /// `--data`
    pub data: Option<PathBuf>,
    /// The workload of a run without a suite.
    pub custom: CustomWorkload,
    /// `--dir`: the directory in which stores are created.
    pub directory: PathBuf,
    /// `--output`: the result file.
    pub output: PathBuf,
    /// `--resume`
    pub resume: bool,
    /// `--force`: overwrites a result file that exists.
    pub force: bool,
    /// `--no-space-check`: starts even if the free space or `--map-size` may not suffice.
    pub ignores_space: bool,
    /// `--cache-size`, in bytes.
    pub cache_bytes: u64,
    /// `--map-size`, in bytes.
    pub map_bytes: u64,
    /// `--compression`
    pub compression: Compression,
    /// Conditions under which the run measures.
    pub conduct: RunConditions,
    /// The command line, without the flag that resumes the run.
    pub command: Vec<String>,
    /// Returns the arguments that start a server for a target's store in a directory, on a free port.
    pub server_arguments: fn(&Target, &Path, u64) -> Vec<String>,
}

/// Limits of an interleaved comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interleave {
    /// `--detect`: difference below which stores are equal.
    pub margin: Margin,
    /// `--budget`: maximum time of the comparison of one table, in seconds.
    pub budget_seconds: f64,
}

/// Conditions under which a run measures, independent of the workload. A run under the default value waits for
/// nothing, repeats nothing and limits nothing.
#[derive(Clone, Debug, Default)]
pub struct RunConditions {
    /// `--quiet-wait`: seconds to wait for the disk to become idle before each job.
    pub quiet_wait: f64,
    /// `--foreign`: share of the CPUs that other processes may use during a job; above it the job is
    /// repeated.
    pub foreign_limit: Option<f64>,
    /// `--memory-limit`, in bytes.
    pub memory_limit: Option<u64>,
    /// `--cold`
    pub cold: bool,
    /// `--cpus`
    pub cpus: Cpus,
    /// `true` if the user gave `--keys`: the run then does not warn that the data exceed memory or cache.
    pub keys_are_explicit: bool,
    /// `true` if the user gave `--cache-size`: the run then does not warn that the data exceed the cache.
    pub cache_is_explicit: bool,
    /// `--quick` or `--full`: defaults for flags that are absent.
    pub preset: Option<Preset>,
}

/// CPUs by number (`--cpus`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// CPUs of the server that this run starts.
    pub server: Option<Vec<usize>>,
    /// CPUs of the driver, and in process of the engine too, which runs in the driver's threads.
    pub driver: Option<Vec<usize>>,
}

/// Amount of measurement that `--quick` or `--full` stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Default of `--seconds`.
    pub seconds: f64,
    /// Default of `--keys`.
    pub keys: Option<u64>,
}

impl Default for Options {
    /// Returns the options for every store of this build, one repetition, and the suite's choice for
    /// everything else.
    fn default() -> Self {
        Self {
            suite: None,
            workloads: Vec::new(),
            stores: Vec::new(),
            durabilities: Vec::new(),
            may_lose: None,
            commits: Vec::new(),
            wire: false,
            target: None,
            seconds: None,
            operations: None,
            keys: None,
            threads: None,
            warmup_seconds: 0.0,
            warmup_is_explicit: false,
            rates: Vec::new(),
            repetitions: 1,
            interleave: None,
            seed: 42,
            value_entropy: 1.0,
            data: None,
            custom: CustomWorkload::default(),
            directory: PathBuf::from("kvbench-bench.tmp"),
            output: PathBuf::from("kvbench.json"),
            resume: false,
            force: false,
            ignores_space: false,
            cache_bytes: 256 << 20,
            map_bytes: 256 << 30,
            compression: Compression::None,
            conduct: RunConditions::default(),
            command: Vec::new(),
            server_arguments: |_, _, _| Vec::new(),
        }
    }
}

impl Default for CustomWorkload {
    fn default() -> Self {
        Self {
            name: "custom".into(),
            mix: [(Operation::Get, 1.0)].into(),
            key_bytes: Size::Fixed(16),
            value_bytes: Size::Fixed(100),
            order: Order::Uniform,
            batch: 1,
            scan_length: 50,
            ordered_keys: false,
            ttl_ms: None,
        }
    }
}

impl Options {
    /// Returns the seconds of a measurement, from `--seconds` or the preset. `None`: the suite chooses, or
    /// the run ends by operations.
    pub fn wanted_seconds(&self) -> Option<f64> {
        let preset = self.conduct.preset.filter(|_| self.operations.is_none());
        let in_block = self.interleave.map(|_| BLOCK_SECONDS);
        self.seconds.or_else(|| preset.map(|preset| preset.seconds)).or(in_block)
    }

    /// Returns a copy of the options with the preset's number of keys, if `--keys` is absent.
    pub fn filled(&self) -> Self {
        let mut filled = self.clone();
        if let Some(preset) = self.conduct.preset {
            filled.keys = self.keys.or(preset.keys);
        }
        filled
    }
}

/// A workload defined by flags.
#[derive(Clone, Debug)]
pub struct CustomWorkload {
    /// `--name`
    pub name: String,
    /// `--mix`
    pub mix: BTreeMap<Operation, f64>,
    /// `--key-bytes`
    pub key_bytes: Size,
    /// `--value-bytes`
    pub value_bytes: Size,
    /// `--order`
    pub order: Order,
    /// `--batch`
    pub batch: u32,
    /// `--scan-length`
    pub scan_length: u32,
    /// `--ordered-keys`
    pub ordered_keys: bool,
    /// `--ttl`, in milliseconds; `None` if values do not expire.
    pub ttl_ms: Option<u64>,
}

/// A server that is already running.
#[derive(Clone, Debug)]
pub struct ExternalServer {
    /// `--target`
    pub address: String,
    /// `--target-name`
    pub name: String,
    /// `--target-fsync`
    pub durability: Option<Durability>,
    /// `--target-pid`
    pub pid: Option<u32>,
    /// `--flush-target`
    pub flush: bool,
}

/// Workloads of a published benchmark (`--suite`); `kvbench bench -h` shows the first line of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// SET and GET over the wire, with 1 and 256 clients and pipelines (tidwall's KVBench)
    Kvbench,
    /// Set, get, both at the same time, delete, batches, in process (smallnest's fork)
    Smallnest,
    /// Set, get, both at the same time, delete, batches, over blocks of 512 bytes from a file (XDAG KV Bench)
    Xdag,
    /// Load, and the core workloads A to F of YCSB over records of 1,000 bytes
    Ycsb,
    /// The rows of the table in redb's README: loads, batches, reads, deletes, compaction
    Redb,
    /// Sizes on disk, bytes written and read, and recovery after a kill (bytes of the device need root)
    Storage,
    /// A published experiment with its own parameters (`kvbench reproduce`)
    #[value(skip)]
    Reproduction(Publication),
}

impl Suite {
    /// Returns the name of the suite in result files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvbench => "kvbench",
            Self::Smallnest => "smallnest",
            Self::Xdag => "xdag",
            Self::Ycsb => "ycsb",
            Self::Redb => "redb",
            Self::Storage => "storage",
            Self::Reproduction(publication) => publication.suite(),
        }
    }

    /// Returns the flag or command that selects the suite.
    fn selector(self) -> String {
        match self {
            Self::Reproduction(publication) => format!("reproduce {}", publication.name()),
            suite => format!("--suite {}", suite.name()),
        }
    }
}

/// Publications whose experiments can be reproduced (`kvbench reproduce`); its help shows the first line of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Publication {
    /// tidwall's KVBench: SET and GET over the wire, with redis
    Kvbench,
    /// kvstore-bench of NutsDB's authors: puts, gets and scans, with allocations
    KvstoreBench,
    /// smallnest's kvbench: throughput and time of five cases, with charts
    Smallnest,
    /// XDAG KV Bench: blocks of 512 bytes, two sizes
    Xdag,
    /// The table of redb's README
    Redb,
    /// YCSB's core workloads over 20 GB
    Ycsb,
}

impl Publication {
    /// All publications.
    pub const ALL: [Self; 6] =
        [Self::Kvbench, Self::KvstoreBench, Self::Smallnest, Self::Xdag, Self::Redb, Self::Ycsb];

    /// Returns the name of the publication on the command line.
    pub fn name(self) -> &'static str {
        self.suite().strip_prefix("reproduce-").unwrap_or_default()
    }

    /// Returns the name of the publication's suite in result files.
    fn suite(self) -> &'static str {
        match self {
            Self::Kvbench => "reproduce-kvbench",
            Self::KvstoreBench => "reproduce-kvstore-bench",
            Self::Smallnest => "reproduce-smallnest",
            Self::Xdag => "reproduce-xdag",
            Self::Redb => "reproduce-redb",
            Self::Ycsb => "reproduce-ycsb",
        }
    }

    /// Returns the publication whose suite has the name `suite` in a result file.
    pub fn of_suite(suite: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|publication| publication.suite() == suite)
    }
}

/// Errors of options that cannot be measured. Each message names the flag and what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("--stores {name}: this build has {able}{hint}")]
    UnknownStore { name: String, able: String, hint: String },
    #[error("--workloads {name}: --suite {suite} has {able}")]
    UnknownWorkload { suite: &'static str, name: String, able: String },
    #[error(
        "--workloads: the workloads of --suite {0} continue on each other's data, so all of them are measured; leave \
        --workloads out"
    )]
    DependentWorkloads(&'static str),
    #[error(
        "--stores nothing measures the harness, in process only; leave it out, or leave out --wire and --suite \
        kvbench"
    )]
    ReferenceOverWire,
    #[error("--commits: over the wire the server always commits in groups; leave out --commits")]
    GroupsOverWire,
    #[error("--suite {0} is measured in process only; leave out --wire and --target")]
    InProcessOnly(&'static str),
    #[error("--suite xdag needs --data FILE; --generate-data FILE makes one")]
    NoData,
    #[error("--data {}: {source}", .path.display())]
    BadData { path: PathBuf, source: std::io::Error },
    #[error("--mix scan: no Redis command scans a range of keys; leave out --wire and --target")]
    ScanOverWire,
    #[error(
        "--ttl: --mix {0} writes no value that could expire; add update, insert or read-modify-write, or leave out --ttl"
    )]
    NothingExpires(String),
    #[error("--ttl: --mix {0} needs keys that exist, and keys expire; leave out {0} or --ttl")]
    TtlWithout(&'static str),
    #[error(
        "--ttl --commits own: in process the server's keyspace layer stores expiration times, and it commits in groups; \
        use --commits groups, or leave --commits out"
    )]
    TtlCommitsOwn,
    #[error("--ttl: --stores nothing stores no expiration times; leave it out")]
    TtlNothing,
    #[error("--key-bytes {bytes}: too short for {keys} different keys; at least {least} bytes")]
    ShortKeys { bytes: u32, keys: u64, least: u32 },
    #[error("--keys 0: --mix {0} needs keys")]
    NoKeys(&'static str),
    #[error(
        "--seconds: --mix {0} fills or empties the store, with the same number of keys for every store; use \
        --operations"
    )]
    NotByTime(String),
    #[error(
        "--warm-up: --mix {0} only fills or empties the store, and a warm-up would do that work before it is measured; leave out \
        --warm-up, or add an operation that reads"
    )]
    NoWarmUp(String),
    #[error("--operations {operations}: --mix delete would find only {keys} keys; raise --keys")]
    RunsDry { operations: u64, keys: u64 },
    #[error(
        "--operations {operations}: with keys of {bytes} bytes there are only {most} keys to insert; raise \
        --key-bytes"
    )]
    TooManyInserts { operations: u64, bytes: u32, most: u64 },
    #[error(
        "--data: only --suite smallnest and --suite xdag read a file; add one of them, or leave out --data"
    )]
    DataWithoutSuite,
    #[error("{flag}: {} has its own value; leave the flag out", .suite.selector())]
    Ignored { flag: &'static str, suite: Suite },
    #[error(
        "--cpus server=: in process there is no server, and the engine runs in the driver's threads; use --cpus \
        driver=, or --wire"
    )]
    NoServer,
    #[error("--cpus server= cannot be set for a server that is already running; leave out --target")]
    ForeignServer,
    #[error("--cpus driver=: the server would get the processors of the driver too; add server=")]
    NoPlaceForServer,
    #[error("--cold: a server keeps its store open; leave out --wire and --target")]
    ColdServer,
    #[error(
        "--warm-up: it would load into the page cache what --cold has dropped from it; leave out --warm-up"
    )]
    ColdWarmUp,
    #[error("--memory-limit cannot be set for a server that is already running; leave out --target")]
    ForeignMemory,
    #[error("--interleave compares stores; name at least two with --stores")]
    OneStore,
    #[error("--interleave: {0}; leave it out, or leave out --interleave")]
    NotInterleaved(&'static str),
    #[error("nothing to measure with these --stores: {0}")]
    Nothing(String),
}
