//! Families of commands about the server and its clients.

pub(super) mod client;
pub(super) mod command_info;
pub(super) mod config;
pub(super) mod connection;
pub(super) mod info;
pub mod latency;
pub(super) mod memory;
pub(super) mod observe;
pub(super) mod server;
pub(super) mod transaction;
