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
                    log::warn!("{NAME}: old versions of values are not removed: {}", message(error));
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

pub(super) fn unavailable(error: impl ToString) -> Error {
    Error::Unavailable { engine: NAME, detail: message(error) }
}

/// Most bytes of an error that clients are told.
const MAX_MESSAGE_BYTES: usize = 300;

/// An error in one line that is not long.
pub(super) fn message(error: impl ToString) -> String {
    let mut words = error.to_string().replace(['\n', '\r'], " ");
    // The client tells where in its source an error is from.
    if let Some((place, rest)) = words.split_once("]: ")
        && place.starts_with('[')
    {
        words = rest.into();
    }
    if words.len() > MAX_MESSAGE_BYTES {
        words.truncate(words.floor_char_boundary(MAX_MESSAGE_BYTES));
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
