//! A benchmark run: measures every cell as often as `--repetitions` says, in a new random order for each
//! repetition, and writes the result file after each job.

pub mod affinity;
pub mod allocations;
pub mod calibrated;
pub mod child_process;
pub mod cold;
pub mod disk;
pub mod dry_run;
pub mod environment;
mod failures;
mod free_space;
pub mod in_process;
pub mod interference;
pub mod interleave;
pub mod interrupt;
pub mod job;
pub mod memory;
mod meter;
pub mod order;
mod over_wire;
pub mod pace;
mod panics;
pub mod phase;
pub mod process;
pub mod recorder;
pub mod verification;

use crate::bench::{
    plan::{
        options::{Options, RunConditions},
        suites::{self, Plan},
    },
    result::{
        Cell, Disturbance, Outcome, Run, SCHEMA_VERSION, Sample, Target, metric::Unit, number_format,
        validity, work,
    },
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use job::{Job, Report};
use memory::MemoryGroup;
use nix::sys::signal::Signal;
use std::{
    fs::{self, File},
    io::{self, BufReader, IsTerminal, Write},
    path::{Path, PathBuf},
};

/// Reasons why a run ended without valid results.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error(transparent)]
    Plan(#[from] crate::bench::plan::options::PlanError),
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "--output {}: there is a result already; continue it with --resume, replace it with --force, or choose another \
        name",
        .0.display()
    )]
    Exists(PathBuf),
    #[error("--resume {}: it is the result of another {what}; start a new run with another --output", .path.display())]
    Differs { path: PathBuf, what: &'static str },
    #[error(
        "{program} is not in PATH, and --stores {store} needs it; install it, or name the other stores with \
        --stores"
    )]
    NoProgram { program: String, store: String },
    #[error("--output {}: cannot create the directory: {source}", .path.display())]
    OutputDirectory { path: PathBuf, source: io::Error },
    /// The text names the flag.
    #[error("{0}")]
    Conduct(String),
    /// The stores may need more than the free space of `--dir`, or than `--map-size`. The text names the flag.
    #[error("{0}")]
    NoSpace(String),
    #[error("--target {address}: {reason}")]
    Target { address: String, reason: String },
    #[error("stopped by {signal}: {done} of {all} measurements are saved in {}; to continue: {command}", .path.display())]
    Stopped { signal: Signal, done: usize, all: usize, path: PathBuf, command: String },
    #[error("{unsound} of {all} measurements failed; their figures are not shown")]
    Unsound { unsound: usize, all: usize },
    #[error("{}", .0.join("\n"))]
    UnequalWork(Vec<String>),
}

impl Error {
    /// Returns the exit code of the program: 2 if the command line cannot be measured as it is, so that nothing was
    /// measured, 128 plus the number of the signal that stopped the run, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Plan(_) | Self::Exists(_) | Self::Differs { .. } | Self::NoProgram { .. } => 2,
            Self::Conduct(_) | Self::NoSpace(_) | Self::Target { .. } => 2,
            Self::Stopped { signal, .. } => 128 + *signal as u8,
            _ => 1,
        }
    }

    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.into(), source }
    }
}

/// Measures the cells that the options ask for, and returns the results, which are also written to
/// `--output`.
///
/// # Errors
///
/// Fails if the plan is refused, a file cannot be read or written, or `--resume` meets the result of another run. A
/// measurement that fails is no error: see [`verdict`].
pub fn run(options: &Options) -> Result<Run, Error> {
    let plan = check(options)?;
    let options = &options.filled();
    job::remove_leftovers(&options.directory);
    let mut run = match options.resume {
        true => resume(options, plan)?,
        false => begin(options, plan)?,
    };
    let asked = options.seconds.filter(|seconds| *seconds < suites::LEAST_EVERYSEC);
    if let Some(seconds) = asked.filter(|_| suites::any_everysec(&run.cells)) {
        eprintln!(
            "kvbench: each cell lasts {} s, not --seconds {seconds}: everysec syncs once a second",
            suites::LEAST_EVERYSEC
        );
    }
    for warning in &run.environment.warnings {
        eprintln!("kvbench: warning: {warning}");
    }
    if run.finished {
        return Ok(run);
    }
    interrupt::catch();
    save(&run, &options.output)?;
    let outcome = measure(options, &mut run);
    // Succeeds only if the directory is empty.
    let _ = fs::remove_dir(&options.directory);
    if let Some(target) = options.target.as_ref().filter(|_| interrupt::received().is_some())
        && let Err(error) = over_wire::empty_target(target)
    {
        eprintln!(
            "kvbench: --target {}: {error}; remove the keys of this run before you continue it",
            target.address
        );
    }
    outcome?;
    run.finished = true;
    validity::mark(&mut run);
    save(&run, &options.output)?;
    Ok(run)
}

/// Returns the plan, or an error if a part of it cannot be measured.
fn check(options: &Options) -> Result<Plan, Error> {
    suites::refuse_ignored(options)?;
    affinity::check(&options.conduct.cpus).map_err(Error::Conduct)?;
    let plan = suites::plan(&options.filled())?;
    let programs =
        plan.cells.iter().filter_map(|cell| cell.target.program.as_ref().zip(Some(&cell.target.store)));
    for (program, store) in programs {
        if over_wire::find_program(program).is_none() {
            return Err(Error::NoProgram { program: program.clone(), store: store.clone() });
        }
    }
    Ok(plan)
}

/// Returns an error if the external server of the options cannot be measured.
fn check_target(options: &Options) -> Result<(), Error> {
    let Some(target) = &options.target else { return Ok(()) };
    over_wire::check_target(target)
        .map_err(|reason| Error::Target { address: target.address.clone(), reason })
}

/// Returns an error if a measurement failed, or if the cells did unequal work; prints the failures to
/// standard error.
///
/// # Errors
///
/// [`Error::Unsound`] if a measurement failed, [`Error::UnequalWork`] if cells did unequal work.
pub fn verdict(run: &Run) -> Result<(), Error> {
    failures::print(run);
    match run.samples.iter().filter(|sample| sample.outcome.failure().is_some()).count() {
        0 => match work::unequal(run) {
            unequal if unequal.is_empty() => Ok(()),
            unequal => Err(Error::UnequalWork(unequal)),
        },
        unsound => Err(Error::Unsound { unsound, all: run.samples.len() }),
    }
}

fn begin(options: &Options, plan: Plan) -> Result<Run, Error> {
    if !options.force && fs::exists(&options.output).is_ok_and(|exists| exists) {
        return Err(Error::Exists(options.output.clone()));
    }
    check_target(options)?;
    free_space::check(options, &plan.cells).map_err(Error::NoSpace)?;
    let parent = options.output.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        fs::create_dir_all(parent)
            .map_err(|source| Error::OutputDirectory { path: options.output.clone(), source })?;
    }
    let directory = &options.directory;
    fs::create_dir_all(directory).map_err(Error::file(directory))?;
    Ok(Run {
        schema: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        started: now(),
        command: options.command.clone(),
        suite: options.suite.map(|suite| suite.name().into()),
        environment: environment::describe(directory, &plan.cells, &options.conduct),
        row_heading: plan.row_heading,
        cells: plan.cells,
        left_out: plan.left_out,
        repetitions: options.repetitions,
        samples: Vec::new(),
        finished: false,
    })
}

/// Returns the run in the result file, if it has the same plan, command and build: measurements of different
/// ones do not belong in one result.
fn resume(options: &Options, plan: Plan) -> Result<Run, Error> {
    let path = &options.output;
    let file = File::open(path).map_err(Error::file(path))?;
    let mut run: Run = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| Error::File { path: path.clone(), source: error.into() })?;
    let differs = |what| Err(Error::Differs { path: path.clone(), what });
    if run.schema != SCHEMA_VERSION || run.version != env!("CARGO_PKG_VERSION") {
        return differs("version of kvbench");
    }
    if run.environment.commit.as_deref() != option_env!("KVBENCH_COMMIT") {
        return differs("build of kvbench");
    }
    if without_output(&run.command) != without_output(&options.command) {
        return differs("command line");
    }
    if run.cells != plan.cells || run.repetitions != options.repetitions {
        return differs("plan");
    }
    run.finished &= is_complete(&run);
    if run.finished {
        return Ok(run);
    }
    check_target(options)?;
    fs::create_dir_all(&options.directory).map_err(Error::file(&options.directory))?;
    let now = environment::describe(&options.directory, &run.cells, &options.conduct);
    if !environment::is_same_machine(&now, &run.environment) {
        return differs("machine");
    }
    // Warnings of now apply to the cells that are still to be measured.
    for warning in now.warnings {
        if !run.environment.warnings.contains(&warning) {
            run.environment.warnings.push(warning);
        }
    }
    Ok(run)
}

/// Returns a command line without the flag that names the result file, and its value.
fn without_output(command: &[String]) -> Vec<&str> {
    let mut words = command.iter().map(String::as_str);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--output" => drop(words.next()),
            word if word.starts_with("--output=") || word == "--force" => {}
            word => kept.push(word),
        }
    }
    kept
}

/// Returns the error of a run that a signal has stopped.
fn stopped(options: &Options, run: &Run, signal: Signal) -> Error {
    let words = without_output(&options.command).into_iter().map(Into::into);
    let output = options.output.display().to_string();
    let words = words.chain(["--output".into(), output, "--resume".into()]);
    let words: Vec<_> = std::iter::once("kvbench".to_owned()).chain(words).collect();
    Error::Stopped {
        signal,
        done: run.samples.len(),
        all: run.cells.len() * run.repetitions as usize,
        path: options.output.clone(),
        command: number_format::shell_command(&words),
    }
}

/// Returns `true` if nothing is left to measure.
fn is_complete(run: &Run) -> bool {
    (0..run.repetitions).all(|repetition| run.cells.iter().all(|cell| run.has(&cell.id, repetition)))
}

/// Measures all jobs once in each repetition, and in another order each time, so that changes of the machine
/// during the run (heat, another process, a disk that fills) affect all engines equally.
fn measure(options: &Options, run: &mut Run) -> Result<(), Error> {
    let jobs: Vec<Vec<Cell>> = jobs(&run.cells);
    let group = options.conduct.memory_limit.map(MemoryGroup::new).transpose().map_err(Error::Conduct)?;
    let bar = bar(u64::from(run.repetitions) * jobs.len() as u64);
    let mut attempts = interference::ATTEMPTS;
    for repetition in 0..run.repetitions {
        for place in order::shuffled(jobs.len(), options.seed, repetition) {
            let Some(cells) = jobs.get(place) else { continue };
            let Some(first) = cells.first() else { continue };
            bar.set_message(first.id.clone());
            bar.inc(1);
            if cells.iter().all(|cell| run.has(&cell.id, repetition)) {
                continue;
            }
            let (reports, disturbance) = match failures::known(run, cells) {
                Some(reports) => (reports, None),
                None => {
                    let job = job(options, cells, repetition);
                    undisturbed(options, &job, group.as_ref(), &bar, &mut attempts)
                }
            };
            if let Some(signal) = interrupt::received() {
                bar.finish_and_clear();
                return Err(stopped(options, run, signal));
            }
            // Earlier samples of an interrupted group were not measured on the same data, so they are
            // removed.
            run.samples.retain(|sample| {
                sample.repetition != repetition || !cells.iter().any(|cell| cell.id == sample.cell)
            });
            if bar.is_hidden() {
                let is_known = |failure: &str| {
                    run.samples.iter().any(|sample| sample.outcome.failure() == Some(failure))
                };
                let is_new = |report: &&Report| !report.outcome.failure().is_some_and(is_known);
                reports.iter().filter(is_new).for_each(|report| print_report(report, &bar, repetition));
            }
            record(run, reports, repetition, disturbance);
            save(run, &options.output)?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn record(run: &mut Run, reports: Vec<Report>, repetition: u32, disturbance: Option<Disturbance>) {
    let samples = reports.into_iter().map(|report| Sample {
        cell: report.cell,
        repetition,
        outcome: report.outcome,
        disturbance,
    });
    run.samples.extend(samples);
}

/// Measures a job, and repeats it if other processes use too much of the CPUs; returns the reports with the
/// least interference. With an external server, interference is not measured: the server itself would count
/// as another process. `attempts` is the maximum number of measurements, and is set to that of the next job: a
/// machine that was busy in every attempt is not waited for again, until it was calm once.
fn undisturbed(
    options: &Options,
    job: &Job,
    group: Option<&MemoryGroup>,
    bar: &ProgressBar,
    attempts: &mut usize,
) -> (Vec<Report>, Option<Disturbance>) {
    let RunConditions { quiet_wait, foreign_limit, cpus, .. } = &options.conduct;
    let limit = foreign_limit.unwrap_or(f64::INFINITY);
    let mut attempt = 0;
    let most = *attempts;
    let measured = interference::least_disturbed(limit, most, || {
        interference::wait_for_disk(&options.directory, *quiet_wait);
        let watch = options.target.is_none().then(interference::CpuWatch::start);
        let reports = job.run(cpus, group);
        let disturbance = watch.and_then(|watch| watch.end());
        let failed = reports.iter().any(|report| matches!(report.outcome, Outcome::Failed(_)));
        let part = disturbance.as_ref().map_or(0.0, Disturbance::part);
        // A failed job would fail again, so it is not repeated.
        let part = if failed || interrupt::received().is_some() { 0.0 } else { part };
        attempt += 1;
        if part > limit {
            tell_disturbance(job, part, limit, attempt < most, bar);
        }
        ((reports, disturbance), part)
    });
    let (reports, disturbance) = measured.unwrap_or_default();
    let is_busy = disturbance.as_ref().is_some_and(|found| found.part() > limit);
    *attempts = if is_busy { 1 } else { interference::ATTEMPTS };
    (reports, disturbance)
}

/// Prints a line about a measurement that other processes have disturbed.
fn tell_disturbance(job: &Job, part: f64, limit: f64, is_repeated: bool, bar: &ProgressBar) {
    let cell = job.cells.first().map_or("", |cell| cell.id.as_str());
    let what = match is_repeated {
        true => "it is measured again",
        false => "the least disturbed attempt is kept",
    };
    bar.suspend(|| {
        eprintln!(
            "kvbench: {cell}: other programs used {:.0}% of the CPUs, --foreign allows {:.0}%; {what}",
            part * 100.0,
            limit * 100.0
        );
    });
}

/// Prints a line about a report, for logs, which show no progress bar.
fn print_report(report: &Report, bar: &ProgressBar, repetition: u32) {
    let words = match &report.outcome {
        Outcome::Measured(measured) if !measured.is_sound() => "failed".to_owned(),
        Outcome::Measured(measured) if measured.latency.count > 0 => format!(
            "{}, p99 {}",
            number_format::short(Unit::PerSecond, measured.throughput),
            number_format::short(Unit::Microseconds, measured.latency.p99_us)
        ),
        Outcome::Measured(measured) => number_format::short(Unit::Seconds, measured.seconds),
        Outcome::Failed(text) => format!("failed: {text}"),
        Outcome::Unsupported(text) => format!("n/a: {text}"),
    };
    let (done, all) = (bar.position(), bar.length().unwrap_or_default());
    eprintln!("kvbench: {done}/{all}, repetition {}: {}: {words}", repetition + 1, report.cell);
}

/// Groups the cells by the process in which they are measured.
pub fn jobs(cells: &[Cell]) -> Vec<Vec<Cell>> {
    let together = |first: &Cell, next: &Cell| first.group.is_some() && first.group == next.group;
    cells.chunk_by(together).map(<[Cell]>::to_vec).collect()
}

fn job(options: &Options, cells: &[Cell], repetition: u32) -> Job {
    let directory = job::directory(&options.directory);
    let foreign = options.target.as_ref();
    let arguments =
        |target: &Target| (options.server_arguments)(target, &directory.join("store"), options.map_bytes);
    let target = cells.first().map(|cell| &cell.target);
    let mut cells = cells.to_vec();
    for cell in &mut cells {
        cell.workload.seed = order::seed_of(cell.workload.seed, repetition);
    }
    Job {
        cells,
        map_size: options.map_bytes,
        server_arguments: target.map(arguments).unwrap_or_default(),
        load_arguments: target.map(|target| arguments(&job::unsynced(target))).unwrap_or_default(),
        cold: options.conduct.cold,
        in_slices: false,
        verified: verified_at_most(&options.conduct),
        server_cpus: options.conduct.cpus.server.clone(),
        flush_target: foreign.is_some_and(|foreign| foreign.flush),
        target_pid: foreign.and_then(|foreign| foreign.pid),
        directory,
    }
}

/// Returns the maximum number of values that are compared at the end.
fn verified_at_most(conduct: &RunConditions) -> u64 {
    match conduct.cold || conduct.memory_limit.is_some() {
        true => verification::MAX_FROM_DISK,
        false => verification::MAX_COMPARED,
    }
}

/// Replaces the result file atomically, so that a kill leaves the old file or the new one.
fn save(run: &Run, path: &Path) -> Result<(), Error> {
    let temporary = path.with_extension("json.new");
    let write = || {
        let mut file = File::create(&temporary)?;
        serde_json::to_writer_pretty(io::BufWriter::new(&file), run)?;
        writeln!(file)?;
        file.sync_data()?;
        fs::rename(&temporary, path)
    };
    write().map_err(Error::file(path))
}

fn bar(length: u64) -> ProgressBar {
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (left: {eta}) {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

/// Returns the current time in the format of result files (RFC 3339).
pub fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}
