//! One connection: read what is there, run every complete request, answer with one write.

use super::{
    cold::{self, Temperature},
    exchange::{Exchange, Home, REPLY_SIZE, Run},
    idle::Idle,
    local::Local,
    pool,
    transaction::{Task, Transaction},
};
use crate::{
    command::{self, Action, After, Lookup, Session, SessionCommand},
    resp::{Decoder, Foreign, Limits, Partial, Protocol, ProtocolError},
    store::Store,
};
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    slice,
    sync::atomic::Ordering,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::oneshot,
    task::{spawn_blocking, yield_now},
};

/// Longest incomplete request that an idle connection keeps outside the read buffer.
const PARTIAL_SIZE: usize = 16 << 10;

/// Why a connection ended before the client or the server wanted it to.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it was idle for as long as --timeout")]
    Idle,
    #[error("its replies grew beyond --client-output-buffer-limit")]
    Overflow,
    #[error("it speaks {0}, not the Redis protocol; perhaps a web page tries to use this port")]
    Foreign(Foreign),
}
/// A transaction of more bytes than this does not run on a worker.
const LARGE_TRANSACTION: usize = 64 << 10;

/// Bytes of a reply that are sent at a time.
const PIECE: usize = 1 << 20;

pub(super) struct Connection<S> {
    stream: S,
    local: Rc<Local>,
    session: Session,
    decoder: Decoder,
    protocol: Protocol,
    /// Buffers that stay with the connection while a large request arrives.
    held: Option<Box<Exchange>>,
    /// The beginning of a small request, the rest of which has not arrived.
    partial: Option<Box<Partial>>,
    temperature: Temperature,
    /// What it has queued since MULTI, and the keys it watches.
    transaction: Option<Box<Transaction>>,
    /// Ends it when nothing moves, if that is wanted.
    idle: Option<Idle>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(stream: S, local: Rc<Local>, session: Session) -> Self {
        let decoder = Decoder::new(limits(&local, &session));
        let idle = local.shared.limits.idle.map(Idle::new);
        Self {
            stream,
            local,
            session,
            decoder,
            protocol: Protocol::default(),
            held: None,
            partial: None,
            temperature: Temperature::default(),
            transaction: None,
            idle,
        }
    }

    /// Serves until the client or the server ends it.
    pub async fn serve(mut self) {
        if let Err(error) = self.try_serve().await {
            let level = match error {
                Ended::Io(_) | Ended::Idle => log::Level::Debug,
                Ended::Overflow | Ended::Foreign(_) => log::Level::Warn,
            };
            log::log!(level, "client {} ({}) closed: {error}", self.session.id, self.session.peer);
        }
        if self.session.after == After::Shutdown {
            self.local.shared.request_shutdown();
        }
    }

    async fn try_serve(&mut self) -> Result<(), Ended> {
        while let Some(mut exchange) = poll_fn(|cx| self.poll_receive(cx)).await? {
            let full = exchange.input.is_full();
            exchange.reply.set_protocol(self.protocol);
            exchange.reply.set_limit(self.local.shared.limits.output);
            exchange = self.answer(exchange).await?;
            self.send(&mut exchange).await?;
            self.protocol = exchange.reply.protocol();
            if self.session.after != After::Continue {
                self.stream.shutdown().await?;
                return Ok(());
            }
            self.park(exchange);
            if full {
                // There is more where this came from; let others run first.
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Reads once. `None` at the end of the stream, or when the server stops and nothing is left.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Box<Exchange>>, Ended>> {
        if self.local.is_closed() {
            return Poll::Ready(Ok(None));
        }
        let mut exchange = self.held.take().unwrap_or_else(pool::take);
        if let Some(partial) = self.partial.take() {
            exchange.restore(*partial);
        }
        let mut space = ReadBuf::new(exchange.input.space());
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut space);
        match moved(&mut self.idle, cx, read) {
            Poll::Pending if self.local.is_stopping() => Poll::Ready(Ok(None)),
            Poll::Pending => {
                self.park(exchange);
                Poll::Pending
            }
            Poll::Ready(outcome) => {
                let len = space.filled().len();
                outcome?;
                exchange.input.advance(len);
                self.local.stats().received.fetch_add(len as u64, Ordering::Relaxed);
                Poll::Ready(Ok((len > 0).then_some(exchange)))
            }
        }
    }

    /// Gives the buffers back, or keeps what an incomplete request needs.
    fn park(&mut self, mut exchange: Box<Exchange>) {
        if exchange.input.len() > PARTIAL_SIZE {
            self.held = Some(exchange);
            return;
        }
        if !exchange.input.is_empty() {
            self.partial = Some(Box::new(exchange.take_partial()));
        }
        pool::put(exchange);
    }

    /// Answers every complete request of the buffer.
    async fn answer(&mut self, mut exchange: Box<Exchange>) -> Result<Box<Exchange>, Ended> {
        loop {
            let decoded = self.decoder.decode(&mut exchange.input, &mut exchange.requests);
            let full = self.decoder.is_full(&exchange.requests);
            exchange.resolve(&self.local.shared.commands);
            self.local.stats().commands.fetch_add(exchange.requests.len() as u64, Ordering::Relaxed);
            while let Some(run) = self.next_run(&mut exchange) {
                exchange = self.run(exchange, run).await?;
                if exchange.reply.has_overflowed() {
                    return Err(Ended::Overflow);
                }
                if exchange.reply.len() >= REPLY_SIZE {
                    self.send(&mut exchange).await?;
                }
                if self.session.after != After::Continue {
                    return Ok(exchange);
                }
                if exchange.is_midway() {
                    yield_now().await;
                }
            }
            self.decoder.retire(&mut exchange.input, &mut exchange.requests);
            if let Err(error) = decoded {
                if let ProtocolError::Foreign(foreign) = error {
                    self.send(&mut exchange).await?;
                    return Err(Ended::Foreign(foreign));
                }
                exchange.reply.error(format!("ERR {error}"));
                self.session.after = After::Close;
                return Ok(exchange);
            }
            if !full {
                return Ok(exchange);
            }
        }
    }

    fn next_run(&self, exchange: &mut Exchange) -> Option<Run> {
        if !self.session.authenticated {
            return exchange.next_run_before_auth();
        }
        exchange.space = self.session.space;
        match &self.transaction {
            Some(transaction) if transaction.is_open() => exchange.next_run_in_transaction(),
            _ => exchange.next_run(),
        }
    }

    async fn run(&mut self, mut exchange: Box<Exchange>, run: Run) -> Result<Box<Exchange>, Ended> {
        let shared = &self.local.shared;
        match run {
            Run::Read => self.read(exchange).await,
            Run::Write => {
                let is_large = exchange.is_next_large();
                self.commit(exchange, is_large).await
            }
            Run::Transaction(step) => self.transact(exchange, step).await,
            Run::Queue => {
                let (transaction, limit) = (&mut self.transaction, shared.limits.query);
                exchange.answer_one(|found, args, reply| {
                    if let (Lookup::Known(spec), Some(transaction)) = (found, transaction) {
                        transaction.push(spec, args, limit, reply);
                    }
                });
                Ok(exchange)
            }
            Run::Session(run) => {
                self.run_session(&mut exchange, run);
                Ok(exchange)
            }
            Run::Table(run) => {
                exchange.answer_one(|_, args, reply| run(&shared.commands, args, reply));
                Ok(exchange)
            }
            Run::Keys(run) => {
                let store = shared.context.store.clone();
                let look = spawn_blocking(move || {
                    exchange.look(&store, run);
                    exchange
                });
                Ok(self.local.promise(look).await.map_err(io::Error::from)?)
            }
            Run::Query(run) => {
                let context = shared.context.clone();
                let query = spawn_blocking(move || {
                    exchange.query(&context, run);
                    exchange
                });
                Ok(self.local.promise(query).await.map_err(io::Error::from)?)
            }
            Run::Refused => {
                let (mut is_http, transaction) = (false, &mut self.transaction);
                exchange.answer_one(|found, args, reply| {
                    transaction.iter_mut().for_each(|transaction| transaction.refuse(found.is_exec()));
                    is_http = matches!(found, Lookup::Unknown) && Foreign::is_http_word(args.get(0));
                    found.refuse(args, reply);
                });
                if is_http { Err(Ended::Foreign(Foreign::Http)) } else { Ok(exchange) }
            }
            Run::Locked => {
                exchange.answer_one(|_, _, reply| reply.error("NOAUTH Authentication required."));
                Ok(exchange)
            }
        }
    }

    /// Commits what the exchange is about to write.
    async fn commit(&self, mut exchange: Box<Exchange>, is_large: bool) -> Result<Box<Exchange>, Ended> {
        let store = &self.local.shared.context.store;
        if !store.is_memory_only() {
            let (connection, committed) = oneshot::channel();
            exchange.home = Some(Home { worker: self.local.index, connection });
            self.local.submit(exchange);
            let committed = self.local.promise(committed).await;
            return Ok(committed.map_err(|_| io::Error::other("the committing thread is gone"))?);
        }
        if is_large {
            let store = store.clone();
            let commit = spawn_blocking(move || {
                store.commit(slice::from_mut(&mut exchange));
                exchange
            });
            return Ok(self.local.promise(commit).await.map_err(io::Error::from)?);
        }
        store.commit(slice::from_mut(&mut exchange));
        Ok(exchange)
    }

    /// Carries out a step of a transaction.
    async fn transact(
        &mut self,
        mut exchange: Box<Exchange>,
        step: command::Transaction,
    ) -> Result<Box<Exchange>, Ended> {
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
                self.transaction = Some(transaction);
                return Ok(exchange);
            }
        };
        let is_large = transaction.weight() > LARGE_TRANSACTION || transaction.is_long();
        exchange.begin_task(task, transaction);
        let mut exchange = self.commit(exchange, is_large).await?;
        let Some(mut transaction) = exchange.transaction.take() else { return Ok(exchange) };
        if transaction.task == Some(Task::Execute) {
            if transaction.has_queries() {
                transaction = self.query_for(transaction).await?;
            }
            let (shared, session) = (&self.local.shared, &mut self.session);
            transaction.reply(&mut exchange.reply, |spec, args, reply| match spec.action {
                Action::Session(run) => run(session, &shared.context, args, reply),
                Action::Table(run) => run(&shared.commands, args, reply),
                // UNWATCH: EXEC has forgotten all of them.
                _ => reply.ok(),
            });
        }
        transaction.finish();
        self.transaction = Some(transaction);
        Ok(exchange)
    }

    async fn query_for(&self, mut transaction: Box<Transaction>) -> io::Result<Box<Transaction>> {
        let context = self.local.shared.context.clone();
        let query = spawn_blocking(move || {
            transaction.query(&context);
            transaction
        });
        Ok(self.local.promise(query).await?)
    }

    fn run_session(&mut self, exchange: &mut Exchange, run: SessionCommand) {
        let (context, locked) = (&self.local.shared.context, !self.session.authenticated);
        exchange.answer_one(|_, args, reply| run(&mut self.session, context, args, reply));
        if locked && self.session.authenticated {
            self.decoder.set_limits(limits(&self.local, &self.session));
        }
    }

    /// Reads on the worker while this client's reads are short and warm, because a thread hop costs more than
    /// such a read; on a blocking thread otherwise, because that would hold up everybody.
    async fn read(&mut self, mut exchange: Box<Exchange>) -> Result<Box<Exchange>, Ended> {
        let store = &self.local.shared.context.store;
        if exchange.is_next_large() {
            return Ok(self.read_off(exchange, Exchange::read).await?.0);
        }
        let mut too_much = false;
        let mut read = |exchange: &mut Exchange| {
            let requests;
            (requests, too_much) = exchange.read_on_worker(store);
            requests
        };
        if !store.reads_may_wait() {
            read(&mut exchange);
        } else if self.temperature.is_cold() {
            let read = |exchange: &mut Exchange, store: &Store| cold::is_cold(|| exchange.read(store));
            let cold;
            (exchange, cold) = self.read_off(exchange, read).await?;
            self.temperature.note(cold);
        } else {
            self.temperature.note(cold::is_long(|| read(&mut exchange)));
        }
        if too_much {
            exchange = self.read_off(exchange, Exchange::read).await?.0;
        }
        Ok(exchange)
    }

    /// Runs `read` on a blocking thread.
    async fn read_off<R: Send + 'static>(
        &self,
        mut exchange: Box<Exchange>,
        read: impl FnOnce(&mut Exchange, &Store) -> R + Send + 'static,
    ) -> io::Result<(Box<Exchange>, R)> {
        let store = self.local.shared.context.store.clone();
        let read = spawn_blocking(move || {
            let outcome = read(&mut exchange, &store);
            (exchange, outcome)
        });
        Ok(self.local.promise(read).await?)
    }

    /// Sends the replies. A client that does not read them is not read from either.
    async fn send(&mut self, exchange: &mut Exchange) -> Result<(), Ended> {
        let Self { stream, idle, local, .. } = self;
        let mut sent = 0;
        while sent < exchange.reply.len() {
            let rest = exchange.reply.bytes().get(sent..).unwrap_or_default();
            let piece = rest.get(..PIECE).unwrap_or(rest);
            let len = poll_fn(|cx| {
                let written = Pin::new(&mut *stream).poll_write(cx, piece);
                moved(idle, cx, written)
            });
            let len = len.await?;
            if len == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            local.stats().sent.fetch_add(len as u64, Ordering::Relaxed);
            sent += len;
            if len == PIECE {
                // The system would go on for as long as the client reads; let others run first.
                yield_now().await;
            }
        }
        // What TLS has taken may still be with it.
        poll_fn(|cx| {
            let flushed = Pin::new(&mut *stream).poll_flush(cx);
            moved(idle, cx, flushed)
        })
        .await?;
        exchange.reply.truncate(0);
        Ok(())
    }
}

/// What a client may send.
fn limits(local: &Local, session: &Session) -> Limits {
    let limits = Limits { query_buffer: local.shared.limits.query, ..Limits::default() };
    if session.authenticated { limits } else { limits.before_auth() }
}

/// Passes on whether something moved, and fails when nothing has for too long.
fn moved<T>(
    idle: &mut Option<Idle>,
    cx: &mut Context<'_>,
    poll: Poll<io::Result<T>>,
) -> Poll<Result<T, Ended>> {
    match (poll, idle) {
        (Poll::Pending, Some(idle)) => idle.poll(cx).map(|()| Err(Ended::Idle)),
        (Poll::Pending, None) => Poll::Pending,
        (Poll::Ready(outcome), idle) => {
            idle.as_mut().map(Idle::reset);
            Poll::Ready(outcome.map_err(Ended::Io))
        }
    }
}
