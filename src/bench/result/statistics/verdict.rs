//! Verdict on two stores, with its sentence.

use super::margin::Margin;
use std::fmt;

/// Verdict on the first of two stores, compared with the second. All percentages are fractions (0.1 for 10%).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The rate of the first store is higher, and not shown to be within the margin.
    Faster {
        /// Nearer end of the confidence interval: 0.1 if the rate is at least 1.1 times that of the second.
        at_least: f64,
    },
    /// The rate of the first store is lower, and not shown to be within the margin.
    Slower {
        /// Nearer end of the confidence interval: 0.1 if the rate is at most 0.9 times that of the second.
        at_least: f64,
    },
    /// The rate of the first store is higher, but by less than the margin. In a ranking this is a tie.
    SlightlyFaster {
        /// Estimated difference.
        by: f64,
        /// Margin of the comparison.
        margin: Margin,
    },
    /// The rate of the first store is lower, but by less than the margin. In a ranking this is a tie.
    SlightlySlower {
        /// Estimated difference.
        by: f64,
        /// Margin of the comparison.
        margin: Margin,
    },
    /// The stores differ by less than the margin, and neither is shown to be faster.
    Equal {
        /// Margin of the comparison.
        margin: Margin,
    },
    /// Neither a difference nor equality is shown.
    CannotTell {
        /// Number of blocks after which a verdict is likely; `None` above [`super::sample_size::MAX_BLOCKS`].
        blocks: Option<u32>,
        /// `true` if more blocks can also show that the stores are equal; `false` if the difference is so near the
        /// margin, or so far beyond it, that only a difference can be shown.
        may_be_equal: bool,
        /// Margin of the comparison.
        margin: Margin,
    },
}

impl Verdict {
    /// Returns `true` if a difference or equality is shown.
    pub fn is_decided(self) -> bool {
        !matches!(self, Self::CannotTell { .. })
    }

    /// Returns `true` if a difference is shown, whether or not it is within the margin.
    pub fn is_different(self) -> bool {
        match self {
            Self::Faster { .. } | Self::Slower { .. } => true,
            Self::SlightlyFaster { .. } | Self::SlightlySlower { .. } => true,
            Self::Equal { .. } | Self::CannotTell { .. } => false,
        }
    }
}

impl fmt::Display for Verdict {
    /// Writes the verdict as a sentence without subject and final stop: "faster by at least 4.1%".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Faster { at_least } if at_least >= 1.0 => {
                write!(f, "at least {:.1} times as fast", ((1.0 + at_least) * 10.0).floor() / 10.0)
            }
            Self::Faster { at_least } => write!(f, "faster by at least {}", percent(at_least, f64::floor)),
            Self::Slower { at_least } => write!(f, "slower by at least {}", percent(at_least, f64::floor)),
            Self::SlightlyFaster { by, margin } => {
                write!(f, "faster by {}, less than {margin}", percent(by, f64::round))
            }
            Self::SlightlySlower { by, margin } => {
                write!(f, "slower by {}, less than {margin}", percent(by, f64::round))
            }
            Self::Equal { margin } => write!(f, "equal within {margin}"),
            Self::CannotTell { blocks, may_be_equal, margin } => {
                f.write_str("cannot tell")?;
                match (blocks, may_be_equal) {
                    (Some(blocks), true) => write!(f, ": about {blocks} blocks would decide"),
                    (Some(blocks), false) => write!(
                        f,
                        ": about {blocks} blocks would show a difference, no number of blocks equality within \
                         {margin}"
                    ),
                    (None, _) => write!(f, ": {} blocks would not decide", super::sample_size::MAX_BLOCKS),
                }
            }
        }
    }
}

/// Returns a fraction in percent, with one decimal place below 10%. `round` chooses the last digit.
fn percent(fraction: f64, round: fn(f64) -> f64) -> String {
    match fraction < 0.1 {
        true => format!("{:.1}%", round(fraction * 1e3) / 10.0),
        false => format!("{:.0}%", round(fraction * 1e2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_plain_sentences() {
        let margin = Margin::default();
        let cannot_tell = |blocks, may_be_equal| Verdict::CannotTell { blocks, may_be_equal, margin };
        for (verdict, sentence) in [
            (Verdict::Faster { at_least: 0.0419 }, "faster by at least 4.1%"),
            (Verdict::Faster { at_least: 1.57 }, "at least 2.5 times as fast"),
            (Verdict::Slower { at_least: 0.339 }, "slower by at least 33%"),
            (Verdict::SlightlyFaster { by: 0.0119, margin }, "faster by 1.2%, less than 3%"),
            (Verdict::SlightlySlower { by: 0.02, margin }, "slower by 2.0%, less than 3%"),
            (Verdict::Equal { margin }, "equal within 3%"),
            (cannot_tell(Some(23), true), "cannot tell: about 23 blocks would decide"),
            (
                cannot_tell(Some(9), false),
                "cannot tell: about 9 blocks would show a difference, no number of blocks equality within 3%",
            ),
            (cannot_tell(None, true), "cannot tell: 1000 blocks would not decide"),
        ] {
            assert_eq!(verdict.to_string(), sentence);
        }
    }
}
