//! Use of the CPUs by other processes and virtual machines during a measurement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time that other processes and virtual machines took during a measurement, as shares of the time of all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Share of the CPU time that other processes of this machine took, from 0 to 1.
    pub foreign: f64,
    /// Share of the CPU time that other virtual machines on the same host took (steal time), from 0 to 1.
    pub stolen: f64,
}

impl Disturbance {
    /// Returns the share of the CPU time, from 0 to 1, that other processes and virtual machines took together.
    pub fn part(&self) -> f64 {
        self.foreign + self.stolen
    }
}
