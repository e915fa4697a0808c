//! Trend of a series over time.

use super::{normal, real};

/// Minimum number of values for a trend, for which the normal approximation of the test is good (Kendall, Rank
/// Correlation Methods, 1975).
const FEWEST: usize = 10;

/// Trend of a series of values at equal distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// One-sided p-value of growth: the probability that a series without a trend seems to grow at least as
    /// consistently (Mann, Nonparametric Tests Against Trend, 1945, with Kendall's correction for ties).
    pub growth: f64,
    /// Median of the slopes between all pairs of values, per step (Sen, Estimates of the Regression Coefficient Based on
    /// Kendall's Tau, 1968).
    pub slope: f64,
}

impl Trend {
    /// Returns the trend of `values`, which must not depend on each other; `None` if there are fewer than ten.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < FEWEST {
            return None;
        }
        let mut slopes = Vec::new();
        let mut score = 0.0;
        for (place, first) in values.iter().enumerate() {
            for (distance, second) in values.iter().skip(place + 1).enumerate() {
                let difference = second - first;
                score += if difference == 0.0 { 0.0 } else { difference.signum() };
                slopes.push(difference / real(distance + 1));
            }
        }
        slopes.sort_by(f64::total_cmp);
        let slope = slopes.get(slopes.len() / 2).copied()?;
        let deviation = variance(values).sqrt();
        // One is subtracted because the score is a whole number, and the normal distribution is continuous.
        let growth = if deviation > 0.0 { normal::tail((score - 1.0) / deviation) } else { 1.0 };
        Some(Self { growth, slope })
    }
}

/// Returns the variance of the test's score without a trend, corrected for groups of equal values.
fn variance(values: &[f64]) -> f64 {
    let term = |count: usize| {
        let count = real(count);
        count * (count - 1.0) * (2.0 * count + 5.0)
    };
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|group| term(group.len())).sum();
    (term(values.len()) - ties) / 18.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    /// The values are in order but for two exchanges, so the score is 45 - 2 * 2.
    #[test]
    fn score_and_variance_follow_the_definition() {
        let values = [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0, 9.0, 10.0];
        assert_eq!(variance(&values), 125.0);
        let expected = normal::tail(40.0 / 125.0_f64.sqrt());
        let trend = Trend::of(&values).unwrap();
        assert!((trend.growth - expected).abs() < 1e-12 && expected < 0.001, "{trend:?}");
        assert!((trend.slope - 1.0).abs() < 1e-12, "{trend:?}");
        // Two pairs of equal values: each lowers the sum by 2 * 1 * 9.
        assert_eq!(variance(&[1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 8.0]), (2250.0 - 36.0) / 18.0);
    }

    #[test]
    fn constant_and_falling_series_do_not_grow() {
        assert_eq!(Trend::of(&[5.0; 20]).unwrap(), Trend { growth: 1.0, slope: 0.0 });
        let falling: Vec<f64> = (0..20).rev().map(f64::from).collect();
        let trend = Trend::of(&falling).unwrap();
        assert!(trend.growth > 0.999 && trend.slope == -1.0, "{trend:?}");
        assert_eq!(Trend::of(&[1.0; 9]), None);
    }

    /// About one in twenty series without a trend has a p-value below 5%.
    #[test]
    fn five_percent_of_series_without_a_trend_seem_to_grow() {
        let mut random = SmallRng::seed_from_u64(7);
        let mut grown = || {
            let values: Vec<f64> = (0..20).map(|_| random.random::<f64>()).collect();
            Trend::of(&values).unwrap().growth < 0.05
        };
        let found = (0..4000).filter(|_| grown()).count();
        assert!((140..=240).contains(&found), "{found} of 4000");
    }
}
