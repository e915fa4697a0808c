//! `kvbench reproduce`: flags to [`Options`].

use super::{
    bench::{percent_to_100, recorded_arguments, result_file, server_arguments, suite_lines, suite_parser},
    units::{MOST_OPERATIONS, count, positive_seconds, positive_size, rate, seconds, size},
};
use crate::bench::{
    plan::{
        options::{Options, Preset, RunConditions, Suite},
        suites,
    },
    run,
};
use bytesize::ByteSize;
use clap::Args;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  kvbench reproduce redb --quick
  kvbench reproduce kvbench --dry-run
  kvbench reproduce kvbench --output kvbench.json > kvbench.md
  kvbench reproduce ycsb --keys 1000000 --rates 1000,2000,4000 --memory-limit 512MiB
To continue a run that was stopped, or in which a measurement failed, repeat the command with --resume. For a complete
run this prints the tables again.";

/// Options of `kvbench reproduce`.
#[derive(Args, Debug)]
pub struct Reproduce {
    /// The publication whose experiment is repeated
    #[arg(value_parser = suite_parser(suites::publications()))]
    publication: &'static Suite,
    /// A first look, in minutes: 5,000 keys, and 0.5 s for work that has a duration; other flags take precedence
    #[arg(long)]
    quick: bool,
    /// Print what would be measured, how long it takes and how much disk it needs; measure nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Stores to measure [default: all of this build, and redis where it is in the publication]
    #[arg(long, value_name = "STORE,...", value_delimiter = ',')]
    stores: Vec<String>,
    /// Number of keys, in place of the publication's; its other counts change in proportion
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..=MOST_OPERATIONS))]
    keys: Option<u64>,
    /// Duration of work that has one
    #[arg(long, value_parser = positive_seconds)]
    seconds: Option<f64>,
    /// Operations to start per second, with rows for each rate (YCSB's -target)
    #[arg(long, visible_alias = "rate", value_name = "PER SECOND,...", value_delimiter = ',', value_parser = rate)]
    rates: Vec<f64>,
    /// How often everything is measured; the tables show the median
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>(1..=1000))]
    repetitions: u32,
    /// Result file [default: reproduce-PUBLICATION-TIME.json]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continue the stopped run of --output, or of the newest reproduce-PUBLICATION-*.json, and measure again what failed
    /// in it
    #[arg(long)]
    resume: bool,
    /// Replace the result file if it exists
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Directory for the stores; its disk is the one that is measured
    #[arg(long, value_name = "DIR", default_value = "kvbench-reproduce.tmp")]
    dir: PathBuf,
    /// Blocks for xdag: records of a 32-byte key and a 512-byte value [default: generated, and removed at the end]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Memory for an engine's cache [default: 4GiB for redb, else 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    cache_size: Option<ByteSize>,
    /// Limit of memory for each store, page cache included (needs root, or a delegated control group)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<ByteSize>,
    /// Maximum time to wait before each cell until the disk is idle
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    quiet_wait: f64,
    /// Repeat a cell, at most twice, if other programs or virtual machines used more of the CPUs than this; 100 disables it
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent_to_100)]
    foreign: f64,
}

/// Returns a line for each publication: its name and its experiment.
pub(super) fn publications() -> String {
    suite_lines(suites::publications(), 13)
}

impl Reproduce {
    /// Returns the options of the benchmark run that repeats the publication's experiment.
    ///
    /// # Errors
    ///
    /// [`run::Error::NothingToResume`] with `--resume`, if there is no result file to continue.
    pub fn options(self) -> Result<Options, run::Error> {
        let publication = self.publication;
        let cache = publication.cache_bytes.unwrap_or(Options::default().cache_bytes);
        Ok(Options {
            suite: Some(publication),
            stores: self.stores,
            seconds: self.seconds,
            keys: self.keys,
            rates: self.rates,
            repetitions: self.repetitions,
            data: self.data,
            directory: self.dir,
            output: result_file(self.output, publication.name, self.resume)?,
            resume: self.resume,
            force: self.force,
            cache_bytes: self.cache_size.map_or(cache, |size| size.as_u64()),
            conditions: RunConditions {
                keys_are_explicit: self.keys.is_some(),
                cache_is_explicit: self.cache_size.is_some(),
                quiet_wait: self.quiet_wait,
                foreign_limit: Some(self.foreign).filter(|part| *part < 1.0),
                memory_limit: self.memory_limit.map(|size| size.as_u64()),
                preset: self.quick.then_some(Preset { seconds: 0.5, keys: Some(5_000) }),
                ..RunConditions::default()
            },
            command: recorded_arguments(),
            server_arguments,
            ..Options::default()
        })
    }
}
