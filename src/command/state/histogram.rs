//! Histogram of atomic counters, usually written by one thread and read by many.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of powers of two with buckets: from 2^10 (1,024 ns) to 2^36 (about 69 s).
const POWERS: usize = 27;

/// Number of buckets per power of two: a value is known to an eighth.
const PARTS: usize = 8;

/// Exponent of the smallest power of two with buckets; all values below it share the first bucket.
const LEAST_BITS: u32 = 10;

/// Histogram of nanoseconds from 1,024 ns to about 137 s. The first bucket holds all smaller values, the last
/// one all larger values.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; 1 + POWERS * PARTS],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; 1 + POWERS * PARTS], sum: AtomicU64::new(0) }
    }
}

fn bucket(value: u64) -> usize {
    let Some(power) = (value | 1).ilog2().checked_sub(LEAST_BITS) else { return 0 };
    let part = (value >> (power + LEAST_BITS - 3)) as usize % PARTS;
    (1 + power as usize * PARTS + part).min(POWERS * PARTS)
}

/// Returns the upper bound, in nanoseconds, of the bucket with the index `bucket`; the bound itself belongs to the next
/// bucket.
fn end(bucket: usize) -> u64 {
    let (power, part) = (bucket.saturating_sub(1) / PARTS, bucket.saturating_sub(1) % PARTS);
    if bucket == 0 { 1 << LEAST_BITS } else { (PARTS + part + 1) as u64 * ((1 << power) << (LEAST_BITS - 3)) }
}

impl Histogram {
    /// Records the value `value`, in nanoseconds, `count` times.
    pub fn record(&self, value: u64, count: u64) {
        if let Some(bucket) = self.buckets.get(bucket(value)) {
            bucket.fetch_add(count, Ordering::Relaxed);
            self.sum.fetch_add(value.wrapping_mul(count), Ordering::Relaxed);
        }
    }

    /// Resets all counters of the histogram to 0.
    pub fn reset(&self) {
        self.buckets.iter().chain([&self.sum]).for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// Adds the counters of this histogram to `counts`.
    pub fn add_to(&self, counts: &mut HistogramSnapshot) {
        for (total, bucket) in counts.buckets.iter_mut().zip(&self.buckets) {
            *total += bucket.load(Ordering::Relaxed);
        }
        counts.sum += self.sum.load(Ordering::Relaxed);
    }

    /// Returns a copy of the histogram's counters.
    pub fn counts(&self) -> HistogramSnapshot {
        let mut counts = HistogramSnapshot::default();
        self.add_to(&mut counts);
        counts
    }
}

/// Counters of a histogram, or of several added up, copied at one time.
#[derive(Clone, Debug)]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    sum: u64,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { buckets: vec![0; 1 + POWERS * PARTS], sum: 0 }
    }
}

impl HistogramSnapshot {
    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the recorded values, in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns a percentile in nanoseconds: an upper bound of `percent` percent of the recorded values, at most an
    /// eighth too large. If the percentile is below 1,024 ns or above 2^37 ns, returns that limit. Returns 0 if there
    /// are no values.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, end)
    }

    /// Returns, for each power of two from 2^10 (1,024) to 2^37, the power and the number of values below it. The last
    /// number is that of all values, even larger ones.
    pub fn cumulative_buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut seen = 0;
        (0..=POWERS).map(move |power| {
            let last = power * PARTS;
            let first = if power == 0 { 0 } else { last + 1 - PARTS };
            seen += self.buckets.get(first..=last).unwrap_or_default().iter().sum::<u64>();
            (1 << (power as u32 + LEAST_BITS), seen)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_that_ends_above_it() {
        for shift in 0..37 {
            for value in [1_u64 << shift, (1 << shift) + 1, (3 << shift) / 2, (2 << shift) - 1] {
                let index = bucket(value);
                assert!(value < end(index), "{value} in {index}, which ends at {}", end(index));
                assert!(
                    index == 0 || value >= end(index - 1),
                    "{value} is in a later bucket than it need be"
                );
            }
        }
        assert_eq!(bucket(u64::MAX), POWERS * PARTS);
    }

    #[test]
    fn percentiles_are_an_eighth_too_large_at_most() {
        let histogram = Histogram::default();
        (1..=10_000).for_each(|micros| histogram.record(micros * 1000, 1));
        let counts = histogram.counts();
        for percent in [50.0, 99.0, 99.9] {
            let (exact, got) = (percent * 100_000.0, counts.percentile(percent) as f64);
            assert!(got >= exact && got <= exact * 1.13, "{percent}%: {got}, not {exact}");
        }
        assert_eq!((counts.count(), counts.sum()), (10_000, 50_005_000_000));
        assert_eq!(HistogramSnapshot::default().percentile(99.0), 0);
    }

    #[test]
    fn powers_count_what_is_below_them() {
        let histogram = Histogram::default();
        for (value, count) in [(5, 1), (1023, 1), (1024, 2), (2047, 3), (2048, 4), (1 << 60, 5)] {
            histogram.record(value, count);
        }
        let powers: Vec<_> = histogram.counts().cumulative_buckets().collect();
        assert_eq!(powers[..3], [(1024, 2), (2048, 7), (4096, 11)]);
        assert_eq!(powers.last().unwrap().1, 16);
        histogram.reset();
        assert_eq!((histogram.counts().count(), histogram.counts().sum()), (0, 0));
    }
}
