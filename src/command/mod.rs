//! The commands: one table row and one small function each, in one file a family.
//!
//! To add one: write the function, add a row to the family's `COMMANDS`. Arity, case, errors, the
//! COMMAND reply, run-splitting and durability follow from the row.
//!
//! Top first: [`table()`] has the families' rows; a family has its functions and rows; [`Spec`] is what a row
//! is, and [`Commands`] finds one; [`Context`] and [`Session`] are what commands see of the server.

pub(super) mod admin;
mod amount;
mod data;
mod error;
mod extended;
pub mod glob;
mod help;
mod list;
pub mod process;
mod refusal;
mod scope;
mod server_state;
mod spec;
pub(super) mod state;
mod table;
mod tracking;
mod traits;

pub use admin::connection::chosen_protocol;
pub use error::{Error, answer};
pub use list::markdown;
pub use refusal::{Subcommands, subcommand};
pub use server_state::{After, Context, REDIS_VERSION, Replies, Seen, Session, Wait};
pub use spec::{
    Action, Commands, Keys, KeysCommand, Lookup, QueryCommand, Read, SessionCommand, Spec, TableCommand,
    Transaction, Write, WriteCommand, database,
};
pub use state::client_registry::{Client, Clients, Pause};
pub use state::config_file::ConfigFile;
pub use state::monitor_hub::{Feed, Monitors};
pub use state::password::Password;
pub use state::settings::Live;
pub use state::stats::Stats;
pub use table::{find, table};
