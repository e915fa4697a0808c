//! COMMAND: descriptions of the commands for clients.

use crate::{
    command::{
        error::SYNTAX_ERROR,
        flags::{self, Group, LOADING, STALE},
        glob,
        spec::{CommandTable, Handler, Lookup, NO_KEY, Refusal, Spec, cmd, help},
    },
    resp::{Args, Reply},
};

const COMMAND: &[Spec] = &[
    cmd!("command|count", 2, NO_KEY, Commands(count), LOADING | STALE;
        Server, "2.8.13", "Count the commands.")
    .in_categories("connection"),
    cmd!("command|docs", -2, NO_KEY, Commands(docs), LOADING | STALE;
        Server, "7.0.0", "Return summary, version and group of commands, or of all.")
    .in_categories("connection"),
    cmd!("command|getkeys", -4, NO_KEY, Commands(get_keys), LOADING | STALE;
        Server, "2.8.13", "Return the keys among the arguments of a request.")
    .in_categories("connection"),
    cmd!("command|help", 2, NO_KEY, Commands(help), LOADING | STALE;
        Server, "5.0.0", "List the subcommands.")
    .in_categories("connection"),
    cmd!("command|info", -2, NO_KEY, Commands(info), LOADING | STALE;
        Server, "2.8.13", "Describe commands, or all.")
    .in_categories("connection"),
    cmd!("command|list", -2, NO_KEY, Commands(list), LOADING | STALE;
        Server, "7.0.0", "List the names of commands; FILTERBY ACLCAT or PATTERN selects.")
    .in_categories("connection"),
];

pub(in crate::command) const COMMANDS: &[Spec] = &[Spec {
    handler: Handler::Commands(describe_all),
    arity: -1,
    ..Spec::parent("command", COMMAND, LOADING | STALE)
}
.about(Group::Server, "2.8.13", "Describe the commands.")
.in_categories("connection")];

fn count(commands: &CommandTable, _: Args<'_>, reply: &mut Reply) {
    reply.integer(commands.rows().len() as i64);
}

fn describe_all(commands: &CommandTable, _: Args<'_>, reply: &mut Reply) {
    reply.array(commands.rows().len());
    commands.rows().iter().for_each(|spec| describe(spec, reply));
}

/// Executes COMMAND INFO [command|subcommand ...].
fn info(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    if args.len() == 2 {
        return describe_all(commands, args, reply);
    }
    reply.array(args.len() - 2);
    for name in args.from(2) {
        // A request may name millions of commands.
        if reply.has_overflowed() {
            break;
        }
        match commands.find_any(name) {
            Some(spec) => describe(spec, reply),
            None => reply.null(),
        }
    }
}

/// Writes the ten fields of COMMAND INFO; tips and key specifications are empty.
fn describe(spec: &Spec, reply: &mut Reply) {
    let (flags, categories) = (flags::names(spec.flags), flags::categories(spec.flags, spec.categories));
    let (first, last, step) = spec.keys;
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity.into());
    reply.set(flags.clone().count());
    flags.for_each(|flag| reply.simple(flag));
    [first, last, step].into_iter().for_each(|position| reply.integer(position.into()));
    reply.set(categories.clone().count());
    categories.for_each(|category| reply.simple(&format!("@{category}")));
    reply.set(0);
    reply.set(0);
    if spec.subcommands.is_empty() {
        return reply.set(0);
    }
    reply.array(spec.subcommands.len());
    spec.subcommands.iter().for_each(|subcommand| describe(subcommand, reply));
}

fn docs(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    let wanted = match args.len() {
        2 => commands.rows().to_vec(),
        _ => args.from(2).filter_map(|name| commands.find_any(name)).collect(),
    };
    reply.map(wanted.len());
    for spec in wanted {
        if reply.has_overflowed() {
            break;
        }
        reply.bulk(spec.name.as_bytes());
        reply.map(3);
        for (field, value) in [("summary", spec.summary), ("since", spec.since), ("group", spec.group.name())]
        {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

/// Executes COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
fn list(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    let (kind, wanted) = (args.get(3).to_ascii_lowercase(), args.get(4).to_ascii_lowercase());
    let is_wanted = |spec: &&Spec| match kind.as_slice() {
        b"pattern" => glob::matches(&wanted, spec.name.as_bytes()),
        b"aclcat" => {
            flags::categories(spec.flags, spec.categories).any(|category| category.as_bytes() == wanted)
        }
        // There are no modules.
        kind => kind.is_empty(),
    };
    let is_filter = args.get(2).eq_ignore_ascii_case(b"filterby")
        && [&b"pattern"[..], b"aclcat", b"module"].contains(&&*kind);
    if args.len() != 2 && !(args.len() == 5 && is_filter) {
        return reply.error(SYNTAX_ERROR.to_string());
    }
    let found: Vec<_> = commands.all().filter(is_wanted).collect();
    reply.array(found.len());
    found.iter().for_each(|spec| reply.bulk(spec.name.as_bytes()));
}

/// Executes COMMAND GETKEYS command argument ....
fn get_keys(commands: &CommandTable, args: Args<'_>, reply: &mut Reply) {
    let request = args.skip(2);
    let spec = match commands.lookup(request, &mut None, &mut 0) {
        Lookup::Known(spec, _) | Lookup::Refused(spec, _, Refusal::Arity) => spec,
        Lookup::Refused(..) | Lookup::Unknown => return reply.error("ERR Invalid command specified"),
    };
    if spec.keys == NO_KEY {
        return reply.error("ERR The command has no key arguments");
    }
    if !spec.accepts(request.len()) {
        return reply.error("ERR Invalid number of arguments specified for command");
    }
    let keys: Vec<_> = spec.keys_of(request).collect();
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
}
