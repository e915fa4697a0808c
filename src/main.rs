//! The `kvbench` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvbench::main(&[])
}
