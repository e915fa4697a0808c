//! What both runs measured, as logarithms by repetition.

use crate::bench::result::{
    Cell, Figure, Measurement, Outcome, Run,
    loss_class::Level,
    metric::{Better, Unit},
    spread::Spread,
};
use std::collections::BTreeMap;

/// What is compared. Figures of one aspect are of one kind, so that their ratios have a mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComparedMetric {
    /// Operations each second, or the inverse of the time that a step took.
    Speed,
    /// 99th percentile of latency.
    P99,
    /// Bytes on disk.
    Size,
}

/// All of them, in the order in which they are told.
pub const ASPECTS: [ComparedMetric; 3] = [ComparedMetric::Speed, ComparedMetric::P99, ComparedMetric::Size];

impl ComparedMetric {
    /// Name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::P99 => "p99",
            Self::Size => "size",
        }
    }

    /// Which way is better.
    pub fn better(self) -> Better {
        match self {
            Self::Speed => Better::Higher,
            Self::P99 | Self::Size => Better::Lower,
        }
    }

    /// The unit of the figures.
    pub fn unit(self) -> Unit {
        match self {
            Self::Speed => Unit::PerSecond,
            Self::P99 => Unit::Microseconds,
            Self::Size => Unit::Bytes,
        }
    }

    fn of(self, cell: &Cell, measurement: &Measurement) -> Option<f64> {
        let value = match (self, cell.figure) {
            // At a rate it is the rate that was asked for.
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

/// Logarithms by repetition.
pub type Logs = BTreeMap<u32, f64>;

/// A figure of a cell in both runs.
#[derive(Clone, Debug)]
pub struct Series {
    /// The cell.
    pub id: String,
    /// Its store.
    pub store: String,
    /// Its level.
    pub level: Level,
    /// Whether it measures the harness.
    pub reference: bool,
    /// What of it.
    pub aspect: ComparedMetric,
    /// Medians of the two runs.
    pub medians: [f64; 2],
    /// In the first run, and in the second: each repetition, or the best of each [round](rounds).
    pub logs: [Logs; 2],
    /// How many repetitions a round has; 1 when each counts.
    pub best_of: usize,
}

impl Series {
    /// A figure of a cell; `None` where a run has none.
    pub fn new(runs: [&Run; 2], cell: &Cell, aspect: ComparedMetric) -> Option<Self> {
        let target = &cell.target;
        let store = match target.compression.as_str() {
            "none" | "" => target.store.clone(),
            compression => format!("{}/{compression}", target.store),
        };
        let logs = runs.map(|run| logs(run, cell, aspect));
        let fewest = logs.iter().map(Logs::len).min().unwrap_or(0);
        let best_of = if aspect == ComparedMetric::Size { 1 } else { (fewest / ROUNDS).max(1) };
        let series = Self {
            id: cell.id.clone(),
            store,
            level: Level::of(target),
            reference: cell.reference,
            aspect,
            medians: logs.each_ref().map(middle),
            best_of,
            logs: logs.map(|logs| rounds(logs, best_of, aspect.better())),
        };
        series.logs.iter().all(|logs| !logs.is_empty()).then_some(series)
    }

    /// The fewest repetitions, or rounds of them, that a run has of it.
    pub fn repetitions(&self) -> usize {
        self.logs.iter().map(Logs::len).min().unwrap_or(0)
    }
}

/// Rounds into which many repetitions are put.
const ROUNDS: usize = 5;

/// The best of every `each` repetitions. What others do on the machine only takes time away, for seconds or
/// minutes, so the best of several repetitions is much the same from run to run where their means are not (so
/// Python's `timeit` looks at the least time of its repetitions). A round is
/// spread over the whole run.
fn rounds(logs: Logs, each: usize, better: Better) -> Logs {
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
    fn of_many_repetitions_the_best_of_each_round_counts() {
        let many = || numbered((0..11).map(f64::from));
        let highest = rounds(many(), 2, Better::Higher);
        assert_eq!(highest, numbered([5.0, 6.0, 7.0, 8.0, 9.0]), "the last has no round");
        assert_eq!(rounds(many(), 2, Better::Lower), numbered([0.0, 1.0, 2.0, 3.0, 4.0]));
        assert_eq!(rounds(many(), 1, Better::Lower), many());
    }
}
