//! Comparison of two stores from repetitions that were measured in pairs.
//!
//! Both measurements of a repetition met the same conditions of the machine, so the ratio within a pair has
//! less noise than the single values. Pairs are drawn with replacement, and the confidence interval of their
//! mean ratio is taken from the quantiles of many such draws (Efron and Tibshirani, An Introduction to the
//! Bootstrap, 1993). With few pairs that interval is too narrow; it is widened according to Student's
//! distribution (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, "expanded percentile"). A
//! bootstrap of five pairs cannot yield a probability below one in a few hundred, so the correction for many
//! comparisons uses the probability of the paired t-test.

use super::{mean, squares, student};
use crate::bench::result::spread::ENOUGH;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const RESAMPLES: usize = 4_000;

/// Relative difference up to which two stores count as equal, whatever their pairs show: the memory layout of
/// the program alone can change a metric by this much.
const ALIKE: f64 = 0.01;

/// Result of the comparison of two stores.
#[derive(Clone, Copy, Debug)]
pub struct Paired {
    /// Geometric mean of the ratios of the first value to the second.
    pub ratio: f64,
    /// 95% confidence interval of `ratio`.
    pub interval: (f64, f64),
    /// Probability of at least such a difference if both stores are equal: the p-value of the paired t-test.
    pub probability: f64,
}

impl Paired {
    /// Returns `true` if the confidence interval excludes all ratios that count as equal (`ALIKE`).
    pub fn differs(&self) -> bool {
        self.interval.0 > 1.0 + ALIKE || self.interval.1 < 1.0 / (1.0 + ALIKE)
    }
}

/// Compares the first values of `pairs` with the second; pairs with a value that is not positive are ignored.
/// Returns `None` with fewer than [`ENOUGH`] pairs.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Paired> {
    let positive = pairs.iter().filter(|(one, other)| *one > 0.0 && *other > 0.0);
    let logs: Vec<f64> = positive.map(|(one, other)| (one / other).ln()).collect();
    if logs.len() < ENOUGH {
        return None;
    }
    let (centre, pairs) = (mean(&logs)?, u32::try_from(logs.len()).ok()?);
    let freedom = f64::from(pairs) - 1.0;
    let error = (squares(&logs) / freedom / f64::from(pairs)).sqrt();
    // Pairs with exactly equal ratios come from a counter, not from a clock.
    let probability = if error > 0.0 { student::two_sided(centre / error, freedom) } else { 0.0 };
    let (low, high) = interval(&logs, freedom)?;
    Some(Paired { ratio: centre.exp(), interval: (low.exp(), high.exp()), probability })
}

/// Returns the 95% confidence interval of the mean of `logs`: the expanded percentile interval, widened to
/// that of Student's t if that one is wider. `freedom` is the number of values minus one.
fn interval(logs: &[f64], freedom: f64) -> Option<(f64, f64)> {
    let mut random = SmallRng::seed_from_u64(0);
    let mut means = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let drawn = (0..logs.len()).filter_map(|_| logs.get(random.random_range(0..logs.len())));
        means.push(drawn.sum::<f64>() / (freedom + 1.0));
    }
    means.sort_by(f64::total_cmp);
    let critical = student::critical(0.05, freedom);
    let wider = critical * ((freedom + 1.0) / freedom).sqrt();
    let tail = student::two_sided(wider, f64::INFINITY) / 2.0;
    let centre = mean(logs)?;
    let reach = critical * (squares(logs) / freedom / (freedom + 1.0)).sqrt();
    Some((quantile(&means, tail)?.min(centre - reach), quantile(&means, 1.0 - tail)?.max(centre + reach)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a small index"
)]
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((part * last as f64).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ones: &[f64], others: &[f64]) -> Vec<(f64, f64)> {
        ones.iter().copied().zip(others.iter().copied()).collect()
    }

    #[test]
    fn noise_that_both_share_hides_nothing() {
        let found = paired(&pairs(&[110.0, 220.0, 55.0, 165.0, 111.0], &[100.0, 200.0, 50.0, 150.0, 100.0]));
        let found = found.unwrap();
        assert!((found.ratio - 1.1).abs() < 0.01 && found.differs(), "{found:?}");
        assert!(found.probability < 1e-4, "{found:?}");
    }

    #[test]
    fn three_repetitions_that_disagree_tell_nothing() {
        let found = paired(&pairs(&[100.0, 130.0, 90.0], &[100.0, 100.0, 100.0])).unwrap();
        assert!(!found.differs() && found.probability > 0.2, "{found:?}");
    }

    #[test]
    fn a_difference_too_small_to_matter_is_none() {
        assert!(!paired(&pairs(&[1.005; 5], &[1.0; 5])).unwrap().differs());
    }

    #[test]
    fn two_pairs_are_too_few() {
        assert!(paired(&pairs(&[2.0, 2.0], &[1.0, 1.0])).is_none());
        assert!(paired(&pairs(&[0.0, 2.0, 2.0], &[1.0, 1.0, 1.0])).is_none());
    }

    /// 95% confidence intervals miss the true value about five times in a hundred.
    #[test]
    fn intervals_of_five_pairs_hold_what_they_promise() {
        let mut random = SmallRng::seed_from_u64(1);
        let mut missed = 0;
        for _ in 0..400 {
            let mut noisy = || 1.0 + 0.1 * (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 0.6;
            let drawn: Vec<_> = (0..5).map(|_| (noisy(), noisy())).collect();
            let (low, high) = paired(&drawn).unwrap().interval;
            missed += usize::from(low > 1.0 || high < 1.0);
        }
        assert!((4..=28).contains(&missed), "{missed} of 400");
    }
}
