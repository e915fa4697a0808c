//! COMMAND: descriptions of the commands for clients.

use crate::{
    command::{
        error::SYNTAX_ERROR,
        glob, help,
        refusal::{Subcommands, accepts, subcommand},
        spec::{CommandTable, Handler, NO_KEY, Spec},
        traits::{Traits, note},
    },
    resp::{Args, Reply},
};

pub(in crate::command) const COMMANDS: &[Spec] = &[Spec::new(
    "command",
    -1,
    NO_KEY,
    Handler::Table(command),
    ("server", "2.8.13"),
    "Describe the commands.",
)
.with_subcommands(COMMAND)];

const COMMAND: Subcommands = &[
    ("count", 2),
    ("docs", -2),
    ("getkeys", -4),
    ("getkeysandflags", -4),
    ("help", 2),
    ("info", -2),
    ("list", -2),
];

fn command(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    if args.len() == 1 {
        return describe_all(commands, reply);
    }
    match subcommand("command", COMMAND, args, reply) {
        Some("count") => reply.integer(commands.rows().len() as i64),
        Some("docs") => docs(commands, args, reply),
        Some("getkeys") => get_keys(commands, args, reply, false),
        Some("getkeysandflags") => get_keys(commands, args, reply, true),
        Some("help") => help::write("COMMAND", help::COMMAND, reply),
        Some("list") => list(commands, args, reply),
        Some(_) if args.len() == 2 => describe_all(commands, reply),
        Some(_) => {
            reply.array(args.len() - 2);
            args.from(2).for_each(|name| match Entry::named(commands, name) {
                Some(entry) => entry.describe(reply),
                None => reply.null(),
            });
        }
        None => {}
    }
}

fn describe_all(commands: &CommandTable, reply: &mut Reply) {
    reply.array(commands.rows().len());
    commands.rows().iter().for_each(|spec| Entry { spec, subcommand: None }.describe(reply));
}

/// Command, or a subcommand of one.
#[derive(Clone, Copy)]
struct Entry {
    spec: &'static Spec,
    subcommand: Option<(&'static str, i32)>,
}

impl Entry {
    /// Finds an entry by the name `command` or `command|subcommand`.
    fn named(commands: &CommandTable, name: &[u8]) -> Option<Self> {
        let mut words = name.split(|byte| *byte == b'|');
        let (spec, subcommand) = (commands.find(words.next()?)?, words.next());
        match (subcommand, words.next()) {
            (None, _) => Some(Self { spec, subcommand: None }),
            (Some(subcommand), None) => Self::subcommand(spec, subcommand),
            _ => None,
        }
    }

    fn subcommand(spec: &'static Spec, name: &[u8]) -> Option<Self> {
        let found = spec.subcommands.iter().find(|(other, _)| name.eq_ignore_ascii_case(other.as_bytes()));
        found.map(|subcommand| Self { spec, subcommand: Some(*subcommand) })
    }

    /// Finds the entry for a request that begins with `command` and `word`.
    fn requested(commands: &CommandTable, command: &[u8], word: &[u8]) -> Option<Self> {
        let spec = commands.find(command)?;
        if spec.subcommands.is_empty() {
            return Some(Self { spec, subcommand: None });
        }
        Self::subcommand(spec, word)
    }

    /// Returns all commands, each followed by its subcommands.
    fn all(commands: &CommandTable) -> impl Iterator<Item = Self> {
        let rows = commands.rows().iter().copied();
        rows.flat_map(|spec| std::iter::once(Self { spec, subcommand: None }).chain(Self::below(spec)))
    }

    fn below(spec: &'static Spec) -> impl Iterator<Item = Self> {
        spec.subcommands.iter().map(move |subcommand| Self { spec, subcommand: Some(*subcommand) })
    }

    fn name(self) -> String {
        match self.subcommand {
            Some((name, _)) => format!("{}|{name}", self.spec.name),
            None => self.spec.name.into(),
        }
    }

    fn arity(self) -> i32 {
        self.subcommand.map_or(self.spec.arity, |(_, arity)| arity)
    }

    /// Writes the ten fields of COMMAND INFO.
    fn describe(self, reply: &mut Reply) {
        let (name, none) = (self.name(), (0, 0, 0));
        let traits = Traits::of(&name);
        let words = |words: &'static str| words.split_ascii_whitespace();
        reply.array(10);
        reply.bulk(name.as_bytes());
        reply.integer(self.arity().into());
        statuses(words(traits.flags), reply);
        let (first, last, step) = if traits.keys.is_empty() { none } else { self.spec.keys };
        [first, last, step].into_iter().for_each(|position| reply.integer(position.into()));
        reply.set(traits.categories().count());
        traits.categories().for_each(|category| reply.simple(&format!("@{category}")));
        reply.set(words(traits.tips).count());
        words(traits.tips).for_each(|tip| reply.bulk(tip.as_bytes()));
        self.describe_keys(&name, traits.keys, reply);
        if self.subcommand.is_some() || self.spec.subcommands.is_empty() {
            return reply.set(0);
        }
        reply.array(self.spec.subcommands.len());
        Self::below(self.spec).for_each(|entry| entry.describe(reply));
    }

    /// Writes Redis' key specifications: for each group of keys the position, the extent and the flags.
    fn describe_keys(self, name: &str, groups: &'static [&'static str], reply: &mut Reply) {
        let (first, last, step) = self.spec.keys;
        reply.set(groups.len());
        for (index, flags) in groups.iter().enumerate() {
            // Only the last group may have several keys.
            let (begin, is_last) = (first + index as i32, index + 1 == groups.len());
            // Position of the last key, relative to the first key of the group; a negative one counts from the
            // end.
            let behind = match last {
                _ if !is_last => 0,
                ..0 => last,
                0.. => last - begin,
            };
            let note = note(name);
            reply.map(3 + note.iter().len());
            if let Some(text) = note {
                reply.bulk(b"notes");
                reply.bulk(text.as_bytes());
            }
            reply.bulk(b"flags");
            statuses(flags.split_ascii_whitespace(), reply);
            search("begin_search", "index", &[("index", begin)], reply);
            search("find_keys", "range", &[("lastkey", behind), ("keystep", step), ("limit", 0)], reply);
        }
    }

    /// Returns the key flags of the argument at position `at` of a request.
    fn key_flags(self, at: usize, request: Request<'_>) -> &'static str {
        let groups = Traits::of(&self.name()).keys;
        match self.spec.name {
            "set" if request.words(3).any(|word| word.eq_ignore_ascii_case(b"get")) => "RW access update",
            "set" => "OW update",
            "bitfield" if request.only_gets() => "RO access",
            "bitfield" => "RW access update",
            _ if at == self.spec.keys.0.unsigned_abs() as usize => {
                groups.first().copied().unwrap_or_default()
            }
            _ => groups.last().copied().unwrap_or_default(),
        }
    }
}

fn statuses<'w>(words: impl Iterator<Item = &'w str> + Clone, reply: &mut Reply) {
    reply.set(words.clone().count());
    words.for_each(|word| reply.simple(word));
}

/// Writes one half of a key specification.
fn search(name: &str, kind: &str, fields: &[(&str, i32)], reply: &mut Reply) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields.len());
    for (field, number) in fields {
        reply.bulk(field.as_bytes());
        reply.integer((*number).into());
    }
}

fn docs(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    let wanted = match args.len() {
        2 => commands.rows().to_vec(),
        _ => args.from(2).filter_map(|name| commands.find(name)).collect(),
    };
    reply.map(wanted.len());
    for spec in wanted {
        reply.bulk(spec.name.as_bytes());
        reply.map(3);
        for (field, value) in [("summary", spec.summary), ("since", spec.since), ("group", spec.group)] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

/// Executes COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
fn list(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    let (kind, wanted) = (args.get(3).to_ascii_lowercase(), args.get(4).to_ascii_lowercase());
    let is_wanted = |name: &str| match kind.as_slice() {
        b"pattern" => glob::matches(&wanted, name.as_bytes()),
        b"aclcat" => str::from_utf8(&wanted).is_ok_and(|category| Traits::of(name).is_in(category)),
        // There are no modules.
        kind => kind.is_empty(),
    };
    let is_filter = args.get(2).eq_ignore_ascii_case(b"filterby")
        && [&b"pattern"[..], b"aclcat", b"module"].contains(&&*kind);
    if args.len() != 2 && !(args.len() == 5 && is_filter) {
        return reply.error(SYNTAX_ERROR.to_string());
    }
    let names: Vec<String> = Entry::all(commands).map(Entry::name).filter(|name| is_wanted(name)).collect();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
}

/// Request in the arguments of COMMAND GETKEYS.
#[derive(Clone, Copy)]
struct Request<'a>(Args<'a>);

impl<'a> Request<'a> {
    fn len(self) -> usize {
        self.0.len() - 2
    }

    fn word(self, at: usize) -> &'a [u8] {
        self.0.get(at + 2)
    }

    fn words(self, first: usize) -> impl Iterator<Item = &'a [u8]> {
        self.0.from(first + 2)
    }

    /// Returns `true` if a BITFIELD request only reads, by the same test as in Redis.
    fn only_gets(self) -> bool {
        let mut at = 2;
        while at < self.len() {
            let (word, rest) = (self.word(at), self.len() - at - 1);
            if word.eq_ignore_ascii_case(b"get") && rest >= 2 {
                at += 3;
            } else if word.eq_ignore_ascii_case(b"overflow") && rest >= 1 {
                at += 2;
            } else {
                return false;
            }
        }
        true
    }
}

/// Executes COMMAND GETKEYS command argument ..., or COMMAND GETKEYSANDFLAGS if `with_flags`.
fn get_keys(commands: &CommandTable, args: Args<'_>, reply: &mut Reply, with_flags: bool) {
    let request = Request(args);
    let Some(entry) = Entry::requested(commands, request.word(0), request.word(1)) else {
        return reply.error("ERR Invalid command specified");
    };
    if Traits::of(&entry.name()).keys.is_empty() {
        return reply.error("ERR The command has no key arguments");
    }
    if !accepts(entry.arity(), request.len()) {
        return reply.error("ERR Invalid number of arguments specified for command");
    }
    let (first, last, step) = entry.spec.keys;
    let last = if last < 0 { request.len() as i32 + last } else { last };
    let positions: Vec<usize> =
        (first..=last).step_by(step.unsigned_abs() as usize).map(|at| at as usize).collect();
    reply.array(positions.len());
    for at in positions {
        if with_flags {
            reply.array(2);
        }
        reply.bulk(request.word(at));
        if with_flags {
            statuses(entry.key_flags(at, request).split_ascii_whitespace(), reply);
        }
    }
}
