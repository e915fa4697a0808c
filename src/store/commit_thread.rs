//! The commit thread: takes commit groups from the queue, commits them, and hands them back.

use super::{CommitQueue, Store, Work};
use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// Number of commit threads if each commit waits for the network.
const SHARED_COMMIT_THREADS: usize = 4;

/// Server whose writes are committed.
pub trait Deliver<W>: Send + Sync {
    /// Returns the queue of the waiting commit requests.
    fn queue(&self) -> &CommitQueue<W>;

    /// Returns the number of clients that may add commit requests.
    fn clients(&self) -> usize;

    /// Takes back the commit requests of a group, after a commit that took `time`.
    fn committed(&self, group: &mut Vec<W>, time: Duration);
}

/// Starts the threads that commit what is in the queue of `server`, until that queue is closed: one thread, or several
/// if each commit is a transaction of several machines.
///
/// # Errors
///
/// Fails if the system starts no thread.
pub fn spawn_commit_threads<W: Work + 'static>(
    store: &Arc<Store>,
    server: &Arc<impl Deliver<W> + 'static>,
) -> io::Result<Vec<JoinHandle<()>>> {
    // With hash slots, one thread has requests to all nodes in progress.
    let count = if store.is_shared() && !store.is_sharded() { SHARED_COMMIT_THREADS } else { 1 };
    let spawn = |_| {
        let (store, server) = (store.clone(), server.clone());
        let commit = move || {
            server.queue().run(&store, || server.clients(), |group, time| server.committed(group, time));
        };
        thread::Builder::new().name("commit".into()).spawn(commit)
    };
    (0..count).map(spawn).collect()
}
