//! The commands: one table row and one small function each, in one file a family.
//!
//! To add one: write the function, add a row to the family's `COMMANDS`. Arity, case, errors, the
//! COMMAND reply, run-splitting and durability follow from the row.
//!
//! Top first: [`table()`] has the families' rows; a family has its functions and rows; [`Spec`] is what a row
//! is, and [`Commands`] finds one; [`Context`] and [`Session`] are what commands see of the server.

mod amount;
mod bitfield;
mod bits;
mod client;
mod clients;
mod config;
mod connection;
mod context;
mod counter;
mod error;
mod expire;
mod extended;
pub mod glob;
mod help;
mod info;
mod introspection;
mod keyspace;
pub mod latency;
mod lcs;
mod list;
mod live;
mod memory;
mod monitors;
mod observe;
mod password;
pub mod process;
mod range;
mod refusal;
mod rewrite;
mod scan;
mod scope;
mod server;
mod spec;
pub mod stats;
mod string;
mod table;
mod tracking;
mod traits;
mod transaction;

pub use clients::{Client, Clients, Pause};
pub use connection::chosen_protocol;
pub use context::{After, Context, REDIS_VERSION, Replies, Seen, Session, Wait};
pub use error::{Error, answer};
pub use list::markdown;
pub use live::Live;
pub use monitors::{Feed, Monitors};
pub use password::Password;
pub use refusal::{Subcommands, subcommand};
pub use rewrite::ConfigFile;
pub use spec::{
    Action, Commands, Keys, KeysCommand, Lookup, QueryCommand, Read, SessionCommand, Spec, TableCommand,
    Transaction, Write, WriteCommand, database,
};
pub use stats::Stats;
pub use table::{find, table};
