//! Pool of buffers for the active connections of one worker. With hundreds of clients, a few buffers that stay
//! in the CPU cache serve all of them, and an idle connection holds none.

use super::request_batch::RequestBatch;
use std::cell::RefCell;
use tokio::task::spawn_blocking;

/// Maximum size in bytes of buffers that are returned to the pool; buffers that grew beyond it for one large
/// request are freed.
const LARGE: usize = 1 << 20;

/// Size in bytes above which memory is freed on a blocking thread instead of the worker.
pub(super) const FREE_OFF_WORKER: usize = 16 << 20;

/// Maximum total size in bytes of the idle buffers that a worker keeps. Hundreds of clients whose writes share
/// a commit are active at the same time, most of them with a page or two of their buffers in use.
const MAX_RETAINED_BYTES: usize = 64 << 20;

#[derive(Default)]
struct Pool {
    idle: Vec<Box<RequestBatch>>,
    bytes: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Returns empty buffers: the ones most recently returned to the pool, which are still in the CPU cache, or new
/// ones.
pub(super) fn take() -> Box<RequestBatch> {
    let idle = POOL.with_borrow_mut(|pool| {
        let exchange = pool.idle.pop()?;
        pool.bytes -= exchange.capacity();
        Some(exchange)
    });
    idle.unwrap_or_else(|| Box::new(RequestBatch::new()))
}

/// Returns empty buffers to the pool, or frees them.
pub(super) fn put(exchange: Box<RequestBatch>) {
    let bytes = exchange.capacity();
    if bytes > FREE_OFF_WORKER {
        // Returning the pages to the kernel takes milliseconds.
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
