//! Estimated change of one metric between two benchmark runs, with its standard error: of a store at one level, or
//! of one cell.

use super::paired_samples::{Logs, Series};
use crate::bench::result::statistics::{margin::Margin, mean, student};

/// Factor by which the variance of a mean grows because repetitions of one run are not independent: a disturbance
/// of the machine lasts for several of them. The mean of n repetitions is taken to vary as the mean of n / 2
/// independent ones.
const DEPENDENCE: f64 = 2.0;

/// Variation between two runs of the same build on an idle machine, which repetitions within one run cannot show.
/// Each value is a standard deviation of the logarithm of the metric.
#[derive(Clone, Copy, Debug)]
pub struct BetweenRuns {
    /// Standard deviation, between runs of one build, of the logarithm of a store's metric relative to the other
    /// stores.
    pub store: f64,
    /// Standard deviation, between runs of one build, of the logarithm of a metric of all stores together.
    pub machine: f64,
    /// Standard deviation, between runs of one build, of the logarithm of a cell's metric relative to the other cells.
    pub cell: f64,
}

/// Natural logarithms of a metric of one store or cell in both runs, by repetition.
#[derive(Clone, Debug)]
pub struct Part {
    /// Natural logarithms of the metric in the first and in the second run, by repetition.
    pub logs: [Logs; 2],
}

/// Change of a metric from the first run to the second, with its standard error.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Natural logarithm of the ratio of the metric in the second run to that in the first.
    pub shift: f64,
    /// Variance of `shift` that noise between the repetitions of a run causes.
    within: f64,
    /// Degrees of freedom of `within`, the variance that is estimated from the repetitions of both runs.
    freedom: f64,
    /// Variance of `shift` that differences between runs of one build cause.
    between: f64,
    /// Factor by which the standard error of the change is multiplied to correct it; 1 without a correction.
    widened: f64,
}

impl Part {
    /// Returns the weighted mean of the logarithms of several cells by repetition. The weight of a cell is 1 divided by
    /// the sum of its variance and `least` squared, so that cells with little noise count more. In a repetition that
    /// some of the cells lack, the others deviate from their own means as they do; the cells' means count in all.
    pub fn of(series: &[&Series], least: f64) -> Self {
        let weights: Vec<f64> = series.iter().map(|one| 1.0 / (noise(one) + least * least)).collect();
        let logs = [0, 1].map(|run| {
            let logs = series.iter().filter_map(|one| one.logs.get(run));
            let cells: Vec<(f64, Logs)> = logs.map(|logs| (level(logs), residuals(logs))).collect();
            let mean = |value: &dyn Fn(&(f64, Logs)) -> Option<f64>| {
                let values =
                    cells.iter().zip(&weights).filter_map(|(cell, weight)| Some((value(cell)?, weight)));
                let (sum, all) = values
                    .fold((0.0, 0.0), |(sum, all), (value, weight)| (sum + value * weight, all + weight));
                sum / all
            };
            let mean_level = mean(&|(level, _)| Some(*level));
            let deviation = |repetition: &u32| mean(&|(_, deviations)| deviations.get(repetition).copied());
            let repetitions = cells.iter().flat_map(|(_, deviations)| deviations.keys());
            let deviations = repetitions.map(|repetition| (*repetition, deviation(repetition))).collect();
            residuals(&deviations)
                .into_iter()
                .map(|(repetition, value)| (repetition, mean_level + value))
                .collect()
        });
        Self { logs }
    }

    /// Returns, for each repetition in each run, the median over `parts` of the logarithm less the part's mean in that
    /// run.
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

    /// Returns the mean logarithm of the second run minus that of the first, which is the logarithm of their ratio.
    pub fn shift(&self) -> f64 {
        let [first, second] = self.logs.each_ref().map(level);
        second - first
    }

    /// Returns the logarithms of run `run` (0: the first, 1: the second) minus their mean, by repetition.
    pub fn residuals(&self, run: usize) -> Logs {
        self.logs.get(run).map(residuals).unwrap_or_default()
    }

    /// Returns the number of repetitions in the run that has fewer of them.
    pub fn repetitions(&self) -> usize {
        self.logs.iter().map(Logs::len).min().unwrap_or(0)
    }

    /// Returns the change of this store or cell from the first run to the second. Its noise excludes what it shares
    /// with `others`: from each residual, the median residual of `others` in that repetition is subtracted. `between`
    /// is the standard deviation between runs.
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
    /// Creates a change by `shift`. Its standard error follows from the residuals of both runs and from the standard
    /// deviation `between` runs.
    fn new(shift: f64, residuals: &[Vec<f64>; 2], between: f64) -> Self {
        let counts = residuals.each_ref().map(|values| count(values.len()).max(1.0));
        let freedom = (counts.iter().sum::<f64>() - 2.0).max(1.0);
        let variance = residuals.iter().flatten().map(|value| value * value).sum::<f64>() / freedom;
        let within = DEPENDENCE * variance * counts.iter().map(|count| 1.0 / count).sum::<f64>();
        Self { shift, within, freedom, between: 2.0 * between * between, widened: 1.0 }
    }

    /// Returns the mean of the changes of one store at several levels (access, commit path, fsync policy), or `None` if
    /// there are none. The variance between runs is not reduced, because it affects all levels alike.
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

    /// Returns the change without the shift `common` (a logarithm of a ratio) that all stores share.
    pub fn less(self, common: f64) -> Self {
        Self { shift: self.shift - common, ..self }
    }

    /// Multiplies the standard error of the change by `factor`.
    pub fn widen(&mut self, factor: f64) {
        self.widened *= factor;
    }

    /// Returns the standard error of the change, which is a logarithm of a ratio.
    pub fn error(&self) -> f64 {
        self.widened * (self.within + self.between).sqrt()
    }

    /// Returns the degrees of freedom of the standard error (Satterthwaite). Only the part that is estimated from
    /// repetitions limits them; infinite if that part is 0.
    pub fn freedom(&self) -> f64 {
        let all = self.within + self.between;
        if self.within > 0.0 { self.freedom * (all / self.within).powi(2) } else { f64::INFINITY }
    }

    /// Returns the probability that chance alone causes a change at least as large as this one (two-sided p-value).
    pub fn probability(&self) -> f64 {
        let error = self.error();
        if error > 0.0 { student::two_sided(self.shift / error, self.freedom()) } else { 1.0 }
    }

    /// Returns the p-value of the test that the change is smaller than `margin`.
    pub fn equality(&self, margin: Margin) -> f64 {
        margin.equality(self.shift, self.error(), self.freedom())
    }

    /// Returns the absolute shift (a logarithm of a ratio) that chance alone exceeds with the given `probability`.
    pub fn reach(&self, probability: f64) -> f64 {
        student::critical(probability, self.freedom()) * self.error()
    }

    /// Returns the 95% confidence interval of the ratio of the metric in the second run to that in the first, not
    /// corrected for the number of tested changes.
    pub fn interval(&self) -> (f64, f64) {
        let reach = self.reach(0.05);
        ((self.shift - reach).exp(), (self.shift + reach).exp())
    }
}

/// Returns the median of the stores' shifts (logarithms of ratios), as the shift that most stores share; 0 if there are
/// none. Of an even number it is the middle value nearer to 0, so that if one of two stores became slower, the other is
/// not reported as faster.
pub fn common_shift(mut shifts: Vec<f64>) -> f64 {
    shifts.sort_by(f64::total_cmp);
    let upper = shifts.get(shifts.len() / 2).copied().unwrap_or(0.0);
    let lower = match shifts.len() % 2 {
        0 => shifts.get((shifts.len() / 2).wrapping_sub(1)).copied().unwrap_or(0.0),
        _ => upper,
    };
    if lower.abs() < upper.abs() { lower } else { upper }
}

/// Returns `logs` minus their mean, by repetition.
fn residuals(logs: &Logs) -> Logs {
    let level = level(logs);
    logs.iter().map(|(repetition, value)| (*repetition, value - level)).collect()
}

/// Returns the variance of the logarithm of a cell's metric between the repetitions of a run, from both runs.
fn noise(series: &Series) -> f64 {
    let part = Part { logs: series.logs.clone() };
    let residuals: Vec<f64> = [0, 1].into_iter().flat_map(|run| part.residuals(run).into_values()).collect();
    let freedom = (count(residuals.len()) - 2.0).max(1.0);
    residuals.iter().map(|value| value * value).sum::<f64>() / freedom
}

fn level(logs: &Logs) -> f64 {
    mean(&logs.values().copied().collect::<Vec<_>>()).unwrap_or(0.0)
}

/// Returns the median of `values`, or `None` if there are none.
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
    use crate::bench::{
        compare::paired_samples::ComparedMetric,
        result::{Access, Commits, comparability::Level},
    };

    fn part(first: &[f64], second: &[f64]) -> Part {
        Part { logs: [first, second].map(|values| (0..).zip(values.iter().copied()).collect()) }
    }

    #[test]
    fn common_shift_of_two_stores_is_the_smaller_one() {
        assert_eq!(common_shift(vec![-0.2, 0.01]), 0.01);
        assert_eq!(common_shift(vec![-0.2, 0.01, 0.02]), 0.01);
        assert_eq!(common_shift(vec![]), 0.0);
    }

    /// A cell is left out of a repetition that other programs disturbed. Only its own deviation is missing then: the
    /// store keeps all its repetitions, and cells of different speed make no shift.
    #[test]
    fn a_store_keeps_repetitions_that_some_of_its_cells_lack() {
        let series = |first: [f64; 4], lacks: u32| {
            let mut part = part(&first, &first);
            part.logs[0].remove(&lacks);
            Series {
                id: String::new(),
                store: "lmdb".to_owned(),
                level: Level {
                    access: Access::InProcess,
                    commits: Commits::Own,
                    durability: None,
                    may_lose: None,
                },
                reference: false,
                metric: ComparedMetric::Speed,
                medians: [0.0; 2],
                logs: part.logs,
                group_size: 1,
            }
        };
        let [slow, fast] = [series([1.0; 4], 0), series([9.0; 4], 3)];
        let part = Part::of(&[&slow, &fast], 0.01);
        assert_eq!(part.logs[0], (0..4).map(|repetition| (repetition, 5.0)).collect());
        assert_eq!((part.repetitions(), part.shift()), (4, 0.0));
        let noisy = series([1.0, 1.2, 0.8, 1.0], 0);
        assert_eq!(Part::of(&[&noisy], 0.01).logs[0].len(), 3);
    }

    #[test]
    fn shared_noise_does_not_count_for_one_store() {
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
