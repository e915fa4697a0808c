//! Finding the row of a request.

use super::{Spec, connection, keyspace, server, string};
use crate::resp::{Args, Reply};
use hashbrown::HashMap;

const FAMILIES: &[&[Spec]] = &[string::COMMANDS, keyspace::COMMANDS, connection::COMMANDS, server::COMMANDS];

/// Longest name the table can hold.
const MAX_NAME: usize = 32;

/// Every command, family by family.
pub fn table() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().copied().flatten()
}

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

/// The command of that name, in any mix of cases.
pub fn find(name: &str) -> Option<&'static Spec> {
    table().find(|spec| spec.name.eq_ignore_ascii_case(name))
}

/// The commands that one server has.
pub struct Commands {
    rows: Vec<&'static Spec>,
    by_name: HashMap<&'static [u8], &'static Spec>,
}

impl Commands {
    /// All commands but those `disabled` by name.
    pub fn without(disabled: &[&str]) -> Self {
        let rows: Vec<_> = table().filter(|spec| !disabled.contains(&spec.name)).collect();
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
            Self::Known(spec) | Self::Arity(spec) => wrong_arity(spec.name, reply),
            Self::Unknown => unknown(args, reply),
        }
    }
}

pub(super) fn wrong_arity(name: &str, reply: &mut Reply) {
    reply.error(format!("ERR wrong number of arguments for '{name}' command"));
}

/// Most bytes of a client's words that Redis puts into an error.
pub(super) const QUOTED: usize = 128;

/// The beginning of `word` as Redis quotes it: a C string, which ends before its first NUL.
pub(super) fn quote(word: &[u8], most: usize) -> &[u8] {
    let text = word.get(..most).unwrap_or(word);
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Redis quotes arguments while they fit in as many bytes as the name may have.
fn unknown(args: Args<'_>, reply: &mut Reply) {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(quote(args.get(0), QUOTED));
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args.from(1) {
        let quoted = text.len() - start;
        if quoted >= QUOTED {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(quote(arg, QUOTED - quoted));
        text.extend_from_slice(b"' ");
    }
    reply.error(text);
}
