//! Reading run files back.

use super::{Run, SCHEMA_VERSION};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// A run and the file it came from.
#[derive(Debug)]
pub struct RunFile {
    /// Where it was read.
    pub path: PathBuf,
    /// What it holds.
    pub run: Run,
}

/// Why runs could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What was to be read.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// It is no JSON, or no run.
    #[error("{} is not a run of kvbench bench: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A later kvbench wrote it.
    #[error(
        "{} has schema {schema}, this kvbench reads up to {SCHEMA_VERSION}: use the version that wrote it",
        path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        schema: u32,
    },
    /// A cell is described twice, or a sample belongs to none.
    #[error("{} is inconsistent: {reason}", path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A directory without runs.
    #[error("no .json file in {}", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// Several of these, all named: mending one only to be told of the next is tiresome.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ReadError>),
}

/// Reads one run.
pub fn read(path: &Path) -> Result<RunFile, ReadError> {
    /// The schema decides whether the rest can be understood, so it is looked at first.
    #[derive(Deserialize)]
    struct Header {
        schema: u32,
    }
    let owned = || path.to_path_buf();
    let text = fs::read(path).map_err(|source| ReadError::Io { path: owned(), source })?;
    let format = |source| ReadError::Format { path: owned(), source };
    let Header { schema } = serde_json::from_slice(&text).map_err(format)?;
    if schema > SCHEMA_VERSION {
        return Err(ReadError::Schema { path: owned(), schema });
    }
    let run: Run = serde_json::from_slice(&text).map_err(format)?;
    match contradiction(&run) {
        Some(reason) => Err(ReadError::Contradiction { path: owned(), reason }),
        None => Ok(RunFile { path: owned(), run }),
    }
}

fn contradiction(run: &Run) -> Option<String> {
    let mut ids = BTreeSet::new();
    if let Some(cell) = run.cells.iter().find(|cell| !ids.insert(cell.id.as_str())) {
        return Some(format!("two cells are called {:?}", cell.id));
    }
    let stray = run.samples.iter().find(|sample| !ids.contains(sample.cell.as_str()))?;
    Some(format!("a sample is of the cell {:?}, which is not in the run", stray.cell))
}

/// Reads runs, of each directory every `.json` file directly in it; the oldest run comes first.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<RunFile>, ReadError> {
    let mut runs = Vec::new();
    let mut errors = Vec::new();
    // The same file may be named twice, by itself and by its directory.
    let mut files = BTreeSet::new();
    for path in paths {
        match expand(path) {
            Ok(found) => files.extend(found),
            Err(error) => errors.push(error),
        }
    }
    for path in &files {
        match read(path) {
            Ok(run) => runs.push(run),
            Err(error) => errors.push(error),
        }
    }
    if errors.len() > 1 {
        return Err(ReadError::Several(errors));
    }
    if let Some(error) = errors.pop() {
        return Err(error);
    }
    runs.sort_by(|a, b| (&a.run.started, &a.path).cmp(&(&b.run.started, &b.path)));
    Ok(runs)
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let failed = |source| ReadError::Io { path: path.to_path_buf(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(ReadError::Empty { path: path.to_path_buf() });
    }
    Ok(files)
}
