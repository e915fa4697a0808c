//! What a row of the command table is, and how one is found. What the families share.

use super::{
    error::{Error, NOT_AN_INTEGER},
    refusal::{self, Subcommands},
    server_state::{ServerState, Session},
    traits::Traits,
};
use crate::{
    resp::{Args, Reply, parse_integer},
    store::{self, Database, Entry, Keyspace, Txn},
};
use hashbrown::HashMap;

/// A command that is answered from the connection's and the server's own state.
pub type SessionCommand = fn(&mut Session, &ServerState, Args<'_>, &mut Reply);

/// A command that looks at the server, and may take long.
pub type QueryCommand = fn(&ServerState, Args<'_>, &mut Reply) -> Result<(), Error>;

/// A command that looks at many keys.
pub type KeysCommand = fn(&mut dyn Keyspace, Args<'_>, &mut Reply) -> Result<(), Error>;

/// A command about commands.
pub type TableCommand = fn(&CommandTable, Args<'_>, &mut Reply);

/// A step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the commands of these names")]
pub enum Transaction {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// How a command runs.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answered from the connection's and the server's own state, at once.
    Session(SessionCommand),
    /// Reads values of keys; joins the reads around it under one snapshot.
    Read(Read),
    /// Writes; joins the writes around it in one atomic commit.
    Write(Write),
    /// Looks at keys in its own way, for as long as that takes.
    Keys(KeysCommand),
    /// Looks at the server, for as long as that takes.
    Query(QueryCommand),
    /// Describes the commands.
    Table(TableCommand),
    /// Queues requests, or carries them out.
    Transaction(Transaction),
}

impl Handler {
    /// Whether it changes all keys of a database.
    pub fn is_of_all_keys(&self) -> bool {
        matches!(self, Self::Write(Write::All(_)))
    }

    /// Whether it looks at keys or changes them.
    pub fn is_of_keys(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(_) | Self::Keys(_))
    }
}

/// How a reading command turns values into its reply.
#[derive(Clone, Copy)]
pub enum Read {
    /// One key, the first argument; the function writes the reply.
    One(fn(Args<'_>, Option<&[u8]>, &mut Reply)),
    /// The same for what may find its arguments wrong, or needs more than the value; on an error it writes no
    /// reply.
    Entry(fn(Args<'_>, Option<Entry<'_>>, &mut Reply) -> Result<(), Error>),
    /// The same for what goes over the whole value, or much of it.
    Whole(fn(Args<'_>, Option<Entry<'_>>, &mut Reply) -> Result<(), Error>),
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
    /// The same when it has no more arguments than it needs; otherwise it may read.
    BlindWithoutOptions(WriteCommand),
    /// May read what it is about to change.
    Seeing(WriteCommand),
    /// The same for all keys of a database, for as long as that takes. A commit of its own.
    All(WriteCommand),
    /// Every argument is a key; the reply is the number of those for which the function returns `true`. Very
    /// many are written in steps, each a commit.
    Each(for<'g> fn(&'g [u8], &mut Txn<'g>) -> Result<bool, Error>),
}

/// Carries out a request.
pub type WriteCommand = for<'g> fn(Args<'g>, &mut Txn<'g>, &mut Reply) -> Result<(), Error>;

/// The database of that number, in Redis' words if there is none.
pub fn database(word: &[u8]) -> Result<Database, Error> {
    let number = parse_integer(word).ok_or(NOT_AN_INTEGER)?;
    if i32::try_from(number).is_err() {
        let text = format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX);
        return Err(Error::Words(text.into()));
    }
    let number = u8::try_from(number).ok().filter(|number| *number < DATABASES);
    number.map(Database::new).ok_or(Error::Text("ERR DB index is out of range"))
}

/// How many databases there are.
pub const DATABASES: u8 = 16;

/// Longest string: Redis' `proto-max-bulk-len`.
pub(super) const MAX_STRING: usize = 512 << 20;

/// Positions of the first and last key and the step between; last -1 is the last argument.
pub type Keys = (i32, i32, i32);

/// No key, one key as first argument, keys up to the end, two keys, and key-value pairs up to the end.
pub(super) const NO_KEY: Keys = (0, 0, 0);
pub(super) const ONE_KEY: Keys = (1, 1, 1);
pub(super) const ALL_KEYS: Keys = (1, -1, 1);
pub(super) const TWO_KEYS: Keys = (1, 2, 1);
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
    pub action: Handler,
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
        Self::new(name, arity, NO_KEY, Handler::Session(run), origin, summary)
    }

    pub(super) const fn query(
        name: &'static str,
        arity: i32,
        run: QueryCommand,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, NO_KEY, Handler::Query(run), origin, summary)
    }

    pub(super) const fn looking(
        name: &'static str,
        arity: i32,
        keys: Keys,
        run: KeysCommand,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, keys, Handler::Keys(run), origin, summary)
    }

    pub(super) const fn read(
        name: &'static str,
        arity: i32,
        keys: Keys,
        read: Read,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, keys, Handler::Read(read), origin, summary)
    }

    pub(super) const fn write(
        name: &'static str,
        arity: i32,
        keys: Keys,
        write: Write,
        origin: (&'static str, &'static str),
        summary: &'static str,
    ) -> Self {
        Self::new(name, arity, keys, Handler::Write(write), origin, summary)
    }

    /// `origin` is the group, and the version of Redis that had it first.
    pub(super) const fn new(
        name: &'static str,
        arity: i32,
        keys: Keys,
        action: Handler,
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

    /// The keys of a request, as far as their places are fixed.
    pub fn keys_of<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
        let (first, last, step) = self.keys;
        let len = args.len();
        let end =
            if last < 0 { len.saturating_sub(last.unsigned_abs() as usize - 1) } else { last as usize + 1 };
        let (first, end) = if first > 0 { (first as usize, end.min(len)) } else { (0, 0) };
        (first..end).step_by(step.max(1) as usize).map(move |index| args.get(index))
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        matches!(self.action, Handler::Write(_))
    }

    /// Whether a request writes, and looks at no key for that.
    pub fn is_blind(&self, args: Args<'_>) -> bool {
        match self.action {
            Handler::Write(Write::Blind(_)) => true,
            Handler::Write(Write::BlindWithoutOptions(_)) => args.len() == self.arity.unsigned_abs() as usize,
            _ => false,
        }
    }

    /// Whether a request administrates the server, so that MONITOR does not show it.
    pub fn administrates(&self, args: Args<'_>) -> bool {
        let name = match self.subcommand(args) {
            Some((_, (subcommand, _))) => format!("{}|{subcommand}", self.name),
            None => self.name.into(),
        };
        Traits::of(&name).has("admin")
    }

    /// The subcommand of a request, and its place among all of the command.
    fn subcommand(&self, args: Args<'_>) -> Option<(usize, (&'static str, i32))> {
        let word = args.get(1);
        let is_named = |(_, (name, _)): &(usize, (&str, i32))| word.eq_ignore_ascii_case(name.as_bytes());
        self.subcommands.iter().copied().enumerate().find(is_named)
    }

    /// Whether it is carried out, not queued, between MULTI and EXEC: it ends the connection, or its state.
    pub fn ends_transaction(&self) -> bool {
        matches!(self.name, "quit" | "reset")
    }

    /// Whether it must not be queued.
    pub fn is_kept_out_of_transactions(&self) -> bool {
        self.name == "shutdown"
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
    /// A command whose keys are not in one slot, where there are slots.
    CrossSlot(&'static Spec),
    /// No command.
    Unknown,
}

/// The commands that one server has.
pub struct CommandTable {
    rows: Vec<&'static Spec>,
    /// Each with the place of its name among all names.
    by_name: HashMap<&'static [u8], (usize, &'static Spec)>,
}

impl CommandTable {
    /// These rows of the table.
    pub(super) fn new(rows: Vec<&'static Spec>) -> Self {
        let mut next = 0;
        let by_name = rows.iter().map(|spec| {
            let place = next;
            next += 1 + spec.subcommands.len();
            (spec.name.as_bytes(), (place, *spec))
        });
        let by_name = by_name.collect();
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
        self.by_name.get(&*lower).map(|(_, spec)| *spec)
    }

    /// What is counted by itself: commands, and `command|subcommand`.
    pub fn names(&self) -> Vec<String> {
        let with_subcommands = |spec: &&'static Spec| {
            let (name, subcommands) = (spec.name, spec.subcommands);
            let subcommands = subcommands.iter().map(move |(subcommand, _)| format!("{name}|{subcommand}"));
            std::iter::once(name.to_owned()).chain(subcommands)
        };
        self.rows.iter().flat_map(with_subcommands).collect()
    }

    /// The place of a request's name among all; `None` for a subcommand that there is not.
    pub fn place(&self, spec: &Spec, args: Args<'_>) -> Option<usize> {
        let (place, _) = self.by_name.get(spec.name.as_bytes())?;
        if spec.subcommands.is_empty() || args.len() == 1 {
            return Some(*place);
        }
        spec.subcommand(args).map(|(index, _)| place + 1 + index)
    }

    /// Whether a request is carried out, and not refused because its subcommand is unknown or incomplete.
    pub fn runs(&self, spec: &Spec, args: Args<'_>) -> bool {
        let is_complete = |(_, (_, arity))| refusal::accepts(arity, args.len());
        spec.subcommands.is_empty() || args.len() == 1 || spec.subcommand(args).is_some_and(is_complete)
    }

    /// Finds the row for a request. `last` is the name of the request before and its row, which in a pipeline are
    /// nearly always this one's too; `kinds` counts the others.
    #[inline]
    pub fn lookup<'a>(
        &self,
        args: Args<'a>,
        last: &mut Option<(&'a [u8], &'static Spec)>,
        kinds: &mut usize,
    ) -> Lookup {
        let name = args.get(0);
        let known = match *last {
            Some((spelled, spec)) if is_same_name(name, spelled) => Some(spec),
            _ => self.find_other(name, last, kinds),
        };
        match known {
            Some(spec) if spec.accepts(args.len()) => Lookup::Known(spec),
            Some(spec) => Lookup::Arity(spec),
            None => Lookup::Unknown,
        }
    }

    /// The same for another name; it is the one to compare the next with.
    fn find_other<'a>(
        &self,
        name: &'a [u8],
        last: &mut Option<(&'a [u8], &'static Spec)>,
        kinds: &mut usize,
    ) -> Option<&'static Spec> {
        let found = self.find(name);
        if found.is_none_or(|spec| last.is_none_or(|(_, before)| before.name != spec.name)) {
            *kinds += 1;
        }
        if let Some(spec) = found {
            *last = Some((name, spec));
        }
        found
    }
}

/// Whether two names are spelled alike. Most have three letters, for which a call of `memcmp` takes longer than all else.
#[inline]
fn is_same_name(a: &[u8], b: &[u8]) -> bool {
    match (<[u8; 3]>::try_from(a), <[u8; 3]>::try_from(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

impl Lookup {
    /// Whether it is EXEC, which ends a transaction even when it is refused.
    pub fn is_exec(self) -> bool {
        let (Self::Known(spec) | Self::Arity(spec)) = self else { return false };
        matches!(spec.action, Handler::Transaction(Transaction::Exec))
    }

    /// Writes Redis' error for a request that is no command.
    pub fn refuse(self, args: Args<'_>, reply: &mut Reply) {
        match self {
            Self::Known(spec) | Self::Arity(spec) if self.is_exec() => refusal::abort(spec.name, reply),
            Self::Known(spec) | Self::Arity(spec) => refusal::wrong_arity(spec.name, reply),
            Self::CrossSlot(_) => reply.error(store::Error::CrossSlot.to_string()),
            Self::Unknown => refusal::unknown(args, reply),
        }
    }
}
