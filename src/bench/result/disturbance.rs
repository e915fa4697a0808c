//! Use of the CPUs by other processes and machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time that other programs and machines took during a job, as parts of all CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Part of other programs on this machine.
    pub foreign: f64,
    /// Part of other virtual machines on the same host.
    pub stolen: f64,
}

impl Disturbance {
    /// Returns the share of CPU time that other processes and other virtual machines took together, from 0 to
    /// 1.
    pub fn part(&self) -> f64 {
        self.foreign + self.stolen
    }
}
