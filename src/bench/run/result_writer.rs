//! Samples of a run (one measurement of one cell each), and its result file.

use super::{error::Error, job_messages::Report};
use crate::{
    bench::{
        plan::options::Options,
        result::{Disturbance, Run, Sample, number_format},
    },
    engine::{self, files},
};
use nix::sys::signal::Signal;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Lock of a result file, by a file `<output>.lock` beside it, so that two processes do not write one result. The lock
/// file is removed on drop.
pub(super) struct OutputLock {
    path: PathBuf,
    _file: File,
}

impl OutputLock {
    /// Locks the result file `output`, whose directory must exist.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if another process has the lock, and [`Error::File`].
    pub fn new(output: &Path) -> Result<Self, Error> {
        let path = output.with_added_extension("lock");
        match files::open_locked(&path, output) {
            Ok(file) => Ok(Self { path, _file: file }),
            Err(engine::Error::Io { source, .. }) => Err(Error::file(output)(source)),
            Err(_) => Err(Error::Busy(output.into())),
        }
    }
}

impl Drop for OutputLock {
    fn drop(&mut self) {
        // The next run locks a file that is left.
        let _best_effort = fs::remove_file(&self.path);
    }
}

/// Returns the arguments of a command line that decide what is measured: without those of the result file, and without
/// `--flush-target`, which may be added to resume a run that was killed.
pub(super) fn measured_words(command: &[String]) -> Vec<&str> {
    let mut words = without_output(command);
    words.retain(|word| *word != "--flush-target");
    words
}

/// Returns the arguments of a command line without `--output` and its value, and without `--force`.
fn without_output(command: &[String]) -> Vec<&str> {
    let mut words = command.iter().map(String::as_str);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--output" => drop(words.next()),
            word if word.starts_with("--output=") || word == "--force" => {}
            word => kept.push(word),
        }
    }
    kept
}

/// Returns the error of a run that a signal has stopped, with the command that continues it.
pub(super) fn stopped(options: &Options, run: &Run, signal: Signal) -> Error {
    let words = without_output(&options.command).into_iter().map(Into::into);
    let output = options.output.display().to_string();
    let words = words.chain(["--output".into(), output, "--resume".into()]);
    let words: Vec<_> = std::iter::once("kvbench".to_owned()).chain(words).collect();
    Error::Stopped {
        signal,
        saved: match run.comparisons.is_empty() {
            true => format!("{} of {}", run.samples.len(), run.cells.len() * run.repetitions as usize),
            false => run.samples.len().to_string(),
        },
        path: options.output.clone(),
        command: number_format::shell_command(&words),
    }
}

/// Adds the reports of a job to the run, as samples of the repetition.
pub(super) fn record(run: &mut Run, reports: Vec<Report>, repetition: u32, disturbance: Option<Disturbance>) {
    let samples = reports.into_iter().map(|report| Sample {
        cell: report.cell,
        repetition,
        outcome: report.outcome,
        disturbance,
    });
    run.samples.extend(samples);
}

/// Replaces the result file at `path` atomically, so that a kill leaves the old file or the new one.
pub(super) fn save(run: &Run, path: &Path) -> Result<(), Error> {
    let write = || {
        let mut text = serde_json::to_vec_pretty(run)?;
        text.push(b'\n');
        files::replace(path, &text)
    };
    write().map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_file_has_one_writer_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("result.json");
        let lock = OutputLock::new(&output).unwrap();
        assert!(matches!(OutputLock::new(&output), Err(Error::Busy(path)) if path == output));
        drop(lock);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        drop(OutputLock::new(&output).unwrap());
        assert!(matches!(
            OutputLock::new(&directory.path().join("none/result.json")),
            Err(Error::File { .. })
        ));
    }
}
