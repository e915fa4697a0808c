//! Reading of result files.

use super::{Outcome, Run, SCHEMA_VERSION};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Benchmark run with the path of its result file.
#[derive(Debug)]
pub struct RunFile {
    /// Path of the result file.
    pub path: PathBuf,
    /// Content of the result file.
    pub run: Run,
}

/// Error of [`read`] and [`read_all`].
#[derive(Debug, Error)]
pub enum ReadError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file or directory that cannot be read.
        path: PathBuf,
        /// Error of the operating system for the read of the file or directory.
        source: io::Error,
    },
    /// The file is not valid JSON, or not a benchmark run.
    #[error("{} is not a run of kvbench bench: {source}", path.display())]
    Format {
        /// Path of the file that is no run.
        path: PathBuf,
        /// Error of the JSON parser: its position and its cause.
        source: serde_json::Error,
    },
    /// A newer version of kvbench wrote the file.
    #[error(
        "{} has schema {schema}, this kvbench reads up to {SCHEMA_VERSION}: use the version that wrote it",
        path.display()
    )]
    Schema {
        /// Path of the file with the newer schema.
        path: PathBuf,
        /// Schema version that the file names.
        schema: u32,
    },
    /// Two cells have the same id, or a sample or a comparison names a cell that is not in the run.
    #[error("{} is inconsistent: {reason}", path.display())]
    Contradiction {
        /// Path of the inconsistent file.
        path: PathBuf,
        /// Description of the inconsistency, such as an id of two cells.
        reason: String,
    },
    /// A directory contains no `.json` file.
    #[error("no .json file in {}", path.display())]
    Empty {
        /// Path of the directory without a `.json` file.
        path: PathBuf,
    },
    /// Several errors, reported together so that all can be fixed before the next attempt.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ReadError>),
}

/// Reads and checks one result file.
///
/// # Errors
///
/// Fails if the file cannot be read, is no JSON of a run, has a newer schema, or contradicts itself.
pub fn read(path: &Path) -> Result<RunFile, ReadError> {
    /// Part of the file that is parsed first: the schema version decides whether the rest can be parsed.
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
    let mut run: Run = serde_json::from_slice(&text).map_err(format)?;
    if schema < 4 {
        forget_mixed_bytes(&mut run);
    }
    match contradiction(&run) {
        Some(reason) => Err(ReadError::Contradiction { path: owned(), reason }),
        None => Ok(RunFile { path: owned(), run }),
    }
}

/// Removes the metrics of bytes written from a result of schema 3 or earlier: they were those of the engine or, where
/// these were more, those of the whole device.
fn forget_mixed_bytes(run: &mut Run) {
    for sample in &mut run.samples {
        let Outcome::Measured(measurement) = &mut sample.outcome else { continue };
        (measurement.device_bytes, measurement.write_amplification) = (None, None);
        if measurement.written_bytes.take().is_some() {
            let reason = "the version that wrote this result mixed bytes of the engine and of the device";
            measurement.unmeasured.insert("written_bytes".into(), reason.into());
        }
    }
}

fn contradiction(run: &Run) -> Option<String> {
    let mut ids = BTreeSet::new();
    if let Some(cell) = run.cells.iter().find(|cell| !ids.insert(cell.id.as_str())) {
        return Some(format!("two cells are called {:?}", cell.id));
    }
    let compared = run.comparisons.iter().flat_map(|comparison| &comparison.cells);
    if let Some(cell) = compared.into_iter().find(|cell| !ids.contains(cell.as_str())) {
        return Some(format!("a comparison is of the cell {cell:?}, which is not in the run"));
    }
    let stray = run.samples.iter().find(|sample| !ids.contains(sample.cell.as_str()))?;
    Some(format!("a sample is of the cell {:?}, which is not in the run", stray.cell))
}

/// Reads result files, sorted from the oldest run to the newest. A directory stands for every `.json` file
/// directly in it. A file that several paths lead to is read once, by the first of them.
///
/// # Errors
///
/// [`ReadError::Several`] with the errors of all files and directories that cannot be read, or the only one.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<RunFile>, ReadError> {
    let mut runs = Vec::new();
    let mut errors = Vec::new();
    // Keyed by absolute paths, because a file may be given twice: by its own path and by its directory.
    let mut files = BTreeMap::new();
    for path in paths {
        match expand(path) {
            Ok(found) => {
                for file in found {
                    files.entry(fs::canonicalize(&file).unwrap_or_else(|_| file.clone())).or_insert(file);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    for path in files.values() {
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
    // The first of several names of one file counts.
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_several_paths_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let result = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/report/results/write.json");
        let file = dir.path().join("a.json");
        fs::copy(result, &file).unwrap();
        std::os::unix::fs::symlink("a.json", dir.path().join("b.json")).unwrap();
        let runs = read_all(&[file.clone(), dir.path().join("."), dir.path().to_path_buf()]).unwrap();
        assert_eq!(runs.iter().map(|run| &run.path).collect::<Vec<_>>(), [&file]);
    }

    #[test]
    fn bytes_of_results_that_mixed_two_sources_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/report/results/write.json");
        let mut json: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let path = dir.path().join("result.json");
        let mut counted = |schema: u32| {
            json["schema"] = schema.into();
            fs::write(&path, json.to_string()).unwrap();
            let run = read(&path).unwrap().run;
            let measured = run.samples.iter().filter_map(|sample| match &sample.outcome {
                Outcome::Measured(measurement) => Some(measurement),
                _ => None,
            });
            let measured: Vec<_> = measured.collect();
            let bytes = |m: &&&crate::bench::result::Measurement| {
                m.written_bytes.or(m.device_bytes).is_some() || m.write_amplification.is_some()
            };
            let reasons = measured.iter().filter(|m| m.unmeasured.contains_key("written_bytes")).count();
            (measured.iter().filter(bytes).count(), reasons)
        };
        let (of_new, of_old) = (counted(SCHEMA_VERSION), counted(3));
        assert!(of_new.0 > 0 && of_new.1 == 0, "{of_new:?}");
        assert_eq!(of_old, (0, of_new.0));
    }
}
