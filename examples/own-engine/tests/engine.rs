//! The engine and the program, through kvbench's own tests.

use kvbench::testing::child_program;
use own_engine::KINDS;
use std::path::Path;

kvbench::engine_tests!(KINDS);

const PROGRAM: &str = env!("CARGO_BIN_EXE_own-engine");

#[test]
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
