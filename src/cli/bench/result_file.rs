//! Default name of a result file.

use crate::bench::run::Error;
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Returns the path of the result file: `asked`, or otherwise a name of `prefix` and the current time; with `resume`,
/// the newest file with such a name in the working directory.
///
/// # Errors
///
/// [`Error::NothingToResume`] if `resume` and the working directory has no result file of that name.
pub fn result_file(asked: Option<PathBuf>, prefix: &str, resume: bool) -> Result<PathBuf, Error> {
    match (asked, resume) {
        (Some(path), _) => Ok(path),
        (None, false) => Ok(format!("{prefix}-{}.json", time()).into()),
        (None, true) => newest(Path::new("."), prefix)
            .ok_or_else(|| Error::NothingToResume(format!("{prefix}-*.json in the working directory"))),
    }
}

/// Returns the current time in UTC as it is in file names: `20261125-083625`.
fn time() -> String {
    let text = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    text.chars()
        .filter(|letter| letter.is_ascii_digit() || *letter == 'T')
        .collect::<String>()
        .replace('T', "-")
}

/// Returns the name of the result file in `directory` that begins with `prefix` and has the latest time in its name, or
/// `None` if there is none.
fn newest(directory: &Path, prefix: &str) -> Option<PathBuf> {
    let fits = |name: &String| {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".json"));
        rest.is_some_and(is_time)
    };
    let names = fs::read_dir(directory).ok()?.flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(fits).max().map(PathBuf::from)
}

/// Returns `true` if the text has the form of a time in a file name: `20261125-083625`.
fn is_time(text: &str) -> bool {
    let is_digits = |part: &str| part.bytes().all(|letter| letter.is_ascii_digit());
    let parts = text.split_once('-');
    parts.is_some_and(|(day, time)| (day.len(), time.len()) == (8, 6) && is_digits(day) && is_digits(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_result_of_the_suite_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        for name in
            ["kvbench-ycsb-20260101-000000.json", "kvbench-ycsb-20260102-000000.json", "kvbench-ycsb.json"]
        {
            fs::write(directory.path().join(name), "").unwrap();
        }
        for name in ["b-20270101-000000", "2", "--", "20270101000000-", "20270101-0000001", "2027-0101000000"]
        {
            fs::write(directory.path().join(format!("kvbench-ycsb-{name}.json")), "").unwrap();
        }
        let found = newest(directory.path(), "kvbench-ycsb");
        assert_eq!(found, Some("kvbench-ycsb-20260102-000000.json".into()));
        assert_eq!(newest(directory.path(), "kvbench-redb"), None);
    }

    #[test]
    fn a_default_name_carries_the_time() {
        let name = result_file(None, "kvbench-custom", false).unwrap().display().to_string();
        let time = name.strip_prefix("kvbench-custom-").and_then(|rest| rest.strip_suffix(".json")).unwrap();
        assert!(time.len() == 15 && time.starts_with("20") && time.as_bytes()[8] == b'-', "{name}");
        assert!(is_time(time), "{time}");
        assert_eq!(result_file(Some("x".into()), "kvbench-custom", true).unwrap(), PathBuf::from("x"));
    }
}
