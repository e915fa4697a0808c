//! Messages between a run and the child process that measures a job: the cells of one group, or a single cell.

use crate::{
    bench::result::{Cell, Outcome, Target},
    engine::Fsync,
};
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Prefix of the name of the directory of a run's jobs; the process id of the run follows.
const DIRECTORY: &str = "kvbench-job-";

/// Name of the hidden subcommand of this program that measures the job on its standard input.
pub const SUBCOMMAND: &str = "measure-job";

/// Version of the messages to and from the child process: [`Job`], [`Report`], and those of slices. Increased by each
/// change after which programs of both versions do not understand each other.
pub const PROTOCOL: u32 = 1;

/// The cells that a child process measures, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Cells to measure, in this order, on the same data.
    pub cells: Vec<Cell>,
    /// Directory of this job, which the child creates and the parent removes.
    pub directory: PathBuf,
    /// Maximum size of a memory-mapped data file (LMDB, MDBX), in bytes.
    pub map_size: u64,
    /// Arguments with which this program serves the store, for cells over the wire.
    pub server_arguments: Vec<String>,
    /// Arguments with which this program serves the store while its keys are loaded: under the fsync policy `no`.
    pub load_arguments: Vec<String>,
    /// `true` if an external server that holds keys is emptied first.
    pub flush_target: bool,
    /// `true` if the store's files are dropped from the page cache before each step (cells that run at the same time).
    #[serde(default)]
    pub cold: bool,
    /// `true` if the store runs only in slices of time, which the parent process requests on standard input.
    #[serde(default)]
    pub in_slices: bool,
    /// Maximum number of values that are read and compared at the end of the job. If there are more keys, this number
    /// is drawn at random.
    pub verified: u64,
    /// Numbers of the CPUs of the server that the job starts; `None` for no restriction.
    #[serde(default)]
    pub server_cpus: Option<Vec<usize>>,
    /// `true` for a process that loads the store and updates it until it is killed, for a cell that measures recovery.
    #[serde(default)]
    pub loads_until_killed: bool,
    /// Process id of an external server on this machine; `None` without one, or if the user did not name it.
    pub target_pid: Option<u32>,
    /// Path of the program that is started as the child process that measures this job: in a duel, one of the two
    /// compared programs. `None` for the running program itself.
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

/// Result of one measurement of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Id of the cell ([`Cell::id`]).
    pub cell: String,
    /// Measurement, error, or reason why the cell is not supported.
    pub outcome: Outcome,
}

impl Report {
    /// Creates the report of a cell.
    pub fn of(cell: &Cell, outcome: Outcome) -> Self {
        Self { cell: cell.id.clone(), outcome }
    }

    /// Returns the report of a cell after the kernel has killed a process of its job at `--memory-limit`: a failure
    /// becomes "unsupported", because a store that needs more memory has no fault.
    pub(super) fn after_kill(mut self) -> Self {
        let is_of_kill = match &self.outcome {
            // A kill ends operations; it does not change values.
            Outcome::Measured(measurement) => !measurement.is_sound() && measurement.wrong_values == 0,
            Outcome::Failed(_) => true,
            Outcome::Unsupported(_) => false,
        };
        if is_of_kill {
            let text = "killed by the kernel at --memory-limit: it needs more memory; raise the limit";
            self.outcome = Outcome::Unsupported(text.into());
        }
        self
    }

    /// Returns the report of a cell whose job ended on a full disk: the text of a failure names the full disk, because
    /// some engines report an I/O error instead.
    pub(super) fn on_full_disk(mut self) -> Self {
        let named = |text: &str| format!("the disk of --dir is full: {text}");
        match &mut self.outcome {
            Outcome::Failed(text) => *text = named(text),
            Outcome::Measured(measurement) if !measurement.is_sound() => {
                measurement.first_fault = measurement.first_fault.as_deref().map(named);
            }
            Outcome::Measured(_) | Outcome::Unsupported(_) => {}
        }
        self
    }
}

/// Start of the reason why cells are not supported that need a block device of their own, on a machine where none can be
/// made.
pub(in crate::bench) const NO_OWN_DEVICE: &str = "no block device of its own";

/// Returns the path in `parent` of the directory that all jobs of this process use, one after the other.
pub fn directory(parent: &Path) -> PathBuf {
    parent.join(format!("{DIRECTORY}{}", std::process::id()))
}

/// Removes the job directories in `parent` of runs that were killed, and the files that a calibration keeps beside
/// them.
pub(in crate::bench) fn remove_leftovers(parent: &Path) {
    for path in leftovers(parent, DIRECTORY, "") {
        let _ = fs::remove_dir_all(path);
    }
    let beside = [".record", ".truth", ".foreign"].into_iter();
    for path in beside.flat_map(|suffix| leftovers(parent, DIRECTORY, suffix)) {
        let _ = fs::remove_file(path);
    }
}

/// Returns the entries of `parent` that are named `prefix`, the id of a process that no longer exists, and `suffix`.
pub(super) fn leftovers(parent: &Path, prefix: &str, suffix: &str) -> Vec<PathBuf> {
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let process =
            name.and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse::<u32>().ok());
        let process = process.and_then(|process| i32::try_from(process).ok());
        process.is_some_and(|process| kill(Pid::from_raw(process), None) == Err(Errno::ESRCH))
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_left).collect()
}

/// Returns a copy of `target` with the fsync policy `no`, for the load. Under other policies, an engine that
/// fixes its policy when it is opened would sync each batch, and other engines only the end.
pub fn unsynced(target: &Target) -> Target {
    Target { fsync: Some(Fsync::No), ..target.clone() }
}

impl Job {
    /// Returns the cells in steps: the cells of a step run at the same time, the steps one after the other.
    pub fn steps(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|_, next| next.together)
    }
}
