//! The commit threads of a store (usually one): each takes commit groups from the queue, commits them, and hands them
//! back.

use super::Store;
use std::{
    io,
    thread::{Builder, JoinHandle},
};

/// Number of commit threads of a store whose commits wait for the network.
const SHARED_COMMIT_THREADS: usize = 4;

/// Starts the commit threads of `store`: one, or several if each commit is a transaction of several machines. Each
/// calls `run`, which calls [`CommitQueue::run`](super::CommitQueue::run).
///
/// # Errors
///
/// Fails if the system starts no thread.
pub fn spawn_commit_threads(
    store: &Store,
    run: impl FnOnce() + Clone + Send + 'static,
) -> io::Result<Vec<JoinHandle<()>>> {
    let count = if store.commits_concurrently() { SHARED_COMMIT_THREADS } else { 1 };
    (0..count).map(|_| Builder::new().name("commit".into()).spawn(run.clone())).collect()
}
