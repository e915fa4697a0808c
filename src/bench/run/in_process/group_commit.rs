//! Writes of many threads in one commit, as our server makes them of its clients: who finds nobody at it
//! commits everything that waits, with one sync; meanwhile the next group gathers.

use crate::{
    bench::result::Operation,
    engine::{self, Batch, WriteOp},
};
use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// One write of a thread's batch. Reused, with its memory.
#[derive(Clone)]
pub(super) struct Write {
    pub kind: Operation,
    pub index: u64,
    pub key: Vec<u8>,
    /// `None` deletes.
    pub value: Option<Vec<u8>>,
    pub start: u64,
}

impl Write {
    /// No write yet.
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

/// What a thread wants committed: the first `count` of its writes.
struct Part {
    writes: Vec<Write>,
    count: usize,
    seat: Arc<Seat>,
}

/// Where a thread waits for its part.
#[derive(Default)]
pub(super) struct Seat {
    news: Mutex<News>,
    wake: Condvar,
}

#[derive(Default)]
enum News {
    #[default]
    None,
    /// It is this thread's turn to commit what waits.
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

/// The parts that wait.
#[derive(Default)]
pub(super) struct Groups {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Part>,
    /// Whether somebody commits.
    busy: bool,
}

impl Groups {
    /// Commits the first `count` of `writes`, alone or with those of others, by `commit`, and gives them back.
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

    /// Lets one of those that wait commit them.
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
