//! Margin of a comparison: the relative difference below which two stores count as equal.

use super::student;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Relative difference below which two stores count as equal, as a fraction: with 0.03, ratios from 1/1.03 to 1.03.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Margin(f64);

impl Margin {
    /// Returns the margin for a `fraction`, or `None` if it is not above 0 and at most 1.
    pub fn new(fraction: f64) -> Option<Self> {
        (fraction > 0.0 && fraction <= 1.0).then_some(Self(fraction))
    }

    /// Returns the smallest of several margins, or the default margin if there is none.
    pub fn narrowest(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default()
    }

    /// Returns the margin as a fraction.
    pub fn fraction(self) -> f64 {
        self.0
    }

    /// Returns the natural logarithm of the largest ratio that counts as equal.
    pub fn logarithm(self) -> f64 {
        self.0.ln_1p()
    }

    /// Returns the one-sided p-value of equality: the probability of a `mean` so near to 0, or nearer, if its true value
    /// were at the margin. `mean` is the estimated logarithm of a ratio, `error` its standard error with `freedom` degrees
    /// of freedom. This is the larger one of two one-sided tests.
    pub fn equality(self, mean: f64, error: f64, freedom: f64) -> f64 {
        let distance = self.logarithm() - mean.abs();
        let beyond = student::two_sided(distance / error, freedom) / 2.0;
        if distance > 0.0 { beyond } else { 1.0 - beyond }
    }
}

impl Default for Margin {
    /// Returns the default margin: 3%.
    fn default() -> Self {
        Self(0.03)
    }
}

impl fmt::Display for Margin {
    /// Writes the margin in percent: "3%".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", (self.0 * 1e4).round() / 1e2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mean that lies 2.132 standard errors inside the margin has the p-value 0.05 with 4 degrees of freedom
    /// (Abramowitz and Stegun, 26.10).
    #[test]
    fn equality_is_shown_by_the_distance_from_the_margin() {
        let margin = Margin::default();
        let error = 0.005;
        let near = margin.logarithm() - 2.132 * error;
        for mean in [near, -near] {
            assert!((margin.equality(mean, error, 4.0) - 0.05).abs() < 1e-4);
        }
        assert!((margin.equality(margin.logarithm(), error, 4.0) - 0.5).abs() < 1e-9);
        assert!(margin.equality(0.05, error, 4.0) > 0.98);
        assert!(margin.equality(0.0, 0.0, 4.0) < 1e-9);
    }

    #[test]
    fn margins_are_positive_fractions_and_shown_in_percent() {
        assert_eq!(Margin::default().to_string(), "3%");
        assert_eq!(Margin::new(0.005).unwrap().to_string(), "0.5%");
        for wrong in [0.0, -0.1, 1.01, f64::NAN] {
            assert_eq!(Margin::new(wrong), None);
        }
    }
}
