//! The server: what it is, how it is set, its files, its end.

use super::{
    context::{After, Context, REDIS_VERSION, Session},
    glob,
    refusal::{Subcommands, subcommand},
    spec::{Action, Commands, Error, NO_KEY, SYNTAX_ERROR, Spec},
};
use crate::{
    resp::{Args, Reply},
    store::{Keyspace, Space, Store},
};
use std::{
    fmt::Write,
    time::{Duration, SystemTime},
};

const GROUP: &str = "server";

pub(super) const COMMANDS: &[Spec] = &[
    Spec::query("info", -1, info, (GROUP, "1.0.0"), "Describe the server."),
    Spec::session("config", -2, config, (GROUP, "2.0.0"), "Read settings.").with_subcommands(CONFIG),
    Spec::new("command", -1, NO_KEY, Action::Table(command), (GROUP, "2.8.13"), "Describe the commands.")
        .with_subcommands(COMMAND),
    Spec::query("bgrewriteaof", 1, bgrewriteaof, (GROUP, "1.0.0"), "Shorten the append-only file."),
    Spec::query("debug", -2, debug, (GROUP, "1.0.0"), "Do the work that was put off.")
        .with_subcommands(DEBUG),
    Spec::session("shutdown", -1, shutdown, (GROUP, "1.0.0"), "Sync, close and stop the server."),
];

const CONFIG: Subcommands = &[("get", -3)];
const COMMAND: Subcommands = &[("count", 2), ("docs", -2), ("info", -2)];
const DEBUG: Subcommands = &[("settle", 2)];

fn bgrewriteaof(context: &Context, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    context.store.rewrite()?;
    reply.simple("Background append only file rewriting started");
    Ok(())
}

/// DEBUG SETTLE answers when nothing that was written is left to be flushed, compacted or synced.
fn debug(context: &Context, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    if subcommand("debug", DEBUG, args, reply).is_some() {
        context.store.settle()?;
        reply.ok();
    }
    Ok(())
}

/// SAVE and NOSAVE ask about snapshots, NOW and FORCE about replicas; there are neither.
fn shutdown(session: &mut Session, _: &Context, args: Args<'_>, reply: &mut Reply) {
    let known = |word: &[u8]| {
        ["save", "nosave", "now", "force"].iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()))
    };
    if args.from(1).all(known) {
        session.after = After::Shutdown;
    } else {
        reply.error(SYNTAX_ERROR.to_string());
    }
}

fn config(_: &mut Session, context: &Context, args: Args<'_>, reply: &mut Reply) {
    if subcommand("config", CONFIG, args, reply).is_none() {
        return;
    }
    let wanted = |name: &str| {
        args.from(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let found: Vec<_> = context.settings.iter().filter(|(name, _)| wanted(name)).collect();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

fn command(commands: &Commands, args: Args<'_>, reply: &mut Reply) {
    if args.len() == 1 {
        return describe_all(commands, reply);
    }
    match subcommand("command", COMMAND, args, reply) {
        Some("count") => reply.integer(commands.rows().len() as i64),
        Some("docs") => docs(commands, args, reply),
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

/// The ten fields of COMMAND INFO.
fn describe(spec: &Spec, reply: &mut Reply) {
    let (flag, categories): (_, &[&str]) = match spec.action {
        Action::Read(_) => (Some("readonly"), &["@read", "@keyspace"]),
        Action::Write(_) => (Some("write"), &["@write", "@keyspace"]),
        Action::Session(_) => (None, &["@connection"]),
        Action::Keys(_) => (Some("readonly"), &["@keyspace", "@read", "@slow"]),
        Action::Transaction(_) => (None, &["@transaction"]),
        Action::Query(_) | Action::Table(_) => (None, &["@slow"]),
    };
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

type Section = (&'static str, fn(&Context, &mut String) -> Result<(), Error>);

const SECTIONS: &[Section] = &[
    ("Server", server_section),
    ("Clients", clients_section),
    ("Memory", memory_section),
    ("Persistence", persistence_section),
    ("Stats", stats_section),
    ("Replication", |_, text| line(text, "role", "master")),
    ("Keyspace", keyspace_section),
];

fn info(context: &Context, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let everything = |word: &[u8]| {
        ["all", "everything", "default"].iter().any(|all| word.eq_ignore_ascii_case(all.as_bytes()))
    };
    let mut text = String::new();
    for (name, write) in SECTIONS {
        let named = |word: &[u8]| word.eq_ignore_ascii_case(name.as_bytes()) || everything(word);
        if args.len() == 1 || args.from(1).any(named) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {name}\r\n"));
            write(context, &mut text)?;
        }
    }
    reply.verbatim(&text);
    Ok(())
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) -> Result<(), Error> {
    // Writing to a String cannot fail.
    let _ = write!(text, "{name}:{value}\r\n");
    Ok(())
}

fn server_section(context: &Context, text: &mut String) -> Result<(), Error> {
    let uptime = context.started.elapsed();
    line(text, "redis_version", REDIS_VERSION)?;
    line(text, "redis_mode", "standalone")?;
    line(text, "kvbench_version", env!("CARGO_PKG_VERSION"))?;
    line(text, "store", context.store.info().name)?;
    line(text, "store_library", context.store.info().library)?;
    line(text, "os", std::env::consts::OS)?;
    line(text, "arch_bits", usize::BITS)?;
    line(text, "process_id", std::process::id())?;
    line(text, "tcp_port", context.port)?;
    line(text, "uptime_in_seconds", uptime.as_secs())?;
    line(text, "uptime_in_days", uptime.as_secs() / Duration::from_hours(24).as_secs())
}

fn clients_section(context: &Context, text: &mut String) -> Result<(), Error> {
    line(text, "connected_clients", context.connections())?;
    line(text, "blocked_clients", 0)
}

fn memory_section(_: &Context, text: &mut String) -> Result<(), Error> {
    // Linux tells; elsewhere the field is absent rather than guessed.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (field, name) in
        [("RssAnon:", "used_memory"), ("VmRSS:", "used_memory_rss"), ("VmHWM:", "used_memory_peak")]
    {
        let kib = status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
        if let Some(kib) = kib.and_then(|kib| kib.parse::<u64>().ok()) {
            line(text, name, kib * 1024)?;
        }
    }
    Ok(())
}

fn persistence_section(context: &Context, text: &mut String) -> Result<(), Error> {
    let store: &Store = &context.store;
    line(text, "loading", 0)?;
    line(text, "fsync", store.fsync())?;
    line(text, "writes_refused", u8::from(store.fault().is_some()))?;
    if let Some(state) = store.sync_state() {
        line(text, "oldest_unsynced_ms", state.oldest_unsynced.unwrap_or_default().as_millis())?;
        let last = state.last_sync.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        line(text, "last_sync_time", last.unwrap_or_default().as_secs())?;
        line(text, "writes_delayed_by_sync", state.delays)?;
    }
    line(text, "disk_bytes", store.disk_size()?)
}

fn stats_section(context: &Context, text: &mut String) -> Result<(), Error> {
    line(text, "total_connections_received", context.total(|stats| &stats.accepted))?;
    line(text, "total_commands_processed", context.total(|stats| &stats.commands))?;
    line(text, "total_net_input_bytes", context.total(|stats| &stats.received))?;
    line(text, "total_net_output_bytes", context.total(|stats| &stats.sent))
}

/// Counting is a scan on some engines, and clients ask INFO before they are ready: only engines that
/// know the number tell it.
fn keyspace_section(context: &Context, text: &mut String) -> Result<(), Error> {
    if !context.store.info().constant_count {
        return Ok(());
    }
    match context.store.view(Space::default()).count()? {
        0 => Ok(()),
        keys => line(text, "db0", format_args!("keys={keys},expires=0,avg_ttl=0")),
    }
}
