//! Recovery after a kill: another process loads and updates the store, is killed under that load, and this process
//! opens the store with a cold cache. The page cache of the killed process survives and is written back before, so
//! this is no power cut.

use super::{
    noop_data,
    open::{fsync, load_open_store, open_options},
};
use crate::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        result::{Cell, Measurement, Outcome, Workload},
        run::{
            cold,
            disk_usage::Files,
            in_process::driver::InProcessBench,
            job_messages::{Job, SUBCOMMAND},
            process_usage::ProcessUsage,
            verification::compare_count,
        },
    },
    engine::{Engine, Fsync, synthetic},
};
use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    ops::ControlFlow,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Line with which the process that loads the store reports that it has made its updates, and goes on.
const READY: &str = "ready";

/// Time from the start of the updates after the cell's own to the line [`READY`], so that the kill does not come before
/// the first of them.
const UNDER_LOAD: Duration = Duration::from_millis(20);

/// Measures how long a store whose process was killed while it updated takes to open and to return a first value.
/// Afterwards compares values, if there are many keys only of evenly spaced ones, and the number of keys. `cell` is the
/// only cell of the job.
pub(super) fn measure(job: &Job, cell: &Cell) -> Result<Outcome, String> {
    kill_under_load(job)?;
    // What the killed process had written is in the page cache; on the device too, it can be dropped.
    Files::of(&job.directory).write_back().map_err(|error| format!("after the kill: syncfs: {error}"))?;
    cold::evict(&job.directory).map_err(|error| format!("after the kill: {error}"))?;
    let data = Data::new(&cell.workload).map_err(|error| format!("cannot read the data: {error}"))?;
    let options = open_options(job, &cell.target);
    let data = Arc::new(data);
    let expected = noop_data::of(&data, &Arc::new(KeyLedger::new(0)));
    let begin = Instant::now();
    let engine = synthetic::open(&cell.target.store, &options, &expected)
        .map_err(|error| format!("after the kill: open: {error}"))?;
    let mut check = Check { data: &data, measurement: Measurement::default() };
    let keys = cell.workload.keys;
    let mut checked = checked_keys(keys, job.verified);
    if let Some(first) = checked.next() {
        check.value(&*engine, first);
    }
    let seconds = begin.elapsed().as_secs_f64();
    checked.for_each(|index| check.value(&*engine, index));
    let mut measurement = check.measurement;
    compare_count(&mut measurement, &engine.count(), keys);
    engine.close().map_err(|error| format!("close: {error}"))?;
    let recovery_seconds = Some(seconds);
    let (keys_before, keys_after) = (Some(keys), Some(keys));
    Ok(Outcome::Measured(Measurement {
        operations: 1,
        seconds,
        recovery_seconds,
        keys_before,
        keys_after,
        ..measurement
    }))
}

/// Starts a process that loads and updates the store, and kills it while it goes on updating.
fn kill_under_load(job: &Job) -> Result<(), String> {
    let fail = |error: io::Error| format!("cannot load in a process of its own: {error}");
    let program = env::current_exe().map_err(fail)?;
    let mut child = Command::new(program)
        .arg(SUBCOMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let line = order(job, &mut child).map_err(fail);
    // Under load: the process updates until this signal.
    let killed = child.kill().and_then(|()| child.wait()).map_err(fail);
    match line?.trim() {
        READY => killed.map(drop),
        "" => Err(format!("load before the kill: its process ended early: {}", killed?)),
        fault => Err(format!("load before the kill: {fault}")),
    }
}

/// Writes the job to the standard input of the process, and returns the first line of its standard output: [`READY`],
/// the text of an error, or nothing if the process has ended without a line.
fn order(job: &Job, child: &mut Child) -> io::Result<String> {
    // Kept in the child: the process ends when its standard input is closed.
    let stdin = child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
    serde_json::to_writer(&mut *stdin, &Job { loads_until_killed: true, ..job.clone() })?;
    writeln!(stdin)?;
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut line)?;
    Ok(line)
}

/// Runs in the process that will be killed: loads the store, makes the cell's updates, goes on until the kill, and
/// reports on standard output when it goes on. Returns only with the text of an error.
pub(in crate::bench::run) fn load_until_killed(job: &Job) -> Result<(), String> {
    let cell = job.cells.first().ok_or("no cell")?;
    let workload = &cell.workload;
    let data = Data::new(workload).map_err(|error| format!("cannot read the data: {error}"))?;
    let data = Arc::new(data);
    let live = Arc::new(KeyLedger::new(data.capacity()));
    let options = open_options(job, &cell.target);
    let engine = load_open_store(&options, cell, &data, &live)?;
    let mut bench = InProcessBench::new(&*engine, &data, &live);
    bench.sync = fsync(&cell.target) == Fsync::Always;
    bench.sync_every_second = fsync(&cell.target) == Fsync::EverySec;
    updated(&bench, workload)?;
    let report_ready = || {
        thread::sleep(UNDER_LOAD);
        let mut stdout = io::stdout().lock();
        // Fails if the parent has ended, with which this process ends too.
        let _ = writeln!(stdout, "{READY}").and_then(|()| stdout.flush());
    };
    thread::Builder::new().spawn(report_ready).map_err(|error| error.to_string())?;
    // Between two runs there would be no load.
    updated(&bench, &Workload { operations: None, ..workload.clone() })?;
    Err("its updates ended before the kill".into())
}

/// Makes the updates of `workload`. Fails with the text of the first fault.
fn updated(bench: &InProcessBench<'_>, workload: &Workload) -> Result<(), String> {
    let mut phases = bench.run(&[workload], ProcessUsage::default).into_iter();
    let fault = phases.find_map(|phase| phase.recorder.measurement(phase.start).first_fault);
    fault.map_or(Ok(()), Err)
}

/// Returns the numbers of the keys whose values are checked: at most `most` and at least one, evenly spread over all
/// `keys`. The first number is 0.
fn checked_keys(keys: u64, most: u64) -> impl Iterator<Item = u64> {
    let count = keys.min(most.max(1));
    let spread = move |place: u64| u128::from(place) * u128::from(keys) / u128::from(count);
    (0..count).map(move |place| spread(place) as u64)
}

/// Comparison of the values in the recovered store with those that were written.
struct Check<'d> {
    data: &'d Data,
    measurement: Measurement,
}

impl Check<'_> {
    /// Reads the value of key `index` and checks that it was written, in any version: an update that the kill
    /// interrupted may have taken effect or not. A missing value is a fault.
    fn value(&mut self, engine: &dyn Engine, index: u64) {
        let (mut key, mut found) = (Vec::new(), None);
        self.data.key(index, &mut key);
        let read = engine.read(&[&key], &mut |_, value| {
            found = value.map(|value| self.data.check(index, value).is_some());
            ControlFlow::Continue(())
        });
        let measurement = &mut self.measurement;
        let text = match (read, found) {
            (Ok(()), Some(true)) => {
                *measurement.verified_values.get_or_insert(0) += 1;
                return;
            }
            (Ok(()), Some(false)) => {
                measurement.wrong_values += 1;
                format!("after the kill, key {index} has a value that nobody wrote")
            }
            (Ok(()), None) => {
                measurement.misses += 1;
                format!("after the kill, key {index} of the synced load is missing")
            }
            (Err(error), _) => {
                measurement.errors += 1;
                format!("after the kill: {error}")
            }
        };
        measurement.first_fault.get_or_insert(text);
    }
}

#[cfg(test)]
mod tests {
    use super::checked_keys;

    /// Once the first key was read twice, and of 19 keys all were read where 10 were asked for.
    #[test]
    fn each_key_is_checked_once_and_no_more_than_asked_for() {
        for (keys, most) in [(1, 1), (1, 10), (10, 10), (19, 10), (20, 10), (1000, 7), (5, 0)] {
            let checked: Vec<_> = checked_keys(keys, most).collect();
            assert_eq!(checked.len() as u64, keys.min(most.max(1)), "{keys} keys, {most}: {checked:?}");
            assert!(checked[0] == 0 && checked.is_sorted_by(|one, next| one < next), "{checked:?}");
            // The last part of the keys is checked too.
            let last = keys - checked[checked.len() - 1];
            assert!(last <= keys.div_ceil(checked.len() as u64), "{keys} keys, {most}: {checked:?}");
        }
    }
}
