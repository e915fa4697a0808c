//! `kvbench report`: renders result files for people (`markdown`, `html`) and for programs (`csv`).
//!
//! `ranking` ranks the stores of each workload and says who is left out. `report_tables` arranges the cells of the
//! runs (`measured_cell`) as tables, `comparison_group` finds the cells that can be compared, `matrix` compares stores
//! in each of the `scenarios`, and `interactive_ranking` provides the data with which the page compares them for a
//! reader's own mix. `store_properties` holds the loss bounds, memory and recovery time of each store, `price` what it
//! costs beside its result, and `column_notes` the sentences below a ranking.
//! `markdown`, `html` and `csv` only format these results.

mod chart_groups;
mod charts;
mod column_notes;
mod comparison_group;
mod csv;
mod environment;
mod expired_read_notes;
mod html;
mod interactive_ranking;
mod markdown;
mod matrix;
mod measured_cell;
mod price;
mod ranking;
mod report_tables;
mod scenarios;
mod soak_notes;
mod store_properties;
pub mod terminal;
mod terms;
pub mod tracking_services;

use crate::bench::result::run_file::{self, ReadError};
use report_tables::Report;
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Error of [`write()`].
#[derive(Debug, Error)]
pub enum ReportError {
    /// A result file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The directory of the report cannot be created.
    #[error("--output {}: cannot create the directory: {source}; choose another one", path.display())]
    Directory {
        /// Path of the directory that cannot be created.
        path: PathBuf,
        /// Error of the operating system for the creation of the directory.
        source: io::Error,
    },
    /// A file of the report cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the report's file or directory that cannot be written.
        path: PathBuf,
        /// Error of the operating system for the write of the report's file or directory.
        source: io::Error,
    },
    /// The HTML page cannot be rendered.
    #[error("cannot render the page: {0}")]
    Render(#[from] askama::Error),
}

/// Name of the subdirectory of the report's directory that receives copies of the result files.
const RESULTS: &str = "results";

/// Reads result files (`inputs`; of a directory all of its `.json` files) and writes `report.md`, `report.csv` and
/// `report.html` into `output`, which is created if it does not exist. Copies the result files that are not in `output`
/// into its subdirectory `results`, without replacing other files there. Returns the paths of the three report files.
///
/// # Errors
///
/// Fails if a result file cannot be read, `output` cannot be created, a file of the report cannot be written, or the page
/// cannot be rendered.
pub fn write(inputs: &[PathBuf], output: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let runs = run_file::read_all(inputs)?;
    let report = Report::new(&runs);
    fs::create_dir_all(output)
        .map_err(|source| ReportError::Directory { path: output.to_path_buf(), source })?;
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

/// Copies the result file `file` into a subdirectory of `output`, unless `output` or the subdirectory already has it.
/// Returns the path, relative to `output`, of the copy or of the file there; `None`, without a copy, if the subdirectory
/// already has another file of that name.
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
    // The copy may be the file itself, which a copy would truncate: an existing file is never written to.
    if !copy.exists() {
        fs::copy(file, &copy).map_err(|source| failed(&copy, source))?;
    } else if same() != Some(true) {
        return Ok(None);
    }
    Ok(Some(Path::new(RESULTS).join(name)))
}
