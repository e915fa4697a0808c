//! Text tables with padded columns: text is left-aligned, numbers are right-aligned.

use std::fmt::Write;

/// Formats a table for a terminal, with padded columns. The first `words` columns hold text and are left-aligned, the
/// others hold numbers; `separator` stands between two columns.
pub fn text(lines: &[Vec<String>], words: usize, separator: &str) -> String {
    let widths = widths(lines);
    let mut text = String::new();
    for line in lines {
        let padded = line.iter().zip(&widths).enumerate();
        let padded: Vec<_> = padded.map(|(place, (part, width))| pad(part, *width, place < words)).collect();
        let _ = writeln!(text, "{}", padded.join(separator).trim_end());
    }
    text
}

/// Formats a Markdown table with padded columns, so that the source is readable too. The first line is the
/// header, and the first `words` columns hold text.
pub fn markdown(lines: &[Vec<String>], words: usize) -> String {
    let widths: Vec<_> = widths(lines).into_iter().map(|width| width.max(3)).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (place, (part, width)) in line.iter().zip(&widths).enumerate() {
            let _ = write!(text, "| {} ", pad(part, *width, place < words));
        }
        text.push_str("|\n");
        if number == 0 {
            text.push_str(&rule(&widths, words));
        }
    }
    text
}

/// Returns `lines` without the columns of which only the first line, the header, has a text.
pub fn without_empty_columns(lines: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let has_text = |column: usize| {
        let mut parts = lines.iter().skip(1).filter_map(|line| line.get(column));
        parts.any(|part| !part.is_empty())
    };
    let columns = lines.first().map_or(0, Vec::len);
    let kept: Vec<bool> = (0..columns).map(has_text).collect();
    let keep = |line: Vec<String>| {
        line.into_iter().zip(&kept).filter_map(|(part, is_kept)| is_kept.then_some(part)).collect()
    };
    lines.into_iter().map(keep).collect()
}

/// Returns the line below the header of a Markdown table, which sets the alignment of each column.
fn rule(widths: &[usize], words: usize) -> String {
    let mut rule = String::new();
    for (place, width) in widths.iter().enumerate() {
        let line = "-".repeat(width - 1);
        let _ = if place < words { write!(rule, "| :{line} ") } else { write!(rule, "| {line}: ") };
    }
    rule + "|\n"
}

/// Returns the width of each column in characters.
fn widths(lines: &[Vec<String>]) -> Vec<usize> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let parts = lines.iter().filter_map(|line| line.get(column));
        parts.map(|part| part.chars().count()).max().unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

fn pad(part: &str, width: usize, is_word: bool) -> String {
    if is_word { format!("{part:<width$}") } else { format!("{part:>width$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_figures_right() {
        let lines = [["Store", "set"], ["map", "12,345"]].map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(text(&lines, 1, " | "), "Store |    set\nmap   | 12,345\n");
        let expected = "| Store |    set |\n| :---- | -----: |\n| map   | 12,345 |\n";
        assert_eq!(markdown(&lines, 1), expected);
    }

    #[test]
    fn columns_with_a_head_only_are_left_out() {
        let lines = [["Store", "Disk", "p99"], ["map", "", "3"], ["lmdb", "", ""]];
        let lines = lines.map(|line| line.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(text(&without_empty_columns(lines), 1, " "), "Store p99\nmap     3\nlmdb\n");
    }
}
