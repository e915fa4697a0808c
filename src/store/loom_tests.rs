//! Model tests (loom) of the commit queue and of the sync state under every schedule of their threads, up to a number
//! of preemptions.

/// `src/store/commit_queue.rs`, compiled over loom's primitives.
#[expect(
    clippy::duplicate_mod,
    reason = "it is to be compiled twice: over the system's threads, and over loom's"
)]
#[path = "commit_queue.rs"]
mod commit_queue;
/// `src/store/sync_state.rs`, compiled over loom's primitives.
#[expect(
    clippy::duplicate_mod,
    reason = "it is to be compiled twice: over the system's threads, and over loom's"
)]
#[path = "sync_state.rs"]
mod sync_state;
mod sync_primitives {
    pub(super) use loom::{
        sync::{
            Condvar, Mutex, MutexGuard,
            atomic::{AtomicU64, Ordering},
        },
        thread::yield_now,
    };
}

use super::{Error, Store, Txn, Work, pause_aware_clock};
use crate::engine::{Fsync, Kind, Location, OpenOptions};
use commit_queue::CommitQueue;
use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};
use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use sync_state::SyncTracker;

/// Runs a model under every schedule of its threads, up to two preemptions.
fn every_schedule(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(run);
}

/// Commit request of a test client, with its index among the commit requests of the client.
struct Part {
    client: usize,
    number: usize,
    runs: usize,
    /// Number of calls of [`Work::keys`] of this commit request.
    listed: AtomicUsize,
}

impl Part {
    fn new(client: usize, number: usize) -> Self {
        Self { client, number, runs: 0, listed: AtomicUsize::new(0) }
    }
}

impl Work for Part {
    fn run<'g>(&'g mut self, _txn: &mut Txn<'g>) {
        self.runs += 1;
    }

    fn fail(&mut self, error: &Error) {
        panic!("the commit failed: {error}");
    }

    /// Returns a size in bytes of which two do not fit into one commit group.
    fn bytes(&self) -> usize {
        20 << 20
    }

    /// Returns the only key that this commit request uses, that of its client, or `None` if it may use any key.
    fn keys(&self) -> Option<Vec<Vec<u8>>> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        (self.client != ANY_KEY).then(|| vec![vec![self.client as u8]])
    }
}

/// Number of the test client whose commit requests may use any key.
const ANY_KEY: usize = 9;

/// Number of commit requests that were delivered after their commit, for each test client.
struct Delivered {
    counts: Mutex<Vec<usize>>,
    changed: Condvar,
}

fn store() -> Store {
    let kind = Kind::find("map").unwrap();
    let options = OpenOptions::new(Location::Memory, Fsync::No);
    Store::new(kind.open(&options).unwrap(), Fsync::No)
}

/// Queues `writes` commit requests of the client `client`, each after the one before was delivered, as connections
/// do.
fn write_one_by_one(queue: &CommitQueue<Part>, delivered: &Delivered, client: usize, writes: usize) {
    for number in 0..writes {
        if queue.push(Part::new(client, number)) {
            queue.wake();
        }
        let mut counts = delivered.counts.lock().unwrap();
        while counts[client] <= number {
            counts = delivered.changed.wait(counts).unwrap();
        }
    }
}

/// In every schedule, queues `clients[i]` commit requests from the thread of client `i`, and then closes the queue:
/// each must be delivered once, in order. The commit thread is given `seeming` as the number of clients.
fn run(clients: &'static [usize], seeming: usize) {
    every_schedule(move || {
        let queue: Arc<CommitQueue<Part>> = Arc::default();
        let counts = Mutex::new(vec![0; clients.len()]);
        let delivered = Arc::new(Delivered { counts, changed: Condvar::new() });
        let (target, outcome) = (queue.clone(), delivered.clone());
        let committer = thread::spawn(move || {
            target.run(
                &store(),
                || seeming,
                |group, _| {
                    assert!(!group.is_empty());
                    let mut counts = outcome.counts.lock().unwrap();
                    for part in group.drain(..) {
                        assert_eq!((part.number, part.runs), (counts[part.client], 1), "in order, and once");
                        counts[part.client] += 1;
                    }
                    outcome.changed.notify_all();
                },
            );
        });
        let others: Vec<_> = (1..clients.len())
            .map(|client| {
                let (queue, delivered) = (queue.clone(), delivered.clone());
                thread::spawn(move || write_one_by_one(&queue, &delivered, client, clients[client]))
            })
            .collect();
        write_one_by_one(&queue, &delivered, 0, clients[0]);
        others.into_iter().for_each(|client| client.join().unwrap());
        queue.close();
        committer.join().unwrap();
        assert_eq!(*delivered.counts.lock().unwrap(), clients);
    });
}

#[test]
fn every_write_is_delivered_once_whatever_the_schedule() {
    run(&[2], 1);
    run(&[1, 1], 2);
    run(&[2, 1], 2);
}

/// Each commit request is delivered once also if the commit thread, given a number of eight clients, first yields to
/// the workers.
#[test]
fn every_write_is_delivered_once_if_the_commit_thread_yields() {
    run(&[1, 1], 8);
}

/// Commit requests that still wait when the queue is closed are committed before `run` returns.
#[test]
fn a_closing_queue_leaves_nothing_behind() {
    every_schedule(|| {
        let queue = Arc::new(CommitQueue::of(&store()));
        let target = queue.clone();
        let committer = thread::spawn(move || {
            let mut parts = 0;
            target.run(&store(), || 1, |group, _| parts += group.len());
            parts
        });
        for number in 0..2 {
            if queue.push(Part::new(0, number)) {
                queue.wake();
            }
        }
        queue.close();
        assert_eq!(committer.join().unwrap(), 2);
    });
}

/// Queues one commit request of each client of `clients`, and lets two commit threads commit them, in every
/// schedule.
fn commit_on_two_threads(clients: &'static [usize]) {
    every_schedule(move || {
        let queue = Arc::new(CommitQueue::<Part>::disjoint());
        // Clients of the groups in progress, and the number of writes that are done.
        let progress = Arc::new(Mutex::new((HashSet::new(), 0)));
        let serve = || {
            let (queue, progress) = (queue.clone(), progress.clone());
            move || {
                let carry_out = |group: &mut [Part]| {
                    let mut state = progress.lock().unwrap();
                    for part in &*group {
                        assert!(state.0.insert(part.client), "two groups have a key in common");
                        assert_eq!(part.listed.load(Ordering::Relaxed), 1, "keys are listed once");
                    }
                    assert!(!state.0.contains(&ANY_KEY) || state.0.len() == 1, "any key, and others");
                    drop(state);
                    thread::yield_now();
                    let mut state = progress.lock().unwrap();
                    group.iter().for_each(|part| assert!(state.0.remove(&part.client)));
                    state.1 += group.len();
                };
                queue.serve(1, || 1, carry_out, |group, _| group.clear());
            }
        };
        let threads = [thread::spawn(serve()), thread::spawn(serve())];
        for (number, client) in clients.iter().enumerate() {
            if queue.push(Part::new(*client, number)) {
                queue.wake();
            }
        }
        queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(progress.lock().unwrap().1, clients.len());
    });
}

#[test]
fn groups_in_progress_have_no_keys_in_common() {
    commit_on_two_threads(&[0, 0, 1]);
    commit_on_two_threads(&[0, ANY_KEY, 1]);
}

/// Stand-in for an engine: the number of writes, and the number of writes that a sync has covered.
#[derive(Default)]
struct Files(Mutex<(u32, u32)>);

impl Files {
    fn write(&self) {
        self.0.lock().unwrap().0 += 1;
    }

    fn sync(&self) {
        let mut files = self.0.lock().unwrap();
        files.1 = files.0;
    }

    fn are_synced(&self) -> bool {
        let files = self.0.lock().unwrap();
        files.0 == files.1
    }
}

/// Sync state and stand-in engine that the threads of one schedule share. Each write that a running sync covers is
/// old enough to delay new writes.
struct Shared {
    state: SyncTracker,
    files: Files,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: SyncTracker::new(Duration::ZERO), files: Files::default() })
    }

    /// Writes as a commit does under `everysec`: after a running sync.
    fn write(&self) {
        if self.state.is_syncing() {
            self.state.wait();
        }
        self.files.write();
        self.state.note_write();
    }

    fn sync(&self, outcome: Result<(), ()>) -> Result<(), ()> {
        self.state.sync_since(self.state.begun(), || {
            if outcome.is_ok() {
                self.files.sync();
            }
            outcome
        })
    }

    fn says_that_all_is_synced(&self) -> bool {
        self.state.state().oldest_unsynced.is_none()
    }
}

/// Two threads write and two sync, like a `WAITAOF` during the periodic sync: writes that no sync has covered never
/// seem to be synced.
#[test]
fn unsynced_writes_are_known_in_every_schedule() {
    every_schedule(|| {
        let shared = Shared::new();
        let other = |run: fn(&Shared)| {
            let shared = shared.clone();
            thread::spawn(move || run(&shared))
        };
        let others = [other(Shared::write), other(|shared| assert_eq!(shared.sync(Ok(())), Ok(())))];
        shared.write();
        assert_eq!(shared.sync(Ok(())), Ok(()));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(shared.files.are_synced() || !shared.says_that_all_is_synced());
        shared.sync(Ok(())).unwrap();
        assert!(shared.files.are_synced() && shared.says_that_all_is_synced());
        let state = shared.state.state();
        assert!(state.last_sync.is_some() && state.delays <= 2);
    });
}

/// Writes count as unsynced until the sync that covers them has ended.
#[test]
fn writes_count_as_unsynced_until_their_sync_ends() {
    every_schedule(|| {
        let shared = Shared::new();
        shared.write();
        let target = shared.clone();
        let syncing = thread::spawn(move || target.sync(Ok(())));
        if shared.says_that_all_is_synced() {
            assert!(shared.files.are_synced());
        }
        assert_eq!(syncing.join().unwrap(), Ok(()));
    });
}

/// Writes that wait for a sync resume also if it fails, and find the failure themselves.
#[test]
fn delayed_writes_resume_after_a_sync_succeeds_or_fails() {
    for outcome in [Ok(()), Err(())] {
        every_schedule(move || {
            let shared = Shared::new();
            shared.write();
            let target = shared.clone();
            let writing = thread::spawn(move || target.write());
            assert_eq!(shared.sync(outcome), outcome);
            writing.join().unwrap();
        });
    }
}
