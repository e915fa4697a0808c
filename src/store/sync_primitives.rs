//! What the commit queue and the state of syncs are made of. In their tests it is another, which goes through every
//! schedule of the threads.

pub(super) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread::yield_now,
};
