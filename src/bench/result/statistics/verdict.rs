//! Verdict on two stores.

use super::{margin::Margin, sample_size::MAX_BLOCKS};

/// Verdict on the first of two stores, compared with the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The rate of the first store is higher, and the difference is not shown to be below the margin (which counts as
    /// equal).
    Faster,
    /// The rate of the first store is lower, and the difference is not shown to be below the margin (which counts as
    /// equal).
    Slower,
    /// The rate of the first store is higher, but by less than the margin. In a ranking this is a tie.
    SlightlyFaster {
        /// Difference below which stores count as equal.
        margin: Margin,
    },
    /// The rate of the first store is lower, but by less than the margin. In a ranking this is a tie.
    SlightlySlower {
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
            Self::Faster | Self::Slower => true,
            Self::SlightlyFaster { .. } | Self::SlightlySlower { .. } => true,
            Self::Equal { .. } | Self::CannotTell { .. } => false,
        }
    }
}

/// Returns what would decide a comparison, as a clause. `amount` formats a number of blocks, such as "23 blocks (9 min)";
/// the other parameters are those of [`Verdict::CannotTell`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_decide_are_named_in_a_plain_clause() {
        for (blocks, may_be_equal, clause) in [
            (Some(23), true, "about 23 blocks (46 s) would decide"),
            (
                Some(9),
                false,
                "about 9 blocks (18 s) would show a difference, and no budget decides equality within 3%",
            ),
            (None, true, "1000 blocks (2000 s) would not decide"),
        ] {
            let amount = |blocks| format!("{blocks} blocks ({} s)", 2 * blocks);
            assert_eq!(deciding(blocks, may_be_equal, Margin::default(), amount), clause);
        }
    }
}
