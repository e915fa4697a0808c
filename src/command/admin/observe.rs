//! Commands to observe a server: SLOWLOG, MONITOR, TIME and LOLWUT; and WAIT and WAITAOF.

use crate::{
    command::{
        error::NOT_AN_INTEGER,
        help,
        refusal::{Subcommands, subcommand, wrong_shape},
        server_state::{REDIS_VERSION, ServerState, Session, WaitRequest},
        spec::Spec,
        state::stats::SlowLogEntry,
    },
    resp::{Args, Reply, parse_integer},
};
use std::{
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

const GROUP: &str = "server";

pub(in crate::command) const COMMANDS: &[Spec] = &[
    Spec::session("slowlog", -2, slowlog, (GROUP, "2.2.12"), "List the last commands that took long.")
        .with_subcommands(SLOWLOG),
    Spec::session("monitor", 1, monitor, (GROUP, "1.0.0"), "Show every request of all clients."),
    Spec::session("wait", 3, wait, ("generic", "3.0.0"), "Wait for replicas; there are none."),
    Spec::session("waitaof", 4, waitaof, ("generic", "7.2.0"), "Wait until the writes so far are synced."),
    Spec::session("time", 1, time, (GROUP, "2.6.0"), "Tell the server's time."),
    Spec::session("lolwut", -1, lolwut, (GROUP, "5.0.0"), "Tell the version of Redis."),
];

const SLOWLOG: Subcommands = &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)];

fn slowlog(_: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    match subcommand("slowlog", SLOWLOG, args, reply) {
        Some("get") if args.len() > 3 => reply.error(wrong_shape("slowlog", args)),
        Some("get") => match count(args) {
            Some(most) => slow_entries(&context.slow.entries(most), reply),
            None => reply.error("ERR count should be greater than or equal to -1"),
        },
        Some("help") => help::write("SLOWLOG", help::SLOWLOG, reply),
        Some("len") => reply.integer(context.slow.len() as i64),
        Some(_) => {
            context.slow.reset();
            reply.ok();
        }
        None => {}
    }
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

fn slow_entries(entries: &[SlowLogEntry], reply: &mut Reply) {
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

/// Executes MONITOR. A client already in MONITOR mode gets no second reply, as in Redis.
fn monitor(session: &mut Session, context: &ServerState, _: Args<'_>, reply: &mut Reply) {
    if session.client().is_executing() {
        return reply.error("ERR MONITOR isn't allowed for DENY BLOCKING client");
    }
    if session.feed.is_none() {
        session.feed = Some(context.monitors.add(session.client().clone()));
        session.client().monitors.store(true, Ordering::Relaxed);
        reply.ok();
    }
}

/// Executes WAIT replicas milliseconds. There are no replicas, so it only waits; 0 milliseconds, in Redis
/// without a limit, do not wait at all, because the wait would never end.
fn wait(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let Some(replicas) = parse_integer(args.get(1)) else { return reply.error(NOT_AN_INTEGER.to_string()) };
    let time = match milliseconds(args.get(2)) {
        Ok(time) => time,
        Err(error) => return reply.error(error),
    };
    // WAIT does not wait in a transaction, as in Redis.
    if replicas > 0 && !session.client().is_executing() {
        session.wait = Some(WaitRequest { time, sync: false, for_replicas: true });
    }
    reply.integer(0);
}

fn milliseconds(word: &[u8]) -> Result<Duration, &'static str> {
    let time = parse_integer(word).ok_or("ERR timeout is not an integer or out of range")?;
    u64::try_from(time).map(Duration::from_millis).map_err(|_| "ERR timeout is negative")
}

/// Executes WAITAOF local replicas milliseconds of Redis 7.2: replies with the numbers of servers that have
/// synced the client's writes. This server syncs at once, whatever the fsync policy.
fn waitaof(session: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    match waitaof_arguments(context, args) {
        Ok((local, replicas, time)) => {
            let is_synced = context.store.is_synced();
            let waits = local && !is_synced || replicas;
            if waits && !session.client().is_executing() {
                session.wait = Some(WaitRequest { time, sync: local && !is_synced, for_replicas: replicas });
            }
            WaitRequest::answer(is_synced, reply);
        }
        Err(error) => reply.error(error),
    }
}

/// Parses the arguments of WAITAOF: `true` if this server must have synced, `true` if replicas must have
/// synced, and the maximum time to wait.
fn waitaof_arguments(context: &ServerState, args: Args<'_>) -> Result<(bool, bool, Duration), &'static str> {
    let local = match parse_integer(args.get(1)).ok_or("ERR value is not an integer or out of range")? {
        number @ (0 | 1) => number == 1,
        _ => return Err("ERR value is out of range, value must between 0 and 1"),
    };
    let replicas = parse_integer(args.get(2)).filter(|number| *number >= 0);
    let replicas = replicas.ok_or("ERR value is out of range, must be positive")? > 0;
    let time = milliseconds(args.get(3))?;
    if local && context.store.is_memory_only() {
        return Err("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
    }
    Ok((local, replicas, time))
}

/// Executes TIME: replies with the Unix time in seconds and its microseconds.
fn time(_: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    reply.array(2);
    reply.bulk(now.as_secs().to_string().as_bytes());
    reply.bulk(now.subsec_micros().to_string().as_bytes());
}

/// Executes LOLWUT [VERSION version]: replies as Redis 7, which draws nothing.
fn lolwut(_: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    if args.len() >= 3 && args.get(1).eq_ignore_ascii_case(b"version") && parse_integer(args.get(2)).is_none()
    {
        return reply.error(NOT_AN_INTEGER.to_string());
    }
    reply.verbatim(&format!("Redis ver. {REDIS_VERSION}\n"));
}
