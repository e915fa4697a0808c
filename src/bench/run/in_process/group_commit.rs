//! Group commit of the writes of many threads, as kvbench's server does it for its clients: a thread that
//! finds no commit running commits all waiting writes with one sync; meanwhile the next group gathers.

use crate::{
    bench::result::Operation,
    engine::{self, Batch, WriteOp},
};
use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// One write of a thread's batch. Reused together with its memory.
#[derive(Clone)]
pub(super) struct Write {
    pub kind: Operation,
    pub index: u64,
    pub key: Vec<u8>,
    /// `None` for a delete.
    pub value: Option<Vec<u8>>,
    pub start: u64,
}

impl Write {
    /// Returns an empty write, to be filled later.
    pub fn spare() -> Self {
        Self { kind: Operation::Update, index: 0, key: Vec::new(), value: None, start: 0 }
    }

    pub fn op(&self) -> WriteOp<'_> {
        match &self.value {
            Some(value) => WriteOp::Put { key: &self.key, value },
            None => WriteOp::Delete { key: &self.key },
        }
    }
}

/// Commit request of a thread: the first `count` of `writes`.
struct Part {
    writes: Vec<Write>,
    count: usize,
    seat: Arc<Seat>,
}

/// Slot in which a thread waits for the outcome of its commit request.
#[derive(Default)]
pub(super) struct Seat {
    news: Mutex<News>,
    wake: Condvar,
}

#[derive(Default)]
enum News {
    #[default]
    None,
    /// This thread must commit all waiting requests.
    Lead,
    Done(Vec<Write>, Result<(), String>),
}

impl Seat {
    fn tell(&self, news: News) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = news;
        self.wake.notify_one();
    }

    fn wait(&self) -> News {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match mem::take(&mut *news) {
                News::None => news = self.wake.wait(news).unwrap_or_else(PoisonError::into_inner),
                other => return other,
            }
        }
    }
}

/// Queue of the waiting commit requests.
#[derive(Default)]
pub(super) struct Groups {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Part>,
    /// `true` while a thread commits.
    busy: bool,
}

impl Groups {
    /// Commits the first `count` of `writes` by `commit`, alone or together with requests of other threads.
    /// Returns `writes` for reuse, and the outcome.
    pub fn commit(
        &self,
        seat: &Arc<Seat>,
        writes: Vec<Write>,
        count: usize,
        commit: impl FnOnce(&Batch<'_>) -> engine::Result<()>,
    ) -> (Vec<Write>, Result<(), String>) {
        let mut queue = self.queue();
        queue.waiting.push(Part { writes, count, seat: Arc::clone(seat) });
        let waits = mem::replace(&mut queue.busy, true);
        drop(queue);
        if waits && let News::Done(writes, outcome) = seat.wait() {
            return (writes, outcome);
        }
        let group = mem::take(&mut self.queue().waiting);
        let outcome = commit(&batch(&group)).map_err(|error| error.to_string());
        self.hand_over();
        let mut own = Vec::new();
        for part in group {
            match Arc::ptr_eq(&part.seat, seat) {
                true => own = part.writes,
                false => part.seat.tell(News::Done(part.writes, outcome.clone())),
            }
        }
        (own, outcome)
    }

    /// Makes the first waiting thread commit the next group.
    fn hand_over(&self) {
        let mut queue = self.queue();
        match queue.waiting.first() {
            Some(part) => part.seat.tell(News::Lead),
            None => queue.busy = false,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn batch(group: &[Part]) -> Batch<'_> {
    let mut batch = Batch::with_capacity(group.iter().map(|part| part.count).sum());
    for part in group {
        part.writes.iter().take(part.count).for_each(|write| batch.push(write.op()));
    }
    batch
}
