//! Correction for many comparisons on the same data.
//!
//! Holm's step-down procedure (A Simple Sequentially Rejective Multiple Test Procedure, 1979). It bounds the
//! probability of even one false positive, however the comparisons depend on each other. That is the right
//! criterion here, because one false positive fails a build; the procedure of Benjamini and Yekutieli bounds
//! only the share of false positives among all positives.

use super::real;

/// Returns the significance level of each comparison, in the order of `probabilities` (p-values): the comparison is
/// significant if its p-value is below it. `level` is the significance level for all comparisons together. All
/// comparisons after the first one that is not significant have the level of that one.
pub fn levels(probabilities: &[f64], level: f64) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = probabilities.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut levels = vec![level; probabilities.len()];
    let mut tested = order.len();
    for (place, probability) in order {
        let own = level / real(tested);
        if let Some(slot) = levels.get_mut(place) {
            *slot = own;
        }
        if probability < own && tested > 1 {
            tested -= 1;
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_levels(probabilities: &[f64], expected: &[f64]) {
        let found = levels(probabilities, 0.06);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{probabilities:?}: {found}");
        }
    }

    #[test]
    fn smallest_p_value_is_tested_against_all_comparisons_and_the_next_against_one_less() {
        assert_levels(&[0.029, 0.001, 0.5], &[0.03, 0.02, 0.06]);
    }

    #[test]
    fn no_comparison_is_significant_after_one_that_is_not() {
        // 0.025 would be below 0.03, the level of a second step.
        assert_levels(&[0.025, 0.021, 0.7], &[0.02, 0.02, 0.02]);
        assert_levels(&[], &[]);
    }
}
