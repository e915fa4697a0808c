//! Latency that must be kept (`--find-rate`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Limit on the latency in a search for a rate: the percentile `of` must be below `below_us`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyGoal {
    /// Percentile of the latency, or its maximum.
    pub of: Percentile,
    /// Latency in microseconds below which it must be.
    pub below_us: f64,
}

/// Percentile of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Percentile {
    /// Median.
    #[serde(rename = "p50")]
    P50,
    /// 90th percentile.
    #[serde(rename = "p90")]
    P90,
    /// 99th percentile.
    #[serde(rename = "p99")]
    P99,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    P999,
    /// Largest latency.
    #[serde(rename = "max")]
    Max,
}

impl Percentile {
    /// All percentiles, each with its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::P50, "p50"),
        (Self::P90, "p90"),
        (Self::P99, "p99"),
        (Self::P999, "p99.9"),
        (Self::Max, "max"),
    ];
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(one, _)| one == self).map_or("", |(_, name)| *name);
        f.write_str(name)
    }
}
