//! Allowed loss of acknowledged writes in a crash test.

use crate::engine::{LossBound, LossClass};
use clap::{ValueEnum, builder::PossibleValue};
use std::{fmt, time::Duration};

/// Acknowledged writes that a kill or power cut may lose. Each value is less than the values that allow a larger loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllowedLoss {
    /// No acknowledged write may be lost.
    Nothing,
    /// Writes acknowledged within this time before the kill or power cut may be lost; the delay of a timer that runs
    /// late is included.
    Within(Duration),
    /// Any number of the last writes may be lost, but none before a write that is left.
    Tail,
    /// All writes may be lost, and the store may fail to open.
    Anything,
}

impl AllowedLoss {
    /// Allowed loss for a loss bound of about a second: 2.5 seconds, because a busy machine delays the syncs.
    pub const SECOND: Self = Self::Within(Duration::from_millis(2500));

    /// Returns the loss that a crash test allows a store with the loss bound `lost`.
    pub fn of(lost: LossBound) -> Self {
        match lost.extent {
            LossClass::Nothing => Self::Nothing,
            LossClass::Seconds => Self::SECOND,
            LossClass::Unwritten | LossClass::Buffer => Self::Tail,
            LossClass::Everything => Self::Anything,
        }
    }
}

impl ValueEnum for AllowedLoss {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Nothing, Self::SECOND, Self::Tail, Self::Anything]
    }

    /// Returns the value of `--promise`; `None` for a time other than that of [`AllowedLoss::SECOND`].
    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (word, help) = match *self {
            Self::Nothing => ("nothing", "No acknowledged write"),
            Self::SECOND => ("second", "The last 2.5 seconds"),
            Self::Within(_) => return None,
            Self::Tail => ("tail", "The last writes, however many"),
            Self::Anything => ("anything", "Everything"),
        };
        Some(PossibleValue::new(word).help(help))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_allowed_loss_is_greater() {
        assert!(AllowedLoss::value_variants().is_sorted());
        assert!(AllowedLoss::SECOND < AllowedLoss::Within(Duration::from_secs(3)));
    }
}
