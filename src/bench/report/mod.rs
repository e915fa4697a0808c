//! `kvbench report`: what runs say, for people (`markdown`, `html`) and for programs (`csv`).
//!
//! `model` arranges the cells of the runs (`entry`) as tables, `contest` tells which of them can be compared,
//! `answers` compares them, by the `questions` that people have. The three renderings only choose words and shapes.

mod answers;
mod charts;
mod contest;
mod csv;
mod entry;
mod environment;
mod html;
mod markdown;
mod model;
mod panels;
mod questions;
pub mod table;

use crate::bench::result::files::{self, ReadError};
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

/// Reads runs (files, or directories of them) and writes `report.md`, `report.csv` and `report.html`
/// into `output`, which is made when it is not there. Returns the paths written.
pub fn write(inputs: &[PathBuf], output: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let runs = files::read_all(inputs)?;
    let report = Report::new(&runs);
    let failed = |path: &Path, source| ReportError::Write { path: path.to_path_buf(), source };
    fs::create_dir_all(output).map_err(|source| failed(output, source))?;
    let parts = [
        ("report.md", markdown::render(&report)),
        ("report.csv", csv::render(&report)),
        ("report.html", html::render(&report)?),
    ];
    let mut written = Vec::new();
    for (name, text) in parts {
        let path = output.join(name);
        fs::write(&path, text).map_err(|source| failed(&path, source))?;
        written.push(path);
    }
    Ok(written)
}
