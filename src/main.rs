//! The `kvbench` program.

use std::process::ExitCode;

/// Allocator that counts the allocations of engines on request (`kvbench reproduce kvstore-bench`).
#[cfg(feature = "bench")]
#[global_allocator]
static ALLOCATOR: kvbench::bench::run::allocations::Counting = kvbench::bench::run::allocations::Counting;

fn main() -> ExitCode {
    kvbench::main(&[])
}
