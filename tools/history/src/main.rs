//! kvbench with older versions of some engines.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvbench::main(history::kinds())
}
