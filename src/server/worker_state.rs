//! State shared by the connections of one worker.

use super::{commit_request::CommitRequest, shared_state::Shared};
use crate::{command::Stats, server::file_limits::blocking_threads};
use std::{
    cell::Cell,
    rc::Rc,
    sync::{Arc, LazyLock, atomic::Ordering},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// Time from the start of a shutdown for which a worker still reads requests. Also the time without any progress (no
/// client takes a byte of its replies, and no commit or slow read runs) after which a worker that stops gives up.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// State of a worker, shared by its connections.
pub(super) struct WorkerState {
    pub index: usize,
    pub shared: Arc<Shared>,
    stopping: Cell<bool>,
    /// `true` if the worker reads nothing more from its connections, not even bytes that have arrived.
    closed: Cell<bool>,
    /// Number of tasks on other threads, such as commits and slow reads, for which connections of this worker wait.
    offloaded: Cell<usize>,
    /// Wakes the worker's task that wakes a sleeping commit thread or read thread. That task runs after all connections
    /// that are ready now were served.
    wake_requested: Notify,
}

impl WorkerState {
    pub fn new(index: usize, shared: Arc<Shared>) -> Self {
        Self {
            index,
            shared,
            stopping: Cell::new(false),
            closed: Cell::new(false),
            offloaded: Cell::new(0),
            wake_requested: Notify::new(),
        }
    }

    /// Marks the worker as stopping, and wakes the tasks of all connections of the server. Each connection of this
    /// worker answers what it has received, and ends; those of workers that are not stopping continue to wait.
    pub fn stop(&self) {
        self.stopping.set(true);
        // A connection of this worker that is not registered yet has a task that was not polled yet, so it runs later.
        self.shared.context.clients.wake();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Waits for `work`, which runs on another thread, and returns its result; a shutdown of the worker waits for
    /// it, too.
    pub async fn await_offloaded<T>(&self, work: impl Future<Output = T>) -> T {
        self.await_offloaded_tasks(1, work).await
    }

    /// Waits for `work`, which runs on `threads` other threads, and returns its result; a shutdown of the worker
    /// waits for it, too.
    pub async fn await_offloaded_tasks<T>(&self, threads: usize, work: impl Future<Output = T>) -> T {
        let _counted = Offloaded::count(&self.offloaded, threads);
        work.await
    }

    /// Returns the number of the worker's blocking threads that are free for reads, or less: commits on commit threads
    /// count as if they ran on blocking threads.
    pub fn idle_readers(&self) -> usize {
        blocking_threads(self.shared.inboxes.len()).saturating_sub(self.offloaded.get())
    }

    pub fn stats(&self) -> &Stats {
        // One entry per worker exists before the workers are started.
        static NONE: LazyLock<Stats> = LazyLock::new(Stats::default);
        self.shared.context.stats.get(self.index).map(|stats| &**stats).unwrap_or(&NONE)
    }

    /// Passes writes to the commit threads. If one of them sleeps, it is woken only after every connection that is
    /// ready now has been served, so that their writes share a commit.
    pub fn submit(&self, request: CommitRequest) {
        if self.shared.queue.push(request) {
            self.wake_requested.notify_one();
        }
    }

    /// Passes reads to the threads that read for all connections. If one of them sleeps, it is woken only after every
    /// connection that is ready now has been served.
    pub fn submit_read(&self, request: CommitRequest) {
        if self.shared.reads.push(request) {
            self.wake_requested.notify_one();
        }
    }

    /// Runs the task that wakes a sleeping commit thread and read thread whenever requests were passed to them. As a
    /// task of its own it runs after all tasks that were woken before it.
    pub async fn run_waker_task(self: Rc<Self>) {
        loop {
            self.wake_requested.notified().await;
            self.shared.queue.wake();
            self.shared.reads.wake();
        }
    }

    /// Runs the task that hands executed commit requests back to the connections that wait for them. The thread that
    /// has executed them wakes only this task, and this task wakes the connections, which saves a system call for each
    /// of them.
    pub async fn deliver(self: Rc<Self>) {
        let Some(inbox) = self.shared.inboxes.get(self.index) else { return };
        let mut done = Vec::new();
        loop {
            inbox.take(&mut done).await;
            for mut request in done.drain(..) {
                if let Some(reply_to) = request.reply_to.take() {
                    // The connection may have ended; the reply is then dropped.
                    let _ = reply_to.connection.send(request);
                }
            }
        }
    }

    /// Waits until the connections have answered the received requests and ended, at most `patience` in total.
    /// [`DRAIN_TIMEOUT`] after the start, nothing more is read from clients. The wait also ends when for
    /// [`DRAIN_TIMEOUT`] no client of the worker took a byte and no commit or slow read ran.
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

/// Tasks on other threads for which a connection waits, counted until this is dropped: the wait may end before them, as
/// that of WAITAOF does after its time limit.
struct Offloaded<'w> {
    count: &'w Cell<usize>,
    threads: usize,
}

impl<'w> Offloaded<'w> {
    /// Adds `threads` to `count`, until the returned value is dropped.
    fn count(count: &'w Cell<usize>, threads: usize) -> Self {
        count.set(count.get() + threads);
        Self { count, threads }
    }
}

impl Drop for Offloaded<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - self.threads);
    }
}
