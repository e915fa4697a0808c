//! `kvbench duel`: flags to [`Options`].

use super::{
    bench::{
        WorkloadFlags, cpus, detect, percent_to_100, recorded_arguments, result_file, server_arguments,
        suite_parser,
    },
    units::{MOST_OPERATIONS, MOST_THREADS, count, positive_seconds, positive_size, seconds},
};
use crate::bench::{
    duel::{self, CrateSource, CrateVersions},
    plan::{
        options::{Cpus, Durability, Gate, Interleave, Options, RunConditions, Suite},
        suites,
    },
    result::{self, BuildDescription, Program, statistics::margin::Margin},
    run,
};
use bytesize::ByteSize;
use clap::Args;
use std::path::PathBuf;

// A paragraph is one line: clap wraps it at the width of the terminal.
pub(super) const HELP: &str = "\
Examples:
  kvbench duel target/before/kvbench target/release/kvbench --stores redb --mix get=1 --keys 100k
  kvbench duel before after --suite ycsb --workloads a,c --fsync no --budget 5m
  kvbench duel --crate fjall --base 3.1.6 --head 3.1.13 --mix get=0.9,update=0.1 --fsync no
  kvbench duel --crate redb --base 4.4.0 --head ../redb --mix get=1 --keys 100k

For each store and workload, processes of both programs take turns, and the sentence says whether the new one is \
slower. All comparisons are corrected together: equal programs differ in at most one of 20 duels, and the more stores \
and workloads there are, the more blocks each needs.

Exit code: 0 when each store is faster, equal within --detect, or slower by less than --detect; 1 when one is slower, \
breaks a --gate, or fails in NEW only; 2 when that cannot be told for some store, the numbers of keys differ, or nothing \
could be measured.";

/// Options of `kvbench duel`.
#[derive(Args, Debug)]
pub struct Duel {
    /// kvbench program before a change
    #[arg(
        value_name = "OLD",
        required_unless_present = "crate_name",
        conflicts_with = "crate_name",
        requires = "new"
    )]
    old: Option<PathBuf>,
    /// kvbench program after the change
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
    /// Workloads of a published benchmark that can be measured one by one (ycsb); without it, --mix
    #[arg(long, value_parser = suite_parser(suites::bench_suites()))]
    suite: Option<&'static Suite>,
    /// Workloads of the suite to measure, such as b,c of ycsb [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "suite")]
    workloads: Vec<String>,
    /// Stores to measure [default: all stores that both programs have; those of --crate]
    #[arg(long, value_name = "STORE,...", value_delimiter = ',')]
    stores: Vec<String>,
    /// Durability policies to measure [default: those of the suite, or always and everysec]
    #[arg(long, value_enum, value_delimiter = ',')]
    fsync: Vec<Durability>,
    /// Difference below which the programs are equal
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = detect)]
    detect: Margin,
    /// Counts per operation of which 1% more is a loss too: allocations by the engine's Rust code, instructions, or write
    /// calls of the engine. They hardly vary, so a busy machine hides no increase; where they do vary, the gate cannot tell
    #[arg(long, value_name = "COUNT,...", value_enum, value_delimiter = ',')]
    gate: Vec<Gate>,
    /// Maximum time of the comparison of one store and workload, with its loads
    #[arg(long, value_name = "SECONDS", default_value = "10m", value_parser = positive_seconds)]
    budget: f64,
    /// Running time of each program in a block, for work that only reads; otherwise the least one [default: 2]
    #[arg(long, value_parser = positive_seconds)]
    seconds: Option<f64>,
    /// Keys that are loaded before the measurement [default: the suite's; 1,000,000 without one]
    #[arg(long, value_name = "N", value_parser = count::<u64>(0..=MOST_OPERATIONS))]
    keys: Option<u64>,
    /// Driver threads [default: the suite's, or the number of cores]
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=MOST_THREADS))]
    threads: Option<u32>,
    /// Length of the same load before measuring
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    warm_up: f64,
    /// Seed of random keys, values and choices
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Memory for an engine's cache
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size)]
    cache_size: ByteSize,
    #[command(flatten)]
    versions: VersionFlags,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    conditions: Conditions,
    #[command(flatten)]
    workload: WorkloadFlags,
}

/// Each flag excludes OLD by itself, because clap does not require `--crate` beside an argument that excludes it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Two versions of a crate")]
struct VersionFlags {
    /// Build kvbench with two versions of an engine's crate, and compare these programs
    #[arg(long = "crate", id = "crate_name", value_name = "NAME", requires_all = ["base", "head"])]
    crate_name: Option<String>,
    /// Crate before the change: a published version, a directory (./redb), or git+URL#COMMIT
    #[arg(long, value_name = "SOURCE", requires = "crate_name", conflicts_with = "old")]
    base: Option<CrateSource>,
    /// Crate after the change
    #[arg(long, value_name = "SOURCE", requires = "crate_name", conflicts_with = "old")]
    head: Option<CrateSource>,
    /// Sources of kvbench: a directory, or git+URL#COMMIT, without #COMMIT at that of this program [default: the working
    /// directory]
    #[arg(long, value_name = "PATH|URL", requires = "crate_name", conflicts_with = "old")]
    kvbench: Option<CrateSource>,
    /// Directory for the builds, which are kept [default: $XDG_CACHE_HOME/kvbench/duel]
    #[arg(long, value_name = "DIR", requires = "crate_name", conflicts_with = "old")]
    target_dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
struct Files {
    /// Result file, which `kvbench report` reads [default: kvbench-duel-TIME.json]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continue the stopped duel of --output, or of the newest kvbench-duel-*.json
    #[arg(long)]
    resume: bool,
    /// Replace the result file if it exists
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Directory for the stores; its disk is the one that is measured
    #[arg(long, value_name = "DIR", default_value = "kvbench-duel.tmp")]
    dir: PathBuf,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Machine and time")]
struct Conditions {
    /// Start even if the stores may need more than the free space or memory
    #[arg(long)]
    no_space_check: bool,
    /// Maximum time to wait before each block until the disk is idle
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    quiet_wait: f64,
    /// Repeat a block, at most twice, if other programs or virtual machines used more of the CPUs than this; 100 disables it
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent_to_100)]
    foreign: f64,
    /// Processors for the programs: driver=2,3
    #[arg(long, value_name = "driver=N,...", value_parser = cpus)]
    cpus: Option<Cpus>,
}

impl VersionFlags {
    fn asked(self) -> Option<CrateVersions> {
        Some(CrateVersions {
            name: self.crate_name?,
            base: self.base?,
            head: self.head?,
            sources: self.kvbench,
            directory: self.target_dir,
        })
    }
}

impl Duel {
    /// Returns the options of the run. With --crate, builds both programs after all else has been checked. Asks both what
    /// they measure.
    ///
    /// # Errors
    ///
    /// Fails if a program cannot be built, cannot take part or lacks a store, and with `--resume` if no result file is
    /// found. With --crate, fails also if the run would be refused.
    pub fn options(self) -> anyhow::Result<Options> {
        let versions = self.versions.asked();
        let duel = match (&versions, &self.old, &self.new) {
            (Some(_), _, _) => not_built(),
            (None, Some(old), Some(new)) => {
                result::Duel { old: duel::describe(old)?, new: duel::describe(new)? }
            }
            (None, _, _) => anyhow::bail!("name two programs, or --crate"),
        };
        let stores = match (self.stores.is_empty(), &versions) {
            (true, Some(versions)) => duel::stores_of_crate(&versions.name),
            (true, None) => duel::common_stores(&duel)?,
            (false, _) => self.stores,
        };
        match &versions {
            Some(versions) => versions.check_stores(&stores)?,
            None => duel::check_stores(&duel, &stores)?,
        }
        let options = Options {
            suite: self.suite,
            workloads: self.workloads,
            stores,
            durabilities: self.fsync,
            seconds: self.seconds,
            keys: self.keys,
            threads: self.threads,
            warmup_seconds: self.warm_up,
            interleave: Some(Interleave {
                detect: Some(self.detect),
                budget_seconds: self.budget,
                min_blocks: 0,
                is_default: false,
            }),
            duel: Some(duel),
            gates: self.gate,
            seed: self.seed,
            custom: self.workload.custom(),
            directory: self.files.dir,
            output: result_file(self.files.output, "kvbench-duel", self.files.resume)?,
            resume: self.files.resume,
            force: self.files.force,
            ignores_space: self.conditions.no_space_check,
            cache_bytes: self.cache_size.as_u64(),
            conditions: RunConditions {
                keys_are_explicit: self.keys.is_some(),
                quiet_wait: self.conditions.quiet_wait,
                foreign_limit: Some(self.conditions.foreign).filter(|part| *part < 1.0),
                cpus: self.conditions.cpus.unwrap_or_default(),
                ..RunConditions::default()
            },
            command: recorded_arguments(),
            server_arguments,
            ..Options::default()
        };
        match versions {
            None => Ok(options),
            Some(versions) => built(&versions, options),
        }
    }
}

/// Returns programs that stand for those of --crate in a plan.
fn not_built() -> result::Duel {
    let build = BuildDescription::default();
    let program = Program { path: String::new(), checksum: 0, chosen: None, build };
    result::Duel { old: program.clone(), new: program }
}

/// Builds both programs of --crate, and returns `options` with them. The builds take minutes, so whatever can be refused
/// is refused before them.
fn built(versions: &CrateVersions, options: Options) -> anyhow::Result<Options> {
    run::dry_run::text(&options)?;
    run::check_output(&options)?;
    let duel = versions.build()?;
    duel::check_stores(&duel, &options.stores)?;
    Ok(Options { duel: Some(duel), ..options })
}
