//! The bytes a connection has received and not yet answered.

/// A buffer grows by no more bytes at a time, so that no more are received, and decoded, before others have their turn.
const GROWTH: usize = 256 << 10;

/// A read buffer. Its memory stays initialised from one use to the next, so that reading into it
/// needs neither `unsafe` nor clearing.
pub struct Input {
    data: Vec<u8>,
    /// Bytes received: `data[..filled]`.
    filled: usize,
}

impl Input {
    /// A buffer that reads up to `capacity` bytes at a time.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { data: vec![0; capacity], filled: 0 }
    }

    /// What was received.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.data.get(..self.filled).unwrap_or_default()
    }

    /// What was received, to unquote inline arguments in place.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.data.get_mut(..self.filled).unwrap_or_default()
    }

    /// Room for the next read; never empty. A full buffer doubles, so that memory follows what a
    /// client has sent, not what it has announced. A large one grows in steps: to clear its new half at
    /// once, and to decode what comes at once, would take milliseconds.
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

    /// Drops the first `len` bytes.
    pub(super) fn consume(&mut self, len: usize) {
        if len < self.filled {
            self.data.copy_within(len..self.filled, 0);
        }
        self.filled = self.filled.saturating_sub(len);
    }

    /// Bytes received and not consumed.
    #[inline]
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether a read left no room: the socket may hold more.
    pub fn is_full(&self) -> bool {
        self.filled == self.data.len()
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Memory held, in bytes.
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
