//! Encoder of the server's replies to clients, in RESP2 or RESP3.

use std::ops::Range;

/// Room in bytes for a header (type byte, length, line break) and for a line break behind the text; they need less.
const HEADER: usize = 32;

/// Protocol version of a connection, chosen by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, the version with which every connection begins.
    #[default]
    Resp2,
    /// RESP3, chosen by `HELLO 3`.
    Resp3,
}

impl Protocol {
    /// Returns the protocol version as HELLO writes it: 2 or 3.
    pub fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Buffer of encoded replies that have not been sent to the client yet.
#[derive(Default)]
pub struct Reply {
    buf: Vec<u8>,
    protocol: Protocol,
    /// Maximum number of buffered reply bytes; 0: no limit.
    limit: usize,
    /// `true` if a reply exceeded `limit`; all buffered bytes were then discarded.
    overflowed: bool,
    /// Positions in `buf` at which the error replies begin.
    errors: Vec<usize>,
}

impl Reply {
    /// Returns the protocol version in which replies are written.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol version of the replies that follow.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Sets the maximum number of buffered bytes (0: no limit). The limit is checked when the memory has to grow.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns `true` if the number of buffered bytes is limited.
    pub fn is_limited(&self) -> bool {
        self.limit > 0
    }

    /// Returns `true` if a reply exceeded the limit. The buffered bytes were then discarded: nothing is left to
    /// send.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Forgets that a reply exceeded the limit, because the client does not get it (CLIENT REPLY).
    pub fn clear_overflow(&mut self) {
        self.overflowed = false;
    }

    /// Creates an empty buffer with the protocol version and limit of `self`, for replies that are appended
    /// later.
    pub fn aside(&self) -> Self {
        Self { protocol: self.protocol, limit: self.limit, ..Self::default() }
    }

    /// Returns the bytes to send.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// Returns the number of buffered bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns `true` if no bytes are buffered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Discards all buffered bytes after the first `len`, and the errors among them.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.buf.truncate(len);
        if !self.errors.is_empty() {
            self.errors.retain(|place| *place < len);
        }
    }

    /// Discards the first `len` buffered bytes, which are whole replies, and the errors among them.
    pub fn consume(&mut self, len: usize) {
        self.buf.drain(..len.min(self.buf.len()));
        self.errors.retain(|place| *place >= len);
        self.errors.iter_mut().for_each(|place| *place -= len);
    }

    /// Appends the replies of another buffer.
    pub fn append(&mut self, other: &Reply) {
        self.overflowed |= other.overflowed;
        if self.make_room(other.buf.len()) {
            self.errors.extend(other.errors.iter().map(|place| place + self.buf.len()));
            self.buf.extend_from_slice(&other.buf);
        }
    }

    /// Appends the bytes `part` of another buffer: whole replies.
    pub fn append_part(&mut self, other: &Reply, part: Range<usize>) {
        let bytes = other.buf.get(part.clone()).unwrap_or_default();
        self.overflowed |= other.overflowed;
        if self.make_room(bytes.len()) {
            let first = other.errors.partition_point(|place| *place < part.start);
            let inside = other.errors.iter().skip(first).take_while(|place| **place < part.end);
            self.errors.extend(inside.map(|place| place - part.start + self.buf.len()));
            self.buf.extend_from_slice(bytes);
        }
    }

    /// Returns the capacity of the buffer, in bytes.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// Writes a simple string (`+text`); `text` must contain no line break.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error reply; `text` starts with the error code: `ERR ...`. Line breaks become spaces, as in
    /// Redis, because the text may quote bytes that the client sent.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        if !self.make_room(text.len() + 3) {
            return;
        }
        self.errors.push(self.buf.len());
        self.buf.push(b'-');
        let breaks = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        self.buf.extend(text.iter().map(breaks));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Returns `true` if error replies were written since the last call of [`Reply::take_errors`].
    #[inline]
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the positions in the buffer at which error replies begin, and forgets them.
    pub fn take_errors(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.errors)
    }

    /// Writes bytes that are already encoded replies.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.make_room(bytes.len()) {
            self.buf.extend_from_slice(bytes);
        }
    }

    /// Writes an integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// Writes a floating-point number: a double in RESP3, a bulk string in RESP2.
    pub fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(number.to_string().as_bytes()),
            Protocol::Resp3 => self.line(b',', number.to_string().as_bytes()),
        }
    }

    /// Writes a bulk string.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        if !self.make_room(value.len() + HEADER) {
            return;
        }
        self.header(b'$', value.len());
        self.buf.extend_from_slice(value);
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Returns `true` if a reply of `more` bytes can be appended, `false` if it exceeds the limit. Commands that build
    /// a long text can stop early.
    pub fn has_room(&self, more: usize) -> bool {
        let len = self.buf.len() + more;
        len <= self.buf.capacity() || !self.overflowed && (self.limit == 0 || len <= self.limit)
    }

    #[inline]
    fn make_room(&mut self, more: usize) -> bool {
        self.buf.capacity() - self.buf.len() >= more || self.grow(more)
    }

    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        if !self.has_room(more) {
            self.overflowed = true;
            self.buf = Vec::new();
            self.errors.clear();
            return false;
        }
        let len = self.buf.len() + more;
        let doubled = self.buf.capacity() * 2;
        let wanted = if self.limit > 0 { doubled.min(self.limit) } else { doubled };
        self.buf.reserve_exact(wanted.max(len) - self.buf.len());
        true
    }

    /// Writes a bulk string, or null if `value` is `None`.
    #[inline]
    pub fn bulk_or_null(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bulk(value),
            None => self.null(),
        }
    }

    /// Writes null: RESP2's null bulk string or RESP3's null.
    #[inline]
    pub fn null(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes the null array of RESP2, or RESP3's null.
    pub fn null_array(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes the header of an array; the caller writes the `len` elements next.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.aggregate(b'*', len);
    }

    /// Writes the header of a map; the caller writes the `len` pairs next. In RESP2, the map is an array of
    /// twice the length.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.aggregate(b'*', len * 2),
            Protocol::Resp3 => self.aggregate(b'%', len),
        }
    }

    /// Writes the header of a set; the caller writes the `len` elements next. In RESP2, the set is an array.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.aggregate(b'*', len),
            Protocol::Resp3 => self.aggregate(b'~', len),
        }
    }

    /// Writes text for people: a verbatim string in RESP3, a bulk string in RESP2.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                if !self.make_room(text.len() + HEADER) {
                    return;
                }
                self.header(b'=', text.len() + 4);
                self.buf.extend_from_slice(b"txt:");
                self.buf.extend_from_slice(text.as_bytes());
                self.buf.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Writes the header of an array, a map or a set.
    #[inline]
    fn aggregate(&mut self, kind: u8, len: usize) {
        if self.make_room(HEADER) {
            self.header(kind, len);
        }
    }

    /// Writes a type byte and a length, for which the caller has made room. Lengths below 1,000, the most frequent ones in
    /// benchmarks, are written in one operation.
    #[inline]
    fn header(&mut self, kind: u8, len: usize) {
        let digit = |unit: usize| b'0' + (len / unit % 10) as u8;
        match len {
            0..10 => self.buf.extend_from_slice(&[kind, digit(1), b'\r', b'\n']),
            10..100 => self.buf.extend_from_slice(&[kind, digit(10), digit(1), b'\r', b'\n']),
            100..1000 => {
                self.buf.extend_from_slice(&[kind, digit(100), digit(10), digit(1), b'\r', b'\n']);
            }
            _ => self.number(kind, len as i64),
        }
    }

    fn number(&mut self, kind: u8, number: i64) {
        self.line(kind, itoa::Buffer::new().format(number).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        if !self.make_room(text.len() + 3) {
            return;
        }
        self.buf.push(kind);
        self.buf.extend_from_slice(text);
        self.buf.extend_from_slice(b"\r\n");
    }
}

/// Returns the length in bytes of the first reply in `bytes`, which holds complete replies written by
/// [`Reply`]. Returns `None` if that reply is incomplete.
pub fn reply_len(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut left) = (0, 1_usize);
    while left > 0 {
        let rest = bytes.get(at..)?;
        let head = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let number = || str::from_utf8(rest.get(1..head)?).ok()?.parse::<i64>().ok();
        at += head + 2;
        left -= 1;
        match rest.first()? {
            b'$' | b'=' => at += usize::try_from(number()?).map_or(0, |len| len + 2),
            b'*' | b'~' => left += usize::try_from(number()?).unwrap_or(0),
            b'%' => left += 2 * usize::try_from(number()?).unwrap_or(0),
            _ => {}
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_reply_covers_all_parts() {
        let mut reply = Reply::default();
        reply.set_protocol(Protocol::Resp3);
        reply.map(2);
        reply.bulk(b"a\r\nb");
        reply.array(3);
        reply.integer(-1);
        reply.null();
        reply.verbatim("text");
        reply.bulk(b"");
        reply.set(0);
        let len = reply.len();
        reply.error("ERR next");
        assert_eq!(reply_len(reply.bytes()), Some(len));
        assert_eq!(reply_len(&reply.bytes()[len..]), Some(reply.len() - len));
        assert_eq!(reply_len(b"$-1\r\n+OK\r\n"), Some(5));
        assert_eq!(reply_len(b"*2\r\n:1\r\n"), None);
        let mut part = Reply::default();
        part.ok();
        part.append_part(&reply, 0..len);
        assert!(!part.has_errors());
        part.append_part(&reply, len..reply.len());
        part.consume(5);
        assert_eq!((part.bytes(), &part.errors[..]), (reply.bytes(), &[len][..]));
        part.consume(len);
        assert_eq!((part.bytes(), &part.errors[..]), (&b"-ERR next\r\n"[..], &[0][..]));
        part.error("ERR last");
        part.consume(part.len());
        assert!(part.is_empty() && !part.has_errors());
        assert_eq!(reply.take_errors(), [len]);
    }

    #[test]
    fn short_replies_beyond_the_limit_overflow() {
        for write in [
            &(|reply: &mut Reply| reply.null()) as &dyn Fn(&mut Reply),
            &|reply| reply.null_array(),
            &|reply| reply.ok(),
            &|reply| reply.simple("PONG"),
            &|reply| reply.integer(-1),
            &|reply| reply.array(1),
            &|reply| reply.error("ERR"),
        ] {
            let mut reply = Reply::default();
            reply.set_limit(1000);
            (0..100).for_each(|_| write(&mut reply));
            assert!(!reply.has_overflowed() && reply.len() >= 400, "{}", reply.len());
            (0..1000).for_each(|_| write(&mut reply));
            assert!(reply.has_overflowed() && reply.is_empty() && !reply.has_errors(), "{}", reply.len());
        }
    }

    #[test]
    fn a_text_beyond_the_limit_overflows_in_both_protocols() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut reply = Reply::default();
            reply.set_protocol(protocol);
            reply.set_limit(1000);
            let text = "x".repeat(900);
            reply.verbatim(&text);
            assert!(!reply.has_overflowed() && reply.len() > text.len(), "{protocol:?}");
            assert!(!reply.has_room(text.len()), "{protocol:?}");
            reply.verbatim(&text);
            assert!(reply.has_overflowed() && reply.is_empty(), "{protocol:?}");
        }
    }
}
