//! The server: what it is, how it is set, its files, its end.

use super::{
    context::{After, Context, Session},
    glob, help,
    refusal::{Subcommands, accepts, subcommand},
    spec::{Action, Commands, Error, NO_KEY, SYNTAX_ERROR, Spec},
};
use crate::resp::{Args, Reply};
use std::{thread, time::Duration};

const GROUP: &str = "server";

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("command", -1, NO_KEY, Action::Table(command), (GROUP, "2.8.13"), "Describe the commands.")
        .with_subcommands(COMMAND),
    Spec::query(
        "bgrewriteaof",
        1,
        bgrewriteaof,
        (GROUP, "1.0.0"),
        "Rewrite the append-only file in the background.",
    ),
    Spec::query(
        "debug",
        -2,
        debug,
        (GROUP, "1.0.0"),
        "Finish all background work (SETTLE), or wait (SLEEP).",
    )
    .with_subcommands(DEBUG),
    Spec::session("shutdown", -1, shutdown, (GROUP, "1.0.0"), "Sync, close and stop the server."),
];

const COMMAND: Subcommands =
    &[("count", 2), ("docs", -2), ("getkeys", -4), ("help", 2), ("info", -2), ("list", -2)];
const DEBUG: Subcommands = &[("help", 2), ("settle", 2), ("sleep", 3)];

fn bgrewriteaof(context: &Context, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    context.store.rewrite()?;
    reply.simple("Background append only file rewriting started");
    Ok(())
}

/// DEBUG SETTLE answers when nothing that was written is left to be flushed, compacted or synced. DEBUG SLEEP seconds
/// keeps only its own connection waiting.
fn debug(context: &Context, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    match subcommand("debug", DEBUG, args, reply) {
        Some("help") => {
            help::write("DEBUG", help::DEBUG, reply);
            return Ok(());
        }
        Some("settle") => context.store.settle()?,
        Some(_) => {
            let seconds = str::from_utf8(args.get(2)).ok().and_then(|text| text.parse().ok());
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            thread::sleep(time.ok_or("ERR value is not a valid float")?);
        }
        None => return Ok(()),
    }
    reply.ok();
    Ok(())
}

/// SAVE and NOSAVE ask about snapshots, NOW and FORCE about replicas; there are neither. Nothing that ABORT could stop
/// takes long enough.
fn shutdown(session: &mut Session, _: &Context, args: Args<'_>, reply: &mut Reply) {
    let has = |name: &str| args.from(1).any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let is_known = |word: &[u8]| {
        ["save", "nosave", "now", "force", "abort"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let others = ["save", "nosave", "now", "force"].into_iter().any(has);
    match has("abort") {
        _ if !args.from(1).all(is_known) || has("save") && has("nosave") => {
            reply.error(SYNTAX_ERROR.to_string());
        }
        true if others => reply.error(SYNTAX_ERROR.to_string()),
        true => reply.error("ERR No shutdown in progress."),
        false => session.after = After::Shutdown,
    }
}

fn command(commands: &Commands, args: Args<'_>, reply: &mut Reply) {
    if args.len() == 1 {
        return describe_all(commands, reply);
    }
    match subcommand("command", COMMAND, args, reply) {
        Some("count") => reply.integer(commands.rows().len() as i64),
        Some("docs") => docs(commands, args, reply),
        Some("getkeys") => get_keys(commands, args, reply),
        Some("help") => help::write("COMMAND", help::COMMAND, reply),
        Some("list") => list(commands, args, reply),
        Some(_) if args.len() == 2 => describe_all(commands, reply),
        Some(_) => {
            reply.array(args.len() - 2);
            args.from(2).for_each(|name| match commands.find(name) {
                Some(spec) => describe(spec, reply),
                None => reply.null(),
            });
        }
        None => {}
    }
}

fn describe_all(commands: &Commands, reply: &mut Reply) {
    reply.array(commands.rows().len());
    commands.rows().iter().for_each(|spec| describe(spec, reply));
}

/// The flag and the categories of a command.
fn categories(spec: &Spec) -> (Option<&'static str>, &'static [&'static str]) {
    match spec.action {
        Action::Read(_) => (Some("readonly"), &["@read", "@keyspace"]),
        Action::Write(_) => (Some("write"), &["@write", "@keyspace"]),
        Action::Session(_) => (None, &["@connection"]),
        Action::Keys(_) => (Some("readonly"), &["@keyspace", "@read", "@slow"]),
        Action::Transaction(_) => (None, &["@transaction"]),
        Action::Query(_) | Action::Table(_) => (None, &["@slow"]),
    }
}

/// The ten fields of COMMAND INFO.
fn describe(spec: &Spec, reply: &mut Reply) {
    let (flag, categories) = categories(spec);
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity.into());
    reply.set(flag.iter().len());
    flag.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = spec.keys;
    [first, last, step].into_iter().for_each(|position| reply.integer(position.into()));
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    // Tips, key specifications and subcommands.
    reply.set(0);
    reply.set(0);
    reply.array(spec.subcommands.len());
    for (name, arity) in spec.subcommands {
        reply.array(10);
        reply.bulk(format!("{}|{name}", spec.name).as_bytes());
        reply.integer((*arity).into());
        reply.set(0);
        (0..3).for_each(|_| reply.integer(0));
        (0..3).for_each(|_| reply.set(0));
        reply.array(0);
    }
}

fn docs(commands: &Commands, args: Args<'_>, reply: &mut Reply) {
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

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
fn list(commands: &Commands, args: Args<'_>, reply: &mut Reply) {
    let (kind, wanted) = (args.get(3).to_ascii_lowercase(), args.get(4));
    let filterby = args.get(2).eq_ignore_ascii_case(b"filterby");
    let names = commands.rows().iter().filter(|spec| match kind.as_slice() {
        b"pattern" => glob::matches(&wanted.to_ascii_lowercase(), spec.name.as_bytes()),
        b"aclcat" => categories(spec).1.iter().any(|category| category.as_bytes().get(1..) == Some(wanted)),
        kind => kind.is_empty(),
    });
    match (args.len(), kind.as_slice()) {
        (2, _) | (5, b"pattern" | b"aclcat" | b"module") if args.len() == 2 || filterby => {
            let names: Vec<_> = names.collect();
            reply.array(names.len());
            names.iter().for_each(|spec| reply.bulk(spec.name.as_bytes()));
        }
        _ => reply.error(SYNTAX_ERROR.to_string()),
    }
}

/// COMMAND GETKEYS command argument ...
fn get_keys(commands: &Commands, args: Args<'_>, reply: &mut Reply) {
    let Some((spec, arity)) = command_of(commands, args) else {
        return reply.error("ERR Invalid command specified");
    };
    let len = args.len() - 2;
    let (first, last, step) = spec.keys;
    if first == 0 || is_help(spec, args) {
        return reply.error("ERR The command has no key arguments");
    }
    if !accepts(arity, len) {
        return reply.error("ERR Invalid number of arguments specified for command");
    }
    let last = if last < 0 { len as i32 + last } else { last };
    let positions: Vec<usize> =
        (first..=last).step_by(step.unsigned_abs() as usize).map(|at| at as usize + 2).collect();
    reply.array(positions.len());
    positions.iter().for_each(|at| reply.bulk(args.get(*at)));
}

/// The command that GETKEYS is asked about, and its arity or that of its subcommand.
fn command_of(commands: &Commands, args: Args<'_>) -> Option<(&'static Spec, i32)> {
    let spec = commands.find(args.get(2))?;
    if spec.subcommands.is_empty() {
        return Some((spec, spec.arity));
    }
    let is_named = |(name, _): &&(&str, i32)| args.get(3).eq_ignore_ascii_case(name.as_bytes());
    spec.subcommands.iter().find(is_named).map(|(_, arity)| (spec, *arity))
}

/// Whether it is the subcommand without keys that every command with subcommands has.
fn is_help(spec: &Spec, args: Args<'_>) -> bool {
    !spec.subcommands.is_empty() && args.get(3).eq_ignore_ascii_case(b"help")
}
