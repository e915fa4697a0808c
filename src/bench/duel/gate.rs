//! Gates of a duel (`--gate`): counts per operation that hardly vary, so that an increase of 1% can be shown.

use super::finding::{ALLOCATIONS, Finding, INSTRUCTIONS, WRITE_CALLS, cell, logarithms, values_by_block};
use crate::bench::{
    plan::options::Gate,
    result::{
        Run, Side,
        interleaved_comparison::Comparison,
        metric::Metric,
        statistics::{looks::FIRST_LOOK, real, squares},
    },
};

/// Increase of a count per operation, as a fraction, that breaks a gate.
const MAX_INCREASE: f64 = 0.01;
/// Increase of a count per operation, as a fraction, that the confidence interval must exclude for a gate to be broken.
const EXCLUDED: f64 = 0.005;
/// Count per batch of operations that is negligible: a store may do something now and then that no operation does.
const NEGLIGIBLE: f64 = 0.001;
/// Count per batch of operations that is a loss if it was negligible before.
const NOTICEABLE: f64 = 0.01;
/// Largest standard deviation between blocks, of the logarithm of the ratio of both programs' counts, for which a gate
/// decides. It is that of the ratio, which each duel measures; that of a program against itself would need a second duel.
/// With a change that makes its own count vary, the gate cannot tell.
const MAX_DEVIATION: f64 = 0.003;

/// Verdict of a gate on the new program in one comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GateVerdict {
    /// The count per operation is shown not to have increased by more than 1%, or is not counted for this store.
    Kept(String),
    /// The count per operation has increased by at least 1%.
    Broken(String),
    /// The count does not decide.
    CannotTell(String),
}

/// Judges the new program in a comparison by one gate. The texts name the metric.
pub(super) fn judge(gate: Gate, run: &Run, comparison: &Comparison) -> GateVerdict {
    let metric: &'static Metric = match gate {
        Gate::Allocations => &ALLOCATIONS,
        Gate::Instructions => &INSTRUCTIONS,
        Gate::WriteCalls => &WRITE_CALLS,
    };
    let title = metric.title;
    let measured = cell(run, comparison, Side::New);
    let uncounted = measured.and_then(|cell| match gate {
        Gate::Allocations => (!cell.workload.counts_allocations).then(|| kept_uncounted(title)),
        Gate::Instructions => run
            .environment
            .no_instruction_counts
            .as_ref()
            .map(|reason| GateVerdict::CannotTell(format!("{title}: not counted: {reason}"))),
        Gate::WriteCalls => (!cell.target.persistent).then(|| kept_uncounted(title)),
    });
    if let Some(verdict) = uncounted {
        return verdict;
    }
    let values = |side| values_by_block(run, comparison, side, metric);
    if Side::BOTH.into_iter().any(|side| values(side).count() < FIRST_LOOK as usize) {
        return too_few(title);
    }
    // A batch is one call of the engine, whose counts all its operations share.
    let batch = measured.map_or(1.0, |cell| f64::from(cell.workload.batch.max(1)));
    let of = |side| values(side).map(|(_, value)| value * batch).collect::<Vec<_>>();
    let [old, new] = [Side::Old, Side::New].map(of);
    if let Some(verdict) = without_ratio(title, &old, &new) {
        return verdict;
    }
    let Some(Finding { pair, .. }) = Finding::of(run, comparison, metric) else { return too_few(title) };
    let [new, old] = [Side::New, Side::Old].map(|side| logarithms(run, comparison, side, metric));
    let ratios: Vec<f64> = new.iter().filter_map(|(block, new)| Some(new - old.get(block)?)).collect();
    decide(title, pair.ratio, pair.interval, &ratios)
}

/// Returns the verdict on the counts per batch in the blocks of both programs if one program has none, so that they have
/// no ratio; otherwise `None`.
fn without_ratio(title: &str, old: &[f64], new: &[f64]) -> Option<GateVerdict> {
    let is_zero = |counts: &[f64]| counts.iter().all(|count| *count < NEGLIGIBLE);
    match (is_zero(old), is_zero(new)) {
        (_, true) => Some(GateVerdict::Kept(format!("{title}: none now"))),
        (true, false) if new.iter().all(|count| *count >= NOTICEABLE) => {
            Some(GateVerdict::Broken(format!("{title}: none before, some now")))
        }
        (true, false) => Some(GateVerdict::CannotTell(format!("{title}: none before, hardly any now"))),
        (false, false) => None,
    }
}

/// Returns the verdict on a count that this store never has.
fn kept_uncounted(title: &str) -> GateVerdict {
    GateVerdict::Kept(format!("{title}: not counted for this store"))
}

/// Returns the verdict on a count that too few blocks have.
fn too_few(title: &str) -> GateVerdict {
    GateVerdict::CannotTell(format!("{title}: not measured in {FIRST_LOOK} blocks"))
}

/// Judges the ratio of the new program's count per operation to that of the old one, with its confidence interval.
/// `by_block` has its natural logarithm in each block in which both programs have a positive count.
fn decide(title: &str, ratio: f64, (low, high): (f64, f64), by_block: &[f64]) -> GateVerdict {
    if by_block.len() < FIRST_LOOK as usize {
        return too_few(title);
    }
    let deviation = (squares(by_block) / (real(by_block.len()) - 1.0)).sqrt();
    let text = format!("{title}: new / old is {ratio:.4} (95% interval {low:.4} to {high:.4})");
    let most = 1.0 + MAX_INCREASE;
    if deviation >= MAX_DEVIATION {
        return GateVerdict::CannotTell(format!(
            "{text}; the ratio varies by {:.1}% between blocks, and a gate needs less than {:.1}%",
            deviation * 100.0,
            MAX_DEVIATION * 100.0
        ));
    }
    if ratio >= most && low > 1.0 + EXCLUDED {
        GateVerdict::Broken(text)
    } else if high <= most {
        GateVerdict::Kept(text)
    } else {
        GateVerdict::CannotTell(format!("{text}; the interval contains an increase of 1%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the logarithms of ratios in five blocks, with their standard deviation.
    fn varying(deviation: f64) -> Vec<f64> {
        [-2.0, -1.0, 0.0, 1.0, 2.0].map(|step| step * deviation / 2.5_f64.sqrt()).into()
    }

    #[test]
    fn four_blocks_with_counts_do_not_decide() {
        // A count of 0 in one program has no ratio, so of five blocks four may remain.
        let few = decide("calls", 1.2, (1.2, 1.2), &[0.0; 4]);
        assert_eq!(few, GateVerdict::CannotTell("calls: not measured in 5 blocks".into()));
    }

    /// Counts of one call of the engine per batch are no zeros, however many operations a batch has.
    #[test]
    fn only_counts_below_one_in_a_thousand_batches_have_no_ratio() {
        let word = |old, new| match without_ratio("calls", &[old; 5], &[new; 5]) {
            None => "ratio",
            Some(GateVerdict::Kept(_)) => "kept",
            Some(GateVerdict::Broken(_)) => "broken",
            Some(GateVerdict::CannotTell(_)) => "cannot tell",
        };
        assert_eq!(word(1.0, 2.0), "ratio");
        assert_eq!(word(0.002, 0.004), "ratio");
        assert_eq!(word(2.0, 0.0005), "kept");
        assert_eq!(word(0.0005, 1.0), "broken");
        assert_eq!(word(0.0005, 0.005), "cannot tell");
    }

    #[test]
    fn a_gate_breaks_from_one_percent_on_if_the_interval_excludes_half_of_it() {
        let word = |ratio, interval, deviation| match decide("calls", ratio, interval, &varying(deviation)) {
            GateVerdict::Kept(_) => "kept",
            GateVerdict::Broken(_) => "broken",
            GateVerdict::CannotTell(text) if text.ends_with("contains an increase of 1%") => "wide interval",
            GateVerdict::CannotTell(text) => {
                assert!(
                    text.ends_with("varies by 0.4% between blocks, and a gate needs less than 0.3%"),
                    "{text}"
                );
                "cannot tell"
            }
        };
        assert_eq!(word(1.012, (1.009, 1.015), 0.001), "broken");
        assert_eq!(word(1.2, (1.2, 1.2), 0.0), "broken");
        assert_eq!(word(1.009, (1.008, 1.010), 0.001), "kept");
        assert_eq!(word(1.012, (1.004, 1.020), 0.002), "wide interval");
        assert_eq!(word(1.002, (0.990, 1.014), 0.002), "wide interval");
        assert_eq!(word(0.9, (0.89, 0.91), 0.001), "kept");
        assert_eq!(word(1.2, (1.19, 1.21), 0.004), "cannot tell");
    }
}
