//! CLIENT: information about connections, and their control. Client-side caching is refused.

use crate::{
    command::{
        error::{NOT_AN_INTEGER, SYNTAX_ERROR, c_string, wrong_shape},
        flags::{ADMIN, Flags, Group, LOADING, NOSCRIPT, STALE},
        server_state::ServerState,
        session::{AfterReply, ReplyMode, Session},
        spec::{NO_KEY, Spec, cmd, help},
        state::client_registry::Client,
    },
    resp::{Args, Reply, parse_integer},
};
use std::sync::{Arc, atomic::Ordering};

const OWN: Flags = NOSCRIPT | LOADING | STALE;

const CLIENT: &[Spec] = &[
    cmd!("client|caching", 3, NO_KEY, Session(caching), OWN;
        Connection, "6.0.0", "Refused: the server does not keep track of what clients cache."),
    cmd!("client|getname", 2, NO_KEY, Session(getname), OWN;
        Connection, "2.6.9", "Return the name of the connection."),
    cmd!("client|getredir", 2, NO_KEY, Session(getredir), OWN;
        Connection, "6.0.0", "Return -1: no invalidation message is redirected."),
    cmd!("client|help", 2, NO_KEY, Commands(help), LOADING | STALE;
        Connection, "5.0.0", "List the subcommands."),
    cmd!("client|id", 2, NO_KEY, Session(id), OWN;
        Connection, "5.0.0", "Return the number of the connection."),
    cmd!("client|info", 2, NO_KEY, Session(info), OWN; Connection, "6.2.0", "Describe the connection."),
    cmd!("client|kill", -3, NO_KEY, Session(kill), ADMIN | OWN;
        Connection, "2.4.0", "Close connections by ID, TYPE, ADDR, LADDR or USER; SKIPME no includes the own one."),
    cmd!("client|list", -2, NO_KEY, Session(list), ADMIN | OWN;
        Connection, "2.4.0", "Describe all connections, those of a TYPE, or those with an ID."),
    cmd!("client|no-evict", 3, NO_KEY, Session(no_evict), ADMIN | OWN;
        Connection, "7.0.0", "Accepted: no connection is closed to free memory."),
    cmd!("client|no-touch", 3, NO_KEY, Session(no_touch), OWN;
        Connection, "7.2.0", "Accepted: access times of keys are not kept."),
    cmd!("client|reply", 3, NO_KEY, Session(replies), OWN;
        Connection, "3.2.0", "Choose which requests get a reply: ON, OFF or SKIP."),
    cmd!("client|setinfo", 4, NO_KEY, Session(setinfo), OWN;
        Connection, "7.2.0", "Set the name (LIB-NAME) or version (LIB-VER) of the client library."),
    cmd!("client|setname", 3, NO_KEY, Session(setname), OWN; Connection, "2.6.9", "Name the connection."),
    cmd!("client|tracking", -3, NO_KEY, Session(tracking), OWN;
        Connection, "6.0.0", "Refused, except OFF: the server does not keep track of what clients cache."),
    cmd!("client|trackinginfo", 2, NO_KEY, Session(trackinginfo), OWN;
        Connection, "6.2.0", "Tell that tracking is off."),
    cmd!("client|unblock", -3, NO_KEY, Session(unblock), ADMIN | OWN;
        Connection, "5.0.0", "Return 0: WAIT and WAITAOF are not unblocked."),
];

pub(in crate::command) const COMMANDS: &[Spec] = &[Spec::parent("client", CLIENT, 0)
    .about(Group::Connection, "2.4.0", "Name, list and close connections.")
    .in_categories("")];

/// Result of a CLIENT subcommand; the error is the text of the error reply.
type Outcome = Result<(), Vec<u8>>;

/// Writes the reply of a CLIENT subcommand: OK, or an error.
fn write(outcome: Outcome, reply: &mut Reply) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn caching(_: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    reply.error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    );
}

fn getredir(_: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    reply.integer(-1);
}

fn tracking(_: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    match switch(args.get(2)) {
        Ok(false) => reply.ok(),
        Ok(true) => {
            reply.error("ERR kvbench does not keep track of what clients cache; leave CLIENT TRACKING out");
        }
        Err(error) => reply.error(error),
    }
}

fn trackinginfo(_: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.integer(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
}

fn getname(session: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    let name = session.client().labels().name.clone();
    if name.is_empty() { reply.null() } else { reply.bulk(name.as_bytes()) }
}

fn id(session: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    reply.integer(session.client().id as i64);
}

fn info(session: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    let client = session.client();
    client.set_protocol(reply.protocol());
    let now = if client.is_executing() { "exec" } else { "client|info" };
    reply.verbatim(&format!("{}\n", client.describe(now)));
}

fn setname(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    write(session.set_name(args.get(2)), reply);
}

fn setinfo(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    write(session.set_info(args.get(2), args.get(3)), reply);
}

fn no_evict(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let on = switch(args.get(2)).map(|on| session.client().no_evict.store(on, Ordering::Relaxed));
    write(on, reply);
}

fn no_touch(_: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    write(switch(args.get(2)).map(drop), reply);
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
fn replies(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let word = args.get(2).to_ascii_lowercase();
    session.replies = match (&word[..], session.replies) {
        (b"on", _) => {
            reply.ok();
            ReplyMode::On
        }
        (b"off", _) | (b"skip", ReplyMode::Off) => ReplyMode::Off,
        (b"skip", _) => ReplyMode::SkipNext,
        _ => return reply.error(syntax_error()),
    };
}

/// Executes CLIENT UNBLOCK. It never unblocks a client, not even one in WAIT or WAITAOF, so the reply is 0 or an error.
fn unblock(_: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let is_reason = |word: &[u8]| [&b"timeout"[..], b"error"].iter().any(|w| word.eq_ignore_ascii_case(w));
    match args.len() {
        5.. => reply.error(wrong_shape("client", args)),
        4 if !is_reason(args.get(3)) => {
            reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
        }
        _ if parse_integer(args.get(2)).is_none() => reply.error(NOT_AN_INTEGER.to_string()),
        _ => reply.integer(0),
    }
}

/// Returns `true` for the client type `normal`, the type of all clients here, `false` for Redis' other types, and an
/// error for an unknown one.
fn is_normal(kind: &[u8]) -> Result<bool, Vec<u8>> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(true),
        b"master" | b"replica" | b"slave" | b"pubsub" => Ok(false),
        _ => Err([b"ERR Unknown client type '", c_string(kind), b"'"].concat()),
    }
}

/// Executes CLIENT LIST [TYPE type | ID id ...].
fn list(session: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let listed = match listed(context, args) {
        Ok(listed) => listed,
        Err(error) => return reply.error(error),
    };
    session.client().set_protocol(reply.protocol());
    session.client().database.store(session.space.number().into(), Ordering::Relaxed);
    let line = |client: &Arc<Client>| {
        let own = client.id == session.client().id;
        let last = context.names.get(client.command.load(Ordering::Relaxed)).copied().unwrap_or("NULL");
        let now = if session.client().is_executing() { "exec" } else { "client|list" };
        client.describe(if own { now } else { last }) + "\n"
    };
    let mut text = String::new();
    for client in listed {
        text.push_str(&line(&client));
        if !reply.has_room(text.len()) {
            // The text is too large for the reply already, which overflows below.
            break;
        }
    }
    reply.verbatim(&text);
}

/// Connections that the arguments of CLIENT LIST select.
type Listed<'a> = Box<dyn Iterator<Item = Arc<Client>> + 'a>;

/// Returns the connections that the arguments of CLIENT LIST select. A number that is given several times selects its
/// connection as often, as in Redis.
fn listed<'a>(context: &'a ServerState, args: Args<'a>) -> Result<Listed<'a>, Vec<u8>> {
    let word = args.get(2).to_ascii_lowercase();
    let listed: Listed<'a> = match (&word[..], args.len()) {
        (_, 2) => Box::new(context.clients.all().into_iter()),
        (b"type", 4) => {
            let normal = is_normal(args.get(3))?;
            Box::new(context.clients.all().into_iter().filter(move |_| normal))
        }
        (b"id", 4..) => {
            if args.from(3).any(|id| parse_integer(id).is_none()) {
                return Err("ERR Invalid client ID".into());
            }
            Box::new(
                args.from(3)
                    .filter_map(move |id| context.clients.find(u64::try_from(parse_integer(id)?).ok()?)),
            )
        }
        _ => return Err(syntax_error()),
    };
    Ok(listed)
}

/// Conditions that a connection must meet to be closed by CLIENT KILL.
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

fn kill(session: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let wanted = match KillFilter::parse(args) {
        Ok(wanted) => wanted,
        Err(error) => return reply.error(error),
    };
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
        (3, 0) => reply.error("ERR No such client"),
        (3, _) => reply.ok(),
        _ => reply.integer(count),
    }
}
