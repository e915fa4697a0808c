//! Every value that should be there, read once more and compared.

use super::phase::PhaseResult;
use crate::bench::result::Measurement;
use std::fmt::Display;

/// Of more keys than this, so many are drawn by chance.
pub const MOST: u64 = 5_000_000;

/// Likewise where most of them must be read from the disk.
pub const MOST_FROM_DISK: u64 = 20_000;

/// What the values are.
#[derive(Debug, Default)]
pub(super) struct Verified {
    /// How many were compared.
    values: u64,
    /// The first that is missing or wrong, in words.
    fault: Option<String>,
}

impl Verified {
    /// What the phases that read them have found.
    pub fn of(phases: Vec<PhaseResult>) -> Self {
        let mut verified = Self::default();
        for phase in phases {
            let measurement = phase.recorder.measurement(phase.start);
            verified.values += measurement.operations;
            verified.fault = verified.fault.or(measurement.first_fault);
        }
        verified
    }

    pub fn add_to(&self, measurement: &mut Measurement) {
        measurement.verified_values = Some(self.values).filter(|values| *values > 0);
        // A write that failed may or may not be there: it is counted already.
        if let Some(fault) = self.fault.as_ref().filter(|_| measurement.errors == 0) {
            measurement.wrong_values += 1;
            measurement.first_fault.get_or_insert_with(|| format!("at the end, {fault}"));
        }
    }
}

/// Counts a fault when there are not so many keys as there should be.
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
