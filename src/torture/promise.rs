//! What may be lost.

use crate::engine::{LossBound, LossClass};
use std::{fmt, time::Duration};

/// The acknowledged writes that a strike may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedLoss {
    /// None.
    Nothing,
    /// The last ones, as far back as this; a timer that runs late included.
    Within(Duration),
    /// The last ones.
    Tail,
    /// Everything, and the store may not open any more.
    Anything,
}

impl AllowedLoss {
    /// About a second, and the time that a loaded machine takes beside it.
    pub const SECOND: Self = Self::Within(Duration::from_millis(2500));

    /// What a store may lose that says so of itself.
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
