//! Answer of a duel: whether a store became slower.

use super::{
    finding::{Finding, cell},
    gate::{self, GateVerdict},
};
use crate::bench::{
    plan::options::Gate,
    result::{Cell, Run, Side, equal_work, interleaved_comparison::Comparison, statistics::verdict::Verdict},
};

/// Answer of a duel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Each store is faster, equal within the margin, or slower by less than the margin.
    NoLoss,
    /// A store became slower, breaks a gate (`--gate`), or fails in the new program only or cannot run its workload there.
    Loss,
    /// No store is shown to be slower, and none fails in the new program only, but there is no answer for some store:
    /// the measurements show neither a difference of the two programs nor their equality, or the store fails in the
    /// old program. Also if nothing was compared, or if the numbers of keys differ between the programs. Workloads that
    /// a store can run in neither program do not count.
    Undecided,
}

impl Answer {
    /// Returns the exit code of `kvbench duel` for this answer; `kvbench compare` has the same codes.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::NoLoss => 0,
            Self::Loss => 1,
            Self::Undecided => 2,
        }
    }
}

/// Returns the answer of a complete duel with these gates.
pub fn answer(run: &Run, gates: &[Gate]) -> Answer {
    let answer = |verdict| match verdict {
        GateVerdict::Kept(_) => Answer::NoLoss,
        GateVerdict::Broken(_) => Answer::Loss,
        GateVerdict::CannotTell(_) => Answer::Undecided,
    };
    let of_gates = |comparison| gates.iter().map(move |gate| answer(gate::judge(*gate, run, comparison)));
    let able = || run.comparisons.iter().filter(|comparison| !neither_can(run, comparison));
    let rates = able().map(|comparison| of_comparison(run, comparison));
    let answers: Vec<Answer> = rates.chain(able().flat_map(of_gates)).collect();
    let is_unequal = answers.is_empty() || !equal_work::unequal(run).is_empty();
    match (answers.contains(&Answer::Loss), is_unequal || answers.contains(&Answer::Undecided)) {
        (true, _) => Answer::Loss,
        (false, true) => Answer::Undecided,
        (false, false) => Answer::NoLoss,
    }
}

/// Returns `true` if the store of a comparison cannot run its workload in either program, such as scans without an order
/// of keys.
pub(super) fn neither_can(run: &Run, comparison: &Comparison) -> bool {
    let cells = Side::BOTH.map(|side| cell(run, comparison, side));
    cells.into_iter().flatten().all(|cell| run.unsupported(&cell.id).is_some())
}

fn of_comparison(run: &Run, comparison: &Comparison) -> Answer {
    let fails = |cell: &Cell| run.has_failed(&cell.id) || run.unsupported(&cell.id).is_some();
    let fails = |side| cell(run, comparison, side).is_some_and(fails);
    match (fails(Side::Old), fails(Side::New)) {
        (false, true) => return Answer::Loss,
        (true, _) => return Answer::Undecided,
        (false, false) => {}
    }
    match Finding::of_rate(run, comparison).map(|finding| finding.pair.verdict) {
        Some(Verdict::Slower) => Answer::Loss,
        None | Some(Verdict::CannotTell { .. }) => Answer::Undecided,
        Some(Verdict::Faster | Verdict::Equal { .. }) => Answer::NoLoss,
        Some(Verdict::SlightlyFaster { .. } | Verdict::SlightlySlower { .. }) => Answer::NoLoss,
    }
}
