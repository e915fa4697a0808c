//! What the connections of one worker share.

use super::{request_batch::RequestBatch, shared::Shared};
use crate::{
    command::{Spec, Stats},
    resp::Args,
    server::file_limits::BLOCKING_THREADS,
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ptr,
    rc::Rc,
    sync::{Arc, LazyLock, atomic::Ordering},
    task::Waker,
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// When the server stops: how long clients may go on sending, and how long one may take nothing of what it
/// has asked for.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A worker's own state, shared by its connections.
pub(super) struct WorkerState {
    pub index: usize,
    pub shared: Arc<Shared>,
    stopping: Cell<bool>,
    /// Whether nothing more is received, also of what has arrived.
    closed: Cell<bool>,
    /// Batches that other threads work on.
    offloaded: Cell<usize>,
    /// How to wake each connection when the server stops.
    wakers: RefCell<HashMap<u64, Waker>>,
    /// Asks for a kick of the committing thread.
    submitted: Notify,
    /// The command that was counted last, and its place: nearly always that of the next.
    last: Cell<Option<(&'static Spec, usize)>>,
}

impl WorkerState {
    pub fn new(index: usize, shared: Arc<Shared>) -> Self {
        Self {
            index,
            shared,
            stopping: Cell::new(false),
            closed: Cell::new(false),
            offloaded: Cell::new(0),
            wakers: RefCell::default(),
            submitted: Notify::new(),
            last: Cell::new(None),
        }
    }

    /// Adds a connection, with how to wake it when the server stops.
    pub fn register(&self, id: u64, waker: Waker) {
        self.wakers.borrow_mut().insert(id, waker);
    }

    /// Takes a connection off the books.
    pub fn unregister(&self, id: u64) {
        self.wakers.borrow_mut().remove(&id);
        self.stats().connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Tells the connections that the server stops.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.wakers.borrow().values().for_each(Waker::wake_by_ref);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Waits for `work` of another thread, which at the end of the server is waited for as well.
    pub async fn await_offloaded<T>(&self, work: impl Future<Output = T>) -> T {
        self.await_offloaded_tasks(1, work).await
    }

    /// Waits for the `work` of several threads.
    pub async fn await_offloaded_tasks<T>(&self, threads: usize, work: impl Future<Output = T>) -> T {
        self.offloaded.set(self.offloaded.get() + threads);
        let done = work.await;
        self.offloaded.set(self.offloaded.get() - threads);
        done
    }

    /// How many threads could read for a connection at once.
    pub fn idle_readers(&self) -> usize {
        BLOCKING_THREADS.saturating_sub(self.offloaded.get())
    }

    pub fn stats(&self) -> &Stats {
        // There is one row a worker, made before the workers.
        static NONE: LazyLock<Stats> = LazyLock::new(Stats::default);
        self.shared.context.stats.get(self.index).map(|stats| &**stats).unwrap_or(&NONE)
    }

    /// Where a request's command is counted, if it is carried out: see
    /// [`Commands::place`](crate::command::Commands::place).
    #[inline]
    pub fn place(&self, spec: &'static Spec, args: Args<'_>) -> Option<usize> {
        match self.last.get() {
            Some((last, place)) if ptr::eq(last, spec) => Some(place),
            _ => self.find_place(spec, args),
        }
    }

    /// The same also of a request whose subcommand has too few arguments or too many.
    pub fn named_place(&self, spec: &Spec, args: Args<'_>) -> Option<usize> {
        self.shared.commands.place(spec, args)
    }

    fn find_place(&self, spec: &'static Spec, args: Args<'_>) -> Option<usize> {
        let place = self.named_place(spec, args)?;
        if spec.subcommands.is_empty() {
            self.last.set(Some((spec, place)));
        } else if !self.shared.commands.runs(spec, args) {
            return None;
        }
        Some(place)
    }

    /// Gives writes to the committing thread. When that sleeps, it is woken only after every
    /// connection that is ready now has had its turn, so that their writes share a commit.
    pub fn submit(&self, exchange: Box<RequestBatch>) {
        if self.shared.queue.push(exchange) {
            self.submitted.notify_one();
        }
    }

    /// Gives reads to the thread that carries them out together, in the same way.
    pub fn submit_read(&self, exchange: Box<RequestBatch>) {
        if self.shared.reads.push(exchange) {
            self.submitted.notify_one();
        }
    }

    /// A task woken now runs behind all that were woken before it.
    pub async fn wake_commit_thread(self: Rc<Self>) {
        loop {
            self.submitted.notified().await;
            self.shared.queue.wake();
            self.shared.reads.wake();
        }
    }

    /// Hands committed work to the connections that wait for it. That the committing thread wakes
    /// this task, and this task the connections, saves a system call for each of them.
    pub async fn deliver(self: Rc<Self>) {
        let Some(inbox) = self.shared.inboxes.get(self.index) else { return };
        let mut done = Vec::new();
        loop {
            inbox.take(&mut done).await;
            for mut exchange in done.drain(..) {
                if let Some(home) = exchange.home.take() {
                    // A connection that is gone needs no answer.
                    let _ = home.connection.send(exchange);
                }
            }
        }
    }

    /// Lets the connections answer what they have received. Clients that only go on sending are cut off
    /// after [`DRAIN_TIMEOUT`], and those that do not read; commits that clients wait for have `patience`.
    pub async fn finish(&self, patience: Duration) {
        let stats = self.stats();
        let sent = || stats.sent.load(Ordering::Relaxed);
        let begin = Instant::now();
        let mut last = (begin, sent());
        while stats.connections.load(Ordering::Relaxed) > 0 {
            let now = Instant::now();
            if self.offloaded.get() > 0 || sent() != last.1 {
                last = (now, sent());
            }
            if now - begin >= patience {
                return self.give_up(patience);
            }
            self.closed.set(now - begin >= DRAIN_TIMEOUT);
            if now - last.0 >= DRAIN_TIMEOUT {
                return;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn give_up(&self, patience: Duration) {
        let promised = self.offloaded.get();
        if promised > 0 {
            log::warn!(
                "{promised} clients get no reply: their requests were not finished within --shutdown-timeout of {} \
                seconds; their writes are still being committed",
                patience.as_secs()
            );
        }
    }
}
