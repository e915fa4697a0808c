//! Exchange of slices between the thread of a driver that requests them and the threads that execute operations. Between
//! two slices all threads are parked, so that the process can be stopped without a stop in the latency of an operation.

use super::slice::{self, BIN, Reply, Request, Slice, SliceReport};
use crate::bench::run::{
    pace::Clock, process_usage::ProcessUsage, recorder::Recorder, resource_meter::Meter,
};
use std::{
    io, mem,
    sync::{Barrier, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Slice of running time that the threads of a driver execute next.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Limits of the slice.
    pub slice: Slice,
    /// Start of the slice, in nanoseconds of the clock.
    pub start: u64,
    /// Number of one-millisecond bins of the timeline that the slices before this one have filled.
    pub first_bin: usize,
}

/// State by which the thread that requests slices and the threads of a driver exchange the slice and its measurement.
#[derive(Debug)]
pub struct Turns {
    /// Barrier at which all these threads wait for each other, before and after each slice.
    barrier: Barrier,
    /// Slice that the driver's threads execute next; `None` ends them.
    next: Mutex<Option<Turn>>,
    /// Measurement of the current slice, summed over the threads that have ended it.
    report: Mutex<SliceReport>,
}

/// Measurement of all slices together: what the process has used, and the clock of the store.
#[derive(Debug)]
pub struct Served {
    /// Resources used in the slices, without those of the warm-up.
    pub usage: ProcessUsage,
    /// Sum of the slices in nanoseconds, without the warm-up.
    pub nanoseconds: u64,
    /// Error of the deferred work after a slice; `None` if there was none.
    pub failure: Option<String>,
}

/// Functions of a driver that [`Turns::serve`] calls while all threads are parked.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions")]
pub struct Hooks<'h> {
    /// Makes the store do its deferred work and returns the resources that the process has used so far. Called before the
    /// first slice and after each warm-up at the start: what these used does not count.
    pub begin: &'h dyn Fn() -> ProcessUsage,
    /// Returns the resources that the process has used so far. Called once, after the last slice.
    pub usage: &'h dyn Fn() -> ProcessUsage,
    /// Makes the store do its deferred work, after slices that are followed by write-back.
    pub drain: &'h dyn Fn() -> Result<(), String>,
}

impl Turns {
    /// Creates the state for a driver with `threads` threads that execute operations.
    pub fn new(threads: u32) -> Self {
        Self { barrier: Barrier::new(threads as usize + 1), next: Mutex::default(), report: Mutex::default() }
    }

    /// Runs the slices that `next` returns, until it returns `None`; the driver's threads must then end. `next` is called
    /// with the report of the slice before.
    pub fn serve(
        &self,
        clock: &Clock,
        hooks: Hooks<'_>,
        mut next: impl FnMut(Option<SliceReport>) -> Option<Slice>,
    ) -> Served {
        self.barrier.wait();
        let (mut before, mut nanoseconds, mut bins) = ((hooks.begin)(), 0, 0);
        let (mut report, mut failure) = (None, None);
        while let Some(slice) = next(report.take()) {
            let start = clock.now();
            *lock(&self.next) = Some(Turn { slice, start, first_bin: bins });
            self.barrier.wait();
            self.barrier.wait();
            let mut done = mem::take(&mut *lock(&self.report));
            if slice.writes_back {
                let begin = clock.now();
                failure = failure.or((hooks.drain)().err());
                done.write_back = Some(clock.now().saturating_sub(begin));
                done.has_failed |= failure.is_some();
            }
            if !slice.is_warm_up {
                nanoseconds += done.nanoseconds;
                bins += done.bins.len();
            } else if bins == 0 {
                before = (hooks.begin)();
            }
            report = Some(done);
        }
        lock(&self.next).take();
        self.barrier.wait();
        Served { usage: (hooks.usage)().since(&before), nanoseconds, failure }
    }

    /// Waits until all threads of the driver are ready for the first slice. Each of them calls this once.
    pub fn ready(&self) {
        self.barrier.wait();
    }

    /// Waits for the next slice; `None` if there is none. Called by each thread of the driver.
    pub fn wait(&self) -> Option<Turn> {
        self.barrier.wait();
        *lock(&self.next)
    }

    /// Adds the record of one thread to the measurement of the current slice. The operations of the slice are in the bins
    /// of the record from the index `first_bin` on.
    pub fn add(&self, part: &Recorder, turn: &Turn, first_bin: usize) {
        let mut sum = lock(&self.report);
        sum.nanoseconds = sum.nanoseconds.max(part.end.saturating_sub(turn.start));
        let bins = part.bins(first_bin);
        let count = sum.bins.len().max(bins.len());
        sum.bins.resize(count, 0);
        sum.bins.iter_mut().zip(bins).for_each(|(sum, bin)| *sum += bin);
        sum.longest = sum.longest.max(part.longest());
        sum.has_failed |= part.has_faults();
    }

    /// Marks the current slice as failed.
    pub fn fail(&self) {
        lock(&self.report).has_failed = true;
    }

    /// Waits until all threads of the driver have ended the slice. Called by each of them after each slice.
    pub fn end(&self) {
        self.barrier.wait();
    }
}

/// Returns a function that reports a slice on standard output and returns the next one, which is requested on standard
/// input; `None` if none is requested any more. What it writes is not charged to the engine by `meter`.
pub(in crate::bench::run) fn requested<'m, 'f>(
    meter: &'m Meter<'f>,
) -> impl FnMut(Option<SliceReport>) -> Option<Slice> + use<'m, 'f> {
    move |report| {
        let reply = report.map_or(Reply::Ready, Reply::Slice);
        // A closed standard output ends this process: the parent is gone, and standard input ends too.
        let written = slice::send(io::stdout().lock(), &reply);
        written.into_iter().for_each(|bytes| meter.leave_out_write(bytes));
        match slice::next_request() {
            Request::Slice(slice) => Some(slice),
            Request::Finish => None,
        }
    }
}

/// Creates the record of a thread of the driver for all of its slices.
pub fn recorder() -> Recorder {
    Recorder::new(0, Duration::from_nanos(BIN))
}

/// Creates the record of a thread of the driver for a warm-up slice.
pub fn warm_up_recorder(turn: &Turn) -> Recorder {
    Recorder::new(turn.start, Duration::from_nanos(BIN))
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
