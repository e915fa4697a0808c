//! What one commit changes: an ordered list of absolute writes.

use super::{Error, Result};

/// One write. All of them are absolute (no increments), so replaying a list of them twice, or over
/// a state that already holds some of them, ends in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a key is a key")]
pub enum Op<'a> {
    /// Sets `key` to `value`, whether or not it existed.
    Put { key: &'a [u8], value: &'a [u8] },
    /// Removes `key`; no effect when it is absent.
    Delete { key: &'a [u8] },
    /// Removes every key.
    Clear,
}

/// Writes that become visible, and durable, all together or not at all, in order: the last write
/// of a key wins. Keys and values are borrowed from the request buffers, so nothing is copied
/// before the engine takes it.
#[derive(Default, Debug)]
pub struct Batch<'a> {
    ops: Vec<Op<'a>>,
    bytes: usize,
}

impl<'a> Batch<'a> {
    /// An empty batch with room for `ops` writes.
    pub fn with_capacity(ops: usize) -> Self {
        Self { ops: Vec::with_capacity(ops), bytes: 0 }
    }

    /// Fails when a key is not of `min` to `max` bytes. To be called before anything is applied.
    pub(super) fn check_keys(&self, engine: &'static str, (min, max): (usize, usize)) -> Result<()> {
        for op in &self.ops {
            if let Op::Put { key, .. } | Op::Delete { key } = op
                && !(min..=max).contains(&key.len())
            {
                return Err(Error::KeyLength { engine, len: key.len(), min, max });
            }
        }
        Ok(())
    }

    /// Whether the batch clears, and the writes that count: those after its last `Clear`.
    pub(super) fn after_clear(&self) -> (bool, &[Op<'a>]) {
        match self.ops.iter().rposition(|op| *op == Op::Clear) {
            Some(last) => (true, self.ops.get(last + 1..).unwrap_or_default()),
            None => (false, &self.ops),
        }
    }

    /// Appends one write.
    #[inline]
    pub fn push(&mut self, op: Op<'a>) {
        self.bytes += match op {
            Op::Put { key, value } => key.len() + value.len(),
            Op::Delete { key } => key.len(),
            Op::Clear => 0,
        };
        self.ops.push(op);
    }

    /// Appends `Op::Put`.
    #[inline]
    pub fn put(&mut self, key: &'a [u8], value: &'a [u8]) {
        self.push(Op::Put { key, value });
    }

    /// Appends `Op::Delete`.
    #[inline]
    pub fn delete(&mut self, key: &'a [u8]) {
        self.push(Op::Delete { key });
    }

    /// Appends `Op::Clear`.
    pub fn clear(&mut self) {
        self.push(Op::Clear);
    }

    /// The writes, in order.
    #[inline]
    pub fn ops(&self) -> &[Op<'a>] {
        &self.ops
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of writes.
    #[inline]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is nothing to commit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Empties the batch and hands its memory to a batch of another lifetime.
    pub fn recycle<'b>(mut self) -> Batch<'b> {
        self.ops.clear();
        Batch { ops: self.ops.into_iter().map(|_| Op::Clear).collect(), bytes: 0 }
    }
}
