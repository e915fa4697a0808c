//! Verification at the end of a job: values that should exist, all or a large random sample, are read once more and
//! compared.

use super::phase_result::PhaseResult;
use crate::bench::result::Measurement;
use std::fmt::Display;

/// Maximum number of values that are compared at the end of a job. If there are more keys, this number is drawn at
/// random.
pub const MAX_COMPARED: u64 = 5_000_000;

/// Maximum number of values that are compared at the end of a job if most of them must be read from the disk.
pub const MAX_FROM_DISK: u64 = 20_000;

/// Result of the verification: the store's values were read at the end of a job and compared with those that were
/// written.
#[derive(Debug, Default)]
pub(super) struct Verified {
    /// Number of values that were compared.
    values: u64,
    /// Description of the first missing or wrong value.
    fault: Option<String>,
}

impl Verified {
    /// Collects the result from the measurements of the reads.
    pub fn of(phases: Vec<PhaseResult>) -> Self {
        let mut verified = Self::default();
        for phase in phases {
            let measurement = phase.recorder.measurement(phase.start);
            verified.values += measurement.hits.unwrap_or_default();
            verified.fault = verified.fault.or(measurement.first_fault);
        }
        verified
    }

    pub fn add_to(&self, measurement: &mut Measurement) {
        measurement.verified_values = Some(self.values).filter(|values| *values > 0);
        // The outcome of a failed write is unknown; the failure is counted already.
        if let Some(fault) = self.fault.as_ref().filter(|_| measurement.errors == 0) {
            measurement.wrong_values += 1;
            measurement.first_fault.get_or_insert_with(|| format!("at the end, {fault}"));
        }
    }
}

/// Records a fault in `measurement` if the store's number of keys is not `expected`, or could not be determined.
pub(super) fn compare_count(
    measurement: &mut Measurement,
    counted: &Result<u64, impl Display>,
    expected: u64,
) {
    let text = match counted {
        Ok(keys) if *keys == expected => return,
        Ok(keys) => {
            measurement.wrong_values += 1;
            format!("its count is {keys} keys, and {expected} were expected")
        }
        Err(error) => {
            measurement.errors += 1;
            format!("count: {error}")
        }
    };
    measurement.first_fault.get_or_insert(text);
}
