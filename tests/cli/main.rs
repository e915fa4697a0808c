//! The command line: every flag observed where it takes effect.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod check;
mod config_file;
mod docs;
mod engines;
mod help;
mod network;
mod operations;
mod options;
mod paths;
mod program;
mod reference;
mod release;
mod sockets;
mod stopping;
#[cfg(target_os = "linux")]
mod tools_cluster;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod torture;
mod units;
