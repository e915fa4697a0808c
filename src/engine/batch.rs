//! Write batch of one commit: an ordered list of absolute writes.

use super::{Error, Result};

/// One write. All writes are absolute (no increments), so replaying a list of them twice, or over a state that
/// already holds some of them, ends in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a key is a key")]
pub enum WriteOp<'a> {
    /// Sets `key` to `value`, whether or not it existed.
    Put { key: &'a [u8], value: &'a [u8] },
    /// Removes `key`; no effect if it is absent.
    Delete { key: &'a [u8] },
    /// Removes every key of every database.
    Clear,
}

/// Maximum number of writes whose memory is reused by the next batch: as many as a group of hundreds of pipelining
/// clients has.
const MAX_REUSED_WRITES: usize = 128 << 10;

/// Writes that become visible, and durable, all together or not at all, in order: the last write of a key wins. A batch
/// with parts ([`Batch::end_part`]) may become visible part by part. Keys and values are borrowed from the request
/// buffers, so nothing is copied before the engine takes it.
#[derive(Default, Debug)]
pub struct Batch<'a> {
    ops: Vec<WriteOp<'a>>,
    bytes: usize,
    /// Ends of the parts, of which each may become visible separately: number of writes, and bytes of keys and
    /// values, before each end.
    parts: Vec<(usize, usize)>,
}

impl<'a> Batch<'a> {
    /// Creates an empty batch with capacity for `ops` writes.
    pub fn with_capacity(ops: usize) -> Self {
        Self { ops: Vec::with_capacity(ops), ..Self::default() }
    }

    /// Creates a batch of the writes `ops`, in this order.
    pub fn of(ops: &[WriteOp<'a>]) -> Self {
        let mut batch = Self::with_capacity(ops.len());
        ops.iter().for_each(|op| batch.push(*op));
        batch
    }

    /// Fails if the length of a key is not between `min` and `max` bytes. Must be called before any write is
    /// applied.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`] of the first such key.
    pub fn check_keys(&self, engine: &'static str, (min, max): (usize, usize)) -> Result<()> {
        for op in &self.ops {
            if let WriteOp::Put { key, .. } | WriteOp::Delete { key } = op
                && !(min..=max).contains(&key.len())
            {
                return Err(Error::KeyLength { engine, len: key.len(), min, max });
            }
        }
        Ok(())
    }

    /// Fails if a key is longer than `max_key` bytes, or a value longer than `max_value`, which is not less. Must be called
    /// before any write is applied.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`] of the first key that is too long, otherwise [`Error::Unsupported`].
    pub(super) fn check_lengths(
        &self,
        engine: &'static str,
        (max_key, max_value): (usize, usize),
    ) -> Result<()> {
        // If the sum of all lengths is within the limit, so is each key and value.
        if self.bytes <= max_key {
            return Ok(());
        }
        self.check_keys(engine, (0, max_key))?;
        for op in &self.ops {
            if let WriteOp::Put { value, .. } = op
                && value.len() > max_value
            {
                let what = format!("takes values of up to {max_value} bytes, not of {}", value.len());
                return Err(Error::Unsupported { engine, what });
            }
        }
        Ok(())
    }

    /// Returns a batch with the same writes and parts, but other values: `values` has one for each put, in order. Ends
    /// of parts behind the last write are not copied, so [`Batch::parts`] of the result lacks the last part.
    pub(super) fn with_values<'b>(&self, values: impl IntoIterator<Item = &'b [u8]>) -> Batch<'b>
    where
        'a: 'b,
    {
        let (mut values, mut batch) = (values.into_iter(), Batch::with_capacity(self.ops.len()));
        let mut parts = self.parts.iter().peekable();
        for (number, op) in self.ops.iter().enumerate() {
            while parts.next_if(|part| part.0 <= number).is_some() {
                batch.end_part();
            }
            batch.push(match *op {
                WriteOp::Put { key, .. } => WriteOp::Put { key, value: values.next().unwrap_or_default() },
                op => op,
            });
        }
        batch
    }

    /// Returns `true` if the batch has a `Clear`, and the effective writes: those after the last `Clear`.
    pub fn after_clear(&self) -> (bool, &[WriteOp<'a>]) {
        match self.ops.iter().rposition(|op| *op == WriteOp::Clear) {
            Some(last) => (true, self.ops.get(last + 1..).unwrap_or_default()),
            None => (false, &self.ops),
        }
    }

    /// Ends a part: the writes before and after the end need not become visible together. `Engine::write` makes all
    /// parts durable together, `Engine::write_parts` each by itself. An undivided batch is one part.
    pub fn end_part(&mut self) {
        self.parts.push((self.ops.len(), self.bytes));
    }

    /// Returns the effective writes (those after the last `Clear`), and their bytes, in chunks of whole parts: each
    /// chunk is one part, or several that have together at most `most.0` writes and `most.1` bytes. The bytes of the
    /// first chunk also include those of the writes before the last `Clear`. There is at least one chunk, which may be
    /// empty.
    pub(super) fn chunks(&self, most: (usize, usize)) -> Vec<(&[WriteOp<'a>], usize)> {
        let first = self.ops.len() - self.after_clear().1.len();
        let (mut start, mut end) = ((first, 0), (first, 0));
        let mut pieces = Vec::new();
        let mut add = |start: (usize, usize), end: (usize, usize)| {
            pieces.push((self.ops.get(start.0..end.0).unwrap_or_default(), end.1 - start.1));
        };
        let last = (self.ops.len(), self.bytes);
        for &next in self.parts.iter().filter(|part| part.0 > first).chain([&last]) {
            if end.0 > start.0 && (next.0 - start.0 > most.0 || next.1 - start.1 > most.1) {
                add(start, end);
                start = end;
            }
            end = next;
        }
        add(start, end);
        pieces
    }

    /// Returns the writes of each part that was ended by [`Batch::end_part`], in order.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &[WriteOp<'a>]> {
        let mut start = 0;
        self.parts.iter().map(move |&(end, _)| {
            let part = self.ops.get(start..end).unwrap_or_default();
            start = end;
            part
        })
    }

    /// Appends the write `op` to the batch.
    #[inline]
    pub fn push(&mut self, op: WriteOp<'a>) {
        self.bytes += match op {
            WriteOp::Put { key, value } => key.len() + value.len(),
            WriteOp::Delete { key } => key.len(),
            WriteOp::Clear => 0,
        };
        self.ops.push(op);
    }

    /// Appends a write that sets `key` to `value`.
    #[inline]
    pub fn put(&mut self, key: &'a [u8], value: &'a [u8]) {
        self.push(WriteOp::Put { key, value });
    }

    /// Appends a write that removes `key`.
    #[inline]
    pub fn delete(&mut self, key: &'a [u8]) {
        self.push(WriteOp::Delete { key });
    }

    /// Appends a write that removes every key of every database.
    pub fn clear(&mut self) {
        self.push(WriteOp::Clear);
    }

    /// Returns the writes of the batch, in order.
    #[inline]
    pub fn ops(&self) -> &[WriteOp<'a>] {
        &self.ops
    }

    /// Returns the total size of all keys and values in the batch, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of writes in the batch.
    #[inline]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns `true` if the batch has no writes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Empties the batch and passes its memory, unless it is large, to a batch of another lifetime.
    pub fn recycle<'b>(mut self) -> Batch<'b> {
        if self.ops.capacity() > MAX_REUSED_WRITES {
            return Batch::default();
        }
        self.ops.clear();
        self.parts.clear();
        let ops = self.ops.into_iter().map(|_| WriteOp::Clear).collect();
        Batch { ops, bytes: 0, parts: self.parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of writes, and the bytes of keys and values, of each chunk.
    fn pieces(batch: &Batch<'_>, most: (usize, usize)) -> Vec<(usize, usize)> {
        batch.chunks(most).into_iter().map(|(ops, bytes)| (ops.len(), bytes)).collect()
    }

    #[test]
    fn a_batch_falls_into_pieces_of_whole_parts() {
        let mut batch = Batch::default();
        assert_eq!(pieces(&batch, (2, 100)), [(0, 0)]);
        for writes in [1, 1, 3, 1] {
            (0..writes).for_each(|_| batch.put(b"key", b"value"));
            assert_eq!(pieces(&batch, (100, 100)), [(batch.len(), batch.bytes())]);
            batch.end_part();
        }
        assert_eq!(pieces(&batch, (2, 100)), [(2, 16), (3, 24), (1, 8)]);
        assert_eq!(pieces(&batch, (100, 15)), [(1, 8), (1, 8), (3, 24), (1, 8)]);
        // Writes after the last end of a part, and writes that a clear makes void.
        batch.clear();
        batch.put(b"key", b"value");
        assert_eq!(writes(&batch, (2, 100)), 1);
        batch.end_part();
        batch.put(b"key", b"value");
        assert_eq!(writes(&batch, (1, 100)), 2);
    }

    #[test]
    fn other_values_are_in_the_same_parts() {
        let mut batch = Batch::default();
        batch.put(b"a", b"long value");
        batch.end_part();
        batch.delete(b"b");
        batch.put(b"c", b"another");
        batch.end_part();
        let other = batch.with_values([&b"1"[..], b"2"]);
        let put = |key, value| WriteOp::Put { key, value };
        assert_eq!(other.ops(), [put(b"a", b"1"), WriteOp::Delete { key: b"b" }, put(b"c", b"2")]);
        assert_eq!((other.bytes(), pieces(&other, (1, 1))), (5, vec![(1, 2), (2, 3)]));
    }

    fn writes(batch: &Batch<'_>, most: (usize, usize)) -> usize {
        pieces(batch, most).iter().map(|(ops, _)| ops).sum()
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn the_memory_of_a_large_batch_is_given_back() {
        for (writes, kept) in [(1000, true), (MAX_REUSED_WRITES * 2, false)] {
            let mut batch = Batch::default();
            (0..writes).for_each(|_| batch.delete(b"key"));
            let recycled = batch.recycle();
            assert!(recycled.is_empty());
            assert_eq!(recycled.ops.capacity() >= writes, kept);
        }
    }
}
