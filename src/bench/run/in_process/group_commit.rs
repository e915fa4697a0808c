//! Group commit of the writes of many threads through the server's commit queue: a commit thread takes the waiting
//! writes, up to a limit in bytes, and commits them together, with one sync if the fsync policy is `always`; meanwhile
//! the next group gathers.

use crate::{
    bench::{data::expirations::Lifetime, result::Operation, run::panics},
    engine::{self, Batch, WriteOp},
    store::{self, COMMIT_GROUP_BYTES, CommitQueue, Store, Txn, Work},
};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// One write of a driver thread's batch. Its buffers are reused for later writes.
#[derive(Clone)]
pub(super) struct Write {
    pub kind: Operation,
    pub index: u64,
    pub key: Vec<u8>,
    /// Value to put; `None` for a delete.
    pub value: Option<Vec<u8>>,
    /// Time to live of the value; `None` if it does not expire.
    pub lifetime: Option<Lifetime>,
    pub start: u64,
}

impl Write {
    /// Returns a write without key and value, whose fields a driver thread sets when it needs a write.
    pub fn spare() -> Self {
        Self { kind: Operation::Update, index: 0, key: Vec::new(), value: None, lifetime: None, start: 0 }
    }

    pub fn op(&self) -> WriteOp<'_> {
        match &self.value {
            Some(value) => WriteOp::Put { key: &self.key, value },
            None => WriteOp::Delete { key: &self.key },
        }
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Commit request of a driver thread: the first `count` elements of `writes`.
pub(super) struct CommitRequest {
    writes: Vec<Write>,
    count: usize,
    outcome: Result<(), String>,
    slot: Arc<OutcomeSlot>,
}

/// Commits through the keyspace layer, which is used only for values that expire.
impl Work for CommitRequest {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        let Self { writes, count, outcome, .. } = self;
        let mut put = |write: &'g Write| match (&write.value, write.lifetime) {
            (Some(value), lifetime) => {
                let deadline = lifetime.map_or(0, |lifetime| txn.now().saturating_add(lifetime.ttl_ms));
                txn.put_with_expiration(&write.key, value, deadline)
            }
            (None, _) => txn.delete(&write.key),
        };
        let written = writes.iter().take(*count).try_for_each(&mut put);
        *outcome = written.map_err(|error| error.to_string());
    }

    fn fail(&mut self, error: &store::Error) {
        self.outcome = Err(error.to_string());
    }

    fn bytes(&self) -> usize {
        self.writes().map(Write::bytes).sum()
    }

    fn is_blind(&self) -> bool {
        true
    }
}

impl CommitRequest {
    fn writes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().take(self.count)
    }
}

/// Writes of a committed commit request, which the requesting thread gets back to reuse their memory, and the outcome
/// of the commit.
type Done = (Vec<Write>, Result<(), String>);

/// Slot in which a thread waits for the outcome of its commit request.
#[derive(Default)]
pub(super) struct OutcomeSlot {
    done: Mutex<Option<Done>>,
    wake: Condvar,
}

impl OutcomeSlot {
    fn complete(&self, writes: Vec<Write>, outcome: Result<(), String>) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some((writes, outcome));
        self.wake.notify_one();
    }

    fn wait(&self) -> Done {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match done.take() {
                Some(done) => return done,
                None => done = self.wake.wait(done).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Lets the commit thread commit the first `count` of `writes`, alone or together with those of other threads.
/// Returns `writes` for reuse, and the outcome.
pub(super) fn commit(
    queue: &CommitQueue<CommitRequest>,
    slot: &Arc<OutcomeSlot>,
    writes: Vec<Write>,
    count: usize,
) -> (Vec<Write>, Result<(), String>) {
    let request = CommitRequest { writes, count, outcome: Ok(()), slot: Arc::clone(slot) };
    if queue.push(request) {
        queue.wake();
    }
    slot.wait()
}

/// Commits the first `count` of `writes` through the keyspace layer of `store` on this thread. Returns `writes` for
/// reuse, and the outcome.
pub(super) fn commit_here(
    store: &Store,
    slot: &Arc<OutcomeSlot>,
    writes: Vec<Write>,
    count: usize,
) -> (Vec<Write>, Result<(), String>) {
    let mut group = [CommitRequest { writes, count, outcome: Ok(()), slot: Arc::clone(slot) }];
    store.commit(&mut group);
    let [CommitRequest { writes, outcome, .. }] = group;
    (writes, outcome)
}

/// Commits the requests of several threads as one write batch, by calling `commit`, and stores the outcome in each
/// request. A panic is an error of all of them.
pub(super) fn commit_batch(
    group: &mut [CommitRequest],
    commit: impl FnOnce(&Batch<'_>) -> engine::Result<()>,
) {
    let written = panics::caught(|| commit(&batch(group)));
    let outcome = written.and_then(|written| written.map_err(|error| error.to_string()));
    group.iter_mut().for_each(|request| request.outcome.clone_from(&outcome));
}

/// Runs the commit thread: commits group after group of the queue's requests by `carry_out`, until the queue is closed,
/// and wakes the threads that wait. `threads` is the number of threads that call [`commit`], each with one request at a
/// time.
pub(super) fn serve(
    queue: &CommitQueue<CommitRequest>,
    threads: usize,
    carry_out: impl FnMut(&mut [CommitRequest]),
) {
    let deliver = |group: &mut Vec<CommitRequest>, _| {
        for CommitRequest { writes, outcome, slot, .. } in group.drain(..) {
            slot.complete(writes, outcome);
        }
    };
    queue.serve(COMMIT_GROUP_BYTES, || threads, carry_out, deliver);
}

fn batch(group: &[CommitRequest]) -> Batch<'_> {
    let mut batch = Batch::with_capacity(group.iter().map(|request| request.count).sum());
    group.iter().flat_map(CommitRequest::writes).for_each(|write| batch.push(write.op()));
    batch
}
