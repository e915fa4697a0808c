//! Tests of verdicts on few blocks, with numbers that can be checked by hand.

use super::*;
use crate::bench::result::statistics::BETWEEN_RUNS;

/// Returns the logarithms of a store's rate by block number; `percent` has them in percent (10.0 for 0.1).
fn store(percent: &[f64]) -> BTreeMap<u32, f64> {
    (0..).zip(percent.iter().map(|one| one / 100.0)).collect()
}

fn once(stores: &[BTreeMap<u32, f64>]) -> Pairwise {
    Pairwise::of(Rates::of_one_run(stores, &Looks::once(), Margin::default()))
}

fn verdict(one: &[f64], other: &[f64]) -> Verdict {
    once(&[store(one), store(other)]).between(0, 1).unwrap().verdict
}

const CALM: [f64; 5] = [-0.4, 0.2, 0.0, 0.4, -0.2];

fn plus(difference: f64) -> [f64; 5] {
    CALM.map(|value| difference - value)
}

/// The logarithms of both stores' ratio have mean 0.1 and standard deviation 0.00632 in five blocks: t = 2.776 with 4
/// degrees of freedom gives the confidence interval 0.1 +- 0.00785.
#[test]
fn interval_has_the_width_of_students_distribution() {
    let pairwise = once(&[store(&plus(10.0)), store(&CALM)]);
    let pair = pairwise.between(0, 1).unwrap();
    assert!((pair.ratio - 0.1_f64.exp()).abs() < 1e-9 && pair.blocks == 5, "{pair:?}");
    assert!((pair.interval.0.ln() - 0.092_15).abs() < 1e-4, "{pair:?}");
    assert!((pair.interval.1.ln() - 0.107_85).abs() < 1e-4, "{pair:?}");
    assert_eq!(pair.verdict, Verdict::Faster);
}

/// With a probability of 95% the intervals of all pairs contain their ratios, so each of three has t at a level of 5% / 3:
/// 3.961 with 4 degrees of freedom. Only if Holm's procedure has shown a difference, it ends at 1.
#[test]
fn intervals_of_several_pairs_hold_together() {
    let pairwise = once(&[store(&plus(10.0)), store(&CALM), store(&plus(20.0))]);
    let pair = pairwise.between(0, 1).unwrap();
    let width = pair.interval.1.ln() - pair.interval.0.ln();
    assert!((width / 2.0 - 3.961 * 0.006_32 / 5.0_f64.sqrt()).abs() < 1e-4, "{pair:?}");
    // The mean is 3.25 standard errors: significant once both other pairs are, but not at a level of 5% / 3.
    let noisy = CALM.map(|value| 20.0 * value + 9.2);
    let pairwise = once(&[store(&noisy), store(&[0.0; 5]), store(&[-500.0; 5])]);
    let pair = pairwise.between(0, 1).unwrap();
    assert!(pair.verdict == Verdict::Faster && pair.interval.0 == 1.0, "{pair:?}");
}

/// The first look of a long plan has a limit that five blocks never reach.
#[test]
fn interval_at_the_first_look_of_a_long_plan_is_finite() {
    let noisy = CALM.map(|value| 20.0 * value);
    let pairwise = Pairwise::of(Rates::of_one_run(
        &[store(&noisy), store(&CALM)],
        &Looks::sized(250, 2),
        Margin::default(),
    ));
    let pair = pairwise.between(0, 1).unwrap();
    assert!(pair.interval.0 > 0.0 && pair.interval.1.is_finite(), "{pair:?}");
    assert!(pair.interval.1 > 1e6 && matches!(pair.verdict, Verdict::CannotTell { .. }), "{pair:?}");
}

#[test]
fn each_verdict_has_its_case() {
    assert!(matches!(verdict(&plus(10.0), &CALM), Verdict::Faster));
    assert!(matches!(verdict(&plus(-10.0), &CALM), Verdict::Slower));
    assert!(matches!(verdict(&plus(1.5), &CALM), Verdict::SlightlyFaster { .. }));
    assert!(matches!(verdict(&plus(-1.5), &CALM), Verdict::SlightlySlower { .. }));
    assert!(matches!(verdict(&plus(0.1), &CALM), Verdict::Equal { .. }));
    let noisy = CALM.map(|value| 20.0 * value);
    assert!(matches!(
        verdict(&noisy, &CALM),
        Verdict::CannotTell { blocks: Some(6..), may_be_equal: true, .. }
    ));
    let near = noisy.map(|value| value + 2.9);
    assert!(matches!(
        verdict(&near, &CALM),
        Verdict::CannotTell { blocks: Some(6..), may_be_equal: false, .. }
    ));
}

#[test]
fn noise_that_the_stores_of_a_block_share_hides_nothing() {
    let block = [60.0, -40.0, 0.0, 90.0, -80.0];
    let with_block =
        |values: [f64; 5]| -> Vec<f64> { values.iter().zip(block).map(|(one, all)| one + all).collect() };
    assert!(matches!(verdict(&with_block(plus(10.0)), &with_block(CALM)), Verdict::Faster));
}

#[test]
fn exactly_equal_and_exactly_different_ratios_have_a_verdict() {
    assert!(matches!(verdict(&[5.0; 5], &[5.0; 5]), Verdict::Equal { .. }));
    assert!(matches!(verdict(&[9.0; 5], &[5.0; 5]), Verdict::Faster));
}

#[test]
fn a_comparison_is_the_same_from_both_sides() {
    let pairwise = once(&[store(&plus(10.0)), store(&CALM), store(&plus(11.0))]);
    for (first, second) in [(0, 1), (0, 2), (1, 2)] {
        let (one, other) =
            (pairwise.between(first, second).unwrap(), pairwise.between(second, first).unwrap());
        assert!((one.ratio * other.ratio - 1.0).abs() < 1e-12);
        assert!((one.interval.0 * other.interval.1 - 1.0).abs() < 1e-12);
        let twice = other.reversed();
        assert!((twice.ratio - one.ratio).abs() < 1e-12 && twice.first == first);
        match (one.verdict, other.verdict) {
            (Verdict::Faster, Verdict::Slower) | (Verdict::Slower, Verdict::Faster) => {}
            (Verdict::SlightlyFaster { .. }, Verdict::SlightlySlower { .. })
            | (Verdict::SlightlySlower { .. }, Verdict::SlightlyFaster { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A difference that is significant between two stores alone is not significant among the 45 pairs of ten stores.
#[test]
fn intervals_are_wider_for_more_pairs() {
    let (fast, slow) = (store(&[1.9, 0.4, 1.6, 0.9, 1.4]), store(&CALM));
    let two = once(&[fast.clone(), slow.clone()]);
    assert!(two.between(0, 1).unwrap().verdict.is_different());
    let mut stores = vec![fast, slow];
    stores.extend(
        (0..8).map(|shift| store(&[1.0, -1.0, 0.5, -0.5, 0.0].map(|value| value * f64::from(shift)))),
    );
    let ten = once(&stores);
    assert_eq!(ten.pairs().len(), 45);
    assert!(!ten.between(0, 1).unwrap().verdict.is_different(), "{:?}", ten.between(0, 1));
}

/// The confidence interval of a ratio excludes 1 exactly if the verdict is a difference, at each look and with any
/// number of pairs.
#[test]
fn intervals_and_verdicts_agree() {
    let shifts = [0.0, 0.4, 0.8, 1.2, 2.0, 3.0];
    let stores: Vec<_> =
        shifts.iter().map(|shift| store(&CALM.map(|value| shift + value * (1.0 + shift)))).collect();
    for looks in [Looks::once(), Looks::sized(5, 6), Looks::sized(9, 6)] {
        let pairwise = Pairwise::of(Rates::of_one_run(&stores, &looks, Margin::default()));
        assert_eq!(pairwise.pairs().len(), 15);
        for pair in pairwise.pairs() {
            let excludes = pair.interval.0 >= 1.0 || pair.interval.1 <= 1.0;
            assert_eq!(pair.verdict.is_different(), excludes, "{pair:?}");
        }
    }
}

#[test]
fn only_the_blocks_of_the_newest_look_count() {
    let looks = Looks::sized(20, 2);
    assert_eq!(looks.after_blocks(), [5, 9, 13, 16, 20]);
    let values = |blocks: usize| -> Vec<f64> { CALM.iter().cycle().take(blocks).copied().collect() };
    for (measured, used) in [(4, None), (5, Some(5)), (12, Some(9)), (25, Some(20))] {
        let stores = [store(&values(measured)), store(&values(measured))];
        let pairwise = Pairwise::of(Rates::of_one_run(&stores, &looks, Margin::default()));
        assert_eq!(pairwise.between(0, 1).map(|pair| pair.blocks), used, "{measured} blocks");
    }
    let two = once(&[store(&CALM[..2]), store(&CALM[..2])]);
    assert!(two.pairs().is_empty() && !two.is_decided());
}

#[test]
fn the_group_of_the_winner_is_shown_equal_to_it() {
    let uncertain = CALM.map(|value| 12.0 * value + 9.0);
    let stores = [store(&plus(-20.0)), store(&uncertain), store(&plus(9.5)), store(&plus(10.0))];
    let pairwise = once(&stores);
    let groups = pairwise.rank_groups(pairwise.order());
    assert_eq!(groups, RankGroups { winners: vec![3, 2], undecided: vec![1], slower: vec![0] });
    assert_eq!(groups.winner(), None);
    let without_second = once(&stores[..2]);
    assert_eq!(without_second.rank_groups(&[1, 0]).winner(), Some(1));
    assert_eq!(once(&[]).rank_groups(&[]), RankGroups::default());
}

/// A difference with a p-value of 0.03 is shown alone, and in a family of two only if the other one is too.
#[test]
fn comparisons_of_a_family_are_corrected_together() {
    let (looks, margin) = (Looks::once(), Margin::default());
    // The mean of the ratio is 3.25 standard errors: p = 0.031 with 4 degrees of freedom.
    let noisy = [store(&CALM.map(|value| 20.0 * value + 9.2)), store(&[0.0; 5])];
    let equal = [store(&CALM), store(&CALM.map(|value| -20.0 * value))];
    let clear = [store(&plus(10.0)), store(&CALM)];
    let rates = |stores| Rates::of_one_run(stores, &looks, margin);
    let shown = |comparisons: &[Rates<'_>], others| -> Vec<bool> {
        let all = Pairwise::of_family(comparisons, others);
        let pairs = all.iter().map(|one| one.between(0, 1).unwrap());
        pairs
            .map(|pair| {
                let is_different = pair.verdict.is_different();
                assert_eq!(is_different, pair.interval.0 >= 1.0 || pair.interval.1 <= 1.0, "{pair:?}");
                is_different
            })
            .collect()
    };
    assert_eq!(shown(&[rates(&noisy)], 0), [true]);
    assert_eq!(shown(&[rates(&noisy)], 1), [false]);
    assert_eq!(shown(&[rates(&equal), rates(&noisy)], 0), [false, false]);
    assert_eq!(shown(&[rates(&clear), rates(&noisy)], 0), [true, true]);
    assert_eq!(shown(&[rates(&clear), rates(&noisy)], 1), [true, false]);
}

/// The machine may have been in another state: a run of the same build may differ by as much.
#[test]
fn stores_of_different_runs_differ_only_if_runs_of_one_build_do_not() {
    let looks = Looks::once();
    let compared = |percent, of: &[usize]| {
        let runs = Runs { of, deviation: BETWEEN_RUNS };
        let stores = [store(&plus(percent)), store(&CALM)];
        let rates = Rates { runs, ..Rates::of_one_run(&stores, &looks, Margin::default()) };
        Pairwise::of(rates).between(0, 1).unwrap().verdict
    };
    assert!(matches!(compared(25.0, &[0, 0]), Verdict::Faster));
    let undecided = compared(25.0, &[0, 1]);
    assert!(matches!(undecided, Verdict::CannotTell { blocks: None, .. }), "{undecided:?}");
    assert!(matches!(compared(100.0, &[0, 1]), Verdict::Faster));
    assert!(matches!(compared(0.0, &[0, 1]), Verdict::CannotTell { .. }));
}

/// An interrupted comparison has no verdicts.
#[test]
fn order_without_judged_pairs_follows_the_rates() {
    let rates = [1.0, 3.0, 2.0].map(|rate| BTreeMap::from([(0, rate)]));
    assert_eq!(Pairwise::judged(Vec::new(), &rates).order(), [1, 2, 0]);
}
