//! Execution of a workload in slices: between two slices all threads of the driver are parked, so that this process
//! can be stopped without a stop in the latency of an operation.

use super::{
    bench_context::InProcessBench,
    driver::{Shared, joined},
    worker::{End, Worker},
};
use crate::bench::{
    data::keys::KeyChooser,
    plan::workload::Mix,
    result::Workload,
    run::{
        interleave::slice::{self, BIN, Reply, Request, Slice, SliceReport},
        pace::{self, Pace},
        panics,
        phase_result::PhaseResult,
        process_usage::ProcessUsage,
        recorder::{Fault, Recorder},
        resource_meter::Meter,
    },
};
use std::{
    io, mem,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::Duration,
};

/// Slice of running time that the driver's threads execute next.
#[derive(Clone, Copy)]
struct Turn {
    slice: Slice,
    /// Start of the slice of running time, in nanoseconds of the clock.
    start: u64,
    /// Number of one-millisecond bins of the timeline that the slices before this one have filled.
    first_bin: usize,
}

/// State by which the thread that requests slices and the driver's threads exchange the slice and its measurement.
#[derive(Default)]
struct Turns {
    /// Slice that the driver's threads execute next; `None` ends them.
    next: Mutex<Option<Turn>>,
    /// Measurement of the current slice, summed over the threads that have ended it.
    report: Mutex<SliceReport>,
}

/// Runs the store for each slice of time that is requested on standard input, and reports each on standard output.
/// Returns the measurement of all slices together, without those of the warm-up.
pub(super) fn serve(bench: &InProcessBench<'_>, workload: &Workload, meter: &Meter<'_>) -> PhaseResult {
    // A closed standard output ends this process: the parent is gone, and standard input ends too.
    let tell = |reply: Reply| drop(slice::send(io::stdout().lock(), &reply));
    let next = |report: Option<SliceReport>| {
        tell(report.map_or(Reply::Ready, Reply::Slice));
        match slice::next_request() {
            Request::Slice(slice) => Some(slice),
            Request::Finish => None,
        }
    };
    bench.run_slices(workload, || meter.begin(), || meter.read(), || meter.drain(), next)
}

impl InProcessBench<'_> {
    /// Runs a workload in the slices that `next` returns, until it returns `None`. `next` is called with the report of
    /// the slice before while all threads are parked. The clock of the result is the sum of the slices. `begin` makes
    /// the store do its deferred work and then, as `usage`, reads the resources that the process has used so far. It is
    /// called before the first slice and after each warm-up at the start: what these used does not count. `drain` makes
    /// the store do its deferred work, after slices that are followed by write-back.
    pub fn run_slices(
        &self,
        workload: &Workload,
        begin: impl Fn() -> ProcessUsage,
        usage: impl Fn() -> ProcessUsage,
        drain: impl Fn() -> Result<(), String>,
        mut next: impl FnMut(Option<SliceReport>) -> Option<Slice>,
    ) -> PhaseResult {
        let shared = Shared::new(self, workload.threads, workload.threads);
        let turns = Turns::default();
        thread::scope(|scope| {
            let chooser = Worker::chooser(self, workload);
            let start = |thread: u32| {
                let chooser = chooser.for_thread(u64::from(thread), workload.salted_seed());
                let (shared, turns) = (&shared, &turns);
                scope.spawn(move || shared.drive_slices(turns, workload, (thread, chooser)))
            };
            let handles: Vec<_> = (0..workload.threads).map(start).collect();
            let background = shared.spawn_background(scope, workload.threads);
            let with_syncs = |used| ProcessUsage { timer_syncs: shared.timer_syncs(), ..used };
            let (mut before, mut clock, mut bins) = (with_syncs(begin()), 0, 0);
            let (mut report, mut failure) = (None, None);
            while let Some(slice) = next(report.take()) {
                let start = shared.clock.now();
                *lock(&turns.next) = Some(Turn { slice, start, first_bin: bins });
                shared.barrier.wait();
                shared.barrier.wait();
                let mut done = mem::take(&mut *lock(&turns.report));
                if slice.writes_back {
                    let begin = shared.clock.now();
                    failure = failure.or(drain().err());
                    done.write_back = Some(shared.clock.now().saturating_sub(begin));
                    done.has_failed |= failure.is_some();
                }
                if !slice.is_warm_up {
                    clock += done.nanoseconds;
                    bins += done.bins.len();
                } else if bins == 0 {
                    before = with_syncs(begin());
                }
                report = Some(done);
            }
            lock(&turns.next).take();
            shared.barrier.wait();
            let usage = with_syncs(usage()).since(&before);
            shared.stop.store(true, Ordering::SeqCst);
            shared.groups.close();
            let recorders: Vec<_> = handles.into_iter().map(|thread| joined(thread.join())).collect();
            let mut phase = PhaseResult::sum(recorders, &usage);
            (phase.start, phase.recorder.end) = (0, clock);
            failure.into_iter().for_each(|error| phase.recorder.fault(Fault::Error(error)));
            for (name, thread) in background {
                let outcome = thread.join().unwrap_or_else(|payload| Err(panics::message(&*payload)));
                if let Err(error) = outcome {
                    phase.recorder.fault(Fault::Error(format!("{name}: {error}")));
                }
            }
            phase
        })
    }
}

impl Shared<'_> {
    /// Executes one driver thread, which waits at the barrier before each slice. Returns 0, the start of the
    /// measurement, and the thread's record.
    fn drive_slices(
        &self,
        turns: &Turns,
        workload: &Workload,
        (thread, chooser): (u32, KeyChooser),
    ) -> (u64, Recorder) {
        pace::wake_in_time();
        let mut worker = Worker::new(self.bench, self.clock.clone(), workload, chooser);
        worker.groups = self.bench.in_groups.then_some(&self.groups);
        worker.recorder = Recorder::new(0, Duration::from_nanos(BIN));
        loop {
            self.barrier.wait();
            let Some(Turn { slice, start, first_bin }) = *lock(&turns.next) else { break };
            worker.pace = Pace::new(None, start, thread, workload.threads);
            let share = |all: u64| Workload { operations: Some(all), ..workload.clone() }.share(thread);
            let end = End {
                time: start.saturating_add(slice.nanoseconds),
                operations: slice.operations.and_then(share).unwrap_or(u64::MAX),
                stop: None,
            };
            let report = |recorder: &Recorder, bin| add_part(&mut lock(&turns.report), recorder, start, bin);
            if slice.is_warm_up {
                let warm_up = Recorder::new(start, Duration::from_nanos(BIN));
                let measured = mem::replace(&mut worker.recorder, warm_up);
                worker.run_caught(workload.warm_up().as_ref().and_then(Mix::new), end);
                report(&worker.recorder, 0);
                let warm_up = mem::replace(&mut worker.recorder, measured);
                worker.recorder.add_faults(&warm_up);
            } else {
                worker.recorder.begin_slice(start, first_bin);
                worker.run_caught(Mix::new(workload), end);
                report(&worker.recorder, first_bin);
            }
            self.barrier.wait();
        }
        (0, worker.recorder)
    }
}

/// Adds the record of one thread to `sum`, the measurement of the slice that began at `start` (nanoseconds of the
/// clock) and whose operations are in the record's bins from the index `first_bin` on.
fn add_part(sum: &mut SliceReport, part: &Recorder, start: u64, first_bin: usize) {
    sum.nanoseconds = sum.nanoseconds.max(part.end.saturating_sub(start));
    let bins = part.bins(first_bin);
    sum.bins.resize(sum.bins.len().max(bins.len()), 0);
    sum.bins.iter_mut().zip(bins).for_each(|(sum, bin)| *sum += bin);
    sum.longest = sum.longest.max(part.longest());
    sum.has_failed |= part.has_faults();
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
