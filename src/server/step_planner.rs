//! Division of a request batch into steps. Everything about a step is decided before the step runs: from the commands,
//! the sizes of the requests, and the queue of the transaction. The execution of a step may stop early, for example
//! because the replies are long; the remaining requests are then planned again.

use super::{request_batch::RequestBatch, transaction::Transaction};
use crate::{
    command::{
        self, BlockingCommand, Handler, KeyspaceCommand, Lookup, Refusal, SessionCommand, Spec, TableCommand,
        flags::{Flags, NO_AUTH, WHOLE_KEYSPACE, WHOLE_VALUE, WRITE},
    },
    store::{Database, Store},
};
use std::ops::Range;

/// Size in bytes above which a request that reads or writes keys is executed alone, and not on a worker.
const MAX_REQUEST_ON_WORKER: usize = 256 << 10;

/// Total size of the queued requests in bytes above which EXEC is not executed on a worker.
const MAX_EXEC_ON_WORKER: usize = 64 << 10;

/// Kind of the consecutive requests that are executed together (a step).
#[derive(Clone, Copy, Debug)]
pub(super) enum StepKind {
    /// Read requests, under one snapshot.
    Read,
    /// Write requests and the reads between them, in one commit; with hash slots, one write, or several that read
    /// nothing and of which each is committed by itself.
    Write,
    /// One command that reads keys through a [`Keyspace`](crate::store::Keyspace), often many, executed on a blocking
    /// thread.
    Keyspace(KeyspaceCommand),
    /// One request that the worker answers from the state of the connection and of the server.
    Session(SessionCommand),
    /// One command that describes commands, such as COMMAND, answered by a blocking thread: it may name millions of them.
    Commands(TableCommand),
    /// One command that reads or changes the state of the server and may take long, executed on a blocking thread.
    Blocking(BlockingCommand),
    /// One request to queue for EXEC.
    Queue,
    /// One of the commands MULTI, EXEC, DISCARD, WATCH and UNWATCH.
    Transaction(command::Transaction),
    /// One request that cannot be executed; the reply is an error.
    Refuse,
    /// One request that is refused because the client has not authenticated.
    NoAuth,
}

/// Consecutive requests of a request batch that are executed together.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub kind: StepKind,
    /// Indexes of the requests in the request batch.
    pub requests: Range<usize>,
    /// Database that the client had selected before these requests.
    pub database: Database,
    /// `true` if the requests may take too long for a worker, because of their size, the number of their keys, or the
    /// values that they read as a whole, so that another thread executes them. Unused for [`StepKind::Session`] and
    /// [`StepKind::Queue`], which are always executed on the worker.
    pub is_large: bool,
}

/// State of a connection that decides how its requests are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientMode {
    /// Requests are executed, adjacent ones together if possible.
    Normal,
    /// Requests are executed, each one alone, because CLIENT REPLY SKIP suppresses one reply.
    OneByOne,
    /// Requests are refused, except the few that need no authentication ([`NO_AUTH`]), such as AUTH and HELLO.
    BeforeAuth,
}

/// Returns the next step of the batch: the requests, from the next one on, that are executed together. `None` if all
/// requests are answered.
pub(super) fn next_step(
    batch: &RequestBatch,
    (mode, database): (ClientMode, Database),
    transaction: Option<&Transaction>,
    store: &Store,
) -> Option<Step> {
    let (first, lookup) = (batch.next, *batch.lookups.get(batch.next)?);
    let is_one_by_one = mode == ClientMode::OneByOne || batch.is_split;
    let is_large = is_large_request(batch, first);
    let step = |kind| Step { kind, requests: first..first + 1, database, is_large };
    let is_locked = mode == ClientMode::BeforeAuth;
    let spec = match lookup {
        Lookup::Known(spec, _) if !is_locked || spec.has(NO_AUTH) => spec,
        Lookup::Known(..) => return Some(step(StepKind::NoAuth)),
        Lookup::Refused(_, _, Refusal::CrossSlot) if is_locked => return Some(step(StepKind::NoAuth)),
        Lookup::Refused(..) | Lookup::Unknown => return Some(step(StepKind::Refuse)),
    };
    if transaction.is_some_and(Transaction::is_open) && !spec.is_executed_in_multi() {
        return Some(step(StepKind::Queue));
    }
    Some(match spec.handler {
        Handler::Read(_) => {
            let joins = |spec: &Spec| matches!(spec.handler, Handler::Read(_));
            let end = if is_one_by_one { first + 1 } else { extend(batch, joins, |_| true).0 };
            Step { requests: first..end, ..step(StepKind::Read) }
        }
        Handler::Write(_) | Handler::DeleteEach(_) => {
            // Reads between writes are executed in the transaction of the writes: one commit for all of them.
            let joins = |spec: &Spec| {
                (matches!(spec.handler, Handler::Read(_)) || spec.has(WRITE)) && !spec.has(WHOLE_KEYSPACE)
            };
            let (end, flags) = match is_one_by_one {
                true => (first + 1, spec.flags),
                // With hash slots each write is a commit of its own: a pipeline is not atomic. Writes that read
                // nothing are sent together.
                false if store.is_sharded() => {
                    let joins = |index: &usize| batch.is_blind(*index) && !is_large_request(batch, *index);
                    (first + (first..batch.lookups.len()).take_while(joins).count().max(1), spec.flags)
                }
                false => extend(batch, joins, |spec| spec.has(WRITE)),
            };
            // A read between the writes may read a value of any length.
            let is_large = is_large || spec.has(WHOLE_KEYSPACE) || flags & WHOLE_VALUE != 0;
            Step { requests: first..end, is_large, ..step(StepKind::Write) }
        }
        Handler::Transaction(command) => {
            let is_large = is_large
                || transaction
                    .is_some_and(|queued| queued.bytes() > MAX_EXEC_ON_WORKER || queued.takes_long());
            Step { is_large, ..step(StepKind::Transaction(command)) }
        }
        Handler::Keyspace(run) => step(StepKind::Keyspace(run)),
        Handler::Session(run) => step(StepKind::Session(run)),
        Handler::Commands(run) => step(StepKind::Commands(run)),
        Handler::Blocking(run) => step(StepKind::Blocking(run)),
        // The lookup accepts no request for it.
        Handler::Subcommands => step(StepKind::Refuse),
    })
}

fn is_large_request(batch: &RequestBatch, index: usize) -> bool {
    batch.input.len() > MAX_REQUEST_ON_WORKER && batch.requests.size(index) > MAX_REQUEST_ON_WORKER
}

/// Returns the end of the step that begins with the next request: after the last request for which `last` returns
/// `true`, and before the first one that is large, cannot be executed, or for which `joins` returns `false`. Also returns
/// the flags of all requests before that end; no flags if `joins` returns `false` for the first one.
fn extend(
    batch: &RequestBatch,
    joins: impl Fn(&Spec) -> bool,
    last: impl Fn(&Spec) -> bool,
) -> (usize, Flags) {
    let first = batch.next;
    let (mut end, mut flags, mut seen) = (first + 1, 0, 0);
    for (index, lookup) in batch.lookups.iter().enumerate().skip(first) {
        let Lookup::Known(spec, _) = lookup else { break };
        if !joins(spec) || is_large_request(batch, index) {
            break;
        }
        seen |= spec.flags;
        if last(spec) {
            (end, flags) = (index + 1, seen);
        }
    }
    (end, flags)
}
