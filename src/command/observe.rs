//! Looking at a server at work: SLOWLOG, LATENCY, MONITOR; and waiting.

use super::{
    context::{Context, REDIS_VERSION, Session},
    refusal::{Subcommands, subcommand},
    spec::{NOT_AN_INTEGER, Spec},
    stats::Slow,
};
use crate::resp::{Args, Reply, parse_integer};
use std::{
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

const GROUP: &str = "server";

pub(super) const COMMANDS: &[Spec] = &[
    Spec::session("slowlog", -2, slowlog, (GROUP, "2.2.12"), "List the last commands that took long.")
        .with_subcommands(SLOWLOG),
    Spec::session("latency", -2, latency, (GROUP, "2.8.13"), "Tell how long commands took.")
        .with_subcommands(LATENCY),
    Spec::session("monitor", 1, monitor, (GROUP, "1.0.0"), "Show what all clients ask."),
    Spec::session("wait", 3, wait, ("generic", "3.0.0"), "Wait for replicas; there are none."),
    Spec::session("time", 1, time, (GROUP, "2.6.0"), "Tell the server's time."),
    Spec::session("lolwut", -1, lolwut, (GROUP, "5.0.0"), "Tell the version of Redis."),
];

const SLOWLOG: Subcommands = &[("get", -2), ("len", 2), ("reset", 2)];
const LATENCY: Subcommands = &[("histogram", -2), ("history", 3), ("latest", 2), ("reset", -2)];

fn slowlog(_: &mut Session, context: &Context, args: Args<'_>, reply: &mut Reply) {
    match subcommand("slowlog", SLOWLOG, args, reply) {
        Some("get") => match count(args) {
            Some(most) => slow_entries(&context.slow.entries(most), reply),
            None => reply.error("ERR count should be greater than or equal to -1"),
        },
        Some("len") => reply.integer(context.slow.len() as i64),
        Some(_) => {
            context.slow.reset();
            reply.ok();
        }
        None => {}
    }
}

/// How many entries are wanted, 10 unless it is said, all for -1; `None` for what is no such number.
fn count(args: Args<'_>) -> Option<Option<usize>> {
    match args.len() {
        2 => Some(Some(10)),
        3 => match parse_integer(args.get(2))? {
            -1 => Some(None),
            count => usize::try_from(count).ok().map(Some),
        },
        _ => None,
    }
}

fn slow_entries(entries: &[Slow], reply: &mut Reply) {
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

/// Redis' latency monitor is off unless it is switched on, and here it cannot be: there are no events.
fn latency(_: &mut Session, context: &Context, args: Args<'_>, reply: &mut Reply) {
    match subcommand("latency", LATENCY, args, reply) {
        Some("histogram") => histograms(context, args, reply),
        Some("reset") => reply.integer(0),
        Some(_) => reply.array(0),
        None => {}
    }
}

/// LATENCY HISTOGRAM [command ...]: for powers of two, in microseconds, how many calls took no longer.
fn histograms(context: &Context, args: Args<'_>, reply: &mut Reply) {
    // With `client`, its subcommands are wanted as well.
    let wanted = |name: &str| {
        let is_meant = |word: &[u8]| {
            let family = name.split('|').next().unwrap_or(name);
            [name, family].iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        args.len() == 2 || args.from(2).any(is_meant)
    };
    let names = context.names.iter().enumerate().filter(|(_, name)| wanted(name));
    let used = names.filter_map(|(index, name)| Some((name, context.command_total(index)?)));
    let used: Vec<_> = used.filter(|(_, total)| total.calls > 0).collect();
    reply.map(used.len());
    for (name, total) in used {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(i64::try_from(total.calls).unwrap_or(i64::MAX));
        reply.bulk(b"histogram_usec");
        let mut last = 0;
        let mut steps: Vec<(u64, u64)> = total.latency.by_power().collect();
        steps.retain(|(_, count)| std::mem::replace(&mut last, *count) < *count);
        reply.map(steps.len());
        for (nanos, count) in steps {
            reply.integer((nanos / 1000) as i64);
            reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}

fn monitor(session: &mut Session, context: &Context, _: Args<'_>, reply: &mut Reply) {
    if session.client().is_executing() {
        return reply.error("ERR MONITOR isn't allowed for DENY BLOCKING client");
    }
    if session.feed.is_none() {
        session.feed = Some(context.monitors.add(session.client().clone()));
        session.client().monitors.store(true, Ordering::Relaxed);
    }
    reply.ok();
}

/// WAIT replicas milliseconds. Without replicas it can only wait; 0 milliseconds are not for ever here, or the client
/// would never come back.
fn wait(session: &mut Session, _: &Context, args: Args<'_>, reply: &mut Reply) {
    let Some(replicas) = parse_integer(args.get(1)) else { return reply.error(NOT_AN_INTEGER.to_string()) };
    match parse_integer(args.get(2)).map(u64::try_from) {
        None => return reply.error("ERR timeout is not an integer or out of range"),
        Some(Err(_)) => return reply.error("ERR timeout is negative"),
        // A transaction does not wait, as in Redis.
        Some(Ok(time)) if replicas > 0 && !session.client().is_executing() => {
            session.wait = Some(Duration::from_millis(time))
        }
        Some(Ok(_)) => {}
    }
    reply.integer(0);
}

/// Seconds since 1970, and microseconds.
fn time(_: &mut Session, _: &Context, _: Args<'_>, reply: &mut Reply) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    reply.array(2);
    reply.bulk(now.as_secs().to_string().as_bytes());
    reply.bulk(now.subsec_micros().to_string().as_bytes());
}

/// LOLWUT [VERSION version]: as Redis 7 answers, which draws nothing.
fn lolwut(_: &mut Session, _: &Context, args: Args<'_>, reply: &mut Reply) {
    if args.len() >= 3 && args.get(1).eq_ignore_ascii_case(b"version") && parse_integer(args.get(2)).is_none()
    {
        return reply.error(NOT_AN_INTEGER.to_string());
    }
    reply.verbatim(&format!("Redis ver. {REDIS_VERSION}\n"));
}
