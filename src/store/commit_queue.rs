//! Group commit: while one group is being written and synced, the next one gathers. No timer, no added delay; one
//! sync serves every client that wrote meanwhile.

use super::{
    Store, Work,
    sync_primitives::{Condvar, Mutex, MutexGuard, yield_now},
};
use std::{
    collections::VecDeque,
    sync::PoisonError,
    time::{Duration, Instant},
};

/// Maximum size of a commit group in bytes of requests (a group has at least one commit request), so that its batch
/// stays within what engines handle well, and early clients do not wait for the bulk load of others.
const GROUP_BYTES: usize = 32 << 20;

/// Maximum size of a commit group in bytes of requests (about a thousand small writes) if each group is a
/// transaction of several machines, whose cost grows faster than its size.
const SHARED_GROUP_BYTES: usize = 64 << 10;

/// Commit requests that wait for the commit thread, in arrival order.
pub struct CommitQueue<W> {
    state: Mutex<State<W>>,
    wake: Condvar,
}

struct State<W> {
    waiting: VecDeque<W>,
    /// `true` if the commit thread sleeps until it is woken. Otherwise it looks into the queue when its current
    /// group is done.
    idle: bool,
    closed: bool,
}

impl<W> Default for CommitQueue<W> {
    fn default() -> Self {
        let state = State { waiting: VecDeque::new(), idle: false, closed: false };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }
}

impl<W: Work> CommitQueue<W> {
    /// Appends `work` without waking the commit thread. Returns `true` if the commit thread is asleep: the caller
    /// must then call [`CommitQueue::wake`], after other clients had time to add theirs.
    pub fn push(&self, work: W) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(work);
        state.idle
    }

    /// Wakes the commit thread.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Lets [`CommitQueue::run`] return as soon as all queued commit requests have been committed.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Commits group after group until the queue is closed. `clients` returns the number of clients that may add
    /// commit requests; `deliver` takes the commit requests of each group back, with the duration of the commit.
    pub fn run(
        &self,
        store: &Store,
        clients: impl Fn() -> usize,
        deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        let is_one = store.is_shared() && !store.is_sharded();
        let most = if is_one { SHARED_GROUP_BYTES } else { GROUP_BYTES };
        self.serve(most, clients, |group| store.commit(group), deliver);
    }

    /// Calls `carry_out` with group after group of at most `most` bytes of requests, until the queue is closed.
    pub fn serve(
        &self,
        most: usize,
        clients: impl Fn() -> usize,
        mut carry_out: impl FnMut(&mut [W]),
        mut deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        let mut group = Vec::new();
        while self.take_group(&mut group, &clients, most) {
            let begin = Instant::now();
            carry_out(&mut group);
            deliver(&mut group, begin.elapsed());
            group.clear();
        }
    }

    /// Waits for commit requests and moves at most `most` bytes of them, or one, to `group`. Returns `false` if the
    /// queue is closed and empty.
    fn take_group(&self, group: &mut Vec<W>, clients: &impl Fn() -> usize, most: usize) -> bool {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            state.idle = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle = false;
        }
        // If workers and this thread share a core, let the workers run first as long as that makes the group
        // larger: what they add later would cost a sync of its own, and wake-ups in the middle of this group's
        // commit. On a core of its own this thread goes on at once. But with all clients in one group the workers
        // have nothing to do while it is synced. From a quarter of the clients on two groups take turns; from half
        // on, the smaller of the two would wait and join the larger.
        let (mut seen, enough) = (0, clients() / 4);
        while state.waiting.len() > seen && state.waiting.len() < enough {
            seen = state.waiting.len();
            drop(state);
            yield_now();
            state = self.lock();
        }
        let mut bytes = 0;
        while let Some(work) = state.waiting.front() {
            bytes += work.bytes();
            if bytes > most && !group.is_empty() {
                break;
            }
            group.extend(state.waiting.pop_front());
        }
        true
    }

    /// Locks the state. No code that can panic runs under this lock, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
