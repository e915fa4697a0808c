//! Trend of a series over time.

use super::{mean, real, squares, student};

/// Minimum number of values for a trend: with fewer, the test of its growth is too often wrong.
const FEWEST: usize = 10;

/// Largest correlation of neighbouring values that is assumed. The corrected estimate may exceed 1, for which an
/// autoregressive process has no variance.
const MAX_CORRELATION: f64 = 0.95;

/// Trend of a series of values at equal distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// One-sided p-value of growth: the probability that a series without a trend seems to grow at least as
    /// consistently. Student's test of the slope, with a correction for values that depend on the values before them.
    pub growth: f64,
    /// Slope of the line with the smallest squared distances from the values, per step.
    pub slope: f64,
}

impl Trend {
    /// Returns the trend of `values`; `None` if there are fewer than ten.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (count, level) = (real(values.len()), mean(values).filter(|_| values.len() >= FEWEST)?);
        let middle = (count - 1.0) / 2.0;
        let steps = || (0..values.len()).map(|place| real(place) - middle);
        let spread: f64 = steps().map(|step| step * step).sum();
        let slope = steps().zip(values).map(|(step, value)| step * value).sum::<f64>() / spread;
        let rest: Vec<f64> = steps().zip(values).map(|(step, value)| value - level - slope * step).collect();
        let error = (squares(&rest) / (count - 2.0) * dependence(&rest) / spread).sqrt();
        let both_sides = student::two_sided(slope / error, count - 2.0);
        let growth = if slope > 0.0 { both_sides / 2.0 } else { 1.0 - both_sides / 2.0 };
        Some(Self { growth, slope })
    }
}

/// Returns the factor, at least 1, by which the variance of the slope grows because neighbouring values are alike:
/// compactions and checkpoints may last longer than the time of one value. It is the factor by which dependent values
/// count for fewer independent ones (Yue and Wang, The Mann-Kendall Test Modified by Effective Sample Size, 2004). `rest`,
/// the values without their trend, are taken for an autoregressive process of first order, whose correlation a short
/// series underestimates, by 1/n each for the mean and for the line (Marriott and Pope, Bias in the Estimation of
/// Autocorrelations, 1954).
fn dependence(rest: &[f64]) -> f64 {
    let count = real(rest.len());
    let products: f64 = rest.iter().zip(rest.iter().skip(1)).map(|(one, next)| one * next).sum();
    let estimate = products / squares(rest);
    let correlation = (estimate + 2.0 / count) / (1.0 - 4.0 / count);
    if correlation.is_nan() || correlation <= 0.0 {
        return 1.0;
    }
    let correlation = correlation.min(MAX_CORRELATION);
    let (mut factor, mut power) = (1.0, 1.0);
    for distance in 1..rest.len() {
        power *= correlation;
        factor += 2.0 * (1.0 - real(distance) / count) * power;
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    /// 1, 3, 2, 4, 5, 7, 6, 8, 9, 10: the rest changes its sign at nearly each step, so no correction applies.
    #[test]
    fn slope_and_p_value_follow_the_definition() {
        let values = [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0, 9.0, 10.0];
        let trend = Trend::of(&values).unwrap();
        // Sums of squares: 82.5 of the steps and of the values, 80.5 of their products.
        let slope = 80.5 / 82.5;
        let t = slope / ((82.5 - 80.5 * slope) / 8.0 / 82.5_f64).sqrt();
        assert!((trend.slope - slope).abs() < 1e-12, "{trend:?}");
        assert!((trend.growth - student::two_sided(t, 8.0) / 2.0).abs() < 1e-12, "{trend:?}");
        assert!(trend.growth < 1e-6, "{trend:?}");
    }

    #[test]
    fn constant_and_falling_series_do_not_grow() {
        assert_eq!(Trend::of(&[5.0; 20]).unwrap(), Trend { growth: 0.5, slope: 0.0 });
        let falling: Vec<f64> = (0..20).rev().map(f64::from).collect();
        let trend = Trend::of(&falling).unwrap();
        assert!(trend.growth > 0.999 && (trend.slope + 1.0).abs() < 1e-12, "{trend:?}");
        assert_eq!(Trend::of(&[1.0; 9]), None);
    }

    /// Their rests are smooth, so neighbours are as alike as can be.
    #[test]
    fn growth_along_a_curve_is_found() {
        for (name, curve) in [
            ("line", &(|step| step) as &dyn Fn(f64) -> f64),
            ("square", &|step| step * step),
            ("square root", &f64::sqrt),
            ("doubling", &|step| (step / 20.0).exp2()),
            ("line with a bend", &|step| 1000.0 + 10.0 * step + 0.01 * step * step),
        ] {
            let values: Vec<f64> = (0..20).map(|step| curve(f64::from(step))).collect();
            let trend = Trend::of(&values).unwrap();
            // A quarter of 5%: Holm's smallest level of four backlogs.
            assert!(trend.growth < 0.0125, "{name}: {trend:?}");
        }
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
