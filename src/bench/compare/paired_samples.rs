//! Metrics of the cells that both compared runs have, as logarithms by repetition.

use crate::bench::result::{
    Cell, Figure, Measurement, Outcome, Run,
    comparison_level::Level,
    metric::{Better, Unit},
    spread::Spread,
};
use std::collections::BTreeMap;

/// Metric that is compared. Values of one metric have one unit in all cells, so their ratios can be averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComparedMetric {
    /// Operations per second, or the inverse of the seconds that a single action takes, such as a count of all keys.
    Speed,
    /// 99th percentile of latency, in microseconds.
    P99,
    /// Bytes of the store's files on disk.
    Size,
}

/// All compared metrics, in the order of the report.
pub const ASPECTS: [ComparedMetric; 3] = [ComparedMetric::Speed, ComparedMetric::P99, ComparedMetric::Size];

impl ComparedMetric {
    /// Returns the name of the metric that is shown to people: "speed".
    pub fn title(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::P99 => "p99",
            Self::Size => "size",
        }
    }

    /// Returns the direction in which the metric improves.
    pub fn better(self) -> Better {
        match self {
            Self::Speed => Better::Higher,
            Self::P99 | Self::Size => Better::Lower,
        }
    }

    /// Returns the unit of the metric.
    pub fn unit(self) -> Unit {
        match self {
            Self::Speed => Unit::PerSecond,
            Self::P99 => Unit::Microseconds,
            Self::Size => Unit::Bytes,
        }
    }

    fn of(self, cell: &Cell, measurement: &Measurement) -> Option<f64> {
        let value = match (self, cell.figure) {
            // In an open loop the throughput is the requested rate.
            (Self::Speed, Figure::Throughput) if cell.workload.rate.is_none() => measurement.throughput,
            (Self::Speed, Figure::Milliseconds) => 1.0 / measurement.seconds,
            (Self::P99, Figure::Throughput) if measurement.latency.count > 0 => measurement.latency.p99_us,
            #[expect(clippy::cast_precision_loss, reason = "a ratio has three digits")]
            (Self::Size, Figure::DiskBytes) => measurement.disk_bytes? as f64,
            _ => return None,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// Natural logarithms of a metric, by number of the repetition.
pub type Logs = BTreeMap<u32, f64>;

/// One metric of one cell in both compared runs.
#[derive(Clone, Debug)]
pub struct Series {
    /// Id of the cell that was measured in both runs.
    pub id: String,
    /// Name of the measured store, with its side in a duel; `/` and its compression follow if that is not `none`.
    pub store: String,
    /// Level of the cell: its access, commit path and fsync policy.
    pub level: Level,
    /// `true` if the cell measures the harness, not a store.
    pub reference: bool,
    /// Metric whose values the series has.
    pub aspect: ComparedMetric,
    /// Medians of the metric in the first and in the second run.
    pub medians: [f64; 2],
    /// Natural logarithms of the metric in the first and in the second run: of each repetition, or of the best
    /// repetition of each [group](best_of_groups).
    pub logs: [Logs; 2],
    /// Number of repetitions in a group, of which only the best counts; 1 if each repetition counts.
    pub group_size: usize,
}

impl Series {
    /// Returns the values of a metric of `cell` in both runs, or `None` if one of the runs has no value of it.
    pub fn new(runs: [&Run; 2], cell: &Cell, aspect: ComparedMetric) -> Option<Self> {
        let target = &cell.target;
        let store = match target.compression.as_str() {
            "none" | "" => target.store_and_side(),
            compression => format!("{}/{compression}", target.store_and_side()),
        };
        let logs = runs.map(|run| logs(run, cell, aspect));
        let fewest = logs.iter().map(Logs::len).min().unwrap_or(0);
        let group_size = if aspect == ComparedMetric::Size { 1 } else { (fewest / MIN_GROUPS).max(1) };
        let series = Self {
            id: cell.id.clone(),
            store,
            level: Level::of(target),
            reference: cell.reference,
            aspect,
            medians: logs.each_ref().map(middle),
            group_size,
            logs: logs.map(|logs| best_of_groups(logs, group_size, aspect.better())),
        };
        series.logs.iter().all(|logs| !logs.is_empty()).then_some(series)
    }

    /// Returns the number of values (repetitions, or groups of repetitions) in the run that has fewer of them.
    pub fn repetitions(&self) -> usize {
        self.logs.iter().map(Logs::len).min().unwrap_or(0)
    }
}

/// Minimum number of groups into which ten or more repetitions of a cell are divided; only the best repetition of each
/// group counts.
const MIN_GROUPS: usize = 5;

/// Divides the repetitions into groups of `each`, leaving out the last ones that fill no group, and returns the best
/// value of each group. Other processes only take time away, for seconds or minutes, so the best of several repetitions
/// is much the same in each run, while their means are not (Python's `timeit` uses the minimum of its repetitions for
/// this reason). The repetitions of a group are spread over the whole run.
fn best_of_groups(logs: Logs, each: usize, better: Better) -> Logs {
    let count = logs.len() / each;
    let mut best = Logs::new();
    for (round, value) in (0..).take(count).cycle().zip(logs.into_values()).take(count * each) {
        let kept = best.entry(round).or_insert(value);
        *kept = match better {
            Better::Higher => kept.max(value),
            Better::Lower => kept.min(value),
        };
    }
    best
}

fn middle(logs: &Logs) -> f64 {
    Spread::of(logs.values().copied()).map_or(0.0, |spread| spread.median.exp())
}

fn logs(run: &Run, cell: &Cell, aspect: ComparedMetric) -> Logs {
    let samples = run.samples.iter().filter(|sample| sample.cell == cell.id);
    let values = samples.filter_map(|sample| match &sample.outcome {
        Outcome::Measured(measurement) => Some((sample.repetition, aspect.of(cell, measurement)?.ln())),
        _ => None,
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(values: impl IntoIterator<Item = f64>) -> Logs {
        (0..).zip(values).collect()
    }

    #[test]
    fn only_the_best_of_each_group_of_repetitions_counts() {
        let many = || numbered((0..11).map(f64::from));
        let highest = best_of_groups(many(), 2, Better::Higher);
        assert_eq!(highest, numbered([5.0, 6.0, 7.0, 8.0, 9.0]), "the last has no round");
        assert_eq!(best_of_groups(many(), 2, Better::Lower), numbered([0.0, 1.0, 2.0, 3.0, 4.0]));
        assert_eq!(best_of_groups(many(), 1, Better::Lower), many());
    }
}
