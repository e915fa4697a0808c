//! Commands about the server as a whole: MONITOR, TIME, ROLE, WAIT and WAITAOF, MEMORY, DEBUG, BGREWRITEAOF, SHUTDOWN.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, SYNTAX_ERROR},
        flags::{
            ADMIN, ALLOW_BUSY, FAST, Group, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, READONLY, STALE,
        },
        process_usage::{self, Memory},
        server_state::{REDIS_VERSION, ServerState},
        session::{AfterReply, Session, WaitRequest},
        spec::{NO_KEY, SECOND, Spec, cmd, help},
    },
    resp::{Args, Reply, parse_integer},
    store::{ExpirationClock, Keyspace},
};
use std::{
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

const DEBUG: &[Spec] = &[
    cmd!("debug|help", 2, NO_KEY, Commands(help), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "1.0.0", "List the subcommands."),
    cmd!("debug|settle", 2, NO_KEY, Blocking(settle), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "1.0.0", "Wait until no write is left to be flushed, compacted or synced."),
    cmd!("debug|sleep", 3, NO_KEY, Session(sleep), ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI;
        Server, "1.0.0", "Delay this connection for some seconds, with decimals."),
];

const MEMORY: &[Spec] = &[
    cmd!("memory|help", 2, NO_KEY, Commands(help), LOADING | STALE; Server, "4.0.0", "List the subcommands."),
    cmd!("memory|stats", 2, NO_KEY, Blocking(memory_stats), 0;
        Server, "4.0.0", "Return the memory that the server uses."),
    cmd!("memory|usage", -3, SECOND, Keyspace(memory_usage), READONLY;
        Server, "4.0.0", "Return the length of a key and its value together."),
];

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("bgrewriteaof", 1, NO_KEY, Blocking(bgrewriteaof), ADMIN | NOSCRIPT | NO_ASYNC_LOADING;
        Server, "1.0.0", "Rewrite the append-only file in the background."),
    Spec::parent("debug", DEBUG, ADMIN | NOSCRIPT | LOADING | STALE).about(
        Group::Server,
        "1.0.0",
        "Finish all background work (SETTLE), or wait (SLEEP).",
    ),
    cmd!("shutdown", -1, NO_KEY, Session(shutdown), ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY;
        Server, "1.0.0", "Sync, close and stop the server."),
    cmd!("monitor", 1, NO_KEY, Session(monitor), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "1.0.0", "Show every request of all clients."),
    cmd!("wait", 3, NO_KEY, Session(wait), NOSCRIPT;
        Generic, "3.0.0", "Wait for replicas; there are none.")
    .in_categories("connection"),
    cmd!("waitaof", 4, NO_KEY, Session(waitaof), NOSCRIPT;
        Generic, "7.2.0", "Wait until the writes so far are synced.")
    .in_categories("connection"),
    cmd!("time", 1, NO_KEY, Session(time), LOADING | STALE | FAST;
        Server, "2.6.0", "Tell the server's time."),
    cmd!("role", 1, NO_KEY, Session(role), NOSCRIPT | LOADING | STALE | FAST;
        Server, "2.8.12", "Tell that this server is a master without replicas.")
    .in_categories("admin dangerous"),
    cmd!("lolwut", -1, NO_KEY, Session(lolwut), READONLY | FAST;
        Server, "5.0.0", "Tell the version of Redis."),
    Spec::parent("memory", MEMORY, 0).about(
        Group::Server,
        "4.0.0",
        "Tell the length of a key and its value together, or what the server takes.",
    ),
];

fn bgrewriteaof(context: &ServerState, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    context.store.rewrite()?;
    reply.simple("Background append only file rewriting started");
    Ok(())
}

fn settle(context: &ServerState, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    context.store.settle()?;
    reply.ok();
    Ok(())
}

/// Executes `DEBUG SLEEP seconds`: the connection delays the reply. In a transaction it is refused.
fn sleep(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let seconds = str::from_utf8(args.get(2)).ok().and_then(|text| text.parse().ok());
    session.sleep = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match session.sleep {
        Some(_) => reply.ok(),
        None => reply.error("ERR value is not a valid float"),
    }
}

/// Executes SHUTDOWN. SAVE and NOSAVE are about snapshot files, NOW and FORCE about replicas; kvbench has
/// neither. ABORT is refused: no shutdown takes long enough to be stopped.
fn shutdown(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let has = |name: &str| args.from(1).any(|word| is(word, name));
    let aborts = |word: &[u8]| is(word, "abort");
    let known = |word: &[u8]| ["save", "nosave", "now", "force"].iter().any(|name| is(word, name));
    let fits = if has("abort") { args.from(1).all(aborts) } else { args.from(1).all(known) };
    match fits && !(has("save") && has("nosave")) {
        false => reply.error(SYNTAX_ERROR.to_string()),
        true if has("abort") => reply.error("ERR No shutdown in progress."),
        true => session.after = AfterReply::Shutdown,
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

/// Executes `WAIT replicas milliseconds`, with the reply 0. There are no replicas, so it only waits: not at all unless
/// `replicas` is above 0, in a transaction, or for 0 milliseconds, which in Redis means a wait without a limit.
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
    let time = u64::try_from(time).map_err(|_| "ERR timeout is negative")?;
    // Redis' deadline is a signed number of milliseconds since 1970.
    match time <= i64::MAX.cast_unsigned() - ExpirationClock::default().now() {
        true => Ok(Duration::from_millis(time)),
        false => Err("ERR timeout is out of range"),
    }
}

/// Executes `WAITAOF local replicas milliseconds` of Redis 7.2. The reply has two numbers: 1 if this server has synced
/// all acknowledged writes, otherwise 0; and 0, because there are no replicas. If `local` is 1 and some writes are not
/// synced, this sets [`Session::wait`]: the connection then syncs at once, whatever the fsync policy, and replaces the
/// reply. If `replicas` is above 0, the connection waits for all of `milliseconds`. In a transaction it neither syncs
/// nor waits.
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

/// Executes ROLE: replies as a master that has no replicas.
fn role(_: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    reply.array(3);
    reply.bulk(b"master");
    // Replication offset: the number of bytes sent to replicas.
    reply.integer(0);
    reply.array(0);
}

/// Executes LOLWUT [VERSION version]: replies as Redis 7, which draws nothing.
fn lolwut(_: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    if args.len() >= 3 && args.get(1).eq_ignore_ascii_case(b"version") && parse_integer(args.get(2)).is_none()
    {
        return reply.error(NOT_AN_INTEGER.to_string());
    }
    reply.verbatim(&format!("Redis ver. {REDIS_VERSION}\n"));
}

/// Executes MEMORY USAGE key [SAMPLES count ...]. The size is that of key and value, because no engine reports
/// its overhead per key.
fn memory_usage(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let mut words = args.from(3);
    while let Some(word) = words.next() {
        let count = words.next().filter(|_| word.eq_ignore_ascii_case(b"samples")).ok_or(SYNTAX_ERROR)?;
        if parse_integer(count).ok_or(NOT_AN_INTEGER)? < 0 {
            return Err(SYNTAX_ERROR);
        }
    }
    let key = args.get(2);
    keyspace.get_many(&[key], &mut |_, entry| match entry {
        Some(entry) => reply.integer((key.len() + entry.value.len()) as i64),
        None => reply.null(),
    })?;
    Ok(())
}

/// Executes MEMORY STATS: replies with the fields that follow from the operating system's values.
fn memory_stats(_: &ServerState, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let Memory { used, resident, peak, .. } = process_usage::memory();
    let part =
        |part: Option<u64>, of: Option<u64>| part.zip(of).map(|(part, of)| part as f64 / of.max(1) as f64);
    let bytes = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("fragmentation.bytes", resident.zip(used).map(|(resident, used)| resident.saturating_sub(used))),
    ];
    let parts = [
        ("peak.percentage", part(used, peak).map(|part| part * 100.0)),
        ("fragmentation", part(resident, used)),
    ];
    let bytes = bytes.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
    reply.map(bytes.clone().count() + parts.clone().count());
    for (name, bytes) in bytes {
        reply.bulk(name.as_bytes());
        reply.integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    for (name, part) in parts {
        reply.bulk(name.as_bytes());
        reply.double(part);
    }
    Ok(())
}
