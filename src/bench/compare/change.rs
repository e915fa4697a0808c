//! Something that may have changed between two runs: a store at a level, or one cell; and how surely it has.

use super::paired_samples::{Logs, Series};
use crate::bench::result::statistics::{mean, student};

/// Repetitions of one run are not independent: what the machine does beside lasts for several of them.
/// Their mean is taken to vary as that of half as many.
const DEPENDENCE: f64 = 2.0;

/// What repetitions within one run cannot show: how much one run differs from the next of the same build
/// on an idle machine, as a standard deviation of the logarithm.
#[derive(Clone, Copy, Debug)]
pub struct BetweenRuns {
    /// Of a store beside the others.
    pub store: f64,
    /// Of the whole machine.
    pub machine: f64,
    /// Of a cell beside the others.
    pub cell: f64,
}

/// Logarithms of both runs.
#[derive(Clone, Debug)]
pub struct Part {
    /// The first run's, and the second's.
    pub logs: [Logs; 2],
}

/// How surely a part has changed.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Logarithm of the second by the first.
    pub shift: f64,
    /// Its variance from what happens within runs.
    within: f64,
    /// Degrees of freedom of that.
    freedom: f64,
    /// Its variance from what differs between runs.
    between: f64,
    /// All that was too little by this factor, as a standard deviation.
    widened: f64,
}

impl Part {
    /// The mean of several cells. The calm ones count more: each by the inverse of its variance. Only the
    /// repetitions that all of them have count.
    pub fn of(series: &[&Series], least: f64) -> Self {
        let weights: Vec<f64> = series.iter().map(|one| 1.0 / (noise(one) + least * least)).collect();
        let all: f64 = weights.iter().sum();
        let logs = [0, 1].map(|run| {
            let of = |one: &Series| one.logs.get(run).cloned().unwrap_or_default();
            let Some(first) = series.first() else { return Logs::new() };
            let repetitions = of(first).into_keys();
            let sum = |repetition: u32| {
                let values = series.iter().map(|one| one.logs.get(run)?.get(&repetition).copied());
                let weighted = values.zip(&weights).map(|(value, weight)| Some(value? * weight));
                Some((repetition, weighted.sum::<Option<f64>>()? / all))
            };
            repetitions.filter_map(sum).collect()
        });
        Self { logs }
    }

    /// In each repetition the middle of several, each without its mean.
    pub fn middle(parts: &[&Self]) -> Self {
        let logs = [0, 1].map(|run| {
            let residuals: Vec<_> = parts.iter().map(|part| part.residuals(run)).collect();
            let repetitions = residuals.iter().flat_map(Logs::keys);
            let middle = |repetition: &u32| {
                let values = residuals.iter().filter_map(|one| one.get(repetition).copied());
                Some((*repetition, median(values.collect())?))
            };
            repetitions.filter_map(middle).collect()
        });
        Self { logs }
    }

    /// The second run's mean less the first's.
    pub fn shift(&self) -> f64 {
        let [first, second] = self.logs.each_ref().map(level);
        second - first
    }

    /// What is left of the logarithms of a run without its mean.
    pub fn residuals(&self, run: usize) -> Logs {
        let Some(logs) = self.logs.get(run) else { return Logs::new() };
        let level = level(logs);
        logs.iter().map(|(repetition, value)| (*repetition, value - level)).collect()
    }

    /// Repetitions of the run that has fewer.
    pub fn repetitions(&self) -> usize {
        self.logs.iter().map(Logs::len).min().unwrap_or(0)
    }

    /// The change of this part beyond what `others` have in common; of none, all of its change.
    pub fn beside(&self, others: &[&Self], between: f64) -> Change {
        let common = |run: usize, repetition: &u32| {
            let values = others.iter().filter_map(|part| part.residuals(run).get(repetition).copied());
            median(values.collect()).unwrap_or(0.0)
        };
        let own = [0, 1].map(|run| {
            let residuals = self.residuals(run).into_iter();
            residuals.map(|(repetition, value)| value - common(run, &repetition)).collect::<Vec<f64>>()
        });
        Change::new(self.shift(), &own, between)
    }
}

impl Change {
    /// From the noise of both runs, and how much a run differs from the next.
    fn new(shift: f64, residuals: &[Vec<f64>; 2], between: f64) -> Self {
        let counts = residuals.each_ref().map(|values| count(values.len()).max(1.0));
        let freedom = (counts.iter().sum::<f64>() - 2.0).max(1.0);
        let variance = residuals.iter().flatten().map(|value| value * value).sum::<f64>() / freedom;
        let within = DEPENDENCE * variance * counts.iter().map(|count| 1.0 / count).sum::<f64>();
        Self { shift, within, freedom, between: 2.0 * between * between, widened: 1.0 }
    }

    /// The mean of the changes of one store at several levels. What its runs differ by is the same at all.
    pub fn joined(changes: &[Self]) -> Option<Self> {
        let all = count(changes.len());
        let within: f64 = changes.iter().map(|one| one.within).sum();
        let squares: f64 = changes.iter().map(|one| one.within * one.within / one.freedom).sum();
        Some(Self {
            shift: mean(&changes.iter().map(|one| one.shift).collect::<Vec<_>>())?,
            within: within / (all * all),
            freedom: if squares > 0.0 { within * within / squares } else { 1.0 },
            between: changes.iter().map(|one| one.between).fold(0.0, f64::max),
            widened: changes.iter().map(|one| one.widened).fold(1.0, f64::max),
        })
    }

    /// The same change beside a shift of all.
    pub fn less(self, common: f64) -> Self {
        Self { shift: self.shift - common, ..self }
    }

    /// The same with errors that were too small by a factor.
    pub fn widen(&mut self, factor: f64) {
        self.widened *= factor;
    }

    /// Standard error of the shift.
    pub fn error(&self) -> f64 {
        self.widened * (self.within + self.between).sqrt()
    }

    /// Degrees of freedom of the error (Satterthwaite): only what is estimated from repetitions costs any.
    pub fn freedom(&self) -> f64 {
        let all = self.within + self.between;
        if self.within > 0.0 { self.freedom * (all / self.within).powi(2) } else { f64::INFINITY }
    }

    /// How often chance alone makes such a change.
    pub fn probability(&self) -> f64 {
        let error = self.error();
        if error > 0.0 { student::two_sided(self.shift / error, self.freedom()) } else { 1.0 }
    }

    /// The shift that chance alone exceeds with a probability.
    pub fn reach(&self, probability: f64) -> f64 {
        student::critical(probability, self.freedom()) * self.error()
    }

    /// Where the ratio is with 95% confidence.
    pub fn interval(&self) -> (f64, f64) {
        let reach = self.reach(0.05);
        ((self.shift - reach).exp(), (self.shift + reach).exp())
    }
}

/// The middle of the shifts, by which most have changed. Of an even number the one nearer to no change,
/// so that of two stores one that lost is not taken for one that won.
pub fn common_shift(mut shifts: Vec<f64>) -> f64 {
    shifts.sort_by(f64::total_cmp);
    let upper = shifts.get(shifts.len() / 2).copied().unwrap_or(0.0);
    let lower = match shifts.len() % 2 {
        0 => shifts.get((shifts.len() / 2).wrapping_sub(1)).copied().unwrap_or(0.0),
        _ => upper,
    };
    if lower.abs() < upper.abs() { lower } else { upper }
}

/// Variance of a cell from repetition to repetition, over both runs.
fn noise(series: &Series) -> f64 {
    let part = Part { logs: series.logs.clone() };
    let residuals: Vec<f64> = [0, 1].into_iter().flat_map(|run| part.residuals(run).into_values()).collect();
    let freedom = (count(residuals.len()) - 2.0).max(1.0);
    residuals.iter().map(|value| value * value).sum::<f64>() / freedom
}

fn level(logs: &Logs) -> f64 {
    mean(&logs.values().copied().collect::<Vec<_>>()).unwrap_or(0.0)
}

/// The middle value; `None` of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    crate::bench::result::spread::median_of_sorted(&values)
}

#[expect(clippy::cast_precision_loss, reason = "repetitions")]
fn count(values: usize) -> f64 {
    values as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: &[f64], second: &[f64]) -> Part {
        Part { logs: [first, second].map(|values| (0..).zip(values.iter().copied()).collect()) }
    }

    #[test]
    fn of_two_the_one_that_moved_is_not_what_they_share() {
        assert_eq!(common_shift(vec![-0.2, 0.01]), 0.01);
        assert_eq!(common_shift(vec![-0.2, 0.01, 0.02]), 0.01);
        assert_eq!(common_shift(vec![]), 0.0);
    }

    #[test]
    fn what_all_have_in_common_is_no_noise_of_one() {
        let (one, other) =
            (part(&[0.0, 0.3, -0.3], &[0.1, 0.2, 0.3]), part(&[1.0, 1.3, 0.7], &[1.1, 1.2, 1.3]));
        assert!(one.beside(&[&other], 0.01).error() < 0.016);
        assert!(one.beside(&[], 0.01).error() > 0.2);
    }

    #[test]
    fn repetitions_without_noise_leave_what_is_between_runs() {
        let change = part(&[0.0; 5], &[-0.1; 5]).beside(&[], 0.02);
        assert!((change.error() - 0.02 * 2.0f64.sqrt()).abs() < 1e-12, "{change:?}");
        assert!(change.probability() < 0.001 && change.interval().1 < 1.0, "{change:?}");
    }
}
