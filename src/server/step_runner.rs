//! Execution of a step (consecutive requests that are executed together): on the worker, on a commit thread, on a read
//! thread that reads for all connections, or on a blocking thread.

use super::{
    commit_request::{CommitRequest, ReplyTo},
    connection::{CloseReason, Connection, ConnectionEnd},
    read_step::{key_chunks, read, read_on_worker},
    request_batch::{FREE_OFF_WORKER, RequestBatch},
    request_stats,
    slow_reads::{self, ReadCost},
    step_planner::{Step, StepKind},
    transaction::{CommitJob, Executed, Transaction},
    worker_state::WorkerState,
};
use crate::{
    command::{self, Handler, Lookup, ReplyMode, SessionCommand, as_size},
    resp::{Args, Foreign, Reply},
    store::Store,
};
use std::{
    io, mem, slice,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    task::{spawn_blocking, yield_now},
};

/// Number of requests of EXEC that are answered before the worker serves other connections.
const EXEC_REPLIES: usize = 1024;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) async fn run(
        &mut self,
        mut batch: Box<RequestBatch>,
        step: Step,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let shared = &self.local.shared;
        match step.kind {
            StepKind::Read => return self.read(batch, step).await,
            StepKind::Write => return Ok(self.commit(batch, step, None).await?.batch),
            StepKind::Transaction(command) => return self.transact(batch, step, command).await,
            StepKind::Keyspace(run) => {
                let store = shared.context.store.clone();
                let answer = move |args: Args<'_>, reply: &mut Reply| {
                    command::answer(reply, |reply| run(&mut store.view(step.database), args, reply));
                };
                return Ok(self.answer_on_blocking_thread(batch, answer).await?);
            }
            StepKind::Blocking(run) => {
                let context = shared.context.clone();
                let answer = move |args: Args<'_>, reply: &mut Reply| {
                    command::answer(reply, |reply| run(&context, args, reply));
                };
                return Ok(self.answer_on_blocking_thread(batch, answer).await?);
            }
            StepKind::Commands(run) => {
                let shared = shared.clone();
                let answer = move |args: Args<'_>, reply: &mut Reply| run(&shared.commands, args, reply);
                return Ok(self.answer_on_blocking_thread(batch, answer).await?);
            }
            StepKind::Queue => self.queue(&mut batch),
            StepKind::Session(run) => self.run_session(&mut batch, run),
            StepKind::Refuse => {
                if let Some(foreign) = self.refuse(&mut batch) {
                    return Err(ConnectionEnd::Foreign(foreign));
                }
            }
            StepKind::NoAuth => {
                self.refuse_by(&mut batch, |lookup, _, reply| lookup.refuse_without_authentication(reply));
            }
        }
        Ok(batch)
    }

    /// Answers the next request of the batch on a blocking thread, by calling `answer`.
    async fn answer_on_blocking_thread(
        &self,
        mut batch: Box<RequestBatch>,
        answer: impl FnOnce(Args<'_>, &mut Reply) + Send + 'static,
    ) -> io::Result<Box<RequestBatch>> {
        let answered = spawn_blocking(move || {
            batch.answer_one(|_, args, reply| answer(args, reply));
            batch
        });
        Ok(self.local.await_offloaded(answered).await?)
    }

    /// Queues the next request of the batch for EXEC.
    fn queue(&mut self, batch: &mut RequestBatch) {
        let limit = as_size(&self.local.shared.context.live.query_buffer_limit);
        let (transaction, client) = (&mut self.transaction, self.session.client());
        batch.answer_one(|lookup, args, reply| {
            if let (Lookup::Known(spec, index), Some(transaction)) = (lookup, transaction) {
                transaction.push((spec, index), args, limit, reply);
                client.set_queued(transaction.queued());
            }
        });
    }

    /// Replies to a request that cannot be executed with its error. Returns the protocol of the client if that
    /// is not RESP.
    fn refuse(&mut self, batch: &mut RequestBatch) -> Option<Foreign> {
        let mut is_http = false;
        self.refuse_by(batch, |lookup, args, reply| {
            is_http = matches!(lookup, Lookup::Unknown) && Foreign::is_http_word(args.get(0));
            lookup.refuse(args, reply);
        });
        is_http.then_some(Foreign::Http)
    }

    /// Answers the next request of the batch with an error, by calling `answer`. In a transaction EXEC will fail, or ends it.
    fn refuse_by(&mut self, batch: &mut RequestBatch, mut answer: impl FnMut(Lookup, Args<'_>, &mut Reply)) {
        let (client, transaction) = (self.session.client(), &mut self.transaction);
        batch.answer_one(|lookup, args, reply| {
            if let Some(transaction) = transaction {
                transaction.refuse(lookup.is_exec());
                client.set_queued(transaction.queued());
            }
            answer(lookup, args, reply);
        });
    }

    fn run_session(&mut self, batch: &mut RequestBatch, run: SessionCommand) {
        let context = &self.local.shared.context;
        batch.answer_one(|_, args, reply| run(&mut self.session, context, args, reply));
        if mem::take(&mut self.session.discard_transaction) {
            self.transaction = None;
            self.session.client().set_queued(None);
        }
    }

    /// Executes and commits the requests of `step`: on a commit thread, unless the engine has no files; then on the
    /// worker, or on a blocking thread if the worker would have to wait long.
    async fn commit(
        &mut self,
        batch: Box<RequestBatch>,
        step: Step,
        transaction: Option<Box<Transaction>>,
    ) -> Result<CommitRequest, ConnectionEnd> {
        let (store, is_large) = (&self.local.shared.context.store, step.is_large);
        let mut request = CommitRequest::new(batch, step, self.progress, transaction);
        if !store.is_memory_only() {
            let (connection, committed) = oneshot::channel();
            request.reply_to = Some(ReplyTo { worker: self.local.index, connection });
            self.local.submit(request);
            let committed = self.local.await_offloaded(committed).await;
            request = committed.map_err(|_| io::Error::other("the commit thread is gone"))?;
        } else if is_large || !store.commit_short(&mut request) {
            // The worker would wait for a long commit, and with it all other clients of the worker.
            let store = store.clone();
            let commit = spawn_blocking(move || {
                let group = slice::from_mut(&mut request);
                if is_large {
                    store.commit_long(group)
                } else {
                    store.commit(group)
                }
                request
            });
            request = self.local.await_offloaded(commit).await.map_err(io::Error::from)?;
        }
        self.progress = request.progress;
        Ok(request)
    }

    /// Executes one of the commands MULTI, EXEC, DISCARD, WATCH and UNWATCH.
    async fn transact(
        &mut self,
        mut batch: Box<RequestBatch>,
        step: Step,
        command: command::Transaction,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let store = &self.local.shared.context.store;
        let mut transaction =
            self.transaction.take().unwrap_or_else(|| Box::new(Transaction::new(store.clone())));
        let limit = as_size(&self.local.shared.context.live.query_buffer_limit);
        match transaction.step(command) {
            Ok(Some(CommitJob::Watch))
                if !batch.args(batch.next).is_none_or(|args| transaction.can_watch(args, limit)) =>
            {
                batch.answer_one(|_, _, reply| {
                    reply.error("ERR the watched keys need more memory than --client-query-buffer-limit");
                });
            }
            Ok(Some(job)) => {
                let begin = Instant::now();
                transaction.job = Some(job);
                let request = self.commit(batch, step, Some(transaction)).await?;
                batch = request.batch;
                let Some(committed) = request.transaction else { return Ok(batch) };
                transaction = committed;
                if transaction.job == Some(CommitJob::Execute) {
                    self.answer_exec(&mut transaction, &mut batch.reply, begin.elapsed()).await?;
                }
                transaction.finish();
            }
            Ok(None) => batch.answer_one(|_, _, reply| reply.ok()),
            Err(error) => batch.answer_one(|_, _, reply| reply.error(error)),
        }
        self.session.client().set_queued(transaction.queued());
        self.transaction = Some(transaction);
        Ok(batch)
    }

    /// Answers EXEC after a commit that took `time`; executes the queued requests that need no keys, until the reply is
    /// too long. Fails after CLIENT KILL.
    async fn answer_exec(
        &mut self,
        transaction: &mut Transaction,
        reply: &mut Reply,
        time: Duration,
    ) -> Result<(), ConnectionEnd> {
        let each = time / u32::try_from(transaction.queued().unwrap_or(0)).unwrap_or(u32::MAX).max(1);
        let Some(mut executed) = transaction.take_executed(reply).map(Box::new) else { return Ok(()) };
        let (local, session) = (&self.local, &mut self.session);
        request_stats::count_key_hits(local, executed.hits());
        let mut index = 0;
        while let Some(((spec, _), args)) = executed.request(index) {
            let start = reply.len();
            match spec.handler {
                Handler::Session(run) => run(session, &local.shared.context, args, reply),
                Handler::Commands(run) => {
                    let shared = local.shared.clone();
                    let answer = move |args: Args<'_>, reply: &mut Reply| run(&shared.commands, args, reply);
                    executed = answer_executed(local, (executed, index), answer, reply).await?;
                }
                Handler::Blocking(run) => {
                    let context = local.shared.context.clone();
                    let answer = move |args: Args<'_>, reply: &mut Reply| {
                        command::answer(reply, |reply| run(&context, args, reply));
                    };
                    executed = answer_executed(local, (executed, index), answer, reply).await?;
                }
                // UNWATCH: EXEC has already unwatched all keys.
                Handler::Transaction(_) => reply.ok(),
                _ => {
                    executed.append_reply(index, reply);
                }
            }
            if let Some(request) = executed.request(index) {
                let failed = reply.bytes().get(start) == Some(&b'-');
                request_stats::count_exec_request(local, session, request, failed, each);
            }
            index += 1;
            let has_overflowed = reply.has_overflowed() && session.replies == ReplyMode::On;
            if has_overflowed || session.client().is_killed() {
                break;
            }
            if index.is_multiple_of(EXEC_REPLIES) {
                yield_now().await;
            }
        }
        if executed.bytes() > FREE_OFF_WORKER {
            spawn_blocking(move || drop(executed));
        }
        // The reply may be incomplete, and must not be sent.
        if session.client().is_killed() { Err(CloseReason::Killed.into()) } else { Ok(()) }
    }

    /// Executes a read step: on the worker while the client's reads are short and cached, because a thread hop
    /// costs more than such a read; on a blocking thread otherwise, because slow reads would delay all clients
    /// of the worker. If each read waits for the network, the threads that read for all connections execute the step.
    async fn read(
        &mut self,
        mut batch: Box<RequestBatch>,
        step: Step,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        if step.is_large {
            return Ok(self.read_on_blocking_thread(batch, step, read).await?.0);
        }
        let store = &self.local.shared.context.store;
        let mut is_too_large = false;
        let mut on_worker = |batch: &mut RequestBatch| {
            let requests;
            (requests, is_too_large) = read_on_worker(batch, &step, store);
            requests
        };
        if !store.reads_may_wait() {
            on_worker(&mut batch);
        } else if store.is_shared() {
            // Each read waits for the network.
            return self.read_together(batch, step).await;
        } else if self.slow_read_detector.is_slow() {
            let fetched = if self.slow_read_detector.waits_for_device() {
                self.prefetch(&batch, &step).await?
            } else {
                ReadCost::default()
            };
            let read = |batch: &mut RequestBatch, step: &Step, store: &Store| {
                slow_reads::cost(|| read(batch, step, store))
            };
            let mut cost;
            (batch, cost) = self.read_on_blocking_thread(batch, step, read).await?;
            cost |= fetched;
            self.slow_read_detector.note(cost);
            return Ok(batch);
        } else {
            self.slow_read_detector.note_long(slow_reads::is_long(|| on_worker(&mut batch)));
        }
        if is_too_large {
            batch = self.read_on_blocking_thread(batch, step, read).await?.0;
        }
        Ok(batch)
    }

    /// Passes the read requests of `step` to the threads that read for all connections. If they leave them
    /// unexecuted, because they would delay other connections, a blocking thread executes them.
    async fn read_together(
        &self,
        batch: Box<RequestBatch>,
        step: Step,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let (connection, done) = oneshot::channel();
        let mut request = CommitRequest::new(batch, step, self.progress, None);
        request.reply_to = Some(ReplyTo { worker: self.local.index, connection });
        self.local.submit_read(request);
        let done = self.local.await_offloaded(done).await;
        let CommitRequest { batch, step, .. } =
            done.map_err(|_| io::Error::other("the reading thread is gone"))?;
        if batch.next > step.requests.start {
            return Ok(batch);
        }
        Ok(self.read_on_blocking_thread(batch, step, read).await?.0)
    }

    /// Prefetches the keys of the read requests of `step` with several blocking threads, so that the device gets these
    /// reads concurrently: an engine reads the keys of a step one after another. Returns the cost of these reads. Does
    /// nothing if there is at most one key or one idle thread.
    async fn prefetch(&self, batch: &RequestBatch, step: &Step) -> io::Result<ReadCost> {
        let chunks = key_chunks(batch, step, self.local.idle_readers());
        if chunks.len() < 2 {
            return Ok(ReadCost::default());
        }
        let start = |keys: Vec<Vec<u8>>| {
            let store = self.local.shared.context.store.clone();
            spawn_blocking(move || slow_reads::cost(|| store.fetch(&keys)))
        };
        let threads: Vec<_> = chunks.into_iter().map(start).collect();
        let count = threads.len();
        let ends = async {
            let mut cost = ReadCost::default();
            for thread in threads {
                cost |= thread.await?;
            }
            Ok(cost)
        };
        self.local.await_offloaded_tasks(count, ends).await
    }

    /// Runs `read` on a blocking thread, and returns the request batch with the result of `read`.
    async fn read_on_blocking_thread<R: Send + 'static>(
        &self,
        mut batch: Box<RequestBatch>,
        step: Step,
        read: impl FnOnce(&mut RequestBatch, &Step, &Store) -> R + Send + 'static,
    ) -> io::Result<(Box<RequestBatch>, R)> {
        let store = self.local.shared.context.store.clone();
        let read = spawn_blocking(move || {
            let outcome = read(&mut batch, &step, &store);
            (batch, outcome)
        });
        Ok(self.local.await_offloaded(read).await?)
    }
}

/// Answers the request of `executed` with the given index on a blocking thread, by calling `answer`, and appends the
/// reply to `reply`. Returns the executed requests.
async fn answer_executed(
    local: &WorkerState,
    (executed, index): (Box<Executed>, usize),
    answer: impl FnOnce(Args<'_>, &mut Reply) + Send + 'static,
    reply: &mut Reply,
) -> io::Result<Box<Executed>> {
    let mut own = reply.aside();
    let answered = spawn_blocking(move || {
        if let Some((_, args)) = executed.request(index) {
            answer(args, &mut own);
        }
        (executed, own)
    });
    let (executed, own) = local.await_offloaded(answered).await?;
    reply.append(&own);
    Ok(executed)
}
