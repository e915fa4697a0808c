//! Execution of a workload in process in slices: between two slices all threads of the driver are parked.

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
        allocations,
        interleave::{
            slice::{Slice, SliceReport},
            turns::{self, Hooks, Turns},
        },
        pace::{self, Pace},
        panics,
        phase_result::PhaseResult,
        process_usage::ProcessUsage,
        recorder::{Fault, Recorder},
        resource_meter::Meter,
    },
};
use std::{
    cell::RefCell,
    io, mem,
    sync::atomic::Ordering,
    thread::{self, Builder},
};

/// Runs the store for each slice of time that is requested on standard input, and reports each on standard output.
/// Returns the measurement of all slices together, without those of the warm-up.
pub(super) fn serve(bench: &InProcessBench<'_>, workload: &Workload, meter: &Meter<'_>) -> PhaseResult {
    let hooks = Hooks { begin: &|| meter.begin(), usage: &|| meter.read(), drain: &|| meter.drain() };
    bench.run_slices(workload, hooks, turns::requested(meter))
}

impl InProcessBench<'_> {
    /// Runs a workload in the slices that `next` returns, until it returns `None`. `next` is called with the report of
    /// the slice before while all threads are parked. The clock of the result is the sum of the slices. If a thread
    /// cannot be started, no slice runs, and the result is that fault.
    pub fn run_slices(
        &self,
        workload: &Workload,
        hooks: Hooks<'_>,
        next: impl FnMut(Option<SliceReport>) -> Option<Slice>,
    ) -> PhaseResult {
        let shared = Shared::new(self, workload.threads, workload.threads);
        let turns = Turns::new(workload.threads);
        thread::scope(|scope| {
            let chooser = self.live.chooser(workload);
            let start = |thread: u32| {
                let chooser = chooser.for_thread(u64::from(thread), workload.salted_seed());
                let (shared, turns) = (&shared, &turns);
                let drive = move || match shared.wait_for_start() {
                    true => shared.drive_slices(turns, workload, (thread, chooser)),
                    false => (0, turns::recorder()),
                };
                Builder::new().spawn_scoped(scope, drive)
            };
            let handles: io::Result<Vec<_>> = (0..workload.threads).map(start).collect();
            let started =
                handles.and_then(|handles| Ok((handles, shared.spawn_background(scope, workload.threads)?)));
            let (handles, background) = match shared.release(started, workload.threads) {
                Ok(started) => started,
                Err(fault) => return PhaseResult::of_fault(fault),
            };
            allocations::leave_out(self.counts);
            let counter = RefCell::new(None);
            let with_syncs = |used| ProcessUsage { timer_syncs: shared.timer_syncs(), ..used };
            let begin = || {
                let used = with_syncs((hooks.begin)());
                counter.replace(self.counts.then(allocations::start));
                used
            };
            let usage = || {
                let allocated = counter.take().and_then(allocations::Counter::stop);
                ProcessUsage { allocated, ..with_syncs((hooks.usage)()) }
            };
            let served = turns.serve(&shared.clock, Hooks { begin: &begin, usage: &usage, ..hooks }, next);
            shared.stop.store(true, Ordering::SeqCst);
            shared.groups.close();
            let recorders: Vec<_> = handles.into_iter().map(|thread| joined(thread.join())).collect();
            let mut phase = PhaseResult::sum(recorders, &served.usage);
            (phase.start, phase.recorder.end) = (0, served.nanoseconds);
            served.failure.into_iter().for_each(|error| phase.recorder.fault(Fault::Error(error)));
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
    /// Executes the slices of one driver thread. Returns 0, the start of the measurement, and the thread's record.
    fn drive_slices(
        &self,
        turns: &Turns,
        workload: &Workload,
        (thread, chooser): (u32, KeyChooser),
    ) -> (u64, Recorder) {
        pace::wake_in_time();
        allocations::leave_out(self.bench.counts);
        let mut worker = Worker::new(self.bench, self.clock.clone(), workload, chooser);
        worker.groups = self.bench.in_groups.then_some(&self.groups);
        worker.recorder = turns::recorder();
        turns.ready();
        while let Some(turn) = turns.wait() {
            let slice = turn.slice;
            worker.pace = Pace::new(None, turn.start, thread, workload.threads);
            let end = End {
                time: turn.start.saturating_add(slice.nanoseconds),
                operations: slice.operations_of(workload, thread),
                stop: None,
            };
            if slice.is_warm_up {
                let measured = mem::replace(&mut worker.recorder, turns::warm_up_recorder(&turn));
                worker.run_caught(workload.warm_up_mix(), end);
                turns.add(&worker.recorder, &turn, 0);
                let warm_up = mem::replace(&mut worker.recorder, measured);
                worker.recorder.add_faults(&warm_up);
            } else {
                worker.recorder.begin_slice(turn.start, turn.first_bin);
                worker.run_caught(Mix::new(workload), end);
                turns.add(&worker.recorder, &turn, turn.first_bin);
            }
            turns.end();
        }
        (0, worker.recorder)
    }
}
