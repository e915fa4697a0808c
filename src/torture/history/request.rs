//! A request, its changes, and its outcome.

use super::value::Content;
use std::time::Duration;

/// Value of each key of a client; `None` if the key is absent.
pub(super) type State = Vec<Option<Content>>;

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    To(Option<Content>),
    Add,
}

/// Outcome of a write, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Unknown,
    /// The reply was received. The number is that of the reply to INCR or DEL, otherwise 0.
    Acknowledged(i64),
    Refused,
}

pub(super) struct Sent {
    pub changes: Vec<(usize, Change)>,
    pub fate: RequestOutcome,
    /// Time at which the write was acknowledged, since the start of the load.
    pub at: Duration,
}

/// Reply that a request must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Expected {
    Ok,
    Number(i64),
    /// A bulk string with this value, or null for `None`.
    Value(Option<Content>),
    /// An array of this many `+OK` replies.
    All(usize),
    /// Any reply, since an earlier request was refused.
    Any,
}

/// Name and arguments of a command that is sent.
pub(super) type Words = Vec<Vec<u8>>;

/// Request of a client, with its expected reply.
pub(in super::super) struct Request {
    /// Commands of the request, which are sent together.
    pub commands: Vec<Words>,
    /// Index in `commands` of the command whose reply is compared with `expected`. The others are answered by a simple
    /// string; an error reply to any of them is an error of the request.
    pub checked_command: usize,
    pub expected: Expected,
    /// Index of the request among the client's writes; `None` for a read.
    pub write: Option<usize>,
}

/// Value that a key was found to hold after a restart.
#[derive(Clone, Debug)]
pub(in super::super) struct ObservedValue {
    pub value: Vec<u8>,
    /// Expiration time in Unix time in milliseconds; -1 for never, `None` if the server cannot report it.
    pub deadline: Option<i64>,
}

/// Returns the value of a key that held `before`, after a change.
pub(super) fn after(before: Option<Content>, change: Change) -> Option<Content> {
    match (change, before) {
        (Change::To(content), _) => content,
        (Change::Add, None) => Some(Content::Number(1)),
        (Change::Add, Some(Content::Number(number))) => Some(Content::Number(number + 1)),
        (Change::Add, Some(_)) => Some(Content::Foreign),
    }
}
