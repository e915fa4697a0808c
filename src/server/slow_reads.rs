//! Decides where the reads of a client are executed: on its worker while they are short; on a blocking thread,
//! at the cost of a thread hop, while some of them delay the other clients of the worker.

use std::{
    ops::BitOrAssign,
    time::{Duration, Instant},
};

/// Maximum duration of a read request that does not delay other clients noticeably.
const SLOW: Duration = Duration::from_micros(100);

/// Maximum slow score of a client: number of times that its next reads, though fast, are executed on a blocking thread
/// after many slow ones.
const MAX_SLOW_SCORE: u8 = 250;

/// Number of further times that reads of a client are treated as slow because earlier ones were; reads that are
/// executed together count once.
#[derive(Default)]
struct SlowScore(u8);

impl SlowScore {
    /// Updates the score after reads that were executed together: slow ones multiply it by eight and add one (at
    /// most [`MAX_SLOW_SCORE`]), others subtract one. So one slow step by chance costs little, but a client with a
    /// few slow reads in a hundred is soon treated as if all of its reads were slow.
    fn note(&mut self, is_so: bool) {
        self.0 = if is_so {
            self.0.saturating_mul(8).saturating_add(1).min(MAX_SLOW_SCORE)
        } else {
            self.0.saturating_sub(1)
        };
    }
}

/// Scores that decide on which thread the reads of one client are executed.
#[derive(Default)]
pub(super) struct SlowReadDetector {
    /// Score of the reads that took long or waited for a device.
    cold: SlowScore,
    /// Score of the reads that waited for a device.
    waiting: SlowScore,
}

impl SlowReadDetector {
    /// Returns `true` if the client's next reads must be executed on a blocking thread, not on the worker.
    pub fn is_slow(&self) -> bool {
        self.cold.0 > 0
    }

    /// Returns `true` if the client's next reads are expected to wait for a device, so that several concurrent
    /// reads are faster.
    pub fn waits_for_device(&self) -> bool {
        self.waiting.0 > 0
    }

    /// Updates the scores after reads that were executed on the worker; `is_long` is `true` if they took more than
    /// [`SLOW`] per request.
    pub fn note_long(&mut self, is_long: bool) {
        self.cold.note(is_long);
        self.waiting.note(false);
    }

    /// Updates the scores after reads that were executed on a blocking thread.
    pub fn note(&mut self, cost: ReadCost) {
        self.cold.note(cost.is_cold);
        self.waiting.note(cost.waited);
    }
}

/// Cost of read requests that were executed together: two flags, whether they were too slow for a worker, and whether
/// they waited for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadCost {
    /// `true` if the reads waited for a device or took more than [`SLOW`] per request: on a worker they would have
    /// delayed its other clients.
    pub is_cold: bool,
    /// `true` if the reads waited for a device.
    pub waited: bool,
}

impl BitOrAssign for ReadCost {
    fn bitor_assign(&mut self, other: Self) {
        self.is_cold |= other.is_cold;
        self.waited |= other.waited;
    }
}

/// Runs `read`, which returns the number of requests it has answered, and returns `true` if it took more than [`SLOW`]
/// per request. It reads the clock only twice, which matters on a worker; a read whose thread lost its core therefore
/// counts as slow.
pub(super) fn is_long(read: impl FnOnce() -> usize) -> bool {
    let begin = Instant::now();
    let requests = read();
    each(begin.elapsed(), requests) > SLOW
}

/// Runs `read`, which returns the number of requests it has answered, and returns whether it waited for a device, and
/// whether it was slow: it waited, or used more than [`SLOW`] of CPU time per request, as an engine does that decodes a
/// page. Time during which other threads had the core does not count. If the system does not report the figures, the
/// read counts as slow and as one that waited.
#[cfg(target_os = "linux")]
pub(super) fn cost(read: impl FnOnce() -> usize) -> ReadCost {
    let (Some((begin, seen)), requests, Some((end, reads))) = (usage(), read(), usage()) else {
        return ReadCost { is_cold: true, waited: true };
    };
    let waited = reads != seen;
    ReadCost { is_cold: waited || each(end.saturating_sub(begin), requests) > SLOW, waited }
}

/// Runs `read` and returns its cost. This platform has no count of device reads, so a long read counts as one
/// that waited for a device.
#[cfg(not(target_os = "linux"))]
pub(super) fn cost(read: impl FnOnce() -> usize) -> ReadCost {
    let is_cold = is_long(read);
    ReadCost { is_cold, waited: is_cold }
}

fn each(time: Duration, requests: usize) -> Duration {
    time / u32::try_from(requests).unwrap_or(u32::MAX).max(1)
}

/// Returns the CPU time of the calling thread, and a count that grows with each of its reads from a device, of files or
/// of pages of a memory map; `None` if the system does not report one of them.
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

    /// Returns the fraction of 100,000 reads that are executed on the worker if `percent` percent of them are slow.
    fn on_worker(percent: u32) -> f64 {
        let mut random = StdRng::seed_from_u64(7);
        let mut slow_read_detector = SlowReadDetector::default();
        let mut count = 0;
        for _ in 0..100_000 {
            count += u32::from(!slow_read_detector.is_slow());
            slow_read_detector.note_long(random.random_range(0..100) < percent);
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
        let mut slow_read_detector = SlowReadDetector::default();
        (0..1000).for_each(|_| slow_read_detector.note_long(true));
        let mut runs = 0;
        while slow_read_detector.is_slow() {
            slow_read_detector.note_long(false);
            runs += 1;
        }
        assert_eq!(runs, MAX_SLOW_SCORE);
    }

    #[test]
    fn a_thread_without_the_core_is_long_but_not_cold() {
        let sleep = || {
            std::thread::sleep(SLOW * 2);
            1
        };
        assert!(is_long(sleep));
        // Except on Linux, time during which other threads had the core counts. On Linux an interrupt of a busy machine
        // may count as CPU time of one read, but not of all.
        let counted = cfg!(not(target_os = "linux"));
        let expected = ReadCost { is_cold: counted, waited: counted };
        assert!((0..100).any(|_| cost(sleep) == expected));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn computing_is_cold_when_it_is_long_for_a_request() {
        let compute = |requests: usize| {
            let begin = usage().unwrap().0;
            while usage().unwrap().0 - begin < SLOW * 2 {}
            requests
        };
        assert_eq!(cost(|| compute(1)), ReadCost { is_cold: true, waited: false });
        assert_eq!(cost(|| compute(1000)), ReadCost::default());
    }

    #[test]
    fn a_client_that_computes_for_long_does_not_wait_for_a_device() {
        let mut slow_read_detector = SlowReadDetector::default();
        slow_read_detector.note(ReadCost { is_cold: true, waited: false });
        assert!(slow_read_detector.is_slow() && !slow_read_detector.waits_for_device());
        slow_read_detector.note(ReadCost { is_cold: true, waited: true });
        assert!(slow_read_detector.is_slow() && slow_read_detector.waits_for_device());
    }
}
