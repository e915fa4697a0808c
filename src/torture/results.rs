//! What `kvbench torture` has proved: a result file that each run adds to, and tables of it.

use serde::{Deserialize, Serialize};
use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

/// The results behind docs/durability.md, of this version of kvbench.
const PROVED: &str = include_str!("../../docs/torture.json");

/// Version of the format.
const SCHEMA: u32 = 1;

/// What tortures found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format.
    pub schema: u32,
    /// One for each subject, policy and mode.
    pub cells: Vec<ResultRow>,
}

/// The rounds of one subject in one mode, of all runs that wrote to the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Store, or name of the program.
    pub subject: String,
    /// The library behind it, with its version, or the format of kvbench's own log; empty for a program.
    pub library: String,
    /// `--fsync`; empty for a program.
    pub fsync: String,
    /// What struck it.
    pub mode: String,
    /// What it may lose.
    pub promise: String,
    /// Stores that were started, and each struck one to four times or so.
    pub rounds: u64,
    /// Kills or power cuts.
    pub strikes: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Error replies.
    pub refused: u64,
    /// Acknowledged writes that were lost.
    pub lost: u64,
    /// The longest time from the acknowledgement of a lost write to the strike.
    pub oldest_lost_ms: u64,
    /// Starts after a strike.
    pub reopened: u64,
    /// Their time in all.
    pub reopen_total_ms: u64,
    /// The longest of them.
    pub reopen_longest_ms: u64,
    /// Seeds of the rounds in which something was that must not be.
    pub failed: Vec<u64>,
}

/// Why results cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: not a result of kvbench torture: {source}", .path.display())]
    Format { path: PathBuf, source: serde_json::Error },
}

impl Results {
    /// Reads a result file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(|source| Error::File { path: path.into(), source })?;
        serde_json::from_slice(&text).map_err(|source| Error::Format { path: path.into(), source })
    }

    /// The results that the documentation shows.
    pub fn published() -> Self {
        serde_json::from_str(PROVED).unwrap_or_default()
    }

    /// Adds a cell to those of a file, which it begins when there is none.
    pub fn add_to(path: &Path, cell: &ResultRow) -> Result<(), Error> {
        let mut results = match fs::exists(path) {
            Ok(true) => Self::read(path)?,
            _ => Self { schema: SCHEMA, cells: Vec::new() },
        };
        match results.cells.iter_mut().find(|known| known.is_of(cell)) {
            Some(known) => known.add(cell),
            None => results.cells.push(cell.clone()),
        }
        let text = serde_json::to_string_pretty(&results).unwrap_or_default() + "\n";
        fs::write(path, text).map_err(|source| Error::File { path: path.into(), source })
    }

    /// How often what a store promises was tried, by mode, without a failure.
    pub fn rounds(&self, subject: &str, library: &str, fsync: &str, mode: &str) -> u64 {
        let cell = self.cells.iter().find(|cell| {
            (&*cell.subject, &*cell.library, &*cell.fsync, &*cell.mode) == (subject, library, fsync, mode)
        });
        cell.filter(|cell| cell.failed.is_empty()).map_or(0, |cell| cell.rounds)
    }

    /// As a Markdown table.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| | `--fsync` | struck by | may lose | rounds | strikes | writes acknowledged | refused | lost | \
             oldest lost | opens again in (longest) | failed rounds |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for cell in &self.cells {
            let ResultRow {
                subject, fsync, mode, promise, rounds, strikes, acknowledged, refused, lost, ..
            } = cell;
            let oldest = match lost {
                0 => String::new(),
                _ => format!("{} ms", cell.oldest_lost_ms),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| `{subject}` | {fsync} | {mode} | {promise} | {rounds} | {strikes} | {acknowledged} | {refused} \
                 | {lost} | {oldest} | {} ms ({}) | {} |",
                cell.reopen_total_ms / cell.reopened.max(1),
                cell.reopen_longest_ms,
                cell.failed.len()
            );
        }
        text
    }
}

impl ResultRow {
    fn is_of(&self, other: &Self) -> bool {
        let id = |cell: &Self| {
            [&cell.subject, &cell.library, &cell.fsync, &cell.mode, &cell.promise].map(String::clone)
        };
        id(self) == id(other)
    }

    fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.strikes += other.strikes;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.lost += other.lost;
        self.oldest_lost_ms = self.oldest_lost_ms.max(other.oldest_lost_ms);
        self.reopened += other.reopened;
        self.reopen_total_ms += other.reopen_total_ms;
        self.reopen_longest_ms = self.reopen_longest_ms.max(other.reopen_longest_ms);
        self.failed.extend(&other.failed);
    }

    /// Subject, policy and mode.
    pub fn name(&self) -> String {
        let words = [&self.subject, &self.fsync, &self.mode].map(String::as_str);
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        words.join(" ")
    }

    /// In one line.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{}: {} rounds, {} strikes, {} writes acknowledged, {} lost",
            self.name(),
            self.rounds,
            self.strikes,
            self.acknowledged,
            self.lost
        );
        if self.lost > 0 {
            let _ = write!(line, " (the oldest {} ms before its strike)", self.oldest_lost_ms);
        }
        if self.refused > 0 {
            let _ = write!(line, ", {} refused", self.refused);
        }
        let _ = write!(
            line,
            "; may lose {}; opens again in {} ms, {} at the longest; {} rounds failed",
            self.promise,
            self.reopen_total_ms / self.reopened.max(1),
            self.reopen_longest_ms,
            self.failed.len()
        );
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_the_documentation_are_readable() {
        assert_eq!(Results::published().schema, SCHEMA);
    }

    #[test]
    fn the_documentation_shows_them() {
        let page = include_str!("../../docs/durability.md");
        assert!(page.contains(&Results::published().markdown()), "kvbench torture --table docs/torture.json");
    }

    #[test]
    fn rounds_of_several_runs_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        let one =
            ResultRow { subject: "map".into(), rounds: 2, reopen_longest_ms: 7, ..ResultRow::default() };
        let other = ResultRow { fsync: "no".into(), ..one.clone() };
        for cell in [&one, &other, &one] {
            Results::add_to(&path, cell).unwrap();
        }
        let results = Results::read(&path).unwrap();
        assert_eq!(results.cells.iter().map(|cell| cell.rounds).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(results.rounds("map", "", "", ""), 4);
        let failed = ResultRow { failed: vec![9], ..one };
        Results::add_to(&path, &failed).unwrap();
        assert_eq!(Results::read(&path).unwrap().rounds("map", "", "", ""), 0);
    }
}
