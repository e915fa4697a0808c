//! Clients in RESP: those of a load, and the one that looks at what is there.

use super::history::{Expected, History, KEYS, Request, key};
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

/// Most requests of one client that wait for their replies.
const DEPTH: usize = 32;

/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keys of one MGET.
const LOOKS: usize = 64;

/// A connection to the server at `port`.
pub(super) fn connect(port: u16) -> io::Result<Client> {
    Client::connect((Ipv4Addr::LOCALHOST, port), Some(PATIENCE))
}

/// What the clients of a load share.
pub(super) struct Load {
    pub begin: Instant,
    /// The strike has begun: connections may break.
    pub struck: AtomicBool,
    /// Error replies are expected.
    pub may_refuse: bool,
    /// The server may end by itself.
    pub may_end: bool,
}

impl Load {
    fn is_struck(&self) -> bool {
        self.struck.load(Ordering::SeqCst)
    }

    /// Ends a client: a broken connection is a fault unless the server was struck.
    fn broken(&self, error: &io::Error) -> Option<String> {
        (!self.is_struck() && !self.may_end).then(|| format!("a connection broke before the strike: {error}"))
    }
}

/// What one client met.
#[derive(Default)]
pub(super) struct Met {
    pub refused: u64,
    pub fault: Option<String>,
}

/// Writes with many requests under way until the server is struck.
pub(super) fn write(port: u16, history: &mut History, load: &Load, rng: &mut SmallRng) -> Met {
    let mut met = Met::default();
    let mut connection = match connect(port) {
        Ok(connection) => connection,
        Err(error) => {
            met.fault = load.broken(&error);
            return met;
        }
    };
    let depth = rng.random_range(1..=DEPTH);
    let mut waiting = VecDeque::new();
    while met.fault.is_none() && !load.is_struck() {
        let mut bytes = Vec::new();
        while waiting.len() < depth {
            let request = history.send();
            encode_request(&request.args, &mut bytes);
            waiting.push_back(request);
        }
        let outcome = connection.send(&bytes).and_then(|()| {
            (0..rng.random_range(1..=depth)).try_for_each(|_| {
                let reply = connection.reply()?;
                let request = waiting.pop_front().ok_or(io::ErrorKind::InvalidData)?;
                take(reply, &request, history, load, &mut met)
            })
        });
        if let Err(error) = outcome {
            met.fault = met.fault.or_else(|| load.broken(&error));
            break;
        }
    }
    met
}

/// Notes a reply, and checks it. An error after the strike is the end, as if the connection had broken: what
/// is answered behind it may rest on what failed.
fn take(
    reply: OwnedFrame,
    request: &Request,
    history: &mut History,
    load: &Load,
    met: &mut Met,
) -> io::Result<()> {
    // What was sent before an error came was expected without it.
    let expected = if history.is_certain() { request.expected } else { Expected::Any };
    let number = match (&reply, expected) {
        (OwnedFrame::Error(text), _) if load.is_struck() => return Err(io::Error::other(text.to_string())),
        (OwnedFrame::Error(text), _) => {
            met.refused += 1;
            history.refused(request.write);
            if !load.may_refuse {
                met.fault.get_or_insert_with(|| format!("{} was refused: {text}", name(request)));
            }
            return Ok(());
        }
        (OwnedFrame::SimpleString(text), Expected::Ok | Expected::Any) if text == b"OK" => 0,
        (OwnedFrame::Integer(number), Expected::Any) => *number,
        (OwnedFrame::Integer(number), Expected::Number(expected)) if *number == expected => *number,
        (OwnedFrame::BulkString(_) | OwnedFrame::Null, Expected::Any) => 0,
        (OwnedFrame::Null, Expected::Value(None)) => 0,
        (OwnedFrame::BulkString(bytes), Expected::Value(Some(content))) if content.is(bytes) => 0,
        _ => {
            let text: String = format!("{reply:?}").chars().take(200).collect();
            let fault = format!("{} was answered {text}, not {expected:?}", name(request));
            met.fault.get_or_insert(fault);
            return Ok(());
        }
    };
    if let Some(write) = request.write {
        history.acknowledged(write, number, load.begin.elapsed());
    }
    Ok(())
}

fn name(request: &Request) -> String {
    let words = request.args.iter().take(2).map(|word| String::from_utf8_lossy(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Rewrites the log now and then, where the store has one, until the server is struck.
pub(super) fn rewrite(port: u16, load: &Load, rng: &mut SmallRng) {
    let Ok(mut connection) = connect(port) else { return };
    while !load.is_struck() {
        thread::sleep(Duration::from_millis(rng.random_range(5..60)));
        if connection.call(&["BGREWRITEAOF"]).is_err() {
            return;
        }
    }
}

/// What the store holds of one client's keys.
pub(super) fn look(connection: &mut Client, client: u32) -> Result<Vec<Option<Vec<u8>>>, String> {
    let keys: Vec<_> = (0..KEYS).map(|index| key(client, index)).collect();
    let mut found = Vec::with_capacity(KEYS);
    for keys in keys.chunks(LOOKS) {
        let args: Vec<_> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let reply = connection.call(&args).map_err(|error| format!("MGET after the restart: {error}"))?;
        let OwnedFrame::Array(values) = reply else {
            return Err(format!("MGET after the restart: {reply:?}"));
        };
        for value in values {
            found.push(match value {
                OwnedFrame::BulkString(bytes) => Some(bytes),
                OwnedFrame::Null => None,
                other => return Err(format!("MGET after the restart: {other:?}")),
            });
        }
    }
    Ok(found)
}

/// The number of keys, if the server tells it.
pub(super) fn count(connection: &mut Client) -> Option<u64> {
    match connection.call(&["DBSIZE"]) {
        Ok(OwnedFrame::Integer(keys)) => u64::try_from(keys).ok(),
        _ => None,
    }
}
