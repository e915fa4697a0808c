//! Request batch: the bytes that a connection received, the decoded requests, and the replies.

use super::{
    each::Progress,
    read_batch::{KeyHits, ReadCursor, reading},
    transaction::{CommitJob, Transaction},
};
use crate::{
    command::{
        self, CommandTable, Handler, KeysCommand, Lookup, QueryCommand, Read, ServerState, SessionCommand,
        Spec, TableCommand,
    },
    engine::VisitValue,
    resp::{Args, Input, Partial, Reply, Requests},
    store::{self, Database, ExpirationClock, Store},
};
use bumpalo::Bump;
use std::{mem, ops::ControlFlow};
use tokio::sync::oneshot;

/// Maximum number of bytes per read from a socket.
const READ_SIZE: usize = 64 << 10;

/// Size of the replies in bytes from which they are sent before the next request is executed, so that a
/// connection holds little more than one reply.
pub(super) const REPLY_SIZE: usize = 256 << 10;

/// Maximum number of reply bytes that a worker copies in one step.
const MAX_COPY_ON_WORKER: usize = 2 << 20;

/// Maximum number of requests that are answered under one snapshot.
const MAX_READS_PER_STEP: usize = 1024;

/// Size in bytes above which a request, or the value that it works on, is large. A large request is a step of
/// its own and does not delay the worker.
pub(super) const LARGE: usize = 256 << 10;

/// Buffers of one active connection. They come from the worker's pool, are moved as a whole to the thread that
/// commits or reads, and return with the replies.
pub(super) struct RequestBatch {
    pub input: Input,
    pub requests: Requests,
    pub reply: Reply,
    pub(super) lookups: Vec<Lookup>,
    /// `true` if all requests have the same command.
    is_single_command: bool,
    /// Index of the next request to execute.
    pub(super) next: usize,
    /// Index after the last request of the current step.
    pub(super) end: usize,
    /// Progress of the next request, if it takes several commits.
    pub(super) each: Progress,
    /// `true` if the next request was found to work on a large value and was therefore not executed.
    pub(super) found_large: bool,
    /// `true` if the current step is a request on a large value.
    pub(super) works_on_large: bool,
    /// State at the start of the current write step: length of the reply, index of the request, and progress of
    /// that request.
    pub(super) begin: (usize, usize, Progress),
    /// Positions at which the replies of the write step end, without the last one, if each request is committed
    /// by itself.
    pub(super) reply_ends: Vec<usize>,
    /// Worker and connection to which the commit thread returns this batch.
    pub home: Option<ReplyTo>,
    keys: Vec<&'static [u8]>,
    /// Hits and misses of the reads in the current step.
    pub(super) found: KeyHits,
    /// Database selected by the client.
    pub space: Database,
    /// Transaction of the client, while a commit job for it is in progress.
    pub transaction: Option<Box<Transaction>>,
}

/// Worker and connection that wait for a request batch.
pub(super) struct ReplyTo {
    pub worker: usize,
    pub connection: oneshot::Sender<Box<RequestBatch>>,
}

/// Kind of the next step of a request batch.
pub(super) enum StepKind {
    /// One request that is answered at once.
    Session(SessionCommand),
    /// Reads under one snapshot.
    Read,
    /// Writes and the reads between them, in one commit.
    Write,
    /// One command that reads many keys.
    Keys(KeysCommand),
    /// One command that reads the state of the server.
    Query(QueryCommand),
    /// One command that describes commands.
    Table(TableCommand),
    /// One transaction command.
    Transaction(command::Transaction),
    /// One request to queue for EXEC.
    Queue,
    /// One request that cannot be executed; the reply is an error.
    Refused,
    /// One request that is refused because the client has not authenticated.
    Locked,
}

impl RequestBatch {
    pub fn new() -> Self {
        Self {
            input: Input::with_capacity(READ_SIZE),
            requests: Requests::default(),
            reply: Reply::default(),
            lookups: Vec::new(),
            is_single_command: false,
            next: 0,
            end: 0,
            each: Progress::default(),
            found_large: false,
            works_on_large: false,
            begin: (0, 0, Progress::default()),
            reply_ends: Vec::new(),
            home: None,
            keys: Vec::new(),
            found: KeyHits::default(),
            space: Database::default(),
            transaction: None,
        }
    }

    /// Returns the allocated memory, in bytes.
    pub fn capacity(&self) -> usize {
        let keys = self.keys.capacity() * size_of::<&[u8]>();
        let lookups = self.lookups.capacity() * size_of::<Lookup>();
        let keys = keys + self.reply_ends.capacity() * size_of::<usize>();
        self.input.capacity() + self.requests.capacity() + self.reply.capacity() + keys + lookups
    }

    /// Returns `true` if request `index` is too large to be executed on a worker.
    fn is_large(&self, index: usize) -> bool {
        self.input.len() > LARGE && self.requests.size(index) > LARGE
    }

    /// Returns `true` if the next step is too large for a worker.
    pub fn is_next_large(&self) -> bool {
        self.works_on_large || self.is_large(self.next) || self.is_next_of_all_keys()
    }

    /// Returns `true` if the next request is about all keys.
    pub fn is_next_of_all_keys(&self) -> bool {
        matches!(self.lookups.get(self.next), Some(Lookup::Known(spec)) if spec.action.is_of_all_keys())
    }

    /// Returns `true` if the next request writes.
    pub fn is_next_write(&self) -> bool {
        matches!(self.lookups.get(self.next), Some(Lookup::Known(spec)) if spec.writes())
    }

    /// Returns `true` if the last step left a request incomplete or unexecuted; a further step continues it.
    pub fn is_midway(&self) -> bool {
        self.each.has_begun() || self.found_large
    }

    /// Looks up the commands of the decoded requests.
    pub fn resolve(&mut self, commands: &CommandTable) {
        self.lookups.clear();
        self.next = 0;
        self.lookups.reserve(self.requests.len());
        self.found_large = false;
        let (mut last, mut kinds) = (None, 0);
        for args in self.requests.from(0, self.input.bytes()) {
            self.lookups.push(commands.lookup(args, &mut last, &mut kinds));
        }
        self.is_single_command = kinds == 1;
    }

    /// Marks the requests whose keys are in several hash slots.
    pub fn mark_cross_slot(&mut self, store: &Store) {
        let requests = self.requests.from(0, self.input.bytes());
        for (lookup, args) in self.lookups.iter_mut().zip(requests) {
            if let Lookup::Known(spec) = *lookup {
                let mut keys =
                    spec.keys_of(args).map(|key| store.slot(self.space.encode_key(key, &Bump::new())));
                let first = keys.next();
                if first.is_some() && keys.any(|slot| Some(slot) != first) {
                    *lookup = Lookup::CrossSlot(spec);
                }
            }
        }
    }

    /// Returns the step that begins with the next request; `None` if all requests are answered.
    pub fn next_run(&mut self) -> Option<StepKind> {
        let first = self.next;
        self.works_on_large = mem::take(&mut self.found_large);
        let Lookup::Known(spec) = *self.lookups.get(first)? else {
            self.end = first + 1;
            return Some(StepKind::Refused);
        };
        self.end = first + 1;
        Some(match spec.action {
            Handler::Session(run) => StepKind::Session(run),
            Handler::Keys(run) => StepKind::Keys(run),
            Handler::Query(run) => StepKind::Query(run),
            Handler::Table(run) => StepKind::Table(run),
            Handler::Transaction(step) => StepKind::Transaction(step),
            Handler::Read(_) => {
                self.end = self.extend(|action| matches!(action, Handler::Read(_)), |_| true);
                StepKind::Read
            }
            Handler::Write(_) => {
                self.begin = (self.reply.len(), first, self.each);
                // Reads between writes are executed in the transaction of the writes: one commit for all of
                // them.
                let joins = |action: &Handler| {
                    matches!(action, Handler::Read(_) | Handler::Write(_)) && !action.is_of_all_keys()
                };
                self.end = self.extend(joins, |action| matches!(action, Handler::Write(_)));
                StepKind::Write
            }
        })
    }

    /// Returns the next step between MULTI and EXEC: always one request.
    pub fn next_run_in_transaction(&self) -> Option<StepKind> {
        Some(match *self.lookups.get(self.next)? {
            Lookup::Known(spec) => match spec.action {
                Handler::Transaction(step) if step != command::Transaction::Unwatch => {
                    StepKind::Transaction(step)
                }
                Handler::Session(run) if spec.ends_transaction() => StepKind::Session(run),
                _ => StepKind::Queue,
            },
            Lookup::Arity(_) | Lookup::CrossSlot(_) | Lookup::Unknown => StepKind::Refused,
        })
    }

    /// Prepares a commit job of the client's transaction, for the next request.
    pub fn begin_task(&mut self, task: CommitJob, mut transaction: Box<Transaction>, is_large: bool) {
        transaction.task = Some(task);
        self.works_on_large = is_large;
        self.transaction = Some(transaction);
        self.begin = (self.reply.len(), self.next, self.each);
        self.end = self.next + 1;
    }

    /// Prepares the commit job for a second execution, and returns `true`, if the first one found a large
    /// value.
    pub fn begin_again(&mut self) -> bool {
        self.works_on_large = mem::take(&mut self.found_large);
        self.works_on_large
    }

    /// Returns the next step of a client that has not authenticated: always one request.
    pub fn next_run_before_auth(&self) -> Option<StepKind> {
        Some(match *self.lookups.get(self.next)? {
            Lookup::Known(Spec { action: Handler::Session(run), before_auth: true, .. }) => {
                StepKind::Session(*run)
            }
            Lookup::Known(_) | Lookup::CrossSlot(_) => StepKind::Locked,
            Lookup::Arity(_) | Lookup::Unknown => StepKind::Refused,
        })
    }

    /// Returns the end of the step: after the last request for which `last` returns `true`, and before the
    /// first one for which `joins` returns `false`.
    fn extend(&self, joins: impl Fn(&Handler) -> bool, last: impl Fn(&Handler) -> bool) -> usize {
        let mut end = self.end;
        if self.is_next_large() {
            return end;
        }
        let rest = self.lookups.get(end..).unwrap_or_default();
        for (index, found) in rest.iter().enumerate() {
            let Lookup::Known(spec) = found else { break };
            if !joins(&spec.action) || self.is_large(self.end + index) {
                break;
            }
            if last(&spec.action) {
                end = self.end + index + 1;
            }
        }
        end
    }

    /// Returns the index of the next request to execute.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Returns the arguments of request `index`.
    pub fn args(&self, index: usize) -> Option<Args<'_>> {
        self.requests.get(index, self.input.bytes())
    }

    /// Returns the looked-up commands of all requests, and `true` if all of them have the same command.
    pub fn lookups(&self) -> (&[Lookup], bool) {
        (&self.lookups, self.is_single_command)
    }

    /// Limits the next step to one request.
    pub fn limit_to_one(&mut self) {
        self.end = self.end.min(self.next + 1);
    }

    /// Limits the next step to one request, or to the requests at its start that write without reading.
    pub fn limit_to_blind(&mut self) {
        let blind = (self.next..self.end).take_while(|index| self.is_blind_at(*index)).count();
        self.end = self.next + blind.max(1);
    }

    /// Returns `true` if request `index` writes without reading any key.
    pub(super) fn is_blind_at(&self, index: usize) -> bool {
        let Some(Lookup::Known(spec)) = self.lookups.get(index) else { return false };
        self.args(index).is_some_and(|args| spec.is_blind(args))
    }

    /// Executes the next request with `answer`, which writes the reply.
    pub fn answer_one(&mut self, answer: impl FnOnce(Lookup, Args<'_>, &mut Reply)) {
        if let Some(args) = self.requests.get(self.next, self.input.bytes())
            && let Some(found) = self.lookups.get(self.next)
        {
            answer(*found, args, &mut self.reply);
        }
        self.next += 1;
    }

    /// Executes the read step, or as much of it as a worker may copy. Returns the number of answered requests,
    /// and `true` if the next one is too large for a worker.
    pub fn read_on_worker(&mut self, store: &Store) -> (usize, bool) {
        self.read_up_to(store, MAX_COPY_ON_WORKER)
    }

    /// Executes the read step, or as much of it as fits into the reply. Returns the number of answered
    /// requests.
    pub fn read(&mut self, store: &Store) -> usize {
        self.read_up_to(store, usize::MAX).0
    }

    /// Returns the keys of the read step, encoded for the engine, in at most `most` chunks.
    pub fn key_chunks(&self, most: usize) -> Vec<Vec<Vec<u8>>> {
        let (mut keys, arena) = (Vec::new(), Bump::new());
        let run =
            self.lookups.get(self.next..self.end.min(self.next + MAX_READS_PER_STEP)).unwrap_or_default();
        list_keys(run, self.requests.from(self.next, self.input.bytes()), self.space, &arena, &mut keys);
        let length = keys.len().div_ceil(most.max(1)).max(1);
        keys.chunks(length).map(|part| part.iter().map(|key| key.to_vec()).collect()).collect()
    }

    fn read_up_to(&mut self, store: &Store, most: usize) -> (usize, bool) {
        self.answer_reads(most, |keys, visit| match most {
            usize::MAX => store.read_long(keys, visit),
            _ => store.read(keys, visit),
        })
    }

    /// Answers the read step with the values that `read` returns.
    pub(super) fn answer_reads(
        &mut self,
        most: usize,
        mut read: impl FnMut(&[&[u8]], &mut VisitValue<'_>) -> Result<(), store::Error>,
    ) -> (usize, bool) {
        let (first, mut too_much, mut walked) = (self.next, false, 0);
        let mut keys = recycle(mem::take(&mut self.keys));
        let (arena, moment) = (Bump::new(), ExpirationClock::default());
        let mut cursor = ReadCursor::new(self.next, self.reply.len());
        let (lookups, requests, data) = (&self.lookups, &self.requests, self.input.bytes());
        // Limited, because the keys that a full reply leaves over are listed again in the next step.
        let run = lookups.get(self.next..self.end.min(self.next + MAX_READS_PER_STEP)).unwrap_or_default();
        list_keys(run, requests.from(self.next, data), self.space, &arena, &mut keys);
        let (reply, mut first_key) = (&mut self.reply, 0);
        let outcome = loop {
            let keys = keys.get(first_key..).unwrap_or_default();
            let visit = &mut |_, value: Option<&[u8]>| {
                if reply.has_overflowed() {
                    return ControlFlow::Break(());
                }
                if value.map_or(0, <[u8]>::len)
                    > most.saturating_sub(walked + reply.len() - cursor.reply_start)
                {
                    too_much = true;
                    reply.truncate(cursor.reply_start);
                    return ControlFlow::Break(());
                }
                if let Some((read, args)) = reading(lookups, requests, data, cursor.at) {
                    cursor.answer(read, args, value, &moment, reply);
                    if let Read::Whole(_) = read {
                        walked += value.map_or(0, <[u8]>::len);
                    }
                }
                if cursor.key == 0 && reply.len() >= REPLY_SIZE {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let outcome = read(keys, visit);
            // A value that cannot be read fails only its own request. The requests after it see a later
            // snapshot.
            match (&outcome, reading(lookups, requests, data, cursor.at)) {
                (Err(error), Some((read, args))) if let Some(index) = error.index_of_value() => {
                    first_key += index + 1 + cursor.fail(read, args, error, reply);
                }
                _ => break outcome,
            }
        };
        self.keys = recycle(keys);
        self.next = cursor.at;
        self.found.add(cursor.found);
        if let Err(error) = outcome {
            self.reply.truncate(cursor.reply_start);
            while self.next < self.end {
                self.reply.error(error.to_string());
                self.next += 1;
            }
        }
        (self.next - first, too_much)
    }

    /// Executes a command that reads the state of the server.
    pub fn query(&mut self, context: &ServerState, run: QueryCommand) {
        self.answer_one(|_, args, reply| command::answer(reply, |reply| run(context, args, reply)));
    }

    /// Executes a command that reads many keys.
    pub fn look(&mut self, store: &Store, run: KeysCommand) {
        let mut view = store.view(self.space);
        self.answer_one(|_, args, reply| command::answer(reply, |reply| run(&mut view, args, reply)));
    }

    /// Returns the hits and misses since the previous call.
    pub fn take_found(&mut self) -> KeyHits {
        mem::take(&mut self.found)
    }

    /// Removes and returns the received part of an incomplete request.
    pub fn take_partial(&mut self) -> Partial {
        Partial::take(&mut self.input, &mut self.requests)
    }

    /// Puts an incomplete request back in front of the bytes to be received.
    pub fn restore(&mut self, partial: Partial) {
        partial.restore(&mut self.input, &mut self.requests);
    }
}

/// Appends the keys of the reads in `run`, encoded for the engine, to `keys`.
#[inline]
fn list_keys<'k>(
    run: &[Lookup],
    requests: impl Iterator<Item = Args<'k>>,
    space: Database,
    arena: &'k Bump,
    keys: &mut Vec<&'k [u8]>,
) {
    for (found, args) in run.iter().zip(requests) {
        match found {
            Lookup::Known(Spec {
                action: Handler::Read(Read::One(_) | Read::Entry(_) | Read::Whole(_)),
                ..
            }) => keys.push(space.encode_key(args.get(1), arena)),
            Lookup::Known(Spec { action: Handler::Read(Read::Each(_) | Read::Count(_)), .. }) => {
                keys.extend(args.from(1).map(|key| space.encode_key(key, arena)));
            }
            _ => {}
        }
    }
}

/// Empties a vector of borrowed keys and gives its memory another lifetime; the closure is never called.
fn recycle<'b>(mut keys: Vec<&[u8]>) -> Vec<&'b [u8]> {
    keys.clear();
    keys.into_iter().map(|_| &[][..]).collect()
}
