//! A benchmark run: measures every cell as often as `--repetitions` says, in a new random order for each repetition,
//! and writes the result file after each job (the cells that one process measures). If stores take turns, it
//! instead compares those of each row of a table in blocks.

pub mod affinity;
pub mod allocations;
mod attempts;
pub mod build_description;
pub mod child_process;
pub mod cold;
pub mod disk_usage;
mod driver_memory;
pub mod dry_run;
pub mod environment;
mod error;
mod failures;
pub(in crate::bench) mod find_rate;
mod free_space;
pub mod in_process;
pub mod instruction_counter;
pub mod interference;
pub mod interleave;
pub mod interrupt;
pub mod job_messages;
pub mod memory_limit;
pub mod order;
mod over_wire;
pub mod own_device;
pub mod pace;
mod panics;
pub mod phase_result;
pub mod process_usage;
pub mod recorder;
mod resource_meter;
mod result_writer;
mod second_latencies;
pub mod stored_calibration;
pub mod verification;

pub use error::Error;
pub use order::jobs;

use crate::{
    bench::{
        data,
        plan::{
            options::{DataFile, Options},
            suites::{self, Plan},
        },
        result::{
            Cell, Environment, Outcome, Run, SCHEMA_VERSION, equal_work, harness_share,
            interleaved_comparison::Comparison, metric::Unit, number_format,
        },
    },
    engine::synthetic,
};
use attempts::{job, measured_or_searched};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use interleave::Room;
use job_messages::Report;
use memory_limit::MemoryGroup;
#[cfg(target_os = "linux")]
pub(in crate::bench) use resource_meter::LEAST_USER_BYTES;
use result_writer::{OutputLock, measured_words, record, save, stopped};
use std::{
    fs::{self, File},
    io::{self, BufReader, IsTerminal},
    path::Path,
};

/// Measures the cells that the options ask for, and returns the results, which are also written to `--output`. A suite
/// that reads a data file has one generated if `--data` names none; it is removed at the end.
///
/// # Errors
///
/// Fails if the plan is refused, a needed program is missing, a run condition such as `--cpus` cannot be met, the
/// server of `--target` may not be used, the disk or memory is too small, `--output` exists without `--force` and
/// `--resume` or is no result, a file cannot be read or written, `--resume` meets the result of another run, or SIGINT
/// or SIGTERM stops the run. A measurement that fails is no error: see [`verdict`].
pub fn run(options: &Options) -> Result<Run, Error> {
    let Planned { options, plan, against_turns } = planned(options)?;
    let options = &options;
    job_messages::remove_leftovers(&options.directory);
    let (mut run, _lock) = match options.resume {
        true => resume(options, plan)?,
        false => begin(options, plan)?,
    };
    if let Some(reason) = against_turns {
        environment::add_warning(&mut run.environment, format!("{NO_TURNS}: {reason}"));
    }
    let is_alone = options.interleave.is_none() && suites::any_everysec(&run.cells);
    let asked = options.seconds.filter(|seconds| is_alone && *seconds < suites::LEAST_EVERYSEC);
    if let Some(seconds) = asked {
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
    let generated = options.generated_data();
    let outcome = generate(options, generated.as_ref());
    let outcome = outcome.and_then(|()| measure(options, &mut run)).and_then(|()| match options.interleave {
        Some(interleave) => interleave::measure(options, interleave, &mut run),
        None => Ok(()),
    });
    if outcome.is_ok() && environment::reads_cold(&run.cells, &options.conditions) {
        run.environment.random_read_after_us = environment::random_read_us(&options.directory);
    }
    // Errors are ignored: the user has named this directory and can remove it.
    if let Some((path, _)) = generated {
        let _ = fs::remove_file(path);
    }
    // Each instance of a comparison has removed its own directory in this one.
    let _ = fs::remove_dir(job_messages::directory(&options.directory));
    // Succeeds only if the directory is empty.
    let _ = fs::remove_dir(&options.directory);
    outcome?;
    run.finished = true;
    harness_share::mark(&mut run);
    save(&run, &options.output)?;
    Ok(run)
}

/// Writes the data file that is generated for a run, if there is one.
fn generate(options: &Options, file: Option<&DataFile>) -> Result<(), Error> {
    let Some((path, pairs)) = file else { return Ok(()) };
    data::generate(path, *pairs, options.seed, options.value_entropy)
        .map_err(|source| Error::GeneratedData { path: path.clone(), source })
}

/// Returns the cells to measure, or an error if the options cannot be measured, some of the CPUs may not be used, or a
/// program such as redis-server is missing.
fn check(options: &Options) -> Result<Plan, Error> {
    suites::refuse_ignored(options)?;
    affinity::check(&options.conditions.cpus).map_err(Error::Conditions)?;
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

/// Options as they are measured, and the cells.
struct Planned {
    options: Options,
    plan: Plan,
    /// Reason why the stores do not take turns although they could; `None` if they do, or cannot.
    against_turns: Option<String>,
}

/// Words about a run whose stores could take turns, if each fitted into memory and on the disk together with the smallest.
const NO_TURNS: &str = "stores are measured one after the other, without turns";

/// Returns the options as they are measured, with the cells: without turns if the user has not asked for turns and the
/// stores fit into memory and on the disk only one by one, not even together with the smallest of them. A run that is
/// continued has turns if it had them.
fn planned(options: &Options) -> Result<Planned, Error> {
    let in_turns = Planned { options: options.filled(), plan: check(options)?, against_turns: None };
    if !options.interleave.is_some_and(|interleave| interleave.is_default) {
        return Ok(in_turns);
    }
    let against_turns = match options.resume {
        true if read_result(&options.output)?.comparisons.is_empty() => None,
        true => return Ok(in_turns),
        false => match check_space(&in_turns.options, &in_turns.plan.cells) {
            Err(Error::NoSpace(reason)) => Some(reason),
            _ => return Ok(in_turns),
        },
    };
    let options = Options { interleave: None, ..options.clone() };
    let plan = check(&options)?;
    Ok(Planned { options: options.filled(), plan, against_turns })
}

/// Returns the interleaved comparisons of a run with these options and cells, for stores in `room`; none without turns.
fn comparisons(options: &Options, cells: &[Cell], room: Room) -> Vec<Comparison> {
    options.interleave.map(|interleave| interleave::comparisons(cells, interleave, room)).unwrap_or_default()
}

/// Returns an estimate of the bytes that a run needs on disk: those of its largest store or, if stores take turns, those
/// of the stores that a comparison loads together.
fn needed_disk(comparisons: &[Comparison], cells: &[Cell]) -> f64 {
    free_space::needed(cells).max(interleave::needed(comparisons, cells).disk)
}

/// Returns the interleaved comparisons of a run, or an error if the stores may need more than the free space, than
/// `--map-size` or, if they take turns, than the available memory. With `--no-space-check` there is no such error.
fn check_space(options: &Options, cells: &[Cell]) -> Result<Vec<Comparison>, Error> {
    let room = Room::of(options);
    let comparisons = comparisons(options, cells, room);
    free_space::check(options, cells, needed_disk(&comparisons, cells))
        .and_then(|()| interleave::check_memory(&comparisons, cells, room))
        .map_err(Error::NoSpace)?;
    Ok(comparisons)
}

/// Returns the run in a result file that is continued or replaced.
fn read_result(path: &Path) -> Result<Run, Error> {
    // The open of a FIFO would wait for another process.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Error::NoFile(path.into()));
    }
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NothingToResume(path.display().to_string()),
        _ => Error::file(path)(error),
    })?;
    serde_json::from_reader(BufReader::new(file))
        .map_err(|source| Error::NoResult { path: path.into(), source })
}

/// Returns an error if `--output` exists and the run may not replace it: only an empty file or a result is replaced, and
/// only with `--force`. With `--resume`, it must be a result.
///
/// # Errors
///
/// [`Error::Exists`], [`Error::NoFile`], [`Error::NoResult`], [`Error::NothingToResume`] and [`Error::File`].
pub fn check_output(options: &Options) -> Result<(), Error> {
    if options.resume {
        return read_result(&options.output).map(drop);
    }
    let Ok(metadata) = fs::metadata(&options.output) else { return Ok(()) };
    if !metadata.is_file() || metadata.len() > 0 {
        read_result(&options.output)?;
    }
    if options.force { Ok(()) } else { Err(Error::Exists(options.output.clone())) }
}

/// Returns an error if the server of `--target` does not reply, or holds keys that the run may not remove, or if the
/// process of `--target-pid` does not exist.
fn check_target(options: &Options) -> Result<(), Error> {
    let Some(target) = &options.target else { return Ok(()) };
    if let Some(pid) = target.pid.filter(|pid| !process_usage::can_read(*pid)) {
        return Err(Error::Conditions(format!(
            "--target-pid {pid}: this machine has no process with this id; name the process of the server, or leave \
             --target-pid out"
        )));
    }
    over_wire::check_target(target)
        .map_err(|reason| Error::Target { address: target.address.clone(), reason })
}

/// Returns an error if a measurement failed, or if cells that are compared did unequal work; prints the failures to
/// standard error.
///
/// # Errors
///
/// [`Error::Unsound`] if a measurement failed, [`Error::UnequalWork`] if cells did unequal work.
pub fn verdict(run: &Run) -> Result<(), Error> {
    failures::print(&run.samples);
    match run.samples.iter().filter(|sample| sample.outcome.failure().is_some()).count() {
        0 => match equal_work::unequal(run) {
            unequal if unequal.is_empty() => Ok(()),
            unequal => Err(Error::UnequalWork(unequal)),
        },
        unsound => Err(Error::Unsound { unsound, all: run.samples.len() }),
    }
}

fn begin(options: &Options, plan: Plan) -> Result<(Run, OutputLock), Error> {
    check_output(options)?;
    check_target(options)?;
    let swap = swap_warning(options)?;
    let comparisons = check_space(options, &plan.cells)?;
    let parent = options.output.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        fs::create_dir_all(parent)
            .map_err(|source| Error::OutputDirectory { path: options.output.clone(), source })?;
    }
    let lock = OutputLock::new(&options.output)?;
    let directory = &options.directory;
    create_directory(options)?;
    let mut environment = environment::describe(directory, &plan.cells, &options.conditions);
    let evicted = interleave::page_cache_warning(&comparisons, &plan.cells, environment.memory_bytes);
    swap.into_iter().chain(evicted).for_each(|warning| environment::add_warning(&mut environment, warning));
    if let Some(duel) = &options.duel {
        environment.libraries.retain(|store, library| {
            // The library of the program that controls the duel is not measured.
            duel.new.build.libraries.get(store).map(|new| library.clone_from(new)).is_some()
        });
    }
    let run = Run {
        schema: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        started: now(),
        command: options.command.clone(),
        suite: options.suite.map(|suite| suite.name.into()),
        environment,
        row_heading: plan.row_heading,
        cells: plan.cells,
        left_out: plan.left_out,
        repetitions: options.repetitions,
        samples: Vec::new(),
        comparisons,
        duel: options.duel.clone(),
        finished: false,
    };
    Ok((run, lock))
}

/// Creates `--dir` unless it exists.
fn create_directory(options: &Options) -> Result<(), Error> {
    let path = &options.directory;
    fs::create_dir_all(path).map_err(|source| Error::Directory { path: path.clone(), source })
}

/// Returns the run in the result file, to be continued, without the failed samples of cells that are measured alone:
/// these are measured again. Fails if the file has another version, build (also of another program that measures a
/// store), command (apart from the flags of the result file and `--flush-target`), pair of duel programs or plan, or a run
/// that is not complete another machine: such measurements do not belong in one result.
fn resume(options: &Options, plan: Plan) -> Result<(Run, OutputLock), Error> {
    let path = &options.output;
    if !path.is_file() {
        // Returns the error; a lock would need the directory.
        read_result(path)?;
    }
    let lock = OutputLock::new(path)?;
    let mut run = read_result(path)?;
    let differs = |what| Err(Error::Differs { path: path.clone(), what });
    if run.schema != SCHEMA_VERSION || run.version != env!("CARGO_PKG_VERSION") {
        return differs("version of kvbench");
    }
    // Builds of one commit with different uncommitted changes differ in their programs only.
    let programs = run.environment.program.zip(stored_calibration::program().ok());
    let is_other_program = programs.is_some_and(|(before, now)| before != now);
    if run.environment.commit.as_deref() != option_env!("KVBENCH_COMMIT") || is_other_program {
        return differs("build of kvbench");
    }
    if measured_words(&run.command) != measured_words(&options.command) {
        return differs("command line");
    }
    if run.duel != options.duel {
        return differs("pair of programs");
    }
    let programs = environment::programs(&plan.cells);
    if run.environment.programs.iter().any(|(store, before)| programs.get(store) != Some(before)) {
        return differs("build of the program of a store");
    }
    if run.cells != plan.cells || run.repetitions != options.repetitions {
        return differs("plan");
    }
    failures::remove(&mut run);
    run.finished &= is_complete(&run);
    if run.finished {
        return Ok((run, lock));
    }
    check_target(options)?;
    let swap = swap_warning(options)?;
    create_directory(options)?;
    let now = environment::describe(&options.directory, &run.cells, &options.conditions);
    if !environment::is_same_machine(&now, &run.environment) {
        return differs("machine");
    }
    // Warnings of now apply to the cells that are still to be measured.
    let warnings = now.warnings.into_iter().chain(swap);
    warnings.for_each(|warning| environment::add_warning(&mut run.environment, warning));
    Ok((run, lock))
}

/// Returns a warning about swap space that makes `--memory-limit` useless, or an error if a control group with this limit
/// cannot be made. Each job has a group of its own; this one shows whether one can be made.
fn swap_warning(options: &Options) -> Result<Option<String>, Error> {
    let group =
        options.conditions.memory_limit.map(MemoryGroup::new).transpose().map_err(Error::Conditions)?;
    Ok(group.and_then(|group| group.swap_warning(memory_limit::swap_bytes())))
}

/// Returns `true` if no cell or comparison of the run is left to measure.
fn is_complete(run: &Run) -> bool {
    let is_done = |cell: &Cell| match run.comparison(&cell.id) {
        Some(comparison) => comparison.end.is_some(),
        None => (0..run.repetitions).all(|repetition| run.has(&cell.id, repetition)),
    };
    run.cells.iter().all(is_done)
}

/// Adds a result of each job for each repetition: a measurement, or without one the failure that the job has had twice,
/// or that the data exceed `--memory-limit`. Skips jobs that the run already has, and cells of interleaved comparisons.
/// The order of jobs differs between repetitions, so that changes of the machine during the run (heat, another process, a
/// disk that fills) affect all engines equally.
fn measure(options: &Options, run: &mut Run) -> Result<(), Error> {
    let alone = run.cells.iter().filter(|cell| run.comparison(&cell.id).is_none());
    let jobs: Vec<Vec<Cell>> = jobs(&alone.cloned().collect::<Vec<_>>());
    let memory_limit = options.conditions.memory_limit.map(|limit| limit + driver_memory(options, run));
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
            let excluded = || excluded(cells, options.conditions.memory_limit);
            let (reports, disturbance) = match failures::known(run, cells).or_else(excluded) {
                Some(reports) => (reports, None),
                None => {
                    let job = job(options, cells, repetition);
                    measured_or_searched(options, &job, memory_limit, &bar, &mut attempts)
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

/// Prints a warning to standard error and adds it to the result.
fn warn(environment: &mut Environment, warning: String) {
    // The warnings of a resumed run were printed at its start.
    if !environment.warnings.contains(&warning) {
        eprintln!("kvbench: warning: {warning}");
    }
    environment::add_warning(environment, warning);
}

/// Returns the memory of the driver in bytes, which is measured and recorded once in a run with `--memory-limit`. If it
/// is not known, warns that the limit contains it, and returns 0.
fn driver_memory(options: &Options, run: &mut Run) -> u64 {
    if run.environment.driver_memory_bytes.is_none() {
        match driver_memory::measure(options, &run.cells) {
            Ok(bytes) => run.environment.driver_memory_bytes = Some(bytes),
            Err(reason) => warn(
                &mut run.environment,
                format!("--memory-limit contains the driver, whose own memory is not known: {reason}"),
            ),
        }
    }
    run.environment.driver_memory_bytes.unwrap_or(0)
}

/// Returns reports of the cells of a job as unsupported if their store keeps all data in memory, and the data exceed
/// `limit` (`--memory-limit`, in bytes). `None` if the cells can be measured, or without a limit.
fn excluded(cells: &[Cell], limit: Option<u64>) -> Option<Vec<Report>> {
    let (limit, first) = (limit? as f64, cells.first()?);
    let store = &first.target.store;
    let info = synthetic::info(store).filter(|_| !synthetic::is_reference(store))?;
    let data = cells.iter().map(|cell| cell.workload.most_keys() as f64 * cell.workload.pair_bytes());
    let data = data.fold(0.0, f64::max);
    let is_resident = info.capabilities.memory_resident || !first.target.persistent;
    if !is_resident || data <= limit {
        return None;
    }
    let short = |bytes| number_format::short(Unit::Bytes, bytes);
    let reason =
        format!("its data are all in memory, and {} exceed --memory-limit {}", short(data), short(limit));
    Some(cells.iter().map(|cell| Report::of(cell, Outcome::Unsupported(reason.clone()))).collect())
}

/// Prints the result of one cell as a line on standard error, for runs without a terminal, which show no progress bar.
fn print_report(report: &Report, bar: &ProgressBar, repetition: u32) {
    let words = match &report.outcome {
        Outcome::Measured(measured) if !measured.is_sound() => "failed".to_owned(),
        Outcome::Measured(measured) if measured.latency.count > 0 => format!(
            "{}, p99 {}",
            number_format::short(Unit::PerSecond, measured.throughput),
            number_format::short(Unit::Microseconds, measured.latency.p99_us)
        ),
        Outcome::Measured(measured) if measured.seconds <= 0.0 => "measured, without times".to_owned(),
        Outcome::Measured(measured) => number_format::short(Unit::Seconds, measured.seconds),
        Outcome::Failed(text) => format!("failed: {text}"),
        Outcome::Unsupported(text) => format!("n/a: {text}"),
    };
    let (done, all) = (bar.position(), bar.length().unwrap_or_default());
    eprintln!("kvbench: {done}/{all}, repetition {}: {}: {words}", repetition + 1, report.cell);
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
