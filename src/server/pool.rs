//! Buffers that active connections of one worker borrow. With hundreds of clients, a few buffers that
//! stay in the processor's cache serve all of them, and an idle connection holds none.

use super::request_batch::RequestBatch;
use std::cell::RefCell;
use tokio::task::spawn_blocking;

/// Buffers that grew beyond this many bytes for one large request are not kept.
const LARGE: usize = 1 << 20;

/// What holds more bytes than this is freed off the worker.
pub(super) const FREE_OFF_WORKER: usize = 16 << 20;

/// Bytes of idle buffers a worker keeps. Hundreds of clients whose writes share a commit are active at
/// the same time, most of them with a page or two of their buffers in use.
const MAX_RETAINED_BYTES: usize = 64 << 20;

#[derive(Default)]
struct Pool {
    idle: Vec<Box<RequestBatch>>,
    bytes: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Buffers with nothing in them; the last ones that were given back, which the cache still holds.
pub(super) fn take() -> Box<RequestBatch> {
    let idle = POOL.with_borrow_mut(|pool| {
        let exchange = pool.idle.pop()?;
        pool.bytes -= exchange.capacity();
        Some(exchange)
    });
    idle.unwrap_or_else(|| Box::new(RequestBatch::new()))
}

/// Gives empty buffers back.
pub(super) fn put(exchange: Box<RequestBatch>) {
    let bytes = exchange.capacity();
    if bytes > FREE_OFF_WORKER {
        // Its pages take milliseconds to be given back.
        spawn_blocking(move || drop(exchange));
        return;
    }
    if bytes > LARGE {
        return;
    }
    POOL.with_borrow_mut(|pool| {
        if pool.bytes + bytes <= MAX_RETAINED_BYTES {
            pool.bytes += bytes;
            pool.idle.push(exchange);
        }
    });
}
