//! Correction of probabilities for many comparisons on the same data.
//!
//! Holm's step-down procedure (A Simple Sequentially Rejective Multiple Test Procedure, 1979). It bounds the
//! probability of even one false positive, however the comparisons depend on each other. That is the right
//! criterion here, because one false positive fails a build; the procedure of Benjamini and Yekutieli bounds
//! only the share of false positives among all positives.

/// Returns the adjusted p-value of each comparison, in the order of `probabilities`: the smallest
/// significance level for all comparisons together at which this one is significant.
pub fn adjusted(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    let of = |place: usize| probabilities.get(place).copied().unwrap_or(1.0);
    order.sort_by(|a, b| of(*a).total_cmp(&of(*b)));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut largest: f64 = 0.0;
    for (rank, place) in order.iter().enumerate() {
        largest = largest.max(of(*place) * left(order.len() - rank)).min(1.0);
        if let Some(slot) = adjusted.get_mut(*place) {
            *slot = largest;
        }
    }
    adjusted
}

#[expect(clippy::cast_precision_loss, reason = "a number of questions")]
fn left(questions: usize) -> f64 {
    questions as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarest_pays_for_all_and_the_next_for_one_less() {
        let found = adjusted(&[0.02, 0.001, 0.5]);
        for (found, expected) in found.iter().zip([0.04, 0.003, 0.5]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
    }

    #[test]
    fn no_question_is_easier_than_a_rarer_one() {
        assert_eq!(adjusted(&[0.03, 0.02]), [0.04, 0.04]);
        assert_eq!(adjusted(&[]), [0.0; 0]);
    }
}
