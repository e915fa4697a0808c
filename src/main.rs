//! The `kvbench` program.

use kvbench::bench::run::allocations::Counting;
use std::process::ExitCode;

/// Counts what engines allocate where that is asked for (`kvbench reproduce kvstore-bench`).
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    kvbench::main(&[])
}
