//! A worker: one thread with its own event loop and its own connections. Nothing on the path of a
//! read is shared between workers but the engine.

use super::{Shared, connection::Connection, exchange::Exchange};
use crate::command::{Session, Stats};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    io,
    net::SocketAddr,
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
    time::sleep,
};

/// How long connections may take to finish when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// A connection on its way to its worker.
pub(super) enum Incoming {
    /// Accepted over TCP.
    Tcp(std::net::TcpStream, SocketAddr),
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
    /// How to wake each connection when the server stops.
    wakers: RefCell<HashMap<u64, Waker>>,
    /// Asks for a kick of the committing thread.
    submitted: Notify,
}

impl Local {
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
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
            Incoming::Unix(stream, path) => match tokio::net::UnixStream::from_std(stream) {
                Ok(stream) => {
                    let session = Session::new(id, format!("{path}:0").into(), format!("{path}:0").into());
                    self.serve_stream(stream, session).await;
                    Ok(())
                }
                Err(error) => Err(error),
            },
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
        // Replies are whole batches already; waiting for more to send only delays them.
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        let session = Session::new(id, peer.to_string().into(), local.to_string().into());
        self.serve_stream(tokio::net::TcpStream::from_std(stream)?, session).await;
        Ok(())
    }

    async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(self: &Rc<Self>, stream: S, session: Session) {
        Connection::new(stream, self.clone(), session).serve().await;
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

/// Serves the connections that come through `incoming` until it closes, then those that are left.
pub(super) fn run(
    index: usize,
    shared: Arc<Shared>,
    mut incoming: mpsc::UnboundedReceiver<(u64, Incoming)>,
) -> io::Result<()> {
    if !shared.context.store.is_memory_only() {
        wake_without_preempting();
    }
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        // Cold reads and scans; more at once would not make a device faster.
        .max_blocking_threads(16)
        .build_local(runtime::LocalOptions::default())?;
    runtime.block_on(async move {
        let local = Rc::new(Local {
            index,
            shared,
            stopping: Cell::new(false),
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
        let deadline = tokio::time::Instant::now() + GRACE;
        while local.stats().connections.load(Ordering::Relaxed) > 0 && tokio::time::Instant::now() < deadline
        {
            sleep(Duration::from_millis(2)).await;
        }
    });
    runtime.shutdown_timeout(GRACE);
    Ok(())
}
