//! What documents say of a build with every store.

use crate::{help::output, reference};

#[test]
fn the_readme_says_what_the_stores_promise() {
    let readme = include_str!("../../README.md");
    let table = output(&["stores", "--markdown"]);
    assert!(readme.contains(&table), "put the output of `kvbench stores --markdown` into README.md");
}

/// Every experiment says what it needs, and all of them together take no longer than the page says.
#[test]
fn the_reference_run_says_before_what_it_needs() {
    /// In which the script at its full scale has measured everything once.
    const MINUTES: f64 = 45.0;

    /// Minutes of a text such as `90 s`, `12 min` or `1.5 h`.
    fn minutes(text: &str) -> f64 {
        let (number, unit) = text.split_once(' ').unwrap();
        let each = [("s", 1.0 / 60.0), ("min", 1.0), ("h", 60.0)];
        number.parse::<f64>().unwrap() * each.iter().find(|(name, _)| *name == unit).unwrap().1
    }

    let temporary = tempfile::tempdir().unwrap();
    let plan = reference::script(&temporary.path().join("reference"), &["plan"]).output().unwrap();
    let text = String::from_utf8_lossy(&plan.stdout);
    assert_eq!(text.matches("\ndisk: up to ").count(), reference::EXPERIMENTS.len(), "{text}");
    let times: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("time: about ")).map(minutes).collect();
    assert_eq!(times.len(), reference::EXPERIMENTS.len(), "{text}");
    assert!(times.iter().sum::<f64>() <= MINUTES, "{text}");
}
