//! Where a client's reads run: on its worker while they are short, and on a thread for blocking work, at the
//! price of a thread hop, while some of them hold up the worker's other clients.

use std::{
    ops::BitOrAssign,
    time::{Duration, Instant},
};

/// A read of one request that takes no longer than this holds nobody up.
const LONG: Duration = Duration::from_micros(100);

/// Most read runs in a row that are off the worker after a cold one.
const MAX_SLOW_SCORE: u8 = 250;

/// How many of one client's next read runs are to be treated as the last ones were found to be.
#[derive(Default)]
struct SlowScore(u8);

impl SlowScore {
    /// Learns from a read run. One that was so by chance costs little; a client of whose reads a few in a
    /// hundred are so is soon taken for one of which all are.
    fn note(&mut self, is_so: bool) {
        self.0 = if is_so {
            self.0.saturating_mul(8).saturating_add(1).min(MAX_SLOW_SCORE)
        } else {
            self.0.saturating_sub(1)
        };
    }
}

/// What is known of one client's reads.
#[derive(Default)]
pub(super) struct SlowReadDetector {
    /// Of cold ones: that take long, or wait for a device.
    cold: SlowScore,
    /// Of those that wait for a device.
    waiting: SlowScore,
}

impl SlowReadDetector {
    /// Whether its next reads are to be off the worker.
    pub fn is_slow(&self) -> bool {
        self.cold.0 > 0
    }

    /// Whether its next reads will wait for a device, so that it pays to have several on the way at once.
    pub fn waits_for_device(&self) -> bool {
        self.waiting.0 > 0
    }

    /// Learns from a read run on the worker.
    pub fn note_long(&mut self, is_long: bool) {
        self.cold.note(is_long);
        self.waiting.note(false);
    }

    /// Learns from a read run elsewhere.
    pub fn note(&mut self, cost: ReadCost) {
        self.cold.note(cost.is_cold);
        self.waiting.note(cost.waited);
    }
}

/// What a read run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadCost {
    /// Whether it would have held up a worker's other clients.
    pub is_cold: bool,
    /// Whether it waited for a device.
    pub waited: bool,
}

impl BitOrAssign for ReadCost {
    fn bitor_assign(&mut self, other: Self) {
        self.is_cold |= other.is_cold;
        self.waited |= other.waited;
    }
}

/// Runs `read`, which answers some number of requests, and tells whether it took long. That it costs two
/// looks at the clock only, counts on a worker; a thread that had to give up its core is taken for a cold one.
pub(super) fn is_long(read: impl FnOnce() -> usize) -> bool {
    let begin = Instant::now();
    let requests = read();
    each(begin.elapsed(), requests) > LONG
}

/// Tells whether `read` waited for a device, or computed for long, as an engine does that reads a page from
/// the system's cache and decodes it. How long other threads had the core makes no difference.
#[cfg(target_os = "linux")]
pub(super) fn cost(read: impl FnOnce() -> usize) -> ReadCost {
    let (Some((begin, seen)), requests, Some((end, reads))) = (usage(), read(), usage()) else {
        return ReadCost { is_cold: true, waited: true };
    };
    let waited = reads != seen;
    ReadCost { is_cold: waited || each(end.saturating_sub(begin), requests) > LONG, waited }
}

/// Without a count of device reads, a long read is taken for one.
#[cfg(not(target_os = "linux"))]
pub(super) fn cost(read: impl FnOnce() -> usize) -> ReadCost {
    let is_cold = is_long(read);
    ReadCost { is_cold, waited: is_cold }
}

fn each(time: Duration, requests: usize) -> Duration {
    time / u32::try_from(requests).unwrap_or(u32::MAX).max(1)
}

/// Processor time of this thread, and its device reads: of files, or of pages of a memory map.
#[cfg(target_os = "linux")]
fn usage() -> Option<(Duration, i64)> {
    use nix::{
        sys::resource::{UsageWho, getrusage},
        time::{ClockId, clock_gettime},
    };
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some((time.into(), usage.block_reads() + usage.major_page_faults()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    /// The share of 100,000 read runs that are on the worker, when `percent` of them are cold.
    fn on_worker(percent: u32) -> f64 {
        let mut random = StdRng::seed_from_u64(7);
        let mut temperature = SlowReadDetector::default();
        let mut count = 0;
        for _ in 0..100_000 {
            count += u32::from(!temperature.is_slow());
            temperature.note_long(random.random_range(0..100) < percent);
        }
        f64::from(count) / 100_000.0
    }

    #[test]
    fn cold_clients_leave_the_worker_and_others_stay() {
        assert_eq!(on_worker(0), 1.0);
        assert!(on_worker(1) > 0.9, "{}", on_worker(1));
        assert!(on_worker(10) < 0.01, "{}", on_worker(10));
        assert!(on_worker(100) < 0.01, "{}", on_worker(100));
    }

    #[test]
    fn a_client_that_warms_up_comes_back() {
        let mut temperature = SlowReadDetector::default();
        (0..1000).for_each(|_| temperature.note_long(true));
        let mut runs = 0;
        while temperature.is_slow() {
            temperature.note_long(false);
            runs += 1;
        }
        assert_eq!(runs, MAX_SLOW_SCORE);
    }

    #[test]
    fn a_thread_without_the_core_is_long_but_not_cold() {
        let sleep = || {
            std::thread::sleep(LONG * 2);
            1
        };
        assert!(is_long(sleep));
        // Elsewhere than on Linux a thread's time without the core counts.
        let counted = cfg!(not(target_os = "linux"));
        assert_eq!(cost(sleep), ReadCost { is_cold: counted, waited: counted });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn computing_is_cold_when_it_is_long_for_a_request() {
        let compute = |requests: usize| {
            let begin = usage().unwrap().0;
            while usage().unwrap().0 - begin < LONG * 2 {}
            requests
        };
        assert_eq!(cost(|| compute(1)), ReadCost { is_cold: true, waited: false });
        assert_eq!(cost(|| compute(1000)), ReadCost::default());
    }

    #[test]
    fn a_client_that_computes_for_long_does_not_wait_for_a_device() {
        let mut temperature = SlowReadDetector::default();
        temperature.note(ReadCost { is_cold: true, waited: false });
        assert!(temperature.is_slow() && !temperature.waits_for_device());
        temperature.note(ReadCost { is_cold: true, waited: true });
        assert!(temperature.is_slow() && temperature.waits_for_device());
    }
}
