//! Measures the jobs of a run (each: the cells that one process measures), and repeats a job while other processes
//! disturb it.

use super::{
    find_rate::{self, Lengths},
    interference, interrupt,
    job_messages::{self, Job, Report},
    order, verification,
};
use crate::{
    bench::{
        plan::options::{Options, RunConditions},
        result::{Cell, Disturbance, Duel, Side, Target},
    },
    engine::Kind,
};
use indicatif::ProgressBar;
use std::path::PathBuf;

/// Measures a job like [`undisturbed`]; with a goal of `--find-rate`, searches the rate of its cell.
pub(super) fn measured_or_searched(
    options: &Options,
    job: &Job,
    memory_limit: Option<u64>,
    bar: &ProgressBar,
    attempts: &mut usize,
) -> (Vec<Report>, Option<Disturbance>) {
    let workload = job.cells.first().map(|cell| &cell.workload);
    let Some((workload, goal)) = workload.and_then(|workload| Some((workload, workload.rate_goal?))) else {
        return undisturbed(options, job, memory_limit, bar, attempts);
    };
    let lengths = Lengths::of(workload.seconds.unwrap_or(1.0));
    find_rate::search(goal, lengths, options.conditions.foreign_limit, &mut |rate, seconds| {
        // One disturbed trial can decide the rate, so each is repeated, even if the machine was busy in the one before.
        *attempts = interference::ATTEMPTS;
        undisturbed(options, &find_rate::trial(job, rate, seconds), memory_limit, bar, attempts)
    })
}

/// Measures a job, and repeats it if other processes use more of the CPUs than `--foreign` allows; returns the reports
/// with the least interference from the load of the store to the verification. `memory_limit` is the limit of the job's
/// control group in bytes: of the store and the driver. With an external server, interference is not measured: the server
/// itself would count as another process. `attempts` is the maximum number of measurements, and is set to that of the next
/// job: a machine that was busy in every attempt is not waited for again, until it was calm once.
fn undisturbed(
    options: &Options,
    job: &Job,
    memory_limit: Option<u64>,
    bar: &ProgressBar,
    attempts: &mut usize,
) -> (Vec<Report>, Option<Disturbance>) {
    let RunConditions { quiet_wait, foreign_limit, cpus, .. } = &options.conditions;
    let limit = foreign_limit.unwrap_or(f64::INFINITY);
    let mut attempt = 0;
    // A soak takes too long to be repeated; its result says how busy the machine was.
    let is_soak = job.cells.iter().any(|cell| cell.workload.soak);
    let most = if is_soak { 1 } else { *attempts };
    let measured = interference::least_disturbed(limit, most, || {
        interference::wait_for_disk(&options.directory, *quiet_wait);
        let watch = options.target.is_none().then(interference::CpuWatch::start);
        let reports = job.run(cpus, memory_limit);
        let disturbance = watch.and_then(|watch| watch.end());
        let failed = reports.iter().any(|report| report.outcome.failure().is_some());
        // A failed job would fail again, so it is not repeated.
        let is_final = failed || interrupt::received().is_some();
        let part = disturbance.filter(|_| !is_final).map_or(0.0, |disturbance| disturbance.part());
        attempt += 1;
        if let Some(found) = disturbance.filter(|_| part > limit) {
            tell_disturbance(job, &found, limit, attempt < most, bar);
        }
        ((reports, disturbance), part)
    });
    let (reports, disturbance) = measured.unwrap_or_default();
    let is_busy = disturbance.as_ref().is_some_and(|found| found.part() > limit);
    *attempts = if is_busy { 1 } else { interference::ATTEMPTS };
    (reports, disturbance)
}

/// Prints a line on standard error about a job during which others used more of the CPUs than `limit`, from 0 to 1.
fn tell_disturbance(job: &Job, found: &Disturbance, limit: f64, is_repeated: bool, bar: &ProgressBar) {
    let cell = job.cells.first().map_or("", |cell| cell.id.as_str());
    let what = match is_repeated {
        true => "it is measured again",
        false => "the least disturbed attempt is kept",
    };
    bar.suspend(|| {
        eprintln!(
            "kvbench: {cell}: other programs used {:.0}% of the CPUs, and other virtual machines {:.0}%, from the load to \
             the verification; --foreign allows {:.0}%; {what}",
            found.foreign * 100.0,
            found.stolen * 100.0,
            limit * 100.0
        );
    });
}

/// Returns the job that measures `cells` in one process, with keys and values made from the seed of the repetition
/// `repetition`.
pub(super) fn job(options: &Options, cells: &[Cell], repetition: u32) -> Job {
    job_in(options, cells, repetition, job_messages::directory(&options.directory))
}

/// Returns the job that measures `cells` in one process, with its files in `directory`: see [`job`].
pub(super) fn job_in(options: &Options, cells: &[Cell], repetition: u32, directory: PathBuf) -> Job {
    let foreign = options.target.as_ref();
    let arguments =
        |target: &Target| (options.server_arguments)(target, &directory.join("store"), options.map_bytes);
    let target = cells.first().map(|cell| &cell.target);
    let of_duel = |(duel, side): (&Duel, Side)| duel.program(side).path.clone().into();
    let of_store = |target: &Target| Kind::find(&target.store)?.program.map(Into::into);
    let mut cells = cells.to_vec();
    for cell in &mut cells {
        cell.workload.seed = order::seed_of(cell.workload.seed, repetition);
    }
    Job {
        cells,
        map_size: options.map_bytes,
        server_arguments: target.map(arguments).unwrap_or_default(),
        load_arguments: target.map(|target| arguments(&job_messages::unsynced(target))).unwrap_or_default(),
        cold: options.conditions.cold,
        in_slices: false,
        loads_until_killed: false,
        verified: verified_at_most(&options.conditions),
        server_cpus: options.conditions.cpus.server.clone(),
        flush_target: foreign.is_some_and(|foreign| foreign.flush),
        target_pid: foreign.and_then(|foreign| foreign.pid),
        program: options
            .duel
            .as_ref()
            .zip(target.and_then(|target| target.side))
            .map(of_duel)
            .or_else(|| target.and_then(of_store)),
        directory,
    }
}

/// Returns the maximum number of values that are read and compared at the end of a job. It is smaller with `--cold` or
/// `--memory-limit`, where most reads come from the disk.
pub(super) fn verified_at_most(conditions: &RunConditions) -> u64 {
    match conditions.cold || conditions.memory_limit.is_some() {
        true => verification::MAX_FROM_DISK,
        false => verification::MAX_COMPARED,
    }
}
