//! Measurements of one workload, summed over its threads, as the metrics of its cell.

use super::{
    process_usage::ProcessUsage,
    recorder::{Fault, Recorder},
};
use crate::bench::result::{Measurement, Workload};

/// Measurement of one workload, summed over its threads.
pub struct PhaseResult {
    /// Sum of the records of the workload's threads.
    pub recorder: Recorder,
    /// Start of the measurement, in nanoseconds of the recorder's clock.
    pub start: u64,
    /// Resources that the process used during the measurement.
    pub usage: ProcessUsage,
}

impl PhaseResult {
    /// Sums the records of the threads, each with the start of its measurement. Without threads, the result is
    /// a fault.
    pub(super) fn sum(parts: impl IntoIterator<Item = (u64, Recorder)>, usage: &ProcessUsage) -> Self {
        let sum = parts.into_iter().reduce(|(start, mut sum), (other, part)| {
            sum.add(&part);
            (start.min(other), sum)
        });
        let none = || (0, Recorder::of_fault(Fault::Error("no thread did any operation".into())));
        let (start, recorder) = sum.unwrap_or_else(none);
        Self { recorder, start, usage: usage.clone() }
    }

    /// Returns the result of a workload of which only a fault is known.
    pub(super) fn of_fault(fault: Fault) -> Self {
        Self { recorder: Recorder::of_fault(fault), start: 0, usage: ProcessUsage::default() }
    }

    /// Returns the metrics of `workload`. `concurrent` is the number of workloads that ran at the same time: with
    /// several, CPU time, instructions and allocations are unknown.
    pub fn measurement(self, workload: &Workload, concurrent: usize) -> Measurement {
        let PhaseResult { recorder, start, usage } = self;
        let mut measurement = recorder.measurement(start);
        // CPU time, instructions and allocations cannot be attributed to one of several concurrent workloads.
        if concurrent == 1 && measurement.operations > 0 {
            measurement.allocations = usage.allocated.map(|allocated| allocated.count);
            measurement.allocated_bytes = usage.allocated.map(|allocated| allocated.bytes);
            measurement.instructions = usage.instructions;
            measurement.cpu_us_per_operation =
                usage.cpu_ns.map(|ns| ns as f64 / 1e3 / measurement.operations as f64);
        }
        measurement.timer_syncs = usage.timer_syncs;
        let expires = workload.ttl_ms.is_some();
        measurement.hits = measurement.hits.filter(|_| expires);
        measurement.expired_reads = measurement.expired_reads.filter(|_| expires);
        measurement.expired_keys = usage.expired_keys;
        // A running operation may end after the time limit; one that takes this much longer is abnormal.
        if let Some(seconds) = workload.seconds.filter(|seconds| measurement.seconds > 2.0 * seconds + 1.0) {
            measurement.warnings.push(format!(
            "{seconds} s were asked for, but its last operation ended after {:.1}: the store, or the machine, \
             made no progress",
            measurement.seconds
        ));
        }
        // No operation starts after the time limit, but the last one may end after it.
        let seconds = workload.seconds.map_or(measurement.seconds, |limit| limit.min(measurement.seconds));
        let done = measurement.operations as f64 / seconds;
        if let Some(rate) = workload.rate.filter(|rate| done < 0.98 * rate) {
            measurement.warnings.push(format!(
                "{rate} operations in a second were asked for, {done:.0} were done: latency is that of a queue that grows"
            ));
        }
        measurement
    }
}

/// Adds a warning to a measurement if the load took longer than the values' time to live, so that keys had expired
/// before the measurement.
pub(super) fn warn_of_long_load(measurement: &mut Measurement, workload: &Workload) {
    let (Some(seconds), Some(ttl_ms)) = (measurement.load_seconds, workload.ttl_ms) else { return };
    if seconds * 1e3 > ttl_ms as f64 {
        measurement.warnings.push(format!(
            "the load took {seconds:.1} s, longer than the values live (--ttl): the first keys had expired before the \
             measurement; raise --ttl, or lower --keys"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Operation;
    use std::time::Duration;

    /// Returns the warnings of a measurement with a time limit of one second whose only operation took `seconds`.
    fn warnings(seconds: u64) -> Vec<String> {
        let mut recorder = Recorder::new(0, Duration::from_millis(100));
        recorder.success(Operation::Get, 0, seconds * 1_000_000_000);
        let json = r#"{"name": "get", "mix": {"get": 1}, "keys": 1, "key_bytes": {"fixed": 1},
            "value_bytes": {"fixed": 1}, "order": "uniform", "threads": 1, "batch": 1, "seconds": 1.0,
            "operations": null, "warmup_seconds": 0, "rate": null, "scan_length": 1, "seed": 1}"#;
        let phase = PhaseResult { recorder, start: 0, usage: ProcessUsage::default() };
        phase.measurement(&serde_json::from_str(json).unwrap(), 1).warnings
    }

    #[test]
    fn load_that_is_longer_than_the_time_to_live_is_warned_of() {
        for (ttl_ms, warnings) in [(None, 0), (Some(1500), 1), (Some(2500), 0)] {
            let workload = Workload { ttl_ms, ..Workload::of([(Operation::Update, 1.0)], 1) };
            let mut measurement = Measurement { load_seconds: Some(2.0), ..Measurement::default() };
            warn_of_long_load(&mut measurement, &workload);
            assert_eq!(measurement.warnings.len(), warnings, "{ttl_ms:?}");
        }
    }

    #[test]
    fn a_standstill_is_warned_of() {
        assert_eq!(warnings(2), [""; 0]);
        assert!(warnings(20).concat().contains("ended after 20.0"), "{:?}", warnings(20));
    }
}
