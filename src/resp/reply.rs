//! Reply encoder: the only writer of RESP bytes to clients.

use std::ops::Range;

/// Protocol version of a connection, chosen by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, every connection's first.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

impl Protocol {
    /// The number in HELLO.
    pub fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Replies on their way to one client.
#[derive(Default)]
pub struct Reply {
    buf: Vec<u8>,
    protocol: Protocol,
    /// Most bytes that may wait; 0 is no limit.
    limit: usize,
    /// Whether more came, all of which is lost.
    overflowed: bool,
    /// Where errors begin.
    errors: Vec<usize>,
}

impl Reply {
    /// The protocol version replies are written in.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol version of the replies that follow.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Bounds what may wait. It is looked at when the memory has to grow, which costs a short reply nothing;
    /// only bulk strings make a reply long.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether a reply grew beyond the limit. It is not there then: there is nothing left to send.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// An empty one under the same rules, for what is written apart.
    pub fn aside(&self) -> Self {
        Self { protocol: self.protocol, limit: self.limit, ..Self::default() }
    }

    /// The bytes to send.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// Bytes waiting.
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether nothing is waiting.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Forgets what was written after the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.buf.truncate(len);
        if !self.errors.is_empty() {
            self.errors.retain(|place| *place < len);
        }
    }

    /// Appends replies that were written apart.
    pub fn append(&mut self, other: &Reply) {
        self.overflowed |= other.overflowed;
        if self.make_room(other.buf.len()) {
            self.errors.extend(other.errors.iter().map(|place| place + self.buf.len()));
            self.buf.extend_from_slice(&other.buf);
        }
    }

    /// Appends a part of replies that were written apart.
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

    /// Memory held, in bytes.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.buf.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string; it must hold no line break.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, its code first: `ERR ...`. Line breaks become spaces, as in Redis, because the
    /// text may quote what the client sent.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.errors.push(self.buf.len());
        self.buf.push(b'-');
        let breaks = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        self.buf.extend(text.as_ref().iter().map(breaks));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Whether errors were written that nobody has taken note of.
    #[inline]
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Where they begin; they are taken note of then.
    pub fn take_errors(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.errors)
    }

    /// Bytes that are replies already.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.make_room(bytes.len()) {
            self.buf.extend_from_slice(bytes);
        }
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A number with decimals: in RESP2 a bulk string.
    pub fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(number.to_string().as_bytes()),
            Protocol::Resp3 => self.line(b',', number.to_string().as_bytes()),
        }
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        if !self.make_room(value.len() + 32) {
            return;
        }
        self.header(b'$', value.len());
        self.buf.extend_from_slice(value);
        self.buf.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn make_room(&mut self, more: usize) -> bool {
        self.buf.capacity() - self.buf.len() >= more || self.grow(more)
    }

    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        let len = self.buf.len() + more;
        if self.overflowed || self.limit > 0 && len > self.limit {
            self.overflowed = true;
            self.buf = Vec::new();
            return false;
        }
        let doubled = self.buf.capacity() * 2;
        let wanted = if self.limit > 0 { doubled.min(self.limit) } else { doubled };
        self.buf.reserve_exact(wanted.max(len) - self.buf.len());
        true
    }

    /// A bulk string, or null.
    #[inline]
    pub fn bulk_or_null(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bulk(value),
            None => self.null(),
        }
    }

    /// Null: RESP2's null bulk string or RESP3's null.
    #[inline]
    pub fn null(&mut self) {
        self.buf.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No array: RESP2's null array or RESP3's null.
    pub fn null_array(&mut self) {
        self.buf.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Header of an array of `len` elements, which follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// Header of a map of `len` pairs, which follow: in RESP2 an array of twice the length.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len * 2),
            Protocol::Resp3 => self.header(b'%', len),
        }
    }

    /// Header of a set of `len` elements, which follow: in RESP2 an array.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len),
            Protocol::Resp3 => self.header(b'~', len),
        }
    }

    /// Text for people: RESP3's verbatim string, in RESP2 a bulk string.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.buf.extend_from_slice(b"txt:");
                self.buf.extend_from_slice(text.as_bytes());
                self.buf.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Lengths below 1,000 are most of a benchmark's, and short enough to write at once.
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
        self.buf.reserve(text.len() + 3);
        self.buf.push(kind);
        self.buf.extend_from_slice(text);
        self.buf.extend_from_slice(b"\r\n");
    }
}

/// Length of the first of some replies, which are complete, as [`Reply`] writes them.
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
    fn the_length_of_a_reply_is_that_of_all_its_parts() {
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
        assert_eq!(part.take_errors(), [5 + len]);
        assert_eq!(reply.take_errors(), [len]);
    }
}
