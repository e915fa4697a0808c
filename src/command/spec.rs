//! Rows of the command table and their lookup, with the definitions that all command families share.

use super::{
    error::{self, Error, NOT_AN_INTEGER},
    flags::{BLIND, BLIND_WITHOUT_OPTIONS, ENDS_TRANSACTION, Flags, Group},
    server_state::ServerState,
    session::Session,
};
use crate::{
    resp::{Args, Reply, parse_integer},
    store::{self, Database, Entry, Keyspace, Txn},
};
use hashbrown::HashMap;

/// Function of a command that is answered at once, on the worker, from the state of the connection and of the server.
pub type SessionCommand = fn(&mut Session, &ServerState, Args<'_>, &mut Reply);

/// Function of a command that reads or changes the state of the server and may take long, so that a blocking thread
/// calls it.
pub type BlockingCommand = fn(&ServerState, Args<'_>, &mut Reply) -> Result<(), Error>;

/// Function of a command that reads keys through a [`Keyspace`].
pub type KeyspaceCommand = fn(&mut dyn Keyspace, Args<'_>, &mut Reply) -> Result<(), Error>;

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
    /// Reads values of keys. Adjacent reads of a pipeline are executed under one snapshot, or next to writes in the
    /// transaction of the writes. Holds the command's function.
    Read(Read),
    /// Writes; may read keys too. Adjacent writes of a pipeline are executed in one atomic commit, unless they are
    /// large or the engine has hash slots. The function checks all arguments before its first write; the reply of a
    /// call that fails is discarded.
    Write(WriteCommand),
    /// Every argument is a key; the reply is the number of keys for which the function returns `true`. More than 1,024
    /// keys are processed in chunks, each in another commit; in EXEC, all are processed in one commit.
    DeleteEach(DeleteCommand),
    /// Reads keys through a [`Keyspace`]: a scan, or single values; may take long, so that a blocking thread executes
    /// it.
    Keyspace(KeyspaceCommand),
    /// Answered at once from the state of the connection and of the server.
    Session(SessionCommand),
    /// Replies with facts about commands, from the command table, such as COMMAND does.
    Commands(TableCommand),
    /// Reads or changes the state of the server; may take long, so that a blocking thread executes it.
    Blocking(BlockingCommand),
    /// Queues requests (MULTI), executes queued ones (EXEC), or changes the watched keys.
    Transaction(Transaction),
    /// Does nothing itself: the command has subcommands, each with a handler of its own.
    Subcommands,
}

/// Function of a read command, by the way in which it turns values into its reply.
#[derive(Clone, Copy)]
pub enum Read {
    /// One key, the first argument; the function gets the value and writes the reply.
    One(fn(Args<'_>, Option<&[u8]>, &mut Reply)),
    /// One key, the first argument; the function gets the value with its expiration time, and may reject the
    /// arguments. The reply of a call that fails is discarded.
    Entry(fn(Args<'_>, Option<Entry<'_>>, &mut Reply) -> Result<(), Error>),
    /// Every argument is a key; the reply is an array, and the function writes the element for each value.
    Each(fn(Option<&[u8]>, &mut Reply)),
    /// Every argument is a key; the reply is the number of keys for which the function returns `true`.
    Count(fn(Option<&[u8]>) -> bool),
}

/// Function that executes a write request through the transaction and writes the reply.
pub type WriteCommand = for<'g> fn(Args<'g>, &mut Txn<'g>, &mut Reply) -> Result<(), Error>;

/// Function that removes a key and returns `true` if the key existed.
pub type DeleteCommand = for<'g> fn(&'g [u8], &mut Txn<'g>) -> Result<bool, Error>;

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

/// Number of Redis databases.
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
/// Key position of a subcommand with one key, which is the second argument.
pub(super) const SECOND: Keys = (2, 2, 1);

/// One row of the command table: a command, or a subcommand.
pub struct Spec {
    /// Name in lower case; `command|subcommand` for a subcommand.
    pub name: &'static str,
    /// Number of arguments including the name; if negative, the minimum number (Redis' convention).
    pub arity: i32,
    /// Positions of the command's keys among its arguments.
    pub keys: Keys,
    /// Function of the command and the way in which it is executed.
    pub handler: Handler,
    /// Flags of the command: those of Redis, and kvbench's own.
    pub flags: Flags,
    /// Group of the command, as in COMMAND DOCS.
    pub group: Group,
    /// ACL categories that do not follow from the flags, separated by spaces.
    pub categories: &'static str,
    /// First version of Redis that had the command.
    pub since: &'static str,
    /// Summary of the command in one sentence, for COMMAND DOCS and the list of commands.
    pub summary: &'static str,
    /// Subcommands of the command; empty if it has none.
    pub subcommands: &'static [Spec],
}

/// Creates a row: name, arity, keys, handler and flags; then group, first version of Redis, and summary.
macro_rules! cmd {
    (
        $name:literal, $arity:literal, $keys:expr, $handler:ident($run:expr), $flags:expr;
        $group:ident, $since:literal, $summary:literal
    ) => {
        $crate::command::spec::Spec::new(
            $name,
            $arity,
            $keys,
            $crate::command::spec::Handler::$handler($run),
            $flags,
        )
        .about($crate::command::flags::Group::$group, $since, $summary)
    };
}
pub(super) use cmd;

impl Spec {
    pub(super) const fn new(
        name: &'static str,
        arity: i32,
        keys: Keys,
        handler: Handler,
        flags: Flags,
    ) -> Self {
        let (group, categories, since, summary) = (Group::Server, "", "", "");
        Self { name, arity, keys, handler, flags, group, categories, since, summary, subcommands: &[] }
    }

    /// Creates the row of a command that has subcommands.
    pub(super) const fn parent(name: &'static str, subcommands: &'static [Self], flags: Flags) -> Self {
        Self { subcommands, ..Self::new(name, -2, NO_KEY, Handler::Subcommands, flags) }
    }

    /// Returns the row with this group, the ACL category of the group, the first version of Redis that had the command,
    /// and the summary.
    pub(super) const fn about(self, group: Group, since: &'static str, summary: &'static str) -> Self {
        Self { group, categories: group.category(), since, summary, ..self }
    }

    /// Returns the row with these ACL categories, for a command that has not only the category of its group.
    pub(super) const fn in_categories(self, categories: &'static str) -> Self {
        Self { categories, ..self }
    }

    /// Returns `true` if the command has at least one of the flags.
    pub fn has(&self, flags: Flags) -> bool {
        self.flags & flags != 0
    }

    /// Returns the name of a subcommand without that of its command, or the name of a command.
    pub fn word(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, word)| word)
    }

    /// Returns the keys among the arguments of a request with this command.
    pub fn keys_of<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
        let (first, last, step) = self.keys;
        let len = args.len();
        let end =
            if last < 0 { len.saturating_sub(last.unsigned_abs() as usize - 1) } else { last as usize + 1 };
        let (first, end) = if first > 0 { (first as usize, end.min(len)) } else { (0, 0) };
        (first..end).step_by(step.max(1) as usize).map(move |index| args.get(index))
    }

    /// Returns `true` if the request writes without reading any key.
    pub fn is_blind(&self, args: Args<'_>) -> bool {
        self.has(BLIND) || self.has(BLIND_WITHOUT_OPTIONS) && args.len() == self.arity.unsigned_abs() as usize
    }

    /// Returns the subcommand named `word`, with its index among the subcommands, or `None` if there is none.
    fn subcommand(&self, word: &[u8]) -> Option<(usize, &'static Self)> {
        let is_named = |(_, spec): &(usize, &'static Self)| word.eq_ignore_ascii_case(spec.word().as_bytes());
        self.subcommands.iter().enumerate().find(is_named)
    }

    /// Returns `true` if the command is executed at once between MULTI and EXEC, instead of being queued: transaction
    /// commands, except UNWATCH, and QUIT and RESET, which end the transaction.
    pub fn is_executed_in_multi(&self) -> bool {
        match self.handler {
            Handler::Transaction(command) => command != Transaction::Unwatch,
            _ => self.has(ENDS_TRANSACTION),
        }
    }

    /// Returns `true` if `len`, the number of arguments including the name, matches the arity.
    #[inline]
    pub fn accepts(&self, len: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { len >= least } else { len == least }
    }
}

/// Maximum length of a command name in the table, in bytes.
const MAX_NAME: usize = 32;

/// Index of a command or subcommand in [`CommandTable::names`], and of its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsIndex(u16);

impl StatsIndex {
    /// Returns the index as a number.
    pub fn get(self) -> usize {
        self.0.into()
    }
}

/// Reason why a request for a known command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request has too few or too many arguments.
    Arity,
    /// The keys of the request are in several hash slots, although the store commits each hash slot by itself.
    CrossSlot,
    /// The second word of the request is no subcommand of the command.
    Subcommand,
}

/// Result of looking up the command of a request.
#[derive(Clone, Copy)]
pub enum Lookup {
    /// Row of the command or subcommand of a request that can be executed, with the index of its counters.
    Known(&'static Spec, StatsIndex),
    /// Row of the command or subcommand of a request that is refused, with the index of its counters and the reason.
    Refused(&'static Spec, StatsIndex, Refusal),
    /// No command with the name in the request exists, or it is disabled on this server.
    Unknown,
}

const _: () = assert!(size_of::<Lookup>() == 16, "each request of a pipeline has one");

/// Latest known command of a pipeline: its name as the request spells it, its row, and the index of its counters;
/// `None` if there is none yet.
pub type LastLookup<'a> = Option<(&'a [u8], &'static Spec, StatsIndex)>;

/// Commands that are enabled on a server.
pub struct CommandTable {
    rows: Vec<&'static Spec>,
    /// Row of each command name, and the index of the name in [`CommandTable::names`].
    by_name: HashMap<&'static [u8], (&'static Spec, StatsIndex)>,
}

impl CommandTable {
    /// Creates the command table of a server, in which the commands in `rows` are enabled.
    pub(super) fn new(rows: Vec<&'static Spec>) -> Self {
        let mut next = 0;
        let by_name = rows.iter().map(|spec| {
            let index = StatsIndex(next);
            next += 1 + spec.subcommands.len() as u16;
            (spec.name.as_bytes(), (*spec, index))
        });
        let by_name = by_name.collect();
        Self { rows, by_name }
    }

    /// Returns the rows of all enabled commands, without their subcommands, family by family.
    pub fn rows(&self) -> &[&'static Spec] {
        &self.rows
    }

    /// Returns the rows of all enabled commands, each followed by those of its subcommands.
    pub(super) fn all(&self) -> impl Iterator<Item = &'static Spec> {
        self.rows.iter().flat_map(|spec| std::iter::once(*spec).chain(spec.subcommands))
    }

    /// Finds a command by its name; the case of letters is ignored.
    pub(super) fn find(&self, name: &[u8]) -> Option<&'static Spec> {
        self.find_indexed(name).map(|(spec, _)| spec)
    }

    fn find_indexed(&self, name: &[u8]) -> Option<(&'static Spec, StatsIndex)> {
        let mut lower = [0; MAX_NAME];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).copied()
    }

    /// Finds a command or subcommand by its name, `command` or `command|subcommand`.
    pub(super) fn find_any(&self, name: &[u8]) -> Option<&'static Spec> {
        let mut words = name.splitn(2, |byte| *byte == b'|');
        let spec = self.find(words.next()?)?;
        words.next().map_or(Some(spec), |word| spec.subcommand(word).map(|(_, spec)| spec))
    }

    /// Returns the names of all commands, and of their subcommands as `command|subcommand`. The index of a name is also
    /// that of its counters ([`StatsIndex`]).
    pub fn names(&self) -> Vec<&'static str> {
        self.all().map(|spec| spec.name).collect()
    }

    /// Finds the row for a request. `last` caches the name and the row of the previous request: in a pipeline, most
    /// requests have the same name. Adds to `kinds` if the command may differ from that of the previous request.
    #[inline]
    pub fn lookup<'a>(&self, args: Args<'a>, last: &mut LastLookup<'a>, kinds: &mut usize) -> Lookup {
        let name = args.get(0);
        let known = match *last {
            Some((spelled, spec, index)) if is_same_name(name, spelled) => Some((spec, index)),
            _ => self.find_other(name, last, kinds),
        };
        match known {
            Some((spec, index)) if spec.subcommands.is_empty() => accept(spec, index, args),
            Some((spec, index)) => {
                // Requests with the same name may have different subcommands.
                *kinds += 2;
                lookup_subcommand(spec, index, args)
            }
            None => Lookup::Unknown,
        }
    }

    /// Finds the command named `name`, which differs from the name that `last` caches, and caches it there if it
    /// exists. Adds one to `kinds` unless the name differs in case only.
    fn find_other<'a>(
        &self,
        name: &'a [u8],
        last: &mut LastLookup<'a>,
        kinds: &mut usize,
    ) -> Option<(&'static Spec, StatsIndex)> {
        let found = self.find_indexed(name);
        if found.is_none_or(|(_, index)| last.is_none_or(|(_, _, before)| before != index)) {
            *kinds += 1;
        }
        if let Some((spec, index)) = found {
            *last = Some((name, spec, index));
        }
        found
    }
}

#[inline]
fn accept(spec: &'static Spec, index: StatsIndex, args: Args<'_>) -> Lookup {
    if spec.accepts(args.len()) {
        Lookup::Known(spec, index)
    } else {
        Lookup::Refused(spec, index, Refusal::Arity)
    }
}

#[cold]
fn lookup_subcommand(parent: &'static Spec, index: StatsIndex, args: Args<'_>) -> Lookup {
    if args.len() == 1 {
        return accept(parent, index, args);
    }
    match parent.subcommand(args.get(1)) {
        Some((number, spec)) => accept(spec, StatsIndex(index.0 + 1 + number as u16), args),
        None => Lookup::Refused(parent, index, Refusal::Subcommand),
    }
}

/// Writes the reply to the subcommand HELP of a command: its subcommands, each with its summary.
pub(super) fn help(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    let Some(parent) = commands.find(args.get(0)) else { return reply.null() };
    let name = parent.name.to_ascii_uppercase();
    reply.array(1 + 2 * parent.subcommands.len());
    reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for spec in parent.subcommands {
        reply.simple(&spec.word().to_ascii_uppercase());
        reply.simple(&format!("    {}", spec.summary));
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
        let (Self::Known(spec, _) | Self::Refused(spec, ..)) = self else { return false };
        matches!(spec.handler, Handler::Transaction(Transaction::Exec))
    }

    /// Writes Redis' error for a request that needs authentication.
    pub fn refuse_without_authentication(self, reply: &mut Reply) {
        const CAUSE: &str = "NOAUTH Authentication required.";
        if self.is_exec() { error::abort(CAUSE, reply) } else { reply.error(CAUSE) }
    }

    /// Writes Redis' error for a request that cannot be executed.
    pub fn refuse(self, args: Args<'_>, reply: &mut Reply) {
        match self {
            Self::Refused(_, _, Refusal::CrossSlot) => reply.error(store::Error::CrossSlot.to_string()),
            Self::Refused(spec, _, Refusal::Subcommand) => error::unknown_subcommand(spec.name, args, reply),
            Self::Known(..) | Self::Refused(..) if self.is_exec() => {
                error::abort("wrong number of arguments for 'exec' command", reply);
            }
            Self::Known(spec, _) | Self::Refused(spec, ..) => error::wrong_arity(spec.name, reply),
            Self::Unknown => error::unknown(args, reply),
        }
    }
}
