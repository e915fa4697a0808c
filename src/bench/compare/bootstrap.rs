//! How sure a ratio of two medians is, from the repetitions alone.
//!
//! The percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13),
//! as Kalibera and Jones advise for comparing benchmarks (Quantifying Performance Changes with Effect
//! Size Confidence Intervals, University of Kent, 2012): draw as many repetitions as there are from each
//! side, with replacement, take the ratio of their medians, do so many times, and cut 2.5% off both ends.
//! It assumes no distribution, which suits figures with a long tail. With three repetitions the interval
//! is nearly the smallest by the largest to the largest by the smallest, so it errs on the side of
//! "no change".

use crate::bench::result::spread::median_of_sorted;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const RESAMPLES: usize = 10_000;

/// Part that is cut off each end.
const TAIL: f64 = 0.025;

/// A ratio of medians.
pub struct Ratio {
    /// Median of the first.
    pub first: f64,
    /// Median of the second.
    pub second: f64,
    /// Second by first.
    pub ratio: f64,
    /// Where it is with 95% confidence.
    pub interval: (f64, f64),
}

/// The ratio of the medians of `second` and `first`; `None` where one has none, or one that is not
/// positive. The same samples always give the same interval.
pub fn ratio_of_medians(first: &[f64], second: &[f64]) -> Option<Ratio> {
    // Sorted, so that the order of the repetitions makes no difference to what is drawn.
    let (first, second) = (sorted(first), sorted(second));
    let mut random = SmallRng::seed_from_u64(0);
    let medians = (median_of_sorted(&first)?, median_of_sorted(&second)?);
    if medians.0 <= 0.0 || medians.1 <= 0.0 {
        return None;
    }
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        ratios.push(drawn_median(&second, &mut random)? / drawn_median(&first, &mut random)?);
    }
    ratios.sort_by(f64::total_cmp);
    let interval = (quantile(&ratios, TAIL)?, quantile(&ratios, 1.0 - TAIL)?);
    Some(Ratio { first: medians.0, second: medians.1, ratio: medians.1 / medians.0, interval })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

fn drawn_median(sorted_values: &[f64], random: &mut SmallRng) -> Option<f64> {
    let mut drawn = Vec::with_capacity(sorted_values.len());
    for _ in 0..sorted_values.len() {
        drawn.push(*sorted_values.get(random.random_range(0..sorted_values.len()))?);
    }
    drawn.sort_by(f64::total_cmp);
    median_of_sorted(&drawn)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a small index"
)]
fn quantile(sorted_values: &[f64], part: f64) -> Option<f64> {
    let last = sorted_values.len().checked_sub(1)?;
    sorted_values.get((part * last as f64).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_repetitions_give_nearly_the_range() {
        let found = ratio_of_medians(&[100.0, 101.0, 102.0], &[90.0, 91.0, 92.0]).unwrap();
        assert_eq!(found.ratio, 91.0 / 101.0);
        assert_eq!(found.interval, (90.0 / 102.0, 92.0 / 100.0));
    }

    #[test]
    fn one_outlier_of_many_does_not_widen_it() {
        let calm: Vec<f64> = (0..15).map(|number| 100.0 + f64::from(number) / 10.0).collect();
        let mut shaken = calm.clone();
        shaken[0] = 10.0;
        let found = ratio_of_medians(&calm, &shaken).unwrap();
        assert!(found.interval.0 > 0.98 && found.interval.1 < 1.02, "{:?}", found.interval);
    }

    #[test]
    fn the_order_of_repetitions_is_of_no_account() {
        let one = ratio_of_medians(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0]).unwrap();
        let other = ratio_of_medians(&[4.0, 2.0, 1.0, 3.0], &[7.0, 5.0, 6.0]).unwrap();
        assert_eq!(one.interval, other.interval);
    }

    #[test]
    fn nothing_and_zero_have_no_ratio() {
        assert!(ratio_of_medians(&[], &[1.0]).is_none());
        assert!(ratio_of_medians(&[0.0], &[1.0]).is_none());
    }
}
