//! Interference: CPU time that others took while a cell or a block was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time that other processes and virtual machines took, as shares of the time of all CPUs. The time covered is that
/// of the whole process of a cell, or of all processes of a block: from the load of the store to the verification of its
/// values. What disturbs only a short measurement after a long load is a small part of it.
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

    /// Returns the one with the largest share; `None` if all are unknown.
    pub fn largest(all: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        all.into_iter().flatten().max_by(|one, other| one.part().total_cmp(&other.part()))
    }
}
