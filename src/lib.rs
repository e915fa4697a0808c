//! kvbench: one Redis-protocol server in front of many embedded key-value engines.
//!
//! The modules, in the order in which a request passes them:
//!
//! - [`cli`] and [`config`]: what the user wants, checked.
//! - [`limits`]: what the operating system allows.
//! - [`server`]: sockets, workers and connections; an orderly start and end.
//! - [`resp`]: bytes to requests, replies to bytes.
//! - [`command`]: the table of commands, and a small function for each.
//! - [`store`]: which reads and writes run together, when they are synced, when writing stops.
//! - [`engine`]: the storage engines behind one trait.
//! - [`mod@bench`]: measures them, in process or through the server.
//! - [`mod@check`]: whether data are sound, and repairs.
//! - `torture` (on Linux): strikes the server under load, and looks for what it acknowledged;
//!   [`proof`] keeps what came of it.
//! - [`stores`]: describes the engines to people.
//! - [`failure`]: tells people what went wrong.
//!
//! Each uses only those below it.

#[cfg(not(unix))]
compile_error!("kvbench needs Unix: files that are replaced while they are open, and Unix sockets");

pub mod bench;
pub mod check;
pub mod cli;
pub mod command;
pub mod config;
pub mod engine;
pub mod failure;
pub mod limits;
pub mod proof;
pub mod resp;
pub mod server;
pub mod store;
pub mod stores;
#[cfg(all(feature = "torture", target_os = "linux"))]
pub mod torture;
