//! The commands: one table row and one small function each, in one file a family.
//!
//! To add one: write the function, add a row to the family's `COMMANDS`. Arity, case, errors, the
//! COMMAND reply, run-splitting and durability follow from the row.
//!
//! Top first: [`table()`] has the families' rows; a family has its functions and rows; [`Spec`] is what a row
//! is, and [`Commands`] finds one; [`Context`] and [`Session`] are what commands see of the server.

mod bitfield;
mod bits;
mod connection;
mod context;
mod counter;
mod expire;
mod extended;
pub mod glob;
mod keyspace;
mod lcs;
mod list;
mod password;
mod range;
mod refusal;
mod scan;
mod server;
mod spec;
mod string;
mod table;
mod transaction;

pub use context::{After, Context, REDIS_VERSION, Session, Stats};
pub use list::markdown;
pub use password::Password;
pub use refusal::{Subcommands, subcommand};
pub use spec::{
    Action, Commands, Error, Keys, KeysCommand, Lookup, QueryCommand, Read, SessionCommand, Spec,
    TableCommand, Transaction, Write, WriteCommand, database,
};
pub use table::{find, table};
