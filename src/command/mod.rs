//! The commands: for each command a row of the command table and a small function; one file per family.
//!
//! To add a command: write the function, and add a row to the family's `COMMANDS`. From the row follow the check of
//! the arity, the case of the name, errors, the COMMAND reply, and the step of a pipeline in which the server executes
//! the request.
//!
//! Reading order: [`table()`] joins the rows of the families; a family has functions and rows; [`Spec`] is a
//! row, and [`CommandTable`] finds one; [`ServerState`] and [`Session`] are the state that commands can access.

pub(super) mod admin;
mod data;
mod error;
mod execute;
pub mod flags;
pub mod glob;
mod long_double;
pub mod process_usage;
mod server_state;
mod session;
mod spec;
pub(super) mod state;
mod table;

pub use admin::connection::chosen_protocol;
pub use error::{Error, answer};
pub use execute::{Done, KeyHits, Progress, ReadLimits, StepReader, execute};
pub use server_state::{CounterSnapshot, REDIS_VERSION, ServerState};
pub use session::{AfterReply, ReplyMode, Session, WaitRequest};
pub use spec::{
    BlockingCommand, CommandTable, DeleteCommand, Handler, Keys, KeyspaceCommand, LastLookup, Lookup, Read,
    Refusal, SessionCommand, Spec, StatsIndex, TableCommand, Transaction, WriteCommand, database,
};
pub use state::client_registry::{Client, ClientRegistry};
pub use state::config_file::ConfigFile;
pub use state::monitor_hub::{MonitorFeed, MonitorHub};
pub use state::password::Password;
pub use state::settings::{RuntimeSettings, as_size};
pub use state::stats::Stats;
pub use table::{find, markdown, table};
