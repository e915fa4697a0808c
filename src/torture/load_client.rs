//! RESP clients of a crash test: those that write under load, and the one that reads the data afterwards.

use super::history::{Expected, History, KEYS, ObservedValue, Request, SubjectCapabilities, key};
use crate::resp::{Client, encode_request};
use rand::{Rng, rngs::SmallRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    collections::VecDeque,
    io,
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Maximum pipeline depth of a load client in a crash test.
const DEPTH: usize = 32;

/// Maximum time that a client of a crash test waits for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of keys that a client reads with one MGET.
const MGET_KEYS: usize = 64;

/// Connects to the server at `port` of this machine.
pub(super) fn connect(port: u16) -> io::Result<Client> {
    Client::connect((Ipv4Addr::LOCALHOST, port), Some(REPLY_TIMEOUT))
}

/// State that the load clients of a crash test share: its start, whether the fault has begun, and which failures are
/// expected.
pub(super) struct Load {
    pub begin: Instant,
    /// `true` once the kill or power cut has begun: connections may break.
    pub fault_injected: AtomicBool,
    /// `true` if the injected fault lets the server reply with errors.
    pub may_refuse: bool,
    /// `true` if the server may exit by itself because of the injected fault.
    pub may_end: bool,
}

impl Load {
    fn is_fault_injected(&self) -> bool {
        self.fault_injected.load(Ordering::SeqCst)
    }

    /// Returns the description of a failure for a broken connection, or `None` if the server was killed or may exit.
    fn broken(&self, error: &io::Error) -> Option<String> {
        (!self.is_fault_injected() && !self.may_end)
            .then(|| format!("a connection broke before the fault: {error}"))
    }
}

/// Result of one load client: its error replies, and the first failure.
#[derive(Default)]
pub(super) struct ClientOutcome {
    pub refused: u64,
    pub fault: Option<String>,
}

/// Sends random requests in pipelines to the server at `port` until the kill or power cut begins, a reply is wrong or
/// the connection breaks. Records the requests and their outcomes in `history`.
pub(super) fn write(port: u16, history: &mut History, load: &Load, rng: &mut SmallRng) -> ClientOutcome {
    let mut outcome = ClientOutcome::default();
    let mut connection = match connect(port) {
        Ok(connection) => connection,
        Err(error) => {
            outcome.fault = load.broken(&error);
            return outcome;
        }
    };
    let depth = rng.random_range(1..=DEPTH);
    let mut waiting = VecDeque::new();
    while outcome.fault.is_none() && !load.is_fault_injected() {
        let mut bytes = Vec::new();
        while waiting.len() < depth {
            let request = history.send();
            request.commands.iter().for_each(|words| encode_request(words, &mut bytes));
            waiting.push_back(request);
        }
        let sent = connection.send(&bytes).and_then(|()| {
            (0..rng.random_range(1..=depth)).try_for_each(|_| {
                let request = waiting.pop_front().ok_or(io::ErrorKind::InvalidData)?;
                let reply = receive(&mut connection, &request)?;
                take(reply, &request, history, load, &mut outcome)
            })
        });
        if let Err(error) = sent {
            outcome.fault = outcome.fault.or_else(|| load.broken(&error));
            break;
        }
    }
    // Within one pipeline, one commit may run out of space and the next one succeed.
    if load.may_refuse {
        history.mark_unknown_outcomes();
    }
    outcome
}

/// Returns the reply to the command of `request` that is checked, or an error or unexpected reply to another one of
/// its commands.
fn receive(connection: &mut Client, request: &Request) -> io::Result<OwnedFrame> {
    let (mut checked, mut odd) = (OwnedFrame::Null, None);
    for index in 0..request.commands.len() {
        match connection.reply()? {
            error @ OwnedFrame::Error(_) => odd = odd.or(Some(error)),
            OwnedFrame::Array(replies) if replies.iter().any(is_error) => {
                odd = odd.or(replies.into_iter().find(is_error));
            }
            reply if index == request.checked_command => checked = reply,
            OwnedFrame::SimpleString(_) => {}
            other => odd = odd.or(Some(other)),
        }
    }
    Ok(odd.unwrap_or(checked))
}

fn is_error(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Error(_))
}

fn is_ok(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::SimpleString(text) if text == b"OK")
}

/// Checks the reply to `request`, and records in `history` whether its write was acknowledged or refused; a wrong reply
/// is recorded in `outcome`. An error reply after the kill or power cut is returned as an error, which ends the client
/// like a broken connection, since later replies may depend on the failed write.
fn take(
    reply: OwnedFrame,
    request: &Request,
    history: &mut History,
    load: &Load,
    outcome: &mut ClientOutcome,
) -> io::Result<()> {
    // Replies to requests that were sent before an error reply arrived cannot be predicted.
    let expected = if history.is_certain() { request.expected } else { Expected::Any };
    let number = match (&reply, expected) {
        (OwnedFrame::Error(text), _) if load.is_fault_injected() => {
            return Err(io::Error::other(text.to_string()));
        }
        (OwnedFrame::Error(text), _) => {
            outcome.refused += 1;
            history.refused(request.write);
            if !load.may_refuse {
                outcome.fault.get_or_insert_with(|| format!("{} was refused: {text}", name(request)));
            }
            return Ok(());
        }
        (reply, Expected::Ok | Expected::Any) if is_ok(reply) => 0,
        (OwnedFrame::Array(replies), Expected::All(count))
            if replies.len() == count && replies.iter().all(is_ok) =>
        {
            0
        }
        (OwnedFrame::Array(_), Expected::Any) => 0,
        (OwnedFrame::Integer(number), Expected::Any) => *number,
        (OwnedFrame::Integer(number), Expected::Number(expected)) if *number == expected => *number,
        (OwnedFrame::BulkString(_) | OwnedFrame::Null, Expected::Any) => 0,
        (OwnedFrame::Null, Expected::Value(None)) => 0,
        (OwnedFrame::BulkString(bytes), Expected::Value(Some(content))) if content.is(bytes) => 0,
        _ => {
            let text: String = format!("{reply:?}").chars().take(200).collect();
            let fault = format!("{} was answered {text}, not {expected:?}", name(request));
            outcome.fault.get_or_insert(fault);
            return Ok(());
        }
    };
    if let Some(write) = request.write {
        history.acknowledged(write, number, load.begin.elapsed());
    }
    Ok(())
}

fn name(request: &Request) -> String {
    let words = request.commands.iter().take(3).map(|words| {
        let words = words.iter().take(2).map(|word| String::from_utf8_lossy(word));
        words.collect::<Vec<_>>().join(" ")
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Sends BGREWRITEAOF at random intervals, until the kill or power cut begins or the connection breaks. Ignores the
/// replies, also error replies.
pub(super) fn rewrite(port: u16, load: &Load, rng: &mut SmallRng) {
    let Ok(mut connection) = connect(port) else { return };
    while !load.is_fault_injected() {
        thread::sleep(Duration::from_millis(rng.random_range(5..60)));
        if connection.call(&["BGREWRITEAOF"]).is_err() {
            return;
        }
    }
}

/// Sends a command to the restarted server, and returns the reply, which may be an error reply; returns an error text
/// if the connection breaks.
fn call(connection: &mut Client, words: &[&str]) -> Result<OwnedFrame, String> {
    connection.call(words).map_err(|error| format!("{} after the restart: {error}", words.join(" ")))
}

fn select(connection: &mut Client, database: u8) -> Result<(), String> {
    match call(connection, &["SELECT", &database.to_string()])? {
        reply if is_ok(&reply) => Ok(()),
        other => Err(format!("SELECT {database} after the restart: {other:?}")),
    }
}

/// Returns the features that the server under test supports, found out by commands.
pub(super) fn capabilities(connection: &mut Client) -> io::Result<SubjectCapabilities> {
    let transactions = is_ok(&connection.call(&["MULTI"])?) && is_ok(&connection.call(&["DISCARD"])?);
    let databases = is_ok(&connection.call(&["SELECT", "1"])?) && is_ok(&connection.call(&["SELECT", "0"])?);
    let deadlines = connection.call(&["PEXPIRETIME", "none"])? == OwnedFrame::Integer(-2);
    Ok(SubjectCapabilities { transactions, databases, deadlines })
}

/// Reads all keys of a load client from the server. Returns the value of each, `None` for absent keys.
pub(super) fn look(
    connection: &mut Client,
    client: u32,
    capabilities: SubjectCapabilities,
) -> Result<Vec<Option<ObservedValue>>, String> {
    let mut found = vec![None; KEYS];
    for database in 0..=u8::from(capabilities.databases) {
        if database > 0 {
            select(connection, database)?;
        }
        let indexes: Vec<_> = (0..KEYS).filter(|index| capabilities.database(*index) == database).collect();
        for indexes in indexes.chunks(MGET_KEYS) {
            let keys: Vec<_> = indexes.iter().map(|index| key(client, *index)).collect();
            let held = look_at(connection, &keys, capabilities)?;
            for (index, held) in indexes.iter().zip(held) {
                found.get_mut(*index).into_iter().for_each(|place| place.clone_from(&held));
            }
        }
        if database > 0 {
            select(connection, 0)?;
        }
    }
    Ok(found)
}

fn look_at(
    connection: &mut Client,
    keys: &[String],
    capabilities: SubjectCapabilities,
) -> Result<Vec<Option<ObservedValue>>, String> {
    let words: Vec<_> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let reply = connection.call(&words).map_err(|error| format!("MGET after the restart: {error}"))?;
    let OwnedFrame::Array(values) = reply else { return Err(format!("MGET after the restart: {reply:?}")) };
    let held = keys.iter().zip(values).map(|(key, value)| match value {
        OwnedFrame::BulkString(value) => {
            let deadline = capabilities.deadlines.then(|| deadline(connection, key)).transpose()?;
            Ok(Some(ObservedValue { value, deadline }))
        }
        OwnedFrame::Null => Ok(None),
        other => Err(format!("MGET after the restart: {other:?}")),
    });
    held.collect()
}

fn deadline(connection: &mut Client, key: &str) -> Result<i64, String> {
    match call(connection, &["PEXPIRETIME", key])? {
        OwnedFrame::Integer(deadline) => Ok(deadline),
        other => Err(format!("PEXPIRETIME {key} after the restart: {other:?}")),
    }
}

/// Returns the number of keys in the databases that the clients use, or `None` if the server does not report it.
pub(super) fn count(connection: &mut Client, capabilities: SubjectCapabilities) -> Option<u64> {
    let mut all = 0;
    for database in (0..=u8::from(capabilities.databases)).rev() {
        if capabilities.databases {
            select(connection, database).ok()?;
        }
        let OwnedFrame::Integer(keys) = connection.call(&["DBSIZE"]).ok()? else { return None };
        all += u64::try_from(keys).ok()?;
    }
    Some(all)
}
