//! Records of the operations of one driver thread or client, and their sum over all of them.

use super::{
    pace::MissedStarts,
    second_latencies::{MAX_LATENCY_NS, ThreadSeconds},
};
use crate::bench::result::{Latency, Measurement, OPERATIONS, Operation, histogram};
use hdrhistogram::Histogram;
use std::{collections::BTreeMap, time::Duration};

/// Maximum number of intervals of the timeline (operations over time) in a result.
const SLICES: usize = 100;
/// Number of faults after which a thread stops: the measurement has failed, and an engine that fails at once
/// would only fill the remaining time with errors.
const FAULTS: u64 = 1000;

/// Reason why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation returned an error.
    Error(String),
    /// A key that should exist is missing: a read or DEL did not find it, or a scan ended before it.
    Miss(String),
    /// A value differs from the one that was written, is outdated or has expired, or a server's reply is of a wrong
    /// kind.
    Wrong(String),
}

impl Fault {
    /// Returns the fault of an operation for which no key is left, such as a delete from an empty store. Further
    /// operations would be possible on some engines only.
    pub fn dry(operation: Operation) -> Self {
        let work = match operation {
            Operation::Insert => "no key is left to insert; raise --key-bytes, or measure for a shorter time",
            Operation::Delete => "no key is left to delete; raise --keys, or do fewer operations",
            _ => "no key is there to work on; raise --keys, or do fewer operations",
        };
        Self::Error(format!("ran out of keys: {work}"))
    }
}

/// Record of operations: latency histograms, counts over time, and faults.
#[derive(Clone, Debug)]
pub struct Recorder {
    histograms: [Option<Histogram<u64>>; OPERATIONS.len()],
    timeline: Vec<u64>,
    slice: u64,
    slice_end: u64,
    errors: u64,
    misses: u64,
    wrong: u64,
    /// Number of GETs and read-modify-writes that found a right value.
    hits: u64,
    /// Number of reads that found nothing because the value had expired.
    expired_reads: u64,
    first_fault: Option<String>,
    user_bytes: u64,
    /// Open loop: waiting times in nanoseconds, until the end, of operations that were due and not started.
    unstarted: Option<Histogram<u64>>,
    /// Open loop: delay in nanoseconds from the intended to the actual start of an operation whose thread was idle.
    lateness: Option<Histogram<u64>>,
    /// Latencies of each second in a soak; otherwise `None`.
    seconds: Option<Box<ThreadSeconds>>,
    /// End of the measured time, in nanoseconds of the clock: the end of the last successful operation, or a later time
    /// set by [`Recorder::extend_to`], in an open loop the end of the time limit.
    pub end: u64,
}

impl Recorder {
    /// Creates an empty record that begins at `start`, in nanoseconds of the clock, and counts operations in intervals
    /// of `slice`.
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
            hits: 0,
            expired_reads: 0,
            first_fault: None,
            user_bytes: 0,
            unstarted: None,
            lateness: None,
            seconds: None,
            end: start,
        }
    }

    /// Returns this record, which from now on also records the latencies of each second in `seconds`.
    pub fn with_seconds(self, seconds: Option<ThreadSeconds>) -> Self {
        Self { seconds: seconds.map(Box::new), ..self }
    }

    /// Ends the seconds that have passed at `now`, in nanoseconds of the clock.
    pub fn end_seconds(&mut self, now: u64) {
        if let Some(seconds) = &mut self.seconds {
            seconds.advance_to(now);
        }
    }

    /// Returns the record of a thread of which only a fault is known.
    pub fn of_fault(fault: Fault) -> Self {
        let mut recorder = Self::new(0, Duration::from_secs(1));
        recorder.fault(fault);
        recorder
    }

    /// Continues the record at `start` (nanoseconds of the clock) after a pause of the store: operations count from the
    /// interval with the index `first_bin` of the timeline on, and the pause has no intervals.
    pub fn begin_slice(&mut self, start: u64, first_bin: usize) {
        self.timeline.resize(first_bin, 0);
        self.timeline.push(0);
        self.slice_end = start + self.slice;
        self.end = start;
    }

    /// Returns the number of operations in each interval of the timeline, from the one with the index `first_bin` on.
    pub fn bins(&self, first_bin: usize) -> &[u64] {
        self.timeline.get(first_bin..).unwrap_or_default()
    }

    /// Returns the longest latency in nanoseconds; 0 without an operation.
    pub fn longest(&self) -> u64 {
        self.histograms.iter().flatten().map(Histogram::max).max().unwrap_or(0)
    }

    /// Records an operation that succeeded, from its start to its end in nanoseconds of the clock.
    #[inline]
    pub fn success(&mut self, operation: Operation, start: u64, end: u64) {
        if let Some(histogram) = self.histograms.get_mut(operation as usize) {
            record(histogram, end.saturating_sub(start), 1);
        }
        if let Some(seconds) = &mut self.seconds {
            seconds.record(end.saturating_sub(start), end);
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

    /// Records operations that were due but not started by `end`, in nanoseconds of the clock, with the time that they
    /// had waited until then.
    #[cold]
    pub fn missed_starts(&mut self, starts: MissedStarts, end: u64) {
        // If there are very many, adjacent ones are recorded with the same time.
        let steps = starts.count.min(100_000);
        for step in 0..steps {
            let (from, to) = (starts.count * step / steps, starts.count * (step + 1) / steps);
            let start = starts.first + starts.interval * from as f64;
            record(&mut self.unstarted, end.saturating_sub(start as u64), to - from);
        }
    }

    /// Records the start delay of an operation that was intended for `start` and began at `now`, both in nanoseconds of
    /// the clock.
    #[inline]
    pub fn began(&mut self, start: u64, now: u64) {
        record(&mut self.lateness, now.saturating_sub(start), 1);
    }

    /// Counts bytes of keys and values that were written or deleted.
    #[inline]
    pub fn wrote(&mut self, bytes: usize) {
        self.user_bytes += bytes as u64;
    }

    /// Counts a read that found a value, for the record's number of hits.
    #[inline]
    pub fn hit(&mut self) {
        self.hits += 1;
    }

    /// Counts a read that found nothing because the value had expired.
    #[inline]
    pub fn expired_read(&mut self) {
        self.expired_reads += 1;
    }

    /// Records an operation that failed.
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

    /// Returns `true` if at least 1000 operations failed, so that the thread should stop.
    #[inline]
    pub fn has_too_many_faults(&self) -> bool {
        self.errors + self.misses + self.wrong >= FAULTS
    }

    /// Returns `true` if an operation failed.
    pub fn has_faults(&self) -> bool {
        self.errors + self.misses + self.wrong > 0
    }

    /// Adds the faults of a warm-up to this record; the warm-up's operations do not count.
    pub fn add_faults(&mut self, warm_up: &Self) {
        self.errors += warm_up.errors;
        self.misses += warm_up.misses;
        self.wrong += warm_up.wrong;
        self.first_fault = warm_up.first_fault.clone().or_else(|| self.first_fault.take());
    }

    /// Extends the measured time to `end`, in nanoseconds of the clock, if the last operation ended before.
    pub fn extend_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Adds the record of another thread: sums of counts, and the later of both ends.
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
        self.hits += other.hits;
        self.expired_reads += other.expired_reads;
        self.user_bytes += other.user_bytes;
        self.first_fault = self.first_fault.take().or_else(|| other.first_fault.clone());
        self.end = self.end.max(other.end);
    }

    /// Returns the metrics of the recorded operations; `start` is the start of the measurement in nanoseconds of the
    /// clock. Metrics of the process and the engine, such as CPU time, are left empty.
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
            hits: Some(self.hits),
            expired_reads: Some(self.expired_reads),
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

/// Adds `count` latencies of `nanoseconds` each to a histogram, which is created for the first one.
#[inline]
fn record(histogram: &mut Option<Histogram<u64>>, nanoseconds: u64, count: u64) {
    if histogram.is_none() {
        // The constructor accepts three digits up to MAX_LATENCY_NS.
        *histogram = Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).ok();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// With more keys, fewer would be left to insert.
    #[test]
    fn remedy_for_a_lack_of_keys_fits_the_operation() {
        let text = |operation| match Fault::dry(operation) {
            Fault::Error(text) => text,
            other => panic!("{other:?}"),
        };
        let of_insert = text(Operation::Insert);
        assert!(of_insert.contains("--key-bytes") && !of_insert.contains("--keys"), "{of_insert}");
        for operation in [Operation::Delete, Operation::Get, Operation::Update] {
            assert!(text(operation).contains("raise --keys"), "{}", text(operation));
        }
    }
}
