//! The commands: one table row and one small function each, in one file a family.
//!
//! To add one: write the function, add a row to the family's `COMMANDS`. Arity, case, errors, the
//! COMMAND reply, run-splitting and durability follow from the row.

mod connection;
mod context;
pub mod glob;
mod keyspace;
mod list;
mod password;
mod server;
mod string;
mod table;

use crate::{
    resp::{Args, Reply},
    store::{self, Txn},
};

pub use context::{After, Context, REDIS_VERSION, Session, Stats};
pub use list::markdown;
pub use password::Password;
pub use table::{Commands, Lookup, find, table};

/// A command that is answered from the connection's and the server's own state.
pub type SessionCommand = fn(&mut Session, &Context, Args<'_>, &mut Reply);

/// How a command runs.
#[derive(Clone, Copy)]
pub enum Action {
    /// Answered from the connection's and the server's own state, at once.
    Session(SessionCommand),
    /// Reads values of keys; joins the reads around it under one snapshot.
    Read(Read),
    /// Writes; joins the writes around it in one atomic commit.
    Write(Write),
    /// Looks at the whole keyspace, for as long as that takes.
    Query(fn(&Context, Args<'_>, &mut Reply) -> Result<(), Error>),
}

/// How a reading command turns values into its reply.
#[derive(Clone, Copy)]
pub enum Read {
    /// One key, the first argument; the function writes the reply.
    One(fn(Args<'_>, Option<&[u8]>, &mut Reply)),
    /// Every argument is a key; the reply is an array with what the function writes for each.
    Each(fn(Option<&[u8]>, &mut Reply)),
    /// Every argument is a key; the reply is the number of those for which the function holds.
    Count(fn(Option<&[u8]>) -> bool),
}

/// How a writing command writes. It must check everything before its first write, and on an error writes no
/// reply.
#[derive(Clone, Copy)]
pub enum Write {
    /// Reads nothing through the transaction, so that a large request can be prepared while others write.
    Blind(WriteFn),
    /// May read what it is about to change.
    Seeing(WriteFn),
    /// Every argument is a key; the reply is the number of those for which the function returns `true`. Very
    /// many are written in steps, each a commit.
    Each(for<'g> fn(&'g [u8], &mut Txn<'g>) -> Result<bool, Error>),
}

/// Carries out a request.
pub type WriteFn = for<'g> fn(Args<'g>, &mut Txn<'g>, &mut Reply) -> Result<(), Error>;

/// Why a command has no result: the text of its error reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// In Redis' words, code first.
    #[error("{0}")]
    Text(&'static str),
    /// From below.
    #[error(transparent)]
    Store(#[from] store::Error),
}

const SYNTAX_ERROR: Error = Error::Text("ERR syntax error");
const NOT_AN_INTEGER: Error = Error::Text("ERR value is not an integer or out of range");

/// One row of the command table.
pub struct Spec {
    /// Lower-case name.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least so many (Redis' convention).
    pub arity: i32,
    /// Positions of the first and last key and the step between; last -1 is the last argument.
    pub keys: (i32, i32, i32),
    /// How it runs.
    pub action: Action,
    /// Family, as in COMMAND DOCS.
    pub group: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Names and arities of subcommands, which are looked up like commands.
    pub subcommands: &'static [(&'static str, i32)],
    /// Whether a client may use it before it has given the password.
    pub before_auth: bool,
}

impl Spec {
    const fn new(
        name: &'static str,
        arity: i32,
        keys: (i32, i32, i32),
        action: Action,
        group: &'static str,
        summary: &'static str,
    ) -> Self {
        Self { name, arity, keys, action, group, summary, subcommands: &[], before_auth: false }
    }

    const fn with_subcommands(mut self, subcommands: &'static [(&'static str, i32)]) -> Self {
        self.subcommands = subcommands;
        self
    }

    const fn before_auth(mut self) -> Self {
        self.before_auth = true;
        self
    }

    /// Whether a request of `len` arguments, the name included, is complete.
    #[inline]
    pub fn accepts(&self, len: usize) -> bool {
        arity_accepts(self.arity, len)
    }
}

#[inline]
fn arity_accepts(arity: i32, len: usize) -> bool {
    if arity < 0 { len >= arity.unsigned_abs() as usize } else { len == arity as usize }
}

/// No key, one key as first argument, keys up to the end, and key-value pairs up to the end.
const NO_KEY: (i32, i32, i32) = (0, 0, 0);
const ONE_KEY: (i32, i32, i32) = (1, 1, 1);
const ALL_KEYS: (i32, i32, i32) = (1, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);
