//! Soak: what a store did in each second of a long measurement, and what follows from it.

use super::statistics::{holm, mean, real, steady_state, trend::Trend};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the series of operations that ended in each second.
pub const OPERATIONS: &str = "operations";
/// Name of the series of median latencies, in microseconds.
pub const P50: &str = "p50_us";
/// Name of the series of 99th percentiles of the latency, in microseconds.
pub const P99: &str = "p99_us";
/// Name of the series of largest latencies, in microseconds.
pub const MAX: &str = "max_us";
/// Name of the series of bytes that the process passed to write calls in each second.
pub const WRITTEN: &str = "written_bytes";
/// Name of the series of bytes on disk that the store's files use at the end of each second.
pub const FILES: &str = "file_bytes";
/// Name of the series of resident memory without a file behind it, at the end of each second, in bytes.
pub const ANONYMOUS: &str = "anonymous_bytes";
/// Name of the series of resident memory, with pages of mapped files, at the end of each second, in bytes.
pub const RESIDENT: &str = "resident_bytes";
/// Start of the names of series of CPU time in milliseconds of each second; the name of the threads follows.
pub const CPU: &str = "cpu_ms/";
/// Start of the names of series of the engine's gauges at the end of each second; the name of the gauge follows.
pub const ENGINE: &str = "engine/";

/// Number of seconds of which means are taken before the steady state is looked for, because single seconds vary.
const MEAN_OF: usize = 5;
/// Shortest soak, in seconds, from which anything follows: that with enough means to look for the steady state.
const SHORTEST: usize = MEAN_OF * steady_state::FEWEST;
/// Number of parts of the last half of a soak whose means are tested for growth.
const PARTS: usize = 20;
/// Significance level of the test of growth, over all backlogs of a soak.
const LEVEL: f64 = 0.05;
/// Smallest growth during the last half, as a fraction of the mean, that counts: a test finds any growth if the series
/// is smooth enough.
const LEAST_GROWTH: f64 = 0.05;

/// Values of each second of a soak (`--minutes`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Soak {
    /// Values of each whole second of the measured time by the name of the series: `operations`, `p50_us`, `p99_us`,
    /// `max_us`, `written_bytes` (of the second), `file_bytes`, `anonymous_bytes`, `resident_bytes` (at its end),
    /// `cpu_ms/THREADS` (CPU time of the threads with this name) and `engine/GAUGE`. `null`: not known, or no operation
    /// ended in this second.
    pub series: BTreeMap<String, Vec<Option<f64>>>,
    /// Names of the series that show deferred work of the store, or space that it has not given back. One that
    /// grows to the end means that the rate of the soak cannot go on.
    pub backlogs: Vec<String>,
}

/// Conclusions from a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Length of the start, in seconds, that does not belong to the steady state; `None` if no steady state was reached, or
    /// if the soak was too short to tell.
    pub steady_from: Option<usize>,
    /// Operations per second in the steady state; without one, in the last half.
    pub throughput: f64,
    /// Fraction of all seconds, from 0 to 1, in which no operation ended.
    pub idle: f64,
    /// Median over the seconds of the steady state (or last half) of the 99th percentile of the latency in each, in
    /// microseconds; `None` without operations. Stalls of some seconds do not show in it.
    pub p99_us: Option<f64>,
    /// Backlogs that grew during the last half; `None` if the soak was too short to tell.
    pub growing: Option<Vec<Growth>>,
}

/// Growth of a backlog during the last half of a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Name of the series.
    pub series: String,
    /// Growth per minute, in the unit of the series.
    pub per_minute: f64,
}

impl Soak {
    /// Returns the values of the series `name`; empty if there is none.
    pub fn values(&self, name: &str) -> &[Option<f64>] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of seconds of the soak.
    pub fn seconds(&self) -> usize {
        self.values(OPERATIONS).len()
    }

    /// Returns the conclusions from the series.
    pub fn findings(&self) -> Findings {
        let operations: Vec<f64> = self.values(OPERATIONS).iter().map(|value| value.unwrap_or(0.0)).collect();
        let means: Vec<f64> = operations.chunks_exact(MEAN_OF).filter_map(mean).collect();
        let steady_from = steady_state::start(&means).map(|start| start * MEAN_OF);
        let from = steady_from.unwrap_or(operations.len() / 2);
        let steady = |name: &str| {
            let mut values: Vec<f64> = self.values(name).iter().skip(from).copied().flatten().collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let p99s = steady(P99);
        let idle = operations.iter().filter(|count| **count == 0.0).count();
        Findings {
            steady_from,
            throughput: mean(operations.get(from..).unwrap_or_default()).unwrap_or(0.0),
            idle: real(idle) / real(operations.len().max(1)),
            p99_us: p99s.get(p99s.len() / 2).copied(),
            growing: self.growing(),
        }
    }

    /// Returns the backlogs that grew during the last half of the soak, by a test of the means of its parts that covers
    /// all backlogs together; `None` if the soak is shorter than [`SHORTEST`].
    fn growing(&self) -> Option<Vec<Growth>> {
        let all = self.seconds();
        if all < SHORTEST {
            return None;
        }
        let half = all / 2;
        let mut found: Vec<(&String, Trend, f64)> = Vec::new();
        for name in &self.backlogs {
            let values = self.values(name);
            let part = |part: usize| {
                let (from, to) = (all - half + half * part / PARTS, all - half + half * (part + 1) / PARTS);
                let known: Vec<f64> = values.get(from..to)?.iter().copied().flatten().collect();
                mean(&known)
            };
            let means: Vec<f64> = (0..PARTS).filter_map(part).collect();
            found.extend(Trend::of(&means).zip(mean(&means)).map(|(trend, level)| (name, trend, level)));
        }
        let levels = holm::levels(&found.iter().map(|(_, trend, _)| trend.growth).collect::<Vec<_>>(), LEVEL);
        let grown = found.into_iter().zip(levels).filter(|((_, trend, level), limit)| {
            trend.growth < *limit && trend.slope * real(PARTS) >= LEAST_GROWTH * level
        });
        let growth = |((name, trend, _), _): ((&String, Trend, f64), f64)| Growth {
            series: name.clone(),
            per_minute: trend.slope * real(PARTS) / real(half) * 60.0,
        };
        Some(grown.map(growth).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soak(seconds: usize, series: &[(&str, &dyn Fn(usize) -> f64)], backlogs: &[&str]) -> Soak {
        let values = |(name, of): &(&str, &dyn Fn(usize) -> f64)| {
            ((*name).to_owned(), (0..seconds).map(|second| Some(of(second))).collect())
        };
        Soak {
            series: series.iter().map(values).collect(),
            backlogs: backlogs.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn fast_start_and_idle_seconds_are_found() {
        let rate = |second: usize| match second {
            0..60 => 900.0,
            // Compactions stop the writes of one second in ten.
            _ if second.is_multiple_of(10) => 0.0,
            _ => 200.0,
        };
        let latency = |second: usize| if second < 60 { 10.0 } else { 80.0 };
        let findings = soak(600, &[(OPERATIONS, &rate), (P99, &latency)], &[]).findings();
        let from = findings.steady_from.unwrap();
        assert!((60..=80).contains(&from), "{findings:?}");
        assert!((findings.throughput - 180.0).abs() < 2.0 && findings.p99_us == Some(80.0), "{findings:?}");
        assert!((findings.idle - 0.09).abs() < 1e-9, "{findings:?}");
    }

    #[test]
    fn only_backlogs_that_grow_to_the_end_are_found() {
        let constant: &dyn Fn(usize) -> f64 = &|_| 100.0;
        let grows: &dyn Fn(usize) -> f64 = &|second| 1e6 + 1e4 * second as f64;
        // Grows by 10 in each half, less than 5% of the mean.
        let hardly: &dyn Fn(usize) -> f64 = &|second| 1e4 + second as f64 / 30.0;
        let saw: &dyn Fn(usize) -> f64 = &|second| (second % 15) as f64;
        let ends: &dyn Fn(usize) -> f64 = &|second| 10.0 * second.min(280) as f64;
        let series =
            [(OPERATIONS, constant), ("grows", grows), ("hardly", hardly), ("saw", saw), ("ends", ends)];
        let names = ["grows", "hardly", "saw", "ends"];
        let growing = soak(600, &series, &names).findings().growing.unwrap();
        assert_eq!(growing.iter().map(|growth| growth.series.as_str()).collect::<Vec<_>>(), ["grows"]);
        assert!((growing[0].per_minute - 6e5).abs() < 1.0, "{growing:?}");
        // No backlog is judged that is not named.
        assert_eq!(soak(600, &series, &[]).findings().growing, Some(Vec::new()));
        let short = soak(49, &series, &names).findings();
        assert_eq!((short.steady_from, short.growing), (None, None));
        let enough = soak(50, &series, &names).findings();
        assert!(enough.steady_from == Some(0) && enough.growing.is_some(), "{enough:?}");
    }

    #[test]
    fn nothing_follows_from_no_second() {
        let findings = Soak::default().findings();
        assert_eq!((findings.steady_from, findings.p99_us, findings.growing), (None, None, None));
        assert_eq!((findings.throughput, findings.idle), (0.0, 0.0));
    }
}
