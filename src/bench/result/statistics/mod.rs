//! Statistics for metrics of a few repetitions: confidence intervals, tests and corrections.
//!
//! All calculations use logarithms: a ratio becomes a difference, and multiplicative noise becomes additive.
//!
//! Stores are compared by [`pairwise::Pairwise`]. Repetitions whose number was fixed beforehand are evaluated once
//! ([`looks::Looks::once`]). A comparison that ends as soon as it is decided measures [`looks::FIRST_LOOK`] blocks,
//! estimates their noise ([`sample_size::Noise`]), plans its looks ([`looks::Looks::sized`]) and evaluates all blocks at each
//! of them.

pub mod holm;
pub mod looks;
pub mod margin;
pub mod normal;
pub mod pairwise;
pub mod sample_size;
#[cfg(test)]
mod simulation_tests;
pub mod steady_state;
pub mod student;
pub mod trend;
pub mod verdict;

/// Standard deviation, between runs of one build on one machine, of the logarithm of a speed or a latency of all stores
/// together: the machine has states that last for hours. Source: docs/reference/between-runs.csv, six runs on two days
/// (`benches/between_runs.py`): 0.16 to 0.19.
pub const BETWEEN_RUNS: f64 = 0.18;
/// Standard deviation, between runs of one build, of the logarithm of a size or a count, which hardly depends on the
/// machine's state.
pub const BETWEEN_RUNS_OF_SIZES: f64 = 0.02;

/// Returns the arithmetic mean, or `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values))
}

/// Returns the sum of the squared deviations of `values` from their mean; 0 without values.
pub fn squares(values: &[f64]) -> f64 {
    let Some(mean) = mean(values) else { return 0.0 };
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

fn count(values: &[f64]) -> f64 {
    real(values.len())
}

/// Converts a number of values to `f64`.
#[expect(clippy::cast_precision_loss, reason = "a number of values")]
pub fn real(count: usize) -> f64 {
    count as f64
}
