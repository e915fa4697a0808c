//! Model tests (loom) of the commit queue under every schedule of its threads, up to a number of preemptions.

/// `src/store/commit_queue.rs`, compiled over loom's primitives.
#[expect(
    clippy::duplicate_mod,
    reason = "it is to be compiled twice: over the system's threads, and over loom's"
)]
#[path = "commit_queue.rs"]
mod commit_queue;
mod sync_primitives {
    pub(super) use loom::{
        sync::{Condvar, Mutex, MutexGuard},
        thread::yield_now,
    };
}

use super::{Error, Store, Txn, Work};
use crate::engine::{Fsync, Kind, Location, OpenOptions};
use commit_queue::CommitQueue;
use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// Write of one client, with its number among the writes of the client.
struct Part {
    client: usize,
    number: usize,
    runs: usize,
}

impl Work for Part {
    fn run<'g>(&'g mut self, _txn: &mut Txn<'g>) {
        self.runs += 1;
    }

    fn rewind(&mut self) {
        self.runs -= 1;
    }

    fn fail(&mut self, error: &Error) {
        panic!("the commit failed: {error}");
    }

    /// Returns a size such that two commit requests do not fit into one group.
    fn bytes(&self) -> usize {
        20 << 20
    }
}

/// Number of delivered commit requests per client.
struct Delivered {
    counts: Mutex<Vec<usize>>,
    changed: Condvar,
}

fn store() -> Store {
    let kind = Kind::find("map").unwrap();
    let options = OpenOptions::new(Location::Memory, Fsync::No);
    Store::new(kind.open(&options).unwrap(), Fsync::No)
}

/// Runs a client that waits for each of its writes, as connections do.
fn write_one_by_one(queue: &CommitQueue<Part>, delivered: &Delivered, client: usize, writes: usize) {
    for number in 0..writes {
        if queue.push(Part { client, number, runs: 0 }) {
            queue.wake();
        }
        let mut counts = delivered.counts.lock().unwrap();
        while counts[client] <= number {
            counts = delivered.changed.wait(counts).unwrap();
        }
    }
}

/// Runs one to three client threads with `clients[i]` writes each; then closes the queue.
fn run(clients: &'static [usize], seeming: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
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

/// The commit thread yields to the workers first.
#[test]
fn every_write_is_delivered_once_if_the_commit_thread_yields() {
    run(&[1, 1], 8);
}

/// Commit requests that wait when the queue closes are committed before `run` returns.
#[test]
fn a_closing_queue_leaves_nothing_behind() {
    loom::model(|| {
        let queue: Arc<CommitQueue<Part>> = Arc::default();
        let target = queue.clone();
        let committer = thread::spawn(move || {
            let mut parts = 0;
            target.run(&store(), || 1, |group, _| parts += group.len());
            parts
        });
        for number in 0..2 {
            if queue.push(Part { client: 0, number, runs: 0 }) {
                queue.wake();
            }
        }
        queue.close();
        assert_eq!(committer.join().unwrap(), 2);
    });
}
