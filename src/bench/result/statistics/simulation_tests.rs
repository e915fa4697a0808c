//! Tests that simulate comparisons, without stores: how often equal stores are called different, how often a difference
//! is found, and the factors that correct for several planned evaluations (looks). All seeds are fixed.

use super::{
    looks::{FIRST_LOOK, Looks},
    margin::Margin,
    normal,
    pairwise::{Pairwise, Rates},
    sample_size::{LEVEL, Noise, POWER},
    squares, student,
    verdict::Verdict,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::BTreeMap;

/// Standard deviation of the part of the logarithm of the rate that all stores of a simulated block have in common.
const BLOCK_NOISE: f64 = 0.05;

/// Returns a random number from the standard normal distribution (Box and Muller).
fn draw(random: &mut SmallRng) -> f64 {
    let (one, other): (f64, f64) = (random.random_range(1e-300..1.0), random.random());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

/// Simulates a comparison as the program carries it out: five blocks, a plan, then blocks until each pair has a verdict
/// or the plan ends. Store 0 is slower than the others by `loss` (a difference of logarithms), and `deviation` is the
/// noise. `others` is the number of pairs that are tested in one family with these. Returns the rates with their looks,
/// the comparison at the last look, and the number of blocks.
fn compared(stores: usize, deviation: f64, loss: f64, others: usize, random: &mut SmallRng) -> Simulated {
    let margin = Margin::default();
    let mut values: Vec<BTreeMap<u32, f64>> = vec![BTreeMap::new(); stores];
    let mut measured = 0;
    let mut measure_until = |values: &mut Vec<BTreeMap<u32, f64>>, last: u32| {
        for block in measured..last {
            let common = BLOCK_NOISE * draw(random);
            for (store, values) in values.iter_mut().enumerate() {
                let slower = if store == 0 { loss } else { 0.0 };
                values.insert(block, 10.0 + common - slower + deviation * draw(random));
            }
        }
        measured = last;
    };
    measure_until(&mut values, FIRST_LOOK);
    let noise = Noise::of(&values).unwrap();
    let looks = Looks::sized(noise.blocks(margin, stores, others), stores);
    let last = *looks.after_blocks().last().unwrap();
    for look in looks.after_blocks().to_vec() {
        measure_until(&mut values, look);
        let rates = Rates::of_one_run(&values, &looks, margin);
        let pairwise = Pairwise::of_family(&[rates], others).pop().unwrap();
        if pairwise.is_decided() || look == last {
            return Simulated { values, looks, pairwise, blocks: look };
        }
    }
    unreachable!("the last look returns");
}

/// Simulated comparison.
struct Simulated {
    values: Vec<BTreeMap<u32, f64>>,
    looks: Looks,
    pairwise: Pairwise,
    blocks: u32,
}

/// Returns the largest likely number of events among `all` trials with the true rate `rate`: exceeded in one of a
/// thousand simulations (normal approximation of the binomial distribution).
fn at_most(rate: f64, all: u32) -> f64 {
    let all = f64::from(all);
    rate * all + 3.09 * (all * rate * (1.0 - rate)).sqrt() + 0.5
}

/// Asserts that at most 5% of `runs` comparisons of equal stores find a difference, that at least 95% of the comparisons
/// with a store that is slower by the margin find it in each pair with that store, and that at most 5% call it equal to
/// another one.
fn assert_rates(stores: usize, deviation: f64, runs: u32, random: &mut SmallRng) {
    let (mut wrong, mut missed, mut equated, mut reversed, mut blocks) = (0_u32, 0_u32, 0_u32, 0, 0);
    for _ in 0..runs {
        let equal = compared(stores, deviation, 0.0, 0, random).pairwise;
        wrong += u32::from(equal.pairs().iter().any(|pair| pair.verdict.is_different()));
        let unequal = compared(stores, deviation, Margin::default().logarithm(), 0, random);
        let verdicts: Vec<_> =
            (1..stores).map(|other| unequal.pairwise.between(0, other).unwrap().verdict).collect();
        equated += u32::from(verdicts.iter().any(|verdict| matches!(verdict, Verdict::Equal { .. })));
        for verdict in verdicts {
            missed += u32::from(!verdict.is_different());
            reversed += u32::from(matches!(verdict, Verdict::Faster | Verdict::SlightlyFaster { .. }));
        }
        blocks += unequal.blocks;
    }
    let pairs = runs * u32::try_from(stores - 1).unwrap();
    let shares = (f64::from(wrong) / f64::from(runs), f64::from(missed) / f64::from(pairs));
    println!(
        "{stores} stores, deviation {deviation}: {shares:?} wrong and missed, {equated} of {runs} equal, {} blocks",
        blocks / runs
    );
    assert!(shares.0 <= LEVEL, "{stores} stores, {deviation}: {wrong} of {runs} differ");
    assert!(shares.1 <= 1.0 - POWER, "{stores} stores, {deviation}: {missed} of {pairs} not found");
    assert!(
        f64::from(equated) <= at_most(LEVEL, runs),
        "{stores} stores, {deviation}: {equated} of {runs} called equal"
    );
    assert!(
        reversed <= 2 + pairs / 1000,
        "{stores} stores, {deviation}: {reversed} of {pairs} called faster"
    );
}

#[test]
fn two_stores_differ_only_if_one_is_slower() {
    let mut random = SmallRng::seed_from_u64(1);
    for deviation in [0.013, 0.0184, 0.026] {
        assert_rates(2, deviation, 3000, &mut random);
    }
}

#[test]
fn nine_stores_differ_only_if_one_is_slower() {
    let mut random = SmallRng::seed_from_u64(2);
    for deviation in [0.013, 0.0184, 0.026] {
        assert_rates(9, deviation, 200, &mut random);
    }
}

/// A duel of equal programs over eight workloads finds a difference in at most 5% of cases: its comparisons are one
/// family while they are measured, and again at the end. One program that is slower by the margin in all of them is
/// found in each.
#[test]
fn a_duel_of_many_workloads_differs_only_if_one_program_is_slower() {
    const WORKLOADS: usize = 8;
    const RUNS: u32 = 300;
    let mut random = SmallRng::seed_from_u64(5);
    let mut different = |loss: f64| {
        let parts: Vec<_> =
            (0..WORKLOADS).map(|_| compared(2, 0.0184, loss, WORKLOADS - 1, &mut random)).collect();
        let margin = Margin::default();
        let rates =
            parts.iter().map(|Simulated { values, looks, .. }| Rates::of_one_run(values, looks, margin));
        let family = Pairwise::of_family(&rates.collect::<Vec<_>>(), 0);
        let pairs = family.iter().flat_map(Pairwise::pairs);
        pairs.filter(|pair| pair.verdict.is_different()).count()
    };
    let wrong = u32::try_from((0..RUNS).filter(|_| different(0.0) > 0).count()).unwrap();
    assert!(f64::from(wrong) <= at_most(LEVEL, RUNS), "{wrong} of {RUNS} duels differ");
    let found: usize = (0..RUNS / 10).map(|_| different(Margin::default().logarithm())).sum();
    let all = WORKLOADS * RUNS as usize / 10;
    assert!(found as f64 >= POWER * all as f64, "{found} of {all} losses are found");
}

/// An evaluation after every block from 5 to 30, without planned looks, finds a difference between equal stores in more
/// than 15% of all comparisons.
#[test]
fn looks_without_a_plan_find_differences_that_are_none() {
    let mut random = SmallRng::seed_from_u64(3);
    let mut wrong = 0;
    for _ in 0..400 {
        let mut values = vec![BTreeMap::new(), BTreeMap::new()];
        let differs = (0..30).any(|block| {
            for store in &mut values {
                store.insert(block, draw(&mut random));
            }
            let pairwise = Pairwise::of(Rates::of_one_run(&values, &Looks::once(), Margin::default()));
            block >= 4 && pairwise.pairs().iter().any(|pair| pair.verdict.is_different())
        });
        wrong += u32::from(differs);
    }
    assert!(wrong > 60, "{wrong} of 400");
}

/// Returns the simulated factor for one pair among `stores` equal stores, whose margin is `1 / noise` standard
/// deviations of an instance: the probability that a planned look finds a difference, divided by that of the last look
/// alone.
fn simulated_factor(stores: usize, noise: f64, random: &mut SmallRng) -> f64 {
    const RUNS: usize = 20_000;
    let margin = Margin::default();
    let deviation = margin.logarithm() * noise;
    let freedom = f64::from(FIRST_LOOK - 1);
    let mut largest: Vec<f64> = (0..RUNS)
        .map(|_| {
            // Differences of the pair. The other stores matter only for the estimate of the noise.
            let pair = |random: &mut SmallRng| std::f64::consts::SQRT_2 * draw(random);
            let mut differences: Vec<f64> = (0..FIRST_LOOK).map(|_| pair(random)).collect();
            let others = (stores - 2) * 4;
            let rest: f64 = (0..others).map(|_| draw(random).powi(2)).sum();
            let all = freedom + f64::from(u32::try_from(others).unwrap());
            let variance = (squares(&differences) / 2.0 + rest) / all;
            let estimate = Noise { deviation: deviation * variance.sqrt(), freedom: all };
            let last = estimate.blocks(margin, stores, 0);
            let mut deviations = Vec::new();
            for look in Looks::sized(last, stores).after_blocks() {
                differences.resize_with(usize::try_from(*look).unwrap(), || pair(random));
                let blocks = f64::from(*look);
                let error = (squares(&differences) / (blocks - 1.0) / blocks).sqrt();
                let t = differences.iter().sum::<f64>() / blocks / error;
                let share = (blocks / f64::from(last)).sqrt();
                deviations.push(normal::quantile(student::two_sided(t, blocks - 1.0) / 2.0) * share);
            }
            deviations.into_iter().fold(0.0, f64::max)
        })
        .collect();
    largest.sort_by(|a, b| b.total_cmp(a));
    let critical = largest[RUNS / 20];
    LEVEL / (2.0 * normal::tail(critical))
}

/// The factors of planned looks are rounded up from 100,000 simulations with each of 8 kinds of noise, from 0.35 to 0.9
/// margins: at most 1.78 for two stores, 1.39 for three, 1.37 for four and 1.32 for nine. The tolerance is three
/// standard errors of 20,000: 3 sqrt(0.95 / 0.05 / 20,000) = 9%.
#[test]
fn factors_match_a_simulation() {
    let mut random = SmallRng::seed_from_u64(4);
    for stores in [2, 3, 4] {
        let simulated = [0.48, 0.53, 0.62].map(|noise| simulated_factor(stores, noise, &mut random));
        let largest = simulated.into_iter().fold(0.0, f64::max);
        let factor = Looks::sized(FIRST_LOOK, stores).factor();
        println!("{stores} stores: {simulated:?}, {factor}");
        assert!((largest / factor - 1.0).abs() < 0.09, "{stores} stores: {simulated:?}, not {factor}");
    }
}
