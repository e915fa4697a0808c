//! The connection itself: handshakes, names, ends.

use super::{
    context::{After, BAD_NAME, Context, REDIS_VERSION, Replies, Session, client_name},
    refusal,
    spec::{SYNTAX_ERROR, Spec, database},
};
use crate::{
    resp::{Args, Protocol, Reply, parse_integer},
    store::Space,
};
use std::sync::atomic::Ordering;

const GROUP: &str = "connection";

pub(super) const COMMANDS: &[Spec] = &[
    Spec::session("ping", -1, ping, (GROUP, "1.0.0"), "Answer PONG, or the message."),
    Spec::session("echo", 2, echo, (GROUP, "1.0.0"), "Answer the message."),
    Spec::session("select", 2, select, (GROUP, "1.0.0"), "Choose the database, 0 to 15."),
    Spec::session("hello", -1, hello, (GROUP, "6.0.0"), "Choose the protocol version.").before_auth(),
    Spec::session("auth", -2, auth, (GROUP, "1.0.0"), "Give the password.").before_auth(),
    Spec::session("reset", 1, reset, (GROUP, "6.2.0"), "Reset the connection to its initial state."),
    Spec::session("quit", -1, quit, (GROUP, "1.0.0"), "Close the connection.").before_auth(),
];

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";
const HELLO_BEFORE_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                                 the HELLO AUTH <user> <pass> option can be used to authenticate the client \
                                 and select the RESP protocol version at the same time";

fn ping(_: &mut Session, _: &Context, args: Args<'_>, reply: &mut Reply) {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.get(1)),
        _ => refusal::wrong_arity("ping", reply),
    }
}

fn echo(_: &mut Session, _: &Context, args: Args<'_>, reply: &mut Reply) {
    reply.bulk(args.get(1));
}

fn select(session: &mut Session, _: &Context, args: Args<'_>, reply: &mut Reply) {
    match database(args.get(1)) {
        Ok(space) => {
            session.space = space;
            reply.ok();
        }
        Err(error) => error.write(reply),
    }
}

/// RESET leaves nothing of what the connection was told.
fn reset(session: &mut Session, context: &Context, _: Args<'_>, reply: &mut Reply) {
    session.authenticated = context.live.password().is_none();
    session.replies = Replies::On;
    session.space = Space::default();
    session.forget = true;
    session.stop_monitor();
    let client = session.client();
    client.labels().name = Box::default();
    client.no_evict.store(false, Ordering::Relaxed);
    reply.set_protocol(Protocol::Resp2);
    reply.simple("RESET");
}

fn quit(session: &mut Session, _: &Context, _: Args<'_>, reply: &mut Reply) {
    session.after = After::Close;
    reply.ok();
}

/// AUTH [user] password. A wrong one takes nothing away from who had given the right one.
fn auth(session: &mut Session, context: &Context, args: Args<'_>, reply: &mut Reply) {
    let (user, password) = match args.len() {
        2 if context.live.password().is_none() => return reply.error(NO_PASSWORD),
        2 => (DEFAULT_USER, args.get(1)),
        3 => (args.get(1), args.get(2)),
        _ => return reply.error(SYNTAX_ERROR.to_string()),
    };
    if is_right(context, user, password) {
        session.authenticated = true;
        reply.ok();
    } else {
        reply.error(WRONG_PASSWORD);
    }
}

/// The only user there is.
const DEFAULT_USER: &[u8] = b"default";

/// Without a password, any is right, as in Redis.
fn is_right(context: &Context, user: &[u8], password: &[u8]) -> bool {
    let right = context.live.password().is_none_or(|right| right.matches(password));
    right && user == DEFAULT_USER
}

/// HELLO [version [AUTH user password] [SETNAME name]], checked as a whole before it changes anything.
fn hello(session: &mut Session, context: &Context, args: Args<'_>, reply: &mut Reply) {
    let hello = match Hello::parse(context, args) {
        Ok(hello) => hello,
        Err(error) => return reply.error(error),
    };
    if !session.authenticated && !hello.authenticated {
        return reply.error(HELLO_BEFORE_AUTH);
    }
    session.authenticated = true;
    if let Some(protocol) = hello.protocol {
        reply.set_protocol(protocol);
    }
    if let Some(name) = hello.name {
        session.client().labels().name = name;
    }
    introduce(session, reply);
}

/// What HELLO asks for.
#[derive(Default)]
struct Hello {
    protocol: Option<Protocol>,
    name: Option<Box<str>>,
    /// Whether it had the right password.
    authenticated: bool,
}

impl Hello {
    fn parse(context: &Context, args: Args<'_>) -> Result<Self, Vec<u8>> {
        let mut hello = Self::default();
        let mut words = args.from(1);
        let Some(version) = words.next() else { return Ok(hello) };
        hello.protocol = Some(match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(b"NOPROTO unsupported protocol version".into()),
            None => return Err(b"ERR Protocol version is not an integer or out of range".into()),
        });
        while let Some(option) = words.next() {
            if option.eq_ignore_ascii_case(b"auth") && words.len() >= 2 {
                let (user, password) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                if !is_right(context, user, password) {
                    return Err(WRONG_PASSWORD.into());
                }
                hello.authenticated = true;
            } else if option.eq_ignore_ascii_case(b"setname") && words.len() >= 1 {
                hello.name = Some(words.next().and_then(client_name).ok_or(BAD_NAME)?);
            } else {
                return Err([b"ERR Syntax error in HELLO option '", option, b"'"].concat());
            }
        }
        Ok(hello)
    }
}

/// The reply to HELLO, in Redis' order.
fn introduce(session: &Session, reply: &mut Reply) {
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(reply.protocol().number());
    reply.bulk(b"id");
    reply.integer(session.client().id as i64);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}
