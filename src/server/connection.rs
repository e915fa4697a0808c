//! One connection: reads the received bytes, executes every complete request, and sends the replies in one
//! write.

use super::{
    idle::{CloseReason, IdleTimer},
    pool,
    request_batch::{REPLY_SIZE, RequestBatch, StepKind},
    request_stats::{self, StepStart},
    slow_reads::SlowReadDetector,
    transaction::Transaction,
    worker_state::WorkerState,
};
use crate::{
    command::{self, AfterReply, MonitorFeed, ReplyMode, Session, WaitRequest},
    resp::{Decoder, Foreign, Limits, Partial, Protocol, ProtocolError},
    store,
};
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    task::{spawn_blocking, yield_now},
    time::timeout,
};

/// Maximum size of an incomplete request, in bytes, that an idle connection keeps outside the read buffer.
const PARTIAL_SIZE: usize = 16 << 10;

/// Reason why a connection ended before the client or the server wanted it to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionEnd {
    #[error(transparent)]
    Over(#[from] CloseReason),
    #[error("its replies grew beyond --client-output-buffer-limit")]
    Overflow,
    #[error("it speaks {0}, not the Redis protocol; perhaps a web page tries to use this port")]
    Foreign(Foreign),
}

impl From<io::Error> for ConnectionEnd {
    fn from(error: io::Error) -> Self {
        Self::Over(CloseReason::Io(error))
    }
}
/// Maximum number of reply bytes per write to the socket.
const PIECE: usize = 1 << 20;

pub(super) struct Connection<S> {
    stream: S,
    pub(super) local: Rc<WorkerState>,
    pub(super) session: Session,
    pub(super) decoder: Decoder,
    protocol: Protocol,
    /// Buffers that the connection keeps while it receives a large request.
    kept_batch: Option<Box<RequestBatch>>,
    /// Received part of a small incomplete request.
    partial_request: Option<Box<Partial>>,
    pub(super) temperature: SlowReadDetector,
    /// Requests queued since MULTI, and the watched keys.
    pub(super) transaction: Option<Box<Transaction>>,
    /// Closes the connection after too long without traffic, or after CLIENT KILL.
    idle: IdleTimer,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(stream: S, local: Rc<WorkerState>, session: Session) -> Self {
        let decoder = Decoder::new(limits(&local, &session));
        let idle = IdleTimer::new(session.client().clone(), local.shared.context.clone());
        Self {
            stream,
            local,
            session,
            decoder,
            protocol: Protocol::default(),
            kept_batch: None,
            partial_request: None,
            temperature: SlowReadDetector::default(),
            transaction: None,
            idle,
        }
    }

    /// Serves the connection until the client or the server closes it.
    pub async fn serve(mut self) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        self.session.client().set_waker(waker);
        if let Err(error) = self.try_serve().await {
            let level = match error {
                ConnectionEnd::Over(_) => log::Level::Debug,
                ConnectionEnd::Overflow | ConnectionEnd::Foreign(_) => log::Level::Warn,
            };
            log::log!(
                level,
                "client {} ({}) closed: {error}",
                self.session.client().id,
                self.session.client().peer
            );
        }
        if self.session.after == AfterReply::Shutdown {
            self.local.shared.request_shutdown();
        }
    }

    async fn try_serve(&mut self) -> Result<(), ConnectionEnd> {
        while let Some(mut exchange) = poll_fn(|cx| self.poll_receive(cx)).await? {
            let full = exchange.input.is_full();
            exchange.reply.set_protocol(self.protocol);
            exchange
                .reply
                .set_limit(self.local.shared.context.live.output_buffer_limit.load(Ordering::Relaxed));
            exchange = self.answer(exchange).await?;
            self.send(&mut exchange).await?;
            self.protocol = exchange.reply.protocol();
            if self.session.after != AfterReply::Continue {
                self.stream.shutdown().await?;
                return Ok(());
            }
            self.release_buffers(exchange);
            if full || self.kept_batch.is_some() {
                // The socket may hold more bytes; other connections are served first.
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Reads from the socket once. Returns `None` at the end of the stream, or if the server is stopping and
    /// the socket holds no more bytes.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Box<RequestBatch>>, ConnectionEnd>> {
        if self.local.is_closed() {
            return Poll::Ready(Ok(None));
        }
        let mut exchange = self.kept_batch.take().unwrap_or_else(pool::take);
        if let Some(partial) = self.partial_request.take() {
            exchange.restore(*partial);
        }
        if self.session.client().is_killed() {
            return Poll::Ready(Err(CloseReason::Killed.into()));
        }
        if let Some(lines) =
            self.session.feed.as_ref().map(MonitorFeed::take).filter(|lines| !lines.is_empty())
        {
            exchange.reply.raw(&lines);
            return Poll::Ready(Ok(Some(exchange)));
        }
        let mut space = ReadBuf::new(exchange.input.space());
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut space);
        match self.idle.on_poll(cx, read) {
            Poll::Pending if self.local.is_stopping() => Poll::Ready(Ok(None)),
            Poll::Pending => {
                self.release_buffers(exchange);
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

    /// Returns the buffers to the pool, or keeps the ones that an incomplete request needs.
    fn release_buffers(&mut self, mut exchange: Box<RequestBatch>) {
        if exchange.input.len() > PARTIAL_SIZE {
            self.kept_batch = Some(exchange);
            return;
        }
        if !exchange.input.is_empty() {
            self.partial_request = Some(Box::new(exchange.take_partial()));
        }
        pool::put(exchange);
    }

    /// Executes every complete request in the buffer and writes the replies.
    async fn answer(&mut self, mut exchange: Box<RequestBatch>) -> Result<Box<RequestBatch>, ConnectionEnd> {
        loop {
            let decoded = self.decoder.decode(&mut exchange.input, &mut exchange.requests);
            let full = self.decoder.is_full(&exchange.requests);
            exchange.resolve(&self.local.shared.commands);
            let store = &self.local.shared.context.store;
            if store.is_sharded() {
                exchange.mark_cross_slot(store);
            }
            self.local.stats().commands.fetch_add(exchange.requests.len() as u64, Ordering::Relaxed);
            while let Some(run) = self.next_run(&mut exchange) {
                self.pause(&run, &exchange).await?;
                let begin = StepStart::of(&exchange, &self.session, matches!(run, StepKind::Queue));
                exchange = self.run(exchange, run).await?;
                begin.account(&self.local, &self.session, &mut exchange);
                request_stats::apply_reply_mode(&mut self.session, &mut exchange, begin);
                if let Some(wait) = self.session.wait.take() {
                    Box::pin(self.wait_for_sync(wait, begin.reply_len(), &mut exchange)).await?;
                }
                if exchange.reply.has_overflowed() {
                    return Err(ConnectionEnd::Overflow);
                }
                if exchange.reply.len() >= REPLY_SIZE {
                    self.send(&mut exchange).await?;
                }
                if self.session.after != AfterReply::Continue {
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
                    return Err(ConnectionEnd::Foreign(foreign));
                }
                exchange.reply.error(format!("ERR {error}"));
                self.session.after = AfterReply::Close;
                return Ok(exchange);
            }
            if !full {
                return Ok(exchange);
            }
        }
    }

    fn next_run(&self, exchange: &mut RequestBatch) -> Option<StepKind> {
        if !self.session.authenticated {
            return exchange.next_run_before_auth();
        }
        exchange.space = self.session.space;
        let run = match &self.transaction {
            Some(transaction) if transaction.is_open() => exchange.next_run_in_transaction(),
            _ => exchange.next_run(),
        };
        if self.session.replies == ReplyMode::Skip {
            exchange.limit_to_one();
        } else if self.local.shared.context.store.is_sharded() && matches!(run, Some(StepKind::Write)) {
            // With hash slots each write is a commit of its own: a pipeline is not atomic.
            exchange.limit_to_blind();
        }
        run
    }

    /// Waits while CLIENT PAUSE delays the next step. The waiting future is boxed, because it would make every
    /// connection larger.
    async fn pause(&self, run: &StepKind, exchange: &RequestBatch) -> Result<(), ConnectionEnd> {
        if !self.local.shared.context.pause.is_on() {
            return Ok(());
        }
        let writes = match run {
            StepKind::Write => true,
            StepKind::Queue => exchange.is_next_write(),
            StepKind::Transaction(command::Transaction::Exec) => {
                self.transaction.as_ref().is_some_and(|transaction| transaction.writes())
            }
            _ => false,
        };
        while let Some(left) = self.local.shared.context.pause.left(writes) {
            Box::pin(self.wait(left, |context| context.pause.left(writes).is_none())).await?;
        }
        Ok(())
    }

    /// Waits as WAIT and WAITAOF require. The reply to WAITAOF, which begins at `start`, is replaced once the
    /// result of the sync is known.
    async fn wait_for_sync(
        &self,
        wait: WaitRequest,
        start: usize,
        exchange: &mut RequestBatch,
    ) -> Result<(), ConnectionEnd> {
        let begin = Instant::now();
        if wait.sync {
            let is_synced = self.sync_within(wait.time).await?;
            // With CLIENT REPLY OFF or SKIP there is no reply to replace.
            if exchange.reply.len() > start {
                exchange.reply.truncate(start);
                match is_synced {
                    Ok(is_synced) => WaitRequest::answer(is_synced, &mut exchange.reply),
                    Err(error) => exchange.reply.error(error.to_string()),
                }
            }
            if !wait.for_replicas {
                return Ok(());
            }
        }
        self.wait(wait.time.saturating_sub(begin.elapsed()), |_| false).await
    }

    /// Syncs all writes. Returns `true` if the sync has ended within `time` (zero: no limit).
    async fn sync_within(&self, time: Duration) -> io::Result<Result<bool, store::Error>> {
        let store = self.local.shared.context.store.clone();
        let sync = self.local.await_offloaded(spawn_blocking(move || store.sync().map(|()| true)));
        if time.is_zero() {
            return Ok(sync.await?);
        }
        Ok(timeout(time, sync).await.unwrap_or(Ok(Ok(false)))?)
    }

    /// Waits for `time`, or until `holds` returns `true`; a change must wake the connection's task.
    async fn wait(
        &self,
        time: Duration,
        holds: impl Fn(&command::ServerState) -> bool,
    ) -> Result<(), ConnectionEnd> {
        let (context, client) = (&self.local.shared.context, self.session.client());
        let over = poll_fn(|_| match holds(context) || client.is_killed() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        let _ = timeout(time, over).await;
        if client.is_killed() { Err(CloseReason::Killed.into()) } else { Ok(()) }
    }

    /// Sends the replies. Until the client has read them, no more requests are read from it.
    async fn send(&mut self, exchange: &mut RequestBatch) -> Result<(), ConnectionEnd> {
        let Self { stream, idle, local, .. } = self;
        let mut sent = 0;
        while sent < exchange.reply.len() {
            let rest = exchange.reply.bytes().get(sent..).unwrap_or_default();
            let piece = rest.get(..PIECE).unwrap_or(rest);
            let len = poll_fn(|cx| {
                let written = Pin::new(&mut *stream).poll_write(cx, piece);
                idle.on_poll(cx, written)
            });
            let len = len.await?;
            if len == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            local.stats().sent.fetch_add(len as u64, Ordering::Relaxed);
            sent += len;
            if len == PIECE {
                // The kernel accepts bytes for as long as the client reads; other connections are served first.
                yield_now().await;
            }
        }
        // The TLS stream may still buffer bytes that it has accepted.
        poll_fn(|cx| {
            let flushed = Pin::new(&mut *stream).poll_flush(cx);
            idle.on_poll(cx, flushed)
        })
        .await?;
        exchange.reply.truncate(0);
        Ok(())
    }
}

/// Returns the limits on the requests of a client.
pub(super) fn limits(local: &WorkerState, session: &Session) -> Limits {
    let limits = Limits {
        query_buffer: local.shared.context.live.query_buffer_limit.load(Ordering::Relaxed),
        ..Limits::default()
    };
    if session.authenticated { limits } else { limits.before_auth() }
}
