//! `--find-rate`: search for the highest rate of an open loop at which a store keeps a latency and leaves little deferred
//! work.
//!
//! Halves or raises the rate, from near the throughput of a closed loop on, until one rate is kept and one is too high.
//! Then a bisection between these two, and a longer trial at 95% of what was found, because the stalls of a store often
//! come after the seconds of a short trial. Each trial has a process and a load of its own.

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
/// Maximum number of rates that are tried until one is kept and one is too high. The bisection between two such rates
/// always goes on to [`CLOSE`].
const MOST_RATES: usize = 16;
/// Largest factor by which the rate is raised after one that was kept, while none is known to be too high.
const MAX_RAISE_FACTOR: f64 = 2.0;
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
/// rate, with the search and with the largest disturbance of the trials that decided the rate; a failed report if a trial
/// failed, and "unsupported" if no rate keeps the goal; the reason then names the disturbance if it is above
/// `foreign_limit` (`--foreign`), from 0 to 1.
pub fn search(
    goal: LatencyGoal,
    lengths: Lengths,
    foreign_limit: Option<f64>,
    trial: &mut Trial<'_>,
) -> Reported {
    let mut search = Search { goal, foreign_limit, trial, trials: Vec::new() };
    search.run(lengths).unwrap_or_else(|other| *other)
}

/// Reports of the cells of a trial, and how much other programs disturbed it.
type Reported = (Vec<Report>, Option<Disturbance>);

struct Search<'s, 't> {
    goal: LatencyGoal,
    foreign_limit: Option<f64>,
    trial: &'s mut Trial<'t>,
    trials: Vec<RateTrial>,
}

/// Result of a bisection.
struct Bisected {
    /// Highest rate that was kept, in operations per second; 0 if none was.
    highest: f64,
    /// Reason why the lowest rate that was too high was so; `None` if none was.
    limited_by: Option<RateLimit>,
    /// Disturbance of the trial in which the highest rate was kept, and of those of the lowest that was too high.
    disturbances: [Option<Disturbance>; 2],
}

impl Search<'_, '_> {
    /// Searches the rate. Returns as an error the reports of a trial that has failed.
    fn run(&mut self, lengths: Lengths) -> Result<Reported, Box<Reported>> {
        let closed = self.measure(None, lengths.trial)?;
        let rate = FIRST_TRIED * measurement(&closed).map_or(0.0, |found| rate_of(found, lengths.trial));
        let Bisected { highest, limited_by, disturbances } = self.bisect(rate, lengths.trial)?;
        if interrupt::received().is_some() {
            return Ok(closed);
        }
        let mut disturbances = disturbances.to_vec();
        if highest == 0.0 {
            return Ok(self.none(closed.0, disturbances));
        }
        let Some(mut limited_by) = limited_by else {
            let reason = format!(
                "no rate up to {highest:.0} operations per second was too high, far above the rate of the closed loop, \
                 which something has slowed; repeat the search on a quiet machine"
            );
            return Err(Box::new(with_outcome(closed, &Outcome::Failed(reason))));
        };
        let mut rate = highest * VERIFIED_AT;
        for _ in 0..MOST_VERIFICATIONS {
            // Once: of two trials the better one would hide a stall that comes in every second one.
            let (mut reported, limit) = self.limit_once(rate, lengths.verification)?;
            disturbances.push(reported.1);
            let Some(limit) = limit else {
                self.conclude(&mut reported, rate, highest, limited_by);
                return Ok((reported.0, Disturbance::largest(disturbances)));
            };
            if interrupt::received().is_some() {
                return Ok(reported);
            }
            limited_by = limit;
            rate *= LOWERED_BY;
        }
        Ok(self.none(closed.0, disturbances))
    }

    /// Tries rates, `rate` first, in trials of `seconds`, until one is kept, one is too high and both differ by at most
    /// 5%. Ends earlier if too many rates in a row were kept or too high, or after a signal to stop.
    fn bisect(&mut self, mut rate: f64, seconds: f64) -> Result<Bisected, Box<Reported>> {
        let (mut low, mut high, mut limited_by) = (0.0, f64::INFINITY, None);
        let (mut at_low, mut at_high) = (None, None);
        let (mut tried, mut raised_by) = (0, CLOSE);
        // The ratio is infinite while one of the two rates is unknown.
        while high / low > CLOSE && (tried < MOST_RATES || (low > 0.0 && high.is_finite())) {
            if interrupt::received().is_some() {
                break;
            }
            let (disturbance, limit) = self.limit(rate, seconds)?;
            match limit {
                None => (low, at_low) = (rate, disturbance),
                limit => (high, limited_by, at_high) = (rate, limit, disturbance),
            }
            tried += 1;
            rate = match (low, high) {
                (0.0, high) => high / 2.0,
                // A stall may have slowed the closed loop, a long one to a small part of its rate.
                (low, f64::INFINITY) => {
                    let raised = low * raised_by;
                    raised_by = (raised_by * raised_by).min(MAX_RAISE_FACTOR);
                    raised
                }
                (low, high) => (low * high).sqrt(),
            };
        }
        Ok(Bisected { highest: low, limited_by, disturbances: [at_low, at_high] })
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
    /// have disturbed it. Returns the largest disturbance of the trials that show whether the store keeps the rate, and the
    /// limit that it exceeded; `None` if it kept the rate.
    fn limit(
        &mut self,
        rate: f64,
        seconds: f64,
    ) -> Result<(Option<Disturbance>, Option<RateLimit>), Box<Reported>> {
        let ((_, first), limit) = self.limit_once(rate, seconds)?;
        if limit.is_none() || interrupt::received().is_some() {
            return Ok((first, limit));
        }
        let ((_, second), limit) = self.limit_once(rate, seconds)?;
        // The second trial alone shows that a rate is kept; both show that it is too high.
        let disturbance = if limit.is_none() { second } else { Disturbance::largest([first, second]) };
        Ok((disturbance, limit))
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
        let limit = limit_of(found, rate, seconds, self.goal);
        let latency_us = found.latency.at(self.goal.of);
        self.trials.push(RateTrial { rate, seconds, latency_us, limit, disturbance: reported.1 });
        Ok((reported, limit))
    }

    fn measure(&mut self, rate: Option<f64>, seconds: f64) -> Result<Reported, Box<Reported>> {
        let reported = (self.trial)(rate, seconds);
        let is_sound =
            |report: &Report| matches!(&report.outcome, Outcome::Measured(found) if found.is_sound());
        if reported.0.iter().all(is_sound) { Ok(reported) } else { Err(Box::new(reported)) }
    }

    /// Returns `reports` as unsupported, because no rate keeps the goal, with the largest of the `disturbances`. The reason
    /// names the trial with the lowest latency among those of the length of the last one: the longer ones, if only these
    /// did not keep the goal.
    fn none(&self, reports: Vec<Report>, disturbances: Vec<Option<Disturbance>>) -> Reported {
        let goal = self.goal;
        let seconds = self.trials.last().map_or(0.0, |trial| trial.seconds);
        let trials = || self.trials.iter().filter(|trial| trial.seconds >= seconds);
        let least = trials().map(|trial| trial.rate).fold(f64::INFINITY, f64::min);
        let limited = trials().filter_map(|trial| Some((trial, trial.limit?)));
        let best = limited.min_by(|(one, _), (other, _)| one.latency_us.total_cmp(&other.latency_us));
        let best = best.map_or_else(String::new, |(trial, limit)| {
            format!(
                ": at {:.1} operations per second, the best of the rates down to {least:.1}, it is limited by {limit} ({} \
                 {:.0} us)",
                trial.rate, goal.of, trial.latency_us
            )
        });
        let disturbance = Disturbance::largest(disturbances);
        let above = self.foreign_limit.zip(disturbance).filter(|(limit, found)| found.part() > *limit);
        let doubt = above.map_or_else(String::new, |(limit, found)| {
            format!(
                "; other programs or virtual machines used up to {:.0}% of the CPUs in the trials that decided this, and \
                 --foreign allows {:.0}%: repeat the search on a quiet machine",
                found.part() * 100.0,
                limit * 100.0
            )
        });
        let reason = format!("no rate keeps {}{best}{doubt}", number_format::latency_goal(goal));
        with_outcome((reports, disturbance), &Outcome::Unsupported(reason))
    }
}

/// Returns reports of the cells of `reported`, each with `outcome` in place of its own.
fn with_outcome(reported: Reported, outcome: &Outcome) -> Reported {
    let replaced = |report: Report| Report { outcome: outcome.clone(), ..report };
    (reported.0.into_iter().map(replaced).collect(), reported.1)
}

fn measurement(reported: &Reported) -> Option<&Measurement> {
    match &reported.0.first()?.outcome {
        Outcome::Measured(measurement) => Some(measurement),
        Outcome::Failed(_) | Outcome::Unsupported(_) => None,
    }
}

/// Returns the operations per second of a trial of `seconds`. The last operations may end after this time, which
/// [`Measurement::seconds`] contains, but no thread starts one after it.
fn rate_of(found: &Measurement, seconds: f64) -> f64 {
    found.operations as f64 / seconds
}

/// Returns why a rate is too high, given the measurement of a trial of `seconds` at this rate; `None` if it is not.
fn limit_of(found: &Measurement, rate: f64, seconds: f64, goal: LatencyGoal) -> Option<RateLimit> {
    // One operation more may not have ended.
    if ((found.operations + 1) as f64) < COMPLETED * rate * seconds {
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
            // The first operation starts at once, at each rate.
            operations: ((rate * seconds) as u64).max(1),
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
        search(GOAL, Lengths::of(1.0), None, &mut trial).0.remove(0).outcome
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
        for slowed in [15_000.0, 10_000.0, 100.0] {
            let outcome = found(|rate, seconds| {
                measured(rate, seconds, if rate.is_none() { slowed } else { 20_000.0 }, 10.0)
            });
            let (rate, search) = search_of(&outcome);
            assert!(search.highest >= 18_000.0 && rate <= 20_000.0, "{slowed}: {outcome:?}");
            assert!(lowest_refused(&search) <= 1.0501 * search.highest, "{slowed}: {outcome:?}");
        }
    }

    /// Lowest rate that was too high in a trial of the bisection.
    fn lowest_refused(search: &RateSearch) -> f64 {
        let short = search.trials.iter().filter(|trial| trial.seconds < 2.0 && trial.limit.is_some());
        short.map(|trial| trial.rate).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn a_rate_far_below_the_closed_loop_is_found_within_5_percent() {
        let outcome = found(|rate, seconds| {
            let is_slow = rate.is_none_or(|rate| rate > 20.0);
            measured(rate, seconds, 20_000.0, if is_slow { 9e3 } else { 1e3 })
        });
        let (_, search) = search_of(&outcome);
        assert!(search.highest <= 20.0 && lowest_refused(&search) <= 1.0501 * search.highest, "{search:?}");
    }

    #[test]
    fn no_limit_is_named_that_no_trial_has_met() {
        let outcome = found(|rate, seconds| {
            measured(rate, seconds, if rate.is_none() { 10.0 } else { f64::INFINITY }, 10.0)
        });
        let Outcome::Failed(reason) = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("operations per second was too high"), "{reason}");
    }

    #[test]
    fn operations_that_end_after_the_trial_lower_no_rate() {
        let trial = |operations| Measurement {
            operations,
            seconds: 10.4,
            latency: Latency { count: 1, p99_us: 1e3, ..Latency::default() },
            ..Measurement::default()
        };
        assert_eq!(limit_of(&trial(10_000), 1000.0, 10.0, GOAL), None);
        assert_eq!(limit_of(&trial(9_700), 1000.0, 10.0, GOAL), Some(RateLimit::Capacity));
        assert!((rate_of(&trial(10_000), 10.0) - 1000.0).abs() < 1e-9);
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

    /// Searches with a store of which other virtual machines slow the trials that `is_disturbed` returns `true` for, given
    /// their number and their length. Returns the search, and the disturbance of its result.
    fn disturbed_search(
        is_disturbed: impl Fn(usize, f64) -> bool,
        slowed: f64,
    ) -> (RateSearch, Option<Disturbance>) {
        let mut trials = 0;
        let mut trial = |rate: Option<f64>, seconds: f64| {
            trials += 1;
            let is_slow = is_disturbed(trials, seconds);
            let measurement = measured(rate, seconds, if is_slow { slowed } else { 20_000.0 }, 10.0);
            let report = Report { cell: "cell".into(), outcome: Outcome::Measured(measurement) };
            (vec![report], Some(if is_slow { DISTURBED } else { CALM }))
        };
        let (mut reports, disturbance) = search(GOAL, Lengths::of(1.0), None, &mut trial);
        (search_of(&reports.remove(0).outcome).1, disturbance)
    }

    const CALM: Disturbance = Disturbance { foreign: 0.01, stolen: 0.0 };
    const DISTURBED: Disturbance = Disturbance { foreign: 0.0, stolen: 0.4 };

    #[test]
    fn interference_in_deciding_trials_marks_the_result() {
        let (search, disturbance) = disturbed_search(|_, seconds| seconds < 2.0, 5000.0);
        assert!(search.highest < 5200.0, "{search:?}");
        assert_eq!(disturbance, Some(DISTURBED));
        for trial in &search.trials {
            let expected = if trial.seconds < 2.0 { DISTURBED } else { CALM };
            assert_eq!(trial.disturbance, Some(expected), "{search:?}");
        }
        // The longer trial is slowed once, and a lower rate is verified.
        let long = std::cell::Cell::new(0);
        let is_first_long = |_: usize, seconds: f64| {
            long.set(long.get() + usize::from(seconds > 2.0));
            seconds > 2.0 && long.get() == 1
        };
        let (search, disturbance) = disturbed_search(is_first_long, 5000.0);
        assert_eq!((disturbance, long.get()), (Some(DISTURBED), 2), "{search:?}");
    }

    /// Higher rates are kept later, in calm trials.
    #[test]
    fn interference_in_other_trials_does_not_mark_the_result() {
        let (search, disturbance) = disturbed_search(|trial, _| trial <= 2, 20_000.0);
        assert_eq!(search.trials[0].disturbance, Some(DISTURBED));
        assert!(search.highest > search.trials[0].rate, "{search:?}");
        assert_eq!(disturbance, Some(CALM));
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
    fn interference_is_named_where_no_rate_keeps_the_latency() {
        let mut trial = |rate: Option<f64>, seconds: f64| {
            let outcome = Outcome::Measured(measured(rate, seconds, 20_000.0, 1e6));
            (vec![Report { cell: "cell".into(), outcome }], Some(DISTURBED))
        };
        let mut reason = |limit| {
            let outcome = search(GOAL, Lengths::of(1.0), limit, &mut trial).0.remove(0).outcome;
            let Outcome::Unsupported(reason) = outcome else { panic!("{outcome:?}") };
            reason
        };
        let disturbed = reason(Some(0.1));
        assert!(disturbed.contains("used up to 40% of the CPUs"), "{disturbed}");
        assert!(disturbed.contains("--foreign allows 10%"), "{disturbed}");
        for limit in [Some(0.4), None] {
            let undisturbed = reason(limit);
            assert!(undisturbed.ends_with("limited by latency (p99 1000000 us)"), "{undisturbed}");
        }
    }

    #[test]
    fn the_best_trial_is_named_where_no_rate_keeps_the_latency() {
        // The latency falls to 6 ms, and rises again at lower rates.
        let outcome = found(|rate, seconds| {
            let p99_us = match rate.unwrap_or(f64::INFINITY) {
                fast if fast > 1000.0 => 1e5,
                some if some > 500.0 => 6e3,
                _ => 8e3,
            };
            measured(rate, seconds, 20_000.0, p99_us)
        });
        let Outcome::Unsupported(reason) = outcome else { panic!("{outcome:?}") };
        assert!(reason.starts_with("no rate keeps p99<5.00 ms: at 593."), "{reason}");
        assert!(reason.ends_with("limited by latency (p99 6000 us)"), "{reason}");
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
