//! Execution of a step of requests: on the worker, by the commit thread, or on a blocking thread.

use super::{
    connection::{Connection, ConnectionEnd, limits},
    pool::FREE_OFF_WORKER,
    request_batch::{ReplyTo, RequestBatch, StepKind},
    request_stats,
    shared::Shared,
    slow_reads::{self, ReadCost},
    transaction::{CommitJob, Done, Transaction},
};
use crate::{
    command::{self, Handler, Lookup, Session, SessionCommand},
    resp::{Foreign, Reply},
    store::Store,
};
use std::{
    io, mem, slice,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    task::{spawn_blocking, yield_now},
};

/// Number of requests of a transaction that are answered before other connections are served.
const ANSWERS: usize = 1024;

/// Size in bytes above which a transaction is not executed on a worker.
const LARGE_TRANSACTION: usize = 64 << 10;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) async fn run(
        &mut self,
        mut exchange: Box<RequestBatch>,
        run: StepKind,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let shared = &self.local.shared;
        match run {
            StepKind::Read => self.read(exchange).await,
            StepKind::Write => {
                let is_large = exchange.is_next_large();
                self.commit(exchange, is_large).await
            }
            StepKind::Transaction(step) => self.transact(exchange, step).await,
            StepKind::Queue => {
                self.queue(&mut exchange);
                Ok(exchange)
            }
            StepKind::Session(run) => {
                self.run_session(&mut exchange, run);
                Ok(exchange)
            }
            StepKind::Table(run) => {
                exchange.answer_one(|_, args, reply| run(&shared.commands, args, reply));
                Ok(exchange)
            }
            StepKind::Keys(run) => {
                let store = shared.context.store.clone();
                let look = spawn_blocking(move || {
                    exchange.look(&store, run);
                    exchange
                });
                Ok(self.local.await_offloaded(look).await.map_err(io::Error::from)?)
            }
            StepKind::Query(run) => {
                let context = shared.context.clone();
                let query = spawn_blocking(move || {
                    exchange.query(&context, run);
                    exchange
                });
                Ok(self.local.await_offloaded(query).await.map_err(io::Error::from)?)
            }
            StepKind::Refused => match self.refuse(&mut exchange) {
                Some(foreign) => Err(ConnectionEnd::Foreign(foreign)),
                None => Ok(exchange),
            },
            StepKind::Locked => {
                exchange.answer_one(|_, _, reply| reply.error("NOAUTH Authentication required."));
                Ok(exchange)
            }
        }
    }

    /// Queues the next request for EXEC.
    fn queue(&mut self, exchange: &mut RequestBatch) {
        let limit = self.local.shared.context.live.query_buffer_limit.load(Ordering::Relaxed);
        let (transaction, client) = (&mut self.transaction, self.session.client());
        exchange.answer_one(|found, args, reply| {
            if let (Lookup::Known(spec), Some(transaction)) = (found, transaction) {
                transaction.push(spec, args, limit, reply);
                client.set_queued(transaction.queued());
            }
        });
    }

    /// Replies to a request that cannot be executed with its error. Returns the protocol of the client if that
    /// is not RESP.
    fn refuse(&mut self, exchange: &mut RequestBatch) -> Option<Foreign> {
        let (mut is_http, transaction) = (false, &mut self.transaction);
        let client = self.session.client();
        exchange.answer_one(|found, args, reply| {
            if let Some(transaction) = transaction {
                transaction.refuse(found.is_exec());
                client.set_queued(transaction.queued());
            }
            is_http = matches!(found, Lookup::Unknown) && Foreign::is_http_word(args.get(0));
            found.refuse(args, reply);
        });
        is_http.then_some(Foreign::Http)
    }

    /// Commits the write step of the request batch.
    async fn commit(
        &self,
        mut exchange: Box<RequestBatch>,
        is_large: bool,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let store = &self.local.shared.context.store;
        if !store.is_memory_only() {
            let (connection, committed) = oneshot::channel();
            exchange.home = Some(ReplyTo { worker: self.local.index, connection });
            self.local.submit(exchange);
            let committed = self.local.await_offloaded(committed).await;
            return Ok(committed.map_err(|_| io::Error::other("the committing thread is gone"))?);
        }
        // Otherwise the worker would wait for the commit, and with it all other clients of the worker.
        if is_large || store.has_long_commit() {
            let store = store.clone();
            let commit = spawn_blocking(move || {
                let group = slice::from_mut(&mut exchange);
                if is_large {
                    store.commit_long(group)
                } else {
                    store.commit(group)
                }
                exchange
            });
            return Ok(self.local.await_offloaded(commit).await.map_err(io::Error::from)?);
        }
        store.commit(slice::from_mut(&mut exchange));
        Ok(exchange)
    }

    /// Executes a transaction command.
    async fn transact(
        &mut self,
        mut exchange: Box<RequestBatch>,
        step: command::Transaction,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let store = &self.local.shared.context.store;
        let mut transaction =
            self.transaction.take().unwrap_or_else(|| Box::new(Transaction::new(store.clone())));
        let task = match transaction.step(step) {
            Ok(Some(task)) => task,
            done => {
                exchange.answer_one(|_, _, reply| match done {
                    Ok(_) => reply.ok(),
                    Err(error) => reply.error(error),
                });
                self.session.client().set_queued(transaction.queued());
                self.transaction = Some(transaction);
                return Ok(exchange);
            }
        };
        let begin = Instant::now();
        let is_large = transaction.weight() > LARGE_TRANSACTION || transaction.is_long();
        // On other stores the transaction is executed in a commit group of the commit thread.
        exchange.begin_task(task, transaction, is_large && store.is_memory_only());
        let mut exchange = self.commit(exchange, is_large).await?;
        if exchange.begin_again() {
            exchange = self.commit(exchange, true).await?;
        }
        let Some(mut transaction) = exchange.transaction.take() else { return Ok(exchange) };
        if transaction.task == Some(CommitJob::Execute) {
            if transaction.has_queries() {
                transaction = self.query_for(transaction).await?;
            }
            self.execute(&mut transaction, &mut exchange.reply, begin.elapsed()).await;
        }
        transaction.finish();
        self.session.client().set_queued(transaction.queued());
        self.transaction = Some(transaction);
        Ok(exchange)
    }

    async fn query_for(&self, mut transaction: Box<Transaction>) -> io::Result<Box<Transaction>> {
        let context = self.local.shared.context.clone();
        let query = spawn_blocking(move || {
            transaction.query(&context);
            transaction
        });
        Ok(self.local.await_offloaded(query).await?)
    }

    /// Answers EXEC after a commit that took `time`; executes the queued requests that need neither keys nor
    /// the state of the server.
    async fn execute(&mut self, transaction: &mut Transaction, reply: &mut Reply, time: Duration) {
        let each = time / u32::try_from(transaction.queued().unwrap_or(0)).unwrap_or(u32::MAX).max(1);
        let Some(mut answers) = transaction.answers(reply).map(Box::new) else { return };
        let (local, session) = (&self.local, &mut self.session);
        request_stats::count_key_hits(local, answers.found());
        let answer = &mut |done: Done<'_>, reply: &mut Reply| {
            let start = reply.len();
            match &done.written {
                Some((replies, part)) => reply.append_part(replies, part.clone()),
                None => answer_within(&local.shared, session, &done, reply),
            }
            let failed = reply.bytes().get(start) == Some(&b'-');
            request_stats::count_exec_request(local, session, (&done, failed), each);
        };
        while answers.step(ANSWERS, reply, &mut *answer) {
            yield_now().await;
        }
        if answers.bytes() > FREE_OFF_WORKER {
            spawn_blocking(move || drop(answers));
        }
    }

    fn run_session(&mut self, exchange: &mut RequestBatch, run: SessionCommand) {
        let (context, locked) = (&self.local.shared.context, !self.session.authenticated);
        exchange.answer_one(|_, args, reply| run(&mut self.session, context, args, reply));
        if locked && self.session.authenticated {
            self.decoder.set_limits(limits(&self.local, &self.session));
        }
        if mem::take(&mut self.session.discard_transaction) {
            self.transaction = None;
            self.session.client().set_queued(None);
        }
    }

    /// Executes a read step: on the worker while the client's reads are short and cached, because a thread hop
    /// costs more than such a read; on a blocking thread otherwise, because slow reads would delay all clients
    /// of the worker.
    async fn read(&mut self, mut exchange: Box<RequestBatch>) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let store = &self.local.shared.context.store;
        if exchange.is_next_large() {
            return Ok(self.read_on_blocking_thread(exchange, RequestBatch::read).await?.0);
        }
        let mut too_much = false;
        let mut read = |exchange: &mut RequestBatch| {
            let requests;
            (requests, too_much) = exchange.read_on_worker(store);
            requests
        };
        if !store.reads_may_wait() {
            read(&mut exchange);
        } else if store.is_shared() {
            // Each read waits for the network.
            exchange = self.read_together(exchange).await?;
        } else if self.temperature.is_slow() {
            let fetched = if self.temperature.waits_for_device() {
                self.prefetch(&exchange).await?
            } else {
                ReadCost::default()
            };
            let read = |exchange: &mut RequestBatch, store: &Store| slow_reads::cost(|| exchange.read(store));
            let mut cost;
            (exchange, cost) = self.read_on_blocking_thread(exchange, read).await?;
            cost |= fetched;
            self.temperature.note(cost);
        } else {
            self.temperature.note_long(slow_reads::is_long(|| read(&mut exchange)));
        }
        if too_much {
            exchange = self.read_on_blocking_thread(exchange, RequestBatch::read).await?.0;
        }
        Ok(exchange)
    }

    /// Passes the step to the thread that reads for all connections. A step that this thread has left
    /// unexecuted, because it would delay the others, is executed on a blocking thread.
    async fn read_together(
        &self,
        mut exchange: Box<RequestBatch>,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let (connection, read) = oneshot::channel();
        let first = exchange.position();
        exchange.home = Some(ReplyTo { worker: self.local.index, connection });
        self.local.submit_read(exchange);
        let read = self.local.await_offloaded(read).await;
        exchange = read.map_err(|_| io::Error::other("the reading thread is gone"))?;
        if exchange.position() == first {
            exchange = self.read_on_blocking_thread(exchange, RequestBatch::read).await?.0;
        }
        Ok(exchange)
    }

    /// Prefetches the keys of the read step with several threads, so that the device gets these reads
    /// concurrently: an engine reads the keys of a step one after another. Returns the cost.
    async fn prefetch(&self, exchange: &RequestBatch) -> io::Result<ReadCost> {
        let parts = exchange.key_chunks(self.local.idle_readers());
        if parts.len() < 2 {
            return Ok(ReadCost::default());
        }
        let start = |keys: Vec<Vec<u8>>| {
            let store = self.local.shared.context.store.clone();
            spawn_blocking(move || slow_reads::cost(|| store.fetch(&keys)))
        };
        let threads: Vec<_> = parts.into_iter().map(start).collect();
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

    /// Runs `read` on a blocking thread.
    async fn read_on_blocking_thread<R: Send + 'static>(
        &self,
        mut exchange: Box<RequestBatch>,
        read: impl FnOnce(&mut RequestBatch, &Store) -> R + Send + 'static,
    ) -> io::Result<(Box<RequestBatch>, R)> {
        let store = self.local.shared.context.store.clone();
        let read = spawn_blocking(move || {
            let outcome = read(&mut exchange, &store);
            (exchange, outcome)
        });
        Ok(self.local.await_offloaded(read).await?)
    }
}

/// Executes a request of a transaction that needs neither keys nor the state of the server.
fn answer_within(shared: &Shared, session: &mut Session, done: &Done<'_>, reply: &mut Reply) {
    match done.spec.action {
        Handler::Session(run) => run(session, &shared.context, done.args, reply),
        Handler::Table(run) => run(&shared.commands, done.args, reply),
        // UNWATCH: EXEC has already unwatched all keys.
        _ => reply.ok(),
    }
}
