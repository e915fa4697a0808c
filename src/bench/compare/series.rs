//! What both runs measured, as logarithms by repetition.

use crate::bench::result::{
    Cell, Figure, Measurement, Outcome, Run,
    level::Level,
    measure::{Better, Unit},
};
use std::collections::BTreeMap;

/// What is compared. Figures of one aspect are of one kind, so that their ratios have a mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// Operations each second, or the inverse of the time that a step took.
    Speed,
    /// 99th percentile of latency.
    P99,
    /// Bytes on disk.
    Size,
}

/// All of them, in the order in which they are told.
pub const ASPECTS: [Aspect; 3] = [Aspect::Speed, Aspect::P99, Aspect::Size];

impl Aspect {
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
    pub aspect: Aspect,
    /// In the first run, and in the second.
    pub logs: [Logs; 2],
}

impl Series {
    /// A figure of a cell; `None` where a run has none.
    pub fn new(runs: [&Run; 2], cell: &Cell, aspect: Aspect) -> Option<Self> {
        let target = &cell.target;
        let store = match target.compression.as_str() {
            "none" | "" => target.store.clone(),
            compression => format!("{}/{compression}", target.store),
        };
        let series = Self {
            id: cell.id.clone(),
            store,
            level: Level::of(target),
            reference: cell.reference,
            aspect,
            logs: runs.map(|run| logs(run, cell, aspect)),
        };
        series.logs.iter().all(|logs| !logs.is_empty()).then_some(series)
    }

    /// The fewest repetitions that a run has of it.
    pub fn repetitions(&self) -> usize {
        self.logs.iter().map(Logs::len).min().unwrap_or(0)
    }
}

fn logs(run: &Run, cell: &Cell, aspect: Aspect) -> Logs {
    let samples = run.samples.iter().filter(|sample| sample.cell == cell.id);
    let values = samples.filter_map(|sample| match &sample.outcome {
        Outcome::Measured(measurement) => Some((sample.repetition, aspect.of(cell, measurement)?.ln())),
        _ => None,
    });
    values.collect()
}
