//! Trend of a series over time.

use super::{mean, normal, real};

/// Minimum number of values for a trend, for which the normal approximation of the test is good (Kendall, Rank
/// Correlation Methods, 1975).
const FEWEST: usize = 10;

/// Trend of a series of values at equal distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// One-sided p-value of growth: the probability that a series without a trend seems to grow at least as
    /// consistently (Mann, Nonparametric Tests Against Trend, 1945, with Kendall's correction for ties, and with that of
    /// Yue and Wang for values that depend on the values before them).
    pub growth: f64,
    /// Median of the slopes between all pairs of values, per step (Sen, Estimates of the Regression Coefficient Based on
    /// Kendall's Tau, 1968).
    pub slope: f64,
}

impl Trend {
    /// Returns the trend of `values`; `None` if there are fewer than ten.
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
        let deviation = (variance(values) * dependence(values, slope)).sqrt();
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

/// Returns the factor, at least 1, by which the variance of the test's score grows because neighbouring values are alike:
/// compactions and checkpoints may last longer than the time of one value (Yue and Wang, The Mann-Kendall Test Modified
/// by Effective Sample Size, 2004). The values without their trend of `slope` per step are taken for an autoregressive
/// process of first order, whose correlation a short series underestimates (Marriott and Pope, Bias in the Estimation of
/// Autocorrelations, 1954).
fn dependence(values: &[f64], slope: f64) -> f64 {
    let count = real(values.len());
    let without_trend: Vec<f64> =
        values.iter().enumerate().map(|(place, value)| value - slope * real(place)).collect();
    let level = mean(&without_trend).unwrap_or(0.0);
    let rest: Vec<f64> = without_trend.iter().map(|value| value - level).collect();
    let products: f64 = rest.iter().zip(rest.iter().skip(1)).map(|(one, next)| one * next).sum();
    let estimate = products / rest.iter().map(|value| value * value).sum::<f64>();
    if estimate.is_nan() || estimate <= 0.0 {
        return 1.0;
    }
    let correlation = ((estimate + 1.0 / count) / (1.0 - 4.0 / count)).min(0.95);
    let (mut factor, mut power) = (1.0, 1.0);
    for distance in 1..values.len() {
        power *= correlation;
        factor += 2.0 * (1.0 - real(distance) / count) * power;
    }
    factor
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
        // What is left without the trend changes its sign at each step, so no correction applies.
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

    /// About one in twenty series without a trend has a p-value below 5%. Where each value is like the one before it, it
    /// is not more than one in ten; without the correction it would be one in five.
    #[test]
    fn few_series_without_a_trend_seem_to_grow() {
        let mut random = SmallRng::seed_from_u64(7);
        for (correlation, expected) in [(0.0, 140..=240), (0.3, 120..=320), (0.6, 160..=400)] {
            let mut grown = || {
                let mut value = 0.0;
                let mut next = || {
                    value = correlation * value + random.random::<f64>() - 0.5;
                    value
                };
                let values: Vec<f64> = (0..40).map(|_| next()).skip(20).collect();
                Trend::of(&values).unwrap().growth < 0.05
            };
            let found = (0..4000).filter(|_| grown()).count();
            assert!(expected.contains(&found), "correlation {correlation}: {found} of 4000");
        }
    }

    /// A growth by three standard deviations is found in nearly all series.
    #[test]
    fn growth_is_found_in_noise() {
        let mut random = SmallRng::seed_from_u64(8);
        let mut found = 0;
        for _ in 0..1000 {
            let value = |place: u32| f64::from(place) / 20.0 * 3.0 + random.random::<f64>() * 12.0_f64.sqrt();
            let values: Vec<f64> = (0..20).map(value).collect();
            found += u32::from(Trend::of(&values).unwrap().growth < 0.05);
        }
        assert!(found > 880, "{found} of 1000");
    }
}
