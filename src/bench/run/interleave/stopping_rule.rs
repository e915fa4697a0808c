//! Decision after each block of a comparison: another block, or the end.

use crate::bench::{
    result::{
        comparison::{Comparison, End},
        spread::ENOUGH,
        statistics::{
            looks::{FIRST_LOOK, Looks},
            sample_size::{self, LEVEL, Noise},
        },
    },
    run::order::seed_of,
};

/// Evaluates a comparison after its newest block. `stores` are the indices of the stores that have not failed, and
/// `budget` is the time that the comparison may take, in seconds. Returns the reason why no block follows, or `None` if
/// one does.
pub fn next(comparison: &mut Comparison, stores: &[usize], budget: f64) -> Option<End> {
    let blocks = u32::try_from(comparison.blocks.len()).unwrap_or(u32::MAX);
    if stores.len() < 2 {
        return Some(End::Failed);
    }
    let affordable = affordable(comparison, budget);
    if blocks < FIRST_LOOK {
        return (blocks > 0 && affordable == 0).then(|| end_early(comparison, stores));
    }
    if comparison.looks.is_none() {
        let planned = planned(comparison, stores);
        let last = planned.min(blocks.saturating_add(affordable));
        comparison.looks = Some(Looks::sized(last, stores.len()));
    }
    let looks = comparison.looks.clone().unwrap_or_else(Looks::once);
    let last = looks.after_blocks().last().copied().unwrap_or(blocks);
    if looks.after_blocks().contains(&blocks) && comparison.evaluate(stores, &looks) {
        return Some(End::Decided);
    }
    match (blocks >= last, affordable) {
        (true, _) if blocks < planned(comparison, stores) => Some(End::Budget),
        (true, _) => Some(End::Planned),
        (false, 0) => Some(End::Budget),
        (false, _) => None,
    }
}

/// Returns the number of further blocks for which the budget of time suffices.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "blocks"
)]
fn affordable(comparison: &Comparison, budget: f64) -> u32 {
    let blocks: f64 = comparison.blocks.iter().map(|block| block.seconds).sum();
    let mean = blocks / comparison.blocks.len() as f64;
    let left = (budget - comparison.seconds()) / mean;
    if left > 0.0 { left as u32 } else { 0 }
}

/// Returns the number of blocks needed to find a difference of the comparison's margin, given the noise of the first
/// five.
fn planned(comparison: &Comparison, stores: &[usize]) -> u32 {
    noise(comparison, stores).map_or(FIRST_LOOK, |noise| noise.blocks(comparison.margin, stores.len()))
}

/// Estimates from the first five blocks how much the rate of a store varies from block to block; `None` if that is not
/// possible.
fn noise(comparison: &Comparison, stores: &[usize]) -> Option<Noise> {
    let mut rates = comparison.rates(stores);
    rates.iter_mut().for_each(|rates| rates.retain(|block, _| *block < FIRST_LOOK));
    Noise::of(&rates)
}

/// Ends a comparison whose budget does not suffice for the first planned evaluation; evaluates it now if it has enough
/// blocks. The budget, not the rates, determines the number of blocks, so one evaluation is valid.
fn end_early(comparison: &mut Comparison, stores: &[usize]) -> End {
    if comparison.blocks.len() >= ENOUGH {
        let looks = Looks::once();
        comparison.evaluate(stores, &looks);
        comparison.looks = Some(looks);
    }
    End::Budget
}

/// Returns a sentence about the planned blocks of a comparison: the noise, the maximum number of blocks and of minutes,
/// and the smallest difference that they find. `None` before the plan is made.
pub fn plan_text(comparison: &Comparison, stores: &[usize]) -> Option<String> {
    let noise = noise(comparison, stores)?;
    let looks = comparison.looks.as_ref()?;
    let last = *looks.after_blocks().last()?;
    let level = LEVEL / sample_size::pairs(stores.len()) / looks.factor();
    let detectable = sample_size::detectable(noise.deviation, last, level).exp_m1();
    let blocks: f64 = comparison.blocks.iter().map(|block| block.seconds).sum();
    let minutes = blocks / f64::from(FIRST_LOOK) * f64::from(last) / 60.0;
    Some(format!(
        "the instances of a store vary by {:.1}%: at most {last} blocks, {minutes:.1} minutes, which find differences of \
         about {:.1}%",
        noise.deviation * 100.0,
        detectable * 100.0
    ))
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
        result::comparison::{Block, Slicing, VerdictKind, Work},
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
        fn run(&mut self, slice: Slice) -> Option<SliceReport> {
            self.0.run(slice)
        }
    }

    fn comparison(work: Work) -> Comparison {
        let slicing = Slicing {
            slice_seconds: 0.1,
            discarded_seconds: 0.005,
            work,
            pilot: Vec::new(),
            is_like_alone: true,
            seconds: 10.0,
        };
        Comparison {
            id: "custom".into(),
            cells: vec!["one".into(), "other".into()],
            margin: Default::default(),
            slicing: Some(slicing),
            looks: None,
            blocks: Vec::new(),
            verdicts: Vec::new(),
            end: None,
        }
    }

    /// Compares two simulated stores, of which the second is slower by the fraction `loss`, in blocks of 10 s. Returns
    /// the comparison and the reason for its end.
    fn compared(work: Work, loss: f64, budget: f64, seed: u64) -> (Comparison, End) {
        let mut comparison = comparison(work);
        let mut random = SmallRng::seed_from_u64(seed);
        loop {
            if let Some(end) = next(&mut comparison, &[0, 1], budget) {
                return (comparison, end);
            }
            let mut stores =
                [0.0, loss].map(|loss| Noisy::new(usize::from(loss > 0.0), loss, 0.0184, &mut random));
            let slicing = comparison.slicing.clone().unwrap();
            let slices = run_block(&mut stores, &slicing, &mut random);
            let block = Block { seed, slices, disturbance: None, seconds: 10.0 };
            comparison.blocks.push(block);
        }
    }

    /// A comparison finds no difference between two equal stores. At most 5% of comparisons may find one: of 60, 7 or
    /// fewer with probability 0.99.
    #[test]
    fn a_store_does_not_differ_from_itself() {
        let differ = |seed| {
            let work = if seed % 2 == 0 { Work::Seconds(1.0) } else { Work::Operations(10_000_000) };
            let (comparison, end) = compared(work, 0.0, 1e6, seed);
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
            let (comparison, _) = compared(work, 0.05, 1e6, seed);
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
            let (comparison, end) = compared(Work::Seconds(1.0), 0.002, budget, 7);
            assert_eq!((end, comparison.blocks.len()), (End::Budget, blocks), "{budget}");
            assert_eq!(comparison.verdicts.len(), verdicts, "{budget}");
            assert!(comparison.seconds() <= budget, "{budget}");
        }
    }

    #[test]
    fn looks_are_planned_once_and_kept() {
        let (comparison, _) = compared(Work::Seconds(1.0), 0.0, 1e6, 3);
        let looks = comparison.looks.as_ref().unwrap().after_blocks();
        assert_eq!(looks.first(), Some(&FIRST_LOOK));
        assert!(looks.contains(&u32::try_from(comparison.blocks.len()).unwrap()), "{looks:?}");
        let text = plan_text(&comparison, &[0, 1]).unwrap();
        assert!(text.contains(&format!("at most {} blocks", looks.last().unwrap())), "{text}");
    }

    #[test]
    fn one_store_is_not_compared() {
        assert_eq!(next(&mut comparison(Work::Seconds(1.0)), &[1], 1e6), Some(End::Failed));
    }
}
