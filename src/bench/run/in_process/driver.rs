//! The driver: operating system threads that call an engine.

pub use super::target::InProcessBench;
use super::worker::{End, Worker};
use crate::{
    bench::{
        plan::workload::Mix,
        result::Workload,
        run::{
            allocations,
            clock::Clock,
            pace::{self, Pace},
            phase::PhaseResult,
            process::ProcessUsage,
            recorder::{Fault, Recorder},
        },
    },
    engine,
};
use std::{
    mem,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

/// State that the threads of a phase share.
struct Shared<'b> {
    bench: &'b InProcessBench<'b>,
    clock: Clock,
    barrier: Barrier,
    /// Number of threads of the first workload that still run.
    leaders: AtomicU32,
    /// `true` when all threads of the first workload have ended.
    stop: AtomicBool,
}

impl InProcessBench<'_> {
    /// Runs workloads at the same time, until the first of them ends. `usage` reads the resources that the
    /// process has used so far.
    pub fn run(&self, workloads: &[&Workload], usage: impl Fn() -> ProcessUsage) -> Vec<PhaseResult> {
        let threads: u32 = workloads.iter().map(|workload| workload.threads).sum();
        let shared = Shared {
            bench: self,
            clock: Clock::start(),
            barrier: Barrier::new(threads as usize + 1),
            leaders: AtomicU32::new(workloads.first().map_or(0, |first| first.threads)),
            stop: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let spawn = |place: usize, workload| {
                let chooser = Worker::chooser(self, workload);
                let start = |thread| {
                    let chooser = chooser.for_thread(u64::from(thread), workload.salted_seed());
                    let (worker, shared) =
                        (Worker::new(self, shared.clock.clone(), workload, chooser), &shared);
                    scope.spawn(move || shared.drive(worker, workload, thread, place == 0))
                };
                (0..workload.threads).map(start).collect::<Vec<_>>()
            };
            let handles: Vec<_> =
                workloads.iter().enumerate().map(|(place, workload)| spawn(place, *workload)).collect();
            let syncs = self.sync_every_second.then(|| scope.spawn(|| shared.sync_every_second()));
            // The warm-up lies between the first and the second wait at the barrier, the measurement after
            // the third: the usage of the process is read while no thread works.
            shared.barrier.wait();
            shared.barrier.wait();
            let before = usage();
            allocations::leave_out(self.counts);
            let counter = self.counts.then(allocations::start);
            shared.barrier.wait();
            let recorders: Vec<Vec<_>> = handles
                .into_iter()
                .map(|threads| threads.into_iter().filter_map(|thread| thread.join().ok()).collect())
                .collect();
            let allocated = counter.and_then(allocations::Counter::stop);
            let usage = ProcessUsage { allocated, ..usage().since(&before) };
            let mut phases: Vec<_> =
                recorders.into_iter().filter_map(|parts| PhaseResult::sum(parts, &usage)).collect();
            let failure = syncs.and_then(|syncs| syncs.join().ok()).flatten();
            if let (Some(error), Some(phase)) = (failure, phases.first_mut()) {
                phase.recorder.fault(Fault::Error(format!("sync: {error}")));
            }
            phases
        })
    }
}

impl InProcessBench<'_> {
    /// Executes the operations of the workload's first thread on this thread, as a closed loop. The memory of
    /// the operations can then be returned to the system: glibc keeps the end of a heap that another thread
    /// used.
    pub fn run_here(&self, workload: &Workload) -> PhaseResult {
        let clock = Clock::start();
        let chooser = Worker::chooser(self, workload).for_thread(0, workload.salted_seed());
        let mut worker = Worker::new(self, clock.clone(), workload, chooser);
        let start = clock.now();
        worker.recorder = Recorder::new(start, workload.slice());
        let operations = workload.share(0).unwrap_or(u64::MAX);
        worker.run(Mix::new(workload), End { time: u64::MAX, operations, stop: None });
        PhaseResult { recorder: worker.recorder, start, usage: ProcessUsage::default() }
    }
}

impl Shared<'_> {
    /// Executes one thread: warm-up, then measurement. Returns the start of the measurement in nanoseconds,
    /// and its record.
    fn drive(
        &self,
        mut worker: Worker<'_>,
        workload: &Workload,
        thread: u32,
        leads: bool,
    ) -> (u64, Recorder) {
        pace::wake_in_time();
        allocations::leave_out(self.bench.counts);
        self.barrier.wait();
        if let Some(steady) = workload.warm_up() {
            let start = self.clock.now();
            worker.pace = Pace::new(workload.rate, start, thread, workload.threads);
            let time = start + (workload.warmup_seconds * 1e9) as u64;
            worker.run(Mix::new(&steady), End { time, operations: u64::MAX, stop: None });
        }
        self.barrier.wait();
        self.barrier.wait();
        let start = self.clock.now();
        worker.pace = Pace::new(workload.rate, start, thread, workload.threads);
        let warm_up = mem::replace(&mut worker.recorder, Recorder::new(start, workload.slice()));
        worker.recorder.add_faults(&warm_up);
        // A workload that runs together with the first one ends with it.
        let end = match leads {
            true => End {
                time: workload.nanoseconds().map_or(u64::MAX, |length| start + length),
                operations: workload.share(thread).unwrap_or(u64::MAX),
                stop: None,
            },
            false => End { time: u64::MAX, operations: u64::MAX, stop: Some(&self.stop) },
        };
        worker.run(Mix::new(workload), end);
        if leads && self.leaders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.stop.store(true, Ordering::SeqCst);
        }
        (start, worker.recorder)
    }

    /// Syncs once per second until the phase ends. Stops at the first failed sync and returns its error,
    /// since a later successful sync would not prove that the data is durable.
    fn sync_every_second(&self) -> Option<engine::Error> {
        let mut next = self.clock.now() + 1_000_000_000;
        while !self.stop.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
            if self.clock.now() >= next {
                next += 1_000_000_000;
                let Err(error) = self.bench.engine.sync() else { continue };
                return Some(error);
            }
        }
        None
    }
}
