//! Comparison of one metric of both programs, over the blocks of a comparison.

use crate::bench::result::{
    Cell, Measurement, Run, Side,
    interleaved_comparison::Comparison,
    metric::{Metric, Unit},
    spread::Spread,
    statistics::{
        looks::Looks,
        pairwise::{Pair, Pairwise, Rates},
    },
};
use std::collections::BTreeMap;

/// Operations per second: the metric on which the verdict of a duel is based.
pub(super) static RATE: Metric =
    Metric::new("throughput_per_second", "operations a second", Unit::PerSecond, false, |m| {
        Some(m.throughput)
    });

/// Metrics that a duel compares besides the rate; lower values are better. Syncs are counted only where kvbench makes them:
/// its timer under the fsync policy `everysec`.
pub(super) static COSTS: [&Metric; 7] = [
    &Metric::new("p99_us", "p99 of latency (closed loop)", Unit::Microseconds, false, |m| {
        Some(m.latency.p99_us)
    }),
    &Metric::new("cpu_us_per_operation", "CPU time per operation", Unit::Microseconds, false, |m| {
        m.cpu_us_per_operation
    }),
    &INSTRUCTIONS,
    &Metric::new("written_bytes_per_operation", "bytes written per operation", Unit::Bytes, false, |m| {
        per_operation(m, m.written_bytes.filter(|_| m.user_bytes > 0))
    }),
    &WRITE_CALLS,
    &Metric::new("timer_syncs_per_operation", "syncs by the timer per operation", Unit::Times, false, |m| {
        per_operation(m, m.timer_syncs)
    }),
    &ALLOCATIONS,
];

/// Instructions per operation, of the engine and of the benchmark's threads, in user space.
pub(super) static INSTRUCTIONS: Metric =
    Metric::new("instructions_per_operation", "instructions per operation", Unit::Count, false, |m| {
        per_operation(m, m.instructions)
    });

/// Write calls of the engine per operation.
pub(super) static WRITE_CALLS: Metric =
    Metric::new("write_calls_per_operation", "write calls per operation", Unit::Times, false, |m| {
        per_operation(m, m.write_calls)
    });

/// Allocations by the engine's Rust code per operation.
pub(super) static ALLOCATIONS: Metric =
    Metric::new("allocations_per_operation", "allocations per operation", Unit::Times, false, |m| {
        per_operation(m, m.allocations)
    });

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn per_operation(measurement: &Measurement, count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64 / measurement.operations as f64)
}

/// Values of a metric in both programs, and their ratio.
#[derive(Debug)]
pub(super) struct Finding {
    pub metric: &'static Metric,
    /// Medians of the metric over all blocks (repetitions) in which a program has a positive value: of the old program
    /// and of the new one.
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
    pub fn of(run: &Run, comparison: &Comparison, metric: &'static Metric) -> Option<Self> {
        let programs =
            |one| -> Vec<_> { [Side::New, Side::Old].map(|side| logarithms(run, one, side, metric)).into() };
        let programs: Vec<Vec<_>> = run.comparisons.iter().map(programs).collect();
        let (once, margin) = (Looks::once(), comparison.margin);
        let looks = run.comparisons.iter().map(|one| one.looks.as_ref().unwrap_or(&once));
        let rates: Vec<Rates<'_>> = programs
            .iter()
            .zip(looks)
            .map(|(stores, looks)| Rates::of_one_run(stores, looks, margin))
            .collect();
        let own = run.comparisons.iter().position(|one| one.id == comparison.id)?;
        let pair = *Pairwise::of_family(&rates, 0).get(own)?.pairs().first()?;
        let [new, old] = programs.get(own)?.as_slice() else { return None };
        let median = |logarithms: &BTreeMap<u32, f64>| {
            Spread::of(logarithms.values().map(|value| value.exp())).map(|spread| spread.median)
        };
        Some(Self { metric, medians: [median(old)?, median(new)?], pair })
    }
}

/// Returns the values of a metric of one program, with the number of their block.
pub(super) fn values_by_block<'r>(
    run: &'r Run,
    comparison: &Comparison,
    side: Side,
    metric: &'r Metric,
) -> impl Iterator<Item = (u32, f64)> + use<'r> {
    let own = cell(run, comparison, side);
    let values = own.into_iter().flat_map(|cell| run.by_repetition(&cell.id));
    values.filter_map(|(block, measurement)| Some((block, (metric.of)(measurement)?)))
}

/// Returns the natural logarithms of a metric of one program by block, without values that are not positive.
pub(super) fn logarithms(
    run: &Run,
    comparison: &Comparison,
    side: Side,
    metric: &Metric,
) -> BTreeMap<u32, f64> {
    let values = values_by_block(run, comparison, side, metric);
    let positive = values.filter(|(_, value)| value.is_finite() && *value > 0.0);
    positive.map(|(block, value)| (block, value.ln())).collect()
}

/// Returns the cell of one program in a comparison.
pub(super) fn cell<'r>(run: &'r Run, comparison: &Comparison, side: Side) -> Option<&'r Cell> {
    run.cells.iter().find(|cell| cell.target.side == Some(side) && comparison.cells.contains(&cell.id))
}
