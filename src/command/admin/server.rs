//! Commands about the server: information, settings, persistence, shutdown.

use crate::{
    command::{
        error::{Error, SYNTAX_ERROR},
        help,
        refusal::{Subcommands, subcommand},
        server_state::{AfterReply, ServerState, Session},
        spec::Spec,
    },
    resp::{Args, Reply},
};
use std::{thread, time::Duration};

const GROUP: &str = "server";

pub(in crate::command) const COMMANDS: &[Spec] = &[
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

const DEBUG: Subcommands = &[("help", 2), ("settle", 2), ("sleep", 3)];

fn bgrewriteaof(context: &ServerState, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    context.store.rewrite()?;
    reply.simple("Background append only file rewriting started");
    Ok(())
}

/// Executes DEBUG. DEBUG SETTLE replies when no write is left to be flushed, compacted or synced. DEBUG SLEEP
/// seconds delays only its own connection.
fn debug(context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
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
