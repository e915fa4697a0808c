//! The engine and the program, through kvbench's own tests.

use kvbench::testing::child_program;
use own_engine::KINDS;
use std::{path::Path, process::Command};

kvbench::engine_tests!(KINDS);

const PROGRAM: &str = env!("CARGO_BIN_EXE_own-engine");

#[test]
#[cfg(target_os = "linux")]
fn a_kill_loses_what_info_says() {
    child_program::kill(Path::new(PROGRAM), "tiny", 2);
}

#[test]
#[cfg(target_os = "linux")]
fn a_power_cut_loses_what_info_says() {
    child_program::power(Path::new(PROGRAM), "tiny", 2);
}

#[test]
fn a_benchmark_reads_back_what_it_wrote() {
    child_program::bench(Path::new(PROGRAM), "tiny");
}

/// Built alone, this program has kvbench's benchmark and crash tests, and neither `manual` nor `tls`. Built together with
/// kvbench (`make test`), it has all that kvbench has.
#[test]
fn what_needs_a_feature_works_or_names_it() {
    let tls =
        ["--store", "tiny", "--path", concat!(env!("CARGO_TARGET_TMPDIR"), "/absent"), "--tls-port", "0"];
    let tls = [&tls[..], &["--tls-cert", "absent.pem", "--tls-key", "absent.pem"]].concat();
    for (feature, arguments) in
        [("manual", &["man"][..]), ("manual", &["completions", "bash"]), ("tls", &tls)]
    {
        let output = Command::new(PROGRAM).args(arguments).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        let works = output.status.success() || message.contains("cannot use --tls-key absent.pem");
        assert_ne!(works, message.contains(&format!("--features {feature}")), "{message}");
    }
}
