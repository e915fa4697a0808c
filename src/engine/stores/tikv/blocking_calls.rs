//! Blocking calls of TiKV's asynchronous client, with retries of reads, and the texts of its errors.

use super::description::NAME;
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

/// Time limit of a call to the TiKV cluster, with its retries. It is long enough for the election of a leader, which
/// takes a few seconds.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts of a read from the TiKV cluster.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Number of threads that run TiKV's client.
const THREADS: usize = 2;

/// Runtime of TiKV's client, with threads of its own; `None` only while it is dropped.
pub(super) struct Calls(Option<Runtime>);

impl Calls {
    pub fn new() -> Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("tikv").enable_all().build();
        Ok(Self(Some(runtime.map_err(|error| Error::library(NAME, error))?)))
    }

    /// Runs `future` on the threads of TiKV's client, and blocks the calling thread until it has returned. The caller
    /// may be a thread of another runtime.
    ///
    /// # Errors
    ///
    /// Fails if the future panics.
    pub fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let gone = || Error::library(NAME, "a call of the client panicked");
        let (answer, answered) = mpsc::sync_channel(1);
        let runtime = self.0.as_ref().ok_or_else(gone)?;
        // The receiver is dropped only after a result, or if the task has panicked: so `send` cannot fail.
        runtime.spawn(async move { answer.send(future.await) });
        answered.recv().map_err(|_| gone())
    }

    /// Calls `read` and runs the future that it returns, again and again until one succeeds, or until [`TIMEOUT`] after
    /// `begin`. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Unavailable`] and the cause of the last failure after that time.
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
                if Instant::now() + RETRY_PAUSE >= until {
                    return Err(unavailable(error));
                }
                log::debug!("{NAME}: a read is tried again: {error}");
                time::sleep(RETRY_PAUSE).await;
            }
        })?
    }

    /// Runs `work` on the threads of TiKV's client, first after `pause` and again `pause` after each end, until `self`
    /// is dropped. Errors are logged.
    pub fn run_periodically<F>(&self, pause: Duration, work: impl Fn() -> F + Send + 'static)
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
        // Does not wait for running tasks: no caller needs their results, and a thread of a runtime must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) fn unavailable(error: impl ToString) -> Error {
    Error::Unavailable { engine: NAME, detail: message(error) }
}

/// Maximum length of the text of an error of TiKV's client, in bytes.
const MAX_MESSAGE_BYTES: usize = 300;

/// Returns the text of an error of TiKV's client in one line, shortened to about [`MAX_MESSAGE_BYTES`].
pub(super) fn message(error: impl ToString) -> String {
    let mut words = error.to_string().replace(['\n', '\r'], " ");
    // The client's texts begin with a place in its source code, in brackets.
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

/// Returns the cause in an error of a read, without the text that [`Error::Unavailable`] adds.
pub(super) fn cause(error: &Error) -> String {
    match error {
        Error::Unavailable { detail, .. } => detail.clone(),
        error => error.to_string(),
    }
}
