//! A request, what it changes, and what became of it.

use super::value::Content;
use std::time::Duration;

/// What each key holds.
pub(super) type State = Vec<Option<Content>>;

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    To(Option<Content>),
    Add,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Unknown,
    /// With the number in the reply to an INCR.
    Acknowledged(i64),
    Refused,
}

pub(super) struct Sent {
    pub changes: Vec<(usize, Change)>,
    pub fate: RequestOutcome,
    /// When it was acknowledged, since the start of the load.
    pub at: Duration,
}

/// What must be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Expected {
    Ok,
    Number(i64),
    /// The value, or its absence.
    Value(Option<Content>),
    /// So many OKs.
    All(usize),
    /// Any, since an earlier request was refused.
    Any,
}

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// A request, and what must be answered.
pub(in super::super) struct Request {
    /// Commands that are sent together.
    pub commands: Vec<Words>,
    /// The one of them whose reply counts. The others are answered by a word; an error of any is one of the request.
    pub counts: usize,
    pub expected: Expected,
    /// Its number among the writes.
    pub write: Option<usize>,
}

/// What a key was found to hold.
#[derive(Clone, Debug)]
pub(in super::super) struct ObservedValue {
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970; -1 is never. `None` where the server cannot tell.
    pub deadline: Option<i64>,
}

/// What a key holds after a change.
pub(super) fn after(before: Option<Content>, change: Change) -> Option<Content> {
    match (change, before) {
        (Change::To(content), _) => content,
        (Change::Add, None) => Some(Content::Number(1)),
        (Change::Add, Some(Content::Number(number))) => Some(Content::Number(number + 1)),
        (Change::Add, Some(_)) => Some(Content::Foreign),
    }
}
