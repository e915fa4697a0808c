//! Configuration file of `--config FILE`: flags of `serve` as lines `name value`, which the command line
//! overrides.

use super::serve::Serve;
use clap::{Args, Command, error::ErrorKind};
use std::{ffi::OsString, fs, io, path::PathBuf};

/// Error in a configuration file. Each message names the file, and the line if there is one.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot read --config {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {reason}", .path.display())]
    Line { path: PathBuf, line: usize, reason: String },
}

/// Returns the arguments of a command line with the flags of its `--config` file inserted before its own flags,
/// which override them.
pub fn expand(mut words: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    let Some(path) = named(&words) else { return Ok(words) };
    let text = fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let mut flags = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let failed = |reason| Error::Line { path: path.clone(), line: index + 1, reason };
        flags.extend(flag(line).map_err(failed)?);
    }
    let place = 1 + usize::from(words.get(1).is_some_and(|word| word == "serve"));
    words.splice(place..place, flags.into_iter().map(OsString::from));
    Ok(words)
}

/// Returns the file that `--config` names, if the subcommand is `serve` or absent; otherwise, and without the flag,
/// `None`.
fn named(words: &[OsString]) -> Option<PathBuf> {
    let first = words.get(1)?;
    if first != "serve" && !first.to_string_lossy().starts_with('-') {
        return None;
    }
    words.iter().enumerate().skip(1).find_map(|(index, word)| {
        let word = word.to_string_lossy();
        match word.strip_prefix("--config")? {
            "" => words.get(index + 1).map(PathBuf::from),
            rest => rest.strip_prefix('=').map(PathBuf::from),
        }
    })
}

/// Returns the flag for a line of the configuration file (`--port=6380` for `port 6380`), or `None` if the line is
/// empty or a comment. Fails with the reason if `serve` does not accept the flag.
fn flag(line: &str) -> Result<Option<String>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (name, value) = (name.trim_start_matches("--"), unquoted(value.trim()));
    if name == "config" {
        return Err("a config file cannot name another one; remove this line".into());
    }
    if value.is_empty() {
        return Err(format!("{name} has no value: write {name} VALUE"));
    }
    let flag = format!("--{name}={value}");
    match Serve::augment_args(Command::new("kvbench")).try_get_matches_from(["kvbench", &flag]) {
        Ok(_) => Ok(Some(flag)),
        Err(error) => match error.kind() {
            // Flags that need or exclude each other are checked when all flags are read.
            ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => Ok(Some(flag)),
            ErrorKind::UnknownArgument => Err(format!("there is no flag --{name}; see kvbench serve --help")),
            _ => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                Err(first.trim_start_matches("error: ").to_owned())
            }
        },
    }
}

/// Removes the double quotes that may enclose a value with spaces.
fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}
