//! Tables in Markdown, aligned for a terminal.

use crate::bench::result::grid;

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
        f.write_str(&grid::markdown(&self.lines, self.words))
    }
}
