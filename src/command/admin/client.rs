//! CLIENT: information about connections, and their control.

use crate::{
    command::{
        error::{NOT_AN_INTEGER, SYNTAX_ERROR},
        help,
        refusal::{Subcommands, c_string, subcommand, wrong_shape},
        server_state::{AfterReply, ReplyMode, ServerState, Session},
        spec::Spec,
        state::client_registry::Client,
        tracking::tracking,
    },
    resp::{Args, Reply, parse_integer},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

pub(in crate::command) const COMMANDS: &[Spec] = &[Spec::session(
    "client",
    -2,
    client,
    ("connection", "2.4.0"),
    "Name, list, pause and close connections.",
)
.with_subcommands(CLIENT)];

const CLIENT: Subcommands = &[
    ("caching", 3),
    ("getname", 2),
    ("getredir", 2),
    ("help", 2),
    ("id", 2),
    ("info", 2),
    ("kill", -3),
    ("list", -2),
    ("no-evict", 3),
    ("no-touch", 3),
    ("pause", -3),
    ("reply", 3),
    ("setinfo", 4),
    ("setname", 3),
    ("tracking", -3),
    ("trackinginfo", 2),
    ("unblock", -3),
    ("unpause", 2),
];

/// Result of a subcommand; the error is the text of the error reply.
type Outcome = Result<(), Vec<u8>>;

fn client(session: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let Some(subcommand) = subcommand("client", CLIENT, args, reply) else { return };
    let outcome = match subcommand {
        "help" => {
            help::write("CLIENT", help::CLIENT, reply);
            Ok(())
        }
        "kill" => kill(session, context, args, reply),
        "list" => list(session, context, args, reply),
        "pause" => pause(context, args, reply),
        "unblock" => unblock(args, reply),
        "unpause" => {
            context.pause.end();
            context.clients.wake();
            reply.ok();
            Ok(())
        }
        "caching" | "getredir" | "tracking" | "trackinginfo" => tracking(context, subcommand, args, reply),
        _ => own_client(subcommand, session, args, reply),
    };
    if let Err(error) = outcome {
        reply.error(error);
    }
}

/// Executes a subcommand that reads or changes the client's own connection.
fn own_client(subcommand: &str, session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let client = session.client();
    match subcommand {
        "getname" => {
            let name = client.labels().name.clone();
            if name.is_empty() { reply.null() } else { reply.bulk(name.as_bytes()) }
        }
        "id" => reply.integer(client.id as i64),
        "info" => {
            client.set_protocol(reply.protocol());
            reply.verbatim(&format!("{}\n", client.describe("client|info")));
        }
        "reply" => return replies(session, args, reply),
        "setname" => {
            session.set_name(args.get(2))?;
            reply.ok();
        }
        "setinfo" => {
            session.set_info(args.get(2), args.get(3))?;
            reply.ok();
        }
        _ => {
            let on = switch(args.get(2))?;
            // NO-TOUCH has no effect: the access time of keys is not recorded.
            if subcommand == "no-evict" {
                client.no_evict.store(on, Ordering::Relaxed);
            }
            reply.ok();
        }
    }
    Ok(())
}

fn switch(word: &[u8]) -> Result<bool, Vec<u8>> {
    match word {
        word if word.eq_ignore_ascii_case(b"on") => Ok(true),
        word if word.eq_ignore_ascii_case(b"off") => Ok(false),
        _ => Err(syntax_error()),
    }
}

fn syntax_error() -> Vec<u8> {
    SYNTAX_ERROR.to_string().into()
}

/// Executes CLIENT REPLY; only CLIENT REPLY ON gets a reply.
fn replies(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let word = args.get(2).to_ascii_lowercase();
    session.replies = match (&word[..], session.replies) {
        (b"on", _) => {
            reply.ok();
            ReplyMode::On
        }
        (b"off", _) | (b"skip", ReplyMode::Off) => ReplyMode::Off,
        (b"skip", _) => ReplyMode::SkipNext,
        _ => return Err(syntax_error()),
    };
    Ok(())
}

/// Executes CLIENT PAUSE milliseconds [WRITE|ALL].
fn pause(context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let all = match (args.len(), args.get(3).to_ascii_lowercase().as_slice()) {
        (3, _) | (4, b"all") => true,
        (4, b"write") => false,
        (4, _) => return Err(b"ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(wrong_shape("client", args)),
    };
    let time = match parse_integer(args.get(2)).map(u64::try_from) {
        Some(Ok(time)) => time,
        Some(Err(_)) => return Err(b"ERR timeout is negative".into()),
        None => return Err(b"ERR timeout is not an integer or out of range".into()),
    };
    context.pause.begin(if is_possible(time) { Duration::from_millis(time) } else { Duration::ZERO }, all);
    reply.ok();
    Ok(())
}

/// Returns `true` if the end of the pause fits into Redis' clock, signed 64-bit milliseconds since 1970.
/// Otherwise the sum overflows in Redis, and the pause ends at once.
fn is_possible(millis: u64) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    now + u128::from(millis) <= i64::MAX as u128
}

/// Executes CLIENT UNBLOCK. No command blocks its client, so no client is ever unblocked.
fn unblock(args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_reason = |word: &[u8]| [&b"timeout"[..], b"error"].iter().any(|w| word.eq_ignore_ascii_case(w));
    if args.len() > 4 {
        return Err(wrong_shape("client", args));
    }
    if args.len() == 4 && !is_reason(args.get(3)) {
        return Err(b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into());
    }
    parse_integer(args.get(2)).ok_or_else(|| NOT_AN_INTEGER.to_string())?;
    reply.integer(0);
    Ok(())
}

/// Returns `true` for the client type `normal`, the type of all clients here.
fn is_normal(kind: &[u8]) -> Result<bool, Vec<u8>> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(true),
        b"master" | b"replica" | b"slave" | b"pubsub" => Ok(false),
        _ => Err([b"ERR Unknown client type '", c_string(kind), b"'"].concat()),
    }
}

/// Executes CLIENT LIST [TYPE type | ID id ...].
fn list(session: &Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut all = context.clients.all();
    let word = args.get(2).to_ascii_lowercase();
    match (&word[..], args.len()) {
        (_, 2) => {}
        (b"type", 4) => {
            let normal = is_normal(args.get(3))?;
            all.retain(|_| normal);
        }
        (b"id", 4..) => {
            let ids: Option<Vec<i64>> = args.from(3).map(parse_integer).collect();
            let ids = ids.ok_or("ERR Invalid client ID")?;
            let find = |id: &i64| all.iter().find(|client| i64::try_from(client.id) == Ok(*id)).cloned();
            all = ids.iter().filter_map(find).collect();
        }
        _ => return Err(syntax_error()),
    }
    session.client().set_protocol(reply.protocol());
    session.client().database.store(session.space.number().into(), Ordering::Relaxed);
    let line = |client: &Arc<Client>| {
        let own = client.id == session.client().id;
        let last = context.names.get(client.command.load(Ordering::Relaxed)).map_or("NULL", String::as_str);
        let now = if session.client().is_executing() { "exec" } else { "client|list" };
        client.describe(if own { now } else { last }) + "\n"
    };
    reply.verbatim(&all.iter().map(line).collect::<String>());
    Ok(())
}

/// Filter of CLIENT KILL.
#[derive(Default)]
struct KillFilter<'a> {
    id: Option<u64>,
    normal: Option<bool>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    skip_me: bool,
}

impl<'a> KillFilter<'a> {
    /// Parses CLIENT KILL address | [ID id] [TYPE type] [ADDR address] [LADDR address] [USER name] [SKIPME
    /// yes|no].
    fn parse(args: Args<'a>) -> Result<Self, Vec<u8>> {
        if args.len() == 3 {
            return Ok(Self { peer: Some(args.get(2)), ..Self::default() });
        }
        let mut wanted = Self { skip_me: true, ..Self::default() };
        for at in (2..args.len()).step_by(2) {
            let value = (at + 1 < args.len()).then(|| args.get(at + 1)).ok_or_else(syntax_error)?;
            wanted.option(&args.get(at).to_ascii_lowercase(), value)?;
        }
        Ok(wanted)
    }

    fn option(&mut self, name: &[u8], value: &'a [u8]) -> Outcome {
        match name {
            b"id" => {
                let id = parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                self.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
            }
            b"type" => self.normal = Some(is_normal(value)?),
            b"addr" => self.peer = Some(value),
            b"laddr" => self.local = Some(value),
            b"user" if value == b"default" => {}
            b"user" => return Err([b"ERR No such user '", c_string(value), b"'"].concat()),
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => self.skip_me = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => self.skip_me = false,
            _ => return Err(syntax_error()),
        }
        Ok(())
    }

    fn matches(&self, client: &Client) -> bool {
        self.id.is_none_or(|id| client.id == id)
            && self.normal.unwrap_or(true)
            && self.peer.is_none_or(|peer| client.peer.as_bytes() == peer)
            && self.local.is_none_or(|local| client.local.as_bytes() == local)
    }
}

fn kill(session: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let wanted = KillFilter::parse(args)?;
    let own = session.client().id;
    let mut count = 0;
    for client in context.clients.all() {
        if !wanted.matches(&client) || wanted.skip_me && client.id == own {
            continue;
        }
        count += 1;
        if client.id == own {
            // The client's own connection still gets the reply.
            session.after = AfterReply::Close;
        } else {
            client.kill();
        }
    }
    match (args.len(), count) {
        (3, 0) => return Err(b"ERR No such client".into()),
        (3, _) => reply.ok(),
        _ => reply.integer(count),
    }
    Ok(())
}
