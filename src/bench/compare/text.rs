//! A comparison as text for a terminal or a CI log.

use super::{
    Comparison, Verdict, cell_status::CellStatus, change::Change, paired_samples::ComparedMetric,
    significance::CellFinding,
};
use crate::bench::result::{grid, metric::Unit, number_format, spread::ENOUGH};
use std::fmt;

const STORES: [&str; 5] = ["store", "level", "what", "ratio (95%)", ""];
const CELLS: [&str; 5] = ["cell", "what", "median", "ratio", ""];
/// Minimum detectable change above which the summary advises to reduce the noise.
const BLIND: f64 = 0.3;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {}", printable(warning))?;
        }
        if !self.judgement.stores.is_empty() {
            writeln!(f, "Each store, compared with what all stores of its level have in common:")?;
            if self.judgement.best_of > 1 {
                writeln!(f, "(Of {} repetitions, the best counts.)", self.judgement.best_of)?;
            }
            writeln!(f)?;
            f.write_str(&table(&STORES, self.stores()))?;
            writeln!(f, "\nCells:\n")?;
        }
        f.write_str(&table(&CELLS, self.lines()))?;
        for (which, ids) in [("first", &self.only_first), ("second", &self.only_second)] {
            for id in ids {
                writeln!(f, "only in the {which} run: {}", printable(id))?;
            }
        }
        writeln!(f, "\n{}", self.summary())
    }
}

impl Comparison {
    fn stores(&self) -> Vec<[String; 5]> {
        let line = |finding: &super::Finding| {
            [
                finding.store.as_deref().map_or("all stores".to_owned(), printable),
                finding.level.map_or("all levels".to_owned(), |level| level.to_string()),
                finding.aspect.title().to_owned(),
                ratio(&finding.change),
                words(finding.aspect, self.of_store(finding)),
            ]
        };
        self.judgement.stores.iter().map(line).collect()
    }

    fn lines(&self) -> Vec<[String; 5]> {
        let mut lines = Vec::new();
        for (id, state) in &self.cells {
            match state_words(*state) {
                None => lines.extend(self.figures(id).map(|finding| self.line(finding))),
                Some(words) => {
                    lines.push([printable(id), String::new(), words.to_owned(), String::new(), String::new()])
                }
            }
        }
        lines
    }

    fn figures(&self, id: &str) -> impl Iterator<Item = &CellFinding> {
        self.judgement.cells.iter().filter(move |finding| finding.id == id)
    }

    fn line(&self, finding: &CellFinding) -> [String; 5] {
        let [first, second] = finding.medians;
        let verdict = self.of_cell(finding);
        let show = |value| number_format::short(finding.aspect.unit(), value);
        [
            printable(&finding.id),
            finding.aspect.title().to_owned(),
            format!("{} -> {}", show(first), show(second)),
            format!("{:.3}", second / first),
            // A change is only shown for a cell that differs from its store; the stores' own changes are in the
            // table above.
            if verdict == Verdict::Same { String::new() } else { words(finding.aspect, verdict) },
        ]
    }

    fn summary(&self) -> String {
        let count = |wanted: Verdict| self.verdicts().filter(|verdict| *verdict == wanted).count();
        let cells = |wanted: CellStatus| self.cells.iter().filter(|(_, state)| *state == wanted).count();
        let mut text = format!("{} cells compared", cells(CellStatus::Figures));
        let blind = count(Verdict::CannotTell);
        if blind > 0 {
            text.push_str(&format!("; no verdict on {blind} figures with fewer than {ENOUGH} repetitions"));
        }
        if cells(CellStatus::FailsNow) > 0 {
            text.push_str(&format!("; {} fail now", cells(CellStatus::FailsNow)));
        }
        let (worse, better, too_much) =
            (count(Verdict::Worse), count(Verdict::Better), count(Verdict::TooMuch));
        match self.limit {
            Some(limit) => text
                .push_str(&format!("; {too_much} worse by more than {}%, beyond the noise", limit * 100.0)),
            None => text.push_str(&format!("; {worse} worse and {better} better, beyond the noise")),
        }
        if let Some(visible) = self.judgement.visible {
            let percent = visible * 100.0;
            text.push_str(&format!(
                "\nOnly losses of {percent:.0}% or more can be detected in this comparison."
            ));
            if visible > BLIND {
                text.push_str(" The machine is too busy, or the repetitions are too few: try --repetitions 50 and fewer --seconds.");
            }
        }
        if let Some(limit) = self.limit.filter(|_| self.is_inconclusive()) {
            let reasons = self.gaps.join("; ");
            text.push_str(&format!(
                "\ncannot tell whether the limit of {}% is kept: {reasons}",
                limit * 100.0
            ));
        }
        text
    }
}

/// Returns the remark for a cell that is not compared, or `None` if it is compared.
fn state_words(state: CellStatus) -> Option<&'static str> {
    match state {
        CellStatus::Figures => None,
        CellStatus::FailsNow => Some("FAILS NOW"),
        CellStatus::Mended => Some("failed in the first run, works now"),
        CellStatus::NoFigures => Some("not compared: no valid measurement"),
        CellStatus::Unsupported => Some("n/a"),
        CellStatus::OtherWork => Some("not compared: the workload or its settings differ"),
    }
}

fn ratio(change: &Change) -> String {
    let (low, high) = change.interval();
    format!("{:.3} ({low:.3} to {high:.3})", change.shift.exp())
}

fn words(aspect: ComparedMetric, verdict: Verdict) -> String {
    let (worse, better) = match aspect.unit() {
        Unit::Microseconds | Unit::Seconds => ("longer", "shorter"),
        Unit::Bytes | Unit::Times => ("larger", "smaller"),
        Unit::PerSecond => ("slower", "faster"),
    };
    match verdict {
        Verdict::CannotTell => "cannot tell".to_owned(),
        Verdict::Same => "same within noise".to_owned(),
        Verdict::Better => better.to_owned(),
        Verdict::Worse => worse.to_owned(),
        Verdict::TooMuch => worse.to_uppercase(),
    }
}

fn table(head: &[&str; 5], lines: Vec<[String; 5]>) -> String {
    let head = head.map(str::to_owned);
    let lines: Vec<_> = std::iter::once(head).chain(lines).map(Vec::from).collect();
    grid::text(&lines, 5, "  ")
}

/// Replaces control characters of a text that was read from a file, so that a terminal does not interpret them.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
