//! The clock that operations are timed with.

/// Time since a common start, in nanoseconds. Read after every operation, so it has to be cheap: the
/// processor's own counter where that is steady, else the system's clock, which takes three times as long.
#[derive(Clone, Debug)]
pub struct Clock {
    counter: quanta::Clock,
    start: u64,
}

impl Clock {
    /// Starts now.
    pub fn start() -> Self {
        let counter = quanta::Clock::new();
        let start = counter.raw();
        Self { counter, start }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> u64 {
        self.counter.delta_as_nanos(self.start, self.counter.raw())
    }
}
