//! The server over the wire, in bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

#[path = "../support/mod.rs"]
mod support;

mod administration;
mod browsers;
mod clients;
mod cold;
mod commands;
mod databases;
mod differential;
mod every_store;
#[cfg(feature = "fault-injection")]
mod everysec;
mod expiry;
mod features;
mod frames;
#[cfg(feature = "lmdb")]
mod full;
mod idle;
mod limits;
#[cfg(feature = "fault-injection")]
mod long;
mod pipelines;
mod scanning;
mod shutdown;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
