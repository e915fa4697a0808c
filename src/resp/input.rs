//! Read buffer of a connection: bytes that were received and not yet consumed.

/// Maximum growth of the buffer at a time, in bytes: it limits how much is received and decoded before the
/// worker serves other connections.
const GROWTH: usize = 256 << 10;

/// Read buffer of a connection. The memory stays initialised between uses, so reading into it needs neither
/// `unsafe` nor clearing.
pub struct Input {
    data: Vec<u8>,
    /// Number of received bytes in the buffer: `data[..filled]`.
    filled: usize,
}

impl Input {
    /// Creates an empty buffer of `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { data: vec![0; capacity], filled: 0 }
    }

    /// Returns the received bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.data.get(..self.filled).unwrap_or_default()
    }

    /// Returns the received bytes mutably, to unquote inline arguments in place.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.data.get_mut(..self.filled).unwrap_or_default()
    }

    /// Returns the free space for the next read; it is never empty. A full buffer doubles, so that memory
    /// follows the bytes that a client has sent, not the length that it has announced. A large buffer grows by
    /// a fixed amount: to clear the new half of a doubled one, and to decode that many bytes at once, would
    /// take milliseconds.
    pub fn space(&mut self) -> &mut [u8] {
        if self.filled == self.data.len() {
            self.data.resize(self.filled + self.filled.clamp(4096, GROWTH), 0);
        }
        self.data.get_mut(self.filled..).unwrap_or_default()
    }

    /// Counts `len` more bytes of [`Input::space`] as received.
    #[inline]
    pub fn advance(&mut self, len: usize) {
        self.filled = (self.filled + len).min(self.data.len());
    }

    /// Appends bytes that were received earlier.
    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if end > self.data.len() {
            self.data.resize(end, 0);
        }
        if let Some(space) = self.data.get_mut(self.filled..end) {
            space.copy_from_slice(bytes);
        }
        self.filled = end;
    }

    /// Drops the first `len` received bytes.
    pub(super) fn consume(&mut self, len: usize) {
        if len < self.filled {
            self.data.copy_within(len..self.filled, 0);
        }
        self.filled = self.filled.saturating_sub(len);
    }

    /// Returns the number of bytes received and not consumed.
    #[inline]
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Returns `true` if a read has filled the buffer: the socket may hold more bytes.
    pub fn is_full(&self) -> bool {
        self.filled == self.data.len()
    }

    /// Returns `true` if the buffer holds no received bytes that were not consumed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns the allocated memory of the buffer, in bytes.
    pub fn capacity(&self) -> usize {
        self.data.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_request_is_received_in_pieces() {
        let mut input = Input::with_capacity(64 << 10);
        let end = if cfg!(miri) { 128 << 10 } else { 16 << 20 };
        while input.len() < end {
            let room = input.space().len();
            assert!((1..=GROWTH).contains(&room), "{room} behind {}", input.len());
            input.advance(room);
        }
    }
}
