//! Detection of HTTP and TLS clients. A web page can make a browser send requests to this port with a body of
//! the page's choice; a server that executes the lines of the body as commands would do what the page wants.

use super::Args;
use std::fmt;

/// Protocol other than RESP that a client was found to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// The client speaks HTTP.
    Http,
    /// The client speaks TLS.
    Tls,
}

impl Foreign {
    /// Returns `true` if `data` begins with the first flight of a TLS handshake. The flight contains bytes that
    /// the server of a web page may have chosen: a session ticket.
    pub(super) fn begins_with_tls(data: &[u8]) -> bool {
        data.starts_with(b"\x16\x03")
    }

    /// Returns `true` if the arguments `words` are a line of an HTTP request.
    ///
    /// The first line of a browser's request is `METHOD TARGET HTTP/1.1`, and a web page can choose the method. After
    /// DNS rebinding (the host name of the page resolves to this address) the page may even choose `SET` or `DEL`,
    /// because its origin is this host and port. The second line is `Host:`, and the body comes later.
    pub(super) fn is_http(words: Args<'_>) -> bool {
        let versions = [&b"HTTP/1.1"[..], b"HTTP/1.0", b"HTTP/2.0"];
        words.len() == 3 && versions.contains(&words.get(2)) || Self::is_http_word(words.get(0))
    }

    /// Returns `true` if Redis takes a command of this name for HTTP, in inline commands and in arrays.
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
