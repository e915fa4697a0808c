//! What the threads of one workload have measured, as the numbers of its cell.

use super::{process::ProcessUsage, recorder::Recorder};
use crate::bench::result::{Measurement, Workload};

/// What was measured of one workload.
pub struct PhaseResult {
    /// Sum over the threads.
    pub recorder: Recorder,
    /// Begin of the measured time, in nanoseconds of the recorder's clock.
    pub start: u64,
    /// What the process used in the measured time.
    pub usage: ProcessUsage,
}

impl PhaseResult {
    /// The sum of what threads measured, each with the begin of its measured time.
    pub(super) fn sum(
        parts: impl IntoIterator<Item = (u64, Recorder)>,
        usage: &ProcessUsage,
    ) -> Option<Self> {
        let (start, recorder) = parts.into_iter().reduce(|(start, mut sum), (other, part)| {
            sum.add(&part);
            (start.min(other), sum)
        })?;
        Some(Self { recorder, start, usage: usage.clone() })
    }

    /// The numbers of a phase, of `concurrent` that ran at the same time.
    pub fn measurement(self, workload: &Workload, concurrent: usize) -> Measurement {
        let PhaseResult { recorder, start, usage } = self;
        let mut measurement = recorder.measurement(start);
        // Who of several used the processor, nobody knows.
        if concurrent == 1 && measurement.operations > 0 {
            measurement.allocations = usage.allocated.map(|allocated| allocated.count);
            measurement.allocated_bytes = usage.allocated.map(|allocated| allocated.bytes);
            measurement.cpu_us_per_operation =
                usage.cpu_ns.map(|ns| ns as f64 / 1e3 / measurement.operations as f64);
        }
        // An operation under way ends after the time; one that takes so much longer is no normal one.
        if let Some(seconds) = workload.seconds.filter(|seconds| measurement.seconds > 2.0 * seconds + 1.0) {
            measurement.warnings.push(format!(
            "{seconds} s were asked for, but its last operation ended after {:.1}: the store, or the machine, \
             made no progress",
            measurement.seconds
        ));
        }
        if let Some(rate) = workload.rate.filter(|rate| measurement.throughput < 0.98 * rate) {
            measurement.warnings.push(format!(
            "{rate} operations in a second were asked for, {:.0} were done: latency is that of a queue that grows",
            measurement.throughput
        ));
        }
        measurement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Operation;
    use std::time::Duration;

    /// Warnings of a measurement that was to take a second and took `seconds`.
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
    fn a_standstill_is_warned_of() {
        assert_eq!(warnings(2), [""; 0]);
        assert!(warnings(20).concat().contains("ended after 20.0"), "{:?}", warnings(20));
    }
}
