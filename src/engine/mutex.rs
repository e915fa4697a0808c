//! Locks of data in memory that a panic leaves valid.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also if a thread has panicked while it held the lock. The data in `mutex` must be valid after such a
/// panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
