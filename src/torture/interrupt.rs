//! SIGINT and SIGTERM during a crash test: no other fault is injected, and the directory of the round is removed.

use nix::sys::signal::{SigSet, Signal};
use std::{
    process,
    sync::{
        Once,
        atomic::{AtomicI32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Number of the received signal; 0 if there was none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

fn signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

/// Catches SIGINT and SIGTERM in this thread, and in threads that it starts later. A second signal ends this process at
/// once. Later calls do nothing.
pub(super) fn catch() {
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| {
        // Without the mask the signals keep their default effect.
        if signals().thread_block().is_ok() {
            thread::spawn(handle);
        }
    });
}

fn handle() {
    while let Ok(signal) = signals().wait() {
        if RECEIVED.swap(signal as i32, Ordering::SeqCst) != 0 {
            process::exit(128 + signal as i32);
        }
    }
}

/// Gives SIGINT and SIGTERM their default effect again, in a process that inherited the mask of [`catch()`].
pub(super) fn release() -> nix::Result<()> {
    signals().thread_unblock()
}

/// Returns the received signal, or `None` if there was none.
pub(super) fn received() -> Option<Signal> {
    Signal::try_from(RECEIVED.load(Ordering::SeqCst)).ok()
}

/// Waits for `time`, or until a signal is received.
pub(super) fn sleep(time: Duration) {
    const STEP: Duration = Duration::from_millis(20);
    let end = Instant::now() + time;
    while received().is_none() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(STEP));
    }
}
