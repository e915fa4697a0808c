//! Rows of the command table and their lookup, with the definitions that all command families share.

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

/// Function of a command that is answered from the state of the connection and of the server.
pub type SessionCommand = fn(&mut Session, &ServerState, Args<'_>, &mut Reply);

/// Function of a command that reads the state of the server and may take long.
pub type QueryCommand = fn(&ServerState, Args<'_>, &mut Reply) -> Result<(), Error>;

/// Function of a command that reads many keys.
pub type KeysCommand = fn(&mut dyn Keyspace, Args<'_>, &mut Reply) -> Result<(), Error>;

/// Function of a command about commands, such as COMMAND.
pub type TableCommand = fn(&CommandTable, Args<'_>, &mut Reply);

/// Transaction command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the commands of these names")]
pub enum Transaction {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// Function of a command and the way in which it is executed.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answered at once from the state of the connection and of the server.
    Session(SessionCommand),
    /// Reads values of keys. Adjacent reads of a pipeline are executed under one snapshot.
    Read(Read),
    /// Writes. Adjacent writes of a pipeline are executed in one atomic commit.
    Write(Write),
    /// Reads keys in an order of its own, such as a scan; may take long.
    Keys(KeysCommand),
    /// Reads the state of the server; may take long.
    Query(QueryCommand),
    /// Describes commands.
    Table(TableCommand),
    /// Queues requests (MULTI), executes queued ones (EXEC), or changes the watched keys.
    Transaction(Transaction),
}

impl Handler {
    /// Returns `true` if the command changes all keys of a database.
    pub fn is_of_all_keys(&self) -> bool {
        matches!(self, Self::Write(Write::All(_)))
    }

    /// Returns `true` if the command reads or writes keys.
    pub fn is_of_keys(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(_) | Self::Keys(_))
    }
}

/// Function of a read command, by the way in which it turns values into its reply.
#[derive(Clone, Copy)]
pub enum Read {
    /// One key, the first argument; the function gets the value and writes the reply.
    One(fn(Args<'_>, Option<&[u8]>, &mut Reply)),
    /// One key, the first argument; the function gets the value with its expiration time, and may reject the
    /// arguments. On an error it writes no reply.
    Entry(fn(Args<'_>, Option<Entry<'_>>, &mut Reply) -> Result<(), Error>),
    /// One key, the first argument, as for `Entry`; the function processes the whole value, or a large part of
    /// it.
    Whole(fn(Args<'_>, Option<Entry<'_>>, &mut Reply) -> Result<(), Error>),
    /// Every argument is a key; the reply is an array, and the function writes the element for each value.
    Each(fn(Option<&[u8]>, &mut Reply)),
    /// Every argument is a key; the reply is the number of keys for which the function returns `true`.
    Count(fn(Option<&[u8]>) -> bool),
}

/// Function of a write command, by the way in which it writes. The function checks all arguments before its
/// first write; on an error it writes no reply.
#[derive(Clone, Copy)]
pub enum Write {
    /// Reads nothing through the transaction, so that a large request can be prepared while other requests
    /// write.
    Blind(WriteCommand),
    /// Reads nothing through the transaction if the request has the minimum number of arguments; may read
    /// otherwise.
    BlindWithoutOptions(WriteCommand),
    /// May read the keys that it changes.
    Seeing(WriteCommand),
    /// May read and change all keys of a database, which may take long. Always a commit of its own.
    All(WriteCommand),
    /// Every argument is a key; the reply is the number of keys for which the function returns `true`. Very
    /// many keys are written in chunks, each in a commit of its own.
    Each(for<'g> fn(&'g [u8], &mut Txn<'g>) -> Result<bool, Error>),
}

/// Function that executes a write request through the transaction and writes the reply.
pub type WriteCommand = for<'g> fn(Args<'g>, &mut Txn<'g>, &mut Reply) -> Result<(), Error>;

/// Returns the database with the index in `word`, or Redis' error if there is none.
pub fn database(word: &[u8]) -> Result<Database, Error> {
    let number = parse_integer(word).ok_or(NOT_AN_INTEGER)?;
    if i32::try_from(number).is_err() {
        let text = format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX);
        return Err(Error::Words(text.into()));
    }
    let number = u8::try_from(number).ok().filter(|number| *number < DATABASES);
    number.map(Database::new).ok_or(Error::Text("ERR DB index is out of range"))
}

/// Number of databases.
pub const DATABASES: u8 = 16;

/// Maximum length of a value in bytes: Redis' `proto-max-bulk-len`.
pub(super) const MAX_STRING: usize = 512 << 20;

/// Positions of the first and the last key among the arguments, and the step between keys. A last position of
/// -1 means the last argument.
pub type Keys = (i32, i32, i32);

/// Key positions of frequent kinds of commands: no key; one key, the first argument; keys up to the last
/// argument; two keys; key-value pairs up to the last argument.
pub(super) const NO_KEY: Keys = (0, 0, 0);
pub(super) const ONE_KEY: Keys = (1, 1, 1);
pub(super) const ALL_KEYS: Keys = (1, -1, 1);
pub(super) const TWO_KEYS: Keys = (1, 2, 1);
pub(super) const PAIRS: Keys = (1, -1, 2);

/// One row of the command table.
pub struct Spec {
    /// Name in lower case.
    pub name: &'static str,
    /// Number of arguments including the name; if negative, the minimum number (Redis' convention).
    pub arity: i32,
    /// Positions of the keys among the arguments.
    pub keys: Keys,
    /// Function of the command and the way in which it is executed.
    pub action: Handler,
    /// Command group, as in COMMAND DOCS.
    pub group: &'static str,
    /// First version of Redis that had the command.
    pub since: &'static str,
    /// Summary of the command, one sentence.
    pub summary: &'static str,
    /// Names and arities of the subcommands, which are looked up like commands.
    pub subcommands: Subcommands,
    /// `true` if a client may use the command before it has authenticated.
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

    /// Creates a row. `origin` is the command group, and the first version of Redis that had the command.
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

    /// Returns the keys of a request at the positions of `self.keys`.
    pub fn keys_of<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
        let (first, last, step) = self.keys;
        let len = args.len();
        let end =
            if last < 0 { len.saturating_sub(last.unsigned_abs() as usize - 1) } else { last as usize + 1 };
        let (first, end) = if first > 0 { (first as usize, end.min(len)) } else { (0, 0) };
        (first..end).step_by(step.max(1) as usize).map(move |index| args.get(index))
    }

    /// Returns `true` if the command writes.
    pub fn writes(&self) -> bool {
        matches!(self.action, Handler::Write(_))
    }

    /// Returns `true` if the request writes without reading any key.
    pub fn is_blind(&self, args: Args<'_>) -> bool {
        match self.action {
            Handler::Write(Write::Blind(_)) => true,
            Handler::Write(Write::BlindWithoutOptions(_)) => args.len() == self.arity.unsigned_abs() as usize,
            _ => false,
        }
    }

    /// Returns `true` if the request is an administrative one, which MONITOR does not show.
    pub fn administrates(&self, args: Args<'_>) -> bool {
        let name = match self.subcommand(args) {
            Some((_, (subcommand, _))) => format!("{}|{subcommand}", self.name),
            None => self.name.into(),
        };
        Traits::of(&name).has("admin")
    }

    /// Returns the subcommand that a request names, with its index in `self.subcommands`.
    fn subcommand(&self, args: Args<'_>) -> Option<(usize, (&'static str, i32))> {
        let word = args.get(1);
        let is_named = |(_, (name, _)): &(usize, (&str, i32))| word.eq_ignore_ascii_case(name.as_bytes());
        self.subcommands.iter().copied().enumerate().find(is_named)
    }

    /// Returns `true` if the command is executed at once between MULTI and EXEC, instead of being queued: transaction
    /// commands, except UNWATCH, and QUIT and RESET, which end the transaction.
    pub fn is_executed_in_multi(&self) -> bool {
        match self.action {
            Handler::Transaction(command) => command != Transaction::Unwatch,
            _ => matches!(self.name, "quit" | "reset"),
        }
    }

    /// Returns `true` if the command is refused between MULTI and EXEC.
    pub fn is_kept_out_of_transactions(&self) -> bool {
        self.name == "shutdown"
    }

    /// Returns `true` if `len`, the number of arguments including the name, matches the arity.
    #[inline]
    pub fn accepts(&self, len: usize) -> bool {
        refusal::accepts(self.arity, len)
    }
}

/// Maximum length of a command name in the table, in bytes.
const MAX_NAME: usize = 32;

/// Result of looking up the command of a request.
#[derive(Clone, Copy)]
pub enum Lookup {
    /// Known command, with a valid number of arguments.
    Known(&'static Spec),
    /// Known command, with too few or too many arguments.
    Arity(&'static Spec),
    /// Known command whose keys are in several hash slots, although the store commits each hash slot by itself.
    CrossSlot(&'static Spec),
    /// Unknown command.
    Unknown,
}

/// Commands that are enabled on a server.
pub struct CommandTable {
    rows: Vec<&'static Spec>,
    /// For each name, the row and the index of the name in [`CommandTable::names`].
    by_name: HashMap<&'static [u8], (usize, &'static Spec)>,
}

impl CommandTable {
    /// Creates a table of `rows`.
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

    /// Returns the rows, family by family.
    pub fn rows(&self) -> &[&'static Spec] {
        &self.rows
    }

    /// Finds a command by its name; the case of letters is ignored.
    pub fn find(&self, name: &[u8]) -> Option<&'static Spec> {
        let mut lower = [0; MAX_NAME];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).map(|(_, spec)| *spec)
    }

    /// Returns the names that have counters of their own: commands, and `command|subcommand`.
    pub fn names(&self) -> Vec<String> {
        let with_subcommands = |spec: &&'static Spec| {
            let (name, subcommands) = (spec.name, spec.subcommands);
            let subcommands = subcommands.iter().map(move |(subcommand, _)| format!("{name}|{subcommand}"));
            std::iter::once(name.to_owned()).chain(subcommands)
        };
        self.rows.iter().flat_map(with_subcommands).collect()
    }

    /// Returns the index in [`CommandTable::names`] of the command or subcommand of a request; `None` if the
    /// subcommand is unknown.
    pub fn place(&self, spec: &Spec, args: Args<'_>) -> Option<usize> {
        let (place, _) = self.by_name.get(spec.name.as_bytes())?;
        if spec.subcommands.is_empty() || args.len() == 1 {
            return Some(*place);
        }
        spec.subcommand(args).map(|(index, _)| place + 1 + index)
    }

    /// Returns `true` if a request is executed, and not refused for an unknown subcommand or a wrong number of
    /// arguments of one.
    pub fn runs(&self, spec: &Spec, args: Args<'_>) -> bool {
        let is_complete = |(_, (_, arity))| refusal::accepts(arity, args.len());
        spec.subcommands.is_empty() || args.len() == 1 || spec.subcommand(args).is_some_and(is_complete)
    }

    /// Finds the row for a request. `last` caches the name and the row of the previous request: in a pipeline,
    /// most requests have the same name. `kinds` counts how often the command changes.
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

    /// Finds the row for a name that differs from the cached one, and replaces the cached one.
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

/// Returns `true` if the names are equal, including the case of letters. Most names have three letters; for
/// these a call of `memcmp` would take longer than everything else in a lookup.
#[inline]
fn is_same_name(a: &[u8], b: &[u8]) -> bool {
    match (<[u8; 3]>::try_from(a), <[u8; 3]>::try_from(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

impl Lookup {
    /// Returns `true` for EXEC, which ends a transaction even when it is refused.
    pub fn is_exec(self) -> bool {
        let (Self::Known(spec) | Self::Arity(spec)) = self else { return false };
        matches!(spec.action, Handler::Transaction(Transaction::Exec))
    }

    /// Writes Redis' error for a request that cannot be executed.
    pub fn refuse(self, args: Args<'_>, reply: &mut Reply) {
        match self {
            Self::Known(spec) | Self::Arity(spec) if self.is_exec() => refusal::abort(spec.name, reply),
            Self::Known(spec) | Self::Arity(spec) => refusal::wrong_arity(spec.name, reply),
            Self::CrossSlot(_) => reply.error(store::Error::CrossSlot.to_string()),
            Self::Unknown => refusal::unknown(args, reply),
        }
    }
}
