//! A comparison as text for a terminal or a CI log.

use super::{
    Comparison, Verdict, cell_status::CellStatus, change::Change, paired_samples::ComparedMetric,
    significance::CellFinding,
};
use crate::bench::result::{metric::Unit, number_format, spread::ENOUGH, text_table};

const STORES: [&str; 5] = ["store", "access and policy", "what", "ratio (95%)", ""];
const CELLS: [&str; 5] = ["cell", "what", "median", "ratio", ""];
/// Minimum detectable loss, as a fraction, above which the summary advises to reduce the noise.
const BLIND: f64 = 0.3;
/// Maximum number of cells of one run only that are listed without `--all`.
const MAX_LISTED: usize = 3;

impl Comparison {
    /// Returns the comparison as text: the summary, warnings, and the rows of stores and cells that show a change, have
    /// too few repetitions or are not compared; with `all` all rows.
    pub fn text(&self, all: bool) -> String {
        let mut text = format!("{}\n", self.summary());
        for warning in &self.warnings {
            text.push_str(&format!("warning: {}\n", printable(warning)));
        }
        let stores = self.stores(all);
        if !stores.is_empty() {
            text.push_str(
                "\nEach store, compared with what all stores of the same access and policy have in common:\n",
            );
            if self.judgement.group_size > 1 {
                text.push_str(&format!("(Of {} repetitions, the best counts.)\n", self.judgement.group_size));
            }
            text.push_str(&format!("\n{}", table(&STORES, stores)));
        }
        let cells = self.lines(all);
        if !cells.is_empty() {
            text.push_str(&format!(
                "\nCells, with medians, and the ratio beyond what all stores of the same access and policy have in common:\n\n{}",
                table(&CELLS, cells)
            ));
        }
        text.push_str(&self.cells_of_one_run(all));
        let hidden = self.unchanged();
        if !all && hidden > 0 {
            text.push_str(&format!("\n{hidden} rows show no change; --all shows them\n"));
        }
        text
    }

    /// Returns the cells that only one run has: a line for each if they are few or `all` are wanted, otherwise their
    /// numbers in one line.
    fn cells_of_one_run(&self, all: bool) -> String {
        let runs = [("first", &self.only_first), ("second", &self.only_second)];
        if all || runs.iter().all(|(_, ids)| ids.len() <= MAX_LISTED) {
            let line = |which: &str, id: &str| format!("only in the {which} run: {}\n", printable(id));
            return runs.iter().flat_map(|(which, ids)| ids.iter().map(|id| line(which, id))).collect();
        }
        let counts = runs.iter().filter(|(_, ids)| !ids.is_empty());
        let counts: Vec<_> =
            counts.map(|(which, ids)| format!("{} only in the {which} run", ids.len())).collect();
        format!("cells of one run: {}; --all lists them\n", counts.join(", "))
    }

    fn stores(&self, all: bool) -> Vec<[String; 5]> {
        let line = |finding: &super::Finding| {
            [
                finding.store.as_deref().map_or("all stores".to_owned(), printable),
                finding.level.map_or("all".to_owned(), |level| level.to_string()),
                finding.metric.title().to_owned(),
                ratio(&finding.change),
                self.verdict_text(finding.metric, self.of_store(finding), finding.equal),
            ]
        };
        let stores = self.judgement.stores.iter();
        stores.filter(|finding| all || self.of_store(finding).is_shown()).map(line).collect()
    }

    fn lines(&self, all: bool) -> Vec<[String; 5]> {
        let mut lines = Vec::new();
        for (id, state) in &self.cells {
            match state_words(*state) {
                None => {
                    let own = self.figures(id);
                    let shown = own.filter(|finding| all || self.of_cell(finding).is_shown());
                    lines.extend(shown.map(|finding| self.line(finding)));
                }
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
        let show = |value| number_format::short(finding.metric.unit(), value);
        [
            printable(&finding.id),
            finding.metric.title().to_owned(),
            format!("{} -> {}", show(first), show(second)),
            // The verdict is on the ratio beyond what all stores have in common.
            format!("{:.3}", finding.change.map_or(second / first, |change| change.shift.exp())),
            self.verdict_text(finding.metric, self.of_cell(finding), finding.equal),
        ]
    }

    fn summary(&self) -> String {
        let count = |wanted: Verdict| self.verdicts().filter(|verdict| *verdict == wanted).count();
        if self.is_empty() {
            return "no cell of a store is in both runs: nothing was compared".to_owned();
        }
        let cells = |wanted: CellStatus| self.cells.iter().filter(|(_, state)| *state == wanted).count();
        let mut text = format!("{} cells compared", cells(CellStatus::Figures));
        let blind = count(Verdict::TooFew);
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
                .push_str(&format!("; {too_much} worse by more than {}, beyond the noise", percent(limit))),
            None => text.push_str(&format!("; {worse} worse and {better} better, beyond the noise")),
        }
        if let Some(detectable_loss) = self.judgement.detectable_loss {
            let percent = detectable_loss * 100.0;
            text.push_str(&format!(
                "\nOnly losses of {percent:.0}% or more can be detected in this comparison"
            ));
            let noisiest = self.judgement.noisiest.as_ref();
            match noisiest.map(|noisiest| (noisiest.name(), noisiest.loss * 100.0)) {
                Some((store, loss)) if loss >= percent + 0.5 => {
                    text.push_str(&format!(", of {store} of {loss:.0}% or more."));
                }
                _ => text.push('.'),
            }
            if detectable_loss > BLIND
                && noisiest.is_none_or(|noisiest| noisiest.metric == ComparedMetric::Speed)
            {
                text.push_str(" The machine is too busy, or the repetitions are too few: try --repetitions 50 and fewer --seconds.");
            }
        }
        if let Some(limit) = self.limit.filter(|_| self.is_inconclusive()) {
            let reasons = printable(&self.gaps.join("; "));
            text.push_str(&format!(
                "\ncannot tell whether the limit of {} is kept: {reasons}",
                percent(limit)
            ));
        }
        text
    }

    /// Returns the verdict on a change of a metric as text. `is_small` is `true` if the change is shown to be within the
    /// margin.
    fn verdict_text(&self, metric: ComparedMetric, verdict: Verdict, is_small: bool) -> String {
        let (worse, better) = directions(metric);
        let less = || if is_small { format!(", less than {}", self.margin) } else { String::new() };
        match verdict {
            Verdict::TooFew | Verdict::CannotTell => "cannot tell".to_owned(),
            Verdict::Equal => format!("equal within {}", self.margin),
            Verdict::Better => format!("{better}{}", less()),
            Verdict::Worse => format!("{worse}{}", less()),
            Verdict::TooMuch => worse.to_uppercase(),
        }
    }
}

/// Returns the remark for a cell that is not compared ("FAILS NOW"), or `None` if it is compared.
fn state_words(state: CellStatus) -> Option<&'static str> {
    match state {
        CellStatus::Figures => None,
        CellStatus::FailsNow => Some("FAILS NOW"),
        CellStatus::Mended => Some("failed in the first run, works now"),
        CellStatus::NoFigures => Some("not compared: at least one of the runs has no value"),
        CellStatus::NothingToCompare => {
            Some("not compared: no speed, latency, size or bytes read were measured")
        }
        CellStatus::Unsupported => Some("n/a"),
        CellStatus::OtherWork => Some(
            "not compared: the workload or its settings differ, or its stores took turns, or were written back, in \
             one run only",
        ),
    }
}

/// Returns a limit, given as a fraction, in percent, rounded to two decimal places: "7%".
fn percent(limit: f64) -> String {
    format!("{}%", (limit * 1e4).round() / 1e2)
}

fn ratio(change: &Change) -> String {
    let (low, high) = change.interval();
    format!("{:.3} ({low:.3} to {high:.3})", change.shift.exp())
}

/// Returns the words for a metric that became worse and for one that became better: "slower" and "faster".
fn directions(metric: ComparedMetric) -> (&'static str, &'static str) {
    match metric.unit() {
        Unit::Microseconds | Unit::Seconds => ("longer", "shorter"),
        Unit::Bytes | Unit::Times => ("larger", "smaller"),
        Unit::Count => ("more", "fewer"),
        Unit::PerSecond => ("slower", "faster"),
    }
}

fn table(head: &[&str; 5], lines: Vec<[String; 5]>) -> String {
    let head = head.map(str::to_owned);
    let lines: Vec<_> = std::iter::once(head).chain(lines).map(Vec::from).collect();
    text_table::text(&lines, 5, "  ")
}

/// Replaces control characters of a text that was read from a file, so that a terminal does not interpret them.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
