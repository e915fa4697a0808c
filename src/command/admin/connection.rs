//! Commands about the client's own connection: handshake, authentication, name, database, end.

use crate::{
    command::{
        error::{SYNTAX_ERROR, c_string, wrong_arity},
        flags::{
            ALLOW_BUSY, CHOOSES_PROTOCOL, ENDS_TRANSACTION, FAST, Flags, LOADING, NO_AUTH, NOSCRIPT,
            SECRET_ARGS, SELECTS_DATABASE, STALE,
        },
        server_state::{REDIS_VERSION, ServerState},
        session::{AfterReply, ReplyMode, Session, client_name},
        spec::{NO_KEY, Spec, cmd, database},
    },
    resp::{Args, Protocol, Reply, parse_integer},
    store::Database,
};

const HANDSHAKE: Flags = NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY;

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("ping", -1, NO_KEY, Session(ping), FAST; Connection, "1.0.0", "Answer PONG, or the message."),
    cmd!("echo", 2, NO_KEY, Session(echo), LOADING | STALE | FAST;
        Connection, "1.0.0", "Answer the message."),
    cmd!("select", 2, NO_KEY, Session(select), LOADING | STALE | FAST | SELECTS_DATABASE;
        Connection, "1.0.0", "Choose the database, 0 to 15."),
    cmd!("hello", -1, NO_KEY, Session(hello), HANDSHAKE | SECRET_ARGS | CHOOSES_PROTOCOL;
        Connection, "6.0.0", "Choose the protocol version."),
    cmd!("auth", -2, NO_KEY, Session(auth), HANDSHAKE | SECRET_ARGS;
        Connection, "1.0.0", "Give the password."),
    cmd!("reset", 1, NO_KEY, Session(reset), HANDSHAKE | ENDS_TRANSACTION;
        Connection, "6.2.0", "Reset the connection to its initial state."),
    cmd!("quit", -1, NO_KEY, Session(quit), HANDSHAKE | ENDS_TRANSACTION;
        Connection, "1.0.0", "Close the connection."),
];

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";
const HELLO_BEFORE_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                                 the HELLO AUTH <user> <pass> option can be used to authenticate the client \
                                 and select the RESP protocol version at the same time";

fn ping(_: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.get(1)),
        _ => wrong_arity("ping", reply),
    }
}

fn echo(_: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    reply.bulk(args.get(1));
}

fn select(session: &mut Session, _: &ServerState, args: Args<'_>, reply: &mut Reply) {
    match database(args.get(1)) {
        Ok(space) => {
            session.space = space;
            reply.ok();
        }
        Err(error) => error.write(reply),
    }
}

/// Executes RESET, which resets all settings of the connection except those of CLIENT NO-EVICT and CLIENT SETINFO. If
/// CLIENT REPLY SKIP applies to RESET, it gets no reply.
fn reset(session: &mut Session, context: &ServerState, _: Args<'_>, reply: &mut Reply) {
    session.authenticated = context.live.password().is_none();
    if session.replies != ReplyMode::Skip {
        session.replies = ReplyMode::On;
    }
    session.space = Database::default();
    session.discard_transaction = true;
    session.stop_monitor();
    session.client().labels().name = Box::default();
    reply.set_protocol(Protocol::Resp2);
    reply.simple("RESET");
}

fn quit(session: &mut Session, _: &ServerState, _: Args<'_>, reply: &mut Reply) {
    session.after = AfterReply::Close;
    reply.ok();
}

/// Executes `AUTH [user] password`. After a wrong password, a client that was authenticated stays so.
fn auth(session: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
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

/// Name of the only user.
const DEFAULT_USER: &[u8] = b"default";

/// Returns `true` if the user name and password are valid. If the server has no password, every password is
/// valid, as in Redis.
fn is_right(context: &ServerState, user: &[u8], password: &[u8]) -> bool {
    let right = context.live.password().is_none_or(|right| right.matches(password));
    right && user == DEFAULT_USER
}

/// Executes HELLO [version [AUTH user password] [SETNAME name]]. Each option takes effect at once, even if a
/// later option is invalid; the protocol version changes last.
fn hello(session: &mut Session, context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    match greet(session, context, args) {
        Ok(protocol) => {
            protocol.into_iter().for_each(|protocol| reply.set_protocol(protocol));
            introduce(session, reply);
        }
        Err(error) => reply.error(error),
    }
}

/// Executes the options of HELLO and returns the requested protocol version; `None` if HELLO names none.
fn greet(session: &mut Session, context: &ServerState, args: Args<'_>) -> Result<Option<Protocol>, Vec<u8>> {
    let mut words = args.from(1);
    let protocol = words.next().map(version).transpose()?;
    while let Some(option) = words.next() {
        if option.eq_ignore_ascii_case(b"auth") && words.len() >= 2 {
            let (user, password) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if !is_right(context, user, password) {
                return Err(WRONG_PASSWORD.into());
            }
            session.authenticated = true;
        } else if option.eq_ignore_ascii_case(b"setname") && words.len() >= 1 {
            session.set_name(words.next().unwrap_or_default())?;
        } else {
            return Err([b"ERR Syntax error in HELLO option '", c_string(option), b"'"].concat());
        }
    }
    if session.authenticated { Ok(protocol) } else { Err(HELLO_BEFORE_AUTH.into()) }
}

/// Returns the protocol version that a HELLO of an authenticated client selects, without checking the password;
/// `None` if HELLO names no version or is invalid.
pub fn chosen_protocol(args: Args<'_>) -> Option<Protocol> {
    let mut words = args.from(1);
    let protocol = version(words.next()?).ok()?;
    while let Some(option) = words.next() {
        if option.eq_ignore_ascii_case(b"auth") && words.len() >= 2 {
            (words.next()? == DEFAULT_USER && words.next().is_some()).then_some(())?;
        } else if option.eq_ignore_ascii_case(b"setname") {
            client_name(words.next()?)?;
        } else {
            return None;
        }
    }
    Some(protocol)
}

fn version(word: &[u8]) -> Result<Protocol, &'static str> {
    match parse_integer(word) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err("NOPROTO unsupported protocol version"),
        None => Err("ERR Protocol version is not an integer or out of range"),
    }
}

/// Writes the reply to HELLO, with the fields in Redis' order.
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
