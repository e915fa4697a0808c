//! Connections to one node of a Redis Cluster, and classification of its error replies.

use super::login::Login;
use redis::{Connection, RedisError, ServerError, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of idle connections to a node that are kept open.
const MAX_IDLE_CONNECTIONS: usize = 32;

/// Reason why a request got no reply.
#[derive(Debug)]
pub(super) enum NoReply {
    /// The request was not sent completely, so the node has not executed it; with the text of the error.
    NotSent(String),
    /// The request was sent, perhaps not completely, so the node may have executed it; with the text of the error.
    NotAnswered(String),
}

impl NoReply {
    pub fn message(self) -> String {
        match self {
            Self::NotSent(words) | Self::NotAnswered(words) => words,
        }
    }
}

/// Node of a Redis Cluster at `host:port`, with its idle connections.
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

    /// Sends the encoded requests `packed`, which get `answers` replies in all, once, and returns the replies.
    pub fn call(&self, packed: &[u8], answers: usize) -> Result<Vec<Value>, NoReply> {
        let (values, missing) = self.send(packed, answers)?.receive();
        missing.map_or(Ok(values), |words| Err(NoReply::NotAnswered(words)))
    }

    /// Sends the encoded requests `packed`, which get `answers` replies in all, once. [`Sent::receive`] then receives
    /// the replies.
    pub fn send(&self, packed: &[u8], answers: usize) -> Result<Sent<'_>, NoReply> {
        let not_sent = |error: RedisError| NoReply::NotSent(self.message(&error));
        let kept = self.idle().pop();
        let mut connection = kept.map_or_else(|| self.login.connect(&self.address), Ok).map_err(not_sent)?;
        // A node does not execute an incomplete request. On an encrypted connection it is unknown how much was sent.
        connection.send_packed_command(packed).map_err(|error| match answers {
            1 if !self.login.is_encrypted() => not_sent(error),
            _ => NoReply::NotAnswered(self.message(&error)),
        })?;
        Ok(Sent { node: self, connection, answers })
    }

    /// Returns the text of a connection error, with the node's address. Closes the idle connections, which have
    /// probably failed too.
    fn message(&self, error: &RedisError) -> String {
        self.idle().clear();
        format!("{}: {}", self.address, Login::message(error))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // No code panics while the lock is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that were sent to a node over a connection and whose replies are outstanding.
pub(super) struct Sent<'n> {
    node: &'n Node,
    connection: Connection,
    answers: usize,
}

impl Sent<'_> {
    /// Receives the outstanding replies. Returns those that came, and the text of the error if some are missing.
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

/// Error reply of a node. The node has not executed the request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// MOVED: the hash slot is at the node with this address.
    Moved(Arc<str>),
    /// ASK: the hash slot is migrating, and the key may be at the node with this address.
    Ask(Arc<str>),
    /// Temporary error, with its text: the request may succeed later.
    Later(String),
    /// NOSCRIPT: the node does not know the script.
    NoScript,
    /// OOM: the node is out of memory; with the text of the error.
    Full(String),
    /// Other error, with its text: the request is not sent again.
    Other(String),
}

impl Refusal {
    /// Classifies an error reply of the node `asked`.
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

    /// Returns `true` if the request may succeed later, or at another node.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Moved(_) | Self::Ask(_) | Self::Later(_))
    }
}

/// Returns the address `told` in a MOVED or ASK reply of the node `asked`, or `None` if there is none. An address
/// without a host has the host of `asked`.
fn address_of(told: Option<&str>, asked: &str) -> Option<Arc<str>> {
    match told?.rsplit_once(':')? {
        ("" | "?", port) => asked.rsplit_once(':').map(|(host, _)| format!("{host}:{port}").into()),
        (host, port) => Some(format!("{host}:{port}").into()),
    }
}

/// Returns a reply as text, or `None` if it is neither a string nor an integer.
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
    fn error_replies_are_classified() {
        let of = |line: &str| {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            let Value::ServerError(error) = value else { panic!("{value:?}") };
            Refusal::of(&error, "10.0.0.1:7000")
        };
        assert_eq!(of("MOVED 3999 10.0.0.2:6381"), Refusal::Moved("10.0.0.2:6381".into()));
        assert_eq!(of("ASK 3999 10.0.0.2:6381"), Refusal::Ask("10.0.0.2:6381".into()));
        // Without a host, the host of the node that replied is meant.
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
