//! Detection of HTTP and TLS clients. A web page can make a browser send requests to this port with a body of
//! the page's choice; a server that executes the lines of the body as commands would do what the page wants.

use super::Args;
use std::fmt;

/// Protocol other than RESP that a client was found to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// HTTP.
    Http,
    /// TLS.
    Tls,
}

impl Foreign {
    /// Returns `true` if `data` begins with the first flight of a TLS handshake. The flight contains bytes that
    /// the server of a web page may have chosen: a session ticket.
    pub(super) fn begins_with_tls(data: &[u8]) -> bool {
        data.starts_with(b"\x16\x03")
    }

    /// Returns `true` if the words are a line of an HTTP request.
    ///
    /// A browser's first line is `METHOD TARGET HTTP/1.1`, and a page can choose the method. After DNS
    /// rebinding (the name of the page has come to mean this address) the page has the origin of this host and
    /// port, and may also choose `SET` or `DEL`. The line after it is `Host:`; bodies come later still.
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
