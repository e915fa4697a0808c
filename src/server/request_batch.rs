//! One batch: what a connection received, what its requests are, and the replies.

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

/// Bytes read from a socket at a time.
const READ_SIZE: usize = 64 << 10;

/// Replies beyond this many bytes are sent before the next request runs, so that what a connection
/// holds is bounded by one reply.
pub(super) const REPLY_SIZE: usize = 256 << 10;

/// Bytes of one reply that are copied on a worker.
const MAX_COPY_ON_WORKER: usize = 2 << 20;

/// Most requests of a read run that are answered under one snapshot.
const MAX_READS_PER_STEP: usize = 1024;

/// A request of more bytes than this, or one that works on a longer value, is a run of its own, that does not hold
/// up the worker.
pub(super) const LARGE: usize = 256 << 10;

/// The buffers of one connection while it is active. They are lent by the worker's pool, moved as a
/// whole to the thread that commits or reads, and come back with the replies.
pub(super) struct RequestBatch {
    pub input: Input,
    pub requests: Requests,
    pub reply: Reply,
    pub(super) lookups: Vec<Lookup>,
    /// Whether all of them have the same name.
    is_single_command: bool,
    /// The next request to answer.
    pub(super) next: usize,
    /// The end of the run in progress.
    pub(super) end: usize,
    /// How far the next request has come, when it takes several commits.
    pub(super) each: Progress,
    /// Whether the next request was found to work on a large value, and was not carried out.
    pub(super) found_large: bool,
    /// Whether the run in progress is such a request.
    pub(super) works_on_large: bool,
    /// Length of the reply, request, and how far that had come, where the write run in progress began.
    pub(super) begin: (usize, usize, Progress),
    /// Where the replies of the write run's requests end, but for the last, where each is committed by itself.
    pub(super) reply_ends: Vec<usize>,
    /// Where the committing thread returns this.
    pub home: Option<ReplyTo>,
    keys: Vec<&'static [u8]>,
    /// What the reads of the run have found.
    pub(super) found: KeyHits,
    /// The database that its client has chosen.
    pub space: Database,
    /// The client's transaction, while there is something to do for it.
    pub transaction: Option<Box<Transaction>>,
}

/// A worker, and the connection on it that waits.
pub(super) struct ReplyTo {
    pub worker: usize,
    pub connection: oneshot::Sender<Box<RequestBatch>>,
}

/// What comes next in a batch.
pub(super) enum StepKind {
    /// A request that is answered at once.
    Session(SessionCommand),
    /// Reads, under one snapshot.
    Read,
    /// Writes and the reads between them, in one commit.
    Write,
    /// One look at many keys.
    Keys(KeysCommand),
    /// One look at the server.
    Query(QueryCommand),
    /// A description of the commands.
    Table(TableCommand),
    /// A step of a transaction.
    Transaction(command::Transaction),
    /// A request that is queued.
    Queue,
    /// No command; its error is the reply.
    Refused,
    /// A command for clients that have given the password.
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

    /// Memory held, in bytes.
    pub fn capacity(&self) -> usize {
        let keys = self.keys.capacity() * size_of::<&[u8]>();
        let lookups = self.lookups.capacity() * size_of::<Lookup>();
        let keys = keys + self.reply_ends.capacity() * size_of::<usize>();
        self.input.capacity() + self.requests.capacity() + self.reply.capacity() + keys + lookups
    }

    /// Whether a request is too large to be answered on a worker.
    fn is_large(&self, index: usize) -> bool {
        self.input.len() > LARGE && self.requests.size(index) > LARGE
    }

    /// Whether the run that comes next is too large for a worker.
    pub fn is_next_large(&self) -> bool {
        self.works_on_large
            || self.is_large(self.next)
            || matches!(self.lookups.get(self.next), Some(Lookup::Known(spec)) if spec.action.is_of_all_keys())
    }

    /// Whether the next request writes.
    pub fn is_next_write(&self) -> bool {
        matches!(self.lookups.get(self.next), Some(Lookup::Known(spec)) if spec.writes())
    }

    /// Whether the last run left a request half-way, or as it was: another run goes on with it.
    pub fn is_midway(&self) -> bool {
        self.each.has_begun() || self.found_large
    }

    /// Looks up the commands of newly decoded requests.
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

    /// Finds the requests whose keys are not in one slot, where there are slots.
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

    /// The run that begins at the next request; `None` when all are answered.
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
                // Reads between writes go through the transaction: one commit for all of them.
                let joins = |action: &Handler| {
                    matches!(action, Handler::Read(_) | Handler::Write(_)) && !action.is_of_all_keys()
                };
                self.end = self.extend(joins, |action| matches!(action, Handler::Write(_)));
                StepKind::Write
            }
        })
    }

    /// The same between MULTI and EXEC: one request at a time.
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

    /// Makes a task for the client's transaction of the next request.
    pub fn begin_task(&mut self, task: CommitJob, mut transaction: Box<Transaction>, is_large: bool) {
        transaction.task = Some(task);
        self.works_on_large = is_large;
        self.transaction = Some(transaction);
        self.begin = (self.reply.len(), self.next, self.each);
        self.end = self.next + 1;
    }

    /// Prepares to carry the task out once more, if it was found to work on a large value. Returns whether it was.
    pub fn begin_again(&mut self) -> bool {
        self.works_on_large = mem::take(&mut self.found_large);
        self.works_on_large
    }

    /// The same for a client that has not given the password: one request at a time.
    pub fn next_run_before_auth(&self) -> Option<StepKind> {
        Some(match *self.lookups.get(self.next)? {
            Lookup::Known(Spec { action: Handler::Session(run), before_auth: true, .. }) => {
                StepKind::Session(*run)
            }
            Lookup::Known(_) | Lookup::CrossSlot(_) => StepKind::Locked,
            Lookup::Arity(_) | Lookup::Unknown => StepKind::Refused,
        })
    }

    /// The end of the run: after the last request for which `last` holds, before the first for which
    /// `joins` does not.
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

    /// The next request to answer.
    pub fn position(&self) -> usize {
        self.next
    }

    /// The arguments of request `index`.
    pub fn args(&self, index: usize) -> Option<Args<'_>> {
        self.requests.get(index, self.input.bytes())
    }

    /// What the requests are, and whether all of them have the same name.
    pub fn lookups(&self) -> (&[Lookup], bool) {
        (&self.lookups, self.is_single_command)
    }

    /// Lets the run that comes next be of one request.
    pub fn limit_to_one(&mut self) {
        self.end = self.end.min(self.next + 1);
    }

    /// Lets the run that comes next be of one request, or of blind ones only.
    pub fn limit_to_blind(&mut self) {
        let blind = (self.next..self.end).take_while(|index| self.is_blind_at(*index)).count();
        self.end = self.next + blind.max(1);
    }

    /// Returns `true` if a request writes and looks at no key for that.
    pub(super) fn is_blind_at(&self, index: usize) -> bool {
        let Some(Lookup::Known(spec)) = self.lookups.get(index) else { return false };
        self.args(index).is_some_and(|args| spec.is_blind(args))
    }

    /// Answers the next request with `answer`.
    pub fn answer_one(&mut self, answer: impl FnOnce(Lookup, Args<'_>, &mut Reply)) {
        if let Some(args) = self.requests.get(self.next, self.input.bytes())
            && let Some(found) = self.lookups.get(self.next)
        {
            answer(*found, args, &mut self.reply);
        }
        self.next += 1;
    }

    /// Runs the read run, or as much of it as a worker should copy. Returns the number of requests, and whether
    /// the next one is too much for a worker.
    pub fn read_on_worker(&mut self, store: &Store) -> (usize, bool) {
        self.read_up_to(store, MAX_COPY_ON_WORKER)
    }

    /// Runs the read run, or as much of it as the reply may grow to. Returns the number of requests.
    pub fn read(&mut self, store: &Store) -> usize {
        self.read_up_to(store, usize::MAX).0
    }

    /// The keys of the read run, as the engine has them, in at most so many parts.
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

    /// Answers the read run with what `read` finds.
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
        // Bounded, because what a full reply leaves over is listed again.
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
            // A value that cannot be read fails its own request only. The requests behind it see a later snapshot.
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

    /// Runs the query.
    pub fn query(&mut self, context: &ServerState, run: QueryCommand) {
        self.answer_one(|_, args, reply| command::answer(reply, |reply| run(context, args, reply)));
    }

    /// Looks at keys.
    pub fn look(&mut self, store: &Store, run: KeysCommand) {
        let mut view = store.view(self.space);
        self.answer_one(|_, args, reply| command::answer(reply, |reply| run(&mut view, args, reply)));
    }

    /// What reads have found since this was asked for.
    pub fn take_found(&mut self) -> KeyHits {
        mem::take(&mut self.found)
    }

    /// Takes out the beginning of a request that is not complete.
    pub fn take_partial(&mut self) -> Partial {
        Partial::take(&mut self.input, &mut self.requests)
    }

    /// Puts it back in front of what will be received.
    pub fn restore(&mut self, partial: Partial) {
        partial.restore(&mut self.input, &mut self.requests);
    }
}

/// Lists the keys that the reads ask for, as the engine has them.
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

/// Empties a vector of borrowed keys and gives its memory another lifetime; the map never runs.
fn recycle<'b>(mut keys: Vec<&[u8]>) -> Vec<&'b [u8]> {
    keys.clear();
    keys.into_iter().map(|_| &[][..]).collect()
}
