//! Transaction of a client: the requests queued since MULTI, and the watched keys.

use super::{read_batch::KeyHits, through::read_through};
use crate::{
    command::{self, Handler, ServerState, Spec, Write, chosen_protocol, database, subcommand},
    resp::{Args, OwnedRequests, Protocol, Reply},
    store::{Database, Store, Txn, Watch},
};
use bumpalo::Bump;
use std::{
    collections::{HashSet, VecDeque},
    mem,
    ops::Range,
    sync::Arc,
};

/// Requests queued between MULTI and EXEC.
#[derive(Default)]
struct Queue {
    requests: OwnedRequests,
    specs: Vec<&'static Spec>,
    /// `true` if a request was refused, so that EXEC must fail.
    aborted: bool,
}

/// Job of the commit thread for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitJob {
    /// Watch the keys of the request.
    Watch,
    /// Execute the queued requests.
    Execute,
}

/// Result of EXEC.
#[derive(Default)]
pub(super) struct ExecResult {
    /// Replies of the commands that read or write keys.
    replies: Reply,
    /// Protocol version of the first reply.
    protocol: Protocol,
    /// For each queued request, the end of its reply in `replies`.
    ends: Vec<usize>,
    /// Replies of the commands that read the state of the server.
    queries: VecDeque<Reply>,
    /// `true` if a watched key was modified and nothing was executed.
    changed: bool,
    /// Error that prevented the execution: a watched key could not be read.
    failed: Option<String>,
    found: KeyHits,
}

impl ExecResult {
    /// Returns `true` if the queued requests were executed.
    fn is_done(&self) -> bool {
        !self.changed && self.failed.is_none()
    }
}

/// One executed request of a transaction.
pub(super) struct Done<'t> {
    pub spec: &'static Spec,
    pub args: Args<'t>,
    /// Buffer and range of the request's reply; `None` for a command that needs neither keys nor the state of
    /// the server, and is executed when EXEC is answered.
    pub written: Option<(&'t Reply, Range<usize>)>,
}

/// Transaction of a client. Dropping it unwatches the keys.
pub(super) struct Transaction {
    store: Arc<Store>,
    queue: Option<Queue>,
    watched: HashSet<Watch>,
    /// Watched keys that the current commit job has added.
    added: Vec<Box<[u8]>>,
    pub task: Option<CommitJob>,
    executed: ExecResult,
}

/// Function that appends stored keys of a request in a database.
pub(super) type ListKeys = fn(&Spec, Args<'_>, Database, &mut Vec<Vec<u8>>);

/// Appends all stored keys of the request.
pub(super) fn list_all_keys(spec: &Spec, args: Args<'_>, space: Database, keys: &mut Vec<Vec<u8>>) {
    let arena = Bump::new();
    keys.extend(spec.keys_of(args).map(|key| space.encode_key(key, &arena).to_vec()));
}

/// Appends the stored keys that the request will probably read.
pub(super) fn list_keys_to_read(spec: &Spec, args: Args<'_>, space: Database, keys: &mut Vec<Vec<u8>>) {
    if !spec.is_blind(args) {
        list_all_keys(spec, args, space, keys);
    }
}

impl Transaction {
    pub fn new(store: Arc<Store>) -> Self {
        let (watched, added, executed) = Default::default();
        Self { store, queue: None, watched, added, task: None, executed }
    }

    /// Returns `true` between MULTI and EXEC or DISCARD.
    pub fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// Executes a transaction command as far as it needs no commit. Returns the job for the commit thread,
    /// `None` if the command is complete, or the error reply.
    pub fn step(&mut self, step: command::Transaction) -> Result<Option<CommitJob>, &'static str> {
        use command::Transaction::{Discard, Exec, Multi, Unwatch, Watch};
        match (step, &self.queue) {
            (Multi, Some(_)) => return Err("ERR MULTI calls can not be nested"),
            (Watch, Some(_)) => return Err("ERR WATCH inside MULTI is not allowed"),
            (Exec, None) => return Err("ERR EXEC without MULTI"),
            (Discard, None) => return Err("ERR DISCARD without MULTI"),
            (Exec, Some(queue)) if queue.aborted => {
                self.end();
                return Err("EXECABORT Transaction discarded because of previous errors.");
            }
            (Exec, Some(_)) => return Ok(Some(CommitJob::Execute)),
            (Watch, None) => return Ok(Some(CommitJob::Watch)),
            (Multi, None) => self.queue = Some(Queue::default()),
            (Discard, Some(_)) => self.end(),
            (Unwatch, _) => self.unwatch(),
        }
        Ok(None)
    }

    /// Queues a request, or writes an error if the queue would exceed `limit` bytes (0: no limit).
    pub fn push(&mut self, spec: &'static Spec, args: Args<'_>, limit: usize, reply: &mut Reply) {
        let Some(queue) = &mut self.queue else { return };
        if spec.is_kept_out_of_transactions() {
            queue.aborted = true;
            reply.error("ERR Command not allowed inside a transaction");
        } else if !spec.subcommands.is_empty()
            && args.len() > 1
            && subcommand(spec.name, spec.subcommands, args, reply).is_none()
        {
            queue.aborted = true;
        } else if queue.requests.push(args, limit) {
            queue.specs.push(spec);
            reply.simple("QUEUED");
        } else {
            queue.aborted = true;
            reply.error("ERR the transaction is larger than --client-query-buffer-limit");
        }
    }

    /// Records that a request was refused, so that EXEC fails; a refused EXEC ends the transaction at once.
    pub fn refuse(&mut self, is_exec: bool) {
        if is_exec {
            return self.end();
        }
        self.queue.iter_mut().for_each(|queue| queue.aborted = true);
    }

    /// Ends a commit job. A transaction is over after EXEC, even if EXEC failed.
    pub fn finish(&mut self) {
        self.added = Vec::new();
        if self.task.take() != Some(CommitJob::Watch) && self.is_open() {
            self.end();
        }
    }

    /// Discards the queued requests and unwatches the keys.
    fn end(&mut self) {
        self.queue = None;
        self.executed = ExecResult::default();
        self.unwatch();
    }

    /// Unwatches all keys.
    fn unwatch(&mut self) {
        self.watched.drain().for_each(|watch| self.store.unwatch(&watch));
    }

    /// Unwatches the keys that the current commit job has added.
    fn unwatch_added(&mut self) {
        for stored in mem::take(&mut self.added) {
            self.watched.take(&*stored).iter().for_each(|watch| self.store.unwatch(watch));
        }
    }

    /// Returns the size of the queued requests, in bytes.
    pub fn weight(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.requests.bytes())
    }

    /// Returns the first key of the commit job; `args` are the arguments of WATCH.
    pub fn first_key<'a>(&'a self, args: Args<'a>) -> Option<&'a [u8]> {
        if self.task == Some(CommitJob::Watch) {
            return (args.len() > 1).then(|| args.get(1));
        }
        let Queue { requests, specs, .. } = self.queue.as_ref()?;
        let mut queued = specs.iter().enumerate();
        queued.find_map(|(index, spec)| spec.keys_of(requests.get(index)?).next())
    }

    /// Appends the stored keys of `database` that the transaction uses and `list` selects. `args` are the arguments of
    /// WATCH, if the transaction executes one.
    pub fn list_keys(&self, args: Args<'_>, database: Database, list: ListKeys, keys: &mut Vec<Vec<u8>>) {
        if self.task == Some(CommitJob::Watch) {
            let arena = Bump::new();
            return keys.extend(args.from(1).map(|key| database.encode_key(key, &arena).to_vec()));
        }
        keys.extend(self.watched.iter().map(|watch| watch.key().to_vec()));
        let Some(Queue { requests, specs, .. }) = &self.queue else { return };
        for (index, spec) in specs.iter().enumerate() {
            if let Some(args) = requests.get(index) {
                list(spec, args, database, keys);
            }
        }
    }

    /// Returns `true` if a queued request may read or write very many keys.
    pub fn is_long(&self) -> bool {
        self.has(|action| matches!(action, Handler::Keys(_) | Handler::Write(Write::All(_))))
    }

    /// Returns `true` if the commit job is EXEC and neither its condition nor any queued request reads a key.
    pub fn is_blind(&self) -> bool {
        let Some(Queue { requests, specs, .. }) = &self.queue else { return false };
        let mut requests = specs.iter().enumerate().map(|(index, spec)| (spec, requests.get(index)));
        self.task == Some(CommitJob::Execute)
            && self.watched.is_empty()
            && requests.all(|(spec, args)| args.is_some_and(|args| spec.is_blind(args)))
    }

    /// Returns `true` if a queued request reads the state of the server, which may take long.
    pub fn has_queries(&self) -> bool {
        self.has(|action| matches!(action, Handler::Query(_)))
    }

    fn has(&self, is: impl Fn(&Handler) -> bool) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.specs.iter().any(|spec| is(&spec.action)))
    }

    /// Executes the commit job; `args` are the arguments of WATCH.
    pub fn run<'g>(&'g mut self, args: Args<'g>, space: Database, txn: &mut Txn<'g>, reply: &mut Reply) {
        match self.task {
            Some(CommitJob::Watch) => self.watch(args, txn, reply),
            Some(CommitJob::Execute) => self.execute(space, txn, reply),
            None => {}
        }
    }

    fn watch(&mut self, args: Args<'_>, txn: &mut Txn<'_>, reply: &mut Reply) {
        for key in args.from(1) {
            match txn.watch(key, &self.watched) {
                Ok(Some(watch)) => {
                    self.added.push(watch.key().into());
                    self.watched.insert(watch);
                }
                Ok(None) => {}
                Err(error) => {
                    self.unwatch_added();
                    return reply.error(error.to_string());
                }
            }
        }
        reply.ok();
    }

    fn execute<'g>(&'g mut self, mut space: Database, txn: &mut Txn<'g>, reply: &Reply) {
        let Self { queue: Some(queue), executed, watched, .. } = self else { return };
        let (replies, protocol) = (reply.aside(), reply.protocol());
        *executed = ExecResult { replies, protocol, ..ExecResult::default() };
        match txn.are_unchanged(watched) {
            Ok(unchanged) => executed.changed = !unchanged,
            Err(error) => executed.failed = Some(error.to_string()),
        }
        if !executed.is_done() {
            return;
        }
        txn.select(space);
        for (index, spec) in queue.specs.iter().enumerate() {
            let Some(args) = queue.requests.get(index) else { break };
            let mut is_long = false;
            command::answer(&mut executed.replies, |reply| {
                let outcome = run_one(spec, args, &mut space, txn, &mut executed.found, reply);
                is_long = matches!(&outcome, Err(error) if error.is_long());
                outcome
            });
            if is_long {
                return txn.give_up();
            }
            executed.ends.push(executed.replies.len());
        }
    }

    /// Executes the queued requests that read the state of the server, after the commit.
    pub fn query(&mut self, context: &ServerState) {
        let Self { queue: Some(Queue { requests, specs, .. }), executed, .. } = self else { return };
        if !executed.is_done() {
            return;
        }
        let mut protocol = executed.protocol;
        for (index, spec) in specs.iter().enumerate() {
            let Some(args) = requests.get(index) else { break };
            if spec.name == HELLO {
                protocol = chosen_protocol(args).unwrap_or(protocol);
            }
            if let Handler::Query(run) = spec.action {
                let mut reply = executed.replies.aside();
                reply.set_protocol(protocol);
                command::answer(&mut reply, |reply| run(context, args, reply));
                executed.queries.push_back(reply);
            }
        }
    }

    /// Undoes the commit job, of which nothing was committed.
    pub fn rewind(&mut self) {
        self.executed = ExecResult::default();
        self.unwatch_added();
    }

    /// Returns the number of queued requests; `None` without a transaction.
    pub fn queued(&self) -> Option<usize> {
        self.queue.as_ref().map(|queue| queue.specs.len())
    }

    /// Returns `true` if a queued request writes.
    pub fn writes(&self) -> bool {
        self.has(|action| matches!(action, Handler::Write(_)))
    }

    /// Begins the reply to EXEC and ends the transaction. Returns `None` if the reply is complete because
    /// nothing was executed.
    pub fn answers(&mut self, reply: &mut Reply) -> Option<Answers> {
        let executed = mem::take(&mut self.executed);
        let queue = self.queue.take()?;
        self.unwatch();
        if executed.changed {
            reply.null_array();
            return None;
        }
        if let Some(error) = executed.failed {
            reply.error(error);
            return None;
        }
        reply.array(queue.specs.len());
        Some(Answers { queue, executed, next: 0, start: 0 })
    }
}

/// Replies to the requests that EXEC has executed.
pub(super) struct Answers {
    queue: Queue,
    executed: ExecResult,
    /// Index of the next request.
    next: usize,
    /// Position at which the reply of the next request begins.
    start: usize,
}

impl Answers {
    /// Answers the next `most` requests by calling `answer` for each. Returns `true` if more requests remain.
    pub fn step(
        &mut self,
        most: usize,
        reply: &mut Reply,
        mut answer: impl FnMut(Done<'_>, &mut Reply),
    ) -> bool {
        let Self { queue: Queue { requests, specs, .. }, executed, next, start } = self;
        let ExecResult { replies, ends, queries, .. } = executed;
        for (spec, end) in specs.iter().zip(&*ends).skip(*next).take(most) {
            let query = matches!(spec.action, Handler::Query(_)).then(|| queries.pop_front()).flatten();
            let written = match &query {
                Some(told) => Some((told, 0..told.len())),
                None => spec.action.is_of_keys().then_some((&*replies, *start..*end)),
            };
            if let Some(args) = requests.get(*next) {
                answer(Done { spec, args, written }, reply);
            }
            (*next, *start) = (*next + 1, *end);
        }
        *next < ends.len()
    }

    /// Returns the hits and misses of the transaction's reads.
    pub fn found(&self) -> KeyHits {
        self.executed.found
    }

    /// Returns the size of the queued requests, in bytes.
    pub fn bytes(&self) -> usize {
        self.queue.requests.bytes()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.unwatch();
    }
}

const HELLO: &str = "hello";

/// Executes one queued request if it reads or writes keys; other requests write no reply here.
fn run_one<'g>(
    spec: &Spec,
    args: Args<'g>,
    space: &mut Database,
    txn: &mut Txn<'g>,
    found: &mut KeyHits,
    reply: &mut Reply,
) -> Result<(), crate::command::Error> {
    match spec.action {
        Handler::Read(read) => read_through(read, args, txn, found, reply)?,
        Handler::Write(
            Write::Blind(run) | Write::BlindWithoutOptions(run) | Write::Seeing(run) | Write::All(run),
        ) => {
            run(args, txn, reply)?;
        }
        Handler::Write(Write::Each(write)) => {
            let mut count = 0;
            for key in args.from(1) {
                count += i64::from(write(key, txn)?);
            }
            reply.integer(count);
        }
        Handler::Keys(run) => run(txn, args, reply)?,
        Handler::Session(_) if spec.name == HELLO => {
            // HELLO is answered later, but sets the protocol of the replies that follow.
            reply.set_protocol(chosen_protocol(args).unwrap_or(reply.protocol()));
        }
        Handler::Session(_) if spec.name == "select" => {
            *space = database(args.get(1)).unwrap_or(*space);
            txn.select(*space);
        }
        Handler::Session(_) | Handler::Query(_) | Handler::Table(_) | Handler::Transaction(_) => {}
    }
    Ok(())
}
