//! Margin of a comparison: the relative difference below which two stores count as equal.

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

    /// Returns the natural logarithm of the largest ratio that counts as equal.
    pub fn logarithm(self) -> f64 {
        self.0.ln_1p()
    }
}

impl Default for Margin {
    /// Returns 3%.
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

    #[test]
    fn margins_are_positive_fractions_and_shown_in_percent() {
        assert_eq!(Margin::default().to_string(), "3%");
        assert_eq!(Margin::new(0.005).unwrap().to_string(), "0.5%");
        for wrong in [0.0, -0.1, 1.01, f64::NAN] {
            assert_eq!(Margin::new(wrong), None);
        }
    }
}
