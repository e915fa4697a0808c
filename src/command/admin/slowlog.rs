//! SLOWLOG: the last commands that took long.

use crate::{
    command::{
        error::wrong_shape,
        flags::{ADMIN, Group, LOADING, STALE},
        server_state::ServerState,
        session::Session,
        spec::{NO_KEY, Spec, cmd, help},
    },
    resp::{Args, Reply, parse_integer},
};

const SLOWLOG: &[Spec] = &[
    cmd!("slowlog|get", -2, NO_KEY, Session(get), ADMIN | LOADING | STALE;
        Server, "2.2.12", "List the last entries: 10, or as many as given; -1 means all."),
    cmd!("slowlog|help", 2, NO_KEY, Commands(help), LOADING | STALE;
        Server, "6.2.0", "List the subcommands."),
    cmd!("slowlog|len", 2, NO_KEY, Session(len), ADMIN | LOADING | STALE;
        Server, "2.2.12", "Count the entries."),
    cmd!("slowlog|reset", 2, NO_KEY, Session(reset), ADMIN | LOADING | STALE;
        Server, "2.2.12", "Remove all entries."),
];

pub(in crate::command) const COMMANDS: &[Spec] = &[Spec::parent("slowlog", SLOWLOG, 0).about(
    Group::Server,
    "2.2.12",
    "List the last commands that took long.",
)];

fn get(_: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    if args.len() > 3 {
        return reply.error(wrong_shape("slowlog", args));
    }
    let Some(most) = count(args) else {
        return reply.error("ERR count should be greater than or equal to -1");
    };
    let entries = context.slow.entries(most);
    reply.array(entries.len());
    for slow in entries {
        reply.array(6);
        for number in [slow.id, slow.time, slow.micros] {
            reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
        }
        reply.array(slow.args.len());
        slow.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(slow.peer.as_bytes());
        reply.bulk(slow.name.as_bytes());
    }
}

fn len(_: &mut Session, context: &ServerState, _: Args<'_>, reply: &mut Reply) {
    reply.integer(context.slow.len() as i64);
}

fn reset(_: &mut Session, context: &ServerState, _: Args<'_>, reply: &mut Reply) {
    context.slow.reset();
    reply.ok();
}

/// Parses the number of entries for SLOWLOG GET: 10 if absent, all (`None`) for -1. Returns the outer `None` if
/// the argument is invalid.
fn count(args: Args<'_>) -> Option<Option<usize>> {
    if args.len() == 2 {
        return Some(Some(10));
    }
    match parse_integer(args.get(2))? {
        -1 => Some(None),
        count => usize::try_from(count).ok().map(Some),
    }
}
