//! SIGINT and SIGTERM during a run: the measuring process ends and removes its files, and the run ends with an
//! error that says how to continue.

use super::interleave::pause_process;
use nix::sys::signal::{SigSet, Signal};
use std::{
    process::{self, ChildStdin},
    sync::{
        Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
    thread,
};

/// Number of the received signal; 0 if there was none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// Standard input of the measuring process, which ends when it is closed.
static CHILD: Mutex<Option<ChildStdin>> = Mutex::new(None);
/// Ids of the processes of an interleaved comparison, each the leader of a process group, which a signal kills: most are
/// stopped and would not notice the end of their input.
static INSTANCES: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn instances() -> MutexGuard<'static, Vec<u32>> {
    INSTANCES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn child() -> MutexGuard<'static, Option<ChildStdin>> {
    CHILD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

/// Catches SIGINT and SIGTERM in this thread, and in threads and processes that it starts later. A first signal
/// ends the measuring process; a second one ends this process at once. Later calls do nothing.
pub fn catch() {
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| {
        // Without the mask the signals keep their default effect.
        if signals().thread_block().is_ok() {
            thread::spawn(handle);
        }
    });
}

fn handle() {
    for first in [true, false] {
        let Ok(signal) = signals().wait() else { return };
        if !first {
            process::exit(128 + signal as i32);
        }
        RECEIVED.store(signal as i32, Ordering::SeqCst);
        child().take();
        instances().iter().for_each(|id| pause_process::kill_group(*id));
    }
}

/// Kills the process group that the child process `id` leads at a signal, until [`keep_on_signal()`].
pub(super) fn kill_on_signal(id: u32) {
    instances().push(id);
    if received().is_some() {
        pause_process::kill_group(id);
    }
}

/// Revokes [`kill_on_signal()`] for the process `id`. Must be called before the process is waited for: afterwards its
/// id may be that of another process.
pub(super) fn keep_on_signal(id: u32) {
    instances().retain(|other| *other != id);
}

/// Gives SIGINT and SIGTERM their default effect again, in a process that inherited the mask of [`catch()`].
pub(super) fn release() {
    let _ = signals().thread_unblock();
}

/// Returns the received signal, or `None` if there was none.
pub fn received() -> Option<Signal> {
    Signal::try_from(RECEIVED.load(Ordering::SeqCst)).ok()
}

/// Keeps the standard input of the measuring process open until [`finish()`] or a signal closes it, at which the
/// process ends.
pub(super) fn watch(stdin: Option<ChildStdin>) {
    *child() = stdin;
    if received().is_some() {
        child().take();
    }
}

/// Closes the standard input of the measuring process, which has ended or then ends.
pub(super) fn finish() {
    child().take();
}
