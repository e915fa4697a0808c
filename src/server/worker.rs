//! A worker: one thread with its own event loop and its own connections. On the path of a read, workers share
//! nothing that they write but the engine, and the queue of reads if each read waits for the network.

use super::{
    connection::Connection,
    listener,
    shared_state::{AcceptedStream, Shared},
    worker_state::{DRAIN_TIMEOUT, WorkerState},
};
use crate::{command::Session, server::file_limits::blocking_threads};
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{self, LocalRuntime},
    sync::mpsc,
    task::spawn_local,
    time::timeout,
};

/// Maximum duration of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl WorkerState {
    async fn serve(self: Rc<Self>, id: u64, incoming: AcceptedStream) {
        let guard = Guard(self.clone());
        let outcome = match incoming {
            AcceptedStream::Tcp(stream, peer) => self.serve_tcp(id, stream, peer).await,
            // Boxed, because the state of the handshake would make every connection larger.
            AcceptedStream::Tls(stream, peer) => Box::pin(self.serve_tls(id, stream, peer)).await,
            AcceptedStream::Unix(stream, path) => self.serve_unix(id, stream, &path).await,
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
        // A worker that stops wakes its connections, also those that are in the handshake, and so does CLIENT KILL.
        let client = Arc::clone(session.client());
        client.set_waker(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await);
        let mut handshake = pin!(timeout(HANDSHAKE, acceptor.accept(stream)));
        let done = poll_fn(|cx| match handshake.as_mut().poll(cx) {
            Poll::Pending if self.is_stopping() || client.is_killed() => Poll::Ready(None),
            other => other.map(Some),
        });
        match done.await {
            Some(Ok(Ok(stream))) => self.serve_stream(stream, session).await,
            Some(Ok(Err(error))) => {
                log::info!("client {id} ({peer}) closed: the TLS handshake failed: {error}")
            }
            Some(Err(_)) => {
                log::info!("client {id} ({peer}) closed: it did not finish the TLS handshake")
            }
            None => {}
        }
        Ok(())
    }

    /// Sets the options of an accepted TCP connection, and creates its session state.
    fn open(
        &self,
        id: u64,
        stream: std::net::TcpStream,
        peer: SocketAddr,
    ) -> io::Result<(tokio::net::TcpStream, Session)> {
        // Replies are sent in whole batches; delaying them to gather more bytes gains nothing.
        stream.set_nodelay(true)?;
        if let Some(time) = self.shared.keepalive {
            listener::keep_alive(&stream, time)?;
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

/// Decrements the worker's number of open connections when a connection ends, also by a panic.
struct Guard(Rc<WorkerState>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.stats().connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sets the batch scheduling policy: a thread that wakes this one goes on until it sleeps or has used its time
/// slice. So the commit thread, which has just delivered one group, starts the next commit before the replies
/// to the first group are sent; and a thread that then waits for its client leaves the worker its own core with
/// warm caches.
fn set_batch_scheduling() {
    #[cfg(target_os = "linux")]
    {
        #[expect(unsafe_code, reason = "a system call that no crate in use wraps")]
        // SAFETY: zeros are a valid value of the structure, which has more fields in musl. 0 is this thread, and the pointer
        // is to a live value that the kernel only reads.
        let outcome = unsafe {
            let parameters: libc::sched_param = std::mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters)
        };
        if outcome != 0 {
            log::debug!("SCHED_BATCH: {}", io::Error::last_os_error());
        }
    }
}

/// Time that a worker may run on a core before the kernel lets another thread run.
#[cfg(target_os = "linux")]
const TURN: Duration = Duration::from_micros(200);

/// Requests a short time slice. A worker that wakes up is then scheduled before the end of another thread's
/// default time slice of some milliseconds, such as that of a command on very many keys. Linux supports this
/// since 6.12 (see `Documentation/scheduler/sched-eevdf.rst`); earlier versions ignore it.
fn set_short_time_slice() {
    #[cfg(target_os = "linux")]
    {
        let size = size_of::<libc::sched_attr>() as u32;
        let mut attributes = libc::sched_attr {
            size,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        #[expect(unsafe_code, reason = "system calls that no crate in use wraps")]
        // SAFETY: 0 is this thread, and the pointer is to a live value of `size` bytes; the first call fills
        // it, the second only reads it.
        let outcome = unsafe {
            let got = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0);
            attributes.sched_runtime = TURN.as_nanos() as u64;
            got | libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0)
        };
        if outcome != 0 {
            log::debug!("sched_setattr: {}", io::Error::last_os_error());
        }
    }
}

/// Creates the asynchronous runtime of one of `workers` workers; must be called on the worker's own thread.
pub(super) fn runtime(workers: usize) -> io::Result<LocalRuntime> {
    runtime::Builder::new_current_thread()
        .enable_all()
        // Blocking threads execute slow reads and scans.
        .max_blocking_threads(blocking_threads(workers))
        .build_local(runtime::LocalOptions::default())
}

/// Runs a worker: serves the connections that arrive through `incoming` until that channel is closed, then finishes the
/// remaining ones, for `patience` at most, and waits up to [`DRAIN_TIMEOUT`] for its blocking threads.
pub(super) fn run(
    runtime: LocalRuntime,
    index: usize,
    shared: Arc<Shared>,
    mut incoming: mpsc::UnboundedReceiver<(u64, AcceptedStream)>,
    patience: Duration,
) {
    if shared.context.store.is_memory_only() {
        set_short_time_slice();
    } else {
        set_batch_scheduling();
    }
    runtime.block_on(async move {
        let local = Rc::new(WorkerState::new(index, shared));
        spawn_local(local.clone().run_waker_task());
        spawn_local(local.clone().deliver());
        while let Some((id, connection)) = incoming.recv().await {
            spawn_local(local.clone().serve(id, connection));
        }
        local.stop();
        local.finish(patience).await;
    });
    runtime.shutdown_timeout(DRAIN_TIMEOUT);
}
