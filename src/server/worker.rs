//! A worker: one thread with its own event loop and its own connections. Nothing on the path of a
//! read is shared between workers but the engine.

use super::{Shared, connection::Connection, exchange::Exchange, sockets};
use crate::{
    command::{Session, Stats},
    limits::BLOCKING_THREADS,
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::pin,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    task::{Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime,
    sync::{Notify, mpsc},
    task::spawn_local,
    time::{Instant, sleep, timeout},
};

/// When the server stops: how long clients may go on sending, and how long one may take nothing of what it
/// has asked for.
const GRACE: Duration = Duration::from_secs(5);

/// How long a client may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection on its way to its worker.
pub(super) enum Incoming {
    /// Accepted over TCP.
    Tcp(std::net::TcpStream, SocketAddr),
    /// Accepted on the port for TLS.
    Tls(std::net::TcpStream, SocketAddr),
    /// Accepted on the Unix socket, whose path it is.
    Unix(std::os::unix::net::UnixStream, Box<str>),
}

/// Where other threads leave what they have done for a worker's connections.
#[derive(Default)]
pub(super) struct Inbox {
    done: Mutex<Vec<Box<Exchange>>>,
    ready: Notify,
}

impl Inbox {
    /// Adds committed work; `ring` wakes the worker once for all of it.
    pub fn add(&self, exchange: Box<Exchange>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
    }

    /// Wakes the worker.
    pub fn ring(&self) {
        self.ready.notify_one();
    }
}

/// A worker's own state, shared by its connections.
pub(super) struct Local {
    pub index: usize,
    pub shared: Arc<Shared>,
    stopping: Cell<bool>,
    /// Whether nothing more is received, also of what has arrived.
    closed: Cell<bool>,
    /// Batches that other threads work on.
    promised: Cell<usize>,
    /// How to wake each connection when the server stops.
    wakers: RefCell<HashMap<u64, Waker>>,
    /// Asks for a kick of the committing thread.
    submitted: Notify,
}

impl Local {
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Waits for `work` of another thread, which at the end of the server is waited for as well.
    pub async fn promise<T>(&self, work: impl Future<Output = T>) -> T {
        self.promised.set(self.promised.get() + 1);
        let done = work.await;
        self.promised.set(self.promised.get() - 1);
        done
    }

    pub fn stats(&self) -> &Stats {
        // There is one row a worker, made before the workers.
        static NONE: Stats = Stats::new();
        self.shared.context.stats.get(self.index).map_or(&NONE, |stats| stats)
    }

    /// Gives writes to the committing thread. When that sleeps, it is woken only after every
    /// connection that is ready now has had its turn, so that their writes share a commit.
    pub fn submit(&self, exchange: Box<Exchange>) {
        if self.shared.queue.push(exchange) {
            self.submitted.notify_one();
        }
    }

    /// A task woken now runs behind all that were woken before it.
    async fn kick(self: Rc<Self>) {
        loop {
            self.submitted.notified().await;
            self.shared.queue.kick();
        }
    }

    /// Hands committed work to the connections that wait for it. That the committing thread wakes
    /// this task, and this task the connections, saves a system call for each of them.
    async fn deliver(self: Rc<Self>) {
        let Some(inbox) = self.shared.inboxes.get(self.index) else { return };
        let mut done = Vec::new();
        loop {
            inbox.ready.notified().await;
            done.append(&mut inbox.done.lock().unwrap_or_else(PoisonError::into_inner));
            for mut exchange in done.drain(..) {
                if let Some(home) = exchange.home.take() {
                    // A connection that is gone needs no answer.
                    let _ = home.connection.send(exchange);
                }
            }
        }
    }

    async fn serve(self: Rc<Self>, id: u64, incoming: Incoming) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        self.wakers.borrow_mut().insert(id, waker);
        let guard = Guard { local: self.clone(), id };
        let outcome = match incoming {
            Incoming::Tcp(stream, peer) => self.serve_tcp(id, stream, peer).await,
            Incoming::Tls(stream, peer) => self.serve_tls(id, stream, peer).await,
            Incoming::Unix(stream, path) => self.serve_unix(id, stream, &path).await,
        };
        if let Err(error) = outcome {
            log::warn!("cannot serve client {id}: {error}");
        }
        drop(guard);
    }

    async fn serve_tcp(
        self: &Rc<Self>,
        id: u64,
        stream: std::net::TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let (stream, session) = self.open(id, stream, peer)?;
        self.serve_stream(stream, session).await;
        Ok(())
    }

    async fn serve_tls(
        self: &Rc<Self>,
        id: u64,
        stream: std::net::TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let Some(acceptor) = &self.shared.access.tls else { return Ok(()) };
        let (stream, session) = self.open(id, stream, peer)?;
        let mut handshake = pin!(timeout(HANDSHAKE, acceptor.accept(stream)));
        let done = poll_fn(|cx| match handshake.as_mut().poll(cx) {
            Poll::Pending if self.is_stopping() => Poll::Ready(None),
            other => other.map(Some),
        });
        match done.await {
            Some(Ok(Ok(stream))) => self.serve_stream(stream, session).await,
            Some(Ok(Err(error))) => log::info!("client {id} ({peer}) closed: no TLS with it: {error}"),
            Some(Err(_)) => {
                log::info!("client {id} ({peer}) closed: it does not finish the handshake of TLS")
            }
            None => {}
        }
        Ok(())
    }

    /// A stream with its options set, and the state of its client.
    fn open(
        &self,
        id: u64,
        stream: std::net::TcpStream,
        peer: SocketAddr,
    ) -> io::Result<(tokio::net::TcpStream, Session)> {
        // Replies are whole batches already; waiting for more to send only delays them.
        stream.set_nodelay(true)?;
        if let Some(time) = self.shared.keepalive {
            sockets::keep_alive(&stream, time)?;
        }
        let local = stream.local_addr()?.to_string().into();
        let session = Session::new(id, peer.to_string().into(), local, &self.shared.context);
        Ok((tokio::net::TcpStream::from_std(stream)?, session))
    }

    async fn serve_unix(
        self: &Rc<Self>,
        id: u64,
        stream: std::os::unix::net::UnixStream,
        path: &str,
    ) -> io::Result<()> {
        let stream = tokio::net::UnixStream::from_std(stream)?;
        let name = || format!("{path}:0").into();
        self.serve_stream(stream, Session::new(id, name(), name(), &self.shared.context)).await;
        Ok(())
    }

    async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(self: &Rc<Self>, stream: S, session: Session) {
        Connection::new(stream, self.clone(), session).serve().await;
    }
}

impl Local {
    /// Lets the connections answer what they have received. Clients that only go on sending are cut off
    /// after [`GRACE`], and those that do not read; commits that clients wait for have `patience`.
    async fn finish(&self, patience: Duration) {
        let stats = self.stats();
        let sent = || stats.sent.load(Ordering::Relaxed);
        let begin = Instant::now();
        let mut last = (begin, sent());
        while stats.connections.load(Ordering::Relaxed) > 0 {
            let now = Instant::now();
            if self.promised.get() > 0 || sent() != last.1 {
                last = (now, sent());
            }
            if now - begin >= patience {
                return self.give_up(patience);
            }
            self.closed.set(now - begin >= GRACE);
            if now - last.0 >= GRACE {
                return;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn give_up(&self, patience: Duration) {
        let promised = self.promised.get();
        if promised > 0 {
            log::warn!(
                "{promised} clients get no reply: their requests were not done within --shutdown-timeout of {} \
                 seconds; writes among them are still being committed",
                patience.as_secs()
            );
        }
    }
}

/// Takes a connection off the books when it ends, also by a panic.
struct Guard {
    local: Rc<Local>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.local.wakers.borrow_mut().remove(&self.id);
        self.local.stats().connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets a thread that wakes this one go on until it sleeps or has had its share of the core. So the
/// committing thread, which has just delivered one group, hands the next one to the disk before replies of
/// the first are sent; and one that only waits for its client finds the worker on its own core, in the same
/// caches.
fn wake_without_preempting() {
    #[cfg(target_os = "linux")]
    {
        let parameters = libc::sched_param { sched_priority: 0 };
        #[expect(unsafe_code, reason = "a system call that no crate in use wraps")]
        // SAFETY: 0 is this thread, and the pointer is to a live value that the kernel only reads.
        let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
        if outcome != 0 {
            log::debug!("SCHED_BATCH: {}", io::Error::last_os_error());
        }
    }
}

/// Serves the connections that come through `incoming` until it closes, then those that are left, for
/// `patience` at most.
pub(super) fn run(
    index: usize,
    shared: Arc<Shared>,
    mut incoming: mpsc::UnboundedReceiver<(u64, Incoming)>,
    patience: Duration,
) -> io::Result<()> {
    if !shared.context.store.is_memory_only() {
        wake_without_preempting();
    }
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        // Cold reads and scans.
        .max_blocking_threads(BLOCKING_THREADS)
        .build_local(runtime::LocalOptions::default())?;
    runtime.block_on(async move {
        let local = Rc::new(Local {
            index,
            shared,
            stopping: Cell::new(false),
            closed: Cell::new(false),
            promised: Cell::new(0),
            wakers: RefCell::default(),
            submitted: Notify::new(),
        });
        spawn_local(local.clone().kick());
        spawn_local(local.clone().deliver());
        while let Some((id, connection)) = incoming.recv().await {
            spawn_local(local.clone().serve(id, connection));
        }
        local.stopping.set(true);
        local.wakers.borrow().values().for_each(Waker::wake_by_ref);
        local.finish(patience).await;
    });
    runtime.shutdown_timeout(GRACE);
    Ok(())
}
