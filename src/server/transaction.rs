//! Transaction of a client: the requests queued since MULTI, and the watched keys.

use crate::{
    command::{
        self, Done, Handler, KeyHits, Progress, Spec, StatsIndex, chosen_protocol, execute,
        flags::{CHOOSES_PROTOCOL, NO_MULTI, SELECTS_DATABASE, WHOLE_KEYSPACE, WHOLE_VALUE},
    },
    resp::{Args, OwnedRequests, Reply},
    store::{Database, MAX_COPIED_OR_READ, Store, Txn, Watch},
};
use bumpalo::Bump;
use std::{collections::HashSet, mem, sync::Arc};
use tokio::runtime::Handle;

/// Memory of watched keys, in bytes, above which they are not compared or unwatched on a worker: each of them takes the
/// lock of the store's watched keys.
const MAX_WATCHED_ON_WORKER: usize = 256 << 10;

/// Requests queued between MULTI and EXEC.
#[derive(Default)]
struct Queue {
    requests: OwnedRequests,
    commands: Vec<(&'static Spec, StatsIndex)>,
    /// Maximum size of the requests in bytes, and of the copies that EXEC makes of what they change; 0: no limit.
    limit: usize,
    /// `true` if a request was refused since MULTI, so that EXEC must fail.
    aborted: bool,
}

/// Work of the commands WATCH and EXEC that needs a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitJob {
    /// Watch the keys that the request WATCH names.
    Watch,
    /// Execute the requests that were queued since MULTI.
    Execute,
}

/// Result of the execution of EXEC.
#[derive(Default)]
pub(super) struct ExecResult {
    /// Replies of the queued commands that read or write keys.
    replies: Reply,
    /// Position in `replies` at which the reply to each queued request ends.
    ends: Vec<usize>,
    /// `true` if EXEC has executed nothing because a watched key was modified or has expired.
    changed: bool,
    /// Text of the error because of which EXEC has executed nothing: a watched key could not be read.
    failed: Option<String>,
    hits: KeyHits,
}

/// Transaction of a client: queued requests and watched keys. Dropping it unwatches the keys.
pub(super) struct Transaction {
    store: Arc<Store>,
    queue: Option<Queue>,
    watched: HashSet<Watch>,
    /// Memory of the watched keys in bytes.
    watched_bytes: usize,
    /// Stored keys that the current commit job (WATCH) has added to the watched keys.
    added: Vec<Box<[u8]>>,
    pub job: Option<CommitJob>,
    result: ExecResult,
}

/// Function that returns `true` for the requests whose keys will be listed.
pub(super) type SelectRequest = fn(&Spec, Args<'_>) -> bool;

/// Appends the stored forms of `keys`, keys of `database`, to `stored`.
pub(super) fn append_stored<'k>(
    keys: impl Iterator<Item = &'k [u8]>,
    database: Database,
    stored: &mut Vec<Vec<u8>>,
) {
    let arena = Bump::new();
    stored.extend(keys.map(|key| database.encode_key(key, &arena).to_vec()));
}

impl Transaction {
    pub fn new(store: Arc<Store>) -> Self {
        let (watched, added, result) = Default::default();
        Self { store, queue: None, watched, watched_bytes: 0, added, job: None, result }
    }

    /// Returns `true` if the client has sent MULTI, and not yet EXEC or DISCARD.
    pub fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// Executes a transaction command as far as it needs no commit. Returns the job that needs a commit, `None` if the
    /// command is complete, or the error reply.
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

    /// Returns `true` if the keys of the request WATCH fit into `limit` bytes (0: no limit), with those that the client
    /// watches.
    pub fn can_watch(&self, args: Args<'_>, limit: usize) -> bool {
        let more: usize = args.from(1).map(watched_bytes).sum();
        limit == 0 || self.watched_bytes + more <= limit
    }

    /// Queues a request for EXEC and replies `QUEUED`. If the command is not allowed, or the queue would exceed
    /// `limit` bytes (0: no limit), replies with an error, and EXEC fails.
    pub fn push(
        &mut self,
        (spec, index): (&'static Spec, StatsIndex),
        args: Args<'_>,
        limit: usize,
        reply: &mut Reply,
    ) {
        let Some(queue) = &mut self.queue else { return };
        queue.limit = limit;
        if spec.has(NO_MULTI) {
            queue.aborted = true;
            reply.error("ERR Command not allowed inside a transaction");
        } else if queue.requests.push(args, limit) {
            queue.commands.push((spec, index));
            reply.simple("QUEUED");
        } else {
            queue.aborted = true;
            reply.error("ERR the transaction needs more memory than --client-query-buffer-limit");
        }
    }

    /// Records that a request was refused, so that EXEC fails; a refused EXEC ends the transaction at once.
    pub fn refuse(&mut self, is_exec: bool) {
        if is_exec {
            return self.end();
        }
        self.queue.iter_mut().for_each(|queue| queue.aborted = true);
    }

    /// Ends the commit of WATCH or EXEC. The transaction is over after EXEC, even if EXEC failed.
    pub fn finish(&mut self) {
        self.added = Vec::new();
        if self.job.take() != Some(CommitJob::Watch) && self.is_open() {
            self.end();
        }
    }

    /// Ends the client's transaction: discards the queued requests and unwatches all keys that the client watches.
    fn end(&mut self) {
        self.queue = None;
        self.result = ExecResult::default();
        self.unwatch();
    }

    /// Unwatches all keys that the client watches: on a blocking thread if they are many. A client that watches a key again
    /// before that thread has unwatched it keeps its new watch.
    fn unwatch(&mut self) {
        let watched = mem::take(&mut self.watched);
        // A commit thread has no runtime, and no worker waits for it.
        if mem::take(&mut self.watched_bytes) > MAX_WATCHED_ON_WORKER
            && let Ok(runtime) = Handle::try_current()
        {
            let store = Arc::clone(&self.store);
            runtime.spawn_blocking(move || watched.iter().for_each(|watch| store.unwatch(watch)));
            return;
        }
        watched.iter().for_each(|watch| self.store.unwatch(watch));
    }

    /// Unwatches the keys that the present WATCH has added, because it failed or is executed again.
    fn unwatch_added(&mut self) {
        for stored in mem::take(&mut self.added) {
            if let Some(watch) = self.watched.take(&*stored) {
                self.watched_bytes -= watched_bytes(watch.key());
                self.store.unwatch(&watch);
            }
        }
    }

    /// Returns the total size of the queued requests, in bytes.
    pub fn bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.requests.bytes())
    }

    /// Returns the first key that the request WATCH names, or the first key of the requests that are queued for EXEC;
    /// `None` if there is none. Keys that were watched before do not count. `args` are the arguments of WATCH.
    pub fn first_key<'a>(&'a self, args: Args<'a>) -> Option<&'a [u8]> {
        if self.job == Some(CommitJob::Watch) {
            return (args.len() > 1).then(|| args.get(1));
        }
        let Queue { requests, commands, .. } = self.queue.as_ref()?;
        let mut queued = commands.iter().enumerate();
        queued.find_map(|(index, (spec, _))| spec.keys_of(requests.get(index)?).next())
    }

    /// Appends the stored keys that the commit of WATCH or EXEC uses. For WATCH these are the keys of `database` that
    /// its arguments `args` name. For EXEC these are all watched keys and, taken as keys of `database`, the keys of
    /// those queued requests for which `select` returns `true`.
    pub fn list_keys(
        &self,
        args: Args<'_>,
        database: Database,
        select: SelectRequest,
        keys: &mut Vec<Vec<u8>>,
    ) {
        if self.job == Some(CommitJob::Watch) {
            return append_stored(args.from(1), database, keys);
        }
        keys.extend(self.watched.iter().map(|watch| watch.key().to_vec()));
        let Some(Queue { requests, commands, .. }) = &self.queue else { return };
        for (index, (spec, _)) in commands.iter().enumerate() {
            if let Some(args) = requests.get(index)
                && select(spec, args)
            {
                append_stored(spec.keys_of(args), database, keys);
            }
        }
    }

    /// Returns `true` if a queued request may read or write very many keys, such as KEYS or FLUSHALL.
    pub fn uses_all_keys(&self) -> bool {
        self.has(|spec| spec.has(WHOLE_KEYSPACE))
    }

    /// Returns `true` if EXEC may take too long for a worker: the client watches many keys, or a queued request may read
    /// very many keys, or a whole value of any length for a short reply (BITCOUNT). `false` before MULTI.
    pub fn takes_long(&self) -> bool {
        let watches_many = self.is_open() && self.watched_bytes > MAX_WATCHED_ON_WORKER;
        watches_many || self.has(|spec| spec.has(WHOLE_KEYSPACE | WHOLE_VALUE))
    }

    /// Returns `true` if the commit job is EXEC, no key is watched, and each queued request writes without reading a
    /// key.
    pub fn is_blind(&self) -> bool {
        let Some(Queue { requests, commands, .. }) = &self.queue else { return false };
        let mut requests = commands.iter().enumerate().map(|(index, (spec, _))| (spec, requests.get(index)));
        self.job == Some(CommitJob::Execute)
            && self.watched.is_empty()
            && requests.all(|(spec, args)| args.is_some_and(|args| spec.is_blind(args)))
    }

    fn has(&self, is: impl Fn(&Spec) -> bool) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.commands.iter().any(|(spec, _)| is(spec)))
    }

    /// Executes the transaction's commit job within `txn`: WATCH, whose arguments are `args`, or the requests queued
    /// for EXEC. Does nothing without a job.
    pub fn run<'g>(&'g mut self, args: Args<'g>, space: Database, txn: &mut Txn<'g>, reply: &mut Reply) {
        match self.job {
            Some(CommitJob::Watch) => self.watch(args, txn, reply),
            Some(CommitJob::Execute) => self.execute(space, txn, reply),
            None => {}
        }
    }

    fn watch(&mut self, args: Args<'_>, txn: &mut Txn<'_>, reply: &mut Reply) {
        for key in args.from(1) {
            match txn.watch(key, &self.watched) {
                Ok(Some(watch)) => {
                    self.watched_bytes += watched_bytes(watch.key());
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

    fn execute<'g>(&'g mut self, mut database: Database, txn: &mut Txn<'g>, reply: &Reply) {
        let Self { queue: Some(queue), result, watched, .. } = self else { return };
        result.replies = reply.aside();
        match txn.are_unchanged(watched) {
            Ok(true) => {}
            Ok(false) => return result.changed = true,
            Err(error) => return result.failed = Some(error.to_string()),
        }
        let ExecResult { replies, ends, hits, .. } = result;
        let mut copies = Copies::of(txn, queue.limit);
        for (index, (spec, _)) in queue.commands.iter().enumerate() {
            let Some(args) = queue.requests.get(index) else { break };
            let only_reads = matches!(spec.handler, Handler::Read(_) | Handler::Keyspace(_));
            // After too long a reply the connection ends without any reply. The writes still take effect, because EXEC
            // is atomic.
            if !only_reads || !replies.has_overflowed() {
                let mut progress = Progress::default();
                while execute(spec, args, txn, &mut progress, hits, replies) == Done::MoreKeys {}
            }
            if copies.exceed_limit(txn) {
                return txn.fail_too_large();
            }
            // HELLO and SELECT are answered later, but apply to the requests that follow.
            if spec.has(CHOOSES_PROTOCOL) {
                replies.set_protocol(chosen_protocol(args).unwrap_or(replies.protocol()));
            }
            if spec.has(SELECTS_DATABASE) {
                database = command::database(args.get(1)).unwrap_or(database);
                txn.select(database);
            }
            ends.push(replies.len());
        }
    }

    /// Discards the results of an earlier call of [`Transaction::run`], and unwatches the keys that it added.
    pub fn reset(&mut self) {
        self.result = ExecResult::default();
        self.unwatch_added();
    }

    /// Returns the number of queued requests; `None` without a transaction.
    pub fn queued(&self) -> Option<usize> {
        self.queue.as_ref().map(|queue| queue.commands.len())
    }

    /// Begins the reply to EXEC, ends the transaction, and returns the executed requests, whose replies the caller
    /// appends. Returns `None` if nothing was executed; the reply is then complete.
    pub fn take_executed(&mut self, reply: &mut Reply) -> Option<Executed> {
        let result = mem::take(&mut self.result);
        let queue = self.queue.take()?;
        self.unwatch();
        if result.changed {
            reply.null_array();
            return None;
        }
        if let Some(error) = result.failed {
            reply.error(error);
            return None;
        }
        reply.array(queue.commands.len());
        Some(Executed { queue, result })
    }
}

/// Total length in bytes of the values that EXEC copies, because its requests change a part of them. The request that
/// copies the most does not count, so that one of any kind can be executed, as without a transaction.
struct Copies {
    limit: usize,
    all: usize,
    before: usize,
    largest: usize,
}

impl Copies {
    /// `limit` is 0 if there is none.
    fn of(txn: &Txn<'_>, limit: usize) -> Self {
        let limit = if limit == 0 { usize::MAX } else { limit.max(MAX_COPIED_OR_READ) };
        Self { limit, all: 0, before: txn.copied_bytes(), largest: 0 }
    }

    /// Adds what the last request has copied. Returns `true` if the copies exceed the limit.
    fn exceed_limit(&mut self, txn: &Txn<'_>) -> bool {
        let now = txn.copied_bytes();
        let copied = now - mem::replace(&mut self.before, now);
        self.all += copied;
        self.largest = self.largest.max(copied);
        self.all - self.largest > self.limit
    }
}

/// Memory in bytes that a watched key takes besides its two copies, about: an entry in the set of the client and one in
/// that of the store.
const WATCH_BYTES: usize = 200;

/// Returns the memory of a watched key in bytes.
fn watched_bytes(key: &[u8]) -> usize {
    2 * key.len() + WATCH_BYTES
}

/// Requests that EXEC has executed, with the replies of those that read or write keys.
pub(super) struct Executed {
    queue: Queue,
    result: ExecResult,
}

impl Executed {
    /// Returns the command and the arguments of the queued request `index`.
    pub fn request(&self, index: usize) -> Option<((&'static Spec, StatsIndex), Args<'_>)> {
        Some((*self.queue.commands.get(index)?, self.queue.requests.get(index)?))
    }

    /// Appends the reply to the queued request `index`, which reads or writes keys, to `reply`.
    pub fn append_reply(&self, index: usize, reply: &mut Reply) {
        let end = |index: usize| self.result.ends.get(index).copied();
        let start = index.checked_sub(1).and_then(end).unwrap_or(0);
        reply.append_part(&self.result.replies, start..end(index).unwrap_or(start));
    }

    /// Returns the hits and misses of the transaction's reads.
    pub fn hits(&self) -> KeyHits {
        self.result.hits
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
