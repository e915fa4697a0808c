//! `--find-rate`: search for the highest rate of an open loop at which a store keeps a latency and leaves little deferred
//! work.
//!
//! Bisection between 0 and the lowest rate that is too high, which begins near the throughput of a closed loop, then a
//! longer trial at 95% of what was found, because the stalls of a store often come after the seconds of a short trial.
//! Each trial has a process and a load of its own.

use super::{
    interrupt,
    job_messages::{Job, Report},
};
use crate::bench::result::{
    Disturbance, Measurement, Outcome, Workload,
    latency_goal::LatencyGoal,
    number_format,
    rate_search::{RateLimit, RateSearch, RateTrial},
};

/// Largest ratio of the lowest rate that was too high to the highest that was kept, at which the bisection ends.
const CLOSE: f64 = 1.05;
/// Maximum number of rates that the bisection tries.
const MOST_RATES: usize = 12;
/// First rate that is tried, as a fraction of the throughput of a closed loop.
const FIRST_TRIED: f64 = 0.95;
/// Fraction of the highest rate that was kept at which the longer trial verifies it.
const VERIFIED_AT: f64 = 0.95;
/// Factor by which the rate is lowered after a longer trial at which it was too high.
const LOWERED_BY: f64 = 0.8;
/// Maximum number of longer trials.
const MOST_VERIFICATIONS: usize = 10;
/// Fraction of the started operations that must be completed.
const COMPLETED: f64 = 0.98;
/// Largest time of the work after the last operation, as a fraction of the time before.
const DEFERRED: f64 = 0.2;

/// Lengths of the trials of a search, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Length of the trials of the bisection.
    pub trial: f64,
    /// Length of the trials that verify the rate.
    pub verification: f64,
}

impl Lengths {
    /// Returns the lengths for trials of `seconds` (`--seconds`).
    pub fn of(seconds: f64) -> Self {
        Self { trial: seconds, verification: 6.0 * seconds }
    }
}

/// Measures one trial, in a process of its own: at the rate, or without one in a closed loop, for the seconds.
pub type Trial<'t> = dyn FnMut(Option<f64>, f64) -> Reported + 't;

/// Returns the job of a trial at `rate` operations per second, without one in a closed loop, for `seconds`.
pub fn trial(job: &Job, rate: Option<f64>, seconds: f64) -> Job {
    let mut job = job.clone();
    for cell in &mut job.cells {
        cell.workload = Workload { rate, seconds: Some(seconds), rate_goal: None, ..cell.workload.clone() };
    }
    job
}

/// Searches the highest rate that keeps `goal` in trials of `lengths`. Returns the report of the trial that verified the
/// rate, with the search; a failed report if a trial failed, and "unsupported" if no rate keeps the goal.
pub fn search(goal: LatencyGoal, lengths: Lengths, trial: &mut Trial<'_>) -> Reported {
    let mut search = Search { goal, trial, trials: Vec::new() };
    search.run(lengths).unwrap_or_else(|other| *other)
}

/// Reports of the cells of a trial, and how much other programs disturbed it.
type Reported = (Vec<Report>, Option<Disturbance>);

struct Search<'s, 't> {
    goal: LatencyGoal,
    trial: &'s mut Trial<'t>,
    trials: Vec<RateTrial>,
}

impl Search<'_, '_> {
    /// Searches the rate. Returns as an error the reports of a trial that has failed.
    fn run(&mut self, lengths: Lengths) -> Result<Reported, Box<Reported>> {
        let closed = self.measure(None, lengths.trial)?;
        let mut rate = FIRST_TRIED * measurement(&closed).map_or(0.0, rate_of);
        let (mut low, mut high, mut limited_by) = (0.0, f64::INFINITY, RateLimit::Capacity);
        for _ in 0..MOST_RATES {
            if interrupt::received().is_some() {
                return Ok(closed);
            }
            match self.limit(rate, lengths.trial)?.1 {
                None => low = rate,
                Some(limit) => (high, limited_by) = (rate, limit),
            }
            if low > 0.0 && high / low <= CLOSE {
                break;
            }
            rate = match (low, high) {
                (0.0, high) => high / 2.0,
                // A stall may have slowed the closed loop.
                (low, f64::INFINITY) => low * CLOSE,
                (low, high) => (low * high).sqrt(),
            };
        }
        if low == 0.0 {
            return Ok(self.none(closed, high, limited_by));
        }
        let mut rate = low * VERIFIED_AT;
        for _ in 0..MOST_VERIFICATIONS {
            let (mut reported, limit) = self.limit(rate, lengths.verification)?;
            let Some(limit) = limit else {
                self.conclude(&mut reported, rate, low, limited_by);
                return Ok(reported);
            };
            if interrupt::received().is_some() {
                return Ok(reported);
            }
            limited_by = limit;
            rate *= LOWERED_BY;
        }
        Ok(self.none(closed, rate / LOWERED_BY, limited_by))
    }

    /// Adds the search to the measurement of the trial that verified `rate`.
    fn conclude(&self, verification: &mut Reported, rate: f64, highest: f64, limited_by: RateLimit) {
        let search = RateSearch { goal: self.goal, highest, limited_by, trials: self.trials.clone() };
        if let Some(Report { outcome: Outcome::Measured(measurement), .. }) = verification.0.first_mut() {
            measurement.throughput = rate;
            measurement.rate_search = Some(search);
        }
    }

    /// Measures trials at `rate`: one, or two if the rate is too high in the first, because a stall of the machine may
    /// have disturbed it. Returns the reports of the last one, and the limit that it exceeded; `None` if the store kept
    /// the rate.
    fn limit(&mut self, rate: f64, seconds: f64) -> Result<(Reported, Option<RateLimit>), Box<Reported>> {
        let mut measured = self.limit_once(rate, seconds)?;
        if measured.1.is_some() && interrupt::received().is_none() {
            measured = self.limit_once(rate, seconds)?;
        }
        Ok(measured)
    }

    /// Measures one trial at `rate`, and records it. Returns its reports, and the limit that it exceeded; `None` if the
    /// store kept the rate.
    fn limit_once(
        &mut self,
        rate: f64,
        seconds: f64,
    ) -> Result<(Reported, Option<RateLimit>), Box<Reported>> {
        let reported = self.measure(Some(rate), seconds)?;
        let Some(found) = measurement(&reported) else { return Err(Box::new(reported)) };
        let limit = limit_of(found, rate, self.goal);
        let latency_us = found.latency.at(self.goal.of);
        self.trials.push(RateTrial { rate, seconds, latency_us, limit });
        Ok((reported, limit))
    }

    fn measure(&mut self, rate: Option<f64>, seconds: f64) -> Result<Reported, Box<Reported>> {
        let reported = (self.trial)(rate, seconds);
        let is_sound =
            |report: &Report| matches!(&report.outcome, Outcome::Measured(found) if found.is_sound());
        if reported.0.iter().all(is_sound) { Ok(reported) } else { Err(Box::new(reported)) }
    }

    /// Returns the reports of `reported` as unsupported, because no rate down to `least` keeps the goal.
    fn none(&self, reported: Reported, least: f64, limit: RateLimit) -> Reported {
        let latency = self.trials.last().map_or(0.0, |trial| trial.latency_us);
        let goal = self.goal;
        let reason = format!(
            "no rate keeps {}: at {least:.0} operations per second it is limited by {limit} ({} {latency:.0} us)",
            number_format::latency_goal(goal),
            goal.of
        );
        let unsupported = |report: Report| Report { outcome: Outcome::Unsupported(reason.clone()), ..report };
        (reported.0.into_iter().map(unsupported).collect(), reported.1)
    }
}

fn measurement(reported: &Reported) -> Option<&Measurement> {
    match &reported.0.first()?.outcome {
        Outcome::Measured(measurement) => Some(measurement),
        Outcome::Failed(_) | Outcome::Unsupported(_) => None,
    }
}

/// Returns the operations per second of a trial.
fn rate_of(found: &Measurement) -> f64 {
    found.operations as f64 / found.seconds
}

/// Returns why a rate is too high, given the measurement of a trial at this rate; `None` if it is not.
fn limit_of(found: &Measurement, rate: f64, goal: LatencyGoal) -> Option<RateLimit> {
    // One operation more may not have ended.
    if (found.operations + 1) as f64 / found.seconds < COMPLETED * rate {
        return Some(RateLimit::Capacity);
    }
    if found.latency.at(goal.of) >= goal.below_us {
        return Some(RateLimit::Latency);
    }
    let defers = found.settle_seconds.is_some_and(|seconds| seconds > DEFERRED * found.seconds);
    defers.then_some(RateLimit::DeferredWork)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::{Latency, latency_goal::Percentile};

    const GOAL: LatencyGoal = LatencyGoal { of: Percentile::P99, below_us: 5e3 };

    /// Measurement of a store that completes at most `capacity` operations per second, and whose p99 is `p99_us`.
    fn measured(rate: Option<f64>, seconds: f64, capacity: f64, p99_us: f64) -> Measurement {
        let rate = rate.unwrap_or(f64::INFINITY).min(capacity);
        Measurement {
            operations: (rate * seconds) as u64,
            seconds,
            throughput: rate,
            latency: Latency { count: 1, p99_us, ..Latency::default() },
            ..Measurement::default()
        }
    }

    /// Searches with a store that `measure` describes, and returns the report.
    fn found(mut measure: impl FnMut(Option<f64>, f64) -> Measurement) -> Outcome {
        let mut trial = |rate: Option<f64>, seconds: f64| {
            let outcome = Outcome::Measured(measure(rate, seconds));
            (vec![Report { cell: "cell".into(), outcome }], None)
        };
        search(GOAL, Lengths::of(1.0), &mut trial).0.remove(0).outcome
    }

    fn search_of(outcome: &Outcome) -> (f64, RateSearch) {
        let Outcome::Measured(found) = outcome else { panic!("{outcome:?}") };
        (found.throughput, found.rate_search.clone().unwrap())
    }

    #[test]
    fn the_highest_rate_whose_latency_is_kept_is_found_and_verified() {
        let outcome = found(|rate, seconds| {
            let is_slow = rate.is_none_or(|rate| rate > 7000.0);
            measured(rate, seconds, 20_000.0, if is_slow { 9e3 } else { 1e3 })
        });
        let (rate, search) = search_of(&outcome);
        assert!((6650.0..=7000.0).contains(&search.highest), "{search:?}");
        assert!((rate / search.highest - 0.95).abs() < 1e-9, "{rate}");
        assert_eq!(search.limited_by, RateLimit::Latency);
        let last = search.trials.last().unwrap();
        assert_eq!((last.rate, last.seconds, last.limit), (rate, 6.0, None));
        // Each rate that was too high was tried again.
        let too_high = search.trials.iter().filter(|trial| trial.limit.is_some()).count();
        assert!(too_high.is_multiple_of(2) && too_high > 0, "{search:?}");
    }

    #[test]
    fn a_store_that_keeps_the_latency_at_all_rates_is_limited_by_its_capacity() {
        let outcome = found(|rate, seconds| measured(rate, seconds, 20_000.0, 10.0));
        let (rate, search) = search_of(&outcome);
        assert!((18_000.0..=20_000.0).contains(&rate), "{rate}");
        assert_eq!(search.limited_by, RateLimit::Capacity);
        // A stall has slowed the closed loop.
        let outcome = found(|rate, seconds| {
            measured(rate, seconds, if rate.is_none() { 15_000.0 } else { 20_000.0 }, 10.0)
        });
        assert!((18_000.0..=20_000.0).contains(&search_of(&outcome).0), "{outcome:?}");
    }

    #[test]
    fn one_stall_of_the_machine_lowers_no_rate() {
        let mut trials = 0;
        let outcome = found(|rate, seconds| {
            trials += 1;
            measured(rate, seconds, 20_000.0, if trials == 2 { 1e6 } else { 10.0 })
        });
        assert!(search_of(&outcome).0 > 17_000.0);
    }

    #[test]
    fn a_rate_that_a_longer_trial_refutes_is_lowered() {
        // Above 5000 per second, the store defers work, which shows in a longer trial only.
        let outcome = found(|rate, seconds| Measurement {
            settle_seconds: Some(if seconds > 5.0 && rate > Some(5000.0) { 3.0 } else { 0.1 }),
            ..measured(rate, seconds, 20_000.0, 10.0)
        });
        let (rate, search) = search_of(&outcome);
        assert!((4000.0..=5000.0).contains(&rate), "{rate}");
        assert_eq!(search.limited_by, RateLimit::DeferredWork);
    }

    #[test]
    fn no_rate_is_found_where_none_keeps_the_latency() {
        let outcome = found(|rate, seconds| measured(rate, seconds, 20_000.0, 1e6));
        let Outcome::Unsupported(reason) = outcome else { panic!("{outcome:?}") };
        assert!(reason.starts_with("no rate keeps p99<5.00 ms: at "), "{reason}");
        assert!(reason.ends_with("limited by latency (p99 1000000 us)"), "{reason}");
    }

    #[test]
    fn a_failed_trial_ends_the_search() {
        let outcome = found(|rate, seconds| Measurement {
            wrong_values: u64::from(rate.is_some()),
            ..measured(rate, seconds, 20_000.0, 1.0)
        });
        assert!(
            matches!(outcome, Outcome::Measured(found) if found.rate_search.is_none() && !found.is_sound())
        );
    }
}
