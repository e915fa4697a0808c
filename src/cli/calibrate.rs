//! `kvbench calibrate`: flags to [`Options`].

use super::bench::server_arguments;
use crate::bench::{calibrate::Options, run::stored_calibration};
use clap::Args;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Exit code: 0 when every figure is within its allowed range, or 1.";

/// Options of `kvbench calibrate`.
#[derive(Args, Debug)]
pub struct Calibrate {
    /// Directory for the stores; must be on a disk for the columns of bytes written
    #[arg(long, value_name = "DIR", default_value = "kvbench-calibrate.tmp")]
    dir: PathBuf,
    /// Where to save the outcome; `kvbench bench` reads only that in the default place, and records it in its results
    /// [default: $XDG_CACHE_HOME/kvbench/calibration-COMMIT.json]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print every metric with its expected value, before the summary
    #[arg(long)]
    pub(super) all: bool,
    /// Write the table to a file too, as a page of documentation
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
}

impl Calibrate {
    /// Returns the options of the calibration.
    pub fn options(&self) -> Options {
        Options { directory: self.dir.clone(), server_arguments }
    }

    /// Returns the file in which the result is saved: `--output` or the default place; `None` if there is no default
    /// place.
    pub fn output(&self) -> Option<PathBuf> {
        self.output.clone().or_else(stored_calibration::place)
    }
}
