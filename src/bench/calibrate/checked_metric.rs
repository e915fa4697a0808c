//! Measured metrics with their expected values, and the list of metrics that calibration checks.

use crate::bench::result::{
    Access, Measurement, Operation,
    metric::{self, Unit},
    soak,
};
use std::ops::RangeInclusive;

/// One metric of one cell of a calibration: expected and measured value.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the workload of the cell whose metric is checked.
    pub workload: String,
    /// Access of the cell to the engine: in process or over the wire.
    pub access: Access,
    /// Name of the checked metric, such as `p99_us`.
    pub column: &'static str,
    /// Unit of the checked metric.
    pub unit: Unit,
    /// Expected value of the metric, from the engine's configured costs or its own records.
    pub truth: f64,
    /// Range of values that a correct measurement of the metric can have.
    pub allowed: RangeInclusive<f64>,
    /// Largest measured value that verifies the metric. A larger one within the allowed range is possible, but proves
    /// too little.
    pub decided_to: f64,
    /// Measured value; `None` if the result has none.
    pub measured: Option<f64>,
}

impl Figure {
    /// Returns `true` if the measured value is in the allowed range, and close enough to the expected value to verify
    /// the metric.
    pub fn is_true(&self) -> bool {
        self.measured.is_some_and(|measured| measured <= self.decided_to) && !self.is_wrong()
    }

    /// Returns `true` if the measured value is outside the allowed range, so that it cannot be correct, or if there is
    /// none.
    pub fn is_wrong(&self) -> bool {
        !self.measured.is_some_and(|measured| self.allowed.contains(&measured))
    }

    /// Returns `true` if the measured value may be correct, but proves too little because the machine was busy.
    pub fn is_undecided(&self) -> bool {
        !self.is_true() && !self.is_wrong()
    }

    /// Returns the relative error: the difference from the expected value, as a fraction of it; infinite without a
    /// measured value.
    pub fn error(&self) -> f64 {
        let off = self.measured.map_or(f64::INFINITY, |measured| (measured - self.truth).abs());
        if off == 0.0 { 0.0 } else { off / self.truth.abs() }
    }

    /// Returns `true` if the error of the metric counts for the worst error of a calibration: if it was measured in
    /// process, and is not one of the block device (`device_...`), which includes the work of the file system.
    pub fn counts_as_error(&self) -> bool {
        let of_file_system = self.column.starts_with("device_");
        self.access == Access::InProcess && !of_file_system
    }

    /// Returns `true` if the metric is a number of operations, allocations or calls, which other processes cannot change.
    pub fn is_count(&self) -> bool {
        let counts =
            ["operations", "by kind", "timeline", "unstarted_operations", "allocations", "write_calls"];
        counts.contains(&self.column) || self.column.ends_with(" count")
    }

    /// Returns the names of metric, workload and access in one text: "p99_us of get in process".
    pub fn name(&self) -> String {
        let access = match self.access {
            Access::InProcess => "in process",
            Access::Wire => "over the wire",
        };
        format!("{} of {} {access}", self.column, self.workload)
    }
}

type Of = fn(&Measurement) -> Option<f64>;

/// Metrics of a result that are checked too and are not in [`metric::METRICS`]: name, unit and getter of each.
const OTHER_METRICS: [(&str, Unit, Of); 26] = [
    ("operations", Unit::Count, |m| Some(real(m.operations))),
    ("by kind", Unit::Count, |m| Some(real(m.by_operation.values().map(|kind| kind.count).sum()))),
    ("timeline", Unit::Count, |m| Some(real(m.timeline.iter().sum()))),
    ("user_bytes", Unit::Bytes, |m| Some(real(m.user_bytes))),
    ("live length", Unit::Bytes, |m| Some(real(m.live_size?.length_bytes))),
    ("live blocks", Unit::Bytes, |m| Some(real(m.live_size?.block_bytes))),
    ("settled length", Unit::Bytes, |m| Some(real(m.settled_size?.length_bytes))),
    ("settled blocks", Unit::Bytes, |m| Some(real(m.settled_size?.block_bytes))),
    ("closed length", Unit::Bytes, |m| Some(real(m.closed_size?.length_bytes))),
    ("hits", Unit::Count, |m| m.hits.map(real)),
    ("expired_reads", Unit::Count, |m| m.expired_reads.map(real)),
    ("expired_keys", Unit::Count, |m| m.expired_keys.map(real)),
    ("unstarted_operations", Unit::Count, |m| Some(real(m.unstarted_operations))),
    ("allocations", Unit::Count, |m| m.allocations.map(real)),
    ("allocated_bytes", Unit::Bytes, |m| m.allocated_bytes.map(real)),
    ("instructions", Unit::Count, |m| m.instructions.map(real)),
    ("soak operations", Unit::Count, |m| Some(values(m, soak::OPERATIONS)?.sum())),
    ("soak p50_us", Unit::Microseconds, |m| values(m, soak::P50)?.reduce(f64::min)),
    ("soak p99_us", Unit::Microseconds, |m| values(m, soak::P99)?.reduce(f64::min)),
    ("soak max_us", Unit::Microseconds, |m| values(m, soak::MAX)?.reduce(f64::max)),
    ("soak cpu_ms", Unit::Count, |m| Some(values(m, "cpu_ms/driver")?.sum())),
    ("soak written_bytes", Unit::Bytes, |m| Some(values(m, soak::WRITTEN)?.sum())),
    ("soak file_bytes", Unit::Bytes, |m| values(m, soak::FILES)?.last()),
    ("soak anonymous_bytes", Unit::Bytes, |m| values(m, soak::ANONYMOUS)?.last()),
    ("soak resident_bytes", Unit::Bytes, |m| values(m, soak::RESIDENT)?.last()),
    ("soak gauge", Unit::Count, |m| values(m, "engine/operations")?.last()),
];

/// Returns the known values of a series of a soak; `None` if the measurement is no soak.
fn values<'m>(measurement: &'m Measurement, series: &str) -> Option<impl Iterator<Item = f64> + use<'m>> {
    Some(measurement.soak.as_ref()?.values(series).iter().copied().flatten())
}

/// Lists the metrics of one kind of operation, each with name, unit and getter: its count and latencies.
macro_rules! of_kind {
    ($word:literal, $kind:ident) => {
        of_kind!($word, $kind;
            "count", Count, |latency| real(latency.count);
            "mean_us", Microseconds, |latency| latency.mean_us;
            "p50_us", Microseconds, |latency| latency.p50_us;
            "p90_us", Microseconds, |latency| latency.p90_us;
            "p99_us", Microseconds, |latency| latency.p99_us;
            "p999_us", Microseconds, |latency| latency.p999_us;
            "max_us", Microseconds, |latency| latency.max_us)
    };
    ($word:literal, $kind:ident; $($name:literal, $unit:ident, |$latency:ident| $value:expr);*) => {
        [$((concat!($word, " ", $name), Unit::$unit, |m: &Measurement| {
            m.by_operation.get(&Operation::$kind).map(|$latency| $value)
        })),*]
    };
}

const GETS: [(&str, Unit, Of); 7] = of_kind!("get", Get);
const UPDATES: [(&str, Unit, Of); 7] = of_kind!("update", Update);
const INSERTS: [(&str, Unit, Of); 7] = of_kind!("insert", Insert);
const DELETES: [(&str, Unit, Of); 7] = of_kind!("delete", Delete);
const SCANS: [(&str, Unit, Of); 7] = of_kind!("scan", Scan);
const MODIFIES: [(&str, Unit, Of); 7] = of_kind!("read-modify-write", ReadModifyWrite);

/// Returns the name, unit and getter of every metric that calibration checks.
pub fn columns() -> impl Iterator<Item = (&'static str, Unit, Of)> {
    let measures = metric::METRICS.iter().map(|measure| (measure.name, measure.unit, measure.of));
    let kinds = [GETS, UPDATES, INSERTS, DELETES, SCANS, MODIFIES].into_iter().flatten();
    measures.chain(OTHER_METRICS).chain(kinds)
}

/// Converts a number to `f64`.
#[expect(clippy::cast_precision_loss, reason = "all are below 2^53")]
pub(super) fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Fields of [`Measurement`] that calibration need not compare with an expected value, each with the reason. Every
    /// other field must be a checked metric, or be derived from checked ones (`near_floor`, `timeline_slice_seconds`).
    const NOT_JUDGED: [(&str, &str); 9] = [
        ("keys_before", "the engine's own count is compared with it in every run"),
        ("keys_after", "likewise"),
        ("verified_values", "every value of them was compared"),
        ("errors", "a measurement with faults has no figures"),
        ("misses", "likewise"),
        ("wrong_values", "likewise"),
        ("first_fault", "words"),
        ("warnings", "words"),
        ("lateness", "of the harness' own threads, of which no engine knows"),
    ];

    /// A new field must be checked by calibration or be listed in [`NOT_JUDGED`].
    #[test]
    fn every_field_of_a_measurement_is_judged_or_named() {
        let Value::Object(fields) = serde_json::to_value(Measurement::default()).unwrap() else {
            panic!("no object")
        };
        let named = |field: &str| NOT_JUDGED.iter().any(|(name, _)| *name == field);
        let others = ["near_floor", "timeline_slice_seconds"];
        let known = |field: &str| {
            columns().any(|(name, ..)| name == field || name == column_of(field))
                || named(field)
                || others.contains(&field)
        };
        let missing: Vec<_> = fields.keys().filter(|field| !known(field)).collect();
        assert!(missing.is_empty(), "neither judged nor named: {missing:?}");
        for (name, _) in NOT_JUDGED {
            assert!(fields.contains_key(name), "{name} is no field");
        }
    }

    /// Returns the name of the checked metric that represents the field `field` of a measurement: often the field's own
    /// name.
    fn column_of(field: &str) -> &str {
        match field {
            "throughput" => "throughput_per_second",
            "latency" => "p99_us",
            "by_operation" => "by kind",
            "live_size" => "live length",
            "settled_size" => "settled length",
            "closed_size" => "closed length",
            "soak" => "soak operations",
            "rate_search" => "throughput_per_second",
            other => other,
        }
    }
}
