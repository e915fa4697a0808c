//! Pilot of an interleaved comparison: finds the length of slices, and the time at their start that does not count.
//!
//! A store whose working set is in the L2 cache is fast again 2 ms after another store ran; one whose working set is in
//! the L3 cache loses 15% to 20% over 20 ms. So the length is measured, not fixed.

use super::{
    block::{MIN_WRITE_BACK_SLICE_SECONDS, Sliced, nanoseconds},
    slice::{BIN, Slice, SliceReport},
};
use crate::bench::result::{
    interleaved_comparison::{LIKE_ALONE, LessWork, PilotRate, Slicing, Work},
    statistics::real,
};

/// Length in nanoseconds of the slice that shows the rate of a store that runs alone, unless a block has less time.
const ALONE_NANOSECONDS: u64 = 2_000_000_000;
/// Minimum length of a slice, in nanoseconds.
const MIN_SLICE: u64 = 100_000_000;
/// Maximum length in nanoseconds to which the pilot lengthens slices until their discarded start is short enough and
/// the rates in turn and alone agree. Slices that begin longer keep their length.
const MAX_DOUBLED: u64 = 800_000_000;
/// Minimum length of a slice, as a multiple of the time at its start that does not count; for a workload that writes,
/// also as a multiple of the longest operation of a store that runs alone, up to [`Requirements::max_slice_seconds`].
const MIN_SLICE_MULTIPLE: u64 = 10;
/// Minimum running time of each store in the pilot's slices in turn, in nanoseconds.
const MIN_IN_TURN_NANOSECONDS: u64 = 800_000_000;
/// Minimum number of slices in turn of each store in the pilot, if the workload only reads.
const MIN_TURNS: u32 = 5;
/// Minimum number of slices in turn of each store in the pilot, if the workload writes: its slices may be long.
pub const MIN_WRITE_TURNS: u32 = 2;
/// Largest relative difference between the rates in the first and in the second half of a slice, without its discarded
/// start, for which that start counts as long enough.
const MAX_SETTLED_DIFFERENCE: f64 = 0.02;
/// Multiple of the median time of the stores for the work of a block, above which a store does less work.
const SLOW_MEDIAN_MULTIPLE: f64 = 20.0;
/// Multiple of the time of the fastest store for the work of a block, up to which a store does all of the work, whatever
/// the budget is.
const NOT_SLOW: f64 = 5.0;

/// Fraction of the CPUs that a workload can use, from which on the CPU limits a store that keeps them busy.
const LIMITED_BY_CPU: f64 = 0.5;

/// Requirements of a comparison's workload on its slices and blocks.
#[derive(Clone, Copy, Debug)]
pub struct Requirements {
    /// `true` if the workload writes.
    pub writes: bool,
    /// Minimum length, in seconds, of the slices of time in which the compared stores take turns.
    pub min_slice_seconds: f64,
    /// Maximum length in seconds to which long operations lengthen these slices.
    pub max_slice_seconds: f64,
    /// Running time of each store in a block in seconds; for a workload that writes, the minimum for the fastest store.
    pub seconds: f64,
    /// Running time of all stores in a block, in seconds, for which the budget suffices.
    pub block_seconds: f64,
    /// Number of CPUs that the threads of the workload can use; `None` if slices never wait for the device: no store has files,
    /// or `--quiet-wait` is 0.
    pub cpus: Option<f64>,
}

impl Requirements {
    /// Returns `true` if a store that writes kept few CPUs busy, so that the device, or another wait, limits its rate.
    /// `busy_cpus` are those of the stores that ran alone.
    fn limited_by_device(&self, busy_cpus: impl IntoIterator<Item = Option<f64>>) -> bool {
        let Some(cpus) = self.cpus.filter(|_| self.writes) else { return false };
        busy_cpus.into_iter().flatten().any(|busy| busy < LIMITED_BY_CPU * cpus)
    }
}

/// Runs each store alone, then all in turn in slices of growing length, and each alone again. Returns the length of
/// slices, the time at their start that does not count, and the work of a block; `None` if each store has failed.
/// `seconds` and `load_seconds` of the result are 0: the caller knows these times.
#[expect(clippy::cast_precision_loss, reason = "seconds")]
pub fn run_pilot<S: Sliced>(stores: &mut [S], needs: Requirements) -> Option<Slicing> {
    let mut pilots: Vec<Pilot> = Vec::new();
    // Unless stalls or write-back need longer slices, none is longer than a store runs in a block.
    let wanted_time = nanoseconds(needs.seconds).max(MIN_SLICE);
    let alone_time = ALONE_NANOSECONDS.min(wanted_time);
    let in_turn_time = MIN_IN_TURN_NANOSECONDS.min(wanted_time);
    let writes_back = |seconds: f64| needs.writes && seconds >= MIN_WRITE_BACK_SLICE_SECONDS;
    let slice = |length: u64, writes_back: bool| Slice {
        nanoseconds: length,
        operations: None,
        is_warm_up: false,
        writes_back,
        awaits_device: false,
    };
    let alone = slice(alone_time, writes_back(needs.min_slice_seconds));
    for (place, store) in stores.iter_mut().enumerate() {
        let number = store.number();
        pilots.extend(store.run(alone).map(|report| Pilot::new(place, number, &report)));
    }
    let is_limited = needs.limited_by_device(pilots.iter().map(|pilot| pilot.busy_cpus));
    let mut awaits_device = is_limited;
    let longest = pilots.iter().map(|pilot| pilot.longest).max()?;
    let stall = if needs.writes { MIN_SLICE_MULTIPLE * longest } else { 0 };
    let stall = stall.min(nanoseconds(needs.max_slice_seconds));
    let mut length = stall.max(MIN_SLICE).max(nanoseconds(needs.min_slice_seconds));
    let max_doubled = length.max(MAX_DOUBLED.min(wanted_time));
    loop {
        pilots.iter_mut().for_each(Pilot::forget_turns);
        let min_turns = if needs.writes { MIN_WRITE_TURNS } else { MIN_TURNS };
        for _ in 0..in_turn_time.div_ceil(length).max(min_turns.into()) {
            let in_turn = slice(length, writes_back(length as f64 / 1e9));
            take_turns(&mut pilots, stores, in_turn, &mut awaits_device);
        }
        let settled = pilots.iter().map(|pilot| settle(&pilot.profile())).max()?;
        let wanted = MIN_SLICE_MULTIPLE * BIN * settled as u64;
        // On a disturbed machine, no start of a slice may look settled.
        let discarded = settled.min(usize::try_from(length / MIN_SLICE_MULTIPLE / BIN).unwrap_or(settled));
        let agree = pilots.iter().all(|pilot| pilot.is_like_alone(discarded));
        if wanted > length && length < max_doubled {
            length = wanted.min(max_doubled);
        } else if !agree && length < max_doubled {
            length = (2 * length).min(max_doubled);
        } else {
            // What changes in the course of the pilot (the state of the machine, a store that warms up) is no effect of
            // the turns.
            pilots.retain_mut(|pilot| {
                let report = stores.get_mut(pilot.place).and_then(|store| store.run(alone));
                report.map(|report| pilot.add_alone(&report)).is_some()
            });
            let held = if needs.writes { length / MIN_SLICE_MULTIPLE } else { u64::MAX };
            let rates: Vec<_> = pilots.iter().map(|pilot| pilot.rate(discarded, held)).collect();
            let is_like_alone = pilots.iter().all(|pilot| pilot.is_like_alone(discarded));
            let found = slicing(rates, needs, length, discarded);
            let found = Slicing { is_like_alone, awaits_device: is_limited, ..found };
            return (!pilots.is_empty()).then_some(found);
        }
    }
}

/// Lets each store of the pilot run for one slice, and removes those that fail. A slice awaits the device if `awaits_device`
/// says so, which becomes `false` once the device stays busy: no wait would help then.
fn take_turns<S: Sliced>(pilots: &mut Vec<Pilot>, stores: &mut [S], slice: Slice, awaits_device: &mut bool) {
    pilots.retain_mut(|pilot| {
        let slice = Slice { awaits_device: *awaits_device, ..slice };
        let report = stores.get_mut(pilot.place).and_then(|store| store.run(slice));
        *awaits_device &= report.as_ref().is_none_or(|report| !report.left_device_busy);
        report.map(|report| pilot.add_turn(&report)).is_some()
    });
}

/// Returns the slices and the work of a block of stores that are loaded in groups, from the pilots of the groups: the
/// longest slices, and the longest time at their start that does not count. `None` without a pilot.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole milliseconds")]
pub fn of_groups(pilots: &[Slicing], needs: Requirements) -> Option<Slicing> {
    let longest = |seconds: fn(&Slicing) -> f64| pilots.iter().map(seconds).reduce(f64::max);
    let length = nanoseconds(longest(|pilot| pilot.slice_seconds)?);
    let discarded = (longest(|pilot| pilot.discarded_seconds)? * 1e3).round() as usize;
    // The slices of another group may be long enough for the stalls of this one.
    let is_held = |stall: f64| nanoseconds(stall) <= length / MIN_SLICE_MULTIPLE;
    let of_block = |rate: PilotRate| PilotRate {
        stall_seconds: rate.stall_seconds.filter(|stall| !is_held(*stall)),
        ..rate
    };
    let rates = pilots.iter().flat_map(|pilot| pilot.pilot.clone()).map(of_block).collect();
    let is_like_alone = pilots.iter().all(|pilot| pilot.is_like_alone);
    let awaits_device = pilots.iter().any(|pilot| pilot.awaits_device);
    Some(Slicing { is_like_alone, awaits_device, ..slicing(rates, needs, length, discarded) })
}

/// Returns the slices and the work of a block, for slices of `length` nanoseconds of which the first `discarded`
/// milliseconds do not count.
#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn slicing(rates: Vec<PilotRate>, needs: Requirements, length: u64, discarded: usize) -> Slicing {
    let discarded_seconds = (BIN * discarded as u64) as f64 / 1e9;
    // The discarded time is at most a tenth of what the fastest store runs.
    let seconds = needs.seconds.max(MIN_SLICE_MULTIPLE as f64 * discarded_seconds);
    // With a rate that is far too low, a block would end within the discarded time.
    let operations = seconds * PilotRate::fastest(&rates);
    let (work, less_work) = match needs.writes {
        true => (Work::Operations(rounded(operations)), less_work(&rates, operations, needs)),
        false => (Work::Seconds(needs.seconds), Vec::new()),
    };
    Slicing {
        slice_seconds: length as f64 / 1e9,
        discarded_seconds,
        work,
        pilot: rates,
        is_like_alone: false,
        awaits_device: false,
        less_work,
        seconds: 0.0,
        load_seconds: 0.0,
        warm_up_seconds: 0.0,
    }
}

/// Returns the stores that would take too long for a number of operations, with the operations that they do instead: as
/// many as they can in the longest time that is allowed. Too long is more than 20 times the median time of all stores (of
/// two stores: that of the faster one), or more than the budget allows, but at least five times the time of the fastest
/// store.
fn less_work(rates: &[PilotRate], operations: f64, needs: Requirements) -> Vec<LessWork> {
    let seconds = |rate: &PilotRate| operations / rate.alone * (1.0 + rate.write_back);
    let mut times: Vec<f64> = rates.iter().map(seconds).collect();
    times.sort_by(f64::total_cmp);
    let (Some(fastest), Some(median)) = (times.first(), times.get(times.len().saturating_sub(1) / 2)) else {
        return Vec::new();
    };
    let affordable = limit_of_each(&times, needs.block_seconds).max(NOT_SLOW * fastest);
    let limit = (SLOW_MEDIAN_MULTIPLE * median).min(affordable);
    let slow = rates.iter().filter(|rate| seconds(rate) > limit);
    let less = |rate: &PilotRate| {
        let operations = rounded(operations * limit / seconds(rate));
        LessWork { store: rate.store, operations }
    };
    let mut less: Vec<LessWork> = slow.map(less).collect();
    // The store that is in all groups has several rates.
    less.sort_by_key(|less| less.store);
    less.dedup_by_key(|less| less.store);
    less
}

/// Returns the largest time such that all stores together take at most `all` seconds if none takes longer than it;
/// infinite if they do not take longer anyway. `times` are those of the stores in ascending order, in seconds.
fn limit_of_each(times: &[f64], all: f64) -> f64 {
    let mut left = all;
    for (number, time) in times.iter().enumerate() {
        let each = left / real(times.len() - number);
        if *time > each {
            return each;
        }
        left -= time;
    }
    f64::INFINITY
}

/// Measurements of one store in the pilot of an interleaved comparison.
struct Pilot {
    /// Index of the store among the loaded instances.
    place: usize,
    /// Index of the store's cell in the comparison's list of cells.
    store: usize,
    /// Operations per second of the store when it runs alone: the mean of those before and after the turns.
    alone: f64,
    /// Mean number of CPUs that the store kept busy alone, before and after the turns; `None` if it is not known.
    busy_cpus: Option<f64>,
    /// Duration in nanoseconds of the store's longest operation in the slice in which it ran alone.
    longest: u64,
    /// Number of the store's operations in each millisecond of each of its turns with the present slice length.
    turns: Vec<Vec<u64>>,
    /// Total length in nanoseconds of the store's turns with the present slice length.
    running: u64,
    /// Total time in nanoseconds of the write-back (deferred work and syncs) after the store's turns with the present
    /// slice length.
    write_back: u64,
}

impl Pilot {
    /// Creates the measurements of a store from the slice in which it ran alone.
    fn new(place: usize, store: usize, report: &SliceReport) -> Self {
        let (alone, longest) = (rate_alone(report), report.longest);
        let busy_cpus = report.busy_cpus;
        Self { place, store, alone, busy_cpus, longest, turns: Vec::new(), running: 0, write_back: 0 }
    }

    /// Adds a second slice in which the store ran alone.
    fn add_alone(&mut self, report: &SliceReport) {
        self.alone = f64::midpoint(self.alone, rate_alone(report));
        self.busy_cpus = self.busy_cpus.zip(report.busy_cpus).map(|(one, other)| f64::midpoint(one, other));
    }

    /// Returns `true` if the store is as fast in turn as alone, without the first `discarded` milliseconds of each slice.
    fn is_like_alone(&self, discarded: usize) -> bool {
        (self.in_turn(discarded) / self.alone).ln().abs() <= LIKE_ALONE
    }

    fn forget_turns(&mut self) {
        self.turns.clear();
        (self.running, self.write_back) = (0, 0);
    }

    fn add_turn(&mut self, report: &SliceReport) {
        self.turns.push(whole_bins(report).to_vec());
        self.running += report.nanoseconds;
        self.write_back += report.write_back.unwrap_or(0);
    }

    /// Returns the number of the store's operations in each millisecond of a slice while the stores take turns: the
    /// median of that millisecond over the store's turns with the present slice length. The work of other processes
    /// hardly shows in a median. The result is as long as the shortest turn.
    fn profile(&self) -> Vec<u64> {
        let bins = self.turns.iter().map(Vec::len).min().unwrap_or(0);
        let median = |bin: usize| {
            let mut values: Vec<u64> = self.turns.iter().filter_map(|turn| turn.get(bin).copied()).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        (0..bins).map(median).collect()
    }

    /// Returns the rate of the store in turn, in operations per second, without the first `discarded` milliseconds of
    /// each slice.
    fn in_turn(&self, discarded: usize) -> f64 {
        let counted = self.turns.iter().flat_map(|turn| turn.get(discarded..).unwrap_or_default());
        rate(&counted.copied().collect::<Vec<_>>())
    }

    /// Returns the rates of the store, in turn without the first `discarded` milliseconds of each slice. `held` is the
    /// longest operation, in nanoseconds, that the slices are long enough for.
    #[expect(clippy::cast_precision_loss, reason = "a ratio and seconds")]
    fn rate(&self, discarded: usize, held: u64) -> PilotRate {
        PilotRate {
            store: self.store,
            alone: self.alone,
            in_turn: self.in_turn(discarded),
            write_back: self.write_back as f64 / self.running.max(1) as f64,
            stall_seconds: (self.longest > held).then(|| self.longest as f64 / 1e9),
            busy_cpus: self.busy_cpus,
        }
    }
}

/// Returns the number of operations in each whole millisecond of a slice, without a last millisecond that is not whole.
fn whole_bins(report: &SliceReport) -> &[u64] {
    let whole = usize::try_from(report.nanoseconds / BIN).unwrap_or(usize::MAX);
    report.bins.get(..whole).unwrap_or(&report.bins)
}

/// Returns the operations per second of a slice in which a store ran alone, whose first quarter does not count unless all
/// operations end at once, as those of a batch do.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate_alone(report: &SliceReport) -> f64 {
    let profile = whole_bins(report);
    let counted = rate(profile.get(profile.len() / 4..).unwrap_or_default());
    if counted > 0.0 { counted } else { report.operations() as f64 / (report.nanoseconds as f64 / 1e9) }
}

/// Returns the operations per second, given their numbers in milliseconds (`bins`).
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate(bins: &[u64]) -> f64 {
    bins.iter().sum::<u64>() as f64 / ((bins.len() as u64 * BIN) as f64 / 1e9)
}

/// Returns the number of milliseconds at the start of a slice that do not count: without them, the mean of the first
/// half is within 2% of that of the second. At least one, in which threads are woken, and at most half of the slice.
fn settle(bins: &[u64]) -> usize {
    let half = bins.len() / 2;
    let (Some(first), Some(second)) = (bins.get(..half), bins.get(half..)) else { return 1 };
    let expected = rate(second);
    let is_settled = |start: &usize| {
        let rest = first.get(*start..).unwrap_or_default();
        (rate(rest) / expected - 1.0).abs() <= MAX_SETTLED_DIFFERENCE
    };
    (1..half).find(is_settled).unwrap_or(half).max(1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of operations"
)]
fn rounded(operations: f64) -> u64 {
    operations.max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::{super::block::run_block, super::block::tests::FakeStore, *};
    use crate::bench::result::interleaved_comparison::Block;
    use rand::{SeedableRng, rngs::SmallRng};

    const READS: Requirements = Requirements {
        writes: false,
        min_slice_seconds: 0.0,
        max_slice_seconds: 25.0,
        seconds: 2.0,
        block_seconds: 100.0,
        cpus: Some(2.0),
    };
    const WRITES: Requirements = Requirements { writes: true, seconds: 3.0, ..READS };

    /// Store that keeps some CPUs busy, and perhaps the device, and counts its slices.
    struct Waiting {
        store: FakeStore,
        busy_cpus: f64,
        left_device_busy: bool,
        slices: usize,
        /// Number of slices after which the device was awaited.
        awaited: usize,
    }

    impl Sliced for Waiting {
        fn number(&self) -> usize {
            self.store.number()
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            (self.slices, self.awaited) = (self.slices + 1, self.awaited + usize::from(slice.awaits_device));
            let (busy_cpus, left_device_busy) = (Some(self.busy_cpus), self.left_device_busy);
            let report = self.store.run(slice)?;
            Some(SliceReport { busy_cpus, left_device_busy, ..report })
        }
    }

    /// Returns the number of slices in a block of two stores that keep `busy` CPUs busy, and of those after which the device was
    /// awaited.
    fn awaited(needs: Requirements, busy: [f64; 2], left_device_busy: bool) -> (usize, usize) {
        let mut stores = [0, 1].map(|number| Waiting {
            store: FakeStore::new(number, 1000, 0),
            busy_cpus: busy[number],
            left_device_busy,
            slices: 0,
            awaited: 0,
        });
        let slicing = run_pilot(&mut stores, needs).unwrap();
        let found: Vec<_> = slicing.pilot.iter().map(|rate| rate.busy_cpus.unwrap()).collect();
        assert_eq!(found, busy);
        stores.iter_mut().for_each(|store| (store.slices, store.awaited) = (0, 0));
        run_block(&mut stores, &slicing, &mut SmallRng::seed_from_u64(1));
        stores.iter().fold((0, 0), |sum, store| (sum.0 + store.slices, sum.1 + store.awaited))
    }

    #[test]
    fn slices_await_the_device_if_it_limits_a_store_that_writes() {
        // The threads can use two CPUs.
        let (slices, all) = awaited(WRITES, [1.1, 0.9], false);
        assert!(slices > 10 && all == slices, "{all} of {slices}");
        assert_eq!(awaited(WRITES, [1.1, 1.9], false).1, 0);
        assert_eq!(awaited(READS, [1.1, 0.9], false).1, 0);
        assert_eq!(awaited(Requirements { cpus: None, ..WRITES }, [1.1, 0.9], false).1, 0);
        // One that other programs keep busy is awaited once.
        assert_eq!(awaited(WRITES, [1.1, 0.9], true).1, 1);
    }

    #[test]
    fn slices_are_ten_times_as_long_as_the_start_of_the_slowest_cache() {
        for (cold, discarded, slice) in [(0, 0.001, 0.1), (2, 0.002, 0.1), (30, 0.026, 0.3)] {
            let mut stores = [FakeStore::new(0, 1000, 0), FakeStore::new(1, 1000, cold)];
            let slicing = run_pilot(&mut stores, READS).unwrap();
            assert!((slicing.discarded_seconds - discarded).abs() < 0.0015, "{cold}: {slicing:?}");
            assert!((slicing.slice_seconds - slice).abs() < 0.011, "{cold}: {slicing:?}");
            assert!(slicing.is_like_alone, "{cold}: {slicing:?}");
            assert_eq!(slicing.work, Work::Seconds(2.0));
        }
    }

    /// Fake store that is always slower in turn than alone.
    struct Loser(FakeStore);

    impl Sliced for Loser {
        fn number(&self) -> usize {
            self.0.number
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            self.0.rate = if slice.nanoseconds == ALONE_NANOSECONDS { 1000 } else { 900 };
            self.0.run(slice)
        }
    }

    #[test]
    fn slices_grow_to_a_limit_if_the_rates_do_not_agree() {
        let slicing = run_pilot(&mut [Loser(FakeStore::new(0, 1, 0))], READS).unwrap();
        assert!(!slicing.is_like_alone);
        assert_eq!(slicing.slice_seconds, 0.8);
        let rate = &slicing.pilot[0];
        assert!((rate.alone - 1e6).abs() < 1.0 && (rate.in_turn - 9e5).abs() < 1.0, "{rate:?}");
    }

    /// Fake store that becomes faster with each slice, whether it runs alone or in turn.
    struct WarmsUp(FakeStore);

    impl Sliced for WarmsUp {
        fn number(&self) -> usize {
            self.0.number
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            self.0.rate += 20;
            self.0.run(slice)
        }
    }

    #[test]
    fn a_store_that_becomes_faster_is_compared_with_itself_before_and_after_the_turns() {
        // Operations per millisecond: 1,020 before, 1,040 to 1,120 in turn, 1,140 after.
        let needs = Requirements { seconds: 0.1, ..READS };
        let mut stores = [WarmsUp(FakeStore::new(0, 1000, 0))];
        let slicing = run_pilot(&mut stores, needs).unwrap();
        let rate = &slicing.pilot[0];
        assert!(slicing.is_like_alone && rate.alone > rate.in_turn * 0.97, "{slicing:?}");
        assert!(rate.alone > 1.04e6, "{rate:?}");
    }

    /// Fake store whose operations all end in the last part of a millisecond of each slice.
    struct OneCommit(usize);

    impl Sliced for OneCommit {
        fn number(&self) -> usize {
            self.0
        }

        fn run(&mut self, _: Slice) -> Option<SliceReport> {
            let mut bins = vec![0; 4501];
            bins[4500] = 1_000_000;
            let nanoseconds = 4500 * BIN + BIN / 2;
            Some(SliceReport { nanoseconds, bins, longest: nanoseconds, ..SliceReport::default() })
        }
    }

    #[test]
    fn a_commit_longer_than_the_slice_has_a_rate() {
        let slicing = run_pilot(&mut [OneCommit(0), OneCommit(1)], WRITES).unwrap();
        assert!(slicing.pilot.iter().all(|rate| (rate.alone - 222_198.0).abs() < 10.0), "{slicing:?}");
        assert!(slicing.less_work.is_empty(), "{slicing:?}");
    }

    #[test]
    fn writers_have_equal_work_for_the_fastest_and_slices_beyond_their_stalls() {
        let needs = Requirements { min_slice_seconds: 3.0, ..WRITES };
        let slicing = run_pilot(&mut [FakeStore::new(0, 1000, 0), FakeStore::new(1, 100, 0)], needs).unwrap();
        assert_eq!((slicing.work, slicing.slice_seconds), (Work::Operations(3_000_000), 3.0));
        // Write-back takes half of the time of the operations.
        assert!((slicing.block_seconds() - 1.5 * 33.0).abs() < 0.1, "{slicing:?}");
        let slicing = run_pilot(&mut [Stalls(FakeStore::new(0, 1000, 0), 50_000_000)], WRITES).unwrap();
        assert_eq!((slicing.slice_seconds, slicing.pilot[0].stall_seconds), (0.5, None));
    }

    /// Fake store, with the duration in nanoseconds of the longest operation in each of its slices.
    struct Stalls(FakeStore, u64);

    impl Sliced for Stalls {
        fn number(&self) -> usize {
            self.0.number
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            Some(SliceReport { longest: self.1, ..self.0.run(slice)? })
        }
    }

    #[test]
    fn one_long_stall_lengthens_slices_to_their_maximum_only() {
        let stores = || {
            let store = |(number, longest)| Stalls(FakeStore::new(number, 1000, 0), longest);
            [(0, 30_000_000_000), (1, 400_000_000)].map(store)
        };
        let stalls = |slicing: &Slicing| {
            let stalls = slicing.pilot.iter().map(|rate| rate.stall_seconds);
            (slicing.slice_seconds, stalls.collect::<Vec<_>>())
        };
        let needs = Requirements { max_slice_seconds: 5.0, ..WRITES };
        assert_eq!(stalls(&run_pilot(&mut stores(), needs).unwrap()), (5.0, vec![Some(30.0), None]));
        // Work that reads has slices of any length.
        assert_eq!(stalls(&run_pilot(&mut stores(), READS).unwrap()), (0.1, vec![None, None]));
        let needs = Requirements { max_slice_seconds: 0.0, ..WRITES };
        let short = run_pilot(&mut stores(), needs).unwrap();
        assert_eq!(stalls(&short), (0.1, vec![Some(30.0), Some(0.4)]));
        // The slices of the block are those of the group with the longest ones.
        let long = Slicing { slice_seconds: 5.0, pilot: Vec::new(), ..short.clone() };
        let block = of_groups(&[short, long], needs).unwrap();
        assert_eq!(stalls(&block), (5.0, vec![Some(30.0), None]));
    }

    /// Write-back takes half of the time of the operations, so the fastest store needs 4.5 seconds for its 3 seconds of
    /// work.
    #[test]
    fn stores_that_would_take_too_long_do_less_work() {
        let needs = Requirements { min_slice_seconds: 3.0, block_seconds: 1000.0, ..WRITES };
        let reduced = |rates: &[u64], needs| {
            let mut stores: Vec<_> =
                (5..).zip(rates).map(|(number, rate)| FakeStore::new(number, *rate, 0)).collect();
            let less = run_pilot(&mut stores, needs).unwrap().less_work;
            less.into_iter().map(|less| (less.store, less.operations)).collect::<Vec<_>>()
        };
        assert_eq!(reduced(&[1000, 50], needs), []);
        // 20 times the time of the faster one, in which the slower one does 20 times a hundredth of the operations.
        assert_eq!(reduced(&[1000, 10], needs), [(6, 600_000)]);
        // The median is the time of the second store.
        assert_eq!(reduced(&[1000, 500, 2], needs), [(7, 3_000_000 * 20 / 250)]);
        // 4.5 + 9 seconds leave 30 for each of two stores that need 45 and 90.
        let needs = Requirements { block_seconds: 73.5, ..needs };
        assert_eq!(reduced(&[500, 50, 1000, 100], needs), [(6, 1_000_000), (8, 2_000_000)]);
        let needs = Requirements { block_seconds: 0.0, ..needs };
        assert_eq!(reduced(&[1000, 100], needs), [(6, 1_500_000)]);
        assert_eq!(reduced(&[1000, 250], needs), []);
    }

    /// Fake store that the machine stops for most of the time in which it runs alone.
    struct StoppedAlone {
        store: FakeStore,
        runs: usize,
    }

    impl Sliced for StoppedAlone {
        fn number(&self) -> usize {
            self.store.number
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            self.runs += 1;
            self.store.rate = if self.runs == 1 { 10 } else { 1000 };
            let report = self.store.run(slice)?;
            Some(SliceReport { longest: if self.runs == 1 { 200_000_000 } else { BIN }, ..report })
        }
    }

    #[test]
    fn a_store_that_was_stopped_alone_has_enough_work() {
        let store = |number| StoppedAlone { store: FakeStore::new(number, 1, 300), runs: 0 };
        let mut stores = [store(0), store(1)];
        let needs = Requirements { seconds: 0.3, ..WRITES };
        let slicing = run_pilot(&mut stores, needs).unwrap();
        assert_eq!(slicing.slice_seconds, 2.0);
        assert!(slicing.discarded_seconds > 0.1, "{slicing:?}");
        let slices = run_block(&mut stores, &slicing, &mut SmallRng::seed_from_u64(1));
        let block = Block { seed: 0, slices, disturbance: None, attempts: 1, seconds: 0.0 };
        for number in [0, 1] {
            assert!(block.rate(number).is_some_and(|rate| rate > 0.9e6), "{block:?}");
        }
    }

    #[test]
    fn a_pilot_without_a_store_has_no_result() {
        let mut store = FakeStore::new(0, 1000, 0);
        store.fails_after = 0;
        assert_eq!(run_pilot(&mut [store], READS), None);
    }
}
