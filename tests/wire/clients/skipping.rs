//! Tests of clients that are not on this machine.

use std::{
    env,
    process::{Command, Output},
};

/// The modules whose tests run a client.
const TESTS: [&str; 3] = ["clients::exporter::", "clients::libraries::", "clients::programs::"];

/// Runs these tests, or lists them, as on a machine without any program.
fn tests(more: &[&str], ci: &str) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(TESTS).args(more);
    command.env("PATH", "").env("CI", ci).env_remove("KVBENCH_MAY_SKIP").output().unwrap()
}

#[test]
fn tests_of_absent_clients_are_shown_as_skipped_and_fail_in_ci() {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let listed = text(tests(&["--list", "--format", "terse"], "").stdout);
    let number = listed.lines().filter(|line| line.ends_with(": test")).count();
    assert!(number > 10, "{listed}");
    let skipped = tests(&[], "");
    let (stdout, stderr) = (text(skipped.stdout), text(skipped.stderr));
    assert!(skipped.status.success(), "{stdout}{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("skipped: ")).count(), number, "{stderr}");
    let failed = tests(&[], "true");
    assert!(!failed.status.success());
    let stdout = text(failed.stdout);
    assert!(stdout.contains(&format!("0 passed; {number} failed")), "{stdout}");
}
