//! Engines that fail on purpose: every suite notices, and shows no number of theirs.

use crate::support::bench::{bench, read, stderr};
use kvbench::bench::{plan::suites, result::Outcome};
use std::path::Path;

/// Flags of work without a suite.
const MIXES: &[&[&str]] = &[
    &["--mix", "get=0.5,update=0.5"],
    &["--mix", "get=0.5,update=0.5", "--wire"],
    &["--mix", "get=0.5,update=0.5", "--ttl", "1h"],
    &["--mix", "get=0.5,update=0.5", "--ttl", "1h", "--wire"],
];

/// Returns the flags of every suite, and those of work without one.
fn works() -> Vec<Vec<&'static str>> {
    let suites = suites::bench_suites().map(|suite| vec!["--suite", suite.name]);
    suites.chain(MIXES.iter().map(|mix| mix.to_vec())).collect()
}

fn run(dir: &Path, suite: &[&str], store: &str) -> (String, String) {
    let _ = std::fs::remove_file(dir.join("result.json"));
    let flags = ["--stores", store, "--fsync", "no", "--keys", "3000"];
    // Some suites are never cut by the clock. A free mix does enough operations on a busy machine too.
    let length: &[&str] = match suite {
        [_, "redb" | "storage"] => &[],
        ["--mix", ..] => &["--operations", "2000"],
        _ => &["--seconds", "0.3"],
    };
    let output = bench(dir, &[suite, &flags, length].concat());
    assert!(!output.status.success(), "{suite:?} with {store} succeeded");
    (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
}

#[test]
fn an_engine_that_fails_makes_every_suite_fail() {
    let dir = tempfile::tempdir().unwrap();
    for suite in works() {
        let (tables, complaints) = run(dir.path(), &suite, "failing");
        assert!(complaints.contains("failed on purpose"), "{suite:?}: {complaints}");
        assert!(complaints.contains("failed"), "{suite:?}: {complaints}");
        assert!(tables.contains("failed"), "{suite:?}: {tables}");
    }
}

#[test]
fn a_wrong_value_makes_every_suite_fail() {
    let dir = tempfile::tempdir().unwrap();
    for suite in works() {
        let (tables, complaints) = run(dir.path(), &suite, "wrong-value");
        // The second is that of a recovery: without a device of its own, the suite storage measures nothing else.
        let wrong = ["a value that differs from what was written", "a value that nobody wrote"];
        assert!(wrong.iter().any(|words| complaints.contains(words)), "{suite:?}: {complaints}");
        assert!(tables.contains("failed"), "{suite:?}: {tables}");
    }
}

/// A store may be right as long as it is open, and hold as many keys as before once it is open again.
#[test]
fn an_old_value_after_a_restart_makes_a_run_fail() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--mix", "get=0.5,update=0.5", "--threads", "1", "--operations", "2000", "--keys", "500"];
    for access in
        [&[][..], &["--wire"], &["--commits", "groups"], &["--ttl", "1h"], &["--ttl", "1h", "--wire"]]
    {
        let _ = std::fs::remove_file(dir.path().join("result.json"));
        let output = bench(dir.path(), &[&flags[..], &["--stores", "forgetful"], access].concat());
        let complaints = stderr(&output);
        assert!(!output.status.success(), "{access:?}: the old value was not noticed");
        assert!(complaints.contains("at the end, "), "{access:?}: {complaints}");
        assert!(
            complaints.contains("which is not the last acknowledged version"),
            "{access:?}: {complaints}"
        );
        let run = read(dir.path());
        let sample = run.samples.iter().find(|sample| sample.cell.contains("forgetful")).unwrap();
        let Outcome::Measured(measured) = &sample.outcome else { panic!("{:?}", sample.outcome) };
        let faults = (measured.errors, measured.misses, measured.wrong_values);
        assert_eq!((measured.operations, faults), (2000, (0, 0, 1)), "{access:?}");
    }
}

#[test]
fn faults_are_counted_by_their_kind_and_apart_from_operations() {
    let dir = tempfile::tempdir().unwrap();
    for store in ["failing", "wrong-value"] {
        let _ = std::fs::remove_file(dir.path().join("result.json"));
        let arguments = ["--stores", store, "--operations", "9700", "--keys", "1000", "--threads", "1"];
        assert!(!bench(dir.path(), &arguments).status.success());
        let run = read(dir.path());
        let sample = run.samples.iter().find(|sample| sample.cell.contains(store)).unwrap();
        let Outcome::Measured(measured) = &sample.outcome else { panic!("{:?}", sample.outcome) };
        let counts = (measured.operations, measured.errors, measured.misses, measured.wrong_values);
        // One more is that which the comparison of all values at the end has found.
        let expected = if store == "failing" { (9600, 100, 0, 0) } else { (9600, 0, 0, 101) };
        assert_eq!(counts, expected, "{store}");
        assert_eq!(run.measurements(&sample.cell).count(), 0);
    }
}
