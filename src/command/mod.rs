//! The commands: one table row and one small function each, in one file a family.
//!
//! To add one: write the function, add a row to the family's `COMMANDS`. Arity, case, errors, the
//! COMMAND reply, run-splitting and durability follow from the row.
//!
//! Top first: [`table()`] has the families' rows; a family has its functions and rows; [`Spec`] is what a row
//! is, and [`Commands`] finds one; [`Context`] and [`Session`] are what commands see of the server.

mod connection;
mod context;
pub mod glob;
mod keyspace;
mod list;
mod password;
mod refusal;
mod server;
mod spec;
mod string;
mod table;

pub use context::{After, Context, REDIS_VERSION, Session, Stats};
pub use list::markdown;
pub use password::Password;
pub use refusal::Subcommands;
pub use spec::{
    Action, Commands, Error, Keys, Lookup, QueryCommand, Read, SessionCommand, Spec, TableCommand, Write,
    WriteCommand,
};
pub use table::{find, table};
