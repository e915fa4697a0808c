//! One block of a comparison: stores take turns, one slice of time each, in random order until each has done its work.

use super::slice::{BIN, Slice, SliceReport};
use crate::bench::result::{
    Workload,
    interleaved_comparison::{PilotRate, SliceRecord, Slicing, Work},
};
use rand::{rngs::SmallRng, seq::SliceRandom};

/// Minimum length in seconds of writing slices that write-back follows. After shorter ones, it would turn the fsync
/// policy `no` into one that syncs often.
pub const MIN_WRITE_BACK_SLICE_SECONDS: f64 = 3.0;

/// Store that runs only in the slices of time that a comparison gives it.
pub trait Sliced {
    /// Returns the index of the store's cell in the comparison's list of cells.
    fn number(&self) -> usize;

    /// Runs the store for one slice of time, and returns a report on it. Returns `None` if the store has failed, in
    /// this slice or before.
    fn run(&mut self, slice: Slice) -> Option<SliceReport>;
}

/// Returns the warm-up of a store, or `None` if the workload has none. It ends after the warm-up time. If it replaces
/// values, only that of the pilot does (without `slicing`); that of a block has as many operations for each store as the
/// fastest one did in that time in the pilot, so that the sizes of the stores' files can be compared. A store that does
/// less work in a block has a warm-up that is shorter in proportion. `store` is the index of the store's cell in the
/// comparison's list of cells.
pub fn warm_up(workload: &Workload, slicing: Option<&Slicing>, store: usize) -> Option<Slice> {
    let seconds = workload.warmup_seconds;
    let slicing = slicing.filter(|_| workload.warm_up_updates());
    let operations = slicing.and_then(|slicing| warm_up_operations(slicing, seconds, store));
    let slice = Slice {
        nanoseconds: operations.map_or(nanoseconds(seconds), |_| u64::MAX),
        operations,
        is_warm_up: true,
        writes_back: false,
        awaits_device: slicing.is_some_and(|slicing| slicing.awaits_device),
    };
    (seconds > 0.0).then_some(slice)
}

/// Returns the seconds that the warm-ups of all stores take in a block, at the rates of the pilot.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub fn warm_up_seconds(workload: &Workload, slicing: &Slicing) -> f64 {
    let of = |rate: &PilotRate| {
        let operations = warm_up(workload, Some(slicing), rate.store)?.operations;
        Some(operations.map_or(workload.warmup_seconds, |operations| operations as f64 / rate.alone))
    };
    slicing.pilot.iter().filter_map(of).sum()
}

/// Returns the number of operations of a store's warm-up in a block of equal work, at least 1, or `None` if the stores
/// have equal time. The fastest store does all of them in `seconds`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of operations"
)]
fn warm_up_operations(slicing: &Slicing, seconds: f64, store: usize) -> Option<u64> {
    let (Work::Operations(all), Work::Operations(own)) = (slicing.work, slicing.work_of(store)) else {
        return None;
    };
    let part = own as f64 / all.max(1) as f64;
    Some((seconds * PilotRate::fastest(&slicing.pilot) * part).max(1.0) as u64)
}

/// Lets the stores take turns, one slice each in random order, until each has done its work. Returns a record of each
/// slice. A store that fails has no further turns.
pub fn run_block<S: Sliced>(stores: &mut [S], slicing: &Slicing, random: &mut SmallRng) -> Vec<SliceRecord> {
    let length = nanoseconds(slicing.slice_seconds);
    let writes_back =
        matches!(slicing.work, Work::Operations(_)) && slicing.slice_seconds >= MIN_WRITE_BACK_SLICE_SECONDS;
    let mut left: Vec<Left> =
        stores.iter().map(|store| Left::of(slicing.work_of(store.number()), length)).collect();
    // Once the device stays busy, no wait would help.
    let mut awaits_device = slicing.awaits_device;
    let mut records = Vec::new();
    let mut turns: Vec<usize> = (0..stores.len()).collect();
    while !turns.is_empty() {
        turns.shuffle(random);
        turns.retain(|store| {
            let (Some(sliced), Some(left)) = (stores.get_mut(*store), left.get_mut(*store)) else {
                return false;
            };
            let operations = left.operations();
            let slice =
                Slice { nanoseconds: length, operations, is_warm_up: false, writes_back, awaits_device };
            let Some(report) = sliced.run(slice) else { return false };
            awaits_device &= !report.left_device_busy;
            let goes_on = left.subtract(&report);
            let has_rate = |record: &SliceRecord| record.store == sliced.number() && record.operations > 0;
            // A store whose work ends within the discarded time has a rate too, that of half of its last slice: in whole
            // milliseconds, as operations are counted.
            let discarded = match goes_on || records.iter().any(has_rate) {
                true => nanoseconds(slicing.discarded_seconds),
                false => nanoseconds(slicing.discarded_seconds).min(report.nanoseconds / 2 / BIN * BIN),
            };
            records.push(record(sliced.number(), &report, discarded));
            for _ in 0..more_slices(sliced.number()) {
                let report = sliced.run(slice);
                records.extend(report.map(|report| record(sliced.number(), &report, discarded)));
            }
            goes_on
        });
    }
    records
}

/// Returns the number of slices that a store runs directly after each of its own, in addition to the work of the block: 2
/// for as many stores, the first ones of the comparison, as the environment variable `KVBENCH_MORE_SLICES` says, and
/// otherwise 0. `benches/turns_proof.py` compares these slices of work that only reads, in which no other store has used
/// the processor's cache, with those that follow other stores.
#[cfg(feature = "fault-injection")]
fn more_slices(store: usize) -> u32 {
    let stores = std::env::var("KVBENCH_MORE_SLICES").ok().and_then(|stores| stores.parse().ok());
    if store < stores.unwrap_or(0) { 2 } else { 0 }
}
#[cfg(not(feature = "fault-injection"))]
const fn more_slices(_store: usize) -> u32 {
    0
}

/// Work that a store has still to do in the block: a number of slices, or of operations.
enum Left {
    Slices(u64),
    Operations(u64),
}

impl Left {
    fn of(work: Work, length: u64) -> Self {
        match work {
            Work::Seconds(seconds) => Self::Slices(nanoseconds(seconds).div_ceil(length.max(1)).max(1)),
            Work::Operations(operations) => Self::Operations(operations),
        }
    }

    fn operations(&self) -> Option<u64> {
        match self {
            Self::Slices(_) => None,
            Self::Operations(operations) => Some(*operations),
        }
    }

    /// Subtracts the work that the store has done in a slice from what it has still to do in the block. Returns `false`
    /// if nothing is left.
    fn subtract(&mut self, report: &SliceReport) -> bool {
        let (left, done) = match self {
            Self::Slices(left) => (left, 1),
            Self::Operations(left) => (left, report.operations()),
        };
        *left = left.saturating_sub(done);
        *left > 0
    }
}

/// Returns the record of a slice of the store with the number `store`. Operations that end in the first `discarded`
/// nanoseconds do not count, nor does the time until the last of them ends, in whole milliseconds. Nothing counts of a
/// slice that is less than twice as long.
#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn record(store: usize, report: &SliceReport, discarded: u64) -> SliceRecord {
    let bins = usize::try_from(discarded.div_ceil(BIN)).unwrap_or(usize::MAX);
    // Time counts from the end of an operation: one that began before would otherwise count as a whole.
    let ended = report.bins.iter().take(bins).rposition(|done| *done > 0).map_or(0, |last| last + 1);
    let (bins, discarded) = match report.nanoseconds < 2 * discarded {
        true => (usize::MAX, report.nanoseconds),
        false => (ended, discarded.min(BIN * ended as u64)),
    };
    let discarded_operations = report.bins.iter().take(bins).sum();
    SliceRecord {
        store,
        group: 0,
        operations: report.operations() - discarded_operations,
        seconds: (report.nanoseconds - discarded) as f64 / 1e9,
        discarded_operations,
        discarded_seconds: discarded as f64 / 1e9,
        write_back_seconds: report.write_back.map(|time| time as f64 / 1e9),
        left_device_busy: report.left_device_busy,
    }
}

/// Converts seconds to nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
#[expect(missing_docs, reason = "tests")]
pub mod tests {
    use super::*;
    use crate::bench::result::{
        Operation,
        interleaved_comparison::{Block, LessWork},
    };
    use rand::SeedableRng;
    use std::{cell::RefCell, rc::Rc};

    /// Fake store that simulates the operations of its slices, at a fixed rate.
    pub struct FakeStore {
        /// Index of the fake store among the compared stores.
        pub number: usize,
        /// Number of operations that the fake store does in a millisecond.
        pub rate: u64,
        /// Number of milliseconds at the start of a slice in which the store does half as many operations.
        pub cold: usize,
        /// Number of slices after which the fake store fails.
        pub fails_after: usize,
        /// Log that the fake stores share: the index of each store at each of its turns.
        pub turns: Rc<RefCell<Vec<usize>>>,
    }

    impl FakeStore {
        /// Creates a store that does not fail.
        pub fn new(number: usize, rate: u64, cold: usize) -> Self {
            Self { number, rate, cold, fails_after: usize::MAX, turns: Rc::default() }
        }
    }

    impl Sliced for FakeStore {
        fn number(&self) -> usize {
            self.number
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            self.fails_after = self.fails_after.checked_sub(1)?;
            self.turns.borrow_mut().push(self.number);
            let mut left = slice.operations.unwrap_or(u64::MAX);
            let mut bins = Vec::new();
            while left > 0 && (bins.len() as u64) < slice.nanoseconds / BIN {
                let rate = if bins.len() < self.cold { self.rate / 2 } else { self.rate };
                bins.push(rate.min(left));
                left -= rate.min(left);
            }
            let nanoseconds = bins.len() as u64 * BIN;
            let write_back = slice.writes_back.then_some(nanoseconds / 2);
            Some(SliceReport {
                nanoseconds,
                bins,
                longest: BIN / self.rate,
                write_back,
                ..Default::default()
            })
        }
    }

    fn slicing(work: Work) -> Slicing {
        Slicing {
            slice_seconds: 0.1,
            discarded_seconds: 0.01,
            work,
            pilot: Vec::new(),
            is_like_alone: true,
            awaits_device: false,
            less_work: Vec::new(),
            seconds: 0.0,
            load_seconds: 0.0,
            warm_up_seconds: 0.0,
        }
    }

    fn sum(records: &[SliceRecord], store: usize) -> (u64, f64) {
        let own = records.iter().filter(|record| record.store == store);
        own.fold((0, 0.0), |sum, record| (sum.0 + record.operations, sum.1 + record.seconds))
    }

    #[test]
    fn readers_have_equal_time_and_their_cold_start_does_not_count() {
        let mut stores = [FakeStore::new(0, 1000, 10), FakeStore::new(1, 200, 4)];
        let records = run_block(&mut stores, &slicing(Work::Seconds(0.5)), &mut SmallRng::seed_from_u64(1));
        for (store, rate) in [(0, 1000.0), (1, 200.0)] {
            let (operations, seconds) = sum(&records, store);
            assert!((seconds - 0.45).abs() < 1e-9, "{seconds}");
            assert!((operations as f64 / seconds / 1e3 - rate).abs() < 1e-9, "{operations} in {seconds}");
        }
        assert_eq!(records.len(), 10);
    }

    #[test]
    fn an_operation_across_the_end_of_the_discarded_time_does_not_count() {
        // Operations of 7 ms: the second one ends after the 10 ms that are discarded.
        let bins: Vec<u64> = (1..=98).map(|millisecond| u64::from(millisecond % 7 == 0)).collect();
        let report = SliceReport { nanoseconds: 98 * BIN, bins, longest: 7 * BIN, ..SliceReport::default() };
        let counted = record(0, &report, 10 * BIN);
        assert_eq!((counted.operations, counted.discarded_operations), (13, 1));
        assert!((counted.seconds - 0.091).abs() < 1e-9, "{counted:?}");
        let short = record(0, &report, 60 * BIN);
        assert_eq!((short.operations, short.discarded_operations), (0, 14));
        assert!(short.seconds.abs() < 1e-9, "{short:?}");
    }

    #[test]
    fn writers_do_equal_work_and_the_slower_one_goes_on() {
        let mut stores = [FakeStore::new(0, 1000, 0), FakeStore::new(1, 200, 0)];
        let work = Work::Operations(150_500);
        let records = run_block(&mut stores, &slicing(work), &mut SmallRng::seed_from_u64(1));
        for store in [0, 1] {
            let own = records.iter().filter(|record| record.store == store);
            let all: u64 = own.map(|record| record.operations + record.discarded_operations).sum();
            assert_eq!(all, 150_500);
        }
        assert!(records.iter().rev().take(5).all(|record| record.store == 1), "{records:?}");
        // The last slice of the slower store lasts 53 ms, and 10 ms of each of its 8 slices are discarded.
        assert!((sum(&records, 1).1 - (0.7525 - 0.08)).abs() < 1e-3, "{records:?}");
    }

    #[test]
    fn a_warm_up_that_updates_has_equal_work_in_a_block() {
        let work = |kind| Workload { warmup_seconds: 0.5, ..Workload::of([(kind, 1.0)], 1000) };
        let (updates, reads) = (work(Operation::Update), work(Operation::Get));
        let rate = |store, alone| PilotRate { store, alone, in_turn: alone / 2.0, ..PilotRate::default() };
        let block = Slicing {
            pilot: vec![rate(0, 1e6), rate(1, 1e3), rate(2, 1e5)],
            less_work: vec![LessWork { store: 1, operations: 30_000 }],
            ..slicing(Work::Operations(3_000_000))
        };
        let limits = |workload: &Workload, slicing: Option<&Slicing>, store: usize| {
            let slice = warm_up(workload, slicing, store).unwrap();
            assert!(slice.is_warm_up && !slice.writes_back);
            (slice.nanoseconds, slice.operations)
        };
        let equal = [500_000, 5_000, 500_000].map(|operations| (u64::MAX, Some(operations)));
        assert_eq!([0, 1, 2].map(|store| limits(&updates, Some(&block), store)), equal);
        assert_eq!(warm_up_seconds(&updates, &block), 0.5 + 5.0 + 5.0);
        assert_eq!(warm_up_seconds(&reads, &block), 3.0 * 0.5);
        // A pilot comes before the rates are known, and what only reads has equal time.
        let half_a_second = (500_000_000, None);
        assert_eq!(limits(&updates, None, 0), half_a_second);
        assert_eq!(limits(&reads, Some(&block), 0), half_a_second);
        assert_eq!(warm_up(&Workload { warmup_seconds: 0.0, ..updates }, Some(&block), 0), None);
    }

    #[test]
    fn work_that_ends_within_the_discarded_time_has_a_rate() {
        let mut stores = [FakeStore::new(0, 1000, 0), FakeStore::new(1, 100, 0)];
        let slicing = slicing(Work::Operations(6_000));
        let records = run_block(&mut stores, &slicing, &mut SmallRng::seed_from_u64(1));
        assert_eq!((sum(&records, 0), sum(&records, 1)), ((3_000, 0.003), (5_000, 0.05)), "{records:?}");
        // An odd number of milliseconds and nanoseconds, and a single millisecond.
        for (operations, counted, seconds) in [(7_000, 4_000, 0.004_000_001), (500, 500, 0.001_000_001)] {
            let slicing = Slicing { work: Work::Operations(operations), ..slicing.clone() };
            let mut stores = [Late(FakeStore::new(0, 1000, 0))];
            let records = run_block(&mut stores, &slicing, &mut SmallRng::seed_from_u64(1));
            assert_eq!(sum(&records, 0), (counted, seconds), "{records:?}");
        }
    }

    /// Store whose slices last a nanosecond longer.
    struct Late(FakeStore);

    impl Sliced for Late {
        fn number(&self) -> usize {
            self.0.number()
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            let report = self.0.run(slice)?;
            Some(SliceReport { nanoseconds: report.nanoseconds + 1, ..report })
        }
    }

    #[test]
    fn long_writing_slices_are_written_back_and_this_time_counts() {
        for (work, slice_seconds, is_written) in [
            (Work::Operations(6_500_000), 3.0, true),
            (Work::Operations(6_500_000), 2.9, false),
            (Work::Seconds(6.0), 3.0, false),
        ] {
            let mut stores = [FakeStore::new(0, 1000, 0)];
            let slicing = Slicing { slice_seconds, ..slicing(work) };
            let slices = run_block(&mut stores, &slicing, &mut SmallRng::seed_from_u64(1));
            assert!(
                slices.iter().all(|slice| slice.write_back_seconds.is_some() == is_written),
                "{slices:?}"
            );
            let block = Block { seed: 0, slices, disturbance: None, attempts: 1, seconds: 0.0 };
            let (with, without) = (block.rate(0).unwrap(), block.rate_without_write_back(0).unwrap());
            assert!((without - 1e6).abs() < 1.0, "{without}");
            // Write-back takes half of the time of the operations.
            assert!((with - if is_written { 1e6 / 1.5 } else { 1e6 }).abs() < 1.0, "{with}");
        }
    }

    #[test]
    fn turns_are_in_random_order_that_the_seed_repeats() {
        let turns = |seed| {
            let turns = Rc::<RefCell<Vec<usize>>>::default();
            let store = |number| FakeStore { turns: Rc::clone(&turns), ..FakeStore::new(number, 10, 0) };
            let mut stores: Vec<_> = (0..4).map(store).collect();
            run_block(&mut stores, &slicing(Work::Seconds(2.0)), &mut SmallRng::seed_from_u64(seed));
            turns.take()
        };
        let all = turns(1);
        let mut rounds: Vec<Vec<usize>> = all.chunks(4).map(<[usize]>::to_vec).collect();
        assert!(rounds.iter().any(|round| *round != rounds[0]), "{rounds:?}");
        assert_eq!(all, turns(1));
        assert_ne!(all, turns(2));
        rounds.iter_mut().for_each(|round| round.sort_unstable());
        assert!(rounds.iter().all(|round| *round == [0, 1, 2, 3]), "{rounds:?}");
    }

    #[test]
    fn a_store_that_fails_has_no_further_turns() {
        let mut stores = [FakeStore::new(0, 10, 0), FakeStore::new(1, 10, 0)];
        stores[1].fails_after = 2;
        let work = slicing(Work::Seconds(1.0));
        let records = run_block(&mut stores, &work, &mut SmallRng::seed_from_u64(1));
        let of = |store| records.iter().filter(|record| record.store == store).count();
        assert_eq!((of(0), of(1)), (10, 2));
    }
}
