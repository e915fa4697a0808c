//! Use of the CPUs by other processes and machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What others took of all processors in the course of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Part that other programs of this machine took.
    pub foreign: f64,
    /// Part that other machines took from this one, a virtual one.
    pub stolen: f64,
}

impl Disturbance {
    /// Returns the share of CPU time that other processes and other virtual machines took together, from 0 to
    /// 1.
    pub fn part(&self) -> f64 {
        self.foreign + self.stolen
    }
}
