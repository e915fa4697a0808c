//! Calibration (`kvbench calibrate`): measures an engine with known costs on the code path of every other engine,
//! and compares every metric of the result with its expected value.
//!
//! Counts of operations, lengths of files, and bytes written by the engine must be exact. Memory, blocks of files,
//! bytes of a device, and counts that depend on a clock may differ from the expected value by a known amount. Times
//! are compared with those that the engine recorded itself: the latency of an operation is at least the time that
//! the engine worked on it, and at most the time from the end of the previous operation to the start of the next
//! one. Both vary with the load of the machine. If the machine is too busy even for that, the experiment is
//! repeated, since a bug fails every attempt.

mod checked_metric;
mod expected_ranges;
mod experiments;
mod latency_bounds;
mod metric_table;

use crate::{
    bench::{
        plan::options::Cpus,
        result::{Calibration, Measurement, Outcome, Target},
        run::{
            self, find_rate, instruction_counter,
            job_messages::{self, Job, NO_OWN_DEVICE, Report},
            memory_limit::MemoryGroup,
            stored_calibration, verification,
        },
    },
    engine::synthetic::calibration::{Record, Truth, no_known_loop},
};
pub use checked_metric::{Figure, columns};
use expected_ranges::Evidence;
use experiments::{Experiment, Subject};
pub use metric_table::{markdown, summary_text, text};
use nix::time::{ClockId, clock_gettime};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Error of a calibration: some metrics could not be measured, or are wrong.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{experiment}: {text}")]
    NotMeasured { experiment: String, text: String },
    #[error("{experiment}: {text}")]
    Unavailable { experiment: String, text: String },
    #[error("{} of {all} figures are wrong; do not trust results of this build: {}", .wrong.len(), .wrong.join("; "))]
    Wrong { wrong: Vec<String>, all: usize },
}

/// Maximum number of measurements of an experiment, which is repeated while a metric is not verified.
const ATTEMPTS: usize = 3;

/// Options of a calibration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory in which the stores are created.
    pub directory: PathBuf,
    /// Function that returns the arguments with which this program serves a target's store; see
    /// [`crate::bench::plan::options::Options`].
    pub server_arguments: fn(&Target, &Path, u64) -> Vec<String>,
}

fn in_file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { path: path.into(), source }
}

/// Measures the calibration engine in process and over the wire, and checks every metric. Calls `tell` with a
/// message for each experiment that is repeated or cannot be checked.
///
/// # Errors
///
/// [`Error::NotMeasured`] if an experiment fails or measures nothing, and [`Error::File`] if a file cannot be written
/// or read.
pub fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, Error> {
    let directory = &options.directory;
    fs::create_dir_all(directory).map_err(in_file(directory))?;
    job_messages::remove_leftovers(directory);
    let mut figures = Vec::new();
    for experiment in experiments::all() {
        match repeated(&experiment, tell, || judged(options, &experiment)) {
            // This machine or user has no loop device, no control group or no counter of instructions: results have no such
            // figures either.
            Err(Error::Unavailable { experiment, text }) => {
                tell(&format!("{experiment}: not checked: {text}"))
            }
            found => figures.extend(found?),
        }
    }
    // Fails, as it should, if the directory has other files.
    let _ = fs::remove_dir(directory);
    Ok(figures)
}

/// Returns the metrics of an experiment, each of the latest attempt that verifies it or, if none does, of the last one:
/// a paused machine fails one attempt, a bug fails every attempt. There are further attempts while a metric is verified
/// by none. An attempt with a wrong count is final, because no other process can change a count.
fn repeated(
    experiment: &Experiment,
    tell: &mut dyn FnMut(&str),
    mut measure: impl FnMut() -> Result<Vec<Figure>, Error>,
) -> Result<Vec<Figure>, Error> {
    let (mut attempt, mut verified) = (1, Vec::<Figure>::new());
    loop {
        let mut figures = measure()?;
        for figure in &mut figures {
            let earlier = verified.iter().find(|earlier| earlier.name() == figure.name());
            if let Some(earlier) = earlier.filter(|_| !figure.is_true() && !figure.is_count()) {
                *figure = earlier.clone();
            }
        }
        let wrong = || figures.iter().filter(|figure| !figure.is_true());
        if wrong().next().is_none() || wrong().any(Figure::is_count) || attempt == ATTEMPTS {
            return Ok(figures);
        }
        attempt += 1;
        let wrong: Vec<_> = wrong().map(metric_table::line).collect();
        verified = figures.iter().filter(|figure| figure.is_true()).cloned().collect();
        tell(&format!(
            "measured again: {}, attempt {attempt} of {ATTEMPTS}, because of {}",
            experiment.name,
            wrong.join("; ")
        ));
    }
}

/// Measures an experiment once, and returns its checked metrics. Fails if a cell has none.
fn judged(options: &Options, experiment: &Experiment) -> Result<Vec<Figure>, Error> {
    let judged = expected_ranges::judge(experiment, &measure(options, experiment)?);
    let is_judged = |name: &str| judged.iter().any(|figure: &Figure| figure.workload == name);
    if !experiment.cells.iter().all(|cell| is_judged(&cell.workload.name)) {
        let text = "the engine has not seen what was measured".into();
        return Err(Error::NotMeasured { experiment: experiment.name.clone(), text });
    }
    Ok(judged)
}

/// Returns the summary of a calibration that is saved and recorded in results.
///
/// # Errors
///
/// [`Error::File`] if this program's file cannot be read.
pub fn summary(figures: &[Figure]) -> Result<Calibration, Error> {
    let names =
        |is: fn(&Figure) -> bool| figures.iter().filter(|figure| is(figure)).map(Figure::name).collect();
    let (failed, undecided): (Vec<_>, Vec<_>) = (names(Figure::is_wrong), names(Figure::is_undecided));
    let worst = figures.iter().filter(|figure| figure.counts_as_error() && !figure.is_undecided());
    // JSON has no infinite numbers. A metric whose error is infinite is one of `failed`.
    let worst = worst.filter(|figure| figure.error().is_finite());
    let worst = worst.max_by(|a, b| a.error().total_cmp(&b.error()));
    Ok(Calibration {
        figures: figures.len(),
        undecided,
        worst_error: worst.map_or(0.0, Figure::error),
        worst_figure: worst.map(Figure::name).unwrap_or_default(),
        ..of_this_program(failed)?
    })
}

/// Returns the summary of a calibration that ended with an error, before its figures were judged; `None` if the error is that
/// of a file, which says nothing of the program.
///
/// # Errors
///
/// [`Error::File`] if this program's file cannot be read.
pub fn summary_of_error(error: &Error) -> Result<Option<Calibration>, Error> {
    let is_of_program = !matches!(error, Error::File { .. });
    is_of_program.then(|| of_this_program(vec![error.to_string()])).transpose()
}

/// Returns a summary without figures, of which those named in `failed` are wrong.
fn of_this_program(failed: Vec<String>) -> Result<Calibration, Error> {
    Ok(Calibration {
        commit: option_env!("KVBENCH_COMMIT").map(Into::into),
        program: stored_calibration::program().map_err(in_file(Path::new("this program")))?,
        date: run::now(),
        passed: failed.is_empty(),
        figures: 0,
        failed,
        undecided: Vec::new(),
        worst_error: 0.0,
        worst_figure: String::new(),
    })
}

/// Returns an error that names the wrong metrics, if there are any.
///
/// # Errors
///
/// [`Error::Wrong`] with a line for each wrong metric.
pub fn verdict(figures: &[Figure]) -> Result<(), Error> {
    let wrong: Vec<_> = figures.iter().filter(|figure| figure.is_wrong()).map(metric_table::line).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Error::Wrong { wrong, all: figures.len() }),
    }
}

/// Returns the reason why this machine or user cannot measure an experiment, or `None` if there is none. That no block device
/// can be made is found later ([`measurements`]).
fn unavailable(experiment: &Experiment) -> Option<String> {
    if experiment.subject == Subject::Instructions {
        return no_known_loop().or_else(instruction_counter::unavailable);
    }
    // The job has a group of its own; this one shows whether one can be made.
    MemoryGroup::new(experiment.memory_limit?).err()
}

/// Measures the cells of an experiment once, like any other job, and reads the records that the engine wrote meanwhile.
fn measure(options: &Options, experiment: &Experiment) -> Result<Evidence, Error> {
    if let Some(text) = unavailable(experiment) {
        return Err(Error::Unavailable { experiment: experiment.name.clone(), text });
    }
    let directory = job_messages::directory(&options.directory);
    let store = directory.join("store");
    let truth = Truth { record: directory.with_extension("record"), ..experiment.truth.clone() };
    let (place, foreign) = (Truth::place(&store), directory.with_extension("foreign"));
    let text = serde_json::to_vec(&truth).unwrap_or_default();
    fs::write(&place, text).map_err(in_file(&place))?;
    let target = experiment.cells.first().map(|cell| &cell.target);
    let server_arguments = |target: &Target| (options.server_arguments)(target, &store, 0);
    let job = Job {
        cells: experiment.cells.clone(),
        directory,
        map_size: 0,
        server_arguments: target.map(server_arguments).unwrap_or_default(),
        load_arguments: target
            .map(|target| server_arguments(&job_messages::unsynced(target)))
            .unwrap_or_default(),
        flush_target: false,
        target_pid: None,
        program: None,
        cold: false,
        in_slices: false,
        loads_until_killed: false,
        verified: verification::MAX_COMPARED,
        server_cpus: None,
    };
    let writer = experiment.foreign_writes.then(|| ForeignWriter::start(foreign));
    let run = |job: &Job| job.run(&Cpus::default(), experiment.memory_limit);
    let searched =
        experiment.cells.first().and_then(|cell| Some((cell.workload.rate_goal?, cell.workload.seconds?)));
    let reports = match searched {
        None => run(&job),
        Some((goal, seconds)) => {
            let mut trial = |rate, seconds| (run(&find_rate::trial(&job, rate, seconds)), None);
            find_rate::search(goal, find_rate::Lengths::of(seconds), None, &mut trial).0
        }
    };
    let end = now();
    drop(writer);
    let lines = fs::read_to_string(&truth.record);
    for path in [&place, &truth.record] {
        // A missing file is reported when it is read below.
        let _ = fs::remove_file(path);
    }
    let measurements = measurements(experiment, reports)?;
    let lines = lines.map_err(in_file(&truth.record))?;
    let records: Result<Vec<Record>, _> = lines.lines().map(serde_json::from_str).collect();
    let records = records.map_err(|error| in_file(&truth.record)(error.into()))?;
    Ok(Evidence { measurements, records, end })
}

/// Returns the measurements in `reports`.
///
/// # Errors
///
/// [`Error::Unavailable`] if no block device could be made, as on this machine none can be for a result, and
/// [`Error::NotMeasured`] if a cell failed, or found nothing for any other reason.
fn measurements(experiment: &Experiment, reports: Vec<Report>) -> Result<Vec<Measurement>, Error> {
    let name = || experiment.name.clone();
    if let Some(Outcome::Unsupported(text)) = reports.first().map(|report| &report.outcome)
        && text.starts_with(NO_OWN_DEVICE)
    {
        return Err(Error::Unavailable { experiment: name(), text: text.clone() });
    }
    let sound = reports.into_iter().map(|report| sound(report.outcome));
    sound.collect::<Result<_, _>>().map_err(|text| Error::NotMeasured { experiment: name(), text })
}

/// Writes to the disk of the stores, as by another program: a thread of this process writes until the value is dropped.
struct ForeignWriter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ForeignWriter {
    /// Starts to write to `path`, which is removed at the end.
    fn start(path: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // A write that fails is no part of the experiment.
                let _ = fs::write(&path, [0x77; 64 << 10]);
                let _ = fs::File::open(&path).and_then(|file| file.sync_data());
            }
            let _ = fs::remove_file(&path);
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for ForeignWriter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A failure of this thread is no part of the experiment.
            let _ = thread.join();
        }
    }
}

fn sound(outcome: Outcome) -> Result<Measurement, String> {
    match (outcome.failure().map(str::to_owned), outcome) {
        (None, Outcome::Measured(measurement)) => Ok(measurement),
        (Some(text), _) | (None, Outcome::Failed(text) | Outcome::Unsupported(text)) => Err(text),
    }
}

/// Returns the time of the monotonic clock in nanoseconds, as the calibration engine records it.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Access;

    /// Returns the number of attempts at an experiment whose metric `column`, expected to be 10 to 11, has the values
    /// `measured` in turn, and `true` if the returned metric is correct.
    fn attempts(column: &str, measured: [f64; 3]) -> (usize, bool) {
        let experiment = experiments::all().remove(0);
        let (column, unit, _) = columns().find(|(name, ..)| *name == column).unwrap();
        let figure = |measured| Figure {
            workload: experiment.name.clone(),
            access: Access::InProcess,
            column,
            unit,
            truth: 10.0,
            allowed: 10.0..=11.0,
            decided_to: f64::INFINITY,
            measured: Some(measured),
        };
        let (mut told, mut left) = (0, measured.into_iter());
        let figures = repeated(&experiment, &mut |_| told += 1, || Ok(vec![figure(left.next().unwrap())]));
        let attempts = 3 - left.count();
        assert_eq!(told, attempts - 1);
        (attempts, figures.unwrap().iter().all(Figure::is_true))
    }

    #[test]
    fn wrong_times_are_measured_again_up_to_three_times_and_wrong_counts_are_not() {
        assert_eq!(attempts("p99_us", [10.0; 3]), (1, true));
        assert_eq!(attempts("p99_us", [12.0, 10.0, 10.0]), (2, true));
        assert_eq!(attempts("p99_us", [12.0, 9.0, 10.0]), (3, true));
        assert_eq!(attempts("p99_us", [12.0; 3]), (3, false));
        assert_eq!(attempts("operations", [12.0, 10.0, 10.0]), (1, false));
    }

    /// A machine without loop devices cannot check their figures; any other reason for no measurement is an error.
    #[test]
    fn only_a_missing_block_device_leaves_an_experiment_unchecked() {
        let experiment = experiments::all().remove(0);
        let error = |outcome| {
            let report = Report { cell: "cell".into(), outcome };
            measurements(&experiment, vec![report]).unwrap_err()
        };
        let unsupported = |text: &str| error(Outcome::Unsupported(text.into()));
        let no_device = unsupported("no block device of its own: not root");
        assert!(matches!(no_device, Error::Unavailable { .. }), "{no_device}");
        for text in
            ["no rate keeps p99<500 ms", "killed by the kernel at --memory-limit: it needs more memory"]
        {
            let error = unsupported(text);
            assert!(matches!(&error, Error::NotMeasured { text: found, .. } if found == text), "{error}");
        }
        let failed = error(Outcome::Failed("no block device of its own".into()));
        assert!(matches!(failed, Error::NotMeasured { .. }), "{failed}");
    }

    /// A value that is possible, but far from the truth on a busy machine, is neither verified nor wrong.
    #[test]
    fn possible_values_that_prove_too_little_are_undecided() {
        let figure = |measured| Figure {
            workload: "kinds".into(),
            access: Access::Wire,
            column: "update p99_us",
            unit: crate::bench::result::metric::Unit::Microseconds,
            truth: 1000.0,
            allowed: 1000.0..=9000.0,
            decided_to: 2500.0,
            measured: Some(measured),
        };
        let figures = [2000.0, 4390.0, 9500.0].map(figure);
        assert_eq!(figures.clone().map(|figure| figure.is_true()), [true, false, false]);
        assert_eq!(figures.clone().map(|figure| figure.is_wrong()), [false, false, true]);
        let [verified, undecided, wrong] = figures;
        let possible = [verified.clone(), undecided.clone()];
        let found = summary(&possible).unwrap();
        assert_eq!((found.passed, found.undecided.len()), (true, 1));
        let text = metric_table::summary_text(&possible, &found);
        assert!(text.contains("over the wire: 2 metrics of 1 workloads, 0 wrong, 1 undecided\n"), "{text}");
        assert!(text.contains("1 of 2 are not decided"), "{text}");
        assert!(markdown(&possible, &found).contains("too busy to verify 1 of them"));
        let all = [verified, undecided, wrong];
        let text = metric_table::summary_text(&all, &summary(&all).unwrap());
        assert!(text.contains("over the wire: 3 metrics of 1 workloads, 1 wrong, 1 undecided\n"), "{text}");
    }

    #[test]
    fn a_summary_without_a_measured_value_can_be_saved_and_read() {
        let missing = Figure {
            workload: "kinds".into(),
            access: Access::InProcess,
            column: "operations",
            unit: crate::bench::result::metric::Unit::Count,
            truth: 10.0,
            allowed: 10.0..=11.0,
            decided_to: f64::INFINITY,
            measured: None,
        };
        let measured = Figure { column: "hits", measured: Some(11.0), ..missing.clone() };
        let json = serde_json::to_string(&summary(&[missing, measured]).unwrap()).unwrap();
        let read: Calibration = serde_json::from_str(&json).unwrap();
        assert_eq!((read.passed, read.failed), (false, vec!["operations of kinds in process".to_owned()]));
        assert_eq!((read.worst_error, read.worst_figure.as_str()), (0.1, "hits of kinds in process"));
    }

    #[test]
    fn an_error_of_a_file_says_nothing_of_the_program() {
        let found = |error| summary_of_error(&error).unwrap();
        let source = io::ErrorKind::PermissionDenied.into();
        assert!(found(Error::File { path: "/data".into(), source }).is_none());
        let failed =
            found(Error::NotMeasured { experiment: "kinds".into(), text: "panicked".into() }).unwrap();
        assert_eq!(
            (failed.passed, failed.figures, failed.failed),
            (false, 0, vec!["kinds: panicked".to_owned()])
        );
    }

    #[test]
    fn an_error_names_what_is_wrong_and_by_how_much() {
        let figure = Figure {
            workload: "kinds".into(),
            access: Access::Wire,
            column: "operations",
            unit: crate::bench::result::metric::Unit::Count,
            truth: 10.0,
            allowed: 10.0..=10.0,
            decided_to: f64::INFINITY,
            measured: Some(9.0),
        };
        let right = Figure { measured: Some(10.0), ..figure.clone() };
        assert!(verdict(std::slice::from_ref(&right)).is_ok());
        let error = verdict(&[figure, right]).unwrap_err().to_string();
        assert_eq!(
            error,
            "1 of 2 figures are wrong; do not trust results of this build: \
             operations of kinds over the wire: 9, truth 10, allowed exact"
        );
    }
}
