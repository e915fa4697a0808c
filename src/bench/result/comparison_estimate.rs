//! Estimates of an interleaved comparison: the noise of its stores, the differences that its blocks find, and the
//! blocks and the time that a difference of the margin needs.

use super::{
    interleaved_comparison::{Comparison, Slicing},
    number_format,
    statistics::{
        looks::FIRST_LOOK,
        real,
        sample_size::{self, MAX_BLOCKS, Noise},
    },
};

/// Noise that is assumed before the first block: that of two loads of one engine (docs/measuring.md).
const ASSUMED: Noise = Noise { deviation: 0.0184, freedom: f64::INFINITY };

impl Comparison {
    /// Returns the noise of `stores`, estimated from the first five blocks, which plan the looks.
    fn noise(&self, stores: &[usize]) -> Option<Noise> {
        let mut rates = self.rates(stores);
        rates.iter_mut().for_each(|rates| rates.retain(|block, _| *block < FIRST_LOOK));
        let widening = self.widening(stores);
        Noise::of(&rates).map(|noise| Noise { deviation: noise.deviation * widening, ..noise })
    }

    /// Returns how many times larger the noise of two stores of different groups, whose ratio is one of four instances, is
    /// than the mean over all pairs of `stores`; 1 without such a pair.
    fn widening(&self, stores: &[usize]) -> f64 {
        let pairs = |count: usize| real(count) * (real(count) - 1.0) / 2.0;
        let together: f64 = self.loaded_together(stores).iter().map(|(_, own)| pairs(own.len())).sum();
        let all = pairs(stores.len());
        if all > together { (2.0 * all / (2.0 * all - together)).sqrt() } else { 1.0 }
    }

    /// Returns the number of instances on which the rate of a store in a ratio depends: with the anchor, if stores are loaded
    /// in groups.
    fn instances(&self) -> f64 {
        if self.anchor().is_some() { 2.0 } else { 1.0 }
    }

    /// Returns the number of blocks after which a difference of the margin between two of `stores` (indices of cells)
    /// is found with a probability of 95%, estimated from the first five blocks; [`FIRST_LOOK`] if fewer than two
    /// stores or two blocks were measured.
    pub fn blocks_needed(&self, stores: &[usize]) -> u32 {
        self.noise(stores)
            .map_or(FIRST_LOOK, |noise| noise.blocks(self.margin, stores.len(), self.others_in_family))
    }

    /// Returns the mean time in seconds of a measurement of a block, also of those that were repeated because of other
    /// processes; `None` before the first block.
    pub fn seconds_of_measurement(&self) -> Option<f64> {
        let seconds: f64 = self.blocks.iter().map(|block| block.seconds).sum();
        let measurements: u32 = self.blocks.iter().map(|block| block.attempts).sum();
        (measurements > 0).then(|| seconds / f64::from(measurements))
    }

    /// Returns about how many seconds the pilot and `blocks` blocks take, each measured once: in the mean time so far or,
    /// before the first block, at the rates of the pilot.
    pub fn seconds_of(&self, blocks: u32) -> f64 {
        let pilot = self.slicing.as_ref();
        // The verification at the end of a block takes half as long as its loads.
        let of_block =
            |pilot: &Slicing| 1.5 * pilot.load_seconds + pilot.warm_up_seconds + pilot.block_seconds();
        let forecast = || pilot.map_or(0.0, of_block);
        let each = self.seconds_of_measurement().unwrap_or_else(forecast);
        pilot.map_or(0.0, |pilot| pilot.seconds) + f64::from(blocks) * each
    }

    /// Returns a number of blocks as text, with the time that these and the pilot take.
    pub fn amount(&self, blocks: u32) -> String {
        format!("{blocks} blocks ({})", number_format::duration(self.seconds_of(blocks)))
    }

    /// Returns a sentence about the blocks to come, after the pilot. `plans` is `true` if a difference to detect was
    /// given, and `budget` is the time that the comparison may take, in seconds.
    pub fn forecast(&self, stores: usize, plans: bool, budget: f64) -> String {
        let noise = Noise { deviation: ASSUMED.deviation * self.instances().sqrt(), ..ASSUMED };
        let blocks =
            if plans { noise.blocks(self.margin, stores, self.others_in_family) } else { FIRST_LOOK };
        let found = match plans {
            true => self.margin.to_string(),
            false => {
                percent(sample_size::detectable(noise.deviation, blocks, self.level_of_pair(stores)).exp_m1())
            }
        };
        let seconds = self.seconds_of(blocks);
        let short = match seconds > budget {
            true => format!("; --budget is {}", number_format::duration(budget)),
            false => String::new(),
        };
        format!(
            "estimate: about {} find differences of {found}, if the instances of a store vary by {}{short}",
            self.amount(blocks),
            percent(ASSUMED.deviation)
        )
    }

    /// Returns a sentence about the first blocks: the noise, the smallest difference that all planned blocks find, and
    /// the blocks and the time that a difference of the margin needs, if these are more. `None` with fewer than
    /// [`FIRST_LOOK`] blocks or two stores, and before the looks are planned.
    pub fn findings(&self, stores: &[usize]) -> Option<String> {
        let looks = self.looks.as_ref()?;
        let noise = self.noise(stores).filter(|_| self.blocks.len() >= FIRST_LOOK as usize)?;
        let planned = looks.after_blocks().last().copied().unwrap_or(FIRST_LOOK);
        let level = self.level_of_pair(stores.len()) / looks.factor();
        let detectable = sample_size::detectable(noise.deviation, planned, level).exp_m1();
        let needed = match self.blocks_needed(stores) {
            needed if needed <= planned => String::new(),
            MAX_BLOCKS => format!("; {} would not find {}", self.amount(MAX_BLOCKS), self.margin),
            needed => format!("; {} needs up to {}", self.margin, self.amount(needed)),
        };
        Some(format!(
            "the instances of a store vary by {}: {} find differences of {} (with a probability of 95%){needed}",
            percent(noise.deviation / self.instances().sqrt()),
            self.amount(planned),
            percent(detectable)
        ))
    }

    /// Returns the two-sided significance level of one pair of `stores` stores at a single look.
    fn level_of_pair(&self, stores: usize) -> f64 {
        sample_size::level_of_pair(stores, self.others_in_family)
    }
}

/// Formats a fraction in percent with one decimal place; below 1%, with two.
fn percent(fraction: f64) -> String {
    let digits = if fraction < 0.01 { 2 } else { 1 };
    format!("{:.digits$}%", fraction * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_two_groups_have_twice_the_variance_of_those_in_one() {
        let comparison = |groups: Vec<Vec<usize>>| Comparison {
            groups,
            ..Comparison::new("custom".into(), ["anchor", "a", "b"].map(str::to_owned).into())
        };
        // The variances of the three pairs are 1, 1 and 2: in the mean 4/3.
        let groups = comparison(vec![vec![0, 1], vec![0, 2]]);
        assert!((groups.widening(&[0, 1, 2]).powi(2) - 2.0 / (4.0 / 3.0)).abs() < 1e-9);
        assert_eq!(groups.widening(&[0, 1]), 1.0);
        assert_eq!(comparison(Vec::new()).widening(&[0, 1, 2]), 1.0);
    }
}
