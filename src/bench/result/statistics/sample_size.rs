//! Number of blocks that a comparison needs, and the smallest difference that it can find.
//!
//! All differences are of natural logarithms, so 0.03 is about 3%. The power is that of Student's test, from the
//! noncentral t distribution (Johnson and Welch, Applications of the Non-Central t-Distribution, 1940).

use super::{
    looks::{FIRST_LOOK, Looks},
    margin::Margin,
    normal, real, squares, student,
};
use std::collections::BTreeMap;

/// Significance level, for all pairs of a table's stores together, of the tests for differences (two-sided), and
/// likewise of the tests for equality.
pub const LEVEL: f64 = 0.05;
/// Probability with which a difference as large as the margin is found (power).
pub const POWER: f64 = 0.95;
/// Power for which the number of blocks is planned from an estimate of the noise. The plan is too short if the estimate
/// is too small by chance, and the early looks cost some power, so that [`POWER`] remains.
const PLANNED_POWER: f64 = 0.97;
/// Maximum number of blocks (repetitions of a comparison) that are planned.
pub const MAX_BLOCKS: u32 = 1000;

/// Noise of a store: the standard deviation of the logarithm of its rate between instances of the store in one block
/// (repetition).
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Standard deviation of the logarithm of a store's rate.
    pub deviation: f64,
    /// Degrees of freedom of the estimate `deviation`; infinite if it is known, not estimated.
    pub freedom: f64,
}

impl Noise {
    /// Estimates the noise of a store from the logarithm of the rate of each store by block. Only blocks that all
    /// stores have are used. What the stores of a block have in common is no noise. Returns `None` with fewer than two
    /// stores or blocks.
    pub fn of(stores: &[BTreeMap<u32, f64>]) -> Option<Self> {
        let (first, others) = stores.split_first()?;
        let common = first.keys().filter(|block| others.iter().all(|store| store.contains_key(block)));
        let blocks: Vec<u32> = common.copied().collect();
        let within = |block: &u32| {
            let values: Vec<f64> = stores.iter().filter_map(|store| store.get(block).copied()).collect();
            squares(&values)
        };
        // Squares of stores and blocks together, less those of the stores' means.
        let of_blocks: f64 = blocks.iter().map(within).sum();
        let mean_of = |store: &BTreeMap<u32, f64>| {
            super::mean(&blocks.iter().filter_map(|block| store.get(block).copied()).collect::<Vec<_>>())
        };
        let means: Vec<f64> = stores.iter().filter_map(mean_of).collect();
        let rest = of_blocks - real(blocks.len()) * squares(&means);
        let freedom = (real(stores.len()) - 1.0) * (real(blocks.len()) - 1.0);
        (freedom >= 1.0).then(|| Self { deviation: (rest.max(0.0) / freedom).sqrt(), freedom })
    }

    /// Returns the number of blocks with which differences as large as `margin` between `stores` stores are found with
    /// probability [`POWER`], at least [`FIRST_LOOK`] and at most [`MAX_BLOCKS`]. `others` is the number of pairs of
    /// other comparisons that are tested in one family with these.
    pub fn blocks(&self, margin: Margin, stores: usize, others: usize) -> u32 {
        let level = level_of_pair(stores, others) / Looks::sized(FIRST_LOOK, stores).factor();
        self.about(margin.logarithm(), level, PLANNED_POWER).unwrap_or(MAX_BLOCKS).max(FIRST_LOOK)
    }

    /// Returns about how many blocks (repetitions) find a `difference` of logarithms with the probability `power`, or
    /// `None` above [`MAX_BLOCKS`]. `level` is the two-sided significance level.
    ///
    /// Uses the formula 2 (s/d)^2 (a + b)^2 + z^2 / 2 for the noise s, the difference d and the quantiles a of the level
    /// and b of the power. With Student's quantiles for the blocks of the estimate, an estimate that is too small by
    /// chance rarely makes the plan too short (Stein, A Two-Sample Test for a Linear Hypothesis Whose Power is
    /// Independent of the Variance, 1945). The last term, with the normal quantile z of the level, is for the test
    /// itself, which estimates the noise again (Guenther, Sample Size Formulas for Normal Theory T Tests, 1981).
    pub fn about(&self, difference: f64, level: f64, power: f64) -> Option<u32> {
        let quantile = |tail: f64| match self.freedom.is_finite() {
            true => student::critical(2.0 * tail, self.freedom),
            false => normal::quantile(tail),
        };
        let quantiles = quantile(level / 2.0) + quantile(1.0 - power);
        let of_test = normal::quantile(level / 2.0).powi(2) / 2.0;
        let blocks = rounded_up(2.0 * (self.deviation / difference * quantiles).powi(2) + of_test);
        (blocks <= MAX_BLOCKS).then_some(blocks)
    }
}

/// Returns the two-sided significance level of one pair of `stores` stores, if none of the other pairs differs. `others`
/// is the number of pairs of other comparisons that are tested in one family with these.
pub fn level_of_pair(stores: usize, others: usize) -> f64 {
    LEVEL / (real(stores) * (real(stores) - 1.0) / 2.0 + real(others))
}

/// Returns the smallest difference of logarithms that is found with probability [`POWER`] after `blocks` blocks, at
/// least two. `deviation` is the known standard deviation of a store's instances, and `level` the two-sided
/// significance level.
pub fn detectable(deviation: f64, blocks: u32, level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4 * deviation);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if power(deviation, middle, level, blocks) < POWER { low = middle } else { high = middle }
    }
    high
}

/// Returns the probability (power) that a `difference` of logarithms is found significant, in its direction, after
/// `blocks` blocks at the two-sided significance `level`.
fn power(deviation: f64, difference: f64, level: f64, blocks: u32) -> f64 {
    /// Number of steps of the integral over the estimated standard deviation.
    const STEPS: u32 = 100;
    if deviation <= 0.0 {
        return 1.0;
    }
    let blocks = f64::from(blocks.max(2));
    let freedom = blocks - 1.0;
    let critical = student::critical(level, freedom);
    let shift = difference.abs() / (deviation * std::f64::consts::SQRT_2) * blocks.sqrt();
    // Ratio of the estimated standard deviation to the true one: chi-distributed, with its mode near 1.
    let width = 9.0 / freedom.sqrt();
    let (low, high) = ((1.0 - width).max(0.0), 1.0 + width);
    let (mut weights, mut found) = (0.0, 0.0);
    for step in 0..STEPS {
        let ratio = low + (high - low) * (f64::from(step) + 0.5) / f64::from(STEPS);
        let weight = ((freedom - 1.0) * ratio.ln() - freedom * (ratio * ratio - 1.0) / 2.0).exp();
        weights += weight;
        found += weight * normal::tail(critical * ratio - shift);
    }
    found / weights
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "conversion limits the number")]
fn rounded_up(blocks: f64) -> u32 {
    blocks.ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of blocks after which a `difference` is found with [`POWER`] if the comparison is evaluated once,
    /// or `None` if [`MAX_BLOCKS`] are too few. `deviation` is the known standard deviation of a store's instances, and
    /// `level` the two-sided significance level.
    fn blocks_needed(deviation: f64, difference: f64, level: f64) -> Option<u32> {
        let suffices = |blocks: u32| power(deviation, difference, level, blocks) >= POWER;
        if !suffices(MAX_BLOCKS) {
            return None;
        }
        let (mut too_few, mut enough) = (1, MAX_BLOCKS);
        while enough - too_few > 1 {
            let middle = u32::midpoint(too_few, enough);
            if suffices(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }

    /// Expected values were computed with the noncentral t distribution. The usual approximation,
    /// 2 (s/d)^2 (1.96 + 1.64)^2 + 2, gives 7, 12 and 22 for one pair; after 40 blocks the power for 36 pairs and
    /// s = 2.6% is 94.7%.
    #[test]
    fn a_difference_of_three_percent_needs_the_known_numbers_of_blocks() {
        for (pairs, expected) in [(1.0, [8, 12, 22]), (36.0, [14, 23, 41])] {
            let needed = [0.013, 0.0184, 0.026]
                .map(|deviation| blocks_needed(deviation, 0.03, LEVEL / pairs).unwrap());
            assert_eq!(needed, expected, "{pairs} pairs");
        }
        assert!((power(0.026, 0.03, LEVEL / 36.0, 40) - 0.947).abs() < 0.001);
        assert_eq!(blocks_needed(0.0184, 1e-4, LEVEL), None);
    }

    #[test]
    fn five_blocks_detect_a_difference_of_five_point_seven_percent() {
        let found = detectable(0.0184, 5, LEVEL);
        assert!((found - 0.057).abs() < 5e-4, "{found}");
        assert!(blocks_needed(0.0184, found + 1e-6, LEVEL) == Some(5));
    }

    /// Only what the stores of a block do not have in common is noise: their differences in the two common blocks are
    /// 7.98 and 8.02, which is a standard deviation of 0.02 sqrt(2) for the pair, and of 0.02 for each store.
    #[test]
    fn noise_is_what_the_stores_of_a_block_do_not_share() {
        let numbered = |values: &[f64]| -> BTreeMap<u32, f64> { (0..).zip(values.iter().copied()).collect() };
        let stores = [numbered(&[1.02, 5.00, 3.0]), numbered(&[9.00, 13.02])];
        let noise = Noise::of(&stores).unwrap();
        assert!((noise.deviation - 0.02).abs() < 1e-9, "{noise:?}");
        assert_eq!(noise.freedom, 1.0);
        assert!(Noise::of(&stores[..1]).is_none());
    }

    #[test]
    fn a_plan_from_an_estimate_is_longer_than_one_from_known_noise() {
        let margin = Margin::default();
        let [estimated, known] =
            [4.0, f64::INFINITY].map(|freedom| Noise { deviation: 0.0184, freedom }.blocks(margin, 2, 0));
        assert!(estimated > known && known > 12, "{estimated}, {known}");
        assert_eq!(Noise { deviation: 0.0, freedom: 4.0 }.blocks(margin, 2, 0), FIRST_LOOK);
    }
}
