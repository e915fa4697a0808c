//! Tables in Markdown, aligned for a terminal.

use std::fmt::Write;

/// A table.
pub(super) struct Grid {
    lines: Vec<Vec<String>>,
    /// Columns of words, at the left.
    words: usize,
}

impl Grid {
    /// With a heading for each column; the first `words` of them hold words.
    pub fn new(words: usize, heads: impl IntoIterator<Item = String>) -> Self {
        Self { lines: vec![heads.into_iter().collect()], words }
    }

    pub fn push(&mut self, line: Vec<String>) {
        self.lines.push(line);
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.lines.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let parts = self.lines.iter().filter_map(|line| line.get(column));
            parts.map(|part| part.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        for (number, line) in self.lines.iter().enumerate() {
            for (column, (part, width)) in line.iter().zip(&widths).enumerate() {
                match column < self.words {
                    true => write!(f, "| {part:<width$} ")?,
                    false => write!(f, "| {part:>width$} ")?,
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                writeln!(f, "{}", rule(&widths, self.words))?;
            }
        }
        Ok(())
    }
}

/// The line below the headings.
fn rule(widths: &[usize], words: usize) -> String {
    let mut rule = String::new();
    for (column, width) in widths.iter().enumerate() {
        let end = if column < words { '-' } else { ':' };
        let _ = write!(rule, "|{}{end}", "-".repeat(width + 1));
    }
    rule + "|"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_figures_right() {
        let mut grid = Grid::new(1, ["Store", "set"].map(Into::into));
        grid.push(["map", "12,345"].map(Into::into).into());
        assert_eq!(grid.to_string(), "| Store |    set |\n|-------|-------:|\n| map   | 12,345 |\n");
    }
}
