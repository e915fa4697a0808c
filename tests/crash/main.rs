//! What was acknowledged stays: through kills, failed writes and failed syncs, on every store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod corruption;
mod descriptors;
#[cfg(target_os = "linux")]
mod ending;
mod faults;
mod first_start;
mod flips;
mod history;
#[cfg(target_os = "linux")]
mod injected;
mod kill;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod naming;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod power;
#[cfg(target_os = "linux")]
mod repairing;
mod rewriting;
mod room;
#[cfg(target_os = "linux")]
mod syncs;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod torture;
#[cfg(target_os = "linux")]
mod trace;

/// Seed of everything random here; `KVBENCH_SEED=n` replays a failure.
fn seed() -> u64 {
    let seed = match std::env::var("KVBENCH_SEED") {
        Ok(seed) => seed.parse().expect("KVBENCH_SEED is a number"),
        Err(_) => rand::random(),
    };
    eprintln!("KVBENCH_SEED={seed}");
    seed
}
