//! Clock that times operations.

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
