//! Group commit: while one group is being written and synced, the next one gathers. No timer, no added delay; one
//! sync serves every client that wrote meanwhile.

use super::{
    Store, Work,
    sync_primitives::{Condvar, Mutex, MutexGuard, yield_now},
};
use std::{
    collections::{HashSet, VecDeque},
    sync::PoisonError,
    time::{Duration, Instant},
};

/// Maximum size of a commit group in bytes of requests (a group has at least one commit request), so that its batch
/// stays within what engines handle well, and early clients do not wait for the bulk load of others.
pub const GROUP_BYTES: usize = 32 << 20;

/// Maximum size of a commit group in bytes of requests (about a thousand small writes) if each group is a
/// transaction of several machines, whose cost grows faster than its size.
const SHARED_GROUP_BYTES: usize = 64 << 10;

/// Commit requests that wait for a commit thread, in arrival order.
pub struct CommitQueue<W> {
    state: Mutex<State<W>>,
    wake: Condvar,
}

struct State<W> {
    waiting: VecDeque<W>,
    /// Number of commit threads that sleep until they are woken. Others look into the queue when their current group
    /// is done.
    idle: usize,
    closed: bool,
    /// Number of groups in progress.
    groups: usize,
    /// Stored keys of the groups in progress.
    keys: HashSet<Vec<u8>>,
    /// `true` while a group is in progress that may use any key.
    has_any_key: bool,
}

impl<W> Default for CommitQueue<W> {
    fn default() -> Self {
        let (waiting, keys) = Default::default();
        let state = State { waiting, idle: 0, closed: false, groups: 0, keys, has_any_key: false };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }
}

impl<W> State<W> {
    /// Moves the oldest commit requests to `group`, at most `most` bytes of them, or one. `size` returns the
    /// bytes of a request.
    fn take(&mut self, group: &mut Vec<W>, most: usize, size: impl Fn(&W) -> usize) {
        let mut bytes = 0;
        while let Some(work) = self.waiting.front() {
            bytes += size(work);
            if bytes > most && !group.is_empty() {
                break;
            }
            group.extend(self.waiting.pop_front());
        }
    }

    /// Ends a group in progress whose stored keys are `keys`.
    fn release(&mut self, keys: &[Vec<u8>]) {
        for key in keys {
            self.keys.remove(key);
        }
        self.groups -= 1;
        self.has_any_key = false;
    }
}

impl<W: Work> State<W> {
    /// Does the same, but leaves commit requests in the queue that have a key in common with a group in progress or
    /// with an earlier request that it left there. Returns the keys of the group. A commit request that may use any
    /// key is a group of its own, with no other group in progress.
    fn take_disjoint(&mut self, group: &mut Vec<W>, most: usize) -> Vec<Vec<u8>> {
        let (mut index, mut bytes, mut taken, mut blocked) = (0, 0, Vec::new(), HashSet::new());
        while let Some(work) = self.waiting.get(index).filter(|_| !self.has_any_key) {
            let size = work.bytes();
            if bytes + size > most && !group.is_empty() {
                break;
            }
            match work.keys() {
                Some(keys) if keys.iter().any(|key| self.keys.contains(key) || blocked.contains(key)) => {
                    blocked.extend(keys);
                    index += 1;
                    continue;
                }
                Some(keys) => taken.extend(keys),
                None if self.groups == 0 && index == 0 && group.is_empty() => self.has_any_key = true,
                None => break,
            }
            bytes += size;
            group.extend(self.waiting.remove(index));
        }
        self.keys.extend(taken.iter().cloned());
        taken
    }
}

impl<W> CommitQueue<W> {
    /// Appends `work` without waking a commit thread. Returns `true` if a commit thread is asleep: the caller
    /// must then call [`CommitQueue::wake`], after other clients had time to add theirs.
    pub fn push(&self, work: W) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(work);
        state.idle > 0
    }

    /// Wakes a commit thread.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Lets [`CommitQueue::run`] return as soon as all queued commit requests have been committed.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    /// Calls `carry_out` with group after group of at most `most` bytes of requests, until the queue is closed.
    /// `size` returns the bytes of a request. The other arguments are those of [`CommitQueue::run`].
    pub fn serve_sized(
        &self,
        most: usize,
        size: impl Fn(&W) -> usize,
        clients: impl Fn() -> usize,
        carry_out: impl FnMut(&mut [W]),
        deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        let take = |state: &mut State<W>, group: &mut Vec<W>| {
            state.take(group, most, &size);
            Vec::new()
        };
        self.serve_groups(take, clients, carry_out, deliver);
    }
}

impl<W: Work> CommitQueue<W> {
    /// Commits group after group until the queue is closed. `clients` returns the number of clients that may add
    /// commit requests; `deliver` takes the commit requests of each group back, with the duration of the commit.
    ///
    /// If a commit is a transaction of several machines, several threads may call this concurrently, because each
    /// waits for the network. A commit request that has a key in common with a group in progress waits until that
    /// group is done.
    pub fn run(
        &self,
        store: &Store,
        clients: impl Fn() -> usize,
        deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        let commit = |group: &mut [W]| store.commit(group);
        match store.is_shared() && !store.is_sharded() {
            true => self.serve_disjoint(SHARED_GROUP_BYTES, clients, commit, deliver),
            false => self.serve(GROUP_BYTES, clients, commit, deliver),
        }
    }

    /// Calls `carry_out` with group after group of at most `most` bytes of requests, until the queue is closed.
    pub fn serve(
        &self,
        most: usize,
        clients: impl Fn() -> usize,
        carry_out: impl FnMut(&mut [W]),
        deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        self.serve_sized(most, Work::bytes, clients, carry_out, deliver);
    }

    /// Does the same on several threads, whose groups have no keys in common.
    pub fn serve_disjoint(
        &self,
        most: usize,
        clients: impl Fn() -> usize,
        carry_out: impl FnMut(&mut [W]),
        deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        self.serve_groups(|state, group| state.take_disjoint(group, most), clients, carry_out, deliver);
    }
}

impl<W> CommitQueue<W> {
    /// Calls `carry_out` with group after group. `take` moves commit requests to a group, and returns the keys that
    /// groups of other threads must not have until it is done.
    fn serve_groups(
        &self,
        take: impl Fn(&mut State<W>, &mut Vec<W>) -> Vec<Vec<u8>>,
        clients: impl Fn() -> usize,
        mut carry_out: impl FnMut(&mut [W]),
        mut deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        let (mut group, mut keys) = (Vec::new(), None);
        while self.take_group(&mut group, &mut keys, &clients, &take) {
            let begin = Instant::now();
            carry_out(&mut group);
            deliver(&mut group, begin.elapsed());
            group.clear();
        }
    }

    /// Waits for commit requests and moves a group of them to `group`. Returns `false` if the queue is closed and
    /// empty. `keys` contains the keys of the thread's group before, which it releases, and afterwards those of the new
    /// group.
    fn take_group(
        &self,
        group: &mut Vec<W>,
        keys: &mut Option<Vec<Vec<u8>>>,
        clients: &impl Fn() -> usize,
        take: &impl Fn(&mut State<W>, &mut Vec<W>) -> Vec<Vec<u8>>,
    ) -> bool {
        let mut state = self.lock();
        if let Some(keys) = keys.take() {
            state.release(&keys);
        }
        loop {
            let mut taken = Vec::new();
            if !state.waiting.is_empty() {
                state = self.let_workers_run_first(state, clients);
                taken = take(&mut state, group);
            }
            if !group.is_empty() {
                state.groups += 1;
                *keys = Some(taken);
                if state.idle > 0 && !state.waiting.is_empty() {
                    self.wake.notify_one();
                }
                return true;
            }
            if state.closed && state.waiting.is_empty() {
                // Another thread may wait for the end of this thread's last group.
                self.wake.notify_all();
                return false;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Lets the workers run first as long as that makes the group larger, if they share a core with this thread: what
    /// they add later would cost a sync of its own, and wake-ups in the middle of this group's commit. On a core of
    /// its own this thread goes on at once. But with all clients in one group the workers have nothing to do while it
    /// is synced. From a quarter of the clients on two groups take turns; from half on, the smaller of the two would
    /// wait and join the larger.
    fn let_workers_run_first<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<W>>,
        clients: &impl Fn() -> usize,
    ) -> MutexGuard<'s, State<W>> {
        let (mut seen, enough) = (0, clients() / 4);
        while state.waiting.len() > seen && state.waiting.len() < enough {
            seen = state.waiting.len();
            drop(state);
            yield_now();
            state = self.lock();
        }
        state
    }

    /// Locks the state. No code that can panic runs under this lock, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
