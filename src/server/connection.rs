//! One connection: read what is there, run every complete request, answer with one write.

use super::{
    cold::{self, Temperature},
    exchange::{Exchange, Home, REPLY_SIZE, Run},
    pool,
    worker::Local,
};
use crate::{
    command::{After, Session},
    resp::{Decoder, Limits, Partial, Protocol},
};
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    slice,
    sync::atomic::Ordering,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::oneshot,
    task::{spawn_blocking, yield_now},
};

/// Longest incomplete request that an idle connection keeps outside the read buffer.
const PARTIAL_SIZE: usize = 16 << 10;

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
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(stream: S, local: Rc<Local>, session: Session) -> Self {
        let decoder = Decoder::new(Limits::default());
        Self {
            stream,
            local,
            session,
            decoder,
            protocol: Protocol::default(),
            held: None,
            partial: None,
            temperature: Temperature::default(),
        }
    }

    /// Serves until the client or the server ends it.
    pub async fn serve(mut self) {
        if let Err(error) = self.try_serve().await {
            log::debug!("client {} ({}): {error}", self.session.id, self.session.peer);
        }
        if self.session.after == After::Shutdown {
            self.local.shared.request_shutdown();
        }
    }

    async fn try_serve(&mut self) -> io::Result<()> {
        while let Some(mut exchange) = poll_fn(|cx| self.poll_receive(cx)).await? {
            let full = exchange.input.is_full();
            exchange.reply.set_protocol(self.protocol);
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
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Box<Exchange>>>> {
        let mut exchange = self.held.take().unwrap_or_else(pool::take);
        if let Some(partial) = self.partial.take() {
            exchange.restore(*partial);
        }
        let mut space = ReadBuf::new(exchange.input.space());
        match Pin::new(&mut self.stream).poll_read(cx, &mut space) {
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
    async fn answer(&mut self, mut exchange: Box<Exchange>) -> io::Result<Box<Exchange>> {
        loop {
            let decoded = self.decoder.decode(&mut exchange.input, &mut exchange.requests);
            let full = self.decoder.is_full(&exchange.requests);
            exchange.resolve();
            self.local.stats().commands.fetch_add(exchange.requests.len() as u64, Ordering::Relaxed);
            while let Some(run) = exchange.next_run() {
                exchange = self.run(exchange, run).await?;
                if exchange.reply.len() >= REPLY_SIZE {
                    self.send(&mut exchange).await?;
                }
                if self.session.after != After::Continue {
                    return Ok(exchange);
                }
            }
            self.decoder.retire(&mut exchange.input, &mut exchange.requests);
            if let Err(error) = decoded {
                exchange.reply.error(format!("ERR {error}"));
                self.session.after = After::Close;
                return Ok(exchange);
            }
            if !full {
                return Ok(exchange);
            }
        }
    }

    async fn run(&mut self, mut exchange: Box<Exchange>, run: Run) -> io::Result<Box<Exchange>> {
        let shared = &self.local.shared;
        match run {
            Run::Read => self.read(exchange).await,
            Run::Write if shared.context.store.is_memory_only() => {
                shared.context.store.commit(slice::from_mut(&mut exchange));
                Ok(exchange)
            }
            Run::Write => {
                let (connection, committed) = oneshot::channel();
                exchange.home = Some(Home { worker: self.local.index, connection });
                self.local.submit(exchange);
                committed.await.map_err(|_| io::Error::other("the committing thread is gone"))
            }
            Run::Session(run) => {
                exchange.answer_one(|_, args, reply| run(&mut self.session, &shared.context, args, reply));
                Ok(exchange)
            }
            Run::Query(run) => {
                let context = shared.context.clone();
                Ok(spawn_blocking(move || {
                    exchange.query(&context, run);
                    exchange
                })
                .await?)
            }
            Run::Refused => {
                exchange.answer_one(|found, args, reply| found.refuse(args, reply));
                Ok(exchange)
            }
        }
    }

    /// Reads on the worker while this client's reads are warm, because a thread hop costs more than
    /// such a read; on a blocking thread after a cold one, because that would hold up everybody.
    async fn read(&mut self, mut exchange: Box<Exchange>) -> io::Result<Box<Exchange>> {
        let store = &self.local.shared.context.store;
        if !store.reads_may_wait() {
            exchange.read(store);
            return Ok(exchange);
        }
        let cold;
        if self.temperature.is_cold() {
            let store = store.clone();
            (exchange, cold) = spawn_blocking(move || {
                let cold = cold::is_cold(|| exchange.read(&store));
                (exchange, cold)
            })
            .await?;
        } else {
            cold = cold::is_long(|| exchange.read(store));
        }
        self.temperature.note(cold);
        Ok(exchange)
    }

    /// Sends the replies. A client that does not read them is not read from either.
    async fn send(&mut self, exchange: &mut Exchange) -> io::Result<()> {
        let mut sent = 0;
        while sent < exchange.reply.len() {
            let rest = exchange.reply.bytes().get(sent..).unwrap_or_default();
            let len =
                poll_fn(|cx| Poll::Ready(ready!(Pin::new(&mut self.stream).poll_write(cx, rest)))).await?;
            if len == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            sent += len;
        }
        self.local.stats().sent.fetch_add(sent as u64, Ordering::Relaxed);
        exchange.reply.truncate(0);
        Ok(())
    }
}
