//! When an operation starts: as fast as it goes, or at a rate.

use super::clock::Clock;
use std::{thread, time::Duration};

/// When operations of one thread start: as soon as the one before has ended, or at a fixed rate whether
/// or not it has (open loop). In the second case latency counts from the time intended, so that a stall
/// is charged to all operations that it delays (Gil Tene's "coordinated omission").
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval: Option<f64>,
    next: f64,
}

/// Intended starts, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissedStarts {
    /// The first of them, in nanoseconds of the clock.
    pub first: f64,
    /// From one to the next.
    pub interval: f64,
    /// How many there are.
    pub count: u64,
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

    /// The intended starts before `end` that nobody has taken, at most `most`.
    pub fn left(&self, end: u64, most: u64) -> Option<MissedStarts> {
        let interval = self.interval?;
        let count = ((end as f64 - self.next) / interval).ceil();
        let count = if count > 0.0 { (count as u64).min(most) } else { return None };
        Some(MissedStarts { first: self.next, interval, count })
    }

    /// Waits until `start`, asleep: what is spun would be charged to the engine as processor time.
    #[inline]
    pub fn wait(clock: &Clock, start: u64) {
        loop {
            match start.saturating_sub(clock.now()) {
                0 => return,
                ahead => thread::sleep(Duration::from_nanos(ahead)),
            }
        }
    }
}

/// Asks the kernel to wake this thread when it is time, and not up to 50 microseconds later, which is what
/// it may do to wake several threads at once.
pub fn wake_in_time() {
    #[cfg(target_os = "linux")]
    // Without it the operations begin later; how much is measured.
    let _ = nix::sys::prctl::set_timerslack(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_that_were_not_taken_are_counted_to_the_end() {
        // 1000 a second by two threads: this one begins after a millisecond, and every two.
        let mut pace = Pace::new(Some(1000.0), 0, 1, 2);
        assert_eq!((pace.next(9), pace.next(9)), (1_000_000, 3_000_000));
        let left = pace.left(10_000_000, u64::MAX).unwrap();
        assert_eq!(left, MissedStarts { first: 5e6, interval: 2e6, count: 3 });
        assert_eq!(pace.left(10_000_000, 2).map(|left| left.count), Some(2));
        assert_eq!(pace.left(5_000_000, u64::MAX), None);
        assert_eq!(Pace::new(None, 0, 0, 1).left(10, u64::MAX), None);
    }
}
