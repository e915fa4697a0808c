//! Verdict on two stores, with its sentence.

use super::{margin::Margin, sample_size::MAX_BLOCKS};
/// Verdict on the first of two stores, compared with the second. All percentages are fractions (0.1 for 10%).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The rate of the first store is higher, and the difference is not shown to be below the margin (which counts as
    /// equal).
    Faster {
        /// Smallest difference in the confidence interval, as a fraction: 0.1 if the rate is at least 1.1 times that of
        /// the second store.
        at_least: f64,
    },
    /// The rate of the first store is lower, and the difference is not shown to be below the margin (which counts as
    /// equal).
    Slower {
        /// Smallest difference in the confidence interval, as a fraction: 0.1 if the rate is at most 0.9 times that of
        /// the second store.
        at_least: f64,
    },
    /// The rate of the first store is higher, but by less than the margin. In a ranking this is a tie.
    SlightlyFaster {
        /// Estimated difference of the rates, as a fraction: 0.02 if the first store is 2% faster.
        by: f64,
        /// Difference below which stores count as equal.
        margin: Margin,
    },
    /// The rate of the first store is lower, but by less than the margin. In a ranking this is a tie.
    SlightlySlower {
        /// Estimated difference of the rates, as a fraction: 0.02 if the first store is 2% slower.
        by: f64,
        /// Difference below which stores count as equal.
        margin: Margin,
    },
    /// The stores differ by less than the margin, and neither is shown to be faster.
    Equal {
        /// Difference below which stores count as equal.
        margin: Margin,
    },
    /// Neither a difference of the two stores nor their equality is shown.
    CannotTell {
        /// Number of blocks (repetitions) after which a verdict is likely; `None` above
        /// [`MAX_BLOCKS`].
        blocks: Option<u32>,
        /// `true` if more blocks can also show that the stores are equal; `false` if the difference is so near the
        /// margin, or so far beyond it, that only a difference can be shown.
        may_be_equal: bool,
        /// Difference below which stores count as equal.
        margin: Margin,
    },
}

impl Verdict {
    /// Returns `true` if a difference of the two stores or their equality is shown.
    pub fn is_decided(self) -> bool {
        !matches!(self, Self::CannotTell { .. })
    }

    /// Returns `true` if a difference of the two stores is shown, whether or not it is within the margin.
    pub fn is_different(self) -> bool {
        match self {
            Self::Faster { .. } | Self::Slower { .. } => true,
            Self::SlightlyFaster { .. } | Self::SlightlySlower { .. } => true,
            Self::Equal { .. } | Self::CannotTell { .. } => false,
        }
    }
}

impl Verdict {
    /// Returns the verdict as a sentence without subject and final stop: "faster by at least 4.1%". `amount` formats a
    /// number of blocks, such as "23 blocks (9 min)".
    pub fn sentence(self, amount: impl Fn(u32) -> String) -> String {
        match self {
            Self::Faster { at_least } if at_least >= 1.0 => {
                format!("at least {:.1} times as fast", ((1.0 + at_least) * 10.0).floor() / 10.0)
            }
            Self::Faster { at_least } => format!("faster by at least {}", percent(at_least, f64::floor)),
            Self::Slower { at_least } => format!("slower by at least {}", percent(at_least, f64::floor)),
            Self::SlightlyFaster { by, margin } => {
                format!("faster by {}, less than {margin}", percent(by, f64::round))
            }
            Self::SlightlySlower { by, margin } => {
                format!("slower by {}, less than {margin}", percent(by, f64::round))
            }
            Self::Equal { margin } => format!("equal within {margin}"),
            Self::CannotTell { blocks, may_be_equal, margin } => {
                format!("cannot tell: {}", deciding(blocks, may_be_equal, margin, amount))
            }
        }
    }
}

/// Returns what would decide a comparison, as a clause; the parameters are those of [`Verdict::CannotTell`] and
/// [`Verdict::sentence`].
pub fn deciding(
    blocks: Option<u32>,
    may_be_equal: bool,
    margin: Margin,
    amount: impl Fn(u32) -> String,
) -> String {
    match (blocks, may_be_equal) {
        (Some(blocks), true) => format!("about {} would decide", amount(blocks)),
        (Some(blocks), false) => format!(
            "about {} would show a difference, and no budget decides equality within {margin}",
            amount(blocks)
        ),
        (None, _) => format!("{} would not decide", amount(MAX_BLOCKS)),
    }
}

/// Returns a fraction as text in percent, with one decimal place below 10%: "4.1%". `round` chooses the last digit.
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
            (cannot_tell(Some(23), true), "cannot tell: about 23 blocks (46 s) would decide"),
            (
                cannot_tell(Some(9), false),
                "cannot tell: about 9 blocks (18 s) would show a difference, and no budget decides equality within 3%",
            ),
            (cannot_tell(None, true), "cannot tell: 1000 blocks (2000 s) would not decide"),
        ] {
            let amount = |blocks| format!("{blocks} blocks ({} s)", 2 * blocks);
            assert_eq!(verdict.sentence(amount), sentence);
        }
    }
}
