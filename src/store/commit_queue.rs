//! Group commit: while one group is being written and synced, the next one gathers. No timer, no
//! added delay; one sync serves every client that wrote meanwhile.

use super::{
    Store, Work,
    sync_primitives::{Condvar, Mutex, MutexGuard, yield_now},
};
use std::{
    collections::VecDeque,
    sync::PoisonError,
    time::{Duration, Instant},
};

/// A group takes no more than this many bytes of requests (and at least one part), so that its batch
/// stays within what engines handle well, and early clients do not wait for everybody's bulk load.
const GROUP_BYTES: usize = 32 << 20;

/// The same where each group is a transaction of several machines, whose cost grows faster than its size: about a
/// thousand small writes.
const SHARED_GROUP_BYTES: usize = 64 << 10;

/// Writes that wait for the committing thread, in arrival order.
pub struct CommitQueue<W> {
    state: Mutex<State<W>>,
    wake: Condvar,
}

struct State<W> {
    waiting: VecDeque<W>,
    /// The committing thread waits for work. Otherwise it looks by itself when its group is done.
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
    /// Adds `work` without waking the committing thread. Returns whether it sleeps: the caller then
    /// owes it a [`CommitQueue::wake`], and may first let others add theirs.
    pub fn push(&self, work: W) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(work);
        state.idle
    }

    /// Wakes the committing thread.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Lets [`CommitQueue::run`] return when everything that waits has been committed.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Commits group after group until closed. `clients` tells how many may be adding work, `deliver`
    /// takes each group's parts back, and how long its commit took.
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

    /// Carries out group after group of at most so many bytes of requests, until closed.
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

    /// Waits for work and moves it to `group`, `most` bytes or one part; `false` when there will be none.
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
        // Where workers and this thread share a core, let them go first for as long as that makes the
        // group larger: what they add now would cost a sync of its own, and wake-ups in the middle of
        // this group's commit. On a core of its own this thread goes on at once. But with everybody in
        // one group the workers have nothing to do while it is synced. From a quarter of the clients on two
        // groups take turns; from half on, the smaller of the two would wait and join the larger.
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

    /// No code that can panic runs under this lock, so poisoning means nothing.
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
