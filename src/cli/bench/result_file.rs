//! Default name of a result file.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Returns the path of the result file: `asked`, or a name with `prefix` and the time. A run that is resumed
/// continues the newest file of such a name in the working directory.
pub fn result_file(asked: Option<PathBuf>, prefix: &str, resume: bool) -> PathBuf {
    let newest = || newest(Path::new("."), prefix).filter(|_| resume);
    asked.or_else(newest).unwrap_or_else(|| format!("{prefix}-{}.json", time()).into())
}

/// Returns the current time in UTC: `20261125-083625`.
fn time() -> String {
    let text = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    text.chars()
        .filter(|letter| letter.is_ascii_digit() || *letter == 'T')
        .collect::<String>()
        .replace('T', "-")
}

/// Returns the name of the file with the latest time in its name.
fn newest(directory: &Path, prefix: &str) -> Option<PathBuf> {
    let is_time = |text: &str| text.chars().all(|letter| letter.is_ascii_digit() || letter == '-');
    let fits = |name: &String| {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".json"));
        rest.is_some_and(is_time)
    };
    let names = fs::read_dir(directory).ok()?.flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(fits).max().map(PathBuf::from)
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
        fs::write(directory.path().join("kvbench-ycsb-b-20270101-000000.json"), "").unwrap();
        let found = newest(directory.path(), "kvbench-ycsb");
        assert_eq!(found, Some("kvbench-ycsb-20260102-000000.json".into()));
        assert_eq!(newest(directory.path(), "kvbench-redb"), None);
    }

    #[test]
    fn a_default_name_carries_the_time() {
        let name = result_file(None, "kvbench-custom", false).display().to_string();
        let time = name.strip_prefix("kvbench-custom-").and_then(|rest| rest.strip_suffix(".json")).unwrap();
        assert!(time.len() == 15 && time.starts_with("20") && time.as_bytes()[8] == b'-', "{name}");
        assert_eq!(result_file(Some("x".into()), "kvbench-custom", true), PathBuf::from("x"));
    }
}
