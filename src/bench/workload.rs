//! A workload as its threads use it: which operation is next, when it starts, when all of it ends.

use super::{
    recorder::{Clock, OPERATIONS},
    result::{Operation, Size, Workload},
};
use std::{thread, time::Duration};

/// Chooses the kind of each operation by its part of the mix.
#[derive(Clone, Debug)]
pub struct Mix {
    only: Option<Operation>,
    /// Kinds with the sum of the parts up to theirs, as a share of 2^64.
    bounds: Vec<(u64, Operation)>,
}

impl Mix {
    /// The mix of a workload; `None` when no part is above zero.
    pub fn new(workload: &Workload) -> Option<Self> {
        let parts: Vec<_> = workload.mix.iter().filter(|(_, part)| **part > 0.0).collect();
        let total: f64 = parts.iter().map(|(_, part)| **part).sum();
        let mut sum = 0.0;
        let bounds = parts.iter().map(|(operation, part)| {
            sum += **part / total;
            ((sum * u64::MAX as f64) as u64, **operation)
        });
        let bounds: Vec<_> = bounds.collect();
        let (_, last) = *bounds.last()?;
        Some(Self { only: (bounds.len() == 1).then_some(last), bounds })
    }

    /// The next kind. The random number is only drawn where there is a choice.
    #[inline]
    pub fn pick(&self, random: impl FnOnce() -> u64) -> Operation {
        if let Some(only) = self.only {
            return only;
        }
        let random = random();
        let found = self.bounds.iter().find(|(bound, _)| random < *bound).or(self.bounds.last());
        found.map_or(Operation::Get, |(_, operation)| *operation)
    }
}

/// When operations of one thread start: as soon as the one before has ended, or at a fixed rate whether
/// or not it has (open loop). In the second case latency counts from the time intended, so that a stall
/// is charged to all operations that it delays (Gil Tene's "coordinated omission").
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval: Option<f64>,
    next: f64,
}

impl Pace {
    /// The pace of thread `thread` of `threads`, from `start` nanoseconds of the clock on.
    pub fn new(rate: Option<f64>, start: u64, thread: u32, threads: u32) -> Self {
        let all = rate.map(|rate| 1e9 / rate);
        Self {
            interval: all.map(|interval| interval * f64::from(threads)),
            next: start as f64 + all.unwrap_or(0.0) * f64::from(thread),
        }
    }

    /// The intended start of the next operation.
    #[inline]
    pub fn next(&mut self, now: u64) -> u64 {
        let Some(interval) = self.interval else { return now };
        let start = self.next;
        self.next += interval;
        start as u64
    }

    /// Waits until `start`. The last stretch is spun: a sleeping thread wakes some 60 microseconds late.
    #[inline]
    pub fn wait(clock: &Clock, start: u64) {
        loop {
            let ahead = start.saturating_sub(clock.now());
            match ahead {
                0 => return,
                1..100_000 => std::hint::spin_loop(),
                _ => thread::sleep(Duration::from_nanos(ahead - 80_000)),
            }
        }
    }
}

impl Workload {
    /// Length of the timeline's slices.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.map_or(0.1, |seconds| (seconds / 60.0).max(0.01)))
    }

    /// Nanoseconds of measured time, if it ends by time.
    pub fn nanoseconds(&self) -> Option<u64> {
        self.seconds.map(|seconds| (seconds * 1e9) as u64)
    }

    /// Operations of thread `thread`, if it ends by count.
    pub fn share(&self, thread: u32) -> Option<u64> {
        let operations = self.operations?;
        let threads = u64::from(self.threads.max(1));
        Some(operations / threads + u64::from(u64::from(thread) < operations % threads))
    }

    /// Mean bytes of a key and its value.
    pub fn pair_bytes(&self) -> f64 {
        let mean = |size| match size {
            Size::Fixed(bytes) => f64::from(bytes),
            Size::Uniform(low, high) => (f64::from(low) + f64::from(high)) / 2.0,
        };
        mean(self.key_bytes) + mean(self.value_bytes)
    }

    /// The load before the measured operations: every key once, by one thread, in large batches.
    pub fn load(&self) -> Workload {
        Workload {
            name: "load".into(),
            mix: [(Operation::Insert, 1.0)].into(),
            threads: 1,
            batch: 1000,
            seconds: None,
            operations: Some(self.keys),
            warmup_seconds: 0.0,
            rate: None,
            ..self.clone()
        }
    }

    /// Whether the keys that are there at the end are known. An update of a key that another thread is
    /// deleting may bring it back.
    pub fn has_exact_keys(&self) -> bool {
        let does = |kind| self.kinds().any(|done| done == kind);
        !(does(Operation::Delete) && (does(Operation::Update) || does(Operation::ReadModifyWrite)))
    }

    /// The kinds of operation that it does.
    pub fn kinds(&self) -> impl Iterator<Item = Operation> + '_ {
        OPERATIONS.into_iter().filter(|kind| self.mix.get(kind).is_some_and(|part| *part > 0.0))
    }
}
