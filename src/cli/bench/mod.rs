//! `kvbench bench`: flags to [`Options`].

mod result_file;
mod run_conditions;
mod value_parsers;

use super::units::{MOST_OPERATIONS, MOST_THREADS, count, positive_seconds, positive_size, rate, seconds};
use crate::{
    bench::{
        plan::{
            options::{
                CustomWorkload, DEFAULT_BUDGET, Durability, ExternalServer, Interleave, Options,
                RunConditions, Suite,
            },
            suites,
        },
        result::{
            Commits, Loses, Order, Size, Target,
            latency_goal::LatencyGoal,
            statistics::{looks::FIRST_LOOK, margin::Margin},
        },
        run,
    },
    engine::{Compression, Fsync, synthetic},
};
use bytesize::ByteSize;
use clap::Args;
pub(super) use result_file::result_file;
use run_conditions::Machine;
use std::{
    env,
    path::{Path, PathBuf},
};
use value_parsers::{Mix, latency_goal, may_lose, minutes, mix, order, part, size, ttl, workload_name};
pub(super) use value_parsers::{cpus, detect, percent, percent_to_100, suite_lines, suite_parser};

pub(super) const EXAMPLES: &str = "\
Examples:
  kvbench bench --suite smallnest --seconds 5 --stores map,btree
  kvbench bench --suite kvbench --seconds 2 --keys 100000
  kvbench bench --suite ycsb --dry-run
  kvbench bench --suite ycsb --full --output ycsb.json
  kvbench bench --suite xdag --data blocks.bin
  kvbench bench --mix get=0.9,update=0.1 --order zipfian --threads 4 --fsync always,no
  kvbench bench --mix get=0.9,update=0.1 --ttl 30s --wire --stores map,rocksdb
  kvbench bench --stores lmdb,redb --mix get=1 --keys 100k --detect 3%
  kvbench bench --find-rate 'p99<5ms' --stores rocksdb,lmdb --mix get=0.9,update=0.1 --fsync everysec
  kvbench bench --minutes 30 --stores rocksdb,lmdb --mix get=0.5,update=0.5 --fsync no
  kvbench bench --suite kvbench --target 127.0.0.1:6379 --target-name redis
To continue a run that was stopped, or in which a measurement failed, repeat the command with --resume.

Exit code: 0, also when the verdict is \"cannot tell\"; 1 when a measurement failed, when stores that were to do equal \
work did not, or when a file could not be read or written; 2 when the command line cannot be measured as it is (such as a \
result that exists, too little disk space, or a condition that is not met); 128 plus the number of the signal that \
stopped it.";

/// Options of `kvbench bench`.
#[derive(Args, Debug)]
pub struct Bench {
    /// Workloads of a published benchmark; without it, --mix and the flags under "Workload without a suite"
    #[arg(long, value_parser = suite_parser(suites::bench_suites()))]
    suite: Option<&'static Suite>,
    /// Workloads of the suite to measure, such as b,c of ycsb [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "suite")]
    workloads: Vec<String>,
    /// Stores to measure; `nothing` measures the harness alone [default: all stores of this build]
    #[arg(long, value_name = "STORE,...", value_delimiter = ',', conflicts_with = "target")]
    stores: Vec<String>,
    /// Largest acceptable loss of acknowledged writes. Each store gets its fastest fsync policy that loses no more, and
    /// one table ranks all of them. nothing, second or anything, for a kill and a power cut alike, or
    /// kill=nothing,power=second. Work that only reads leaves out none
    #[arg(long, value_name = "LOSS", value_parser = may_lose, conflicts_with_all = ["fsync", "target"])]
    may_lose: Option<Loses>,
    /// Durability policies to measure [default: those of the suite, or always and everysec]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "target")]
    fsync: Vec<Durability>,
    /// How writes are committed in process. own: each thread commits its own writes; groups: one thread commits the
    /// writes of all that wait, as the server does. With both, each has its own tables [default: own]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with_all = ["wire", "target"])]
    commits: Vec<Commits>,
    /// Length of a measurement [default: the suite's; 10 s without one; 2 s of each store in a block of stores that take
    /// turns]
    #[arg(long, value_parser = positive_seconds)]
    seconds: Option<f64>,
    /// Soak: measure each store once, for this many minutes, and record what happens in each second. Shows stalls,
    /// deferred work and growth that short measurements hide
    #[arg(
        long,
        value_name = "N",
        value_parser = minutes,
        conflicts_with_all = [
            "seconds", "operations", "suite", "interleave", "detect", "budget", "wire", "target", "quick", "full", "cold",
        ]
    )]
    minutes: Option<f64>,
    /// Search for the highest rate of operations (whether or not earlier ones have ended) at which this holds: p50, p90,
    /// p99, p99.9 or max of the latency below a time, and little deferred work. Trials last --seconds; the rate is
    /// verified for six times as long, at 95%
    #[arg(
        long,
        value_name = "p99<5ms",
        value_parser = latency_goal,
        conflicts_with_all = ["minutes", "operations", "rate", "suite", "interleave", "detect", "budget", "quick", "full", "cold"]
    )]
    find_rate: Option<LatencyGoal>,
    /// Operations of a measurement; with --seconds, whichever ends first
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..=MOST_OPERATIONS))]
    operations: Option<u64>,
    /// Keys that are loaded before the measurement [default: the suite's; 1,000,000 without one]
    #[arg(long, value_name = "N", value_parser = count::<u64>(0..=MOST_OPERATIONS))]
    keys: Option<u64>,
    /// Driver threads, or clients over the wire [default: the suite's, or the number of cores]
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=MOST_THREADS))]
    threads: Option<u32>,
    /// Length of the same load before measuring [default: 0.5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    warm_up: Option<f64>,
    /// Start operations at this rate, whether or not earlier ones have ended; one cell for each rate. Latency counts
    /// from the intended start. Workloads of a suite that fill or empty a store run as fast as they can
    #[arg(long, visible_alias = "rates", value_name = "PER SECOND,...", value_delimiter = ',', value_parser = rate)]
    rate: Vec<f64>,
    /// How often each cell is measured, each time in another order; tables show the median [default: 5; 1 with
    /// --minutes or --find-rate; as many as a comparison of stores that take turns needs]
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=1000))]
    repetitions: Option<u32>,
    /// Seed of random keys, values and choices
    #[arg(long, default_value_t = 42)]
    seed: u64,

    /// Part of each value that is random, from 0 to 1; the rest is zeros, which can be compressed
    #[arg(long, value_name = "PART", default_value = "1", value_parser = part, conflicts_with = "data")]
    value_entropy: f64,

    #[command(flatten)]
    comparison: ComparisonFlags,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    wire: WireFlags,

    /// Memory for an engine's cache [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = positive_size, help_heading = "Stores", conflicts_with = "target")]
    cache_size: Option<ByteSize>,
    /// Largest size of the data file of LMDB and MDBX
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "256GiB",
        value_parser = positive_size,
        help_heading = "Stores",
        conflicts_with = "target"
    )]
    map_size: ByteSize,
    /// Compression of blocks on disk; stores without it are left out
    #[arg(long, value_enum, default_value = "none", help_heading = "Stores", conflicts_with = "target")]
    compression: Compression,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Comparison")]
struct ComparisonFlags {
    /// Refuse what cannot take turns. Several stores take turns (while one runs, all others are stopped) where they can:
    /// with a --mix or --suite ycsb, without --repetitions, --quick or --full. This finds much smaller differences than
    /// repetitions
    #[arg(long, conflicts_with = "repetitions")]
    interleave: bool,
    /// Difference that the comparison shall find, and below which stores are equal. Without it, five blocks are
    /// measured, with 3%, and the command prints what this difference would need
    #[arg(long, value_name = "PERCENT", value_parser = detect, conflicts_with = "repetitions")]
    detect: Option<Margin>,
    /// Maximum time of the comparison of the stores in one row of a table, with its loads [default: 10m, but at least five
    /// blocks]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, conflicts_with = "repetitions")]
    budget: Option<f64>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
struct Files {
    /// Result file [default: kvbench-SUITE-TIME.json]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continue the stopped run of --output, or of the newest kvbench-SUITE-*.json, and measure again what failed in it,
    /// except stores that took turns
    #[arg(long)]
    resume: bool,
    /// Replace the result file if it exists
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Directory for the stores; its disk is the one that is measured
    #[arg(long, value_name = "DIR", default_value = "kvbench-bench.tmp")]
    dir: PathBuf,
    /// Pairs for --suite xdag: records of a 32-byte key and a 512-byte value [default: generated, and removed at the end]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Workload without a suite")]
pub(super) struct WorkloadFlags {
    /// Name of the workload in the result
    #[arg(long, default_value = "custom", value_parser = workload_name, conflicts_with = "suite")]
    name: String,
    /// Operations and their shares: get, get-miss, update, insert, read-modify-write, scan, delete
    #[arg(long, value_name = "OPERATION=PART,...", default_value = "get=1", value_parser = mix, conflicts_with = "suite")]
    mix: Mix,
    /// Length of keys, or the shortest and the longest
    #[arg(long, value_name = "N|N-M", default_value = "16", value_parser = size, conflicts_with = "suite")]
    key_bytes: Size,
    /// Length of values, or the shortest and the longest
    #[arg(long, value_name = "N|N-M", default_value = "100", value_parser = size, conflicts_with = "suite")]
    value_bytes: Size,
    /// How keys are chosen: sequential, uniform, zipfian, zipfian:THETA, latest, or hot:KEYS:OPERATIONS
    /// (hot:0.1:0.9 sends 90% of operations to 10% of keys)
    #[arg(long, default_value = "uniform", value_parser = order, conflicts_with = "suite")]
    order: Order,
    /// Number of writes in one atomic batch; over the wire, number of requests in a pipeline
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>(1..=1_000_000), conflicts_with = "suite")]
    batch: u32,
    /// Pairs that a scan visits
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count::<u32>(1..=u32::MAX.into()), conflicts_with = "suite")]
    scan_length: u32,
    /// Make keys that sort in the order of their numbers, not spread by a hash (always so with --order sequential)
    #[arg(long, conflicts_with = "suite")]
    ordered_keys: bool,
    /// Let values expire this long after they are written (SET with PX), and count the removal of expired keys. Loaded
    /// keys expire evenly over this time. Reads of expired keys are counted apart, not as faults. In process it implies
    /// --commits groups
    #[arg(long, value_name = "TIME", value_parser = ttl, conflicts_with = "suite")]
    ttl: Option<u64>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Over the wire")]
struct WireFlags {
    /// Measure over the wire: start a kvbench server for each cell
    #[arg(long, conflicts_with = "target")]
    wire: bool,
    /// Measure a server that speaks RESP, without a password or TLS; it must be empty, and is emptied at the end
    #[arg(long, value_name = "HOST:PORT")]
    target: Option<String>,
    /// Name of the --target in the result [default: server]
    #[arg(long, value_name = "NAME")]
    target_name: Option<String>,
    /// The durability policy that the --target was started with
    #[arg(long, value_enum)]
    target_fsync: Option<Durability>,
    /// Process of the --target on this machine, for processor time and memory
    #[arg(long, value_name = "PID")]
    target_pid: Option<u32>,
    /// Empty the --target first (FLUSHDB): all its keys are lost
    #[arg(long)]
    flush_target: bool,
}

/// Returns the part of `kvbench bench -h` with a line for each suite, and some examples.
pub(super) fn short_help() -> String {
    let mut text = format!("Suites:\n{}\n\nExamples:\n", suite_lines(suites::bench_suites(), 10));
    text.push_str("  kvbench bench --suite ycsb --stores lmdb,redb --quick\n");
    text.push_str("  kvbench bench --mix get=0.9,update=0.1 --value-bytes 1KiB --may-lose second --quick\n");
    text.push_str("All flags, in groups: kvbench bench --help");
    text
}

impl Bench {
    /// Returns `true` with `--dry-run`.
    pub fn is_dry(&self) -> bool {
        self.machine.dry_run
    }

    /// Returns `true` if a flag sets the number of repetitions.
    fn sets_repetitions(&self) -> bool {
        let has_preset = self.machine.has_preset();
        has_preset || self.repetitions.is_some() || self.minutes.is_some() || self.find_rate.is_some()
    }

    /// Returns the options of the benchmark run that the flags describe.
    ///
    /// # Errors
    ///
    /// [`run::Error::NothingToResume`] with `--resume`, if there is no result file to continue, and
    /// [`run::Error::Conditions`] if a flag that describes the server of `--target` is given without it.
    pub fn options(self) -> Result<Options, run::Error> {
        let default = Options::default();
        let (repetitions, warmup_seconds) = match (self.minutes, self.find_rate) {
            // A soak shows the start too.
            (Some(_), _) => (1, 0.0),
            (_, Some(_)) => (1, self.machine.defaults().1),
            _ => self.machine.defaults(),
        };
        let name = self.suite.map_or(self.workload.name.clone(), |suite| suite.name.into());
        let limits = self.comparison.limits();
        let is_repeated = self.sets_repetitions();
        let wire = self.wire.wire;
        let target = self.wire.foreign()?;
        let conditions = self.machine.conditions(target.is_some());
        let options = Options {
            suite: self.suite,
            workloads: self.workloads,
            output: result_file(self.files.output, &format!("kvbench-{name}"), self.files.resume)?,
            stores: self.stores,
            durabilities: self.fsync,
            may_lose: self.may_lose,
            commits: self.commits,
            wire,
            target,
            // Whole milliseconds: 0.57 minutes are 34.2 s, not 34.199999999999996 s.
            seconds: self.seconds.or(self.minutes.map(|minutes| (minutes * 60e3).round() / 1e3)),
            is_soak: self.minutes.is_some(),
            rate_goal: self.find_rate,
            operations: self.operations,
            keys: self.keys,
            threads: self.threads,
            warmup_seconds: self.warm_up.unwrap_or(warmup_seconds),
            warmup_is_explicit: self.warm_up.is_some_and(|seconds| seconds > 0.0),
            rates: self.rate,
            repetitions: self.repetitions.unwrap_or(repetitions),
            interleave: self.comparison.is_asked_for().then_some(limits),
            duel: None,
            gates: Vec::new(),
            seed: self.seed,
            value_entropy: self.value_entropy,
            data: self.files.data,
            custom: self.workload.custom(),
            directory: self.files.dir,
            resume: self.files.resume,
            force: self.files.force,
            ignores_space: self.machine.no_space_check,
            cache_bytes: self.cache_size.map_or(default.cache_bytes, |size| size.as_u64()),
            map_bytes: self.map_size.as_u64(),
            compression: self.compression,
            conditions: RunConditions {
                keys_are_explicit: self.keys.is_some(),
                cache_is_explicit: self.cache_size.is_some(),
                ..conditions
            },
            command: recorded_arguments(),
            server_arguments,
        };
        let in_turns = Options { interleave: Some(limits), ..options.clone() };
        Ok(if !is_repeated && suites::can_take_turns(&in_turns) { in_turns } else { options })
    }
}

impl ComparisonFlags {
    /// Returns `true` if the stores must take turns, because a flag of the comparison is given.
    fn is_asked_for(&self) -> bool {
        self.interleave || self.detect.is_some() || self.budget.is_some()
    }

    fn limits(&self) -> Interleave {
        Interleave {
            detect: self.detect,
            budget_seconds: self.budget.unwrap_or(DEFAULT_BUDGET),
            min_blocks: if self.budget.is_some() { 0 } else { FIRST_LOOK },
            is_default: !self.is_asked_for(),
        }
    }
}

impl WorkloadFlags {
    pub(super) fn custom(self) -> CustomWorkload {
        CustomWorkload {
            name: self.name,
            mix: self.mix.0,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            order: self.order,
            batch: self.batch,
            scan_length: self.scan_length,
            ordered_keys: self.ordered_keys,
            ttl_ms: self.ttl,
        }
    }
}

impl WireFlags {
    /// Returns the server of `--target`, or `None` without the flag.
    ///
    /// # Errors
    ///
    /// [`run::Error::Conditions`] if a flag that describes the server is given without `--target`. clap's `requires` would
    /// not notice it beside a flag that conflicts with `--target`.
    fn foreign(self) -> Result<Option<ExternalServer>, run::Error> {
        let describing = [
            ("--target-name", self.target_name.is_some()),
            ("--target-fsync", self.target_fsync.is_some()),
            ("--target-pid", self.target_pid.is_some()),
            ("--flush-target", self.flush_target),
        ];
        let given = describing.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag));
        match (self.target, given) {
            (None, Some(flag)) => Err(run::Error::Conditions(format!(
                "{flag} describes the server of --target; add --target HOST:PORT, or leave {flag} out"
            ))),
            (None, None) => Ok(None),
            (Some(address), _) => Ok(Some(ExternalServer {
                address,
                name: self.target_name.unwrap_or_else(|| "server".into()),
                durability: self.target_fsync,
                pid: self.target_pid,
                flush: self.flush_target,
            })),
        }
    }
}

/// Returns the arguments of this process for the result file, without `--resume`. Bytes that are no UTF-8 are replaced.
pub(super) fn recorded_arguments() -> Vec<String> {
    let arguments = env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    arguments.filter(|argument| argument != "--resume").collect()
}

/// Returns the arguments with which `kvbench` serves the store of a benchmark target on a free port, with data at
/// `path`, or in memory if the target is not persistent. `map_bytes` is the value of `--map-size`, which the server
/// refuses for stores without a memory map. A cache of 0 bytes is that of an engine without a cache.
pub(super) fn server_arguments(target: &Target, path: &Path, map_bytes: u64) -> Vec<String> {
    let path = if target.persistent { path.display().to_string() } else { ":memory:".into() };
    let fsync = target.fsync.unwrap_or(Fsync::Always);
    let (cache, map) = (target.cache_bytes.to_string(), map_bytes.to_string());
    let maps = synthetic::info(&target.store).is_some_and(|info| info.capabilities.map_size);
    let sizes = [("--cache-size", &*cache, target.cache_bytes > 0), ("--map-size", &map, maps)];
    let sizes = sizes.into_iter().filter(|(.., is_used)| *is_used).map(|(flag, size, _)| (flag, size));
    let flags = [
        ("--store", target.store.as_str()),
        ("--path", &path),
        ("--fsync", fsync.as_str()),
        ("--compression", target.compression.as_str()),
        ("--port", "0"),
        ("--log-level", "error"),
    ];
    ["serve"]
        .into_iter()
        .chain(flags.into_iter().chain(sizes).flat_map(|(flag, value)| [flag, value]))
        .map(Into::into)
        .collect()
}
