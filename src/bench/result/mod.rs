//! Result file of a benchmark run: one JSON file, rewritten after every measurement, so that an interrupted
//! run is not lost and can be resumed.
//!
//! The JSON schema is generated from these types and published as `docs/result.schema.json`. All durations
//! are in the unit their name ends with, sizes in bytes. A value that could not be measured is `null`, never
//! an estimate.

mod cell;
pub mod comparability;
mod comparison_estimate;
mod disturbance;
mod duel;
pub mod equal_work;
pub mod harness_share;
pub mod histogram;
pub mod interleaved_comparison;
pub mod latency_goal;
mod measurement;
pub mod metric;
pub mod number_format;
pub mod rate_search;
pub mod run_file;
pub mod soak;
pub mod spread;
pub mod statistics;
pub mod text_table;

pub use cell::{
    Access, Cell, CellKind, Commits, Figure, Loses, OPERATIONS, Operation, Order, OwnDevice, Side, Size,
    Target, Workload,
};
pub use disturbance::Disturbance;
pub use duel::{BuildDescription, Duel, Program};
use interleaved_comparison::{Block, Comparison, LessWork, Work};
pub use measurement::{FileSize, Latency, Measurement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{looks::Looks, margin::Margin};
use std::collections::BTreeMap;

/// Version of the format of result files. Files with a higher version are not read. Since 2 an outcome can be
/// `unsupported`, and a step `compact`; since 3 a step can be `retain`, `pop` or `source-get`; since 4 a run can have
/// comparisons, a step can be `recovery`, a figure `device-read-bytes`, and `device_bytes` is that of the cell's own
/// device.
pub const SCHEMA_VERSION: u32 = 4;

/// Result of one run of `kvbench bench`: the content of a result file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of the file's format: [`SCHEMA_VERSION`] of the kvbench that wrote it.
    pub schema: u32,
    /// Version of the kvbench that made the run.
    pub version: String,
    /// Start time of the run, RFC 3339, UTC.
    pub started: String,
    /// Arguments of `kvbench` that make this run again, without the program's name.
    pub command: Vec<String>,
    /// Name of the suite (a set of workloads); absent for a workload made of flags.
    pub suite: Option<String>,
    /// Machine, software and conditions of the run.
    pub environment: Environment,
    /// Heading of the row labels in tables: `Store | Pipeline | Clients`, with as many parts as [`Cell::row`] has.
    #[serde(default)]
    pub row_heading: String,
    /// Cells (one store, one workload, one setting) that the run measures, in the order of the tables. Known before the
    /// first measurement.
    pub cells: Vec<Cell>,
    /// Stores that were asked for but are not measured, at all or in one setting, each with the reason.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Number of measurements of each cell that is in no interleaved comparison.
    pub repetitions: u32,
    /// Results so far, one for each measured cell and repetition, in the order of measurement.
    pub samples: Vec<Sample>,
    /// Interleaved comparisons, one for each row of a table, if stores took turns. A sample's repetition is then a block,
    /// and its throughput that of the operations that count, with the write-back after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Programs that `kvbench duel` compares; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duel: Option<Duel>,
    /// `true` once nothing is left to measure: every cell has all its samples or, if stores took turns, every comparison
    /// has ended.
    pub finished: bool,
}

/// Machine, software and conditions of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Model of the processor; absent if unknown.
    pub cpu: Option<String>,
    /// Number of logical cores that this process may use.
    pub cores: usize,
    /// Memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel release.
    pub system: String,
    /// Frequency governor of the first CPU core; absent if unknown.
    pub governor: Option<String>,
    /// Directory of the stores' files (`--dir`).
    pub directory: String,
    /// Type of the file system of the stores' directory, such as `ext4`.
    pub file_system: Option<String>,
    /// Device of the file system of the stores' directory.
    pub device: Option<String>,
    /// Median time in microseconds to append 4 KiB to a file in the stores' directory and sync it with `fdatasync`.
    pub fsync_us: Option<f64>,
    /// Read-ahead of the block device of the stores' directory, in KiB. A read of one page that is not in memory may
    /// bring this many.
    #[serde(default)]
    pub read_ahead_kib: Option<u64>,
    /// Median time in microseconds to read 4 KiB at a random place of a file in the stores' directory, past the page
    /// cache, before the first cell of a run that reads with a cold cache. The host of a virtual machine may answer
    /// from its own cache.
    #[serde(default)]
    pub random_read_us: Option<f64>,
    /// Median time in microseconds to read 4 KiB at a random place of a file, past the page cache, after the last cell
    /// of a run that reads with a cold cache.
    #[serde(default)]
    pub random_read_after_us: Option<f64>,
    /// Load average of the machine over the last minute before the run began.
    pub load_average: Option<f64>,
    /// Git commit of kvbench, with `+` if it had uncommitted changes.
    pub commit: Option<String>,
    /// CRC-32 of the program's file: two builds of one commit may differ. Absent if unknown, and in results of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<u32>,
    /// CRC-32 of the file of each other program that measures a store in place of kvbench itself, by the store's name;
    /// empty in results of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, u32>,
    /// Version of the Rust compiler that built kvbench.
    pub rustc: Option<String>,
    /// Library and version of each measured engine, by its name; of another server program its version.
    pub libraries: BTreeMap<String, String>,
    /// Limit in bytes of the memory of each store, with the page cache (`--memory-limit`); absent: none.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// Memory of the driver in bytes, measured with the no-op engine and added to the limit of each store; absent without
    /// `--memory-limit`, or if it is not known: the limit then contains the driver.
    #[serde(default)]
    pub driver_memory_bytes: Option<u64>,
    /// Share of the time of all CPUs, from 0 to 1, that other processes and virtual machines may take from the load of a
    /// store to the verification of its values (`--foreign`); absent: no limit. A measurement above it was repeated, at
    /// most twice, and the least disturbed one is in the result. If that is above the limit too, it counts only if its
    /// cell has none below; in an interleaved comparison it always counts.
    #[serde(default)]
    pub foreign_limit: Option<f64>,
    /// Description of how the files of a store were dropped from the page cache before each cell; absent without
    /// `--cold`.
    #[serde(default)]
    pub cold: Option<String>,
    /// CPUs on which the server and the driver ran (`--cpus`); absent: any.
    #[serde(default)]
    pub cpus: Option<String>,
    /// Reason why no instructions were counted, if cells should have counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_instruction_counts: Option<String>,
    /// Result of `kvbench calibrate` with this build; absent if that was not run.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// Sentences on what makes results of this machine or directory doubtful, each with the remedy.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Returns the memory that a store may use, in bytes: `--memory-limit`, or else that of the machine.
    pub fn usable_memory_bytes(&self) -> Option<u64> {
        self.memory_limit_bytes.or(self.memory_bytes)
    }
}

/// Result of `kvbench calibrate`, which compares every metric of a known engine with its expected value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Git commit of the calibrated kvbench, as in [`Environment::commit`].
    pub commit: Option<String>,
    /// Checksum of the calibrated program: two builds of one commit may differ.
    pub program: u32,
    /// Time at which the calibration ended, RFC 3339, UTC.
    pub date: String,
    /// `true` if every metric was in its allowed range.
    pub passed: bool,
    /// Number of metrics that were checked.
    pub figures: usize,
    /// Names of the metrics that were outside their allowed range; if the calibration ended with an error before it
    /// checked any, that error.
    pub failed: Vec<String>,
    /// Names of the metrics that were in their allowed range, but so far from the expected value on a busy machine that
    /// they prove too little.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
    /// Largest error of a metric that was measured in process, as a fraction of its expected value; metrics of the
    /// block device and those in `undecided` do not count.
    pub worst_error: f64,
    /// Name of the metric with the error `worst_error`.
    pub worst_figure: String,
}

/// Result of one repetition of one cell.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Id of the measured cell ([`Cell::id`]).
    pub cell: String,
    /// Number of the repetition, counted from 0.
    pub repetition: u32,
    /// Metrics of the repetition, or the reason why there are none.
    pub outcome: Outcome,
    /// CPU time that other processes and virtual machines took during the repetition, with its load; absent if unknown.
    /// With `rate_search`, the largest of the trials that decided the rate: the trial in which the highest rate was kept,
    /// those of the lowest that was too high, and the longer ones.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
}

/// Outcome of a measurement: metrics, or the reason why there are none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub enum Outcome {
    /// Metrics. They count only if [`Measurement::is_sound`] returns `true`.
    Measured(Measurement),
    /// The measurement failed; the text is the reason.
    Failed(String),
    /// The store cannot execute the workload, which is no failure; the text is the reason.
    Unsupported(String),
}

impl Outcome {
    /// Returns the reason why the measurement failed, or `None` if it is valid or the store does not support the
    /// workload.
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
    /// Returns the valid measurements of the cell with the id `cell`: those that other processes did not disturb, or
    /// all if each was disturbed.
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

    /// Returns the smallest share of the CPUs, from 0 to 1, that other processes took in a valid measurement of the
    /// cell with the id `cell`, if all its valid measurements are above the limit of the run; otherwise `None`.
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

    /// Returns the interleaved comparison of the cell with the id `cell`, or `None` if the cell is in none.
    pub fn comparison(&self, cell: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.cells.iter().any(|id| id == cell))
    }

    /// Returns `true` if the store of the cell with the id `cell` took turns with others and its throughput contains the
    /// write-back after its slices, `false` if it took turns without write-back, and `None` if it was measured alone.
    /// Throughputs of these three kinds cannot be compared.
    pub fn writes_back_in_turns(&self, cell: &str) -> Option<bool> {
        self.comparison(cell).map(|comparison| comparison.blocks.iter().any(Block::has_write_back))
    }

    /// Returns the indices of the stores of a comparison of which no measurement has failed, without those that do not
    /// support their cell.
    pub fn sound_stores(&self, comparison: &Comparison) -> Vec<usize> {
        let is_sound = |id: &String| !self.has_failed(id) && self.unsupported(id).is_none();
        let sound = comparison.cells.iter().enumerate().filter(|(_, id)| is_sound(id));
        sound.map(|(number, _)| number).collect()
    }

    /// Returns a sentence about the stores of a comparison that do less work in a block than the others, or `None` if
    /// there are none.
    #[expect(clippy::cast_precision_loss, reason = "a text")]
    pub fn less_work_text(&self, comparison: &Comparison) -> Option<String> {
        let slicing = comparison.slicing.as_ref().filter(|slicing| !slicing.less_work.is_empty())?;
        let Work::Operations(all) = slicing.work else { return None };
        let text = |less: &LessWork| {
            let id = comparison.cells.get(less.store)?;
            let column = &self.cells.iter().find(|cell| cell.id == *id)?.column;
            Some(format!("{column} {}", number_format::grouped(less.operations as f64)))
        };
        let stores: Vec<String> = slicing.less_work.iter().filter_map(text).collect();
        let all = number_format::grouped(all as f64);
        Some(format!(
            "operations in a block, in place of {all}, of stores that are far slower: {}",
            stores.join(", ")
        ))
    }

    /// Returns the numbers of repetitions after which the cell with the id `cell` is compared, and the difference that
    /// counts as equal: those of its interleaved comparison, or one evaluation of all repetitions and 3%.
    pub fn looks(&self, cell: &str) -> (Looks, Margin) {
        let own = self.comparison(cell);
        let margin = own.map_or_else(Margin::default, |comparison| comparison.margin);
        (own.and_then(|comparison| comparison.looks.clone()).unwrap_or_else(Looks::once), margin)
    }

    /// Returns the number of measurements that a cell has in a complete run: the blocks of its interleaved comparison or,
    /// without one, the repetitions of the run.
    pub fn repetitions_of(&self, cell: &str) -> u32 {
        let blocks =
            self.comparison(cell).map(|comparison| comparison.blocks.len()).filter(|count| *count > 0);
        blocks.map_or(self.repetitions, |blocks| u32::try_from(blocks).unwrap_or(u32::MAX))
    }

    /// Returns `true` if other processes took more of the CPUs during the repetition than the run allows. Always
    /// `false` for a cell of an interleaved comparison: what disturbs a block disturbs all its stores.
    pub fn is_disturbed(&self, sample: &Sample) -> bool {
        let limit = self.environment.foreign_limit.filter(|_| self.comparison(&sample.cell).is_none());
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

    /// Returns the reason why the store does not support the cell with the id `cell`, or `None` if it does. A disturbed
    /// repetition counts only if all are disturbed: other programs may have kept a search from finding a rate.
    pub fn unsupported(&self, cell: &str) -> Option<&str> {
        let own = || self.samples.iter().filter(|sample| sample.cell == cell);
        let is_calm = |sample: &Sample| sample.outcome.failure().is_none() && !self.is_disturbed(sample);
        let has_calm = own().any(is_calm);
        own().filter(|sample| !has_calm || is_calm(sample)).find_map(|sample| match &sample.outcome {
            Outcome::Unsupported(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Returns `true` if the run has a result, valid or not, of the repetition `repetition` of the cell with the id
    /// `cell`.
    pub fn has(&self, cell: &str, repetition: u32) -> bool {
        self.samples.iter().any(|sample| sample.cell == cell && sample.repetition == repetition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reason why the cell of `outcomes` is not supported. Each outcome has the share of the CPUs that other
    /// programs took, of which 10% are allowed.
    fn unsupported(outcomes: [(&Outcome, f64); 2]) -> Option<String> {
        let samples = outcomes.map(|(outcome, foreign)| Sample {
            cell: "cell".into(),
            repetition: 0,
            outcome: outcome.clone(),
            disturbance: Some(Disturbance { foreign, stolen: 0.0 }),
        });
        let run = serde_json::json!({
            "schema": 4, "version": "", "started": "", "command": [], "suite": null,
            "environment": Environment { foreign_limit: Some(0.1), ..Environment::default() },
            "cells": [], "repetitions": 1, "samples": samples, "finished": true,
        });
        let run: Run = serde_json::from_value(run).unwrap();
        run.unsupported("cell").map(str::to_owned)
    }

    #[test]
    fn a_disturbed_search_without_a_rate_does_not_hide_a_calm_one() {
        let measured = Outcome::Measured(Measurement { operations: 1, ..Measurement::default() });
        let [one, other] = ["one", "other"].map(|reason| Outcome::Unsupported(reason.into()));
        assert_eq!(unsupported([(&one, 0.4), (&measured, 0.0)]), None);
        assert_eq!(unsupported([(&one, 0.4), (&other, 0.0)]).as_deref(), Some("other"));
        assert_eq!(unsupported([(&measured, 0.4), (&one, 0.4)]).as_deref(), Some("one"));
        assert_eq!(unsupported([(&measured, 0.0), (&one, 0.0)]).as_deref(), Some("one"));
        assert_eq!(unsupported([(&measured, 0.4), (&one, 0.0)]).as_deref(), Some("one"));
    }
}
