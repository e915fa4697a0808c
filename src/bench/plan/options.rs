//! Options of a benchmark run, typed, and the errors of plans that cannot be measured.

pub use crate::engine::Durability;
use crate::{
    bench::result::{
        Access, Cell, Commits, Duel, Loses, Operation, Order, Size, Target, latency_goal::LatencyGoal,
        statistics::margin::Margin,
    },
    engine::{Compression, Fsync},
};
use clap::ValueEnum;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Default of `--budget`: maximum time to compare the stores of one row of a table, in seconds.
pub const DEFAULT_BUDGET: f64 = 600.0;

/// All options of `kvbench bench`. The suite chooses a value for most options that are absent.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--suite`; `None` for a workload that flags such as `--mix` define.
    pub suite: Option<&'static Suite>,
    /// `--workloads`: names of the suite's workloads; empty for all.
    pub workloads: Vec<String>,
    /// `--stores`: names of the stores to measure; empty for all of this build.
    pub stores: Vec<String>,
    /// `--fsync`: fsync policies, or memory, with which each store is measured; empty for those of the suite.
    pub durabilities: Vec<Durability>,
    /// `--may-lose`: the largest loss that is allowed; each store gets its fastest fsync policy that loses no more.
    /// `None`: policies are those of `--fsync`.
    pub may_lose: Option<Loses>,
    /// `--commits`: ways to commit that are measured in process. Empty: each thread commits its own writes or, with
    /// `--ttl`, a commit thread those of all.
    pub commits: Vec<Commits>,
    /// `--wire`: measures stores over the wire, with a kvbench server for each job.
    pub wire: bool,
    /// `--target`: the external server that is measured, which is running already; `None` for the stores of this build.
    pub target: Option<ExternalServer>,
    /// `--seconds`: duration of a measurement; `None` for the default of `--quick`, `--full` or the suite.
    pub seconds: Option<f64>,
    /// `--minutes`: the measurement is a soak, which records what happens in each second of `seconds`.
    pub is_soak: bool,
    /// `--find-rate`: latency that the highest rate is searched for; `None` without the flag.
    pub rate_goal: Option<LatencyGoal>,
    /// `--operations`: number of operations after which a measurement ends; `None` without such a limit.
    pub operations: Option<u64>,
    /// `--keys`: number of keys; `None` for the default of `--quick`, `--full` or the suite.
    pub keys: Option<u64>,
    /// `--threads`: number of threads, or of clients over the wire; `None` for the suite's choice, mostly the number of
    /// CPUs.
    pub threads: Option<u32>,
    /// `--warm-up`: duration of unmeasured operations before each measurement, in seconds.
    pub warmup_seconds: f64,
    /// `true` if the user gave `--warm-up`: a default warm-up is silently dropped where none is possible, an
    /// explicit one is an error.
    pub warmup_is_explicit: bool,
    /// `--rates`, in operations per second: each cell is measured at each of them, as an open loop; empty for a closed
    /// loop.
    pub rates: Vec<f64>,
    /// `--repetitions`: number of measurements of each cell that is in no interleaved comparison.
    pub repetitions: u32,
    /// Limits of the comparison in which stores take turns; `None` if they are measured one after the other.
    pub interleave: Option<Interleave>,
    /// The two programs of `kvbench duel`, which take turns in place of the stores.
    pub duel: Option<Duel>,
    /// `kvbench duel --gate`: counts whose increase is a loss too.
    pub gates: Vec<Gate>,
    /// `--seed`, from which keys, values and random choices are made.
    pub seed: u64,
    /// `--value-entropy`: fraction of the bytes of a value that are random, from 0 to 1; the others are zeros.
    pub value_entropy: f64,
    /// `--data`: file of keys and values for suites that read one; `None` without the flag.
    pub data: Option<PathBuf>,
    /// The workload of a run without a suite.
    pub custom: CustomWorkload,
    /// `--dir`: the directory in which stores are created.
    pub directory: PathBuf,
    /// `--output`: the result file.
    pub output: PathBuf,
    /// `--resume`: continues the run in the result file.
    pub resume: bool,
    /// `--force`: overwrites a result file that exists.
    pub force: bool,
    /// `--no-space-check`: starts even if the free space or `--map-size` may not suffice.
    pub ignores_space: bool,
    /// `--cache-size`: size of each store's cache, in bytes.
    pub cache_bytes: u64,
    /// `--map-size`: maximum size of a memory-mapped data file (LMDB, MDBX), in bytes.
    pub map_bytes: u64,
    /// `--compression` of the stores' files.
    pub compression: Compression,
    /// Conditions of the run that do not depend on its workloads, such as `--cold` and `--cpus`.
    pub conditions: RunConditions,
    /// Arguments of the command line, as the result file records them: without the program's name and `--resume`.
    pub command: Vec<String>,
    /// Function that returns the arguments with which this program serves a target's store, on a free port. It takes
    /// the target, the directory of the store's files, and the maximum size of a memory-mapped file in bytes.
    pub server_arguments: fn(&Target, &Path, u64) -> Vec<String>,
}

/// Limits of a comparison in which stores take turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interleave {
    /// `--detect`: difference that the comparison shall find; without it, the comparison ends after the first blocks.
    pub detect: Option<Margin>,
    /// `--budget`: maximum time to compare the stores of one row of a table, in seconds.
    pub budget_seconds: f64,
    /// Minimum number of blocks, whatever the budget is; 0 if the user gave the budget.
    pub min_blocks: u32,
    /// `true` if the user has not asked for turns, so that the stores are measured one after the other where memory or
    /// disk cannot hold all of them.
    pub is_default: bool,
}

/// Count per operation whose increase from one program of a duel to the other is a loss too (`--gate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Gate {
    /// Allocations by the engine's Rust code.
    Allocations,
    /// Instructions that the process with the engine executes in user space.
    Instructions,
    /// Write calls of the engine.
    WriteCalls,
}

/// Conditions under which a run measures, independent of the workload. A run under the default value waits for
/// nothing, repeats nothing and limits nothing.
#[derive(Clone, Debug, Default)]
pub struct RunConditions {
    /// `--quiet-wait`: maximum time in seconds to wait, before each job, until the disk is idle.
    pub quiet_wait: f64,
    /// `--foreign`, as a fraction of all CPUs: a job during which other processes use more is repeated, at most twice.
    pub foreign_limit: Option<f64>,
    /// `--memory-limit`: limit of the memory and page cache of measured processes, in bytes; `None` without a limit.
    pub memory_limit: Option<u64>,
    /// `--cold`: before cells are measured, the store is closed, its files are dropped from the page cache, and it is
    /// opened again.
    pub cold: bool,
    /// `--cpus` of the server and of the driver.
    pub cpus: Cpus,
    /// `true` if the user gave `--keys`: the run then does not warn that the data exceed memory or cache.
    pub keys_are_explicit: bool,
    /// `true` if the user gave `--cache-size`: the run then does not warn that the data exceed the cache.
    pub cache_is_explicit: bool,
    /// `--quick` or `--full`: defaults for flags that are absent; `None` without both.
    pub preset: Option<Preset>,
}

/// Numbers of the CPUs that the server and the driver may use (`--cpus`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Numbers of the CPUs of the server that this run starts; `None` for no restriction.
    pub server: Option<Vec<usize>>,
    /// Numbers of the CPUs of the driver, and in process of the engine too, which runs in the driver's threads; `None`
    /// for no restriction.
    pub driver: Option<Vec<usize>>,
}

/// Defaults of flags that `--quick` or `--full` stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Default of `--seconds`.
    pub seconds: f64,
    /// Default of `--keys`; `None` for that of the suite.
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
            is_soak: false,
            rate_goal: None,
            operations: None,
            keys: None,
            threads: None,
            warmup_seconds: 0.0,
            warmup_is_explicit: false,
            rates: Vec::new(),
            repetitions: 1,
            interleave: None,
            duel: None,
            gates: Vec::new(),
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
            conditions: RunConditions::default(),
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
    /// Returns the duration of a measurement in seconds, from `--seconds`, `--quick` or `--full`. `None`: the suite
    /// chooses, or the measurement ends by operations.
    pub fn wanted_seconds(&self) -> Option<f64> {
        let preset = self.conditions.preset.filter(|_| self.operations.is_none());
        self.seconds.or_else(|| preset.map(|preset| preset.seconds))
    }

    /// Returns a copy of the options with the number of keys of `--quick` or `--full`, if `--keys` is absent.
    pub fn filled(&self) -> Self {
        let mut filled = self.clone();
        if let Some(preset) = self.conditions.preset {
            filled.keys = self.keys.or(preset.keys);
        }
        filled
    }

    /// Returns the data file that is generated before the first measurement of a run and removed at its end; `None` with
    /// `--data`, or if the suite reads none.
    pub fn generated_data(&self) -> Option<DataFile> {
        let generated = self.suite?.generated_data.filter(|_| self.data.is_none())?;
        Some(generated(&self.filled()))
    }
}

/// Workload that flags define, for a run without a suite.
#[derive(Clone, Debug)]
pub struct CustomWorkload {
    /// `--name` of the workload, in tables and cell ids.
    pub name: String,
    /// `--mix`: weight of each kind of operation.
    pub mix: BTreeMap<Operation, f64>,
    /// `--key-bytes`: length of keys in bytes.
    pub key_bytes: Size,
    /// `--value-bytes`: length of values in bytes.
    pub value_bytes: Size,
    /// `--order`: how operations choose keys, such as uniformly or by a Zipfian distribution.
    pub order: Order,
    /// `--batch`: number of writes in a write batch, or over the wire of requests in a pipeline.
    pub batch: u32,
    /// `--scan-length`: number of pairs that a scan visits.
    pub scan_length: u32,
    /// `--ordered-keys`: the bytes of keys are in the order of their numbers, not hashed.
    pub ordered_keys: bool,
    /// `--ttl`: time to live of written values, in milliseconds; `None` if they do not expire.
    pub ttl_ms: Option<u64>,
}

/// External server, which is running already (`--target`).
#[derive(Clone, Debug)]
pub struct ExternalServer {
    /// `--target`: address of the server.
    pub address: String,
    /// `--target-name`: name of the server in tables.
    pub name: String,
    /// `--target-fsync`: durability of the server, as the user states it; `None` if it is not known.
    pub durability: Option<Durability>,
    /// `--target-pid`: process id of the server, if it runs on this machine; `None` if it was not given.
    pub pid: Option<u32>,
    /// `--flush-target`: the run may remove all keys that the server holds.
    pub flush: bool,
}

/// Heading of the tables' column of row names, and the cells of a suite.
pub type Rows = (&'static str, Vec<Cell>);

/// Path of a file of keys and values, and the number of pairs in it.
pub type DataFile = (PathBuf, u64);

/// Workloads of a published benchmark (`--suite`), or a published experiment with its own parameters (`kvbench
/// reproduce`), which is called a publication. `plan::suites` has the list of all.
#[derive(Debug)]
pub struct Suite {
    /// Name in result files and cell ids, such as `ycsb`; for a publication, `reproduce-` and its word.
    pub name: &'static str,
    /// Description in the help of `kvbench bench` or `kvbench reproduce`, in one line.
    pub about: &'static str,
    /// Function that returns the cells of the suite for a user's options.
    pub cells: fn(&Options) -> Result<Rows, PlanError>,
    /// Fsync policies, or memory, that are measured without `--fsync`.
    pub default_fsync: &'static [Durability],
    /// Access of all cells: always in process, or always over the wire; `None` if `--wire` and `--target` decide.
    pub access: Option<Access>,
    /// Program that the publication measures beside the stores, such as `redis-server`; `None` if there is none.
    pub program: Option<&'static str>,
    /// Function that returns the data file that a run without `--data` generates; `None` if the suite reads no file.
    pub generated_data: Option<fn(&Options) -> DataFile>,
    /// Default of `kvbench reproduce --cache-size` in bytes; `None` for that of all other commands.
    pub cache_bytes: Option<u64>,
    /// `true` if the terminal shows the mean latencies too, as the original benchmark does.
    pub mean_latency: bool,
    /// Published results as JSON, which `bench::reproduce` reads; `None` for suites that are no publications.
    pub published: Option<&'static str>,
}

impl Suite {
    /// Returns a suite of `--suite` whose cells are measured under `always`, under `no` and in memory; in process, or
    /// with `--wire` or `--target` over the wire.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        cells: fn(&Options) -> Result<Rows, PlanError>,
    ) -> Self {
        Self {
            name,
            about,
            cells,
            default_fsync: &[
                Durability::Files(Fsync::Always),
                Durability::Files(Fsync::No),
                Durability::Memory,
            ],
            access: None,
            program: None,
            generated_data: None,
            cache_bytes: None,
            mean_latency: false,
            published: None,
        }
    }

    /// Returns the name on the command line: the value of `--suite`, or the argument of `kvbench reproduce`.
    pub fn word(&self) -> &'static str {
        self.name.strip_prefix("reproduce-").unwrap_or(self.name)
    }

    /// Returns the flag or command that selects the suite, such as `--suite ycsb`.
    fn selector(&self) -> String {
        let command = if self.published.is_some() { "reproduce" } else { "--suite" };
        format!("{command} {}", self.word())
    }
}

/// Errors of options that cannot be measured. Each message names the flag and what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("--stores {name}: this build has {able}{hint}")]
    UnknownStore { name: String, able: String, hint: String },
    #[error(
        "--stores {0}: it keeps its data on other machines; start `kvbench --store {0}`, and measure it with `kvbench \
        bench --target HOST:PORT`"
    )]
    StoreElsewhere(&'static str),
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
    #[error(
        "--key-bytes {0}: keys that are spread by a hash have at least 8 bytes; raise it, or add --ordered-keys"
    )]
    ShortHashedKeys(u32),
    #[error(
        "--batch: in process, --mix {0} has no operation that waits for a batch; add update, insert or delete, or leave \
        out --batch"
    )]
    NoBatch(String),
    #[error("--keys 0: --mix {0} needs keys")]
    NoKeys(&'static str),
    #[error(
        "--seconds: --mix {0} fills or empties the store, with the same number of keys for every store; use \
        --operations"
    )]
    NotByTime(String),
    #[error(
        "{flag}: --mix {mix} only fills or empties the store, which ends by count; add an operation such as update"
    )]
    EndsByCount { flag: &'static str, mix: String },
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
    #[error("--data: only --suite xdag reads a file; add it, or leave out --data")]
    DataWithoutSuite,
    #[error(
        "--order: --mix {0} chooses no keys, because inserts, deletes and get-miss take each key once; leave it out"
    )]
    NoChoice(String),
    #[error("--workloads names workloads of a suite; add --suite ycsb, or leave --workloads out")]
    WorkloadsWithoutSuite,
    #[error("--scan-length: --mix {0} has no scan; add one, or leave out --scan-length")]
    NoScan(String),
    #[error(
        "--fsync memory: --suite storage measures files, and a store in memory has none; add another policy"
    )]
    NoFiles,
    #[error("--map-size {map_size} does not work with --stores {stores}; it works with {able}")]
    NoMemoryMap { map_size: u64, stores: String, able: String },
    #[error("{flag}: {} has its own value; leave the flag out", .suite.selector())]
    Ignored { flag: &'static str, suite: &'static Suite },
    #[error("--keys: {} takes at least {least} keys; raise --keys", .suite.selector())]
    FewKeys { least: u64, suite: &'static Suite },
    #[error(
        "--cpus server=: in process there is no server, and the engine runs in the driver's threads; use --cpus \
        driver=, or kvbench bench --wire"
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
    #[error(
        "--cold: a store in memory has no files to drop from the page cache; leave out --fsync memory, or --cold"
    )]
    ColdMemory,
    #[error("--memory-limit cannot be set for a server that is already running; leave out --target")]
    ForeignMemory,
    #[error("--foreign: with --target, CPU time of other programs is not measured; leave out --foreign")]
    ForeignPrograms,
    #[error(
        "--interleave, --detect and --budget compare stores; name at least two with --stores that can be \
        measured{reasons}"
    )]
    OneStore { reasons: String },
    #[error("stores cannot take turns: {0}; leave it out, or leave out --interleave, --detect and --budget")]
    NotInterleaved(&'static str),
    #[error("kvbench duel: {0}")]
    NotInDuel(&'static str),
    #[error("--suite {0}: its workloads continue on each other's data; compare a --mix, or --suite ycsb")]
    NothingAlone(&'static str),
    #[error("nothing to measure with these --stores: {0}")]
    Nothing(String),
}
