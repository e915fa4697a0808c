//! Incremental request decoder: it parses each byte once, allocates nothing per request and does not recurse.

use super::{ArgRange, Foreign, Input, Requests, inline, parse_integer};

/// Limits on the size of a client's requests. The defaults are those of redis-server 7.0, except `batch`, which Redis
/// does not have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum length of an argument, in bytes (`proto-max-bulk-len`).
    pub bulk: usize,
    /// Maximum number of bytes of an inline command or of a length line that are received without its end.
    pub line: usize,
    /// Maximum number of arguments of one request.
    pub args: usize,
    /// Maximum size of an incomplete request, in bytes (`client-query-buffer-limit`); at most
    /// [`Limits::MAX_QUERY_BUFFER`].
    pub query_buffer: usize,
    /// Maximum number of requests that are decoded before they are executed; further requests stay in the buffer.
    pub batch: usize,
    /// `true` if the client may send requests of any size, because it has authenticated.
    pub authenticated: bool,
}

impl Limits {
    /// Largest possible `query_buffer`, in bytes: 4095 MiB. Positions in the read buffer have 32 bits, and the read
    /// that completes a request may receive bytes beyond the limit, which are less than 1 MiB.
    pub const MAX_QUERY_BUFFER: u32 = u32::MAX - (1 << 20) + 1;

    /// Returns the limits that Redis applies to a client that has not authenticated. Requests are then decoded
    /// one at a time, because each of them may authenticate the client and so lift these limits.
    pub fn before_auth(self) -> Self {
        Self { bulk: 16 << 10, args: 10, batch: 1, authenticated: false, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk: 512 << 20,
            line: 64 << 10,
            args: i32::MAX as usize,
            query_buffer: 1 << 30,
            batch: 16 << 10,
            authenticated: true,
        }
    }
}

/// Protocol error: bytes that are not RESP, or a request beyond a limit. The server replies with the text, except to a
/// client of another protocol, and closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are Redis' and say it")]
pub enum ProtocolError {
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    #[error("Protocol error: too big mbulk count string")]
    CountTooLong,
    #[error("Protocol error: invalid multibulk length")]
    Count,
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    NotBulk(u8),
    #[error("Protocol error: too big bulk count string")]
    LengthTooLong,
    #[error("Protocol error: invalid bulk length")]
    Length,
    /// An argument is not followed by CRLF. Redis skips these two bytes unchecked; kvbench reports a client
    /// that sent a wrong length.
    #[error("Protocol error: expected CRLF after an argument")]
    NoCrlf,
    #[error("Protocol error: request larger than the query buffer limit")]
    QueryTooLong,
    #[error("Protocol error: unauthenticated multibulk length")]
    CountBeforeAuth,
    #[error("Protocol error: unauthenticated bulk length")]
    LengthBeforeAuth,
    /// The client speaks another protocol. It gets no reply.
    #[error("it speaks {0}, not the Redis protocol")]
    Foreign(Foreign),
}

/// Parses a length line of type `kind` with one to three digits; returns the length and the position of the
/// next line. Nearly every length line has this form, which needs no search for CRLF and no general parser.
/// Returns `None` for any other line, and if fewer than six bytes were received from its start on.
#[inline(always)]
fn short_length(data: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    match *data.get(at..)?.first_chunk::<6>()? {
        [first, a @ b'1'..=b'9', b'\r', b'\n', ..] if first == kind => Some((digit(a), at + 4)),
        [first, a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', _] if first == kind => {
            Some((digit(a) * 10 + digit(b), at + 5))
        }
        [first, a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', b'\n'] if first == kind => {
            Some((digit(a) * 100 + digit(b) * 10 + digit(c), at + 6))
        }
        _ => None,
    }
}

/// Sign that a request cannot be decoded further without more bytes.
struct Incomplete;

/// Decoder of the requests of one connection. Between calls it keeps its position in an incomplete request.
pub struct Decoder {
    limits: Limits,
    /// Position in the read buffer up to which it has been parsed.
    at: usize,
    /// Position in the read buffer of the first incomplete request.
    start: usize,
    /// Number of arguments that the request which is being parsed still lacks; 0 between requests.
    missing: usize,
    /// Length in bytes of the argument that is being parsed; `None` while its length line is not complete.
    bulk: Option<usize>,
    /// Position in the read buffer up to which the current line was searched for its end without success.
    searched: usize,
}

impl Decoder {
    /// Creates a decoder at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Self { limits, at: 0, start: 0, missing: 0, bulk: None, searched: 0 }
    }

    /// Sets the limits of the requests whose decoding has not ended.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Appends the complete requests of `input` to `requests`, at most `Limits::batch`. After an error,
    /// `requests` still holds the requests before the invalid one; they are answered first.
    pub fn decode(&mut self, input: &mut Input, requests: &mut Requests) -> Result<(), ProtocolError> {
        self.check_begun()?;
        while requests.len() < self.limits.batch {
            let step = if self.missing > 0 {
                self.arguments(input.bytes(), requests)?
            } else {
                match input.bytes().get(self.at) {
                    Some(b'*') => match short_length(input.bytes(), self.at, b'*') {
                        Some((count, next)) if count <= self.limits.args => {
                            (self.missing, self.at) = (count, next);
                            Ok(())
                        }
                        _ => self.count(input.bytes())?,
                    },
                    Some(_) => self.inline(input, requests)?,
                    None => Err(Incomplete),
                }
            };
            if step.is_err() {
                if input.len() - self.start > self.limits.query_buffer {
                    return Err(ProtocolError::QueryTooLong);
                }
                break;
            }
        }
        Ok(())
    }

    /// Fails if the incomplete request exceeds limits that were lowered after it had begun, because the client is no
    /// longer authenticated.
    fn check_begun(&self) -> Result<(), ProtocolError> {
        if self.missing > self.limits.args {
            return Err(ProtocolError::CountBeforeAuth);
        }
        match self.bulk {
            Some(len) if len > self.limits.bulk => Err(ProtocolError::LengthBeforeAuth),
            _ => Ok(()),
        }
    }

    /// Returns `true` if `requests` has reached `Limits::batch`, so that the input may hold further complete
    /// requests.
    pub fn is_full(&self, requests: &Requests) -> bool {
        requests.len() >= self.limits.batch
    }

    /// Removes the complete requests, which were answered, and their bytes from the read buffer.
    pub fn retire(&mut self, input: &mut Input, requests: &mut Requests) {
        let done = self.start;
        requests.retire();
        // Most calls receive another part of an incomplete request, which may have millions of arguments: there
        // is nothing to remove.
        if done == 0 {
            return;
        }
        input.consume(done);
        for span in &mut requests.spans {
            span.start -= done as u32;
        }
        self.at -= done;
        self.searched = self.searched.saturating_sub(done);
        self.start = 0;
    }

    /// Parses the argument count, `*3\r\n`. A count of zero or less is not a request, as in Redis.
    #[cold]
    fn count(&mut self, data: &[u8]) -> Result<Result<(), Incomplete>, ProtocolError> {
        let Some(count) = self.length_line(data, ProtocolError::CountTooLong, ProtocolError::Count)? else {
            return Ok(Err(Incomplete));
        };
        self.missing = usize::try_from(count).unwrap_or(0);
        if self.missing > self.limits.args {
            let absurd = self.limits.authenticated || self.missing > Limits::default().args;
            return Err(if absurd { ProtocolError::Count } else { ProtocolError::CountBeforeAuth });
        }
        if self.missing == 0 {
            self.start = self.at;
        }
        Ok(Ok(()))
    }

    /// Parses the missing arguments, each like `$3\r\nSET\r\n`.
    #[inline]
    fn arguments(
        &mut self,
        data: &[u8],
        requests: &mut Requests,
    ) -> Result<Result<(), Incomplete>, ProtocolError> {
        while self.missing > 0 {
            let len = match self.bulk {
                Some(len) => len,
                None => match short_length(data, self.at, b'$') {
                    Some((len, next)) if len <= self.limits.bulk => {
                        self.at = next;
                        len
                    }
                    _ => match self.bulk_length(data)? {
                        Some(len) => len,
                        None => return Ok(Err(Incomplete)),
                    },
                },
            };
            match data.get(self.at + len..self.at + len + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::NoCrlf),
                None => {
                    self.bulk = Some(len);
                    return Ok(Err(Incomplete));
                }
            }
            requests.spans.push(ArgRange { start: self.at as u32, len: len as u32 });
            self.at += len + 2;
            self.bulk = None;
            self.missing -= 1;
        }
        requests.ends.push(requests.spans.len() as u32);
        self.start = self.at;
        Ok(Ok(()))
    }

    /// Parses the length line of an argument, `$3\r\n`; `None` if the line is incomplete.
    #[cold]
    fn bulk_length(&mut self, data: &[u8]) -> Result<Option<usize>, ProtocolError> {
        match data.get(self.at) {
            Some(b'$') => {}
            Some(&other) => return Err(ProtocolError::NotBulk(other)),
            None => return Ok(None),
        }
        let line = self.length_line(data, ProtocolError::LengthTooLong, ProtocolError::Length)?;
        let Some(len) = line else { return Ok(None) };
        let len = usize::try_from(len).map_err(|_| ProtocolError::Length)?;
        if len > self.limits.bulk {
            let absurd = self.limits.authenticated || len > Limits::default().bulk;
            return Err(if absurd { ProtocolError::Length } else { ProtocolError::LengthBeforeAuth });
        }
        Ok(Some(len))
    }

    /// Parses a type byte and a decimal number up to CRLF; `None` if the line is incomplete.
    fn length_line(
        &mut self,
        data: &[u8],
        too_long: ProtocolError,
        invalid: ProtocolError,
    ) -> Result<Option<i64>, ProtocolError> {
        let Some(end) = self.find(data, b'\r', too_long)? else { return Ok(None) };
        match data.get(end + 1) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(invalid),
        }
        let number = data.get(self.at + 1..end).and_then(parse_integer).ok_or(invalid)?;
        self.at = end + 2;
        self.searched = self.at;
        Ok(Some(number))
    }

    /// Parses an inline command: one line of words. An empty line is not a request.
    fn inline(
        &mut self,
        input: &mut Input,
        requests: &mut Requests,
    ) -> Result<Result<(), Incomplete>, ProtocolError> {
        if input.bytes().get(self.at..).is_some_and(Foreign::begins_with_tls) {
            return Err(ProtocolError::Foreign(Foreign::Tls));
        }
        let Some(newline) = self.find(input.bytes(), b'\n', ProtocolError::InlineTooLong)? else {
            return Ok(Err(Incomplete));
        };
        let data = input.bytes_mut();
        let end = match newline.checked_sub(1).and_then(|last| data.get(last)) {
            Some(b'\r') if newline > self.at => newline - 1,
            _ => newline,
        };
        let before = requests.spans.len();
        inline::split(data, self.at, end, &mut requests.spans).ok_or(ProtocolError::Quotes)?;
        if requests.spans.len() > before {
            requests.ends.push(requests.spans.len() as u32);
            let last = requests.get(requests.len() - 1, data);
            if last.is_some_and(Foreign::is_http) {
                requests.ends.pop();
                return Err(ProtocolError::Foreign(Foreign::Http));
            }
        }
        self.at = newline + 1;
        self.start = self.at;
        self.searched = self.at;
        Ok(Ok(()))
    }

    /// Returns the position of the first `byte` in the current line, or `None` if it was not received yet. The
    /// search continues where the previous call stopped. Fails with `too_long` if more than [`Limits::line`] bytes of
    /// the line were received without `byte`.
    fn find(
        &mut self,
        data: &[u8],
        byte: u8,
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let from = self.searched.max(self.at);
        let found = data.get(from..).and_then(|rest| rest.iter().position(|&b| b == byte));
        let end = found.map_or(data.len(), |offset| from + offset);
        if found.is_none() && end - self.at > self.limits.line {
            return Err(too_long);
        }
        self.searched = end;
        Ok(found.map(|_| end))
    }
}

#[cfg(test)]
mod tests;
