//! Answer of a duel as text: a sentence for each store and workload, then tables.

use super::{
    answer::neither_can,
    finding::{COSTS, Finding, RATE, cell},
    gate::{self, GateVerdict},
};
use crate::bench::plan::options::Gate;
use crate::bench::result::{
    Cell, Duel, Program, Run, Side,
    comparability::Level,
    interleaved_comparison::{Comparison, End},
    metric::{Better, Unit},
    number_format,
    statistics::{margin::Margin, sample_size::MAX_BLOCKS, verdict::Verdict},
    text_table,
};
use std::fmt::Write;

/// Returns the answer of a duel: the verdict sentences with those of the gates, the two programs, a table for each
/// comparison, and the stores that are left out.
pub fn text(run: &Run, gates: &[Gate]) -> String {
    let mut text = String::new();
    for comparison in &run.comparisons {
        let _ = writeln!(text, "{}: {}", subject(run, comparison), sentence(run, comparison));
        for gate in gates.iter().filter(|_| !neither_can(run, comparison)) {
            let (word, finding) = match gate::judge(*gate, run, comparison) {
                GateVerdict::Kept(finding) => ("gate kept", finding),
                GateVerdict::Broken(finding) => ("gate broken", finding),
                GateVerdict::CannotTell(finding) => ("gate: cannot tell", finding),
            };
            let _ = writeln!(text, "  {word}: {finding}");
        }
    }
    if let Some(duel) = &run.duel {
        text.push_str(&programs_text(duel));
    }
    if let Some(reason) = &run.environment.no_instruction_counts {
        let _ = writeln!(text, "Instructions are not counted: {reason}.");
    }
    for comparison in &run.comparisons {
        text.push_str(&table(run, comparison));
    }
    for reason in &run.left_out {
        let _ = writeln!(text, "left out: {reason}");
    }
    text
}

/// Returns store, workload and policy of a comparison: "redb, 90% get + 10% update, fsync no".
fn subject(run: &Run, comparison: &Comparison) -> String {
    let Some(cell) = cell(run, comparison, Side::New) else { return comparison.id.clone() };
    let Cell { target, workload, row, .. } = cell;
    let mix = number_format::mix(&workload.mix);
    let work = match &run.suite {
        Some(suite) => format!("{suite} {row} ({mix})"),
        None => mix,
    };
    format!("{}, {work}, {}", target.store, Level::of(target).durability_words())
}

/// Returns the sentence on the new program's rate in a comparison, or on why the programs could not be compared.
fn sentence(run: &Run, comparison: &Comparison) -> String {
    let fault = |side| {
        let cell = cell(run, comparison, side)?;
        let outcomes =
            run.samples.iter().filter(|sample| sample.cell == cell.id).map(|sample| &sample.outcome);
        let failure = outcomes.into_iter().find_map(|outcome| outcome.failure());
        let unsupported = || Some(format!("not compared: {}", run.unsupported(&cell.id)?));
        failure.map(|failure| format!("{} fails: {failure}", side.name())).or_else(unsupported)
    };
    if let Some(fault) = Side::BOTH.into_iter().find_map(fault) {
        return fault;
    }
    let Some(finding) = Finding::of_rate(run, comparison) else {
        let blocks = comparison.blocks.len();
        return format!("cannot tell: {blocks} blocks are too few; raise --budget");
    };
    verdict(&finding, minutes_per_block(comparison))
}

/// Returns the mean duration of a comparison's blocks, in minutes.
#[expect(clippy::cast_precision_loss, reason = "a number of blocks")]
fn minutes_per_block(comparison: &Comparison) -> f64 {
    let seconds: f64 = comparison.blocks.iter().map(|block| block.seconds).sum();
    seconds / comparison.blocks.len() as f64 / 60.0
}

/// Returns the verdict on the new program's rate: "new is 4.1% slower (95% interval 2.8% to 5.5%)".
fn verdict(finding: &Finding, minutes_per_block: f64) -> String {
    let (ratio, (low, high)) = (finding.pair.ratio, finding.pair.interval);
    let both = || format!("95% interval {} to {}", signed(low), signed(high));
    let slower = |less: &str| {
        let (from, to) = (percent(1.0 - high), percent(1.0 - low));
        format!("new is {} slower{less} (95% interval {from} to {to})", percent(1.0 - ratio))
    };
    let faster = |less: &str| match ratio >= 2.0 {
        true => format!("new is {ratio:.1} times as fast (95% interval {low:.1} to {high:.1})"),
        false => {
            let (from, to) = (percent(low - 1.0), percent(high - 1.0));
            format!("new is {} faster{less} (95% interval {from} to {to})", percent(ratio - 1.0))
        }
    };
    let less = |margin: Margin| format!(", less than {margin}");
    match finding.pair.verdict {
        Verdict::Slower => slower(""),
        Verdict::SlightlySlower { margin } => slower(&less(margin)),
        Verdict::Faster => faster(""),
        Verdict::SlightlyFaster { margin } => faster(&less(margin)),
        Verdict::Equal { margin } => format!("equal within {margin} ({})", both()),
        Verdict::CannotTell { blocks: None, .. } => {
            format!("cannot tell ({}): {MAX_BLOCKS} blocks would not decide", both())
        }
        Verdict::CannotTell { blocks: Some(blocks), may_be_equal, margin } => {
            let minutes = f64::from(blocks) * minutes_per_block;
            let what = match may_be_equal {
                true => "decide".to_owned(),
                false => format!("show a difference, no number of blocks equality within {margin}"),
            };
            format!("cannot tell ({}): about {blocks} blocks, {minutes:.1} minutes, would {what}", both())
        }
    }
}

/// Returns a fraction in percent, with one decimal place below 10% and two below 0.1%.
fn percent(fraction: f64) -> String {
    match fraction.abs() {
        small if small < 0.001 => format!("{:.2}%", fraction * 100.0),
        middle if middle < 0.0995 => format!("{:.1}%", fraction * 100.0),
        _ => format!("{:.0}%", fraction * 100.0),
    }
}

/// Returns the ratio of two rates as a difference in percent: "1.2% slower" for 0.988.
fn signed(ratio: f64) -> String {
    match ratio < 1.0 {
        true => format!("{} slower", percent(1.0 - ratio)),
        false => format!("{} faster", percent(ratio - 1.0)),
    }
}

/// Returns a line on each program of the duel with its path and version, and a third line if both are the same program.
fn programs_text(duel: &Duel) -> String {
    let mut text = "\n".to_owned();
    for side in Side::BOTH {
        let Program { path, chosen, build, .. } = duel.program(side);
        let commit = build.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
        let chosen = chosen.as_ref().map(|chosen| format!("{chosen}, ")).unwrap_or_default();
        let _ = writeln!(text, "{}: {chosen}{path} (kvbench {}{commit})", side.name(), build.version);
    }
    if duel.old.checksum == duel.new.checksum {
        text.push_str("Both are the same program.\n");
    }
    text
}

/// Returns the table of a comparison under a heading with its number of blocks and duration; it has a row for each
/// metric that was measured of both programs.
fn table(run: &Run, comparison: &Comparison) -> String {
    let findings = std::iter::once(&RATE).chain(COSTS);
    let findings = findings.filter_map(|metric| Finding::of(run, comparison, metric));
    let lines: Vec<Vec<String>> = findings.map(|finding| line(&finding)).collect();
    let end = match comparison.end {
        Some(End::Decided) => "decided",
        Some(End::Planned | End::FirstBlocks) => "the last planned look is over",
        Some(End::Budget) => "--budget allows no more",
        Some(End::Failed) => "a program could not be measured",
        None => "not complete",
    };
    let blocks = comparison.blocks.len();
    let minutes = comparison.seconds() / 60.0;
    let mut text =
        format!("\n{}: {blocks} blocks in {minutes:.1} minutes; {end}\n", subject(run, comparison));
    for doubt in comparison.doubts(run.environment.foreign_limit, &run.cells) {
        let _ = writeln!(text, "{doubt}");
    }
    if !lines.is_empty() {
        let head = ["", "old", "new", "new / old (95%)", ""].map(str::to_owned).to_vec();
        let lines: Vec<_> = std::iter::once(head).chain(lines).collect();
        let _ = write!(text, "\n{}", text_table::text(&lines, 1, "  "));
    }
    text
}

fn line(finding: &Finding) -> Vec<String> {
    let Finding { metric, medians, pair } = finding;
    // Counts per operation are far below 1.
    let value = |value: f64| match metric.unit {
        Unit::Times => format!("{value:.2e}"),
        unit => number_format::short(unit, value),
    };
    let (low, high) = pair.interval;
    let (higher, lower) = match metric.better {
        Better::Higher => ("faster", "slower"),
        Better::Lower => ("higher", "lower"),
    };
    let words = match pair.verdict {
        Verdict::Faster => higher.to_owned(),
        Verdict::Slower => lower.to_owned(),
        Verdict::SlightlyFaster { margin } => format!("{higher}, by less than {margin}"),
        Verdict::SlightlySlower { margin } => format!("{lower}, by less than {margin}"),
        Verdict::Equal { margin } => format!("equal within {margin}"),
        Verdict::CannotTell { .. } => "cannot tell".to_owned(),
    };
    let ratio = format!("{:.3} ({low:.3} to {high:.3})", pair.ratio);
    vec![metric.title.to_owned(), value(medians[0]), value(medians[1]), ratio, words]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::statistics::pairwise::Pair;

    /// Returns the sentence on a ratio with its interval, after blocks of half a minute.
    fn sentence(ratio: f64, interval: (f64, f64), verdict: Verdict) -> String {
        let pair = Pair { first: 0, second: 1, ratio, interval, blocks: 5, verdict };
        super::verdict(&Finding { metric: &RATE, medians: [1.0, ratio], pair }, 0.5)
    }

    #[test]
    fn verdicts_name_the_difference_and_its_interval() {
        let margin = Margin::default();
        let interval = (0.945, 0.972);
        for (ratio, interval, verdict, expected) in [
            (0.959, interval, Verdict::Slower, "new is 4.1% slower (95% interval 2.8% to 5.5%)"),
            (
                0.985,
                (0.98, 0.99),
                Verdict::SlightlySlower { margin },
                "new is 1.5% slower, less than 3% (95% interval 1.0% to 2.0%)",
            ),
            (
                0.9958,
                (0.992, 0.9996),
                Verdict::SlightlySlower { margin },
                "new is 0.4% slower, less than 3% (95% interval 0.04% to 0.8%)",
            ),
            (1.2, (1.1, 1.3), Verdict::Faster, "new is 20% faster (95% interval 10% to 30%)"),
            (2.5, (2.4, 2.6), Verdict::Faster, "new is 2.5 times as fast (95% interval 2.4 to 2.6)"),
            (
                0.999,
                (0.99, 1.012),
                Verdict::Equal { margin },
                "equal within 3% (95% interval 1.0% slower to 1.2% faster)",
            ),
        ] {
            assert_eq!(sentence(ratio, interval, verdict), expected);
        }
    }

    #[test]
    fn a_sentence_without_a_verdict_names_what_would_decide() {
        let margin = Margin::default();
        let undecided = |blocks, may_be_equal| Verdict::CannotTell { blocks, may_be_equal, margin };
        for (ratio, interval, verdict, expected) in [
            (
                0.97,
                (0.93, 1.01),
                undecided(Some(14), true),
                "cannot tell (95% interval 7.0% slower to 1.0% faster): about 14 blocks, 7.0 minutes, would decide",
            ),
            (
                0.97,
                (0.93, 1.01),
                undecided(Some(14), false),
                "cannot tell (95% interval 7.0% slower to 1.0% faster): about 14 blocks, 7.0 minutes, would show a \
                 difference, no number of blocks equality within 3%",
            ),
            (
                0.97,
                (0.93, 1.01),
                undecided(None, true),
                "cannot tell (95% interval 7.0% slower to 1.0% faster): 1000 blocks would not decide",
            ),
        ] {
            assert_eq!(sentence(ratio, interval, verdict), expected);
        }
    }
}
