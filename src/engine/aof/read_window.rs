//! Buffered view of a part of an append-only file (AOF), for replays and copies.

use std::{
    io::{self, Read},
    ops::Range,
};

/// Initial size of the window, in bytes. It grows only for a longer frame or record.
const SIZE: usize = 1 << 20;

/// View of an AOF that moves forward, with a buffer of the bytes at its position.
pub(super) struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    /// Range of the buffer with the bytes that were read from the AOF and not yet consumed.
    filled: Range<usize>,
    /// Offset in the AOF of the first byte that was not yet consumed.
    pub(super) offset: u64,
    /// Length of the AOF, in bytes.
    len: u64,
}

impl<R: Read> Window<R> {
    /// Creates a window whose view begins at `offset` of an AOF of `len` bytes; `source` must be at that offset.
    pub(super) fn new(source: R, offset: u64, len: u64) -> Self {
        Self { source, buffer: vec![0; SIZE], filled: 0..0, offset, len }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.filled.clone()).unwrap_or_default()
    }

    /// Returns the number of bytes from the view's current position in the AOF to the end of the AOF.
    pub(super) fn remaining(&self) -> u64 {
        self.len - self.offset
    }

    pub(super) fn advance(&mut self, by: usize) {
        self.filled.start += by;
        self.offset += by as u64;
    }

    /// Reads until the window has at least `need` bytes. The caller has checked that the AOF has them, so a
    /// wrong length cannot make the buffer larger than the AOF.
    pub(super) fn fill(&mut self, need: usize) -> io::Result<()> {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        if need > self.buffer.len() {
            // At least doubled, so that a record of many arguments is not decoded again for each of them.
            self.buffer.resize(need.max(self.buffer.len() * 2), 0);
        }
        while self.filled.end < need {
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let unread = self.remaining() - self.filled.len() as u64;
        let room = self.buffer.get_mut(self.filled.end..).unwrap_or_default();
        match (&mut self.source).take(unread).read(room) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.filled.end += count;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Advances the window to the next `wanted` byte, searching from index `at`; without one, to the end of the
    /// AOF. Returns `true` if the byte was found.
    pub(super) fn find(&mut self, mut at: usize, wanted: u8) -> io::Result<bool> {
        loop {
            let rest = self.bytes().get(at..).unwrap_or_default();
            if let Some(place) = rest.iter().position(|&byte| byte == wanted) {
                self.advance(at + place);
                return Ok(true);
            }
            self.advance(self.filled.len());
            at = 0;
            if self.remaining() == 0 {
                return Ok(false);
            }
            self.fill(1)?;
        }
    }

    /// Returns `true` if all bytes from index `at` of the window to the end of the AOF are `blank`. If not, the
    /// window then contains the first other byte and some of the bytes before it.
    pub(super) fn is_blank_from(&mut self, at: usize, blank: impl Fn(u8) -> bool) -> io::Result<bool> {
        self.advance(at);
        loop {
            if !self.bytes().iter().all(|&byte| blank(byte)) {
                return Ok(false);
            }
            // The last blank byte stays in the window: it may be the first byte of a header (`#`).
            let kept = self.filled.len().min(1);
            self.advance(self.filled.len() - kept);
            if self.remaining() == kept as u64 {
                return Ok(true);
            }
            self.fill(kept + 1)?;
        }
    }
}
