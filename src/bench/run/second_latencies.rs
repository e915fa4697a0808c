//! Operations and latencies of each second of a measurement, summed over the driver's threads.

use hdrhistogram::Histogram;
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Maximum recorded latency in nanoseconds: ten minutes. Longer latencies are recorded as this one.
pub(super) const MAX_LATENCY_NS: u64 = 600_000_000_000;
/// Nanoseconds of a second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// Operations that ended in one second, and their latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SecondSummary {
    /// Number of operations that ended in the second.
    pub operations: u64,
    /// Median latency in microseconds, to 1%; `None` without an operation, as the others.
    pub p50_us: Option<f64>,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: Option<f64>,
    /// Largest latency in microseconds.
    pub max_us: Option<f64>,
}

/// Sum of the latencies of the driver's threads in each second, kept until every thread has delivered its part.
#[derive(Debug)]
pub struct SecondLatencies {
    threads: usize,
    seconds: Mutex<Vec<Second>>,
}

/// Latencies of one second.
#[derive(Debug, Default)]
struct Second {
    /// Number of threads that have delivered their latencies.
    delivered: usize,
    /// Sum of the latencies that were delivered in nanoseconds; `None` without any, and once `summary` is made.
    latencies: Option<Histogram<u64>>,
    summary: Option<SecondSummary>,
}

impl SecondLatencies {
    /// Creates the latencies of a measurement of `seconds` seconds by `threads` threads.
    pub fn new(threads: usize, seconds: usize) -> Self {
        let mut all = Vec::new();
        // Now, so that the memory of the recorder does not seem to be a store's that grows.
        all.resize_with(seconds, Second::default);
        Self { threads, seconds: Mutex::new(all) }
    }

    /// Returns the first `seconds` seconds. A thread that has ended early has delivered nothing for later seconds.
    pub fn summaries(&self, seconds: usize) -> Vec<SecondSummary> {
        let all = self.lock();
        all.iter()
            .take(seconds)
            .map(|second| second.summary.unwrap_or_else(|| summary(second.latencies.as_ref())))
            .collect()
    }

    /// Adds the latencies of one thread in the second with the index `number`, and empties `latencies`.
    fn deliver(&self, number: usize, latencies: &mut Histogram<u64>) {
        let mut all = self.lock();
        // An operation may end after the last whole second.
        let Some(second) = all.get_mut(number) else { return };
        second.delivered += 1;
        match &mut second.latencies {
            // Both have the same bounds.
            Some(sum) => sum.add(&*latencies).unwrap_or_default(),
            None if latencies.is_empty() => {}
            None => second.latencies = Some(latencies.clone()),
        }
        latencies.reset();
        if second.delivered == self.threads {
            second.summary = Some(summary(mem::take(&mut second.latencies).as_ref()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Second>> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn summary(latencies: Option<&Histogram<u64>>) -> SecondSummary {
    let Some(latencies) = latencies else { return SecondSummary::default() };
    let at = |quantile| Some(latencies.value_at_quantile(quantile) as f64 / 1e3);
    SecondSummary { operations: latencies.len(), p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0) }
}

/// Latencies of one thread in the present second.
#[derive(Clone, Debug)]
pub struct ThreadSeconds {
    all: Arc<SecondLatencies>,
    /// `None` if no histogram could be made: then no latency is recorded.
    latencies: Option<Histogram<u64>>,
    /// Index of the present second.
    second: usize,
    /// End of the present second in nanoseconds of the clock.
    end: u64,
}

impl ThreadSeconds {
    /// Creates the record of a thread whose measurement begins at `start`, in nanoseconds of the clock.
    pub fn new(all: Arc<SecondLatencies>, start: u64) -> Self {
        // Two digits keep the histogram small: adding it at the end of a second delays the next operation.
        let latencies = Histogram::new_with_bounds(1, MAX_LATENCY_NS, 2).ok();
        Self { all, latencies, second: 0, end: start + SECOND_NS }
    }

    /// Records an operation with a latency of `nanoseconds` that ended at `now`, in nanoseconds of the clock.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64, now: u64) {
        self.advance_to(now);
        if let Some(latencies) = &mut self.latencies {
            latencies.saturating_record(nanoseconds.max(1));
        }
    }

    /// Delivers the latencies of the seconds that have ended at `now`, in nanoseconds of the clock.
    pub fn advance_to(&mut self, now: u64) {
        while now >= self.end {
            if let Some(latencies) = &mut self.latencies {
                self.all.deliver(self.second, latencies);
            }
            self.second += 1;
            self.end += SECOND_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn operations_count_in_the_second_in_which_they_end() {
        let all = Arc::new(SecondLatencies::new(2, 3));
        let mut threads = [0, 0].map(|start| ThreadSeconds::new(Arc::clone(&all), start));
        threads[0].record(MS, 500 * MS);
        threads[0].record(2 * MS, 999 * MS);
        // An operation that takes all of the next second.
        threads[0].record(1600 * MS, 2600 * MS);
        threads[1].record(5 * MS, 100 * MS);
        threads.iter_mut().for_each(|thread| thread.advance_to(3000 * MS));
        let seconds = all.summaries(3);
        assert_eq!(seconds.iter().map(|second| second.operations).collect::<Vec<_>>(), [3, 0, 1]);
        let near = |found: Option<f64>, expected: f64| (found.unwrap() / expected - 1.0).abs() < 0.01;
        assert!(near(seconds[0].p50_us, 2e3) && near(seconds[0].max_us, 5e3), "{seconds:?}");
        assert_eq!(seconds[1], SecondSummary::default());
        assert!(near(seconds[2].p99_us, 1.6e6), "{seconds:?}");
    }

    /// The latencies of all seconds would take tens of kilobytes each.
    #[test]
    fn a_second_is_summarised_once_all_threads_have_delivered_it() {
        let all = Arc::new(SecondLatencies::new(2, 3));
        let mut threads = [0, 0].map(|start| ThreadSeconds::new(Arc::clone(&all), start));
        threads[0].record(MS, 500 * MS);
        threads[0].advance_to(1000 * MS);
        assert!(all.lock()[0].latencies.is_some());
        threads[1].advance_to(1000 * MS);
        assert!(all.lock()[0].latencies.is_none());
        // What a thread that ended early has delivered counts too.
        threads[0].record(MS, 1500 * MS);
        threads[0].advance_to(2000 * MS);
        assert_eq!(all.summaries(2).iter().map(|second| second.operations).collect::<Vec<_>>(), [1, 1]);
        // A second that has not ended does not count.
        threads[0].record(MS, 2500 * MS);
        assert_eq!(all.summaries(3).iter().map(|second| second.operations).sum::<u64>(), 2);
    }
}
