//! Options and errors of `kvbench top`.

use std::{io, path::PathBuf, time::Duration};

/// Error that ends `kvbench top`.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot reach {server}: {source}; start the server, or name another HOST:PORT")]
    Io { server: String, source: io::Error },
    #[error("{server} answers {reply:?}; see --password-file")]
    Refused { server: String, reply: String },
    #[error("{server} does not answer as a Redis server does; `kvbench top` needs a port without TLS")]
    Foreign { server: String },
    #[error("cannot read --password-file {}: {source}", .path.display())]
    Password { path: PathBuf, source: io::Error },
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
}

/// Options of `kvbench top`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host and port of the server.
    pub server: String,
    /// Time between two updates of the output.
    pub interval: Duration,
    /// Number of updates after which the program ends; `None` for no end.
    pub count: Option<u64>,
    /// File with the password of the server.
    pub password_file: Option<PathBuf>,
}
