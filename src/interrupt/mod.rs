//! SIGINT and SIGTERM in a long run of a subcommand, which ends in order at the first of them.

use nix::sys::signal::{SigSet, Signal};
use std::{
    process,
    sync::{
        Once,
        atomic::{AtomicI32, Ordering},
    },
    thread,
};

/// Number of the received signal; 0 if there was none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

fn signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

/// Catches SIGINT and SIGTERM in this thread, and in threads and processes that it starts later. The first signal is
/// recorded, then another thread calls `at_first`; a second one ends this process at once. Later calls do nothing.
pub(crate) fn catch(at_first: fn()) {
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| {
        // Without the mask the signals keep their default effect.
        if signals().thread_block().is_ok() {
            thread::spawn(move || handle(at_first));
        }
    });
}

fn handle(at_first: fn()) {
    while let Ok(signal) = signals().wait() {
        if RECEIVED.swap(signal as i32, Ordering::SeqCst) != 0 {
            process::exit(128 + signal as i32);
        }
        at_first();
    }
}

/// Gives SIGINT and SIGTERM their default effect again, in a process that inherited the mask of [`catch()`]. May be
/// called between fork and exec.
pub(crate) fn release() -> nix::Result<()> {
    signals().thread_unblock()
}

/// Returns the first signal that was received, or `None` if there was none.
pub(crate) fn received() -> Option<Signal> {
    Signal::try_from(RECEIVED.load(Ordering::SeqCst)).ok()
}
