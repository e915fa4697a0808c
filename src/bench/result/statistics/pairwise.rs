//! Comparison of all pairs of a table's stores, from the rate of each store in each block.
//!
//! A block gives one ratio of each pair; slices within it are pooled before. A difference is shown by Student's
//! test of the mean logarithm of these ratios, equality by two one-sided tests against the margin (Schuirmann, A
//! Comparison of the Two One-Sided Tests Procedure and the Power Approach, 1987). The tests of difference of all
//! pairs are one family, the tests of equality another; each is corrected with Holm's procedure, since neighbours
//! in a ranking are chosen by the data. The comparisons of a duel are one family together. [`super::looks`] corrects for
//! several evaluations.

#[cfg(test)]
#[path = "pairwise_tests.rs"]
mod tests;

use super::{
    holm,
    looks::Looks,
    margin::Margin,
    mean, real,
    sample_size::{LEVEL, Noise, POWER},
    squares, student,
    verdict::Verdict,
};
use crate::bench::result::spread::ENOUGH;
use std::collections::BTreeMap;

/// Comparison of all pairs of a table's stores, with a verdict on each pair.
#[derive(Clone, Debug)]
pub struct Pairwise {
    /// Compared pairs of stores. A pair with fewer than [`ENOUGH`] common blocks (repetitions) is absent.
    pairs: Vec<Pair>,
    /// Indices of the stores, the best one first: by mean rates or, if the pairs were judged before, by mean ratios.
    order: Vec<usize>,
}

/// Rates of the stores of a comparison, and how it is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Rates<'r> {
    /// Natural logarithm of the rate of each store by block; for a metric of which lower values are better, the negated
    /// logarithm.
    pub stores: &'r [BTreeMap<u32, f64>],
    /// Planned looks (evaluations); the blocks of the latest one count.
    pub looks: &'r Looks,
    /// Difference below which stores count as equal.
    pub margin: Margin,
    /// Runs that measured the stores.
    pub runs: Runs<'r>,
}

impl<'r> Rates<'r> {
    /// Returns the rates of stores that one run measured.
    pub fn of_one_run(stores: &'r [BTreeMap<u32, f64>], looks: &'r Looks, margin: Margin) -> Self {
        Self { stores, looks, margin, runs: Runs::default() }
    }
}

/// Runs that measured the stores. The ratio of two stores of different runs contains the difference between these runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runs<'r> {
    /// Number of the run of each store; empty if one run measured all.
    pub of: &'r [usize],
    /// Standard deviation between runs of the logarithm of the metric.
    pub deviation: f64,
}

/// Comparison of two stores: ratio of their rates, and the verdict.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Index of the pair's first store in the list of compared stores.
    pub first: usize,
    /// Index of the pair's second store in the list of compared stores.
    pub second: usize,
    /// Geometric mean of the ratios of the first store's rate to the second's.
    pub ratio: f64,
    /// Confidence interval of `ratio`: with a probability of 95% all pairs of the family lie in theirs, over all looks
    /// (Bonferroni). If a difference is shown, it ends at 1 at the latest.
    pub interval: (f64, f64),
    /// Number of blocks (repetitions that both stores of the pair have) that the comparison of the pair uses.
    pub blocks: u32,
    /// Verdict on the first store, compared with the second.
    pub verdict: Verdict,
}

/// Indices of stores, grouped by their comparison with the best store. Each list is in the order of the ranking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankGroups {
    /// Indices of the winner's group: the best store, and all stores that are shown to differ from it by less than the
    /// margin, below which stores count as equal.
    pub winners: Vec<usize>,
    /// Indices of the stores for which neither equality to the best store (within the margin) nor a lower rate is
    /// shown. If the order is not that of the mean rates, a store that is shown to be faster than the first one is here
    /// too.
    pub undecided: Vec<usize>,
    /// Indices of the stores that are shown to be slower than the best store, and not shown to differ from it by less
    /// than the margin.
    pub slower: Vec<usize>,
}

/// Estimated ratio of two stores' rates, before the corrections for the number of pairs and of evaluations.
struct Estimate {
    first: usize,
    second: usize,
    /// Mean natural logarithm of the ratio of the first store's rate to the second's.
    mean: f64,
    /// Standard deviation, between blocks (repetitions), of the logarithm of the ratio of both stores' rates.
    deviation: f64,
    /// Variance between runs of this logarithm; 0 if one run measured both stores.
    between_runs: f64,
    blocks: u32,
}

impl Pairwise {
    /// Compares all pairs of stores with the blocks of the latest look (evaluation).
    pub fn of(rates: Rates<'_>) -> Self {
        Self::of_family(&[rates], 0).pop().unwrap_or_else(|| Self::judged(Vec::new(), &[]))
    }

    /// Compares all pairs of stores in each of several comparisons, with the blocks of its latest look (evaluation). The
    /// tests of all comparisons are one family, in which each more test needs a smaller p-value. `others` is the number
    /// of comparisons of the family that are measured later: each counts as a pair without a difference, as does a
    /// comparison without enough blocks.
    pub fn of_family(comparisons: &[Rates<'_>], others: usize) -> Vec<Self> {
        let estimates: Vec<Vec<Estimate>> = comparisons.iter().map(Estimate::of_pairs).collect();
        let without_pair = estimates.iter().filter(|own| own.is_empty()).count();
        let count = estimates.iter().map(Vec::len).sum::<usize>();
        let family = count + without_pair + others;
        let tested = |test: fn(&Estimate, &Looks, Margin) -> f64| {
            let of_each = comparisons.iter().zip(&estimates);
            let mut probabilities: Vec<f64> = of_each
                .flat_map(|(rates, own)| own.iter().map(|one| test(one, rates.looks, rates.margin)))
                .collect();
            probabilities.resize(family, 1.0);
            let levels = holm::levels(&probabilities, LEVEL);
            probabilities.into_iter().zip(levels).take(count).map(Tested::new)
        };
        let mut tests = tested(Estimate::difference).zip(tested(Estimate::equality));
        let of_each = comparisons.iter().zip(&estimates).map(|(rates, own)| {
            let pairs = own.iter().zip(tests.by_ref());
            let pairs = pairs.map(|(one, (difference, equality))| {
                let interval = one.interval(rates.looks, LEVEL / real(family), difference.is_shown);
                one.judged((rates.looks, rates.margin), interval, difference, equality)
            });
            let pairs = pairs.collect();
            let level = |store: &usize| rates.stores.get(*store).and_then(mean_of).unwrap_or(f64::MIN);
            let mut order: Vec<usize> = (0..rates.stores.len()).collect();
            order.sort_by(|a, b| level(b).total_cmp(&level(a)));
            Self { pairs, order }
        });
        of_each.collect()
    }

    /// Returns a comparison of stores whose pairs were judged before. `rates` has the logarithms of each store's rates. The
    /// order is by the mean ratio of a store to the others, and stores without a pair keep their place; without any pair it
    /// is by the mean rates.
    pub fn judged(pairs: Vec<Pair>, rates: &[BTreeMap<u32, f64>]) -> Self {
        let level = |store: usize| {
            if pairs.is_empty() {
                return rates.get(store).and_then(mean_of).unwrap_or(f64::MIN);
            }
            let ratios = pairs.iter().filter_map(|pair| match (pair.first == store, pair.second == store) {
                (true, _) => Some(pair.ratio.ln()),
                (_, true) => Some(-pair.ratio.ln()),
                _ => None,
            });
            mean(&ratios.collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let mut order: Vec<usize> = (0..rates.len()).collect();
        order.sort_by(|a, b| level(*b).total_cmp(&level(*a)));
        Self { pairs, order }
    }

    /// Returns all compared pairs of stores, without pairs that have too few common blocks.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Returns the comparison of store `first` with store `second`, or `None` if they have too few common blocks.
    pub fn between(&self, first: usize, second: usize) -> Option<Pair> {
        let pair = |one, other| self.pairs.iter().find(|pair| (pair.first, pair.second) == (one, other));
        pair(first, second).copied().or_else(|| Some(pair(second, first)?.reversed()))
    }

    /// Returns `true` if for each pair of stores a difference or equality is shown, so that more blocks are not needed.
    pub fn is_decided(&self) -> bool {
        let stores = self.order.len();
        self.pairs.len() == stores * stores.saturating_sub(1) / 2
            && self.pairs.iter().all(|pair| pair.verdict.is_decided())
    }

    /// Returns the indices of the stores, the best one first: by their mean rates or, of a comparison that was made by
    /// [`judged`](Self::judged), by their mean ratios to the other stores.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the stores, grouped by their comparison with the first of `order`, which has the indices of all stores,
    /// the best first.
    pub fn rank_groups(&self, order: &[usize]) -> RankGroups {
        let mut groups = RankGroups::default();
        let Some((best, others)) = order.split_first() else { return groups };
        groups.winners.push(*best);
        for store in others {
            let list = match self.between(*best, *store).map(|pair| pair.verdict) {
                // A caller that orders by medians may name a best store whose mean is lower.
                None | Some(Verdict::CannotTell { .. } | Verdict::Slower) => &mut groups.undecided,
                Some(Verdict::Faster) => &mut groups.slower,
                Some(
                    Verdict::Equal { .. } | Verdict::SlightlyFaster { .. } | Verdict::SlightlySlower { .. },
                ) => &mut groups.winners,
            };
            list.push(*store);
        }
        groups
    }
}

impl RankGroups {
    /// Returns the index of the store that is shown to be faster than each of the others, or `None` if there is none or
    /// no other store.
    pub fn winner(&self) -> Option<usize> {
        match (self.winners.as_slice(), self.undecided.is_empty(), self.slower.is_empty()) {
            ([winner], true, false) => Some(*winner),
            _ => None,
        }
    }
}

impl Pair {
    /// Returns the comparison with both stores exchanged: of the second store with the first.
    fn reversed(self) -> Self {
        let verdict = match self.verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            Verdict::SlightlyFaster { margin } => Verdict::SlightlySlower { margin },
            Verdict::SlightlySlower { margin } => Verdict::SlightlyFaster { margin },
            same @ (Verdict::Equal { .. } | Verdict::CannotTell { .. }) => same,
        };
        Self {
            first: self.second,
            second: self.first,
            ratio: 1.0 / self.ratio,
            interval: (1.0 / self.interval.1, 1.0 / self.interval.0),
            verdict,
            ..self
        }
    }
}

/// Largest factor between an estimated ratio and an end of its interval. At an early look of a long plan an end would
/// otherwise be infinite, which the result file cannot represent.
const WIDEST: f64 = 1e9;

/// Result of a statistical test of a pair of stores, with its corrected significance level.
#[derive(Clone, Copy)]
struct Tested {
    level: f64,
    is_shown: bool,
}

impl Tested {
    fn new((probability, level): (f64, f64)) -> Self {
        Self { level, is_shown: probability < level }
    }
}

impl Estimate {
    /// Returns the estimates of all pairs of stores that have enough blocks.
    fn of_pairs(rates: &Rates<'_>) -> Vec<Self> {
        let count = rates.stores.len();
        let pairs = (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second)));
        pairs.filter_map(|pair| Self::of(rates, pair)).collect()
    }

    fn of(rates: &Rates<'_>, (first, second): (usize, usize)) -> Option<Self> {
        let Rates { stores, looks, runs, .. } = rates;
        let (one, other) = (stores.get(first)?, stores.get(second)?);
        let ratio = |(block, value): (&u32, &f64)| Some(value - other.get(block)?);
        let mut ratios: Vec<f64> = one.iter().filter_map(ratio).collect();
        let blocks = looks.newest(u32::try_from(ratios.len()).ok()?)?;
        ratios.truncate(usize::try_from(blocks).ok()?);
        let deviation = (squares(&ratios) / (f64::from(blocks) - 1.0)).sqrt();
        let is_one_run = runs.of.get(first) == runs.of.get(second);
        let between_runs = if is_one_run { 0.0 } else { 2.0 * runs.deviation.powi(2) };
        let is_enough = ratios.len() >= ENOUGH;
        is_enough.then_some(Self { first, second, mean: mean(&ratios)?, deviation, between_runs, blocks })
    }

    /// Returns the standard error of the mean logarithm of the ratio of two stores' rates.
    fn error(&self) -> f64 {
        (self.deviation.powi(2) / f64::from(self.blocks) + self.between_runs).sqrt()
    }

    /// Returns the p-value of the test for a difference of the two stores, two-sided and corrected for all looks
    /// (evaluations).
    fn difference(&self, looks: &Looks, _: Margin) -> f64 {
        let probability = student::two_sided(self.mean / self.error(), f64::from(self.blocks) - 1.0);
        (2.0 * looks.overall(probability / 2.0, self.blocks)).min(1.0)
    }

    /// Returns the p-value of the test that the stores differ by less than the margin, corrected for all looks
    /// (evaluations): the larger one of the two one-sided tests.
    fn equality(&self, looks: &Looks, margin: Margin) -> f64 {
        let probability = margin.equality(self.mean, self.error(), f64::from(self.blocks) - 1.0);
        looks.overall(probability, self.blocks)
    }

    /// Returns the confidence interval of the ratio at the two-sided significance level `level`. That of a shown
    /// difference ends at 1, because Holm's procedure, which has shown it, is stricter for other pairs only.
    fn interval(&self, looks: &Looks, level: f64, is_different: bool) -> (f64, f64) {
        let reach = (looks.critical(level / 2.0, self.blocks) * self.error()).min(WIDEST.ln());
        let (low, high) = (self.mean - reach, self.mean + reach);
        match (is_different, self.mean > 0.0) {
            (true, true) => (low.max(0.0).exp(), high.exp()),
            (true, false) => (low.exp(), high.min(0.0).exp()),
            (false, _) => (low.exp(), high.exp()),
        }
    }

    /// Returns the pair with its verdict, given its confidence interval and the results of the tests for difference and
    /// equality.
    fn judged(
        &self,
        (looks, margin): (&Looks, Margin),
        (low, high): (f64, f64),
        difference: Tested,
        equality: Tested,
    ) -> Pair {
        let verdict = match (difference.is_shown, equality.is_shown) {
            (true, false) if self.mean > 0.0 => Verdict::Faster,
            (true, false) => Verdict::Slower,
            (true, true) if self.mean > 0.0 => Verdict::SlightlyFaster { margin },
            (true, true) => Verdict::SlightlySlower { margin },
            (false, true) => Verdict::Equal { margin },
            (false, false) => self.undecided(looks, margin, difference.level, equality.level),
        };
        let Self { first, second, blocks, .. } = *self;
        Pair { first, second, ratio: self.mean.exp(), interval: (low, high), blocks, verdict }
    }

    /// Returns the verdict for a pair without a shown difference or equality, with the number of blocks that would
    /// decide it if the estimate is right; none, if the stores are of different runs. `difference` and `equality` are the significance levels of both tests.
    fn undecided(&self, looks: &Looks, margin: Margin, difference: f64, equality: f64) -> Verdict {
        let deviation = self.deviation / std::f64::consts::SQRT_2;
        let noise = Noise { deviation, freedom: f64::INFINITY };
        let needed = |distance: f64, level: f64| noise.about(distance, level / looks.factor(), POWER);
        let for_difference = needed(self.mean.abs(), difference);
        let distance = margin.logarithm() - self.mean.abs();
        let for_equality = if distance > 0.0 { needed(distance, 2.0 * equality) } else { None };
        let fewest = for_difference.into_iter().chain(for_equality).min();
        Verdict::CannotTell {
            blocks: fewest.filter(|_| self.between_runs == 0.0).map(|blocks| blocks.max(self.blocks + 1)),
            may_be_equal: for_equality.is_some(),
            margin,
        }
    }
}

fn mean_of(values: &BTreeMap<u32, f64>) -> Option<f64> {
    mean(&values.values().copied().collect::<Vec<_>>())
}
