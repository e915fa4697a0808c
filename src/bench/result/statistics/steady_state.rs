//! Start of the steady state of a series.

use super::{real, squares};

/// Minimum number of values for a steady state: with fewer, noise decides where it starts.
pub const FEWEST: usize = 10;

/// Returns the index of the first value of the steady state of `values`, which are means of equal times: the number of
/// values at the start without which the mean of the rest has the smallest standard error. At most half of the values
/// are left out; `None` if the smallest standard error needs all of these left out, so that no steady state was reached,
/// or if there are fewer than [`FEWEST`] values. (White, An Effective Truncation Heuristic for Bias Reduction in Simulation
/// Output, 1997: MSER.)
pub fn start(values: &[f64]) -> Option<usize> {
    let most = values.len() / 2;
    let error = |start: usize| {
        let rest = values.get(start..).unwrap_or_default();
        squares(rest) / real(rest.len()).powi(2)
    };
    let errors = (0..=most).map(|start| (start, error(start)));
    let (best, smallest) = errors.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_reached = best < most || smallest == error(0);
    (values.len() >= FEWEST && is_reached).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    fn noisy(level: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut random = SmallRng::seed_from_u64(3);
        (0..100).map(|step| level(f64::from(step)) + random.random_range(-1.0..1.0)).collect()
    }

    #[test]
    fn a_fast_start_is_left_out() {
        let values = noisy(|step| if step < 20.0 { 100.0 } else { 50.0 });
        let found = start(&values).unwrap();
        assert!((20..=24).contains(&found), "{found}");
    }

    #[test]
    fn a_series_that_always_falls_has_no_steady_state() {
        assert_eq!(start(&noisy(|step| 200.0 - step)), None);
    }

    #[test]
    fn a_constant_series_is_steady_from_its_start() {
        assert_eq!(start(&[5.0; 30]), Some(0));
        assert_eq!((start(&[5.0; 9]), start(&[])), (None, None));
        assert!(start(&noisy(|_| 50.0)).unwrap() < 50);
    }
}
