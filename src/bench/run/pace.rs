//! Start times of operations: closed loop, or open loop at a rate; and the clock that times operations.

use std::{thread, time::Duration};

/// Time since the clock was started, in nanoseconds. Read after every operation, so a reading must be cheap:
/// it uses the CPU's own counter if that is steady, otherwise the system's clock, which takes three times as
/// long.
#[derive(Clone, Debug)]
pub struct Clock {
    counter: quanta::Clock,
    start: u64,
}

impl Clock {
    /// Starts a clock at 0.
    pub fn start() -> Self {
        let counter = quanta::Clock::new();
        let start = counter.raw();
        Self { counter, start }
    }

    /// Returns the nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> u64 {
        self.counter.delta_as_nanos(self.start, self.counter.raw())
    }
}

/// Schedule of the operations of one thread: each starts when the previous one has ended (closed loop), or at
/// a fixed rate whether or not it has ended (open loop). In an open loop, latency counts from the intended
/// start, so that a stall is charged to all operations that it delays (Gil Tene's "coordinated omission").
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval: Option<f64>,
    next: f64,
}

/// Intended starts of operations of an open loop that were not started, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissedStarts {
    /// First intended start, in nanoseconds of the clock.
    pub first: f64,
    /// Distance from one start to the next, in nanoseconds.
    pub interval: f64,
    /// Number of missed starts.
    pub count: u64,
}

impl Pace {
    /// Creates the pace of thread `thread` of `threads`, starting at `start` nanoseconds of the clock. `rate`
    /// is the operations per second of all threads; `None` for a closed loop.
    pub fn new(rate: Option<f64>, start: u64, thread: u32, threads: u32) -> Self {
        let all = rate.map(|rate| 1e9 / rate);
        Self {
            interval: all.map(|interval| interval * f64::from(threads)),
            next: start as f64 + all.unwrap_or(0.0) * f64::from(thread),
        }
    }

    /// Returns the intended start of the next operation, in nanoseconds of the clock: `now` in a closed loop. In an
    /// open loop it may be past.
    #[inline]
    pub fn next(&mut self, now: u64) -> u64 {
        let Some(interval) = self.interval else { return now };
        let start = self.next;
        self.next += interval;
        start as u64
    }

    /// Returns the intended starts of an open loop that are before `end` and were not returned by [`Pace::next`], at
    /// most `most`; `None` if there are none.
    pub fn left(&self, end: u64, most: u64) -> Option<MissedStarts> {
        let interval = self.interval?;
        let count = ((end as f64 - self.next) / interval).ceil();
        let count = if count > 0.0 { (count as u64).min(most) } else { return None };
        Some(MissedStarts { first: self.next, interval, count })
    }

    /// Sleeps until `start`, in nanoseconds of `clock`. Spinning would be charged to the engine as CPU time.
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

/// Asks the kernel to wake this thread exactly on time. By default it may wake a thread up to 50 microseconds
/// late, in order to wake several threads at once.
pub fn wake_in_time() {
    #[cfg(target_os = "linux")]
    // If this fails, operations start later, and the start delay shows it.
    let _ = nix::sys::prctl::set_timerslack(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_that_were_not_taken_are_counted_to_the_end() {
        // 1000 per second by two threads: this one starts after one millisecond, then every two.
        let mut pace = Pace::new(Some(1000.0), 0, 1, 2);
        assert_eq!((pace.next(9), pace.next(9)), (1_000_000, 3_000_000));
        let left = pace.left(10_000_000, u64::MAX).unwrap();
        assert_eq!(left, MissedStarts { first: 5e6, interval: 2e6, count: 3 });
        assert_eq!(pace.left(10_000_000, 2).map(|left| left.count), Some(2));
        assert_eq!(pace.left(5_000_000, u64::MAX), None);
        assert_eq!(Pace::new(None, 0, 0, 1).left(10, u64::MAX), None);
    }

    /// A start that was only looked at is one of those that are left.
    #[test]
    fn no_more_starts_are_missed_than_operations_were_left() {
        // 1000 per second for 10 ms.
        let pace = Pace::new(Some(1000.0), 0, 0, 1);
        let mut seen = pace;
        seen.next(0);
        let missed = |pace: &Pace| {
            [0, 1, 3, 10, u64::MAX].map(|left| pace.left(10_000_000, left).map_or(0, |starts| starts.count))
        };
        assert_eq!((missed(&pace), missed(&seen)), ([0, 1, 3, 10, 10], [0, 1, 3, 9, 9]));
    }
}
