//! Interleaved comparison: the stores of a row of a table take turns; its measurements and verdicts.

use super::{
    Cell,
    disturbance::Disturbance,
    metric::Unit,
    number_format,
    statistics::{
        looks::Looks,
        margin::Margin,
        mean,
        pairwise::{Pair, Pairwise, Rates},
        verdict::Verdict,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Interleaved comparison of the cells in a row of a table, whose stores took turns.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Name of the table of the compared cells; if the table has several rows, `; ` and the row follow.
    pub id: String,
    /// Ids of the compared cells, one for each store or, in a duel, one for each program; [`SliceRecord::store`] is an
    /// index into this list.
    pub cells: Vec<String>,
    /// Groups of stores (indices of cells) that are loaded one group at a time, because all do not fit into memory or on
    /// the disk together; empty if all are loaded together. The first store of each group, the anchor, is the same: stores
    /// of different groups are compared by their ratios to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Vec<usize>>,
    /// Relative difference of rates below which two stores count as equal.
    pub margin: Margin,
    /// Length of the turns (slices) of the stores, and their work in a block; absent before the pilot has chosen them.
    #[serde(default)]
    pub slicing: Option<Slicing>,
    /// Numbers of blocks after which the stores are compared, planned after the first five blocks; absent before.
    #[serde(default)]
    pub looks: Option<Looks>,
    /// Complete blocks (repetitions in which all stores that had not failed before took turns), in the order in which
    /// they were measured. The sample of a cell with the repetition N was measured in block N, counted from 0.
    pub blocks: Vec<Block>,
    /// Verdicts on all pairs of stores at the latest comparison; empty before the first.
    pub verdicts: Vec<PairVerdict>,
    /// Reason why no more blocks are measured; absent while the comparison goes on.
    #[serde(default)]
    pub end: Option<End>,
    /// Number of the run's other comparisons whose pairs are tested in one family with this one's (a correction for many
    /// tests): all others in a duel, which has one answer, otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others_in_family: usize,
}

/// Returns the number of measurements of a block in older result files, which do not have it.
const fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Length of the turns (slices) of the stores in a comparison, and work of each store in a repetition (block). A pilot,
/// a short measurement before the first block, chooses them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slicing {
    /// Maximum length in seconds of a slice: the time for which one store runs while all others are stopped.
    pub slice_seconds: f64,
    /// Seconds at the start of each turn of a store that do not count for its rate: caches and CPU frequency were those of
    /// another store. Latencies contain the operations of that time.
    pub discarded_seconds: f64,
    /// Work that each store does in a block (a repetition of the comparison).
    pub work: Work,
    /// Stores that do less work in a block, because they would take too long for `work`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub less_work: Vec<LessWork>,
    /// Rates that the pilot measured, one for each store that did not fail; of the store that is in all groups, one for
    /// each group.
    pub pilot: Vec<PilotRate>,
    /// `true` if each store's rate in turns is within 3% of its rate alone; `false` if slices reached their maximum
    /// length before that.
    pub is_like_alone: bool,
    /// `true` if each turn begins on an idle device, because a store that writes kept less than half of the CPUs busy that its
    /// threads can use (`busy_cpus` in `pilot`): the device, or another wait, limits it.
    #[serde(default)]
    pub awaits_device: bool,
    /// Duration of the pilot in seconds, with the loads of the stores.
    pub seconds: f64,
    /// Seconds that the loads of the pilot took.
    #[serde(default)]
    pub load_seconds: f64,
    /// Seconds that the warm-ups of a block take, at the rates that the pilot measured.
    #[serde(default)]
    pub warm_up_seconds: f64,
}

impl Slicing {
    /// Returns the seconds that all stores together run in a block, at the rates that the pilot measured and without
    /// the loads.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn block_seconds(&self) -> f64 {
        let of = |rate: &PilotRate| match self.work_of(rate.store) {
            // Whole slices.
            Work::Seconds(seconds) => (seconds / self.slice_seconds).ceil().max(1.0) * self.slice_seconds,
            Work::Operations(operations) => operations as f64 / rate.alone * (1.0 + rate.write_back),
        };
        self.pilot.iter().map(of).sum()
    }

    /// Returns the work that a store does in a block. `store` is the index of its cell.
    pub fn work_of(&self, store: usize) -> Work {
        let less = self.less_work.iter().find(|less| less.store == store);
        less.map_or(self.work, |less| Work::Operations(less.operations))
    }
}

/// Store that does less work than others in a block of an interleaved comparison, because it would take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LessWork {
    /// Index of the store's cell in the comparison's list of cells.
    pub store: usize,
    /// Number of operations that the store does in a block.
    pub operations: u64,
}

/// Work that each store does in a block, which is one repetition of an interleaved comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Equal running time of all stores, in seconds: for workloads that only read.
    Seconds(f64),
    /// Equal number of operations of all stores: for workloads that write.
    Operations(u64),
}

/// Largest difference of a store's rates in turns and alone, as a logarithm, at which they agree.
pub const LIKE_ALONE: f64 = 0.03;

/// Rate of a store in the pilot, a short measurement before an interleaved comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PilotRate {
    /// Index of the store's cell in the comparison's list of cells.
    pub store: usize,
    /// Operations per second of the store alone: the mean of two slices, before and after the turns, each of at most two
    /// seconds, or of the running time of a block if that is less. The first quarter of a slice counts only if no operation
    /// ends after it.
    pub alone: f64,
    /// Operations per second in turns between those of the other stores, without the discarded start of each turn.
    pub in_turn: f64,
    /// Seconds of write-back for each second of the store's turns in the pilot; 0 without write-back.
    #[serde(default)]
    pub write_back: f64,
    /// Seconds of the store's longest operation in the slice alone before the turns, if the workload writes and the slices
    /// of the blocks are shorter than ten times this; absent otherwise, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_seconds: Option<f64>,
    /// Mean number of CPUs that the store's processes, with the benchmark's threads, kept busy in the slices alone and in the
    /// deferred work after them; absent if it is not known, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpus: Option<f64>,
}

impl PilotRate {
    /// Returns the highest rate of several stores, alone or in turns: a stall may have taken most of the time alone.
    pub fn fastest(rates: &[Self]) -> f64 {
        rates.iter().map(|rate| rate.alone.max(rate.in_turn)).fold(0.0, f64::max)
    }
}

/// Block: one repetition of an interleaved comparison, in which each store is a fresh instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Seed of the block's keys, values and random choices, the same for all stores.
    pub seed: u64,
    /// All slices (turns of one store each), in the order in which they ran.
    pub slices: Vec<SliceRecord>,
    /// Share of the CPU time that other processes and virtual machines took during the block; absent if unknown.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
    /// Number of measurements of the block, of which the least disturbed one is kept.
    #[serde(default = "once")]
    pub attempts: u32,
    /// Duration of the block in seconds, with loads, verification, and attempts that other processes disturbed.
    pub seconds: f64,
}

/// Slice of a block: one turn of one store, while all other stores were stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceRecord {
    /// Index of the store's cell in the comparison's list of cells.
    pub store: usize,
    /// Index of the group of stores that were loaded during the slice; 0 if all were loaded together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub group: usize,
    /// Number of operations in the slice that count: those after its discarded start; 0 if the slice was too short.
    pub operations: u64,
    /// Seconds of the slice that count: those after its discarded start.
    pub seconds: f64,
    /// Number of operations at the start of the slice that do not count.
    pub discarded_operations: u64,
    /// Seconds at the start of the slice that do not count.
    pub discarded_seconds: f64,
    /// Seconds in which the store did its deferred work and synced its files after the slice; absent if no write-back
    /// followed: of work that only reads, and if the comparison's slices (`slice_seconds`) are shorter than 3 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back_seconds: Option<f64>,
    /// `true` if the device was never idle between the write-back and the next slice (`--quiet-wait`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_device_busy: bool,
}

/// Verdict of an interleaved comparison on a pair of stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairVerdict {
    /// Id of the first store's cell.
    pub first: String,
    /// Id of the second store's cell.
    pub second: String,
    /// Estimated rate of the first store, divided by that of the second.
    pub ratio: f64,
    /// Lower end of the confidence interval of `ratio`: 95%, corrected for the number of pairs and of evaluations.
    pub low: f64,
    /// Upper end of the confidence interval of `ratio`, whose lower end is `low`.
    pub high: f64,
    /// Number of blocks (repetitions of the comparison) that the verdict uses.
    pub blocks: u32,
    /// Kind of the verdict on the first store, compared with the second.
    pub verdict: VerdictKind,
    /// Blocks and time after which a verdict is likely; absent if there is a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
}

/// Blocks and time that would decide a comparison of two stores, if the estimates so far are right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Needed {
    /// Number of blocks, with those that are measured; absent above 1000.
    pub blocks: Option<u32>,
    /// Time of `blocks` blocks and of the pilot, in seconds.
    pub seconds: Option<f64>,
    /// `true` if equality can be shown; `false` if the difference is so near the margin, or so far beyond it, that
    /// only a difference can be shown.
    pub may_be_equal: bool,
}

/// Kind of the verdict on the first of two compared stores. The margin is the difference below which stores count as
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The first store is faster, and the difference is not shown to be below the margin.
    Faster,
    /// The first store is slower, and the difference is not shown to be below the margin.
    Slower,
    /// The first store is faster, but by less than the margin.
    SlightlyFaster,
    /// The first store is slower, but by less than the margin.
    SlightlySlower,
    /// The stores differ by less than the margin, and neither is shown to be faster.
    Equal,
    /// Neither a difference of the stores nor equality is shown.
    CannotTell,
}

/// Reason why an interleaved comparison measures no more blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The comparison has ended because each pair of stores has a verdict other than "cannot tell".
    Decided,
    /// The comparison has ended because it has measured the number of blocks that it had planned after the first five.
    Planned,
    /// The comparison has ended after the first five blocks because no difference to detect was given (`--detect`).
    FirstBlocks,
    /// The comparison has ended because another block would exceed the time of `--budget`.
    Budget,
    /// The comparison has ended because fewer than two stores, or not the anchor of its groups, could be measured without
    /// a failure.
    Failed,
}

impl From<Verdict> for VerdictKind {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Faster => Self::Faster,
            Verdict::Slower => Self::Slower,
            Verdict::SlightlyFaster { .. } => Self::SlightlyFaster,
            Verdict::SlightlySlower { .. } => Self::SlightlySlower,
            Verdict::Equal { .. } => Self::Equal,
            Verdict::CannotTell { .. } => Self::CannotTell,
        }
    }
}

impl Block {
    /// Returns the rate of a store in the block, in operations per second: the operations that count by their time and
    /// their part of the write-back. `None` if no operation counts. `store` is the index of its cell.
    pub fn rate(&self, store: usize) -> Option<f64> {
        rate(self.slices.iter().filter(|slice| slice.store == store))
    }

    /// Returns the rate of a store in one group of the block, in operations per second, like [`rate`](Self::rate).
    fn rate_in(&self, group: usize, store: usize) -> Option<f64> {
        rate(self.slices.iter().filter(|slice| (slice.group, slice.store) == (group, store)))
    }

    /// Returns the rate of a store in the block, in operations per second, without the time of the write-back after its
    /// slices. `None` if no operations count. `store` is the index of its cell.
    pub fn rate_without_write_back(&self, store: usize) -> Option<f64> {
        rate_without_write_back(self.slices.iter().filter(|slice| slice.store == store))
    }

    /// Returns `true` if at least one slice of the block was followed by write-back: deferred work and a sync of the
    /// store.
    pub fn has_write_back(&self) -> bool {
        self.slices.iter().any(|slice| slice.write_back_seconds.is_some())
    }

    /// Returns `true` if, after the write-back of at least one slice, the device was never idle before the next slice:
    /// another program kept it busy.
    pub fn left_device_busy(&self) -> bool {
        self.slices.iter().any(|slice| slice.left_device_busy)
    }
}

/// Returns the rate in `slices` in operations per second, with their part of the write-back; `None` if no operation
/// counts.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate<'s>(slices: impl Iterator<Item = &'s SliceRecord> + Clone) -> Option<f64> {
    let all: u64 = slices.clone().map(|slice| slice.operations + slice.discarded_operations).sum();
    let write_back: f64 = slices.clone().filter_map(|slice| slice.write_back_seconds).sum();
    // The other operations of the block have caused their part of it.
    Some(1.0 / (1.0 / rate_without_write_back(slices)? + write_back / all as f64))
}

/// Returns the rate in `slices` in operations per second, without the time of their write-back; `None` if no operation
/// counts.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate_without_write_back<'s>(slices: impl Iterator<Item = &'s SliceRecord> + Clone) -> Option<f64> {
    let operations: u64 = slices.clone().map(|slice| slice.operations).sum();
    let seconds: f64 = slices.map(|slice| slice.seconds).sum();
    (operations > 0 && seconds > 0.0).then(|| operations as f64 / seconds)
}

impl PairVerdict {
    /// Returns the verdict on the pair with its numbers. `margin` is the difference below which the comparison takes
    /// stores for equal.
    fn verdict(&self, margin: Margin) -> Verdict {
        match self.verdict {
            VerdictKind::Faster => Verdict::Faster,
            VerdictKind::Slower => Verdict::Slower,
            VerdictKind::SlightlyFaster => Verdict::SlightlyFaster { margin },
            VerdictKind::SlightlySlower => Verdict::SlightlySlower { margin },
            VerdictKind::Equal => Verdict::Equal { margin },
            VerdictKind::CannotTell => Verdict::CannotTell {
                blocks: self.needed.and_then(|needed| needed.blocks),
                may_be_equal: self.needed.is_some_and(|needed| needed.may_be_equal),
                margin,
            },
        }
    }
}

impl Comparison {
    /// Creates a comparison that is not begun, of the cells with the ids `cells`, by the default margin. All stores are loaded
    /// together, and the tests of its pairs are a family of their own.
    pub fn new(id: String, cells: Vec<String>) -> Self {
        Self {
            id,
            cells,
            groups: Vec::new(),
            margin: Margin::default(),
            slicing: None,
            looks: None,
            blocks: Vec::new(),
            verdicts: Vec::new(),
            end: None,
            others_in_family: 0,
        }
    }

    /// Returns the comparison of the cells with the ids `cells`, from the verdicts that the latest evaluation has
    /// recorded. In the result, a store is named by the index of its cell in `cells`.
    pub fn recorded(&self, cells: &[&str]) -> Pairwise {
        let place = |id: &str| cells.iter().position(|cell| *cell == id);
        let pair = |pair: &PairVerdict| {
            Some(Pair {
                first: place(&pair.first)?,
                second: place(&pair.second)?,
                ratio: pair.ratio,
                interval: (pair.low, pair.high),
                blocks: pair.blocks,
                verdict: pair.verdict(self.margin),
            })
        };
        let rates = cells.iter().map(|id| {
            let store = self.cells.iter().position(|cell| cell == id);
            store.and_then(|store| self.rates(&[store]).pop()).unwrap_or_default()
        });
        let rates: Vec<_> = rates.collect();
        Pairwise::judged(self.verdicts.iter().filter_map(pair).collect(), &rates)
    }

    /// Returns the number of blocks and the time that would decide a comparison with this verdict; `None` if it is
    /// decided.
    fn needed(&self, verdict: Verdict) -> Option<Needed> {
        let Verdict::CannotTell { blocks, may_be_equal, .. } = verdict else { return None };
        Some(Needed { blocks, seconds: blocks.map(|blocks| self.seconds_of(blocks)), may_be_equal })
    }

    /// Returns the seconds that the comparison has taken so far: its pilot and its blocks.
    pub fn seconds(&self) -> f64 {
        let pilot = self.slicing.as_ref().map_or(0.0, |slicing| slicing.seconds);
        pilot + self.blocks.iter().map(|block| block.seconds).sum::<f64>()
    }

    /// Returns a sentence about the groups in which the stores are loaded, or `None` if all are loaded together. `cells`
    /// are those of the run.
    pub fn groups_text(&self, cells: &[Cell]) -> Option<String> {
        let anchor = self.column(self.anchor()?, cells)?;
        Some(format!(
            "the stores do not fit into memory or on the disk together, so {} groups are loaded one after the other, each \
             with {anchor}; stores of different groups are compared by their ratios to it, which widens their intervals",
            self.groups.len()
        ))
    }

    /// Returns a sentence about the CPUs that the stores kept busy in the pilot, or `None` if the CPU limits all of them. `cells`
    /// are those of the run.
    pub fn device_text(&self, cells: &[Cell]) -> Option<String> {
        let slicing = self.slicing.as_ref().filter(|slicing| slicing.awaits_device)?;
        let busy = slicing
            .pilot
            .iter()
            .filter_map(|rate| Some(format!("{} {:.2}", self.column(rate.store, cells)?, rate.busy_cpus?)));
        Some(format!(
            "CPUs that the stores kept busy alone: {}; the device, or another wait, limits those with few, so each slice \
             begins on an idle device",
            busy.collect::<Vec<_>>().join(", ")
        ))
    }

    /// Returns clauses on what makes the comparison doubtful; none if nothing does. `foreign_limit` is the fraction of the
    /// CPUs that others may use (`--foreign`), and `cells` are those of the run.
    pub fn doubts(&self, foreign_limit: Option<f64>, cells: &[Cell]) -> Vec<String> {
        let part = |block: &Block| block.disturbance.map_or(0.0, |disturbance| disturbance.part());
        let is_disturbed = |block: &&Block| foreign_limit.is_some_and(|limit| part(block) > limit);
        let disturbed = self.blocks.iter().filter(is_disturbed).count();
        let busy = self.blocks.iter().filter(|block| block.left_device_busy()).count();
        let blocks = self.blocks.len();
        let used = "other programs or virtual machines used more of the CPUs than --foreign allows";
        let doubts = [
            (disturbed > 0).then(|| format!("in {disturbed} of {blocks} blocks {used}")),
            (busy > 0).then(|| {
                format!("in {busy} of {blocks} blocks the device was still busy when the next slice began")
            }),
            self.unlike_alone(cells),
            self.long_stalls(cells),
        ];
        doubts.into_iter().flatten().collect()
    }

    /// Returns a clause with the stores whose rates in turns and alone differed in the pilot; `None` if all agreed.
    fn unlike_alone(&self, cells: &[Cell]) -> Option<String> {
        let slicing = self.slicing.as_ref().filter(|slicing| !slicing.is_like_alone)?;
        let unlike = slicing.pilot.iter().filter_map(|rate| {
            let store = self.column(rate.store, cells)?;
            let ratio = rate.in_turn / rate.alone;
            (ratio.ln().abs() > LIKE_ALONE).then(|| format!("{store} {ratio:.2}"))
        });
        let unlike: Vec<_> = unlike.collect();
        (!unlike.is_empty()).then(|| {
            format!(
                "in the pilot, a short run each, rates in turns relative to rates alone were: {}",
                unlike.join(", ")
            )
        })
    }

    /// Returns a clause with the stores whose longest operation alone was too long for the slices of the pilot; `None` if
    /// there are none.
    fn long_stalls(&self, cells: &[Cell]) -> Option<String> {
        let slicing = self.slicing.as_ref()?;
        let seconds = |seconds| number_format::short(Unit::Seconds, seconds);
        // The anchor has a rate for each group.
        let mut longest: BTreeMap<usize, f64> = BTreeMap::new();
        for (store, stall) in slicing.pilot.iter().filter_map(|rate| Some((rate.store, rate.stall_seconds?)))
        {
            let known = longest.entry(store).or_default();
            *known = known.max(stall);
        }
        let clause = |(store, stall)| Some(format!("{} {}", self.column(store, cells)?, seconds(stall)));
        let stalls: Vec<_> = longest.into_iter().filter_map(clause).collect();
        (!stalls.is_empty()).then(|| {
            format!(
                "slices of {} are shorter than ten times the longest operations of stores alone: {}",
                seconds(slicing.slice_seconds),
                stalls.join(", ")
            )
        })
    }

    /// Returns the column of a store (index of its cell) in tables, or `None` if `cells`, those of the run, do not have it.
    fn column<'c>(&self, store: usize, cells: &'c [Cell]) -> Option<&'c str> {
        let id = self.cells.get(store)?;
        cells.iter().find(|cell| cell.id == *id).map(|cell| cell.column.as_str())
    }

    /// Returns the index of the anchor, the store that is in each group; `None` if all stores are loaded together.
    pub fn anchor(&self) -> Option<usize> {
        self.groups.first()?.first().copied()
    }

    /// Returns those of `stores` (indices of cells) that are loaded together, for each group of which at least two are
    /// there, with the index of the group.
    pub fn loaded_together(&self, stores: &[usize]) -> Vec<(usize, Vec<usize>)> {
        if self.groups.is_empty() {
            return vec![(0, stores.to_vec())];
        }
        let own = |group: &Vec<usize>| group.iter().copied().filter(|store| stores.contains(store)).collect();
        let groups = self.groups.iter().map(own).enumerate();
        groups.filter(|(_, group): &(usize, Vec<usize>)| group.len() > 1).collect()
    }

    /// Returns, for each of `stores` (indices of cells), the natural logarithm of its operations per second by block
    /// number, without the blocks in which it has no rate.
    pub fn rates(&self, stores: &[usize]) -> Vec<BTreeMap<u32, f64>> {
        let of = |store: &usize| {
            let blocks = (0..).zip(&self.blocks);
            blocks.filter_map(|(number, block)| Some((number, self.rate(block, *store)?.ln()))).collect()
        };
        stores.iter().map(of).collect()
    }

    /// Returns the rate of a store in a block, in operations per second, on which verdicts are based. Of stores that are
    /// loaded in groups: the rate as if the anchor had had its (geometric) mean rate in each group. `None` if the store or,
    /// in its group, the anchor has no rate.
    pub fn rate(&self, block: &Block, store: usize) -> Option<f64> {
        let Some(anchor) = self.anchor() else { return block.rate(store) };
        let of_anchor = |group: usize| Some(block.rate_in(group, anchor)?.ln());
        let mean = mean(&(0..self.groups.len()).filter_map(of_anchor).collect::<Vec<_>>())?;
        if store == anchor {
            return Some(mean.exp());
        }
        let group = self.groups.iter().position(|group| group.contains(&store))?;
        Some(block.rate_in(group, store)? * (mean - of_anchor(group)?).exp())
    }

    /// Returns the rate of a store in a block, in operations per second, without the time of the write-back after its
    /// slices. Of stores that are loaded in groups, it is scaled like that of [`rate`](Self::rate). `None` if the store or,
    /// in its group, the anchor has no rate.
    pub fn rate_without_write_back(&self, block: &Block, store: usize) -> Option<f64> {
        Some(self.rate(block, store)? * block.rate_without_write_back(store)? / block.rate(store)?)
    }

    /// Compares all pairs of `stores` (indices of cells) with the blocks of the latest planned evaluation, and replaces
    /// the verdicts. Returns `true` if each pair is decided.
    pub fn evaluate(&mut self, stores: &[usize], looks: &Looks) -> bool {
        let rates = self.rates(stores);
        let rates = Rates::of_one_run(&rates, looks, self.margin);
        let Some(pairwise) = Pairwise::of_family(&[rates], self.others_in_family).pop() else { return false };
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
                needed: self.needed(pair.verdict),
            })
        };
        self.verdicts = pairwise.pairs().iter().filter_map(verdict).collect();
        pairwise.is_decided()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine is twice as fast while the second group is loaded, which the anchor shows.
    #[test]
    fn stores_of_different_groups_are_compared_by_their_anchor() {
        let slice = |(group, store, operations): (usize, usize, u64)| SliceRecord {
            store,
            group,
            operations,
            seconds: 1.0,
            discarded_operations: 0,
            discarded_seconds: 0.0,
            write_back_seconds: None,
            left_device_busy: false,
        };
        let slices = [(0, 1, 100), (0, 0, 300), (1, 1, 200), (1, 2, 600), (1, 3, 200)].map(slice).into();
        let comparison = Comparison {
            groups: vec![vec![1, 0], vec![1, 2, 3]],
            blocks: vec![Block { seed: 0, slices, disturbance: None, attempts: 1, seconds: 1.0 }],
            ..Comparison::new("custom".into(), ["a", "anchor", "b", "c"].map(str::to_owned).into())
        };
        let rates = comparison.rates(&[0, 1, 2, 3]);
        let ratio = |one: usize, other: usize| (rates[one][&0] - rates[other][&0]).exp();
        for (one, other, expected) in [(0, 1, 3.0), (0, 2, 1.0), (0, 3, 3.0), (2, 1, 3.0), (2, 3, 3.0)] {
            assert!((ratio(one, other) - expected).abs() < 1e-9, "{one} and {other}: {}", ratio(one, other));
        }
        assert_eq!(comparison.loaded_together(&[0, 1, 3]), [(0, vec![1, 0]), (1, vec![1, 3])]);
        assert_eq!(comparison.loaded_together(&[0, 1]), [(0, vec![1, 0])]);
    }
}
