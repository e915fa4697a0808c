//! `kvbench bench`: what it measures, that it notices what goes wrong, and that a stopped run goes on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

#[path = "../support/mod.rs"]
mod support;

mod command;
mod defaults;
mod distributions;
mod driver;
#[cfg(target_os = "linux")]
mod duel;
mod expiring;
#[cfg(feature = "fault-injection")]
mod faults;
mod find_rate;
mod format;
#[cfg(target_os = "linux")]
mod interleave;
mod may_lose;
#[cfg(feature = "fault-injection")]
mod panics;
mod plan;
#[cfg(target_os = "linux")]
mod processes;
mod refusals;
mod reproduce;
mod resume;
mod rows;
mod run_conditions;
mod sizes;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
mod storage;
mod values;
mod wire;
mod work;
mod writers;
