//! Metrics of the cells that both compared runs have, as logarithms by repetition.

use crate::{
    bench::result::{
        Cell, Figure, Measurement, Run,
        comparability::Level,
        metric::{Better, Unit},
        spread::Spread,
    },
    engine::Compression,
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
    /// Bytes read from the cell's own device per GET.
    Reads,
}

/// All compared metrics, in the order of the report.
pub const COMPARED_METRICS: [ComparedMetric; 4] =
    [ComparedMetric::Speed, ComparedMetric::P99, ComparedMetric::Size, ComparedMetric::Reads];

impl ComparedMetric {
    /// Returns the name of the metric that is shown to people: "speed".
    pub fn title(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::P99 => "p99",
            Self::Size => "size",
            Self::Reads => "read per GET",
        }
    }

    /// Returns the direction in which the metric improves.
    pub fn better(self) -> Better {
        match self {
            Self::Speed => Better::Higher,
            Self::P99 | Self::Size | Self::Reads => Better::Lower,
        }
    }

    /// Returns the unit of the metric.
    pub fn unit(self) -> Unit {
        match self {
            Self::Speed => Unit::PerSecond,
            Self::P99 => Unit::Microseconds,
            Self::Size | Self::Reads => Unit::Bytes,
        }
    }

    fn of(self, cell: &Cell, measurement: &Measurement) -> Option<f64> {
        let value = match (self, cell.figure) {
            // In an open loop the throughput is the requested rate.
            (Self::Speed, Figure::Throughput) if cell.workload.rate.is_none() => measurement.throughput,
            (Self::Speed, Figure::Milliseconds) => 1.0 / measurement.seconds,
            // Each run measured the latency at the rate that it found.
            (Self::P99, Figure::Throughput) if cell.workload.rate_goal.is_some() => return None,
            (Self::P99, Figure::Throughput) if measurement.latency.count > 0 => measurement.latency.p99_us,
            #[expect(clippy::cast_precision_loss, reason = "a ratio has three digits")]
            (Self::Size, Figure::DiskBytes) => measurement.disk_bytes? as f64,
            (Self::Reads, Figure::DeviceReadBytes) => measurement.device_read_bytes_per_get?,
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
    pub metric: ComparedMetric,
    /// Medians of the metric in the first and in the second run.
    pub medians: [f64; 2],
    /// Natural logarithms of the metric in the first and in the second run: of each repetition, or of the best
    /// repetition of each [group](best_of_groups).
    pub logs: [Logs; 2],
    /// Number of repetitions in a group, of which only the best counts; 1 if each repetition counts.
    pub group_size: u32,
}

impl Series {
    /// Returns the values of a metric of `cell` in both runs, or `None` if one of the runs has no value of it.
    pub fn new(runs: [&Run; 2], cell: &Cell, metric: ComparedMetric) -> Option<Self> {
        let target = &cell.target;
        let store = match target.compression {
            Compression::None => target.store_and_side(),
            compression => format!("{}/{compression}", target.store_and_side()),
        };
        let found = runs.map(|run| (repetitions(run, cell), logs(run, cell, metric)));
        let fewest = found.iter().map(|(count, _)| *count).min().unwrap_or(0);
        // Other processes change no number of bytes.
        let is_of_bytes = matches!(metric, ComparedMetric::Size | ComparedMetric::Reads);
        let group_size = if is_of_bytes { 1 } else { (fewest / MIN_GROUPS).max(1) };
        let groups = |count: u32| count / group_size;
        let counted = |(count, logs): &(u32, Logs)| {
            u32::try_from(logs.len()).unwrap_or(0).div_ceil(groups(*count).max(1))
        };
        let most = found.iter().map(counted).min().unwrap_or(0);
        let series = Self {
            id: cell.id.clone(),
            store,
            level: Level::of(target),
            reference: cell.reference,
            metric,
            medians: found.each_ref().map(|(_, logs)| middle(logs)),
            group_size,
            logs: found.map(|(count, logs)| {
                best_of_groups(logs, groups(count), [group_size, most], metric.better())
            }),
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
const MIN_GROUPS: u32 = 5;

/// Divides the repetitions into `groups` groups of at most `each`, leaving out the last ones that fill no group, and
/// returns the best of the first `most` values of each group. In both runs the best of as many counts, though one run may
/// have more repetitions that were disturbed and left out: the best of ten is better than the best of three. Other
/// processes only take time away, for seconds or minutes, so the best of several repetitions is much the same in each
/// run, while their means are not (Python's `timeit` uses the minimum of its repetitions for this reason). The
/// repetitions of a group are spread over the whole run; those of one group are the same for all cells, also if some
/// lack one.
fn best_of_groups(logs: Logs, groups: u32, [each, most]: [u32; 2], better: Better) -> Logs {
    let mut best: BTreeMap<u32, (u32, f64)> = BTreeMap::new();
    for (repetition, value) in logs.into_iter().filter(|(repetition, _)| *repetition < groups * each) {
        let (count, kept) = best.entry(repetition % groups).or_insert((0, value));
        if *count < most {
            *count += 1;
            *kept = match better {
                Better::Higher => kept.max(value),
                Better::Lower => kept.min(value),
            };
        }
    }
    best.into_iter().map(|(group, (_, value))| (group, value)).collect()
}

fn middle(logs: &Logs) -> f64 {
    Spread::of(logs.values().copied()).map_or(0.0, |spread| spread.median.exp())
}

/// Returns the logarithms of a metric of a cell by repetition. Repetitions that other programs disturbed are left out,
/// unless all of the cell's were.
fn logs(run: &Run, cell: &Cell, metric: ComparedMetric) -> Logs {
    let of = |(repetition, measurement)| Some((repetition, metric.of(cell, measurement)?.ln()));
    run.by_repetition(&cell.id).filter_map(of).collect()
}

/// Returns the number of repetitions of a cell that were measured, with those that other programs disturbed.
fn repetitions(run: &Run, cell: &Cell) -> u32 {
    let own = run.samples.iter().filter(|sample| sample.cell == cell.id);
    own.map(|sample| sample.repetition + 1).max().unwrap_or(0)
}

/// Returns `true` if the run has a value of any compared metric of the cell.
pub fn has_value(run: &Run, cell: &Cell) -> bool {
    COMPARED_METRICS.into_iter().any(|metric| !logs(run, cell, metric).is_empty())
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
        let highest = best_of_groups(many(), 5, [2, 2], Better::Higher);
        assert_eq!(highest, numbered([5.0, 6.0, 7.0, 8.0, 9.0]), "the last has no round");
        assert_eq!(best_of_groups(many(), 5, [2, 2], Better::Lower), numbered([0.0, 1.0, 2.0, 3.0, 4.0]));
        assert_eq!(best_of_groups(many(), 11, [1, 1], Better::Lower), many());
        let first_of_each = numbered([0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(best_of_groups(many(), 5, [2, 1], Better::Higher), first_of_each, "as in the other run");
    }

    #[test]
    fn a_repetition_that_is_left_out_moves_no_other_to_another_group() {
        let mut many = numbered((0..10).map(f64::from));
        many.remove(&7);
        assert_eq!(
            best_of_groups(many.clone(), 5, [2, 2], Better::Higher),
            numbered([5.0, 6.0, 2.0, 8.0, 9.0])
        );
        many.remove(&2);
        let without_a_group = Logs::from([(0, 5.0), (1, 6.0), (3, 8.0), (4, 9.0)]);
        assert_eq!(best_of_groups(many, 5, [2, 2], Better::Higher), without_a_group);
    }
}
