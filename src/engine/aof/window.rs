//! The part of a log that is being looked at.

use std::{
    io::{self, Read},
    ops::Range,
};

/// Size of the window at first. It grows only for a frame, or a record, that is longer.
const SIZE: usize = 1 << 20;

/// The part of a log from some place on.
pub(super) struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    /// What of the buffer is read and not yet consumed.
    filled: Range<usize>,
    /// Where in the log `filled` starts.
    pub(super) offset: u64,
    /// Length of the log.
    len: u64,
}

impl<R: Read> Window<R> {
    /// `source` is at `offset` of a log of `len` bytes.
    pub(super) fn new(source: R, offset: u64, len: u64) -> Self {
        Self { source, buffer: vec![0; SIZE], filled: 0..0, offset, len }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.filled.clone()).unwrap_or_default()
    }

    /// Bytes of the log from the begin of the window.
    pub(super) fn remaining(&self) -> u64 {
        self.len - self.offset
    }

    pub(super) fn advance(&mut self, by: usize) {
        self.filled.start += by;
        self.offset += by as u64;
    }

    /// Reads until the window has at least `need` bytes. The caller has seen that the log has them,
    /// so a length that lies cannot make the buffer larger than the log.
    pub(super) fn fill(&mut self, need: usize) -> io::Result<()> {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        if need > self.buffer.len() {
            // At least twice as much, lest a record of many words be decoded anew for each of them.
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

    /// Goes to the next `wanted` byte from `at` bytes into the window on; else to the end. Returns whether there
    /// is one.
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

    /// Whether nothing but `blank` bytes follows from `at` bytes into the window to the end of the log. If not,
    /// the window is left with the first that is not, and some of what is before it.
    pub(super) fn is_blank_from(&mut self, at: usize, blank: impl Fn(u8) -> bool) -> io::Result<bool> {
        self.advance(at);
        loop {
            if !self.bytes().iter().all(|&byte| blank(byte)) {
                return Ok(false);
            }
            // What begins with a blank byte may go on with others.
            let kept = self.filled.len().min(1);
            self.advance(self.filled.len() - kept);
            if self.remaining() == kept as u64 {
                return Ok(true);
            }
            self.fill(kept + 1)?;
        }
    }
}
