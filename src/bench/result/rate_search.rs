//! Search for the highest rate at which a store keeps a latency (`--find-rate`).

use super::{disturbance::Disturbance, latency_goal::LatencyGoal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Result of a search for the highest rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateSearch {
    /// Limit on the latency that a rate had to keep.
    pub goal: LatencyGoal,
    /// Highest rate, in operations per second, at which a trial of the bisection kept the goal. The measurement, which
    /// verifies it, is at 95% of this rate or, if longer trials did not keep the goal there, at a lower one.
    pub highest: f64,
    /// Reason why the next higher rate that was tried was too high.
    pub limited_by: RateLimit,
    /// All trials, in their order, with those that verified the rate at the end.
    pub trials: Vec<RateTrial>,
}

/// Open loop at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateTrial {
    /// Requested start rate in operations per second. An overloaded store starts fewer.
    pub rate: f64,
    /// Length of the trial in seconds.
    pub seconds: f64,
    /// Measured latency at the percentile of the goal, in microseconds.
    pub latency_us: f64,
    /// Reason why the rate was too high; absent if the store kept it.
    pub limit: Option<RateLimit>,
    /// CPU time that other processes and virtual machines took during the trial, with its load; absent if unknown, and in
    /// results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
}

/// Reason why a rate is too high for a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateLimit {
    /// The store completed less than 98% of the operations that were started per second.
    Capacity,
    /// The latency was not below that of the goal.
    Latency,
    /// The deferred work after the last operation took more than a fifth of the measured time.
    DeferredWork,
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity => f.write_str("the capacity of the store"),
            Self::Latency => f.write_str("latency"),
            Self::DeferredWork => f.write_str("deferred work"),
        }
    }
}
