//! Calls of an asynchronous client from threads that may wait, and what their errors mean.

use super::info::NAME;
use crate::engine::{Error, Result};
use std::{
    future::Future,
    sync::mpsc,
    time::{Duration, Instant},
};
use tikv_client::Error as Cause;
use tokio::{
    runtime::{Builder, Runtime},
    time,
};

/// Nothing waits longer for an answer of the cluster: an election takes a few seconds.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Between two attempts to read.
const PAUSE: Duration = Duration::from_millis(50);

/// Threads on which the client runs.
const THREADS: usize = 2;

/// Runs the client.
pub(super) struct Calls(Option<Runtime>);

impl Calls {
    pub fn new() -> Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("tikv").enable_all().build();
        Ok(Self(Some(runtime.map_err(|error| Error::library(NAME, error))?)))
    }

    /// Waits for what `future` returns, on any thread, also one that runs asynchronous work itself.
    pub fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let gone = || Error::library(NAME, "a call of the client panicked");
        let (answer, answered) = mpsc::sync_channel(1);
        let runtime = self.0.as_ref().ok_or_else(gone)?;
        // Who waits is there until it is answered, or the call has panicked.
        runtime.spawn(async move { answer.send(future.await) });
        answered.recv().map_err(|_| gone())
    }

    /// Waits for what reads, which is tried again until it is too late since `begin`.
    pub fn read<T, F>(&self, begin: Instant, read: impl Fn() -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Cause>> + Send,
    {
        let until = begin + TIMEOUT;
        self.wait(async move {
            loop {
                let late = || Cause::StringError(format!("no answer in {} seconds", TIMEOUT.as_secs()));
                let error = match time::timeout_at(until.into(), read()).await {
                    Ok(Ok(found)) => return Ok(found),
                    Ok(Err(error)) => error,
                    Err(_) => late(),
                };
                if Instant::now() + PAUSE >= until {
                    return Err(unavailable(error));
                }
                log::debug!("{NAME}: a read is tried again: {error}");
                time::sleep(PAUSE).await;
            }
        })?
    }

    /// Does something again and again, after every `pause`, while this is there.
    pub fn keep_doing<F>(&self, pause: Duration, work: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), Cause>> + Send,
    {
        let Some(runtime) = &self.0 else { return };
        runtime.spawn(async move {
            loop {
                time::sleep(pause).await;
                if let Err(error) = work().await {
                    log::warn!("{NAME}: old versions of values are not removed: {}", words(error));
                }
            }
        });
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Nobody waits for what is still going on, and asynchronous threads may not wait for it.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What a step of a commit comes to, or that it took too long.
pub(super) async fn in_time<T>(step: impl Future<Output = Result<T, Cause>>) -> Result<(), Cause> {
    let late = |_| Cause::StringError(format!("no answer in {} seconds", TIMEOUT.as_secs()));
    time::timeout(TIMEOUT, step).await.map_err(late)?.map(drop)
}

/// Whether an error, or one of those in it, is so.
fn any(error: &Cause, is_so: fn(&Cause) -> bool) -> bool {
    match error {
        Cause::ExtractedErrors(errors) | Cause::MultipleKeyErrors(errors) => {
            errors.iter().any(|error| any(error, is_so))
        }
        error => is_so(error),
    }
}

/// Whether others have written since the begin. The first phase of a commit tells so: nothing has taken effect.
pub(super) fn is_write_conflict(error: &Cause) -> bool {
    any(error, |error| matches!(error, Cause::KeyError(error) if error.conflict.is_some()))
}

/// Whether others had a key locked.
pub(super) fn is_in_the_way(error: &Cause) -> bool {
    any(error, |error| match error {
        Cause::KeyError(error) => !error.retryable.is_empty() || error.locked.is_some(),
        Cause::ResolveLockError(_) => true,
        _ => false,
    })
}

/// Whether a node refused it for its size.
pub(super) fn is_too_large(error: &Cause) -> bool {
    any(error, |error| matches!(error, Cause::RegionError(error) if error.raft_entry_too_large.is_some()))
}

pub(super) fn conflict(error: Cause) -> Error {
    Error::Conflict { engine: NAME, detail: words(error) }
}

pub(super) fn unavailable(error: impl ToString) -> Error {
    Error::Unavailable { engine: NAME, detail: words(error) }
}

/// Most bytes of an error that clients are told.
const MOST: usize = 300;

/// An error in one line that is not long.
pub(super) fn words(error: impl ToString) -> String {
    let mut words = error.to_string().replace(['\n', '\r'], " ");
    // The client tells where in its source an error is from.
    if let Some((place, rest)) = words.split_once("]: ")
        && place.starts_with('[')
    {
        words = rest.into();
    }
    if words.len() > MOST {
        words.truncate(words.floor_char_boundary(MOST));
        words.push_str("...");
    }
    words
}

/// What is behind the error of a read.
pub(super) fn cause(error: &Error) -> String {
    match error {
        Error::Unavailable { detail, .. } => detail.clone(),
        error => error.to_string(),
    }
}
