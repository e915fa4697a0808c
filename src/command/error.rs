//! Why a command has no result, in Redis' words.

use crate::{resp::Reply, store};

/// Why a command has no result: the text of its error reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// In Redis' words, code first.
    #[error("{0}")]
    Text(&'static str),
    /// The same, made for the occasion.
    #[error("{}", String::from_utf8_lossy(.0))]
    Words(Vec<u8>),
    /// From below.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// A time to live that is none, in Redis' words.
    pub(super) fn expire_time(command: &[u8]) -> Self {
        let name = command.to_ascii_lowercase();
        Self::Words([b"ERR invalid expire time in '", &name[..], b"' command"].concat())
    }

    /// Whether it is no reply, but says to do the same where nobody waits: see [`store::Error::Long`].
    pub fn is_long(&self) -> bool {
        matches!(self, Self::Store(store::Error::Long))
    }

    /// Writes the error reply.
    pub fn write(&self, reply: &mut Reply) {
        match self {
            Self::Words(words) => reply.error(words),
            other => reply.error(other.to_string()),
        }
    }
}

/// Lets `run` write a reply; on an error, that stands in its place.
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
