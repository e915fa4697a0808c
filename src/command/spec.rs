//! What a row of the command table is, and how one is found. What the families share.

use super::{
    context::{Context, Session},
    refusal::{self, Subcommands},
};
use crate::{
    resp::{Args, Reply},
    store::{self, Txn},
};
use hashbrown::HashMap;

/// A command that is answered from the connection's and the server's own state.
pub type SessionCommand = fn(&mut Session, &Context, Args<'_>, &mut Reply);

/// A command that looks at the whole keyspace.
pub type QueryCommand = fn(&Context, Args<'_>, &mut Reply) -> Result<(), Error>;

/// A command about commands.
pub type TableCommand = fn(&Commands, Args<'_>, &mut Reply);

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
    Query(QueryCommand),
    /// Describes the commands.
    Table(TableCommand),
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
    Blind(WriteCommand),
    /// May read what it is about to change.
    Seeing(WriteCommand),
    /// Every argument is a key; the reply is the number of those for which the function returns `true`. Very
    /// many are written in steps, each a commit.
    Each(for<'g> fn(&'g [u8], &mut Txn<'g>) -> Result<bool, Error>),
}

/// Carries out a request.
pub type WriteCommand = for<'g> fn(Args<'g>, &mut Txn<'g>, &mut Reply) -> Result<(), Error>;

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

impl From<&'static str> for Error {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

pub(super) const SYNTAX_ERROR: Error = Error::Text("ERR syntax error");
pub(super) const NOT_AN_INTEGER: Error = Error::Text("ERR value is not an integer or out of range");

/// Positions of the first and last key and the step between; last -1 is the last argument.
pub type Keys = (i32, i32, i32);

/// No key, one key as first argument, keys up to the end, and key-value pairs up to the end.
pub(super) const NO_KEY: Keys = (0, 0, 0);
pub(super) const ONE_KEY: Keys = (1, 1, 1);
pub(super) const ALL_KEYS: Keys = (1, -1, 1);
pub(super) const PAIRS: Keys = (1, -1, 2);

/// One row of the command table.
pub struct Spec {
    /// Lower-case name.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least so many (Redis' convention).
    pub arity: i32,
    /// Where the keys are.
    pub keys: Keys,
    /// How it runs.
    pub action: Action,
    /// Family, as in COMMAND DOCS.
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Names and arities of subcommands, which are looked up like commands.
    pub subcommands: Subcommands,
    /// Whether a client may use it before it has given the password.
    pub before_auth: bool,
}

impl Spec {
    pub(super) const fn session(
        name: &'static str,
        arity: i32,
        run: SessionCommand,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, NO_KEY, Action::Session(run), origin, summary)
    }

    pub(super) const fn query(
        name: &'static str,
        arity: i32,
        run: QueryCommand,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, NO_KEY, Action::Query(run), origin, summary)
    }

    pub(super) const fn read(
        name: &'static str,
        arity: i32,
        keys: Keys,
        read: Read,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, keys, Action::Read(read), origin, summary)
    }

    pub(super) const fn write(
        name: &'static str,
        arity: i32,
        keys: Keys,
        write: Write,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, keys, Action::Write(write), origin, summary)
    }

    /// `origin` is the group, and the version of Redis that had it first.
    pub(super) const fn new(
        name: &'static str,
        arity: i32,
        keys: Keys,
        action: Action,
        (group, since): (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self { name, arity, keys, action, group, since, summary, subcommands: &[], before_auth: false }
    }

    pub(super) const fn with_subcommands(mut self, subcommands: Subcommands) -> Self {
        self.subcommands = subcommands;
        self
    }

    pub(super) const fn before_auth(mut self) -> Self {
        self.before_auth = true;
        self
    }

    /// Whether a request of `len` arguments, the name included, is complete.
    #[inline]
    pub fn accepts(&self, len: usize) -> bool {
        refusal::accepts(self.arity, len)
    }
}

/// Longest name the table can hold.
const MAX_NAME: usize = 32;

/// What a request is.
#[derive(Clone, Copy)]
pub enum Lookup {
    /// A command with a fitting number of arguments.
    Known(&'static Spec),
    /// A command with too few or too many.
    Arity(&'static Spec),
    /// No command.
    Unknown,
}

/// The commands that one server has.
pub struct Commands {
    rows: Vec<&'static Spec>,
    by_name: HashMap<&'static [u8], &'static Spec>,
}

impl Commands {
    /// These rows of the table.
    pub(super) fn new(rows: Vec<&'static Spec>) -> Self {
        let by_name = rows.iter().map(|spec| (spec.name.as_bytes(), *spec)).collect();
        Self { rows, by_name }
    }

    /// Family by family.
    pub fn rows(&self) -> &[&'static Spec] {
        &self.rows
    }

    /// Finds a command by name, in any mix of cases.
    pub fn find(&self, name: &[u8]) -> Option<&'static Spec> {
        let mut lower = [0; MAX_NAME];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).copied()
    }

    /// Finds the row for a request. `last` is the row of the request before, which in a pipeline is
    /// nearly always this one's too.
    #[inline]
    pub fn lookup(&self, args: Args<'_>, last: Option<&'static Spec>) -> Lookup {
        let name = args.get(0);
        let known = match last {
            Some(spec) if name.eq_ignore_ascii_case(spec.name.as_bytes()) => Some(spec),
            _ => self.find(name),
        };
        match known {
            Some(spec) if spec.accepts(args.len()) => Lookup::Known(spec),
            Some(spec) => Lookup::Arity(spec),
            None => Lookup::Unknown,
        }
    }
}

impl Lookup {
    /// Writes Redis' error for a request that is no command.
    pub fn refuse(self, args: Args<'_>, reply: &mut Reply) {
        match self {
            Self::Known(spec) | Self::Arity(spec) => refusal::wrong_arity(spec.name, reply),
            Self::Unknown => refusal::unknown(args, reply),
        }
    }
}
