//! Incremental scan of all stored pairs of an engine, in steps, so that no client waits for the whole scan.

use super::{Error, Store};
use crate::engine::{self, KeyRange, prefix_end};
use std::ops::{Bound, ControlFlow};

/// Callback that receives a stored key and its value, or the error of a value that cannot be read.
pub(super) type VisitScanned<'v> = dyn FnMut(&[u8], engine::Result<&[u8]>) + 'v;

/// Position of an incremental scan: a stored key, or in an unordered engine the position that the engine returned.
#[derive(Clone)]
pub(super) struct IncrementalScan {
    from: Bound<Vec<u8>>,
    position: u64,
}

impl Default for IncrementalScan {
    fn default() -> Self {
        Self { from: Bound::Unbounded, position: 0 }
    }
}

impl IncrementalScan {
    /// Continues the scan for about `count` stored pairs, in an unordered engine up to the end of a part; `visit` also
    /// gets the errors of values that cannot be read. Returns `true` if pairs may be left. After an error the next call
    /// continues behind the last visited pair; an unordered engine repeats the step.
    pub fn step(&mut self, store: &Store, count: usize, visit: &mut VisitScanned<'_>) -> Result<bool, Error> {
        let (mut left, mut reached) = (count, None::<Vec<u8>>);
        let visit = &mut |key: &[u8], value: engine::Result<&[u8]>| {
            visit(key, value);
            let reached = reached.get_or_insert_default();
            reached.clear();
            reached.extend_from_slice(key);
            left = left.saturating_sub(1);
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        if !store.info().capabilities.ordered {
            self.position = store.reads.scan_step_each(self.position, visit)?;
            return Ok(self.position > 0);
        }
        let start = self.from.as_ref().map(Vec::as_slice);
        let outcome = store.reads.scan_each(KeyRange { start, end: Bound::Unbounded }, visit);
        self.from = reached.map_or_else(|| self.from.clone(), Bound::Excluded);
        outcome?;
        Ok(left == 0)
    }

    /// Moves the position, after a step that failed, behind all keys that begin with the last visited key; another
    /// call without a visited key in between takes a shorter prefix. Returns `false` if no such position is left.
    pub fn skip(&mut self) -> bool {
        let next = match &self.from {
            Bound::Unbounded => None,
            Bound::Excluded(key) => prefix_end(key),
            Bound::Included(key) => prefix_end(key.split_last().map_or(&[], |(_, prefix)| prefix)),
        };
        let is_there = next.is_some();
        self.from = next.map_or(Bound::Unbounded, Bound::Included);
        is_there
    }

    /// Returns `true` if no pair was visited since [`IncrementalScan::skip`] moved the position.
    pub fn has_skipped(&self) -> bool {
        matches!(self.from, Bound::Included(_))
    }
}
