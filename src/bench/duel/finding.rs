//! Comparison of one metric of both programs, over the blocks of a comparison.

use crate::bench::result::{
    Cell, Measurement, Run, Side,
    interleaved_comparison::Comparison,
    metric::{Better, Unit},
    spread::Spread,
    statistics::{
        looks::Looks,
        pairwise::{Pair, Pairwise, Rates},
    },
};
use std::collections::BTreeMap;

/// Metric that a duel compares.
#[derive(Debug)]
pub(super) struct DuelMetric {
    pub title: &'static str,
    pub unit: Unit,
    pub better: Better,
    /// Function that returns the metric's value in a measurement, or `None` if it was not measured.
    of: fn(&Measurement) -> Option<f64>,
}

/// Operations per second: the metric on which the verdict of a duel is based.
pub(super) static RATE: DuelMetric = DuelMetric {
    title: "operations a second",
    unit: Unit::PerSecond,
    better: Better::Higher,
    of: |measurement| Some(measurement.throughput),
};

/// Metrics that a duel compares besides the rate; lower values are better. The syncs are only those that the timer of
/// the fsync policy `everysec` made.
pub(super) static COSTS: [&DuelMetric; 6] = [
    &cost("p99 of latency", Unit::Microseconds, |measurement| Some(measurement.latency.p99_us)),
    &cost("CPU time per operation", Unit::Microseconds, |measurement| measurement.cpu_us_per_operation),
    &cost("bytes written per operation", Unit::Bytes, |measurement| {
        per_operation(measurement, measurement.written_bytes.filter(|_| measurement.user_bytes > 0))
    }),
    &WRITE_CALLS,
    &cost("syncs per operation", Unit::Times, |measurement| {
        per_operation(measurement, measurement.timer_syncs)
    }),
    &ALLOCATIONS,
];

/// Write calls of the engine per operation.
pub(super) static WRITE_CALLS: DuelMetric = cost("write calls per operation", Unit::Times, |measurement| {
    per_operation(measurement, measurement.write_calls)
});

/// Allocations by the engine's Rust code per operation.
pub(super) static ALLOCATIONS: DuelMetric = cost("allocations per operation", Unit::Times, |measurement| {
    per_operation(measurement, measurement.allocations)
});

impl DuelMetric {
    /// Returns the values of the metric in one program, with the number of their block.
    pub fn values<'r>(
        &'r self,
        run: &'r Run,
        comparison: &Comparison,
        side: Side,
    ) -> impl Iterator<Item = (u32, f64)> + use<'r> {
        let own = cell(run, comparison, side);
        let values = own.into_iter().flat_map(|cell| run.by_repetition(&cell.id));
        values.filter_map(|(block, measurement)| Some((block, (self.of)(measurement)?)))
    }
}

const fn cost(title: &'static str, unit: Unit, of: fn(&Measurement) -> Option<f64>) -> DuelMetric {
    DuelMetric { title, unit, better: Better::Lower, of }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn per_operation(measurement: &Measurement, count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64 / measurement.operations as f64)
}

/// Values of a metric in both programs, and their ratio.
#[derive(Debug)]
pub(super) struct Finding {
    pub metric: &'static DuelMetric,
    /// Medians of the metric over all blocks (repetitions): of the old program and of the new one.
    pub medians: [f64; 2],
    /// Comparison of the metric in the new program with that in the old one: ratio, confidence interval and verdict.
    /// The verdict `Faster` means that the new value is higher.
    pub pair: Pair,
}

impl Finding {
    /// Returns the comparison of the rates of both programs, or `None` with too few blocks: see [`of`](Self::of).
    pub fn of_rate(run: &Run, comparison: &Comparison) -> Option<Self> {
        Self::of(run, comparison, &RATE)
    }

    /// Returns the comparison of a metric, or `None` if fewer than three blocks have a positive value of both programs,
    /// or fewer than the first planned evaluation needs. It uses the blocks of the latest planned evaluation. The tests
    /// of this metric in all comparisons of the run are one family.
    pub fn of(run: &Run, comparison: &Comparison, metric: &'static DuelMetric) -> Option<Self> {
        let programs =
            |one| -> Vec<_> { [Side::New, Side::Old].map(|side| logarithms(run, one, side, metric)).into() };
        let programs: Vec<Vec<_>> = run.comparisons.iter().map(programs).collect();
        let (once, margin) = (Looks::once(), comparison.margin);
        let looks = run.comparisons.iter().map(|one| one.looks.as_ref().unwrap_or(&once));
        let rates: Vec<Rates<'_>> =
            programs.iter().zip(looks).map(|(stores, looks)| Rates { stores, looks, margin }).collect();
        let own = run.comparisons.iter().position(|one| one.id == comparison.id)?;
        let pair = *Pairwise::of_family(&rates, 0).get(own)?.pairs().first()?;
        let [new, old] = programs.get(own)?.as_slice() else { return None };
        let median = |logarithms: &BTreeMap<u32, f64>| {
            Spread::of(logarithms.values().map(|value| value.exp())).map(|spread| spread.median)
        };
        Some(Self { metric, medians: [median(old)?, median(new)?], pair })
    }
}

/// Returns the natural logarithms of a metric of one program by block, without values that are not positive.
pub(super) fn logarithms(
    run: &Run,
    comparison: &Comparison,
    side: Side,
    metric: &DuelMetric,
) -> BTreeMap<u32, f64> {
    let values = metric.values(run, comparison, side);
    let positive = values.filter(|(_, value)| value.is_finite() && *value > 0.0);
    positive.map(|(block, value)| (block, value.ln())).collect()
}

/// Returns the cell of one program in a comparison.
pub(super) fn cell<'r>(run: &'r Run, comparison: &Comparison, side: Side) -> Option<&'r Cell> {
    run.cells.iter().find(|cell| cell.target.side == Some(side) && comparison.cells.contains(&cell.id))
}
