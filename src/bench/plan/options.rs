//! What a user can ask of a run, typed; and the errors of plans that cannot be measured.

pub use crate::engine::Durability;
use crate::{
    bench::result::{Commits, Operation, Order, Size, Target},
    engine::Compression,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Everything `kvbench bench` can be told. An absent value is the suite's to choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--suite`
    pub suite: Option<Suite>,
    /// `--stores`; empty for all of this build.
    pub stores: Vec<String>,
    /// `--fsync`; empty for the suite's.
    pub durabilities: Vec<Durability>,
    /// `--commits`; empty for each thread its own.
    pub commits: Vec<Commits>,
    /// `--wire`: our own server for each cell.
    pub wire: bool,
    /// `--target`: a server that is running.
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
    /// Whether the user asked for that warm-up: where there can be none, a default one is left out.
    pub warmup_is_explicit: bool,
    /// `--rates`, in operations a second; empty for as fast as it goes.
    pub rates: Vec<f64>,
    /// `--repetitions`
    pub repetitions: u32,
    /// `--seed`
    pub seed: u64,
    /// `--value-entropy`
    pub value_entropy: f64,
    /// `--data`
    pub data: Option<PathBuf>,
    /// The workload of a run without a suite.
    pub custom: CustomWorkload,
    /// `--dir`: where stores are made.
    pub directory: PathBuf,
    /// `--output`: the result file.
    pub output: PathBuf,
    /// `--resume`
    pub resume: bool,
    /// `--cache-size`, in bytes.
    pub cache_bytes: u64,
    /// `--map-size`, in bytes.
    pub map_bytes: u64,
    /// `--compression`
    pub compression: Compression,
    /// How the run is conducted.
    pub conduct: RunConditions,
    /// The command line, without what resumes it.
    pub command: Vec<String>,
    /// The arguments that serve a target's store in a directory, on a free port.
    pub server_arguments: fn(&Target, &Path, u64) -> Vec<String>,
}

/// How a run is conducted, whatever it measures. By default nothing is waited for, repeated or limited.
#[derive(Clone, Debug, Default)]
pub struct RunConditions {
    /// `--quiet-wait`: seconds that the disk has to become idle before each job.
    pub quiet_wait: f64,
    /// `--foreign`: part of the processors that others may take of a job before it is measured again.
    pub foreign_limit: Option<f64>,
    /// `--memory-limit`, in bytes.
    pub memory_limit: Option<u64>,
    /// `--cold`
    pub cold: bool,
    /// `--cpus`
    pub cpus: Cpus,
    /// `--quick` or `--full`: what is not said by other flags.
    pub preset: Option<Preset>,
}

/// Processors by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Of a server of ours.
    pub server: Option<Vec<usize>>,
    /// Of the driver; in process of the engine too, which works in its threads.
    pub driver: Option<Vec<usize>>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// For `--seconds`.
    pub seconds: f64,
    /// For `--keys`.
    pub keys: Option<u64>,
}

impl Default for Options {
    /// Every store of this build, once, with nothing chosen.
    fn default() -> Self {
        Self {
            suite: None,
            stores: Vec::new(),
            durabilities: Vec::new(),
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
            seed: 42,
            value_entropy: 1.0,
            data: None,
            custom: CustomWorkload::default(),
            directory: PathBuf::from("kvbench-bench.tmp"),
            output: PathBuf::from("kvbench.json"),
            resume: false,
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
        }
    }
}

impl Options {
    /// Seconds of a measurement that the user or the preset wants.
    pub fn wanted_seconds(&self) -> Option<f64> {
        let preset = self.conduct.preset.filter(|_| self.operations.is_none());
        self.seconds.or_else(|| preset.map(|preset| preset.seconds))
    }

    /// The same with the keys that its preset says.
    pub fn filled(&self) -> Self {
        let mut filled = self.clone();
        if let Some(preset) = self.conduct.preset {
            filled.keys = self.keys.or(preset.keys);
        }
        filled
    }
}

/// A workload made of flags.
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
}

/// A server that is running already.
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

/// The suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// SET and GET over the wire.
    Kvbench,
    /// Set, get, both, delete, batch.
    Smallnest,
    /// The same over a file of pairs.
    Xdag,
    /// YCSB's core workloads.
    Ycsb,
    /// The rows of redb's table.
    Redb,
    /// A whole experiment, at its own parameters.
    Reproduction(Publication),
}

impl Suite {
    /// Its name, as in result files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvbench => "kvbench",
            Self::Smallnest => "smallnest",
            Self::Xdag => "xdag",
            Self::Ycsb => "ycsb",
            Self::Redb => "redb",
            Self::Reproduction(publication) => publication.suite(),
        }
    }

    /// What the user writes for it.
    fn words(self) -> String {
        match self {
            Self::Reproduction(publication) => format!("reproduce {}", publication.name()),
            suite => format!("--suite {}", suite.name()),
        }
    }
}

/// Publications whose experiments can be done again (`kvbench reproduce`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// tidwall's KVBench.
    Kvbench,
    /// kvstore-bench, of the authors of NutsDB.
    KvstoreBench,
    /// smallnest's kvbench.
    Smallnest,
    /// The fork of that for blocks of the XDAG network.
    Xdag,
    /// The table in redb's README.
    Redb,
    /// The core workloads of YCSB.
    Ycsb,
}

impl Publication {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Kvbench, Self::KvstoreBench, Self::Smallnest, Self::Xdag, Self::Redb, Self::Ycsb];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.suite().strip_prefix("reproduce-").unwrap_or_default()
    }

    /// Its name in result files.
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

    /// That of a result file.
    pub fn of_suite(suite: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|publication| publication.suite() == suite)
    }
}

/// Requests that cannot be measured. Each text names the flag and what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("--stores {name}: this build has {able}")]
    UnknownStore { name: String, able: String },
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
    #[error("{flag}: {} has its own value; leave the flag out", .suite.words())]
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
    #[error("nothing to measure with these --stores: {0}")]
    Nothing(String),
}
