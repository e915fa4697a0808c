//! kvbench with one version of SQLite as its engine.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvbench::main(history_sqlite::KINDS)
}
