//! Decision after each block of a comparison: another block, or the end.

use crate::bench::{
    plan::options::Interleave,
    result::{
        interleaved_comparison::{Comparison, End},
        spread::ENOUGH,
        statistics::looks::{FIRST_LOOK, Looks},
    },
    run::order::seed_of,
};

/// Decides before the first block of a comparison, and after each block, whether another one follows. Makes the
/// evaluation that is due after this number of blocks, if any; with `--detect`, the fifth block plans the evaluations.
/// `stores` are the indices of the stores that have not failed. Returns the reason why no block follows, or `None` if
/// one does.
pub fn next(comparison: &mut Comparison, stores: &[usize], limits: Interleave) -> Option<End> {
    let blocks = u32::try_from(comparison.blocks.len()).unwrap_or(u32::MAX);
    if stores.len() < 2 || comparison.anchor().is_some_and(|anchor| !stores.contains(&anchor)) {
        return Some(End::Failed);
    }
    let affordable =
        affordable(comparison, limits.budget_seconds).max(limits.min_blocks.saturating_sub(blocks));
    if blocks < FIRST_LOOK {
        // One block shows the rates of the stores.
        let is_over = blocks > 0 && affordable == 0;
        return is_over.then(|| {
            evaluate_once(comparison, stores);
            End::Budget
        });
    }
    if limits.detect.is_none() {
        let is_decided = evaluate_once(comparison, stores);
        return Some(if is_decided { End::Decided } else { End::FirstBlocks });
    }
    if comparison.looks.is_none() {
        let planned = comparison.blocks_needed(stores);
        let last = planned.min(blocks.saturating_add(affordable));
        comparison.looks = Some(Looks::sized(last, stores.len()));
    }
    let looks = comparison.looks.clone().unwrap_or_else(Looks::once);
    let last = looks.after_blocks().last().copied().unwrap_or(blocks);
    if looks.after_blocks().contains(&blocks) && comparison.evaluate(stores, &looks) {
        return Some(End::Decided);
    }
    match (blocks >= last, affordable) {
        (true, _) if blocks < comparison.blocks_needed(stores) => Some(End::Budget),
        (true, _) => Some(End::Planned),
        (false, 0) => {
            if looks.after_blocks().iter().all(|look| *look > blocks) {
                evaluate_once(comparison, stores);
            }
            Some(End::Budget)
        }
        (false, _) => None,
    }
}

/// Returns how often the next block of a comparison may be measured while other processes disturb it: at most `wanted`
/// times, and no more often than the budget allows further blocks, but once.
pub fn attempts(comparison: &Comparison, budget: f64, wanted: usize) -> usize {
    match comparison.blocks.is_empty() {
        true => wanted,
        false => wanted.min(affordable(comparison, budget).max(1) as usize),
    }
}

/// Returns the number of further blocks for which the budget of time (in seconds) suffices, if each is measured once, in
/// the mean time of the measurements so far; 0 before the first block.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "blocks")]
fn affordable(comparison: &Comparison, budget: f64) -> u32 {
    let Some(mean) = comparison.seconds_of_measurement() else { return 0 };
    let left = (budget - comparison.seconds()) / mean;
    if left > 0.0 { left as u32 } else { 0 }
}

/// Evaluates a comparison once, after a number of blocks that the rates did not determine. Returns `true` if each pair
/// has a verdict other than "cannot tell". With fewer than three blocks, makes no evaluation and returns `false`.
fn evaluate_once(comparison: &mut Comparison, stores: &[usize]) -> bool {
    if comparison.blocks.len() < ENOUGH {
        return false;
    }
    let looks = Looks::once();
    let is_decided = comparison.evaluate(stores, &looks);
    comparison.looks = Some(looks);
    is_decided
}

/// Returns the seed of the block with the index `block`, or of the pilot for `None`, made from the seed of the run.
pub fn seed(seed: u64, block: Option<usize>) -> u64 {
    let number = block.and_then(|block| u32::try_from(block).ok());
    seed_of(seed, number.unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{super::block::run_block, *};
    use crate::bench::{
        result::{
            interleaved_comparison::{Block, PilotRate, Slicing, VerdictKind, Work},
            statistics::margin::Margin,
        },
        run::interleave::{
            block::{Sliced, tests::FakeStore},
            slice::{Slice, SliceReport},
        },
    };
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    /// Simulated instance whose rate differs by chance from that of its store.
    struct Noisy(FakeStore);

    impl Noisy {
        /// Creates an instance of a store that does about 10,000 operations in a millisecond, less the fraction `loss`.
        /// The logarithm of the rate has about the standard deviation `deviation`.
        fn new(number: usize, loss: f64, deviation: f64, random: &mut SmallRng) -> Self {
            let noise: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            let rate = 10_000.0 * (1.0 - loss) * (deviation * noise).exp();
            Self(FakeStore::new(number, rate as u64, 2))
        }
    }

    impl Sliced for Noisy {
        fn number(&self) -> usize {
            self.0.number
        }

        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            self.0.run(slice)
        }
    }

    fn comparison(work: Work) -> Comparison {
        let slicing = Slicing {
            slice_seconds: 0.1,
            discarded_seconds: 0.005,
            work,
            pilot: (0..2)
                .map(|store| PilotRate { store, alone: 1e7, in_turn: 1e7, ..PilotRate::default() })
                .collect(),
            is_like_alone: true,
            awaits_device: false,
            less_work: Vec::new(),
            seconds: 10.0,
            load_seconds: 2.0,
            warm_up_seconds: 0.0,
        };
        Comparison {
            slicing: Some(slicing),
            ..Comparison::new("custom".into(), vec!["one".into(), "other".into()])
        }
    }

    /// Returns the limits of a comparison with the default margin.
    fn limits(budget_seconds: f64) -> Interleave {
        Interleave { detect: Some(Margin::default()), budget_seconds, min_blocks: 0, is_default: false }
    }

    /// Compares two simulated stores, of which the second is slower by the fraction `loss`, in blocks of 10 s. Returns
    /// the comparison and the reason for its end.
    fn compared(work: Work, loss: f64, limits: Interleave, seed: u64) -> (Comparison, End) {
        let mut comparison = comparison(work);
        let mut random = SmallRng::seed_from_u64(seed);
        loop {
            if let Some(end) = next(&mut comparison, &[0, 1], limits) {
                return (comparison, end);
            }
            let mut stores =
                [(0, 0.0), (1, loss)].map(|(number, loss)| Noisy::new(number, loss, 0.0184, &mut random));
            let slicing = comparison.slicing.clone().unwrap();
            let slices = run_block(&mut stores, &slicing, &mut random);
            let block = Block { seed, slices, disturbance: None, attempts: 1, seconds: 10.0 };
            comparison.blocks.push(block);
        }
    }

    /// A comparison finds no difference between two equal stores. At most 5% of comparisons may find one: of 60, 7 or
    /// fewer with probability 0.99.
    #[test]
    fn a_store_does_not_differ_from_itself() {
        let differ = |seed| {
            let work = if seed % 2 == 0 { Work::Seconds(1.0) } else { Work::Operations(10_000_000) };
            let (comparison, end) = compared(work, 0.0, limits(1e6), seed);
            assert!(matches!(end, End::Decided | End::Planned), "{end:?}");
            let [pair] = comparison.verdicts.as_slice() else { panic!("{:?}", comparison.verdicts) };
            usize::from(!matches!(pair.verdict, VerdictKind::Equal | VerdictKind::CannotTell))
        };
        let found: usize = (0..60).map(differ).sum();
        assert!(found <= 7, "{found} of 60");
    }

    #[test]
    fn planted_work_is_found() {
        let missed = |seed| {
            let work = if seed % 2 == 0 { Work::Seconds(1.0) } else { Work::Operations(10_000_000) };
            let (comparison, _) = compared(work, 0.05, limits(1e6), seed);
            let [pair] = comparison.verdicts.as_slice() else { panic!("{:?}", comparison.verdicts) };
            assert_eq!((&*pair.first, &*pair.second), ("one", "other"));
            usize::from(pair.verdict != VerdictKind::Faster)
        };
        let missed: usize = (100..120).map(missed).sum();
        assert!(missed <= 2, "{missed} of 20");
    }

    #[test]
    fn the_budget_ends_a_comparison() {
        for (budget, blocks, verdicts) in [(25.0, 1, 0), (45.0, 3, 1), (75.0, 6, 1)] {
            let (comparison, end) = compared(Work::Seconds(1.0), 0.002, limits(budget), 7);
            assert_eq!((end, comparison.blocks.len()), (End::Budget, blocks), "{budget}");
            assert_eq!(comparison.verdicts.len(), verdicts, "{budget}");
            assert!(comparison.seconds() <= budget, "{budget}");
        }
    }

    #[test]
    fn a_budget_that_ends_before_the_first_look_allows_one_evaluation() {
        let (mut comparison, _) = compared(Work::Seconds(1.0), 0.002, limits(75.0), 7);
        comparison.verdicts.clear();
        comparison.looks = Some(Looks::sized(7, 2));
        assert_eq!(
            (comparison.blocks.len(), comparison.looks.as_ref().unwrap().after_blocks()),
            (6, &[7][..])
        );
        assert_eq!(next(&mut comparison, &[0, 1], limits(75.0)), Some(End::Budget));
        assert_eq!(comparison.verdicts.len(), 1);
    }

    #[test]
    fn a_disturbed_block_is_measured_again_as_often_as_the_budget_allows() {
        let mut comparison = comparison(Work::Seconds(1.0));
        assert_eq!(attempts(&comparison, 25.0, 3), 3);
        comparison.blocks.push(Block {
            seed: 0,
            slices: Vec::new(),
            disturbance: None,
            attempts: 1,
            seconds: 10.0,
        });
        for (budget, most) in [(20.0, 1), (39.0, 1), (40.0, 2), (1e6, 3)] {
            assert_eq!(attempts(&comparison, budget, 3), most, "{budget}");
        }
    }

    /// After a disturbed block, the next one is measured once.
    #[test]
    fn measurements_that_were_repeated_do_not_lengthen_the_blocks_to_come() {
        let mut comparison = comparison(Work::Seconds(1.0));
        let block = Block { seed: 0, slices: Vec::new(), disturbance: None, attempts: 3, seconds: 30.0 };
        comparison.blocks.push(block);
        let began = comparison.seconds();
        assert_eq!(affordable(&comparison, began + 25.0), 2);
        assert_eq!(next(&mut comparison, &[0, 1], limits(began + 25.0)), None);
        assert_eq!(next(&mut comparison, &[0, 1], limits(began + 9.0)), Some(End::Budget));
        let pilot = comparison.seconds() - 30.0;
        assert!((comparison.seconds_of(2) - pilot - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_budget_that_the_user_did_not_give_allows_some_blocks() {
        for detect in [None, Some(Margin::default())] {
            let limits = Interleave { detect, min_blocks: FIRST_LOOK, ..limits(1.0) };
            let (comparison, _) = compared(Work::Seconds(1.0), 0.002, limits, 7);
            assert_eq!((comparison.blocks.len(), comparison.verdicts.len()), (5, 1), "{detect:?}");
        }
    }

    #[test]
    fn looks_are_planned_once_and_kept() {
        let (comparison, _) = compared(Work::Seconds(1.0), 0.0, limits(1e6), 3);
        let looks = comparison.looks.as_ref().unwrap().after_blocks();
        assert_eq!(looks.first(), Some(&FIRST_LOOK));
        assert!(looks.contains(&u32::try_from(comparison.blocks.len()).unwrap()), "{looks:?}");
        let text = comparison.findings(&[0, 1]).unwrap();
        assert!(text.contains(&format!(": {} blocks (", looks.last().unwrap())), "{text}");
        assert!(!text.contains("needs"), "the plan suffices: {text}");
    }

    /// The noise of the stores is 1.84%: five blocks find 5.9% if they are evaluated once, and 3% needs more.
    #[test]
    fn without_a_difference_to_detect_five_blocks_tell_what_it_would_need() {
        let asked = Interleave { detect: None, ..limits(1e6) };
        let forecast = comparison(Work::Seconds(1.0)).forecast(2, false, 1e6);
        assert!(forecast.contains("about 5 blocks (35 s) find differences of 5.9%"), "{forecast}");
        let mut kinds = Vec::new();
        for seed in 0..20 {
            let (comparison, end) = compared(Work::Seconds(1.0), 0.02, asked, seed);
            assert_eq!(comparison.blocks.len(), 5);
            let [pair] = comparison.verdicts.as_slice() else { panic!("{:?}", comparison.verdicts) };
            let is_open = pair.verdict == VerdictKind::CannotTell;
            assert_eq!(end, if is_open { End::FirstBlocks } else { End::Decided });
            let text = comparison.findings(&[0, 1]).unwrap();
            assert!(text.contains(": 5 blocks (60 s) find differences of "), "{text}");
            assert_eq!(pair.needed.is_some(), is_open);
            if let Some(needed) = pair.needed {
                assert_eq!(needed.seconds, needed.blocks.map(|blocks| 10.0 + 10.0 * f64::from(blocks)));
                assert!(text.contains("; 3% needs up to "), "{text}");
            }
            kinds.push(is_open);
        }
        assert!(kinds.iter().filter(|is_open| **is_open).count() > 5, "{kinds:?}");
    }

    #[test]
    fn a_forecast_names_blocks_and_time_and_a_budget_that_is_too_short() {
        let text = comparison(Work::Seconds(2.0)).forecast(2, true, 1e6);
        assert!(text.contains("find differences of 3%, if the instances of a store vary by 1.8%"), "{text}");
        assert!(!text.contains("--budget"), "{text}");
        let text = comparison(Work::Seconds(2.0)).forecast(9, true, 20.0);
        assert!(text.ends_with("; --budget is 20 s"), "{text}");
    }

    #[test]
    fn one_store_is_not_compared() {
        assert_eq!(next(&mut comparison(Work::Seconds(1.0)), &[1], limits(1e6)), Some(End::Failed));
    }

    /// Without the store that is in all groups, stores of different groups have no common scale.
    #[test]
    fn groups_without_their_common_store_are_not_compared() {
        let mut three = Comparison { groups: vec![vec![0, 1], vec![0, 2]], ..comparison(Work::Seconds(1.0)) };
        assert_eq!(next(&mut three, &[1, 2], limits(1e6)), Some(End::Failed));
        assert_eq!(next(&mut three, &[0, 1, 2], limits(1e6)), None);
    }
}
