//! The driver of measurements in process: operating system threads that call an engine.

pub use super::bench_context::InProcessBench;
use super::{
    group_commit::{self, CommitRequest},
    worker::{End, Worker},
};
use crate::{
    bench::{
        plan::workload::Mix,
        result::Workload,
        run::{
            allocations,
            pace::{self, Clock, Pace},
            panics,
            phase_result::PhaseResult,
            process_usage::{self, ProcessUsage},
            recorder::{Fault, Recorder},
        },
    },
    store::{
        CommitQueue,
        pause_aware_clock::{self, EverySecond},
    },
};
use std::{
    io, mem,
    sync::{
        Barrier, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, Builder, Scope, ScopedJoinHandle},
    time::Duration,
};

/// State that the driver's threads share while workloads run.
pub(super) struct Shared<'b> {
    pub bench: &'b InProcessBench<'b>,
    pub clock: Clock,
    /// Barrier at which all threads of the workloads and the thread that started them wait for each other.
    pub barrier: Barrier,
    /// `true` if all threads are started; `false` if one cannot be started, at which those that are started end. Not set
    /// before.
    started: OnceLock<bool>,
    /// Number of driver threads of the first workload that still run; with the last of them all workloads end.
    leaders: AtomicU32,
    /// `true` when all threads of the first workload have ended.
    pub stop: AtomicBool,
    /// Queue of the writes that wait for the commit thread (group commit).
    pub groups: CommitQueue<CommitRequest>,
    /// Number of syncs that the driver's thread with the one-second timer has made (fsync policy `everysec`).
    timer_syncs: AtomicU64,
}

/// Background threads of the benchmark, each with its name.
type Background<'scope> = Vec<(&'static str, ScopedJoinHandle<'scope, Result<(), String>>)>;

impl InProcessBench<'_> {
    /// Runs workloads at the same time, each after its warm-up, until the first of them ends. Returns one result for
    /// each workload. A thread that panics ends, and its panic is a fault of its workload. If a thread cannot be started,
    /// no workload runs, and each has that fault. `usage` reads the resources that the process has used so far; it is
    /// called before and after the measurement.
    pub fn run(&self, workloads: &[&Workload], usage: impl Fn() -> ProcessUsage) -> Vec<PhaseResult> {
        let threads: u32 = workloads.iter().map(|workload| workload.threads).sum();
        let shared = Shared::new(self, threads, workloads.first().map_or(0, |first| first.threads));
        thread::scope(|scope| {
            let spawn = |(place, workload)| shared.spawn(scope, workload, place == 0);
            let handles: io::Result<Vec<_>> = workloads.iter().copied().enumerate().map(spawn).collect();
            let started = handles.and_then(|handles| Ok((handles, shared.spawn_background(scope, threads)?)));
            let (handles, background) = match shared.release(started, threads) {
                Ok(started) => started,
                Err(fault) => {
                    return workloads.iter().map(|_| PhaseResult::of_fault(fault.clone())).collect();
                }
            };
            // The warm-up lies between the first and the second wait at the barrier, the measurement after
            // the third: the usage of the process is read while no thread works.
            shared.barrier.wait();
            shared.barrier.wait();
            let usage = || {
                let used = usage();
                let expired_keys = self.store.map(|store| store.expiry().removed());
                ProcessUsage { timer_syncs: shared.timer_syncs(), expired_keys, ..used }
            };
            let before = usage();
            allocations::leave_out(self.counts);
            let counter = self.counts.then(allocations::start);
            shared.barrier.wait();
            let sampler = self.soak.map(|soak| scope.spawn(|| soak.run(&shared.clock, &shared.stop)));
            let recorders: Vec<Vec<_>> = handles
                .into_iter()
                .map(|threads| threads.into_iter().map(|thread| joined(thread.join())).collect())
                .collect();
            shared.groups.close();
            let allocated = counter.and_then(allocations::Counter::stop);
            let usage = ProcessUsage { allocated, ..usage().since(&before) };
            self.store.inspect(|store| store.expiry().stop());
            let sampled = sampler.map_or(Ok(()), ScopedJoinHandle::join);
            let mut phases: Vec<_> =
                recorders.into_iter().map(|parts| PhaseResult::sum(parts, &usage)).collect();
            let background = background.into_iter().map(|(name, thread)| (name, thread.join()));
            for (name, outcome) in background.chain([("sampler", sampled.map(Ok))]) {
                let outcome = outcome.unwrap_or_else(|payload| Err(panics::message(&*payload)));
                if let (Err(error), Some(phase)) = (outcome, phases.first_mut()) {
                    phase.recorder.fault(Fault::Error(format!("{name}: {error}")));
                }
            }
            phases
        })
    }
}

impl InProcessBench<'_> {
    /// Executes the operations of the workload's first thread on this thread, as a closed loop without a warm-up or a
    /// time limit. A panic is not caught, and the result has no resource usage. The memory of the operations can then
    /// be returned to the system: glibc keeps the end of a heap that another thread used.
    pub fn run_here(&self, workload: &Workload) -> PhaseResult {
        let clock = Clock::start();
        let chooser = self.live.chooser(workload).for_thread(0, workload.salted_seed());
        let mut worker = Worker::new(self, clock.clone(), workload, chooser);
        let start = clock.now();
        worker.recorder = Recorder::new(start, workload.timeline_interval());
        let operations = workload.share(0).unwrap_or(u64::MAX);
        worker.run(Mix::new(workload), End { time: u64::MAX, operations, stop: None });
        PhaseResult { recorder: worker.recorder, start, usage: ProcessUsage::default() }
    }
}

impl<'b> Shared<'b> {
    /// Creates the state for `threads` threads of all workloads together, `leaders` of which are those of the first
    /// workload: when the last of these has ended, the other workloads stop.
    pub fn new(bench: &'b InProcessBench<'b>, threads: u32, leaders: u32) -> Self {
        Self {
            bench,
            clock: Clock::start(),
            barrier: Barrier::new(threads as usize + 1),
            started: OnceLock::new(),
            leaders: AtomicU32::new(leaders),
            stop: AtomicBool::new(false),
            groups: CommitQueue::default(),
            timer_syncs: AtomicU64::new(0),
        }
    }
}

impl Shared<'_> {
    /// Lets the started threads work. If `started` is the error of a thread that could not be started, ends them
    /// instead, and returns the fault of all workloads. `threads` is the number of threads of all workloads.
    pub fn release<T>(&self, started: io::Result<T>, threads: u32) -> Result<T, Fault> {
        if started.is_err() {
            self.stop.store(true, Ordering::SeqCst);
            self.groups.close();
            self.bench.store.inspect(|store| store.expiry().stop());
        }
        // Set only here.
        let _ = self.started.set(started.is_ok());
        started.map_err(|error| {
            Fault::Error(format!("cannot start {threads} threads: {error}; lower --threads"))
        })
    }

    /// Waits until all threads are started. Returns `false` if one cannot be started: the caller must then end.
    pub fn wait_for_start(&self) -> bool {
        *self.started.wait()
    }

    /// Starts the driver's threads that execute `workload`. `leads` is `true` for the first workload, with whose end
    /// all others end. They wait for [`Self::release`]. Fails if a thread cannot be started.
    fn spawn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        workload: &'scope Workload,
        leads: bool,
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, (u64, Recorder)>>> {
        let chooser = self.bench.live.chooser(workload);
        let start = |thread| {
            let chooser = chooser.for_thread(u64::from(thread), workload.salted_seed());
            // Made by its own thread, because it may hold a snapshot, which no other thread can use.
            Builder::new().spawn_scoped(scope, move || {
                if !self.wait_for_start() {
                    return (0, Recorder::new(0, workload.timeline_interval()));
                }
                let mut worker = Worker::new(self.bench, self.clock.clone(), workload, chooser);
                worker.groups = self.bench.in_groups.then_some(&self.groups);
                self.drive(worker, workload, thread, leads)
            })
        };
        (0..workload.threads).map(start).collect()
    }

    /// Starts the background threads that the benchmark needs: the one for a sync every second, the one for active
    /// expiration, and the commit thread. Returns each with its name. `threads` is the number of threads of all
    /// workloads. Fails if a thread cannot be started; [`Self::release`] then ends the others.
    pub fn spawn_background<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        threads: u32,
    ) -> io::Result<Background<'scope>> {
        let mut background = Vec::new();
        if self.bench.sync_every_second {
            let thread = Builder::new().spawn_scoped(scope, || self.sync_every_second())?;
            background.push(("sync", thread));
        }
        if let Some(store) = self.bench.store {
            let remove_expired = || {
                store.run_active_expiration(|_| ());
                Ok(())
            };
            background.push(("active expiration", Builder::new().spawn_scoped(scope, remove_expired)?));
        }
        if self.bench.in_groups {
            let commit_groups = move || {
                self.commit_groups(threads);
                Ok(())
            };
            background.push(("commit thread", Builder::new().spawn_scoped(scope, commit_groups)?));
        }
        Ok(background)
    }

    /// Executes the operations of one driver thread: warm-up, then measurement. Returns the start of the measurement in
    /// nanoseconds of the clock, and the thread's record.
    fn drive(
        &self,
        mut worker: Worker<'_>,
        workload: &Workload,
        thread: u32,
        leads: bool,
    ) -> (u64, Recorder) {
        pace::wake_in_time();
        process_usage::name_thread(c"driver");
        allocations::leave_out(self.bench.counts);
        self.barrier.wait();
        if let Some(steady) = workload.warm_up_mix() {
            let start = self.clock.now();
            worker.pace = Pace::new(workload.rate, start, thread, workload.threads);
            let time = start + (workload.warmup_seconds * 1e9) as u64;
            worker.run_caught(Some(steady), End { time, operations: u64::MAX, stop: None });
        }
        self.barrier.wait();
        self.barrier.wait();
        let start = self.clock.now();
        worker.pace = Pace::new(workload.rate, start, thread, workload.threads);
        let recorder = Recorder::new(start, workload.timeline_interval());
        let recorder = recorder.with_seconds(self.bench.soak.map(|soak| soak.thread(start)));
        let warm_up = mem::replace(&mut worker.recorder, recorder);
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
        worker.run_caught(Mix::new(workload), end);
        if self.bench.soak.is_some() {
            // An open loop ends with the last start before the end of its time.
            Pace::wait(&self.clock, worker.recorder.end);
            worker.recorder.end_seconds(self.clock.now());
        }
        if leads && self.leaders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.stop.store(true, Ordering::SeqCst);
        }
        if let Some(soak) = self.bench.soak {
            soak.wait_for_end();
        }
        (start, worker.recorder)
    }

    /// Commits groups of the threads' writes until the queue is closed, as the commit thread of the server
    /// does. `threads` is the number of threads of all workloads, each of which waits for one commit at most.
    fn commit_groups(&self, threads: u32) {
        allocations::leave_out(self.bench.counts);
        let (bench, threads) = (self.bench, threads as usize);
        match bench.store {
            Some(store) => group_commit::serve(&self.groups, threads, |group| store.commit(group)),
            None => group_commit::serve(&self.groups, threads, |group| {
                group_commit::commit_batch(group, |batch| bench.write(batch));
            }),
        }
    }

    /// Returns the number of syncs by the timer so far, or `None` without a timer.
    pub fn timer_syncs(&self) -> Option<u64> {
        self.bench.sync_every_second.then(|| self.timer_syncs.load(Ordering::SeqCst))
    }

    /// Syncs the engine one second after the previous sync, again and again until the measurement ends; time in which
    /// the process is stopped does not count. Unlike kvbench's server, it also syncs if there were no writes.
    ///
    /// # Errors
    ///
    /// Returns the error of the first sync that fails, and syncs no more: a later sync that succeeds would not
    /// prove that the data is durable.
    fn sync_every_second(&self) -> Result<(), String> {
        pause_aware_clock::watch();
        let mut schedule = EverySecond::start();
        while !self.stop.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
            if schedule.remaining().is_zero() {
                match self.bench.store {
                    Some(store) => store.sync().map_err(|error| error.to_string())?,
                    None => self.bench.engine.sync().map_err(|error| error.to_string())?,
                }
                self.timer_syncs.fetch_add(1, Ordering::SeqCst);
                schedule = EverySecond::start();
            }
        }
        Ok(())
    }
}

/// Returns the record of a driver thread that has ended, or one with a fault if the thread panicked outside of its
/// operations.
pub(super) fn joined(outcome: thread::Result<(u64, Recorder)>) -> (u64, Recorder) {
    outcome.unwrap_or_else(|payload| (0, Recorder::of_fault(Fault::Error(panics::message(&*payload)))))
}
