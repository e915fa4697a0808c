//! kvbench with major versions of redb and of fjall as its engines.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvbench::main(history::KINDS)
}
