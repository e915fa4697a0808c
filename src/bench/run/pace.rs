//! When an operation starts: as fast as it goes, or at a rate.

use super::recorder::Clock;
use std::{thread, time::Duration};

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
