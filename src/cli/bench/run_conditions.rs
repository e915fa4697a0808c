//! Flags of `bench` on the conditions of a run.

use super::{
    super::units::{seconds, size},
    percent_to_100,
    value_parsers::cpus,
};
use crate::bench::plan::options::{Cpus, Preset, RunConditions};
use bytesize::ByteSize;
use clap::Args;

#[derive(Args, Debug)]
#[command(next_help_heading = "Machine and time")]
pub(super) struct Machine {
    /// Print what would be measured, how long it takes and how much disk it needs; measure nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Start even if the stores may need more than the free space, or than --map-size
    #[arg(long)]
    pub no_space_check: bool,
    /// Short measurement for a first look: 3 repetitions of 0.5 s without warm-up, 20,000 keys; other flags take precedence
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Long measurement for decisions: 30 s after a warm-up of 5 s, with the keys of the suite; other flags take precedence
    #[arg(long)]
    full: bool,
    /// Maximum time to wait before each cell until the disk is idle
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    quiet_wait: f64,
    /// Repeat a cell, at most twice, if other programs or virtual machines used more of the CPUs than this; 100 disables it
    /// [default: 10; with --target 100]
    #[arg(long, value_name = "PERCENT", value_parser = percent_to_100)]
    foreign: Option<f64>,
    /// Limit of memory for each store, page cache included (needs root, or a delegated control group)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<ByteSize>,
    /// Before each cell, close the store, drop its files from the page cache, and open it again; without --operations
    /// a cell ends after a twentieth of the keys, because later reads find more and more in memory
    #[arg(long)]
    cold: bool,
    /// Processors for the kvbench server and for the driver: server=0,1/driver=2,3; in process driver= only
    #[arg(long, value_name = "PLACE=N,.../...", value_parser = cpus)]
    cpus: Option<Cpus>,
}

/// Default share of the CPUs, from 0 to 1, that other programs may use.
const FOREIGN: f64 = 0.1;

impl Machine {
    /// Returns the conditions that the flags describe. `has_target` is `true` with `--target`, for which CPU time of other
    /// programs is not measured.
    pub fn conditions(&self, has_target: bool) -> RunConditions {
        let foreign = self.foreign.or((!has_target).then_some(FOREIGN));
        RunConditions {
            quiet_wait: self.quiet_wait,
            foreign_limit: foreign.filter(|part| *part < 1.0),
            memory_limit: self.memory_limit.map(|size| size.as_u64()),
            cold: self.cold,
            cpus: self.cpus.clone().unwrap_or_default(),
            preset: match (self.quick, self.full) {
                (true, _) => Some(Preset { seconds: 0.5, keys: Some(20_000) }),
                (_, true) => Some(Preset { seconds: 30.0, keys: None }),
                _ => None,
            },
            ..RunConditions::default()
        }
    }

    /// Returns `true` with `--quick` or `--full`.
    pub fn has_preset(&self) -> bool {
        self.quick || self.full
    }

    /// Returns the default number of repetitions and the default warm-up in seconds, which depend on `--quick` and
    /// `--full`.
    pub fn defaults(&self) -> (u32, f64) {
        match (self.quick, self.full) {
            (true, _) => (3, 0.0),
            (_, true) => (5, 5.0),
            _ => (5, 0.5),
        }
    }
}
