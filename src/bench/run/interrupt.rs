//! SIGINT and SIGTERM during a run: the measuring process ends and removes its files, and the run ends with an
//! error that says how to continue.

use super::interleave::pause_process;
use crate::interrupt;
use std::{
    process::ChildStdin,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub(super) use interrupt::{received, release};

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

/// Catches SIGINT and SIGTERM, as [`interrupt::catch()`]. The first signal ends the measuring process.
pub(super) fn catch() {
    interrupt::catch(|| {
        child().take();
        instances().iter().for_each(|id| pause_process::kill_group(*id));
    });
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
