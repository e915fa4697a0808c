//! The `kvbench` program.

use std::process::ExitCode;

/// Counts what engines allocate where that is asked for (`kvbench reproduce kvstore-bench`).
#[cfg(feature = "bench")]
#[global_allocator]
static ALLOCATOR: kvbench::bench::run::allocations::Counting = kvbench::bench::run::allocations::Counting;

fn main() -> ExitCode {
    kvbench::main(&[])
}
