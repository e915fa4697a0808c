//! What figures of a few repetitions allow to say, and how surely.
//!
//! Everything is done with logarithms: a ratio becomes a difference, and noise that multiplies becomes
//! noise that adds.

pub mod bootstrap;
pub mod holm;
pub mod student;

/// Mean of some numbers; `None` of none.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values))
}

/// Sum of the squared distances from the mean.
pub fn squares(values: &[f64]) -> f64 {
    let Some(mean) = mean(values) else { return 0.0 };
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[expect(clippy::cast_precision_loss, reason = "repetitions")]
fn count(values: &[f64]) -> f64 {
    values.len() as f64
}
