//! Errors of commands.

use crate::{resp::Reply, store};

/// Error of a command; the text is that of the error reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fixed text of the error reply, starting with the error code.
    #[error("{0}")]
    Text(&'static str),
    /// Text of the error reply, composed for the request; starts with the error code.
    #[error("{}", String::from_utf8_lossy(.0))]
    Words(Vec<u8>),
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Returns Redis' error for an invalid expiration time.
    pub(super) fn expire_time(command: &[u8]) -> Self {
        let name = command.to_ascii_lowercase();
        Self::Words([b"ERR invalid expire time in '", &name[..], b"' command"].concat())
    }

    /// Writes the error reply.
    pub fn write(&self, reply: &mut Reply) {
        match self {
            Self::Words(words) => reply.error(words),
            other => reply.error(other.to_string()),
        }
    }
}

/// Calls `run`, which writes a reply; on an error, replaces what `run` has written with the error reply.
pub fn answer(reply: &mut Reply, run: impl FnOnce(&mut Reply) -> Result<(), Error>) {
    let start = reply.len();
    if let Err(error) = run(reply) {
        reply.truncate(start);
        error.write(reply);
    }
}

impl From<&'static str> for Error {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

pub(super) const SYNTAX_ERROR: Error = Error::Text("ERR syntax error");
pub(super) const NOT_AN_INTEGER: Error = Error::Text("ERR value is not an integer or out of range");
pub(super) const TOO_LONG: Error =
    Error::Text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
