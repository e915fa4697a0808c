//! Allowed loss of acknowledged writes in a crash test.

use crate::engine::{LossBound, LossClass};
use std::{fmt, time::Duration};

/// Acknowledged writes that a kill or power cut may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedLoss {
    /// No acknowledged write may be lost.
    Nothing,
    /// Writes acknowledged in this time before the fault, which includes the delay of a timer that runs late.
    Within(Duration),
    /// Any number of the last writes.
    Tail,
    /// All writes, and the store may fail to open.
    Anything,
}

impl AllowedLoss {
    /// Loss of about one second, plus the delay of a busy machine.
    pub const SECOND: Self = Self::Within(Duration::from_millis(2500));

    /// Returns the allowed loss of a store with this loss bound.
    pub fn of(lost: LossBound) -> Self {
        match lost.extent {
            LossClass::Nothing => Self::Nothing,
            LossClass::Seconds => Self::SECOND,
            LossClass::Unwritten | LossClass::Buffer => Self::Tail,
            LossClass::Everything => Self::Anything,
        }
    }
}

impl fmt::Display for AllowedLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.pad("nothing"),
            Self::Within(time) => f.pad(&format!("the last {} s", time.as_secs_f64())),
            Self::Tail => f.pad("the last writes"),
            Self::Anything => f.pad("anything"),
        }
    }
}
