//! Group commit: while one group is being written and synced, the next one gathers. No timer, no added delay; one
//! sync serves every client that wrote meanwhile.

use super::{
    Store, Work,
    sync_primitives::{Condvar, Mutex, MutexGuard, yield_now},
};
use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::PoisonError,
    time::{Duration, Instant},
};

/// Maximum size of a commit group in bytes of requests (a group has at least one commit request), so that its batch
/// stays within what engines handle well, and early clients do not wait for the bulk load of others.
pub const GROUP_BYTES: usize = 32 << 20;

/// Maximum size of a commit group in bytes of requests (about a thousand small writes) if each group is a
/// transaction of several machines, whose cost grows faster than its size.
const SHARED_GROUP_BYTES: usize = 64 << 10;

/// Function that returns the stored keys of a commit request, or `None` if they may be any.
type ListKeys<W> = fn(&W) -> Option<Vec<Vec<u8>>>;

/// Commit requests of all connections that wait for a commit thread, in arrival order.
pub struct CommitQueue<W> {
    state: Mutex<State<W>>,
    wake: Condvar,
    /// Function that lists the keys of a commit request ([`Work::keys`]) if several groups may be committed
    /// concurrently, otherwise `None`.
    list_keys: Option<ListKeys<W>>,
    hasher: RandomState,
}

/// Commit request in the commit queue.
struct Waiting<W> {
    work: W,
    /// Hashes of the stored keys of the commit request, or `None` if it may use any key. Empty if no groups are
    /// committed concurrently. A request that waits for a group is looked at many times, so they are computed once,
    /// before the queue is locked.
    keys: Option<Vec<u64>>,
}

struct State<W> {
    waiting: VecDeque<Waiting<W>>,
    /// Number of commit threads that sleep until they are woken. The others look into the queue when their current
    /// commit group is done.
    idle: usize,
    closed: bool,
    /// Number of commit groups that commit threads are committing now.
    groups: usize,
    /// Hashes of the stored keys of the commit groups in progress.
    keys: HashSet<u64>,
    /// `true` while a commit group is in progress that may use any key.
    has_any_key: bool,
}

impl<W> Default for CommitQueue<W> {
    /// Creates a commit queue for a single commit thread, which takes the commit requests in order, whatever their
    /// keys.
    fn default() -> Self {
        let (waiting, keys, hasher) = Default::default();
        let state = State { waiting, idle: 0, closed: false, groups: 0, keys, has_any_key: false };
        Self { state: Mutex::new(state), wake: Condvar::new(), list_keys: None, hasher }
    }
}

impl<W: Work> State<W> {
    /// Moves the oldest commit requests to `group`, at most `most` bytes of them, or one. A request stays in the queue
    /// if it has a key in common with a group in progress, or with an earlier request that stays. One that may use any
    /// key becomes a group of its own, once no other group is in progress. Returns the hashes of the group's keys.
    fn take(&mut self, group: &mut Vec<W>, most: usize) -> Vec<u64> {
        let (mut index, mut bytes, mut taken) = (0, 0, Vec::new());
        let mut blocked = HashSet::<u64>::new();
        while let Some(Waiting { work, keys }) = self.waiting.get(index).filter(|_| !self.has_any_key) {
            let size = work.bytes();
            if bytes + size > most && !group.is_empty() {
                break;
            }
            match keys {
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
            group.extend(self.waiting.remove(index).map(|waiting| waiting.work));
        }
        self.keys.extend(&taken);
        taken
    }

    /// Records that a commit group has ended, so that other groups may use its keys; `keys` are the hashes of the keys
    /// that it used.
    fn release(&mut self, keys: &[u64]) {
        for key in keys {
            self.keys.remove(key);
        }
        self.groups -= 1;
        self.has_any_key = false;
    }
}

impl<W> CommitQueue<W> {
    /// Appends `work` without waking a commit thread. Returns `true` if a commit thread is asleep: the caller
    /// must then call [`CommitQueue::wake`], after other clients had time to add theirs.
    pub fn push(&self, work: W) -> bool {
        let keys = match self.list_keys.map(|list_keys| list_keys(&work)) {
            Some(keys) => keys.map(|keys| keys.iter().map(|key| self.hasher.hash_one(key)).collect()),
            None => Some(Vec::new()),
        };
        let mut state = self.lock();
        state.waiting.push_back(Waiting { work, keys });
        state.idle > 0
    }

    /// Wakes one sleeping commit thread.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Lets [`CommitQueue::run`] return as soon as all queued commit requests have been committed.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
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

    /// Locks the state. No code that can panic runs under this lock (of requests, only their sizes are asked for), so
    /// poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Work> CommitQueue<W> {
    /// Creates the commit queue for several commit threads, whose commit groups in progress have no keys in common.
    pub fn disjoint() -> Self {
        Self { list_keys: Some(W::keys), ..Self::default() }
    }

    /// Creates the commit queue for the commit threads of `store`: one thread, or several if groups are committed
    /// concurrently.
    pub fn of(store: &Store) -> Self {
        if store.commits_concurrently() { Self::disjoint() } else { Self::default() }
    }

    /// Commits group after group until the queue is closed and empty. `clients` returns the number of clients that may
    /// add commit requests; `deliver` takes the commit requests of each group back, with the duration of the commit.
    ///
    /// If a commit is a transaction of several machines ([`CommitQueue::disjoint`]), several threads may call this
    /// concurrently, because each waits for the network. A commit request that has a key in common with a group in
    /// progress waits until that group is done.
    pub fn run(
        &self,
        store: &Store,
        clients: impl Fn() -> usize,
        deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        let most = if store.commits_concurrently() { SHARED_GROUP_BYTES } else { GROUP_BYTES };
        self.serve(most, clients, |group| store.commit(group), deliver);
    }

    /// Calls `carry_out` with group after group of at most `most` bytes of requests (or one request), until the queue
    /// is closed and empty. `clients` and `deliver` are those of [`CommitQueue::run`].
    pub fn serve(
        &self,
        most: usize,
        clients: impl Fn() -> usize,
        mut carry_out: impl FnMut(&mut [W]),
        mut deliver: impl FnMut(&mut Vec<W>, Duration),
    ) {
        let (mut group, mut keys) = (Vec::new(), None);
        while self.take_group(&mut group, &mut keys, most, &clients) {
            let begin = Instant::now();
            carry_out(&mut group);
            deliver(&mut group, begin.elapsed());
            group.clear();
        }
    }

    /// Waits for commit requests and moves a group of at most `most` bytes of them, or one, to `group`. Returns `false`
    /// if the queue is closed and empty. `keys` contains the hashes of the keys of the thread's group before, which it
    /// releases, and after the call those of the new group.
    fn take_group(
        &self,
        group: &mut Vec<W>,
        keys: &mut Option<Vec<u64>>,
        most: usize,
        clients: &impl Fn() -> usize,
    ) -> bool {
        let mut state = self.lock();
        if let Some(keys) = keys.take() {
            state.release(&keys);
        }
        loop {
            let mut taken = Vec::new();
            if !state.waiting.is_empty() {
                state = self.let_workers_run_first(state, clients);
                taken = state.take(group, most);
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
}
