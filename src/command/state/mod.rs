//! Server state that all connections share.

pub(super) mod client_registry;
pub(super) mod config_file;
mod histogram;
mod latency_events;
pub(super) mod monitor_hub;
pub(super) mod password;
pub(super) mod settings;
mod slowlog_ring;
pub mod stats;
