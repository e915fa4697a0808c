//! State of a table: its data, and a large batch that is not yet completely in it.

use super::{
    super::{VisitValue, WriteOp},
    table_trait::{ByteBudget, Table},
};
use std::{collections::HashSet, mem, sync::Arc};

/// Data that readers see: the table, and above it the pending batch, once that is visible.
pub(super) struct State<T: Table> {
    pub(super) table: T,
    pending: Option<Box<Pending<T>>>,
}

/// Large batch outside the table. It is gathered in steps while it is invisible, then becomes visible at once, and
/// is moved into the table in steps, which readers do not notice.
struct Pending<T: Table> {
    /// Pairs that the batch puts and that are not in the table yet; the last write of each key counts.
    puts: T,
    /// Keys that the batch deletes (their last write in it is a delete) and that are not yet removed from the table.
    deletes: HashSet<Box<[u8]>>,
    /// `true` if the large batch is visible to readers.
    shows: bool,
    /// Number of keys of the table with the batch, minus that without it.
    extra: i64,
}

/// Data that a batch has removed, to be freed when no lock is held.
pub(in super::super) struct Garbage<T: Table> {
    pub(super) cleared: Option<Cleared<T>>,
    /// Pairs that take long to be freed, because they are large.
    pub(super) heavy: Vec<T::Pair>,
}

impl<T: Table> Default for Garbage<T> {
    fn default() -> Self {
        Self { cleared: None, heavy: Vec::new() }
    }
}

/// Data that [`State::clear`] removed: freeing millions of entries takes seconds, for which no client should wait.
pub(super) struct Cleared<T: Table> {
    pub(super) table: Arc<T>,
    /// Puts of a visible pending batch that was removed with the table; `None` if there was none.
    pub(super) puts: Option<T>,
}

/// Returns the change of the number of keys by a put (`is_put`) or a delete of a key.
fn difference(is_put: bool, exists: bool) -> i64 {
    i64::from(is_put) - i64::from(exists)
}

impl<T: Table> Pending<T> {
    /// Returns the effect of the batch on `key`: a put (`true`), a delete (`false`) or nothing (`None`).
    fn effect(&self, key: &[u8]) -> Option<bool> {
        if self.puts.get(key).is_some() {
            return Some(true);
        }
        (!self.deletes.is_empty() && self.deletes.contains(key)).then_some(false)
    }
}

impl<T: Table> State<T> {
    pub(super) fn new(table: T) -> Self {
        Self { table, pending: None }
    }

    /// Calls `visit` with the index and the value of each of `keys`, with the pending batch if that is visible: see
    /// [`Table::read`].
    #[inline(always)]
    pub(super) fn read(
        &self,
        keys: &[&[u8]],
        budget: ByteBudget,
        visit: &mut VisitValue<'_>,
    ) -> Option<usize> {
        match &self.pending {
            None => self.table.read(keys, budget, visit),
            Some(pending) => self.read_beside(pending, keys, budget, visit),
        }
    }

    #[cold]
    fn read_beside(
        &self,
        pending: &Pending<T>,
        keys: &[&[u8]],
        mut budget: ByteBudget,
        visit: &mut VisitValue<'_>,
    ) -> Option<usize> {
        if !pending.shows {
            return self.table.read(keys, budget, visit);
        }
        for (index, key) in keys.iter().enumerate() {
            let value = match pending.effect(key) {
                Some(true) => pending.puts.get(key),
                Some(false) => None,
                None => self.table.get(key),
            };
            if budget.is_over(value) {
                return Some(index);
            }
            if visit(index, value).is_break() {
                return None;
            }
        }
        None
    }

    /// Returns the number of keys, including the effect of the pending batch if that is visible to readers.
    pub(super) fn len(&self) -> u64 {
        let extra = self.pending.as_ref().filter(|pending| pending.shows).map_or(0, |pending| pending.extra);
        (self.table.len() as u64).saturating_add_signed(extra)
    }

    /// Applies writes to the table: see [`Table::write`]. If a visible batch is pending, its writes of the same keys
    /// are dropped.
    #[inline]
    pub(super) fn write(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<T::Pair>) {
        match &mut self.pending {
            None => self.table.write(ops, heavy),
            Some(_) => ops.iter().for_each(|op| self.write_beside(op, heavy)),
        }
    }

    /// Applies one write while a batch is pending: it takes effect after the batch if that is visible to readers,
    /// otherwise before it.
    #[cold]
    fn write_beside(&mut self, op: &WriteOp<'_>, heavy: &mut Vec<T::Pair>) {
        let (WriteOp::Put { key, .. } | WriteOp::Delete { key }) = op else { return };
        if let Some(pending) = &mut self.pending
            && let Some(is_put) = pending.effect(key)
        {
            pending.extra -= difference(is_put, self.table.get(key).is_some());
            if pending.shows {
                drop(pending.puts.take(key));
                pending.deletes.remove(*key);
            } else {
                pending.extra += difference(is_put, matches!(op, WriteOp::Put { .. }));
            }
        }
        self.table.write(&[*op], heavy);
    }

    /// Removes all data from the table, and the pending batch if that is visible. Returns them, to be freed without
    /// a lock.
    pub(super) fn clear(&mut self) -> Cleared<T> {
        let table = mem::take(&mut self.table);
        let pending = match &mut self.pending {
            Some(pending) if !pending.shows => {
                pending.extra = pending.puts.len() as i64;
                None
            }
            pending => pending.take(),
        };
        Cleared { table: Arc::new(table), puts: pending.map(|pending| pending.puts) }
    }

    /// Begins a large batch outside the table, which is pending and not visible yet.
    pub(super) fn begin(&mut self) {
        let (puts, deletes) = (T::default(), HashSet::new());
        self.pending = Some(Box::new(Pending { puts, deletes, shows: false, extra: 0 }));
    }

    /// Adds a put to the pending batch.
    pub(super) fn gather_put(&mut self, pair: T::Pair) {
        let Some(pending) = &mut self.pending else { return };
        let key = T::key(&pair);
        let exists = self.table.get(key).is_some();
        if let Some(was_put) = pending.effect(key) {
            pending.extra -= difference(was_put, exists);
            pending.deletes.remove(key);
        }
        pending.extra += difference(true, exists);
        drop(pending.puts.put(pair));
    }

    /// Adds a delete to the pending batch.
    pub(super) fn gather_delete(&mut self, key: Box<[u8]>) {
        let Some(pending) = &mut self.pending else { return };
        let exists = self.table.get(&key).is_some();
        if let Some(was_put) = pending.effect(&key) {
            pending.extra -= difference(was_put, exists);
            drop(pending.puts.take(&key));
        }
        pending.extra += difference(false, exists);
        pending.deletes.insert(key);
    }

    /// Makes the pending batch visible to readers.
    pub(super) fn show(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.shows = true;
        }
    }

    /// Returns `true` if a batch is pending; a `Clear` ends a visible one.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the number of keys that the pending batch puts and that are not in the table yet.
    #[cfg(test)]
    pub(super) fn pending_puts(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.puts.len())
    }

    /// Moves the pending batch's put or delete of `key`, if there is one, into the table. Returns the pair of the table
    /// that it replaces or deletes.
    pub(super) fn settle(&mut self, key: &[u8]) -> Option<T::Pair> {
        let pending = self.pending.as_mut()?;
        if let Some(pair) = pending.puts.take(key) {
            let old = self.table.put(pair);
            pending.extra -= difference(true, old.is_some());
            return old;
        }
        if !pending.deletes.remove(key) {
            return None;
        }
        let old = self.table.take(key);
        pending.extra -= difference(false, old.is_some());
        old
    }

    /// Ends the batch, which is completely in the table. Returns what is left of it, to be freed without the lock.
    pub(super) fn end(&mut self) -> impl Sized + use<T> {
        self.pending.take()
    }
}
