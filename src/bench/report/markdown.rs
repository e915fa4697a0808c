//! Markdown report for a README or an issue: the rankings of runs with `--may-lose`, the verdict and the ranking of each
//! scenario, the matrix of stores and scenarios, the loss bounds of the stores, then the tables in the layout of the
//! suites, terms and environments.

use super::{
    column_notes::ABOUT_VALUES,
    environment::{self, IN_TURNS, LEFT_OUT},
    matrix::{Column, Matrix, MatrixCell},
    measured_cell::{Entry, State},
    price::PRICE_HEADS,
    ranking::{ShownStore, verdicts},
    report_tables::{Report, Table},
    store_properties::promises,
    terms::TERMS,
};
use crate::bench::result::{
    harness_share,
    metric::{self, Metric, P50, P99, RECOVERY, REOPEN, Unit},
    number_format, text_table,
};

/// Renders the report as Markdown.
pub fn render(report: &Report<'_>) -> String {
    let mut text = format!("# kvbench report\n\n{}", disturbed(report));
    text.push_str(&ranked(report));
    let compared = Matrix::of(report);
    text.push_str(&best_stores(&compared));
    text.push_str(&matrix(&compared));
    text.push_str(&promised(report));
    let mut footnotes = Footnotes::default();
    for table in &report.tables {
        text.push_str(&section(table, &mut footnotes));
    }
    text.push_str(&terms());
    text.push_str(&environments(report));
    text.push_str(&footnotes.render());
    text
}

/// Footnotes of the whole report, in the order of their first marks. Most tables have the caveats of the same stores: a
/// text that several tables need is printed once.
#[derive(Default)]
struct Footnotes<'a>(Vec<&'a str>);

impl<'a> Footnotes<'a> {
    /// Returns the marks of some footnotes of a table, which are given by their numbers in it.
    fn marks(&mut self, table: &'a Table<'_>, notes: &[usize]) -> String {
        let texts = notes.iter().filter_map(|note| table.notes.get(note.checked_sub(1)?));
        let mut marks = String::new();
        for text in texts {
            let at = self.0.iter().position(|known| known == text).unwrap_or_else(|| {
                self.0.push(text);
                self.0.len() - 1
            });
            marks.push_str(&format!("[^{}]", at + 1));
        }
        marks
    }

    fn render(&self) -> String {
        let notes = self.0.iter().enumerate();
        let lines: String = notes.map(|(at, words)| format!("[^{}]: {}\n", at + 1, escape(words))).collect();
        if lines.is_empty() { lines } else { format!("\n{lines}") }
    }
}

/// Returns the verdict of each scenario, then a table for each scenario in which several stores are compared.
fn best_stores(matrix: &Matrix) -> String {
    let mut text = "## Best stores\n\n".to_owned();
    for column in &matrix.columns {
        text.push_str(&verdict(column));
    }
    text.push_str(&format!(
        "\n1 is the best store of a scenario, 0.5 is half as good; in brackets the confidence interval of the ratio, 95% \
         over all pairs of the scenario. **Bold** is better than all others, \u{2248} equal to the best within {}, ? cannot \
         tell. {ABOUT_VALUES}\n",
        matrix.margins()
    ));
    for (at, column) in matrix.columns.iter().enumerate() {
        let ranking = matrix.ranking(at);
        if ranking.len() < 2 {
            continue;
        }
        let heads = ["Store", "To the best (95%)", "Result"].into_iter().chain(PRICE_HEADS);
        let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
        lines.extend(ranking.into_iter().map(|(label, place)| {
            let cells = [escape(label), ratio(place), place.value.clone()].into_iter();
            cells.chain(place.price.clone()).collect()
        }));
        let lines = text_table::without_empty_columns(lines);
        text.push_str(&format!("\n### {}\n\n{}", column.title, text_table::markdown(&lines, 1)));
        for note in &column.notes {
            text.push_str(&format!("\n{}\n", escape(note)));
        }
    }
    text.push('\n');
    text
}

/// Returns the verdict of a scenario, with what was compared, as a line of a list.
fn verdict(column: &Column) -> String {
    let what = match column.works.as_slice() {
        [] => String::new(),
        works => {
            let level = format!("{}{}", column.level, column.losses);
            format!(" {}. {}.", escape(&sentence(&level)), escape(&works.join("; ")))
        }
    };
    let (words, what) = (escape(&column.verdict.words()), what.replace("..", "."));
    format!("- **{}** ({}): {words}.{what}\n", column.title, column.scope)
}

fn matrix(matrix: &Matrix) -> String {
    let mut lines = vec![vec!["Store".to_owned()]];
    let measured: Vec<usize> = (0..matrix.columns.len())
        .filter(|at| matrix.columns.get(*at).is_some_and(|one| !one.level.is_empty()))
        .collect();
    lines.extend(matrix.rows.iter().map(|row| {
        let places = measured.iter().filter_map(|at| row.places.get(*at)).map(ratio);
        std::iter::once(escape(&row.label)).chain(places).collect()
    }));
    let columns = || measured.iter().filter_map(|at| matrix.columns.get(*at));
    lines.iter_mut().take(1).for_each(|head| head.extend(columns().map(|one| one.title.to_owned())));
    let mut text = "## Compared with the best store\n\nThe same ratios, of all scenarios.\n\n".to_owned();
    text.push_str(&text_table::markdown(&lines, 1));
    text
}

/// Returns the tables of the stores that `--may-lose` allows; empty if no run has the flag.
fn ranked(report: &Report<'_>) -> String {
    let mut text = String::new();
    for (table, ranking) in report.by_policy() {
        text.push_str(&format!("## {}: {}\n\n", escape(table.title), escape(&ranking.title)));
        let rows = ranking.shown();
        text.push_str(&text_table::markdown(&ranking_lines(ranking.measure, &rows), 5));
        if rows.iter().any(|row| row.is_near_floor) {
            text.push_str(&format!("\n{NEAR_FLOOR}: {}\n", escape(harness_share::NEAR_FLOOR)));
        }
        // A verdict may begin with the name of a store, which stays as it is.
        let verdict = verdicts(std::slice::from_ref(&ranking)).concat();
        text.push_str(&format!("\nVerdict: {}.\n\n", escape(&verdict)));
    }
    text
}

/// Mark, in Markdown, of a value in whose measurement the harness overhead may be more than half of the time.
const NEAR_FLOOR: &str = "\\~";

fn ranking_lines(measure: &Metric, rows: &[ShownStore]) -> Vec<Vec<String>> {
    let heads = ["Store", "Policy", "A kill loses", "A power cut loses", "", measure.heading()];
    let heads = heads.into_iter().chain(["To the first (95% interval)", "p99"]).chain(PRICE_HEADS);
    let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| {
        let mark = if row.is_winner { "**best**" } else { "" };
        let floor = if row.is_near_floor { NEAR_FLOOR } else { "" };
        let note = if row.is_disturbed { " (disturbed)" } else { "" };
        let cells = [
            escape(&row.store),
            row.policy.to_owned(),
            row.kill.to_owned(),
            row.power_cut.to_owned(),
            mark.to_owned(),
            format!("{}{floor}{note}", row.value),
            row.to_first.clone(),
            row.p99.clone(),
        ];
        cells.into_iter().chain(row.price.clone()).collect()
    }));
    lines
}

/// Returns a sentence about values that other programs disturbed in every repetition; empty if there are none.
fn disturbed(report: &Report<'_>) -> String {
    report.disturbed().map_or(String::new(), |text| format!("**{text}**\n\n"))
}

fn ratio(place: &MatrixCell) -> String {
    let range = match place.range() {
        range if range.is_empty() => range,
        range => format!(" ({range})"),
    };
    match place.sign() {
        "\u{2605}" => format!("**{}**", place.text()),
        sign => format!("{sign}{}{range}", place.text()),
    }
}

fn promised(report: &Report<'_>) -> String {
    let heads = ["Store", "A kill loses", "A power cut loses", "Peak memory", RECOVERY.title, REOPEN.title];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    for one in promises(report) {
        let losses = |of: fn(&(&str, &'static str, &'static str)) -> &'static str| match one.losses.as_slice()
        {
            [] => "not known".to_owned(),
            losses => {
                losses.iter().map(|loss| format!("{}: {}", loss.0, of(loss))).collect::<Vec<_>>().join("; ")
            }
        };
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        lines.push(vec![
            escape(&one.label),
            losses(|loss| loss.1),
            losses(|loss| loss.2),
            or_dash(&one.memory),
            or_dash(&one.recovery),
            or_dash(&one.reopening),
        ]);
    }
    format!("\n## Promises, memory and recovery\n\n{}", text_table::markdown(&lines, 6))
}

fn section<'a>(table: &'a Table<'_>, footnotes: &mut Footnotes<'a>) -> String {
    let mut text = format!("\n## {}\n\n{}", escape(table.title), escape(&sentence(&table.level.to_string())));
    if let Some(source) = &table.source {
        text.push_str(&format!(" {}", escape(&sentence(source))));
    }
    text.push_str(&format!(" {}.", escape(&sentence(&table.ratio())).trim_end_matches('.')));
    let heading = table.figure().map_or("Result", Metric::heading);
    text.push_str(&format!("\n\n### {heading}\n\n"));
    text.push_str(&figures(table, footnotes, |entry| value(entry, metric::of_figure(entry.cell.figure))));
    let without =
        |entry: &Entry<'_>| Some(number_format::exact(Unit::PerSecond, entry.rate_without_write_back()?));
    if table.entries.iter().any(|entry| without(entry).is_some()) {
        text.push_str("\n### Without write-back (operations/s)\n\n");
        text.push_str("Throughput contains the write-back after the slices; without it:\n\n");
        text.push_str(&figures(table, footnotes, without));
    }
    let latency = |entry: &Entry<'_>| Some(format!("{} / {}", value(entry, &P50)?, value(entry, &P99)?));
    if table.entries.iter().any(|entry| latency(entry).is_some()) {
        text.push_str("\n### Latency (p50 / p99)\n\n");
        if !table.pacing().is_empty() {
            text.push_str(&format!("{}\n\n", sentence(table.pacing())));
        }
        text.push_str(&figures(table, footnotes, latency));
    }
    text
}

/// Renders a table of the values that `show` returns, with padded columns, so that the Markdown source is readable too.
fn figures<'a>(
    table: &'a Table<'_>,
    footnotes: &mut Footnotes<'a>,
    show: impl Fn(&Entry<'_>) -> Option<String>,
) -> String {
    let mut first: Vec<_> = table.row_headings.iter().map(|heading| escape(heading)).collect();
    for head in &table.columns {
        first.push(format!("{}{}", escape(&head.label), footnotes.marks(table, &head.notes)));
    }
    let mut lines = vec![first];
    for (row, label) in table.rows.iter().enumerate() {
        let mut line: Vec<_> = label.parts.iter().map(|part| escape(part)).collect();
        line.iter_mut().take(1).for_each(|store| store.push_str(&footnotes.marks(table, &label.notes)));
        line.extend((0..table.columns.len()).map(|column| match table.at(row, column) {
            Some(entry) => format!("{}{}", cell(entry, &show), footnotes.marks(table, &entry.notes)),
            None => String::new(),
        }));
        lines.push(line);
    }
    text_table::markdown(&lines, table.row_headings.len())
}

fn cell(entry: &Entry<'_>, show: impl Fn(&Entry<'_>) -> Option<String>) -> String {
    match entry.state {
        State::Sound => show(entry).unwrap_or_else(|| "-".to_owned()),
        State::Faulty(_) => "**failed**".to_owned(),
        State::Unsupported(_) | State::Missing => entry.state.without_figure().to_owned(),
    }
}

fn value(entry: &Entry<'_>, measure: &Metric) -> Option<String> {
    entry.spread(measure).map(|spread| number_format::exact(measure.unit, spread.median))
}

/// Returns the section that explains the terms of the report.
fn terms() -> String {
    let lines = TERMS.iter().map(|(term, meaning)| format!("- **{term}**: {}\n", escape(meaning)));
    format!("\n## Terms\n\n{}", lines.collect::<String>())
}

/// Returns the section with the facts about each run; of a later run of the same environment only those that differ.
fn environments(report: &Report<'_>) -> String {
    let mut text = "\n## Environment and commands\n".to_owned();
    let runs = environment::of_runs(report);
    for (at, run) in runs.iter().enumerate() {
        text.push_str(&format!("\n### {}\n\n", escape(&run.title)));
        let first = runs.iter().take(at).find(|other| other.number == run.number);
        let known = first.map_or(&[][..], |first| &first.facts);
        for (name, value) in run.facts.iter().filter(|fact| !known.contains(fact)) {
            text.push_str(&format!("- {}: {}\n", escape(name), escape(value)));
        }
        let is_absent = |name: &&str| run.facts.iter().all(|(other, _)| other != name);
        let absent = known.iter().map(|(name, _)| *name).filter(is_absent);
        for name in number_format::distinct(absent) {
            let value = match name {
                LEFT_OUT => "none",
                IN_TURNS => "nothing to report",
                _ => "not known",
            };
            text.push_str(&format!("- {}: {value}\n", escape(name)));
        }
        if let Some(first) = first {
            text.push_str(&format!("- All else is as in {}.\n", escape(&first.title)));
        }
        for warning in &run.warnings {
            text.push_str(&format!("- **Warning**: {}\n", escape(warning)));
        }
        // In one line, which begins with the program's name, the command cannot close the code block.
        let command = run.command.replace(['\n', '\r'], " ");
        text.push_str(&format!("\n```sh\n{command}\n```\n"));
    }
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str())).unwrap_or_default()
}

/// Escapes `text` so that Markdown shows it unchanged, in one line. Names and errors can contain any
/// characters.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\r' => escaped.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text() {
        assert_eq!(escape("<b>|*a*\n"), r"&lt;b&gt;\|\*a\* ");
    }
}
