//! `kvbench report`: what runs say, for people (`markdown`, `html`) and for programs (`csv`).
//!
//! `model` arranges the cells of the runs (`entry`) as tables, `contest` tells which of them can be compared,
//! `matrix` compares them, by the `scenarios` that people have, and `chooser` lets the page do so for a reader's own.
//! `promises` is what the engines say of themselves. The three renderings only choose words and shapes.

mod charts;
mod comparison_group;
mod csv;
mod custom_mix;
mod environment;
mod html;
mod markdown;
mod matrix;
mod model;
mod panels;
mod row;
mod scenarios;
mod store_properties;
pub mod terminal;

use crate::bench::result::run_file::{self, ReadError};
use model::Report;
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Why there is no report.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of the report cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The page cannot be put together.
    #[error("cannot render the page: {0}")]
    Render(#[from] askama::Error),
}

/// Directory below the report for the runs' files.
const RESULTS: &str = "results";

/// Reads runs (files, or directories of them) and writes `report.md`, `report.csv` and `report.html`
/// into `output`, which is made when it is not there, with the runs' files beside them. Returns the paths
/// of the report.
pub fn write(inputs: &[PathBuf], output: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let runs = run_file::read_all(inputs)?;
    let report = Report::new(&runs);
    fs::create_dir_all(output).map_err(|source| failed(output, source))?;
    let links = runs.iter().map(|run| keep(&run.path, output)).collect::<Result<Vec<_>, _>>()?;
    let parts = [
        ("report.md", markdown::render(&report)),
        ("report.csv", csv::render(&report)),
        ("report.html", html::render(&report, &links)?),
    ];
    let mut written = Vec::new();
    for (name, text) in parts {
        let path = output.join(name);
        fs::write(&path, text).map_err(|source| failed(&path, source))?;
        written.push(path);
    }
    Ok(written)
}

fn failed(path: &Path, source: io::Error) -> ReportError {
    ReportError::Write { path: path.to_path_buf(), source }
}

/// Puts a run's file beside the report, unless it is there already. Returns where it is, seen from the
/// report; nothing where another file of that name is kept.
fn keep(file: &Path, output: &Path) -> Result<Option<PathBuf>, ReportError> {
    let Some(name) = file.file_name() else { return Ok(None) };
    let folder = |path: &Path| fs::canonicalize(path).ok();
    let beside =
        file.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    if beside.and_then(folder).is_some_and(|parent| Some(parent) == folder(output)) {
        return Ok(Some(name.into()));
    }
    let results = output.join(RESULTS);
    fs::create_dir_all(&results).map_err(|source| failed(&results, source))?;
    let copy = results.join(name);
    let same = || Some(fs::read(&copy).ok()? == fs::read(file).ok()?);
    if copy.exists() && same() != Some(true) {
        return Ok(None);
    }
    fs::copy(file, &copy).map_err(|source| failed(&copy, source))?;
    Ok(Some(Path::new(RESULTS).join(name)))
}
