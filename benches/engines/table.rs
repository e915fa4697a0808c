//! The table at the end.

use crate::support;
use serde_json::Value;
use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The cases that were run.
pub struct Table {
    rows: Vec<Row>,
    started: SystemTime,
}

struct Row {
    id: String,
    keys: usize,
    iterations: u64,
    ns: f64,
    bytes: f64,
    allocations: f64,
}

const NOTES: &str = "\
op: one call of the engine: one put, one get, one batch, one scan of 100 pairs. ns/key: the same for
each key of it. Keys of 16 bytes, 20 000 of them; values of 256 bytes where the name does not say.
iterations and ns/op are criterion's (slope or mean of its samples); B/op and allocs/op are from a
pass of their own, over all threads.
B/op and allocs/op are allocations in Rust. RocksDB allocates in C++ (memtables, blocks, its write
batches) and LMDB in C (pages that a commit changes): none of that is seen here.
map has no scan of a part (n/a): it is unordered, and every scan visits all keys.
";

impl Table {
    pub fn new() -> Self {
        Self { rows: Vec::new(), started: SystemTime::now() }
    }

    /// Adds a case with what one iteration allocated, unless criterion has not measured it
    /// (`--profile-time`).
    pub fn add(&mut self, group: &str, case: &str, keys: usize, bytes: f64, allocations: f64) {
        if let Some((iterations, ns)) = self.measured(group, case) {
            self.rows.push(Row { id: format!("{group}/{case}"), keys, iterations, ns, bytes, allocations });
        }
    }

    /// Criterion tells its estimates to nobody but its files.
    fn measured(&self, group: &str, case: &str) -> Option<(u64, f64)> {
        let dir =
            support::output_dir().join(group.replace('/', "_")).join(case.replace('/', "_")).join("new");
        let estimates = self.load(&dir.join("estimates.json"))?;
        let sample = self.load(&dir.join("sample.json"))?;
        let estimate = |name| estimates.pointer(&format!("/{name}/point_estimate"))?.as_f64();
        let iterations = sample.get("iters")?.as_array()?.iter().filter_map(Value::as_f64).sum::<f64>();
        Some((iterations as u64, estimate("slope").or_else(|| estimate("mean"))?))
    }

    /// A file of this run; that of an earlier one is not there.
    fn load(&self, path: &Path) -> Option<Value> {
        let new = fs::metadata(path).and_then(|file| file.modified()).is_ok_and(|time| time >= self.started);
        new.then(|| serde_json::from_slice(&fs::read(path).ok()?).ok()).flatten()
    }

    /// The rows and what they mean; empty when nothing was measured.
    fn text(&self) -> String {
        let mut text = String::new();
        if self.rows.is_empty() {
            return text;
        }
        let width = self.rows.iter().map(|row| row.id.len()).max().unwrap_or_default();
        for row in &self.rows {
            // Writing to a String cannot fail.
            let _ = write!(text, "{:width$} {:>10} {:>12.0} ns/op", row.id, row.iterations, row.ns);
            let _ = write!(text, " {:>9.0} B/op {:>7.1} allocs/op", row.bytes, row.allocations);
            let _ = writeln!(text, " {:>10.0} ns/key", row.ns / row.keys as f64);
        }
        text + "\n" + NOTES
    }

    /// Prints the table and writes it to a file beside criterion's, whose path it returns.
    pub fn publish(&self) -> io::Result<Option<PathBuf>> {
        let text = self.text();
        if text.is_empty() {
            return Ok(None);
        }
        print!("\n{text}");
        let path = support::output_dir().join("engines.txt");
        fs::write(&path, text)?;
        Ok(Some(path))
    }
}
