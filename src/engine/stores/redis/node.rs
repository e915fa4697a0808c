//! One node: connections to it, and what its refusals mean.

use super::login::Login;
use redis::{Connection, RedisError, ServerError, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections without use that are kept.
const MAX_IDLE_CONNECTIONS: usize = 32;

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum NoReply {
    /// It was not sent as a whole, so nobody has carried it out.
    NotSent(String),
    /// It was sent.
    NotAnswered(String),
}

impl NoReply {
    pub fn message(self) -> String {
        match self {
            Self::NotSent(words) | Self::NotAnswered(words) => words,
        }
    }
}

/// A node, `host:port`.
pub(super) struct Node {
    address: Arc<str>,
    login: Arc<Login>,
    idle: Mutex<Vec<Connection>>,
}

impl Node {
    pub fn new(address: Arc<str>, login: Arc<Login>) -> Self {
        Self { address, login, idle: Mutex::default() }
    }

    pub fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// Sends requests that are packed one behind the other, once, and takes so many answers.
    pub fn call(&self, packed: &[u8], answers: usize) -> Result<Vec<Value>, NoReply> {
        let (values, missing) = self.send(packed, answers)?.receive();
        missing.map_or(Ok(values), |words| Err(NoReply::NotAnswered(words)))
    }

    /// Sends requests that are packed one behind the other, once. So many answers are still to be received.
    pub fn send(&self, packed: &[u8], answers: usize) -> Result<Sent<'_>, NoReply> {
        let not_sent = |error: RedisError| NoReply::NotSent(self.message(&error));
        let kept = self.idle().pop();
        let mut connection = kept.map_or_else(|| self.login.connect(&self.address), Ok).map_err(not_sent)?;
        // A node carries out no request that has not come to its end. Of encrypted ones it is not known how much was sent.
        connection.send_packed_command(packed).map_err(|error| match answers {
            1 if !self.login.is_encrypted() => not_sent(error),
            _ => NoReply::NotAnswered(self.message(&error)),
        })?;
        Ok(Sent { node: self, connection, answers })
    }

    /// The words of an error, after which kept connections are no better.
    fn message(&self, error: &RedisError) -> String {
        self.idle().clear();
        format!("{}: {}", self.address, Login::message(error))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // Nothing can panic half-way while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that were sent on a connection of their own.
pub(super) struct Sent<'n> {
    node: &'n Node,
    connection: Connection,
    answers: usize,
}

impl Sent<'_> {
    /// Returns the answers that came, and why there are no more if some are missing.
    pub fn receive(mut self) -> (Vec<Value>, Option<String>) {
        let mut values = Vec::with_capacity(self.answers);
        while values.len() < self.answers {
            match self.connection.recv_response() {
                Ok(value) => values.push(value),
                Err(error) => return (values, Some(self.node.message(&error))),
            }
        }
        let mut idle = self.node.idle();
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(self.connection);
        }
        (values, None)
    }
}

/// What a node says instead of doing something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The slot is there now.
    Moved(Arc<str>),
    /// The slot is on its way there.
    Ask(Arc<str>),
    /// Something that passes.
    Later(String),
    /// The script is not known there.
    NoScript,
    /// There is no room.
    Full(String),
    /// Something that does not pass, or not soon.
    Other(String),
}

impl Refusal {
    /// Of an answer that `asked` gave. In each case nothing was done.
    pub fn of(error: &ServerError, asked: &str) -> Self {
        let details = error.details().unwrap_or_default();
        let words = format!("{asked}: {} {details}", error.code()).trim_end().to_owned();
        let place = || address_of(details.split_ascii_whitespace().nth(1), asked);
        match error.code() {
            "MOVED" => place().map_or(Self::Later(words), Self::Moved),
            "ASK" => place().map_or(Self::Later(words), Self::Ask),
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "BUSY" => Self::Later(words),
            "NOSCRIPT" => Self::NoScript,
            "OOM" => Self::Full(words),
            _ => Self::Other(words),
        }
    }

    /// Returns `true` if the same request may be carried out later, or by another node.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Moved(_) | Self::Ask(_) | Self::Later(_))
    }
}

/// An address as `asked` tells it: without a host it means its own.
fn address_of(told: Option<&str>, asked: &str) -> Option<Arc<str>> {
    match told?.rsplit_once(':')? {
        ("" | "?", port) => asked.rsplit_once(':').map(|(host, _)| format!("{host}:{port}").into()),
        (host, port) => Some(format!("{host}:{port}").into()),
    }
}

/// The words of an answer.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Okay => Some("OK".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_where_to_go_or_what_to_wait_for() {
        let of = |line: &str| {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            let Value::ServerError(error) = value else { panic!("{value:?}") };
            Refusal::of(&error, "10.0.0.1:7000")
        };
        assert_eq!(of("MOVED 3999 10.0.0.2:6381"), Refusal::Moved("10.0.0.2:6381".into()));
        assert_eq!(of("ASK 3999 10.0.0.2:6381"), Refusal::Ask("10.0.0.2:6381".into()));
        // The host that was asked.
        assert_eq!(of("MOVED 3999 :6381"), Refusal::Moved("10.0.0.1:6381".into()));
        assert_eq!(of("MOVED 3999 ?:6381"), Refusal::Moved("10.0.0.1:6381".into()));
        assert_eq!(of("MOVED 3999 ::1:6381"), Refusal::Moved("::1:6381".into()));
        assert_eq!(of("NOSCRIPT No matching script."), Refusal::NoScript);
        for line in
            ["TRYAGAIN Multiple keys", "CLUSTERDOWN Hash slot not served", "LOADING", "READONLY You", "MOVED"]
        {
            assert!(
                matches!(of(line), Refusal::Later(words) if words.starts_with("10.0.0.1:7000: ")),
                "{line}"
            );
        }
        assert!(matches!(of("OOM command not allowed"), Refusal::Full(_)));
        assert!(matches!(of("WRONGTYPE Operation"), Refusal::Other(words) if words.contains("WRONGTYPE")));
    }
}
