//! Reporting of tests that this machine cannot run.

use std::{
    env,
    io::{self, Write},
};

/// Prints that `test` is not run, on standard error and past the test harness, which shows no output of tests that
/// pass.
///
/// # Panics
///
/// If the environment variable `CI` is set and not empty, unless the comma-separated list `KVBENCH_MAY_SKIP` names
/// `test`.
pub fn skip(test: &str, reason: &str) {
    let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    let may_skip = env::var("KVBENCH_MAY_SKIP").unwrap_or_default();
    let is_listed = may_skip.split(',').any(|listed| listed == test);
    assert!(
        !is_ci || is_listed,
        "{test} cannot run: {reason}; CI is set, and KVBENCH_MAY_SKIP does not name this test"
    );
    // A closed standard error must not fail the test.
    let _ = writeln!(io::stderr(), "skipped: {test}: {reason}");
}
