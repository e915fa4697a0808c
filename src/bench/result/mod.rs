//! Result file of a benchmark run: one JSON file, rewritten after every measurement, so that an interrupted
//! run is not lost and can be resumed.
//!
//! The JSON schema is generated from these types and published as `docs/result.schema.json`. All durations
//! are in the unit their name ends with, sizes in bytes. A value that could not be measured is `null`, never
//! an estimate.

mod cell;
pub mod comparison;
pub mod comparison_level;
mod disturbance;
pub mod equal_work;
pub mod harness_share;
pub mod histogram;
mod measurement;
pub mod metric;
pub mod number_format;
pub mod run_file;
pub mod spread;
pub mod statistics;
pub mod text_table;

pub use cell::{
    Access, Cell, CellKind, Commits, Figure, Loses, OPERATIONS, Operation, Order, OwnDevice, Size, Target,
    Workload,
};
use comparison::Comparison;
pub use disturbance::Disturbance;
pub use measurement::{FileSize, Latency, Measurement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{looks::Looks, margin::Margin};
use std::collections::BTreeMap;

/// Version of the format. Files with a higher version are not read. Since 2 an outcome can be `unsupported`,
/// and a step `compact`; since 3 a step can be `retain`, `pop` or `source-get`; since 4 a run can have comparisons, a
/// step can be `recovery`, a figure `device-read-bytes`, and `device_bytes` is that of the cell's own device.
pub const SCHEMA_VERSION: u32 = 4;

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
    /// Interleaved comparisons of its tables (`--interleave`). A sample's repetition is then a block, and its throughput
    /// that of the operations that count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
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
    /// Read-ahead of the block device, in KiB. A read of one page that is not in memory may bring this many.
    #[serde(default)]
    pub read_ahead_kib: Option<u64>,
    /// Median time to read 4 KiB at a random place of a file there past the page cache, in microseconds, before the
    /// first cell of a run that reads with a cold cache. The host of a virtual machine may answer from its own cache.
    #[serde(default)]
    pub random_read_us: Option<f64>,
    /// Median time of such a random read after the last cell, in microseconds.
    #[serde(default)]
    pub random_read_after_us: Option<f64>,
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
    /// Part of all processors that others may take in the course of a job (`--foreign`), from 0 to 1. A
    /// measurement above it was repeated, and counts only where its cell has none below it.
    #[serde(default)]
    pub foreign_limit: Option<f64>,
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
    /// Figures that were possible, but so far from the truth on a busy machine that they prove too little.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
    /// The largest error of a figure measured in process, as a part of its truth, ...
    pub worst_error: f64,
    /// ... and which figure that was.
    pub worst_figure: String,
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

impl Outcome {
    /// Returns the reason why the measurement failed, or `None` if it is valid or its cell is not supported.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Measured(measurement) if measurement.is_sound() => None,
            Self::Measured(measurement) => {
                Some(measurement.first_fault.as_deref().unwrap_or("nothing was done"))
            }
            Self::Failed(text) => Some(text),
            Self::Unsupported(_) => None,
        }
    }
}

impl Run {
    /// Returns the valid measurements of the cell with the id `cell`.
    pub fn measurements(&self, cell: &str) -> impl Iterator<Item = &Measurement> {
        self.by_repetition(cell).map(|(_, measurement)| measurement)
    }

    /// Returns the valid measurements of the cell with the id `cell`, each with its repetition: those that
    /// other processes did not disturb, or all if each was disturbed.
    pub fn by_repetition(&self, cell: &str) -> impl Iterator<Item = (u32, &Measurement)> {
        let all_are_disturbed = self.disturbed_part(cell).is_some();
        self.valid(cell)
            .filter(move |(sample, _)| all_are_disturbed || !self.is_disturbed(sample))
            .map(|(sample, measurement)| (sample.repetition, measurement))
    }

    /// Returns the smallest share of the CPUs, from 0 to 1, that others took in a valid measurement of `cell`,
    /// if all its valid measurements are above the limit of the run; otherwise `None`.
    pub fn disturbed_part(&self, cell: &str) -> Option<f64> {
        if self.valid(cell).any(|(sample, _)| !self.is_disturbed(sample)) {
            return None;
        }
        let parts = self.valid(cell).filter_map(|(sample, _)| Some(sample.disturbance?.part()));
        parts.reduce(f64::min)
    }

    /// Returns `true` if a measurement of the cell with the id `cell` failed or is not valid.
    pub fn has_failed(&self, cell: &str) -> bool {
        let mut own = self.samples.iter().filter(|sample| sample.cell == cell);
        own.any(|sample| sample.outcome.failure().is_some())
    }

    /// Returns the plan of evaluations and the margin by which the cell with the id `cell` is compared: those of its
    /// interleaved comparison, or one evaluation with the default margin.
    pub fn looks(&self, cell: &str) -> (Looks, Margin) {
        let own = self.comparisons.iter().find(|comparison| comparison.cells.iter().any(|id| id == cell));
        let margin = own.map_or_else(Margin::default, |comparison| comparison.margin);
        (own.and_then(|comparison| comparison.looks.clone()).unwrap_or_else(Looks::once), margin)
    }

    /// Returns `true` if others took more of the CPUs during the measurement than the run allows. All blocks of an
    /// interleaved comparison count: what disturbs a block disturbs all its stores.
    pub fn is_disturbed(&self, sample: &Sample) -> bool {
        let limit = self.environment.foreign_limit.filter(|_| self.comparisons.is_empty());
        limit.zip(sample.disturbance).is_some_and(|(limit, found)| found.part() > limit)
    }

    fn valid(&self, cell: &str) -> impl Iterator<Item = (&Sample, &Measurement)> {
        self.samples.iter().filter(move |sample| sample.cell == cell).filter_map(|sample| {
            match &sample.outcome {
                Outcome::Measured(measurement) if measurement.is_sound() => Some((sample, measurement)),
                _ => None,
            }
        })
    }

    /// Returns the reason why the target does not support the cell with the id `cell`, or `None` if it does.
    pub fn unsupported(&self, cell: &str) -> Option<&str> {
        let mut outcomes = self.samples.iter().filter(|sample| sample.cell == cell).map(|s| &s.outcome);
        outcomes.find_map(|outcome| match outcome {
            Outcome::Unsupported(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Returns `true` if the run has a sample of the cell with the id `cell` for `repetition`.
    pub fn has(&self, cell: &str, repetition: u32) -> bool {
        self.samples.iter().any(|sample| sample.cell == cell && sample.repetition == repetition)
    }
}
