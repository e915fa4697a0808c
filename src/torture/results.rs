//! Results of crash tests: a file to which each run adds, and tables of it.

use crate::engine::{self, files};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Write,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Results that docs/durability.md shows, of this version of kvbench.
const PUBLISHED: &str = include_str!("../../docs/torture.json");

/// Version of the format of a result file of crash tests.
const SCHEMA: u32 = 1;

/// Maximum time to wait for another process that adds to the same result file, which takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Results of crash tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format of the result file.
    pub schema: u32,
    /// One row for each server under test (with its version), fsync policy, injected fault and allowed loss.
    pub cells: Vec<ResultRow>,
}

/// Sums over all rounds of crash tests with one server under test, fsync policy, injected fault and allowed loss, of
/// all runs that wrote to the result file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Name of the store under test, or of another program.
    pub subject: String,
    /// Library of the engine with its version, or format of its AOF; empty for another program.
    pub library: String,
    /// Fsync policy of the store under test; empty for another program.
    pub fsync: String,
    /// Name of the injected fault: `kill`, `power`, `full` or `eio`.
    pub mode: String,
    /// Allowed loss of acknowledged writes, as text; for `full`, that of a power cut, though some faults are kills.
    pub promise: String,
    /// Number of rounds that were run: each tests one store from its first start through its injected faults.
    pub rounds: u64,
    /// Number of kills and power cuts: one to six in each round that passes.
    pub strikes: u64,
    /// Number of acknowledged writes.
    pub acknowledged: u64,
    /// Number of error replies to requests under load.
    pub refused: u64,
    /// Number of acknowledged writes that were lost.
    pub lost: u64,
    /// Longest time from the acknowledgement of a lost write to the kill or power cut, in milliseconds.
    pub oldest_lost_ms: u64,
    /// Number of starts after a kill or power cut.
    pub reopened: u64,
    /// Sum of the recovery times of all starts after a kill or power cut, in milliseconds.
    pub reopen_total_ms: u64,
    /// Longest recovery time of a start after a kill or power cut, in milliseconds.
    pub reopen_longest_ms: u64,
    /// Seeds of the rounds that failed, by which they can be repeated.
    pub failed: Vec<u64>,
}

/// Error of reading or writing a result file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: not a result of kvbench torture: {source}", .path.display())]
    Format { path: PathBuf, source: serde_json::Error },
    #[error(
        "{}: schema {schema}, and this version of kvbench knows {SCHEMA}; use the version that wrote it, or another file",
        .path.display()
    )]
    Newer { path: PathBuf, schema: u32 },
    #[error(
        "{}: another kvbench has had the lock of this file for {} s; end that kvbench, or name another file",
        .0.display(),
        LOCK_TIMEOUT.as_secs()
    )]
    Busy(PathBuf),
}

/// Lock of a result file, by a file `<path>.lock` beside it, without which the rows of two processes that read, add and
/// replace at once would be lost. The lock file is removed on drop.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Locks the result file at `path`; waits for another process that has the lock.
    fn new(path: &Path) -> Result<Self, Error> {
        // One lock for all names of a file.
        let lock = fs::canonicalize(path).unwrap_or_else(|_| path.into()).with_added_extension("lock");
        let begin = Instant::now();
        loop {
            match files::open_locked(&lock, path) {
                Ok(file) => return Ok(Self { path: lock, _file: file }),
                Err(engine::Error::Io { source, .. }) => {
                    return Err(Error::File { path: path.into(), source });
                }
                Err(_) if begin.elapsed() > LOCK_TIMEOUT => return Err(Error::Busy(path.into())),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The next process locks a file that is left.
        let _best_effort = fs::remove_file(&self.path);
    }
}

/// Start of a result file of any version.
#[derive(Deserialize)]
struct Header {
    schema: u32,
}

impl Results {
    /// Reads a result file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(|source| Error::File { path: path.into(), source })?;
        let format = |source| Error::Format { path: path.into(), source };
        let Header { schema } = serde_json::from_slice(&text).map_err(format)?;
        if schema > SCHEMA {
            return Err(Error::Newer { path: path.into(), schema });
        }
        serde_json::from_slice(&text).map_err(format)
    }

    /// Returns the crash-test results that the documentation shows.
    pub fn published() -> Self {
        serde_json::from_str(PUBLISHED).unwrap_or_default()
    }

    /// Reads a result file; returns no results if it does not exist.
    fn read_or_new(path: &Path) -> Result<Self, Error> {
        match fs::exists(path) {
            Ok(true) => Self::read(path),
            _ => Ok(Self { schema: SCHEMA, cells: Vec::new() }),
        }
    }

    /// Checks, without changing the file `path`, that [`Results::add_to`] can add rows to it.
    ///
    /// # Errors
    ///
    /// If the file exists and is no result file, or if no file can be created in its directory.
    pub fn check_output(path: &Path) -> Result<(), Error> {
        Self::read_or_new(path)?;
        files::new_version(path).map(drop).map_err(|source| Error::File { path: path.into(), source })
    }

    /// Adds a row to the row of the same test in a result file, or appends it, and replaces the file atomically. Creates
    /// the file if it does not exist. Several processes may add to one file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, locked or replaced, or is no result file.
    pub fn add_to(path: &Path, cell: &ResultRow) -> Result<(), Error> {
        let _lock = Lock::new(path)?;
        let mut results = Self::read_or_new(path)?;
        match results.cells.iter_mut().find(|known| known.is_same_test(cell)) {
            Some(known) => known.add(cell),
            None => results.cells.push(cell.clone()),
        }
        let text = serde_json::to_string_pretty(&results).unwrap_or_default() + "\n";
        files::replace(path, text.as_bytes()).map_err(|source| Error::File { path: path.into(), source })
    }

    /// Returns the number of rounds of a server under test with an fsync policy and an injected fault; 0 if a round
    /// failed.
    pub fn rounds(&self, subject: &str, library: &str, fsync: &str, mode: &str) -> u64 {
        let cell = self.cells.iter().find(|cell| {
            (&*cell.subject, &*cell.library, &*cell.fsync, &*cell.mode) == (subject, library, fsync, mode)
        });
        cell.filter(|cell| cell.failed.is_empty()).map_or(0, |cell| cell.rounds)
    }

    /// Returns the results as a Markdown table, with one line for each row.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| | `--fsync` | fault | may lose | rounds | kills and power cuts | writes acknowledged | refused | lost | \
             age of the oldest lost write | recovery time (longest) | failed rounds |\n\
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
    fn is_same_test(&self, other: &Self) -> bool {
        let id = |cell: &Self| {
            [&cell.subject, &cell.library, &cell.fsync, &cell.mode, &cell.promise].map(String::clone)
        };
        id(self) == id(other)
    }

    /// Adds the sums of another row of the same test.
    pub(super) fn add(&mut self, other: &Self) {
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

    /// Returns the names of the server under test, the fsync policy and the injected fault, separated by spaces.
    pub fn name(&self) -> String {
        let words = [&self.subject, &self.fsync, &self.mode].map(String::as_str);
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        words.join(" ")
    }

    /// Returns a summary of the row in one line.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{}: {} rounds, {} kills and power cuts, {} writes acknowledged, {} lost",
            self.name(),
            self.rounds,
            self.strikes,
            self.acknowledged,
            self.lost
        );
        if self.lost > 0 {
            let _ = write!(line, " (the oldest {} ms before its fault)", self.oldest_lost_ms);
        }
        if self.refused > 0 {
            let _ = write!(line, ", {} refused", self.refused);
        }
        let _ = write!(
            line,
            "; may lose {}; recovery time {} ms, {} at the longest; {} rounds failed",
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
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    #[test]
    fn the_results_of_the_documentation_are_readable() {
        assert_eq!(Results::published().schema, SCHEMA);
    }

    #[test]
    fn result_of_a_newer_version_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        let newer = r#"{"schema": 9, "rows": []}"#;
        fs::write(&path, newer).unwrap();
        let refused = [Results::check_output(&path), Results::add_to(&path, &ResultRow::default())];
        for error in refused.map(Result::unwrap_err) {
            assert!(matches!(error, Error::Newer { schema: 9, .. }), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), newer);
    }

    #[test]
    fn the_documentation_shows_them() {
        let page = include_str!("../../docs/durability.md");
        assert!(page.contains(&Results::published().markdown()), "kvbench torture --table docs/torture.json");
    }

    /// A full or failing disk is an injected fault too, and is not counted.
    #[test]
    fn kills_and_power_cuts_are_named_as_such() {
        let row = ResultRow { mode: "full".into(), rounds: 2, strikes: 5, ..ResultRow::default() };
        let line = row.line();
        assert!(line.starts_with("full: 2 rounds, 5 kills and power cuts, "), "{line}");
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

    #[test]
    fn rounds_of_several_runs_at_once_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let [path, link] = ["results.json", "link.json"].map(|name| dir.path().join(name));
        let row = ResultRow { subject: "map".into(), rounds: 1, ..ResultRow::default() };
        Results::add_to(&path, &row).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        thread::scope(|scope| {
            for name in [&path, &link, &path, &link] {
                let row = &row;
                scope.spawn(move || (0..10).for_each(|_| Results::add_to(name, row).unwrap()));
            }
        });
        assert_eq!(Results::read(&path).unwrap().rounds("map", "", "", ""), 41);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "a lock file is left");
    }

    #[test]
    fn new_version_of_a_result_file_keeps_its_permissions_and_links_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let [path, link] = ["results.json", "link.json"].map(|name| dir.path().join(name));
        Results::check_output(&path).unwrap();
        assert!(!path.exists());
        Results::add_to(&path, &ResultRow::default()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        Results::add_to(&link, &ResultRow { rounds: 3, ..ResultRow::default() }).unwrap();
        assert_eq!(Results::read(&path).unwrap().cells[0].rounds, 3);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "a temporary file is left");
    }

    #[test]
    fn result_file_that_cannot_be_extended_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("letter");
        fs::write(&path, "Dear reader,\n").unwrap();
        for path in
            [path.as_path(), dir.path(), &dir.path().join("none/results.json"), Path::new("/dev/null")]
        {
            let refused = Results::check_output(path).unwrap_err().to_string();
            assert!(refused.starts_with(&path.display().to_string()), "{refused}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "Dear reader,\n");
    }
}
