//! Markdown tables, aligned for a terminal.

use super::measured::NONE;
use crate::bench::result::text_table;

/// A Markdown table.
pub(super) struct Grid {
    lines: Vec<Vec<String>>,
    /// Number of text columns at the left; the others hold numbers.
    words: usize,
}

impl Grid {
    /// Creates a table with these column headings. The first `words` columns hold text.
    pub fn new(words: usize, heads: impl IntoIterator<Item = String>) -> Self {
        Self { lines: vec![heads.into_iter().collect()], words }
    }

    pub fn push(&mut self, line: Vec<String>) {
        self.lines.push(line);
    }

    /// Adds a line, unless all its numbers are [`NONE`].
    pub fn push_known(&mut self, line: Vec<String>) {
        if line.iter().skip(self.words).any(|number| number != NONE) {
            self.push(line);
        }
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text_table::markdown(&self.lines, self.words))
    }
}
