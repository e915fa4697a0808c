//! Synchronisation primitives of the commit queue and the sync state. Their model tests replace this module by
//! loom's primitives, which run every schedule of the threads.

pub(super) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread::yield_now,
};
