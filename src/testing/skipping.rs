//! Tests that this machine cannot run.

use std::{
    env,
    io::{self, Write},
};

/// Prints that `test` is not run, on standard error and past the test harness, which shows no output of tests that
/// pass.
///
/// # Panics
///
/// If the environment variable `CI` is set and not empty: in CI every test runs.
pub fn skip(test: &str, reason: &str) {
    let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!is_ci, "{test} cannot run: {reason}; CI is set, so no test may be skipped");
    // A standard error that is closed is no reason to fail.
    let _ = writeln!(io::stderr(), "skipped: {test}: {reason}");
}
