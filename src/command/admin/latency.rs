//! LATENCY: latency histograms of commands, and latency spikes.

use crate::{
    command::{
        error::Error,
        flags::{ADMIN, Group, LOADING, NOSCRIPT, STALE},
        server_state::ServerState,
        session::Session,
        spec::{NO_KEY, Spec, cmd, help},
        state::stats::CommandTotal,
    },
    resp::{Args, Reply},
};

const LATENCY: &[Spec] = &[
    cmd!("latency|help", 2, NO_KEY, Commands(help), LOADING | STALE;
        Server, "2.8.13", "List the subcommands."),
    cmd!("latency|histogram", -2, NO_KEY, Blocking(histograms), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "7.0.0", "Return the cumulative distribution of latencies of commands."),
    cmd!("latency|history", 3, NO_KEY, Session(history), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "2.8.13", "Return the latency spikes of an event, with their times."),
    cmd!("latency|latest", 2, NO_KEY, Session(latest), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "2.8.13", "Return the latest latency spike of each event."),
    cmd!("latency|reset", -2, NO_KEY, Session(reset), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "2.8.13", "Forget the latency spikes of the events, or of all."),
];

pub(in crate::command) const COMMANDS: &[Spec] =
    &[Spec::parent("latency", LATENCY, 0).about(Group::Server, "2.8.13", "Tell how long commands took.")];

fn reset(_: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let is_meant =
        |event: &str| args.len() == 2 || args.from(2).any(|word| word.eq_ignore_ascii_case(event.as_bytes()));
    reply.integer(context.spikes.reset(is_meant) as i64);
}

fn integer(number: u64, reply: &mut Reply) {
    reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn history(_: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let spikes = context.spikes.series(args.get(2)).unwrap_or_default().spikes;
    reply.array(spikes.len());
    for spike in spikes {
        reply.array(2);
        integer(spike.time, reply);
        integer(spike.millis, reply);
    }
}

fn latest(_: &mut Session, context: &ServerState, _: Args<'_>, reply: &mut Reply) {
    let events = context.spikes.all();
    reply.array(events.len());
    for (event, series) in events {
        let Some(last) = series.spikes.back() else { continue };
        reply.array(4);
        reply.bulk(event.as_bytes());
        [last.time, last.millis, series.worst].into_iter().for_each(|number| integer(number, reply));
    }
}

/// Executes LATENCY HISTOGRAM [command ...]: cumulative numbers of calls by latency in microseconds. The name
/// of a command includes its subcommands; a command that is named twice is reported twice. A blocking thread executes
/// it, because a request may name millions of commands.
fn histograms(context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let used: Vec<_> = context.used_commands().filter(|(_, total)| total.calls > 0).collect();
    let is_meant = |name: &str, word: &[u8]| {
        let family = name.split('|').next().unwrap_or(name);
        [name, family].iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    // Nothing is kept for a word: a request may have millions of them.
    let wanted = |write: &mut dyn FnMut(&str, &CommandTotal)| {
        if args.len() == 2 {
            used.iter().for_each(|(name, total)| write(name, total));
        }
        for word in args.from(2) {
            used.iter().filter(|(name, _)| is_meant(name, word)).for_each(|(name, total)| write(name, total));
        }
    };
    let mut number = 0;
    wanted(&mut |_, _| number += 1);
    reply.map(number);
    wanted(&mut |name, total| {
        if !reply.has_overflowed() {
            reply.bulk(name.as_bytes());
            histogram(total, reply);
        }
    });
    Ok(())
}

/// Writes the histogram of a command. Bounds that add no calls to the previous bound are left out.
fn histogram(total: &CommandTotal, reply: &mut Reply) {
    let mut last = 0;
    let mut steps: Vec<(u64, u64)> = total.latency.cumulative_buckets().collect();
    steps.retain(|(_, count)| std::mem::replace(&mut last, *count) < *count);
    reply.map(2);
    reply.bulk(b"calls");
    integer(total.calls, reply);
    reply.bulk(b"histogram_usec");
    reply.map(steps.len());
    for (nanos, count) in steps {
        integer(bound(nanos), reply);
        integer(count, reply);
    }
}

/// Returns the bound, in microseconds, that Redis reports for a power of two in nanoseconds: the end of the
/// bucket that begins there, whose width is 1/128 of the power.
fn bound(nanos: u64) -> u64 {
    (nanos + nanos / 128 - 1) / 1000
}
