//! LATENCY: latency histograms of commands, and latency spikes.

use crate::{
    command::{
        help,
        refusal::{Subcommands, c_string, subcommand},
        server_state::{ServerState, Session},
        spec::Spec,
        state::stats::{CommandTotal, EventHistory, LatencySample, event},
        traits::Traits,
    },
    resp::{Args, Reply},
};
use std::{fmt::Write, sync::atomic::Ordering, time::SystemTime};

pub(in crate::command) const COMMANDS: &[Spec] =
    &[Spec::session("latency", -2, latency, ("server", "2.8.13"), "Tell how long commands took.")
        .with_subcommands(LATENCY)];

const LATENCY: Subcommands = &[
    ("doctor", 2),
    ("graph", 3),
    ("help", 2),
    ("histogram", -2),
    ("history", 3),
    ("latest", 2),
    ("reset", -2),
];

fn latency(_: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    match subcommand("latency", LATENCY, args, reply) {
        Some("doctor") => reply.verbatim(&doctor(context)),
        Some("graph") => graph(context, args.get(2), reply),
        Some("help") => help::write("LATENCY", help::LATENCY, reply),
        Some("histogram") => histograms(context, args, reply),
        Some("history") => history(context, args.get(2), reply),
        Some("latest") => latest(context, reply),
        Some(_) => {
            let is_meant = |event: &str| {
                args.len() == 2 || args.from(2).any(|word| word.eq_ignore_ascii_case(event.as_bytes()))
            };
            reply.integer(context.spikes.reset(is_meant) as i64);
        }
        None => {}
    }
}

fn integer(number: u64, reply: &mut Reply) {
    reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn history(context: &ServerState, event: &[u8], reply: &mut Reply) {
    let spikes = context.spikes.series(event).unwrap_or_default().spikes;
    reply.array(spikes.len());
    for spike in spikes {
        reply.array(2);
        integer(spike.time, reply);
        integer(spike.millis, reply);
    }
}

fn latest(context: &ServerState, reply: &mut Reply) {
    let events = context.spikes.all();
    reply.array(events.len());
    for (event, series) in events {
        let Some(last) = series.spikes.back() else { continue };
        reply.array(4);
        reply.bulk(event.as_bytes());
        [last.time, last.millis, series.worst].into_iter().for_each(|number| integer(number, reply));
    }
}

/// Returns the current Unix time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn graph(context: &ServerState, event: &[u8], reply: &mut Reply) {
    let Some(series) = context.spikes.series(event) else {
        return reply.error([b"ERR No samples available for event '", c_string(event), b"'"].concat());
    };
    let event = String::from_utf8_lossy(event);
    reply.verbatim(&drawn(&event, &series, now()));
}

/// Maximum number of characters in a line.
const COLUMNS: usize = 80;

/// Returns Redis' graph of an event: bars, and below each bar its age.
fn drawn(event: &str, series: &EventHistory, now: u64) -> String {
    let spikes: Vec<LatencySample> = series.spikes.iter().copied().collect();
    let (low, high) = range(&spikes);
    let worst = series.worst;
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {worst} ms)\n");
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    for (index, part) in spikes.chunks(COLUMNS).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        draw_bars(part, (low, high), &mut text);
        draw_ages(part, now, &mut text);
    }
    text
}

fn range(spikes: &[LatencySample]) -> (u64, u64) {
    let millis = || spikes.iter().map(|spike| spike.millis);
    (millis().min().unwrap_or_default(), millis().max().unwrap_or_default())
}

fn draw_bars(spikes: &[LatencySample], (low, high): (u64, u64), text: &mut String) {
    const ROWS: u64 = 4;
    /// Characters for the top of a bar, by the filled share of its row.
    const TOPS: [char; 3] = ['_', 'o', '#'];
    let steps = ROWS * TOPS.len() as u64;
    for row in (0..ROWS).rev() {
        text.extend(spikes.iter().map(|spike| {
            let step = ((spike.millis - low) * steps / (high - low).max(1)).min(steps - 1);
            match step.checked_sub(row * TOPS.len() as u64) {
                None => ' ',
                Some(rest) => TOPS.get(rest as usize).copied().unwrap_or('|'),
            }
        }));
        text.push('\n');
    }
}

/// Writes the age of each spike from top to bottom, below an empty line.
fn draw_ages(spikes: &[LatencySample], now: u64, text: &mut String) {
    let ages: Vec<String> = spikes.iter().map(|spike| age(now.saturating_sub(spike.time))).collect();
    text.push_str(&" ".repeat(spikes.len()));
    text.push('\n');
    for line in 0..ages.iter().map(String::len).max().unwrap_or_default() {
        text.extend(ages.iter().map(|age| age.chars().nth(line).unwrap_or(' ')));
        text.push('\n');
    }
}

fn age(seconds: u64) -> String {
    let (number, unit) = match seconds {
        ..60 => (seconds, 's'),
        60..3600 => (seconds / 60, 'm'),
        3600..86_400 => (seconds / 3600, 'h'),
        _ => (seconds / 86_400, 'd'),
    };
    format!("{number}{unit}")
}

const DISABLED: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \
    \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep space \
    mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n";
const NOTHING: &str = "Dave, no latency spike was observed during the lifetime of this Redis instance, not in the slightest \
    bit. I honestly think you ought to sit down calmly, take a stress pill, and think things over.\n";
const SPIKES: &str = "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about it, do you \
    Dave?\n\n";

/// Returns the report of LATENCY DOCTOR: Redis' text with kvbench's advice.
fn doctor(context: &ServerState) -> String {
    let events = context.spikes.all();
    if events.is_empty() {
        let is_off = context.spikes.threshold.load(Ordering::Relaxed) == 0;
        return if is_off { DISABLED } else { NOTHING }.into();
    }
    let mut text = String::from(SPIKES);
    for (index, (event, series)) in events.iter().enumerate() {
        describe(index + 1, event, series, &mut text);
    }
    text.push_str("\nI have a few advices for you:\n\n");
    events.iter().for_each(|(event, _)| text.push_str(advice(event)));
    text
}

fn describe(number: usize, event: &str, series: &EventHistory, text: &mut String) {
    let count = series.spikes.len() as u64;
    let millis = || series.spikes.iter().map(|spike| spike.millis);
    let mean = millis().sum::<u64>() / count.max(1);
    let deviation = millis().map(|millis| millis.abs_diff(mean)).sum::<u64>() / count.max(1);
    let since = series.spikes.front().map_or(0, |first| now().saturating_sub(first.time)).max(1);
    let period = since as f64 / count.max(1) as f64;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{number}. {event}: {count} latency spikes (average {mean}ms, mean deviation {deviation}ms, period {period:.2} \
        sec). Worst all time event {}ms.",
        series.worst
    );
}

/// Returns advice for an event.
fn advice(event: &str) -> &'static str {
    match event {
        event::ALWAYS => {
            "- Each commit waits for its sync. On a slow disk, everysec loses about a second at a power cut, and \
            nobody waits: CONFIG SET appendfsync everysec.\n"
        }
        event::WRITE => {
            "- The engine took long to take a commit: INFO persistence and --metrics show how large commits are, \
            and whether the engine held up writes.\n"
        }
        event::SYNC => {
            "- The sync of each second takes long. Writes wait for it when it is older than --max-unsynced. Is \
            something else using this disk?\n"
        }
        event::EXPIRE => "- Many keys expire at the same time. Spread their deadlines.\n",
        _ => {
            "- SLOWLOG GET shows which commands were slow, with their arguments: CONFIG SET \
            slowlog-log-slower-than says from which time on.\n"
        }
    }
}

/// Returns the name of the event for a slow command: Redis distinguishes commands that should always be fast.
pub fn of_command(name: &str) -> &'static str {
    if Traits::of(name).has("fast") { "fast-command" } else { "command" }
}

/// Executes LATENCY HISTOGRAM [command ...]: cumulative numbers of calls by latency in microseconds. The name
/// of a command includes its subcommands; a command that is named twice is reported twice.
fn histograms(context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let names = || context.names.iter().enumerate();
    let mut wanted: Vec<(usize, &String)> = names().collect();
    if args.len() > 2 {
        let is_meant = |name: &str, word: &[u8]| {
            let family = name.split('|').next().unwrap_or(name);
            [name, family].iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        let meant = |word| names().filter(move |(_, name)| is_meant(name.as_str(), word));
        wanted = args.from(2).flat_map(meant).collect();
    }
    let used = wanted.into_iter().filter_map(|(index, name)| Some((name, context.command_total(index)?)));
    let used: Vec<_> = used.filter(|(_, total)| total.calls > 0).collect();
    reply.map(used.len());
    for (name, total) in used {
        reply.bulk(name.as_bytes());
        histogram(&total, reply);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected graph: output of redis-server 7.0.15.
    #[test]
    fn a_graph_equals_that_of_redis() {
        let spikes = [(568, 100), (569, 231), (570, 300), (572, 400), (573, 103)];
        let spikes = spikes.map(|(time, millis)| LatencySample { time, millis });
        let series = EventHistory { spikes: spikes.into(), worst: 400 };
        let head = "command - high 400 ms, low 100 ms (all time high 400 ms)";
        let bars = "   # \n  #| \n #|| \n_|||_\n     \n65421\nsssss";
        assert_eq!(drawn("command", &series, 574), format!("{head}\n{}\n{bars}\n", "-".repeat(80)));
    }
}
