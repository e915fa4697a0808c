//! Reasons why a run ended without valid results.

use nix::sys::signal::Signal;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Reasons why a run ended without valid results.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error(transparent)]
    Plan(#[from] crate::bench::plan::options::PlanError),
    #[error("--output {}: {source}; choose another file", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "--output {}: there is a result already; continue it with --resume, replace it with --force, or choose another \
        name",
        .0.display()
    )]
    Exists(PathBuf),
    #[error(
        "--output {}: another kvbench is writing this result; wait for its end, or choose another name",
        .0.display()
    )]
    Busy(PathBuf),
    #[error("--output {}: there is something other than a file; choose another name", .0.display())]
    NoFile(PathBuf),
    #[error(
        "--output {}: no result of this version of kvbench can be read from the file ({source}); delete it, or choose \
        another name",
        .path.display()
    )]
    NoResult { path: PathBuf, source: serde_json::Error },
    /// Name of the missing result file.
    #[error(
        "--resume: there is no {0}; name the result file of the stopped run with --output FILE, or leave --resume out to \
        start a new run"
    )]
    NothingToResume(String),
    #[error("--resume {}: it is the result of another {what}; start a new run with another --output", .path.display())]
    Differs { path: PathBuf, what: &'static str },
    #[error(
        "{program} is not in PATH, and --stores {store} needs it; install it, or name the other stores with \
        --stores"
    )]
    NoProgram { program: String, store: String },
    #[error("--output {}: cannot create the directory: {source}", .path.display())]
    OutputDirectory { path: PathBuf, source: io::Error },
    #[error("--dir {}: cannot create the directory: {source}; choose another one", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("--dir: cannot generate {}: {source}; choose another --dir, or name a file with --data", .path.display())]
    GeneratedData { path: PathBuf, source: io::Error },
    /// A condition of the run cannot be met, such as `--cpus` or `--memory-limit`. The text names the flag.
    #[error("{0}")]
    Conditions(String),
    /// The stores may need more than the free space of `--dir`, or than `--map-size`. The text names the flag.
    #[error("{0}")]
    NoSpace(String),
    #[error("--target {address}: {reason}")]
    Target { address: String, reason: String },
    #[error("stopped by {signal}: {saved} measurements are saved in {}; to continue: {command}", .path.display())]
    Stopped { signal: Signal, saved: String, path: PathBuf, command: String },
    #[error(
        "{} was rebuilt, replaced or removed during the duel; the blocks before that are saved in {}; leave both programs \
        as they are until the end, and start again with --force or another --output",
        .program.display(),
        .path.display()
    )]
    Rebuilt { program: PathBuf, path: PathBuf },
    #[error(
        "{unsound} of {all} measurements failed; their figures are not shown; to measure them again, repeat the command \
        with --resume or, if the stores took turns, with --force"
    )]
    Unsound { unsound: usize, all: usize },
    #[error("{}", .0.join("\n"))]
    UnequalWork(Vec<String>),
}

impl Error {
    /// Returns the exit code of the program: 2 if the command line cannot be measured as it is or a condition of the
    /// run is not met, 128 plus the number of the signal that stopped the run, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Plan(_) | Self::Exists(_) | Self::Differs { .. } | Self::NoProgram { .. } => 2,
            Self::Busy(_) | Self::NoFile(_) | Self::NoResult { .. } | Self::Directory { .. } => 2,
            Self::NothingToResume(_) | Self::Conditions(_) | Self::NoSpace(_) | Self::Target { .. } => 2,
            Self::Stopped { signal, .. } => 128 + *signal as u8,
            _ => 1,
        }
    }

    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.into(), source }
    }
}
