//! Planned looks: several evaluations of a comparison that still goes on, without more false differences.
//!
//! An evaluation after each block would find a difference between equal stores in 40% of all comparisons, because
//! each evaluation is one more chance. So at most five looks are planned before the first of them, and the limits of
//! O'Brien and Fleming apply (A Multiple Testing Procedure for Clinical Trials, 1979): a look after a share f of all
//! blocks needs a deviation 1/sqrt(f) times as large as the last one. The deviations are Student's, converted to
//! normal ones with the same probability (Pocock, Group Sequential Methods in the Design and Analysis of Clinical
//! Trials, 1977).
//!
//! The length of a plan follows from the first blocks of the same comparison ([`super::sample_size`]). If these vary
//! little by chance, the plan is too short and the noise underestimated, which gives false differences too. The
//! factors of [`Looks::sized`] compensate for both; `simulation_tests.rs` computes them.

use super::{normal, student};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of blocks (repetitions of an interleaved comparison) from which the noise is estimated and the looks are
/// planned. The first look follows at once, unless the plan has 6 or 7 blocks: it then has one look, after the last.
pub const FIRST_LOOK: u32 = 5;
/// Maximum number of times that an interleaved comparison is evaluated.
const MAX_LOOKS: u32 = 5;
/// Minimum number of blocks (repetitions of an interleaved comparison) from one evaluation to the next.
const BLOCKS_BETWEEN_LOOKS: u32 = 3;

/// Numbers of blocks (repetitions of an interleaved comparison) after which the stores are compared, fixed before the
/// first such evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Looks {
    /// Numbers of blocks after which the comparison is evaluated, ascending; empty if it is evaluated once, after all
    /// of its blocks.
    after_blocks: Vec<u32>,
    /// Factor by which the plan, with its several evaluations, raises the probability that chance alone is found
    /// significant at the last one.
    factor: f64,
}

impl Looks {
    /// Returns the plan of a comparison that is evaluated once, and whose number of blocks does not depend on what was
    /// measured.
    pub fn once() -> Self {
        Self { after_blocks: Vec::new(), factor: 1.0 }
    }

    /// Returns the plan of a comparison of `stores` stores with at most `last` blocks, chosen after the first
    /// [`FIRST_LOOK`] blocks. At most five looks (evaluations) are spread evenly over the blocks, at least three blocks
    /// apart.
    pub fn sized(last: u32, stores: usize) -> Self {
        let last = last.max(FIRST_LOOK);
        let steps = ((last - FIRST_LOOK) / BLOCKS_BETWEEN_LOOKS).min(MAX_LOOKS - 1);
        let between = |step: u32| FIRST_LOOK + (step * (last - FIRST_LOOK) + steps / 2) / steps.max(1);
        let after_blocks = if steps == 0 { vec![last] } else { (0..=steps).map(between).collect() };
        Self { after_blocks, factor: factor(stores) }
    }

    /// Returns the numbers of blocks after which the comparison is evaluated, ascending; empty for
    /// [`once`](Self::once).
    pub fn after_blocks(&self) -> &[u32] {
        &self.after_blocks
    }

    /// Returns the looks for a mean over several comparisons, each of which ended at one of its own looks, at any number
    /// of blocks: those of the longest plan, with the largest factor. [`once`](Self::once) if none has a plan.
    pub fn of_several(all: &[Self]) -> Self {
        let last = all.iter().filter_map(Self::planned).max();
        let factor = all.iter().map(|looks| looks.factor).fold(1.0, f64::max);
        last.map_or_else(Self::once, |last| Self { after_blocks: (1..=last).collect(), factor })
    }

    /// Returns the planned number of blocks, or `None` for [`once`](Self::once).
    pub fn planned(&self) -> Option<u32> {
        self.after_blocks.last().copied()
    }

    /// Returns the number of blocks of the latest planned look (evaluation) when `blocks` blocks are measured, or
    /// `None` before the first look; always `blocks` for [`once`](Self::once).
    pub fn newest(&self, blocks: u32) -> Option<u32> {
        match self.after_blocks.is_empty() {
            true => Some(blocks),
            false => self.after_blocks.iter().copied().rfind(|look| *look <= blocks),
        }
    }

    /// Returns the factor by which the plan, with its several evaluations, raises the probability that chance alone is
    /// found significant.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Returns the p-value over all looks (evaluations) of a deviation whose p-value at the look after `blocks` blocks
    /// alone is `probability`. Both are one-sided.
    pub fn overall(&self, probability: f64, blocks: u32) -> f64 {
        let deviation = normal::quantile(probability) * self.share(blocks).sqrt();
        let at_end = if self.after_blocks.is_empty() { probability } else { normal::tail(deviation) };
        (self.factor * at_end).min(1.0)
    }

    /// Returns the number of standard errors that a deviation must exceed at the look (evaluation) after `blocks`
    /// blocks to be significant. `level` is the one-sided significance level over all looks.
    pub fn critical(&self, level: f64, blocks: u32) -> f64 {
        let at_end = level / self.factor;
        let at_look = match self.after_blocks.is_empty() {
            true => at_end,
            false => normal::tail(normal::quantile(at_end) / self.share(blocks).sqrt()),
        };
        student::critical(2.0 * at_look, f64::from(blocks) - 1.0)
    }

    /// Returns the share of the planned blocks that `blocks` blocks are, from 0 to 1; always 1 for
    /// [`once`](Self::once).
    fn share(&self, blocks: u32) -> f64 {
        self.after_blocks.last().map_or(1.0, |last| (f64::from(blocks) / f64::from(*last)).min(1.0))
    }
}

/// Returns the factor by which planned looks (evaluations) raise the probability of a false difference among `stores`
/// stores: the largest one for any noise, two-sided at 5%. With more stores, the first blocks estimate the noise
/// better. The test `factors_match_a_simulation` computes the values.
fn factor(stores: usize) -> f64 {
    if stores <= 2 { 1.8 } else { 1.4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_at_most_five_and_at_least_three_blocks_apart() {
        for (last, expected) in [
            (3, &[5][..]),
            (5, &[5]),
            (7, &[7]),
            (8, &[5, 8]),
            (12, &[5, 9, 12]),
            (16, &[5, 9, 12, 16]),
            (40, &[5, 14, 23, 31, 40]),
        ] {
            assert_eq!(Looks::sized(last, 2).after_blocks(), expected, "{last} blocks");
        }
    }

    /// At the k-th of four evaluations, a deviation must exceed sqrt(4 / k) times that of the last one, apart from the
    /// difference of Student's distribution. The plan's factor makes all of them larger.
    #[test]
    fn early_looks_need_larger_deviations() {
        let looks = Looks { after_blocks: vec![100, 200, 300, 400], factor: 1.0 };
        let last = looks.critical(0.025, 400);
        assert!((last - student::critical(0.05, 399.0)).abs() < 1e-3, "{last}");
        for (blocks, times) in [(100, 2.0), (200, 2.0_f64.sqrt()), (300, (4.0_f64 / 3.0).sqrt())] {
            let ratio = looks.critical(0.025, blocks) / last;
            assert!((ratio / times - 1.0).abs() < 0.05, "{blocks} blocks: {ratio}");
        }
        assert!(Looks { factor: 1.8, ..looks }.critical(0.025, 400) > last);
    }

    #[test]
    fn looks_of_several_comparisons_are_as_strict_as_the_strictest() {
        assert_eq!(Looks::of_several(&[Looks::once(), Looks::once()]), Looks::once());
        let (short, long) = (Looks::sized(8, 2), Looks::sized(40, 9));
        let both = Looks::of_several(&[Looks::once(), short.clone(), long.clone()]);
        for blocks in [5, 6, 8] {
            assert_eq!(both.newest(blocks), Some(blocks));
            for one in [&short, &long] {
                assert!(both.critical(0.025, blocks) >= one.critical(0.025, blocks), "{blocks} blocks");
            }
        }
    }

    /// The p-value over all planned evaluations is the significance level exactly for the critical deviation.
    #[test]
    fn p_values_and_critical_deviations_agree() {
        for looks in [Looks::once(), Looks::sized(20, 2), Looks::sized(20, 9)] {
            for blocks in [5, 9, 20] {
                let critical = looks.critical(0.01, blocks);
                let probability = student::two_sided(critical, f64::from(blocks) - 1.0) / 2.0;
                assert!(
                    (looks.overall(probability, blocks) / 0.01 - 1.0).abs() < 1e-3,
                    "{looks:?}, {blocks}"
                );
            }
        }
    }
}
