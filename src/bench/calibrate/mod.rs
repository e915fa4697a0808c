//! Calibration: an engine of known truth on the very path that every other engine takes, and every column
//! of its result held against that truth.
//!
//! Counts and bytes are exact. Times are held against what the engine has seen itself: an operation cannot
//! have taken less than the engine was at work for it, nor more than from its reply to the operation before
//! until the next operation came. Both move with a machine that is busy.

mod experiments;
mod figure;
mod judge;
mod table;

use crate::{
    bench::{
        plan::options::Cpus,
        result::{Calibration, Measurement, Outcome, Target},
        run::{self, calibrated, job::Job, verified},
    },
    engine::reference::calibration::{Record, Truth},
};
use experiments::Experiment;
pub use figure::{Figure, columns};
use judge::Evidence;
use nix::time::{ClockId, clock_gettime};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
pub use table::{markdown, text};

/// Why nothing is known of some figures, or that they are wrong.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{experiment}: {text}")]
    NotMeasured { experiment: String, text: String },
    #[error("{wrong} of {all} figures are wrong; do not trust results of this build")]
    Wrong { wrong: usize, all: usize },
}

/// What calibration needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the stores are made.
    pub directory: PathBuf,
    /// As in [`crate::bench::plan::options::Options`].
    pub server_arguments: fn(&Target, &Path, u64) -> Vec<String>,
}

fn in_file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { path: path.into(), source }
}

/// Measures the calibration engine in process and over the wire, and judges every figure.
pub fn run(options: &Options) -> Result<Vec<Figure>, Error> {
    let directory = &options.directory;
    fs::create_dir_all(directory).map_err(in_file(directory))?;
    let mut figures = Vec::new();
    for experiment in experiments::all() {
        let judged = judge::judge(&experiment, &measure(options, &experiment)?);
        let is_judged = |name: &str| judged.iter().any(|figure: &Figure| figure.workload == name);
        if !experiment.cells.iter().all(|cell| is_judged(&cell.workload.name)) {
            let text = "the engine has not seen what was measured".into();
            return Err(Error::NotMeasured { experiment: experiment.name, text });
        }
        figures.extend(judged);
    }
    // Only where nothing else is in it.
    let _ = fs::remove_dir(directory);
    Ok(figures)
}

/// What is to be kept of it.
pub fn summary(figures: &[Figure]) -> Result<Calibration, Error> {
    let failed = figures.iter().filter(|figure| !figure.is_true()).map(Figure::name).collect::<Vec<_>>();
    let worst = figures.iter().filter(|figure| figure.counts_as_error());
    let worst = worst.max_by(|a, b| a.error().total_cmp(&b.error()));
    let program = calibrated::program().map_err(in_file(Path::new("this program")))?;
    Ok(Calibration {
        commit: option_env!("KVBENCH_COMMIT").map(Into::into),
        program,
        date: run::now(),
        passed: failed.is_empty(),
        figures: figures.len(),
        failed,
        worst_error: worst.map_or(0.0, Figure::error),
        worst_figure: worst.map(Figure::name).unwrap_or_default(),
    })
}

/// An error when some figure is wrong.
pub fn verdict(found: &Calibration) -> Result<(), Error> {
    match found.passed {
        true => Ok(()),
        false => Err(Error::Wrong { wrong: found.failed.len(), all: found.figures }),
    }
}

/// One experiment, by the way of every job.
fn measure(options: &Options, experiment: &Experiment) -> Result<Evidence, Error> {
    let directory = options.directory.join(format!("job-{}", std::process::id()));
    let store = directory.join("store");
    let truth = Truth { record: directory.with_extension("record"), ..experiment.truth.clone() };
    let place = Truth::place(&store);
    let text = serde_json::to_vec(&truth).unwrap_or_default();
    fs::write(&place, text).map_err(in_file(&place))?;
    let server_arguments =
        experiment.cells.first().map(|cell| (options.server_arguments)(&cell.target, &store, 0));
    let job = Job {
        cells: experiment.cells.clone(),
        directory,
        map_size: 0,
        server_arguments: server_arguments.unwrap_or_default(),
        flush_target: false,
        target_pid: None,
        cold: false,
        verified: verified::MOST,
        server_cpus: None,
    };
    let reports = job.run(&Cpus::default(), None);
    let end = now();
    let lines = fs::read_to_string(&truth.record);
    for path in [&place, &truth.record] {
        // What is not there is told below.
        let _ = fs::remove_file(path);
    }
    let outcomes = reports.into_iter().map(|report| report.outcome);
    let not_measured = |text| Error::NotMeasured { experiment: experiment.name.clone(), text };
    let measurements = outcomes.map(sound).collect::<Result<Vec<_>, _>>().map_err(not_measured)?;
    let lines = lines.map_err(in_file(&truth.record))?;
    let records: Result<Vec<Record>, _> = lines.lines().map(serde_json::from_str).collect();
    let records = records.map_err(|error| in_file(&truth.record)(error.into()))?;
    Ok(Evidence { measurements, records, end })
}

fn sound(outcome: Outcome) -> Result<Measurement, String> {
    match outcome {
        Outcome::Measured(measurement) if measurement.is_sound() => Ok(measurement),
        Outcome::Measured(measurement) => Err(measurement.first_fault.unwrap_or_default()),
        Outcome::Failed(text) | Outcome::Unsupported(text) => Err(text),
    }
}

/// Nanoseconds of the clock that the engine tells times of.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
