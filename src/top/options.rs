//! What is to be watched, and why it cannot be.

use std::{io, path::PathBuf, time::Duration};

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot ask {server}: {source}")]
    Io { server: String, source: io::Error },
    #[error("{server} answers {reply:?}; see --password-file")]
    Refused { server: String, reply: String },
    #[error("{server} does not answer as a Redis server does")]
    Foreign { server: String },
    #[error("cannot read --password-file {}: {source}", .path.display())]
    Password { path: PathBuf, source: io::Error },
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
}

/// What to watch, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host and port.
    pub server: String,
    /// Time between two looks.
    pub interval: Duration,
    /// Looks before the end; `None` for no end.
    pub count: Option<u64>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
}
