//! One connection: reads the received bytes, executes every complete request, and sends the replies together. The
//! server closes the connection after `--timeout` without traffic, and by CLIENT KILL.

use super::{
    request_batch::{REPLY_SIZE, RequestBatch},
    request_stats::{self, StepStart},
    slow_reads::SlowReadDetector,
    step_planner::{ClientMode, Step, next_step},
    transaction::Transaction,
    worker_state::WorkerState,
};
use crate::{
    command::{self, AfterReply, Client, MonitorFeed, Progress, ReplyMode, Session, WaitRequest, as_size},
    resp::{Decoder, Foreign, Limits, Partial, Protocol, ProtocolError},
    store,
};
use std::{
    future::poll_fn,
    io, mem,
    pin::{Pin, pin},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::{spawn_blocking, yield_now},
    time::{Sleep, sleep, timeout},
};

/// Maximum size of an incomplete request, in bytes, that an idle connection keeps outside the read buffer.
const PARTIAL_SIZE: usize = 16 << 10;

/// Number of steps of a connection, such as refused requests, after which the worker serves other connections.
const STEPS: u32 = 256;

/// Time of a step after which the worker serves other connections before the next one.
const LONG_STEP: Duration = Duration::from_millis(1);

/// Maximum time to close the stream of a client that no longer reads: TLS ends with a last message.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(10);

/// Error that ends a connection at once, without a further reply. QUIT, SHUTDOWN, a protocol error of RESP and the end
/// of the client's stream are no such errors.
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
const MAX_WRITE: usize = 1 << 20;

pub(super) struct Connection<S> {
    stream: S,
    pub(super) local: Rc<WorkerState>,
    pub(super) session: Session,
    decoder: Decoder,
    protocol: Protocol,
    /// Buffers that the connection keeps while it receives a large request; otherwise they are in the worker's pool.
    kept_batch: Option<Box<RequestBatch>>,
    /// Received part of an incomplete request, if it is small enough to be kept outside the buffers.
    partial_request: Option<Box<Partial>>,
    pub(super) slow_read_detector: SlowReadDetector,
    /// Progress of the next request, if it takes several commits, as a DEL of many keys does.
    pub(super) progress: Progress,
    /// Requests queued since MULTI, and the watched keys; `None` before the first transaction command and after RESET.
    pub(super) transaction: Option<Box<Transaction>>,
    /// `true` if bytes were received while a request waited, so that they have to be decoded after the others.
    has_received_early: bool,
    /// `true` if the worker must serve other connections before the next step of this one.
    yields: bool,
    /// Timer that ends the connection after `--timeout` without traffic, or after CLIENT KILL.
    idle: IdleTimer,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(stream: S, local: Rc<WorkerState>, session: Session) -> Self {
        let decoder = Decoder::new(Limits::default());
        let idle = IdleTimer::new(session.client().clone(), local.shared.context.clone());
        Self {
            stream,
            local,
            session,
            decoder,
            protocol: Protocol::default(),
            kept_batch: None,
            partial_request: None,
            slow_read_detector: SlowReadDetector::default(),
            progress: Progress::default(),
            transaction: None,
            has_received_early: false,
            yields: false,
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
            self.local.shared.shutdown.notify_one();
        }
    }

    async fn try_serve(&mut self) -> Result<(), ConnectionEnd> {
        while let Some(mut batch) = poll_fn(|cx| self.poll_receive(cx)).await? {
            let full = batch.input.is_full();
            batch.reply.set_protocol(self.protocol);
            batch.reply.set_limit(as_size(&self.local.shared.context.live.output_buffer_limit));
            batch = self.answer(batch).await?;
            if batch.reply.protocol() != self.protocol {
                // HELLO or RESET: before its reply is sent, so that CLIENT LIST of others shows it from then on.
                self.protocol = batch.reply.protocol();
                self.session.client().set_protocol(self.protocol);
            }
            self.send(&mut batch).await?;
            if self.session.after != AfterReply::Continue {
                return self.close().await;
            }
            self.release_buffers(batch);
            if full || self.kept_batch.is_some() {
                // The socket may hold more bytes; other connections are served first.
                self.yields = false;
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Reads from the socket once, and returns the request batch with the received bytes, with the queued lines of
    /// MONITOR as the first reply, or with both. Returns `None` at the end of the stream, or if the server is stopping
    /// and the socket holds no more bytes or the time for them has passed ([`WorkerState::is_closed`]).
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Box<RequestBatch>>, ConnectionEnd>> {
        if self.local.is_closed() {
            return Poll::Ready(Ok(None));
        }
        let mut batch = self.kept_batch.take().unwrap_or_else(RequestBatch::take);
        if let Some(partial) = self.partial_request.take() {
            batch.restore(*partial);
        }
        if self.session.client().is_killed() {
            return Poll::Ready(Err(CloseReason::Killed.into()));
        }
        let mut space = ReadBuf::new(batch.input.space());
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut space);
        let len = space.filled().len();
        let read = self.idle.on_poll(cx, read)?;
        if read.is_ready() {
            if len == 0 {
                return Poll::Ready(Ok(None));
            }
            batch.input.advance(len);
            self.local.stats().received.fetch_add(len as u64, Ordering::Relaxed);
        }
        let lines = self.session.feed.as_ref().map(MonitorFeed::take).filter(|lines| !lines.is_empty());
        if let Some(lines) = lines {
            batch.reply.set_limit(as_size(&self.local.shared.context.live.output_buffer_limit));
            batch.reply.raw(&lines);
            if batch.reply.has_overflowed() {
                return Poll::Ready(Err(ConnectionEnd::Overflow));
            }
        } else if read.is_pending() {
            if self.local.is_stopping() {
                return Poll::Ready(Ok(None));
            }
            self.release_buffers(batch);
            // The worker serves other connections until the client sends more.
            self.yields = false;
            return Poll::Pending;
        }
        Poll::Ready(Ok(Some(batch)))
    }

    /// Returns the buffers of `batch` to the worker's pool, after saving the bytes of an incomplete request; keeps the
    /// buffers if these are more than [`PARTIAL_SIZE`].
    fn release_buffers(&mut self, mut batch: Box<RequestBatch>) {
        if batch.input.len() > PARTIAL_SIZE {
            self.kept_batch = Some(batch);
            return;
        }
        if !batch.input.is_empty() {
            self.partial_request = Some(Box::new(batch.take_partial()));
        }
        batch.put();
    }

    /// Executes every complete request that `batch` has received. Replies are collected in `batch`, and sent here only
    /// when they reach [`REPLY_SIZE`]. Begins no further step after CLIENT KILL, which is an error.
    async fn answer(&mut self, mut batch: Box<RequestBatch>) -> Result<Box<RequestBatch>, ConnectionEnd> {
        let mut steps = 0_u32;
        let mut begun = None;
        loop {
            self.decoder.set_limits(limits(&self.local, self.is_admitted()));
            let decoded = self.decoder.decode(&mut batch.input, &mut batch.requests);
            let full = self.decoder.is_full(&batch.requests);
            let shared = &self.local.shared;
            batch.look_up(&shared.commands, &shared.context.store, self.session.space);
            self.local.stats().commands.fetch_add(batch.requests.len() as u64, Ordering::Relaxed);
            while let Some(step) = self.next_step(&batch) {
                if mem::take(&mut self.yields) {
                    yield_now().await;
                }
                if self.session.client().is_killed() {
                    return Err(CloseReason::Killed.into());
                }
                if self.session.replies != ReplyMode::On && !batch.reply.is_empty() {
                    // A reply that the client does not get may exceed the limit, at which the buffer is emptied.
                    self.send(&mut batch).await?;
                }
                let mut begin = StepStart::of(&step, &batch, self.is_admitted(), begun);
                batch = self.run(batch, step).await?;
                if let Some(time) = self.session.sleep.take() {
                    self.send_first(&mut batch, begin.take_reply_len()).await?;
                    Box::pin(self.pause(time, &mut batch)).await?;
                }
                let is_midway = self.progress.has_begun();
                let time;
                (begun, time) = begin.account(&self.local, &self.session, &mut batch, is_midway);
                request_stats::apply_reply_mode(&mut self.session, &mut batch, begin, is_midway);
                if let Some(wait) = self.session.wait.take() {
                    Box::pin(self.wait_for_sync(wait, begin.reply_len(), &mut batch)).await?;
                }
                if batch.reply.has_overflowed() {
                    return Err(ConnectionEnd::Overflow);
                }
                if batch.reply.len() >= REPLY_SIZE {
                    self.send(&mut batch).await?;
                }
                if self.session.after != AfterReply::Continue {
                    return Ok(batch);
                }
                steps += 1;
                self.yields = is_midway || time >= LONG_STEP || steps.is_multiple_of(STEPS);
            }
            self.decoder.retire(&mut batch.input, &mut batch.requests);
            if let Err(error) = decoded {
                return Box::pin(self.end_by_violation(batch, error)).await;
            }
            if !full && !mem::take(&mut self.has_received_early) {
                return Ok(batch);
            }
        }
    }

    /// Ends the connection of a client that has violated the protocol: after an error reply, without one if CLIENT REPLY
    /// suppresses it, or at once if the client speaks another protocol.
    async fn end_by_violation(
        &mut self,
        mut batch: Box<RequestBatch>,
        error: ProtocolError,
    ) -> Result<Box<RequestBatch>, ConnectionEnd> {
        if let ProtocolError::Foreign(foreign) = error {
            self.send(&mut batch).await?;
            return Err(ConnectionEnd::Foreign(foreign));
        }
        self.local.shared.context.errors.note(b"-ERR");
        if self.session.replies == ReplyMode::On {
            batch.reply.error(match error {
                // The byte as the client sent it, also if it is no ASCII.
                ProtocolError::NotBulk(byte) => {
                    [&b"ERR Protocol error: expected '$', got '"[..], &[byte], b"'"].concat()
                }
                error => format!("ERR {error}").into_bytes(),
            });
        }
        self.session.after = AfterReply::Close;
        Ok(batch)
    }

    /// Closes the stream after the last reply. Gives up after [`MAX_CLOSE_TIME`], CLIENT KILL or `--timeout`.
    async fn close(&mut self) -> Result<(), ConnectionEnd> {
        let Self { stream, idle, .. } = self;
        let close = poll_fn(|cx| {
            let closed = Pin::new(&mut *stream).poll_shutdown(cx);
            idle.on_poll(cx, closed)
        });
        Ok(timeout(MAX_CLOSE_TIME, close).await.unwrap_or(Ok(()))?)
    }

    /// Returns `true` if the client may use all commands now: it has authenticated, or the server has no password.
    fn is_admitted(&self) -> bool {
        self.session.authenticated || self.local.shared.context.live.password().is_none()
    }

    fn next_step(&self, batch: &RequestBatch) -> Option<Step> {
        let (session, transaction) = (&self.session, self.transaction.as_deref());
        let mode = if !self.is_admitted() {
            ClientMode::BeforeAuth
        } else if session.replies == ReplyMode::Skip {
            ClientMode::OneByOne
        } else {
            ClientMode::Normal
        };
        next_step(batch, (mode, session.space), transaction, &self.local.shared.context.store)
    }

    /// Waits as WAIT and WAITAOF require, after sending the replies to earlier requests, which end at `start`. The
    /// reply to WAITAOF, which begins there, is replaced once the result of the sync is known.
    async fn wait_for_sync(
        &mut self,
        wait: WaitRequest,
        start: usize,
        batch: &mut RequestBatch,
    ) -> Result<(), ConnectionEnd> {
        if start > 0 {
            self.send_first(batch, start).await?;
        }
        let begin = Instant::now();
        if wait.sync {
            let is_synced = self.sync_within(wait.time).await?;
            // With CLIENT REPLY OFF or SKIP there is no reply to replace.
            if !batch.reply.is_empty() {
                batch.reply.truncate(0);
                match is_synced {
                    Ok(is_synced) => WaitRequest::answer(is_synced, &mut batch.reply),
                    Err(error) => batch.reply.error(error.to_string()),
                }
            }
            if !wait.for_replicas {
                return Ok(());
            }
        }
        self.pause(wait.time.saturating_sub(begin.elapsed()), batch).await
    }

    /// Waits for `time`, or until the server is stopping. What the client sends meanwhile is received, up to a full read
    /// buffer, so that the end of its stream ends the connection, as CLIENT KILL does.
    async fn pause(&mut self, time: Duration, batch: &mut RequestBatch) -> Result<(), ConnectionEnd> {
        let mut timer = pin!(sleep(time));
        poll_fn(|cx| {
            if self.session.client().is_killed() {
                return Poll::Ready(Err(CloseReason::Killed.into()));
            }
            if self.local.is_stopping() {
                return Poll::Ready(Ok(()));
            }
            while !batch.input.is_full() {
                let mut space = ReadBuf::new(batch.input.space());
                let Poll::Ready(outcome) = Pin::new(&mut self.stream).poll_read(cx, &mut space) else {
                    break;
                };
                let len = space.filled().len();
                outcome?;
                if len == 0 {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
                }
                batch.input.advance(len);
                self.local.stats().received.fetch_add(len as u64, Ordering::Relaxed);
                self.has_received_early = true;
            }
            timer.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Syncs all writes so far. Returns `true` if they are durable within `time` (zero: no limit), `false` if they are
    /// not known to be durable then, or the error of the sync. The outer error ends the connection.
    async fn sync_within(&self, time: Duration) -> Result<Result<bool, store::Error>, ConnectionEnd> {
        let sync = self.local.await_offloaded(self.sync());
        let synced = if time.is_zero() {
            self.unless_killed(sync).await?
        } else {
            self.unless_killed(timeout(time, sync)).await?.unwrap_or(Ok(Ok(false)))
        };
        Ok(synced?)
    }

    /// Syncs all writes so far on a blocking thread, and returns `true` or the error of the sync. A sync goes on after
    /// the time limit of its WAITAOF, so the server has only one of them at a time: otherwise those that wait for a slow
    /// disk would occupy the blocking threads. One sync ends the waits of all that began before it.
    async fn sync(&self) -> io::Result<Result<bool, store::Error>> {
        let shared = &self.local.shared;
        let store = shared.context.store.clone();
        let begun = store.syncs_begun();
        let turn = shared.waitaof_sync.clone().lock_owned().await;
        if store.has_synced_since(begun) {
            return Ok(Ok(true));
        }
        let sync = spawn_blocking(move || {
            let _turn = turn;
            store.sync_since(begun).map(|()| true)
        });
        Ok(sync.await?)
    }

    /// Waits for `work` and returns its result. Fails after CLIENT KILL, which wakes the connection's task.
    async fn unless_killed<T>(&self, work: impl Future<Output = T>) -> Result<T, ConnectionEnd> {
        let (client, mut work) = (self.session.client(), pin!(work));
        poll_fn(|cx| match client.is_killed() {
            true => Poll::Ready(Err(CloseReason::Killed.into())),
            false => work.as_mut().poll(cx).map(Ok),
        })
        .await
    }

    /// Sends the buffered replies and empties the reply buffer. Returns once the socket has accepted all bytes; until
    /// then the server reads no more requests from the client.
    async fn send(&mut self, batch: &mut RequestBatch) -> Result<(), ConnectionEnd> {
        let end = batch.reply.len();
        self.send_first(batch, end).await
    }

    /// Sends the first `end` bytes of the replies, which are whole replies. Until the client has read them, no more
    /// requests are read from it.
    async fn send_first(&mut self, batch: &mut RequestBatch, end: usize) -> Result<(), ConnectionEnd> {
        let Self { stream, idle, local, .. } = self;
        let mut sent = 0;
        while sent < end {
            let rest = batch.reply.bytes().get(sent..end).unwrap_or_default();
            let piece = rest.get(..MAX_WRITE).unwrap_or(rest);
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
            if len == MAX_WRITE {
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
        batch.reply.consume(end);
        Ok(())
    }
}

/// Returns the limits on the size of a client's requests, from the current settings; they are lower unless the client may
/// use all commands (`is_admitted`).
fn limits(local: &WorkerState, is_admitted: bool) -> Limits {
    let limits =
        Limits { query_buffer: as_size(&local.shared.context.live.query_buffer_limit), ..Limits::default() };
    if is_admitted { limits } else { limits.before_auth() }
}

/// Reason why the server must close a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum CloseReason {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it was idle for as long as --timeout")]
    Idle,
    #[error("another client killed it")]
    Killed,
}

/// Timer that measures how long a connection has had no traffic, for `--timeout`.
struct IdleTimer {
    client: Arc<Client>,
    context: Arc<command::ServerState>,
    /// Timer of the idle connection, with the value of the setting `timeout` when it was started; `None` before the
    /// connection first waits, and if there is no timeout.
    timer: Option<(Duration, Pin<Box<Sleep>>)>,
    /// `true` if the timer was started after the connection's latest traffic; otherwise the next poll starts it again.
    armed: bool,
}

impl IdleTimer {
    fn new(client: Arc<Client>, context: Arc<command::ServerState>) -> Self {
        Self { client, context, timer: None, armed: false }
    }

    /// Returns the result of a read or write of the socket. If it is pending, checks for CLIENT KILL and the
    /// timeout, which are errors.
    fn on_poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<Result<T, CloseReason>> {
        match poll {
            Poll::Pending if self.client.is_killed() => Poll::Ready(Err(CloseReason::Killed)),
            Poll::Pending => self.poll(cx).map(|()| Err(CloseReason::Idle)),
            Poll::Ready(outcome) => {
                self.armed = false;
                Poll::Ready(outcome.map_err(CloseReason::Io))
            }
        }
    }

    /// Polls the timer while a read or a write of the socket is pending; ready when `--timeout` has passed without
    /// traffic. Never ready without a timeout, or for a client of MONITOR, which has nothing to send.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_monitor = self.client.monitors.load(Ordering::Relaxed);
        let Some(limit) = self.context.live.timeout().filter(|_| !is_monitor) else {
            self.timer = None;
            return Poll::Pending;
        };
        let (last, timer) = self.timer.get_or_insert_with(|| {
            self.armed = true;
            (limit, Box::pin(sleep(limit)))
        });
        if !self.armed || *last != limit {
            timer.as_mut().reset(tokio::time::Instant::now() + limit);
            (*last, self.armed) = (limit, true);
        }
        timer.as_mut().poll(cx)
    }
}
