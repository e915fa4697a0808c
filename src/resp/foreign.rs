//! What other programs say to a port that is not theirs. A web page can make a browser send requests to this
//! machine, with a body of its choice, and whoever takes their lines for commands does what the page wants.

use super::Args;
use std::fmt;

/// A protocol that is not this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// HTTP.
    Http,
    /// TLS.
    Tls,
}

impl Foreign {
    /// Recognises the first flight of TLS. It holds bytes that a page's server may have chosen before, in a
    /// ticket.
    pub(super) fn begins_with_tls(data: &[u8]) -> bool {
        data.starts_with(b"\x16\x03")
    }

    /// Recognises HTTP in a line of words.
    ///
    /// A browser's first line is `METHOD TARGET HTTP/1.1`, and a page can choose the method: a page of this
    /// very host and port, as it seems after its name has come to mean another address, also `SET` and `DEL`.
    /// The line after it is `Host:`, and bodies come later still.
    pub(super) fn is_http(words: Args<'_>) -> bool {
        let versions = [&b"HTTP/1.1"[..], b"HTTP/1.0", b"HTTP/2.0"];
        words.len() == 3 && versions.contains(&words.get(2)) || Self::is_http_word(words.get(0))
    }

    /// Whether a command's name is one by which Redis knows HTTP, also outside of inline commands.
    pub fn is_http_word(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP",
            Self::Tls => "TLS",
        })
    }
}
