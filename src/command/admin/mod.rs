//! Families of commands about the server and its clients.

pub(super) mod client;
pub(super) mod command_info;
pub(super) mod config;
pub(super) mod connection;
pub(super) mod info;
pub(super) mod latency;
pub(super) mod server;
pub(super) mod slowlog;
pub(super) mod transaction;
