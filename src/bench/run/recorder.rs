//! What one thread has measured, and the sum over all threads.

use super::pace::MissedStarts;
use crate::bench::result::{Latency, Measurement, OPERATIONS, Operation, histogram};
use hdrhistogram::Histogram;
use std::{collections::BTreeMap, time::Duration};

/// Latencies above are counted as this one: ten minutes, in nanoseconds.
const LONGEST: u64 = 600_000_000_000;
/// Most slices of a timeline in a result.
const SLICES: usize = 100;
/// A thread stops after so many faults: the measurement is lost, and an engine that fails at once would
/// only fill the time with errors.
const FAULTS: u64 = 1000;

/// What was wrong with an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ended in an error.
    Error(String),
    /// What was written is not there.
    Miss(String),
    /// Something else is there.
    Wrong(String),
}

impl Fault {
    /// There is no key for an operation. What follows would be done by some engines and not by others.
    pub fn dry(operation: Operation) -> Self {
        let work = match operation {
            Operation::Insert => "no key is left to insert",
            Operation::Delete => "no key is left to delete",
            _ => "no key is there to work on",
        };
        Self::Error(format!("ran out of keys: {work}; raise --keys, or do fewer operations"))
    }
}

/// Histograms, a timeline and faults.
#[derive(Clone, Debug)]
pub struct Recorder {
    histograms: [Option<Histogram<u64>>; OPERATIONS.len()],
    timeline: Vec<u64>,
    slice: u64,
    slice_end: u64,
    errors: u64,
    misses: u64,
    wrong: u64,
    first_fault: Option<String>,
    user_bytes: u64,
    /// Of operations that should have begun, and had not by the end: how long they had waited.
    unstarted: Option<Histogram<u64>>,
    /// How much later than intended a waiting thread began.
    lateness: Option<Histogram<u64>>,
    /// Nanoseconds of the clock: the end of the last operation; at a rate, no earlier than that of the time
    /// that was asked for.
    pub end: u64,
}

impl Recorder {
    /// Nothing yet. Time is counted from `start`, in slices of `slice`.
    pub fn new(start: u64, slice: Duration) -> Self {
        let slice = (slice.as_nanos() as u64).max(1);
        Self {
            histograms: [const { None }; OPERATIONS.len()],
            timeline: vec![0],
            slice,
            slice_end: start + slice,
            errors: 0,
            misses: 0,
            wrong: 0,
            first_fault: None,
            user_bytes: 0,
            unstarted: None,
            lateness: None,
            end: start,
        }
    }

    /// Counts an operation that did what it should.
    #[inline]
    pub fn success(&mut self, operation: Operation, start: u64, end: u64) {
        if let Some(histogram) = self.histograms.get_mut(operation as usize) {
            record(histogram, end.saturating_sub(start), 1);
        }
        while end >= self.slice_end {
            self.slice_end += self.slice;
            self.timeline.push(0);
        }
        if let Some(slice) = self.timeline.last_mut() {
            *slice += 1;
        }
        self.end = end;
    }

    /// Counts operations whose intended start came and that had not begun by the `end`: so long they had
    /// waited, at least.
    #[cold]
    pub fn missed_starts(&mut self, starts: MissedStarts, end: u64) {
        // Of very many, those that are next to each other are recorded as one time.
        let steps = starts.count.min(100_000);
        for step in 0..steps {
            let (from, to) = (starts.count * step / steps, starts.count * (step + 1) / steps);
            let start = starts.first + starts.interval * from as f64;
            record(&mut self.unstarted, end.saturating_sub(start as u64), to - from);
        }
    }

    /// Notes when a thread that had waited for `start` began.
    #[inline]
    pub fn began(&mut self, start: u64, now: u64) {
        record(&mut self.lateness, now.saturating_sub(start), 1);
    }

    /// Counts bytes of keys and values that were written.
    #[inline]
    pub fn wrote(&mut self, bytes: usize) {
        self.user_bytes += bytes as u64;
    }

    /// Counts an operation that did not.
    #[cold]
    pub fn fault(&mut self, fault: Fault) {
        let (count, text) = match fault {
            Fault::Error(text) => (&mut self.errors, text),
            Fault::Miss(text) => (&mut self.misses, text),
            Fault::Wrong(text) => (&mut self.wrong, text),
        };
        *count += 1;
        self.first_fault.get_or_insert(text);
    }

    /// Whether going on is of no use.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.errors + self.misses + self.wrong >= FAULTS
    }

    /// Adds the faults of a warm-up, whose operations do not count.
    pub fn add_faults(&mut self, warm_up: &Self) {
        self.errors += warm_up.errors;
        self.misses += warm_up.misses;
        self.wrong += warm_up.wrong;
        self.first_fault = warm_up.first_fault.clone().or_else(|| self.first_fault.take());
    }

    /// Goes on to the end of the time in which operations were to begin at a rate.
    pub fn wait_until(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Adds what another thread has measured.
    pub fn add(&mut self, other: &Self) {
        let sums = self.histograms.iter_mut().chain([&mut self.unstarted, &mut self.lateness]);
        for (sum, part) in sums.zip(other.histograms.iter().chain([&other.unstarted, &other.lateness])) {
            join(sum, part.as_ref());
        }
        self.timeline.resize(self.timeline.len().max(other.timeline.len()), 0);
        self.timeline.iter_mut().zip(&other.timeline).for_each(|(sum, part)| *sum += part);
        self.errors += other.errors;
        self.misses += other.misses;
        self.wrong += other.wrong;
        self.user_bytes += other.user_bytes;
        self.first_fault = self.first_fault.take().or_else(|| other.first_fault.clone());
        self.end = self.end.max(other.end);
    }

    /// The numbers. What the process and the engine have to add is absent.
    pub fn measurement(self, start: u64) -> Measurement {
        let seconds = self.end.saturating_sub(start) as f64 / 1e9;
        let mut all: Option<Histogram<u64>> = None;
        let mut by_operation = BTreeMap::new();
        for (operation, histogram) in OPERATIONS.iter().zip(&self.histograms) {
            let Some(histogram) = histogram else { continue };
            by_operation.insert(*operation, latency(histogram));
            join(&mut all, Some(histogram));
        }
        let operations = all.as_ref().map_or(0, Histogram::len);
        join(&mut all, self.unstarted.as_ref());
        let mut latencies = all.as_ref().map(latency).unwrap_or_default();
        latencies.histogram = all.as_ref().and_then(histogram::encode);
        let joined = self.timeline.len().div_ceil(SLICES);
        Measurement {
            operations,
            seconds,
            throughput: if seconds > 0.0 { operations as f64 / seconds } else { 0.0 },
            errors: self.errors,
            misses: self.misses,
            wrong_values: self.wrong,
            first_fault: self.first_fault,
            latency: latencies,
            unstarted_operations: self.unstarted.as_ref().map_or(0, Histogram::len),
            lateness: self.lateness.as_ref().map(latency),
            by_operation,
            timeline: self.timeline.chunks(joined).map(|slices| slices.iter().sum()).collect(),
            timeline_slice_seconds: (self.slice * joined as u64) as f64 / 1e9,
            user_bytes: self.user_bytes,
            ..Measurement::default()
        }
    }
}

/// Counts `count` times of so many nanoseconds.
#[inline]
fn record(histogram: &mut Option<Histogram<u64>>, nanoseconds: u64, count: u64) {
    if histogram.is_none() {
        // Three digits up to LONGEST are bounds that the constructor takes.
        *histogram = Histogram::new_with_bounds(1, LONGEST, 3).ok();
    }
    if let Some(histogram) = histogram {
        histogram.saturating_record_n(nanoseconds.max(1), count);
    }
}

fn join(sum: &mut Option<Histogram<u64>>, part: Option<&Histogram<u64>>) {
    match (sum.as_mut(), part) {
        // Both have the same bounds.
        (Some(sum), Some(part)) => sum.add(part).unwrap_or_default(),
        (None, Some(part)) => *sum = Some(part.clone()),
        (_, None) => {}
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        count: histogram.len(),
        mean_us: histogram.mean() / 1e3,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        p9999_us: (histogram.len() >= 10_000).then(|| at(0.9999)),
        max_us: histogram.max() as f64 / 1e3,
        histogram: None,
    }
}
