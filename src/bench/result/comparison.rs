//! Interleaved comparison of the stores of a table: what was measured in its blocks, and the verdicts.

use super::{
    disturbance::Disturbance,
    statistics::{
        looks::Looks,
        margin::Margin,
        pairwise::{Pair, Pairwise},
        verdict::Verdict,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Comparison of the cells of a table, whose stores took turns.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Name of the table.
    pub id: String,
    /// Ids of the compared cells; [`SliceRecord::store`] is an index into this list.
    pub cells: Vec<String>,
    /// Difference below which stores are equal.
    pub margin: Margin,
    /// Division of the blocks into slices; absent before the pilot has ended.
    #[serde(default)]
    pub slicing: Option<Slicing>,
    /// Planned looks, fixed after the first five blocks; absent before.
    #[serde(default)]
    pub looks: Option<Looks>,
    /// Complete blocks, in the order in which they were measured. The sample of a cell with the repetition N was
    /// measured in block N, counted from 0.
    pub blocks: Vec<Block>,
    /// Verdicts on all pairs of stores at the newest look.
    pub verdicts: Vec<PairVerdict>,
    /// Reason why no more blocks are measured; absent before the end.
    #[serde(default)]
    pub end: Option<End>,
}

/// Division of blocks into slices, found by a pilot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slicing {
    /// Maximum length of a slice in seconds.
    pub slice_seconds: f64,
    /// Seconds at the start of each slice that do not count: caches and CPU frequency were those of another store.
    pub discarded_seconds: f64,
    /// Work of each store in a block.
    pub work: Work,
    /// Rates of the pilot, one for each store that did not fail.
    pub pilot: Vec<PilotRate>,
    /// `true` if the rates in turn and alone agree within 3% for each store; `false` if slices reached their maximum
    /// length before.
    pub is_like_alone: bool,
    /// Seconds that the pilot took, with its loads.
    pub seconds: f64,
}

impl Slicing {
    /// Returns the seconds that the slices of a block take at the rates of the pilot, without the loads.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn block_seconds(&self) -> f64 {
        let of = |rate: &PilotRate| match self.work {
            Work::Seconds(seconds) => seconds,
            Work::Operations(operations) => operations as f64 / rate.alone,
        };
        self.pilot.iter().map(of).sum()
    }
}

/// Work of each store in a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Equal running time, in seconds: for work that only reads.
    Seconds(f64),
    /// Equal number of operations: for work that writes.
    Operations(u64),
}

/// Rate of a store in the pilot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PilotRate {
    /// Index of the store's cell.
    pub store: usize,
    /// Operations per second in one slice of two seconds.
    pub alone: f64,
    /// Operations per second in slices between those of the other stores.
    pub in_turn: f64,
}

/// One repetition of a comparison, with a fresh instance of each store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Seed of keys, values and choices, the same for all stores.
    pub seed: u64,
    /// All slices, in the order in which they ran.
    pub slices: Vec<SliceRecord>,
    /// CPU time that other processes used during the block; absent if unknown.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
    /// Seconds that the block took, with loads and verification.
    pub seconds: f64,
}

/// Time in which one store of a block ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceRecord {
    /// Index of the store's cell.
    pub store: usize,
    /// Operations that count.
    pub operations: u64,
    /// Seconds in which these operations were done.
    pub seconds: f64,
    /// Operations at the start of the slice that do not count.
    pub discarded_operations: u64,
    /// Seconds in which these operations were done.
    pub discarded_seconds: f64,
}

/// Verdict on two stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairVerdict {
    /// Id of the first cell.
    pub first: String,
    /// Id of the second cell.
    pub second: String,
    /// Rate of the first store relative to that of the second.
    pub ratio: f64,
    /// Lower end of the confidence interval of `ratio`, corrected for all pairs and looks.
    pub low: f64,
    /// Upper end of the confidence interval.
    pub high: f64,
    /// Blocks that the verdict uses.
    pub blocks: u32,
    /// Verdict on the first store.
    pub verdict: VerdictKind,
    /// The verdict in words.
    pub sentence: String,
}

/// Kind of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// Faster, and not shown to be within the margin.
    Faster,
    /// Slower, and not shown to be within the margin.
    Slower,
    /// Faster by less than the margin.
    SlightlyFaster,
    /// Slower by less than the margin.
    SlightlySlower,
    /// Equal within the margin.
    Equal,
    /// Neither a difference nor equality is shown.
    CannotTell,
}

/// Reason why a comparison has no more blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Each pair has a verdict.
    Decided,
    /// The last planned look is over.
    Planned,
    /// Another block would exceed the budget.
    Budget,
    /// Fewer than two stores could be measured.
    Failed,
}

impl From<Verdict> for VerdictKind {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Faster { .. } => Self::Faster,
            Verdict::Slower { .. } => Self::Slower,
            Verdict::SlightlyFaster { .. } => Self::SlightlyFaster,
            Verdict::SlightlySlower { .. } => Self::SlightlySlower,
            Verdict::Equal { .. } => Self::Equal,
            Verdict::CannotTell { .. } => Self::CannotTell,
        }
    }
}

impl Block {
    /// Returns the rate of a store, in operations per second: all its operations that count by their time. `None` if
    /// none count.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, store: usize) -> Option<f64> {
        let own = || self.slices.iter().filter(|slice| slice.store == store);
        let operations: u64 = own().map(|slice| slice.operations).sum();
        let seconds: f64 = own().map(|slice| slice.seconds).sum();
        (operations > 0 && seconds > 0.0).then(|| operations as f64 / seconds)
    }
}

impl Comparison {
    /// Returns the seconds that pilot and blocks have taken so far.
    pub fn seconds(&self) -> f64 {
        let pilot = self.slicing.as_ref().map_or(0.0, |slicing| slicing.seconds);
        pilot + self.blocks.iter().map(|block| block.seconds).sum::<f64>()
    }

    /// Returns the natural logarithm of the rate of each of `stores` by block.
    pub fn rates(&self, stores: &[usize]) -> Vec<BTreeMap<u32, f64>> {
        let of = |store: &usize| {
            let rates = (0..).zip(&self.blocks).filter_map(|(number, block)| {
                let rate = block.rate(*store)?;
                Some((number, rate.ln()))
            });
            rates.collect()
        };
        stores.iter().map(of).collect()
    }

    /// Compares all pairs of `stores` at the newest look, and replaces the verdicts. Returns `true` if each pair has a
    /// verdict.
    pub fn evaluate(&mut self, stores: &[usize], looks: &Looks) -> bool {
        let pairwise = Pairwise::of(&self.rates(stores), looks, self.margin);
        let id = |place: usize| stores.get(place).and_then(|store| self.cells.get(*store)).cloned();
        let verdict = |pair: &Pair| {
            Some(PairVerdict {
                first: id(pair.first)?,
                second: id(pair.second)?,
                ratio: pair.ratio,
                low: pair.interval.0,
                high: pair.interval.1,
                blocks: pair.blocks,
                verdict: pair.verdict.into(),
                sentence: pair.verdict.to_string(),
            })
        };
        self.verdicts = pairwise.pairs().iter().filter_map(verdict).collect();
        pairwise.is_decided()
    }
}
