//! Request batch: the bytes that a connection received, the decoded requests, and the replies; and the pool of these
//! buffers.

use crate::{
    command::{CommandTable, KeyHits, Lookup, Refusal},
    resp::{Args, Input, Partial, Reply, Requests},
    store::{Database, Store},
};
use bumpalo::Bump;
use std::cell::RefCell;
use tokio::task::spawn_blocking;

/// Size in bytes of a new read buffer, and so the maximum size of a read from a socket, unless the buffer has grown for
/// a large request.
const READ_SIZE: usize = 64 << 10;

/// Size of the replies in bytes from which they are sent before the next request is executed, so that a
/// connection holds little more than one reply.
pub(super) const REPLY_SIZE: usize = 256 << 10;

/// Maximum size in bytes of a connection's buffers that are returned to the worker's pool; buffers that grew beyond
/// it for one large request are freed.
const MAX_POOLED: usize = 1 << 20;

/// Size in bytes above which memory is freed on a blocking thread, because that would delay a worker.
pub(super) const FREE_OFF_WORKER: usize = 16 << 20;

/// Maximum total size in bytes of the idle buffers that a worker keeps. Hundreds of clients whose writes share
/// a commit are active at the same time, most of them with a page or two of their buffers in use.
const MAX_RETAINED_BYTES: usize = 64 << 20;

/// Buffers of one active connection. They come from the worker's pool, are moved as a whole to the thread that
/// commits or reads, and return with the replies.
pub(super) struct RequestBatch {
    pub input: Input,
    pub requests: Requests,
    pub lookups: Vec<Lookup>,
    pub reply: Reply,
    /// Index of the next request of the batch to execute.
    pub next: usize,
    /// Hits and misses of the reads in the current step (requests executed together).
    pub hits: KeyHits,
    /// `true` if all requests of the batch have the same command.
    pub is_single_command: bool,
    /// `true` if each write of the batch is committed by itself, because the engine had no space for all of them.
    pub is_split: bool,
    /// Memory for the keys of read requests that are executed together; empty while none are executed.
    pub keys: Vec<&'static [u8]>,
}

/// Idle request batches of one worker. With hundreds of clients, a few buffers that stay in the CPU cache serve all
/// of them: an idle connection holds none, unless it has received a large part of an incomplete request.
#[derive(Default)]
struct Pool {
    idle: Vec<Box<RequestBatch>>,
    bytes: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

impl RequestBatch {
    pub fn new() -> Self {
        Self {
            input: Input::with_capacity(READ_SIZE),
            requests: Requests::default(),
            lookups: Vec::new(),
            reply: Reply::default(),
            next: 0,
            hits: KeyHits::default(),
            is_single_command: false,
            is_split: false,
            keys: Vec::new(),
        }
    }

    /// Returns empty buffers: those returned last to the worker's pool, which are still in the CPU cache, or new
    /// ones.
    pub fn take() -> Box<Self> {
        let idle = POOL.with_borrow_mut(|pool| {
            let batch = pool.idle.pop()?;
            pool.bytes -= batch.capacity();
            Some(batch)
        });
        idle.unwrap_or_else(|| Box::new(Self::new()))
    }

    /// Returns empty buffers to the worker's pool, or frees them if they exceed [`MAX_POOLED`], if their replies have
    /// exceeded a client's limit, or if the pool is full.
    pub fn put(self: Box<Self>) {
        let bytes = self.capacity();
        if bytes > FREE_OFF_WORKER {
            // Returning the pages to the kernel takes milliseconds.
            spawn_blocking(move || drop(self));
            return;
        }
        if bytes > MAX_POOLED || self.reply.has_overflowed() {
            return;
        }
        POOL.with_borrow_mut(|pool| {
            if pool.bytes + bytes <= MAX_RETAINED_BYTES {
                pool.bytes += bytes;
                pool.idle.push(self);
            }
        });
    }

    /// Returns the allocated memory of all buffers, in bytes.
    fn capacity(&self) -> usize {
        let keys = self.keys.capacity() * size_of::<&[u8]>();
        let lookups = self.lookups.capacity() * size_of::<Lookup>();
        self.input.capacity() + self.requests.capacity() + self.reply.capacity() + keys + lookups
    }

    /// Looks up the commands of the decoded requests. With hash slots, requests whose keys are in several slots are
    /// refused.
    pub fn look_up(&mut self, commands: &CommandTable, store: &Store, database: Database) {
        self.lookups.clear();
        self.next = 0;
        self.is_split = false;
        self.lookups.reserve(self.requests.len());
        let (mut last, mut kinds) = (None, 0);
        for args in self.requests.from(0, self.input.bytes()) {
            self.lookups.push(commands.lookup(args, &mut last, &mut kinds));
        }
        self.is_single_command = kinds == 1;
        if store.is_sharded() {
            self.mark_cross_slot(store, database);
        }
    }

    /// Marks the requests of the batch whose keys are in several hash slots as refused.
    fn mark_cross_slot(&mut self, store: &Store, database: Database) {
        let requests = self.requests.from(0, self.input.bytes());
        for (lookup, args) in self.lookups.iter_mut().zip(requests) {
            if let Lookup::Known(spec, index) = *lookup {
                let mut keys =
                    spec.keys_of(args).map(|key| store.slot(database.encode_key(key, &Bump::new())));
                let first = keys.next();
                if first.is_some() && keys.any(|slot| Some(slot) != first) {
                    *lookup = Lookup::Refused(spec, index, Refusal::CrossSlot);
                }
            }
        }
    }

    /// Returns the arguments of the request with the index `index` in the batch, or `None` if there is none.
    pub fn args(&self, index: usize) -> Option<Args<'_>> {
        self.requests.get(index, self.input.bytes())
    }

    /// Returns `true` if the request with the index `index` in the batch writes without reading any key.
    pub fn is_blind(&self, index: usize) -> bool {
        let Some(Lookup::Known(spec, _)) = self.lookups.get(index) else { return false };
        self.args(index).is_some_and(|args| spec.is_blind(args))
    }

    /// Executes the next request with `answer`, which writes the reply.
    pub fn answer_one(&mut self, answer: impl FnOnce(Lookup, Args<'_>, &mut Reply)) {
        if let Some(args) = self.requests.get(self.next, self.input.bytes())
            && let Some(lookup) = self.lookups.get(self.next)
        {
            answer(*lookup, args, &mut self.reply);
        }
        self.next += 1;
    }

    /// Removes and returns the received part of an incomplete request, so that the buffers can return to the worker's
    /// pool.
    pub fn take_partial(&mut self) -> Partial {
        Partial::take(&mut self.input, &mut self.requests)
    }

    /// Puts the received part of an incomplete request, taken out by [`RequestBatch::take_partial`], back into the
    /// empty read buffer.
    pub fn restore(&mut self, partial: Partial) {
        partial.restore(&mut self.input, &mut self.requests);
    }
}
