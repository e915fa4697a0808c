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

/// Outcome of a request.
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
    /// Time of the acknowledgement since the start of the load.
    pub at: Duration,
}

/// Expected reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Expected {
    Ok,
    Number(i64),
    /// The value, or `None` for a null reply.
    Value(Option<Content>),
    /// An array of this many `OK`s.
    All(usize),
    /// Any reply, since an earlier request was refused.
    Any,
}

/// Name and arguments of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// A request with its expected reply.
pub(in super::super) struct Request {
    /// Commands that are sent together.
    pub commands: Vec<Words>,
    /// Index of the command whose reply is checked. The others are answered by a simple string; an error reply to
    /// any of them is an error of the request.
    pub counts: usize,
    pub expected: Expected,
    /// Index among the client's writes; `None` for a read.
    pub write: Option<usize>,
}

/// Value that a key was found to hold.
#[derive(Clone, Debug)]
pub(in super::super) struct ObservedValue {
    pub value: Vec<u8>,
    /// Expiration time in Unix time in milliseconds; -1 for never, `None` if the server cannot report it.
    pub deadline: Option<i64>,
}

/// Returns the value of a key after a change.
pub(super) fn after(before: Option<Content>, change: Change) -> Option<Content> {
    match (change, before) {
        (Change::To(content), _) => content,
        (Change::Add, None) => Some(Content::Number(1)),
        (Change::Add, Some(Content::Number(number))) => Some(Content::Number(number + 1)),
        (Change::Add, Some(_)) => Some(Content::Foreign),
    }
}
