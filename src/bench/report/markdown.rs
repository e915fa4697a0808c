//! The report for a README or an issue: answers, then the tables in the layout of the suites.

use super::{
    answers::{self, Finding},
    entry::{Entry, State},
    environment,
    model::{Head, Report, Table},
};
use crate::bench::{
    result::measure::{self, Measure, P50, P99, THROUGHPUT},
    result::numbers,
};

/// The Markdown.
pub fn render(report: &Report<'_>) -> String {
    let mut text = "# kvbench report\n\n## Answers\n\n".to_owned();
    for answer in answers::answers(report) {
        text.push_str(&format!("- **{}** ({})", answer.question, answer.scope));
        if answer.findings.is_empty() {
            text.push_str(": not measured");
        }
        text.push('\n');
        answer.findings.iter().for_each(|finding| text.push_str(&found(finding)));
    }
    for (number, table) in report.tables.iter().enumerate() {
        text.push_str(&section(number + 1, table));
    }
    text.push_str(&environments(report));
    text
}

fn found(finding: &Finding) -> String {
    let Finding { level, headline, reason, details, caveats } = finding;
    let mut text = format!("  - {}: **{}**. {}\n", escape(level), escape(headline), escape(reason));
    if details.len() > 1 {
        details.iter().for_each(|detail| text.push_str(&format!("    - {}\n", escape(detail))));
    }
    caveats.iter().for_each(|caveat| text.push_str(&format!("    - Mind: {}\n", escape(caveat))));
    text
}

fn section(number: usize, table: &Table<'_>) -> String {
    let mut text = format!("\n## {}\n\n{}", escape(table.title), escape(&sentence(&table.level.to_string())));
    if let Some(source) = &table.source {
        text.push_str(&format!(" {}", escape(&sentence(source))));
    }
    let heading = match table.figure() {
        Some(measure) if std::ptr::eq(measure, &THROUGHPUT) => "Throughput (operations/s)",
        Some(measure) => measure.title,
        None => "Result",
    };
    text.push_str(&format!("\n\n### {heading}\n\n"));
    text.push_str(&grid(number, table, |entry| value(entry, measure::of_figure(entry.cell.figure))));
    text.push_str("\n### Latency (p50 / p99)\n\n");
    text.push_str(&grid(number, table, |entry| {
        let (p50, p99) = (value(entry, &P50)?, value(entry, &P99)?);
        Some(format!("{p50} / {p99}"))
    }));
    if !table.notes.is_empty() {
        text.push('\n');
    }
    for (note, words) in table.notes.iter().enumerate() {
        text.push_str(&format!("[^{number}-{}]: {}\n", note + 1, escape(words)));
    }
    text
}

/// A table whose columns have one width, as it is also read unrendered.
fn grid(number: usize, table: &Table<'_>, show: impl Fn(&Entry<'_>) -> Option<String>) -> String {
    let head = |head: &Head| format!("{}{}", escape(&head.label), marks(number, &head.notes));
    let mut first: Vec<_> = table.row_headings.iter().map(|heading| escape(heading)).collect();
    first.extend(table.columns.iter().map(head));
    let mut lines = vec![first];
    for (row, label) in table.rows.iter().enumerate() {
        let mut line: Vec<_> = label.parts.iter().map(|part| escape(part)).collect();
        line.iter_mut().take(1).for_each(|store| store.push_str(&marks(number, &label.notes)));
        line.extend((0..table.columns.len()).map(|column| match table.at(row, column) {
            Some(entry) => format!("{}{}", cell(entry, &show), marks(number, &entry.notes)),
            None => String::new(),
        }));
        lines.push(line);
    }
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
            .max(3)
    };
    let labels = table.row_headings.len();
    let widths: Vec<_> = (0..labels + table.columns.len()).map(width).collect();
    let rule = widths.iter().enumerate().map(|(column, width)| {
        let line = "-".repeat(width - 1);
        if column < labels { format!(":{line}") } else { format!("{line}:") }
    });
    lines.insert(1, rule.collect());
    lines.iter().map(|line| aligned(line, &widths, labels)).collect()
}

fn aligned(line: &[String], widths: &[usize], labels: usize) -> String {
    let mut text = String::new();
    for (column, (field, width)) in line.iter().zip(widths).enumerate() {
        let blank = " ".repeat(width - field.chars().count().min(*width));
        let padded = if column < labels { format!("{field}{blank}") } else { format!("{blank}{field}") };
        text.push_str(&format!("| {padded} "));
    }
    text.push_str("|\n");
    text
}

fn cell(entry: &Entry<'_>, show: impl Fn(&Entry<'_>) -> Option<String>) -> String {
    match entry.state {
        State::Sound => show(entry).unwrap_or_else(|| "-".to_owned()),
        State::Faulty(_) => "**failed**".to_owned(),
        State::Unsupported(_) | State::Missing => entry.state.without_figure().to_owned(),
    }
}

fn value(entry: &Entry<'_>, measure: &Measure) -> Option<String> {
    entry.spread(measure).map(|spread| numbers::exact(measure.unit, spread.median))
}

fn marks(table: usize, notes: &[usize]) -> String {
    notes.iter().map(|note| format!("[^{table}-{note}]")).collect()
}

fn environments(report: &Report<'_>) -> String {
    let mut text = "\n## Environment and commands\n".to_owned();
    for file in report.runs {
        let described = environment::describe(file);
        text.push_str(&format!("\n### {}\n\n", escape(&described.title)));
        for (name, value) in described.facts {
            text.push_str(&format!("- {}: {}\n", escape(name), escape(&value)));
        }
        for warning in described.warnings {
            text.push_str(&format!("- **Warning**: {}\n", escape(warning)));
        }
        // Indented, since a fence could be closed by what it holds.
        let command = described.command.replace(['\n', '\r'], " ");
        text.push_str(&format!("\n    {command}\n"));
    }
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str())).unwrap_or_default()
}

/// Text that Markdown shows as it is, in one line: names and errors come from outside.
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
