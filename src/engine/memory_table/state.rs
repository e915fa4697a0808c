//! The table, and beside it a large batch on its way into it.

use super::{
    super::{VisitValue, WriteOp},
    table_trait::{ByteBudget, Table},
};
use std::{collections::HashSet, mem, sync::Arc};

/// What readers see: the table under what is pending, once that shows.
pub(super) struct State<T: Table> {
    pub(super) table: T,
    pending: Option<Box<Pending<T>>>,
}

/// A large batch beside the table. It is gathered in steps while nobody sees it, then shows all at once,
/// and is moved into the table in steps, which nobody sees either.
struct Pending<T: Table> {
    /// What each key is set to by the last write of it.
    puts: T,
    /// The keys whose last write removes them.
    deletes: HashSet<Box<[u8]>>,
    /// Whether readers see it.
    shows: bool,
    /// By how many keys there are more with it than without.
    extra: i64,
}

/// What a batch has taken away, to be freed when no lock is held.
pub(in super::super) struct Garbage<T: Table> {
    pub(super) cleared: Option<Cleared<T>>,
    /// Pairs that take long to be freed.
    pub(super) heavy: Vec<T::Pair>,
}

impl<T: Table> Default for Garbage<T> {
    fn default() -> Self {
        Self { cleared: None, heavy: Vec::new() }
    }
}

/// What [`State::clear`] took away: to free millions of entries takes seconds, which nobody should wait for.
pub(super) struct Cleared<T: Table> {
    pub(super) table: Arc<T>,
    /// What was pending.
    pub(super) puts: Option<T>,
}

/// The number of keys that a put, or else a delete, of a key adds when it does or does not exist.
fn difference(is_put: bool, exists: bool) -> i64 {
    i64::from(is_put) - i64::from(exists)
}

impl<T: Table> Pending<T> {
    /// What it does to `key`: a put (`true`), a delete or nothing.
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

    /// See [`Table::read`].
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

    /// Number of keys.
    pub(super) fn len(&self) -> u64 {
        let extra = self.pending.as_ref().filter(|pending| pending.shows).map_or(0, |pending| pending.extra);
        (self.table.len() as u64).saturating_add_signed(extra)
    }

    /// See [`Table::write`].
    #[inline]
    pub(super) fn write(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<T::Pair>) {
        match &mut self.pending {
            None => self.table.write(ops, heavy),
            Some(_) => ops.iter().for_each(|op| self.write_beside(op, heavy)),
        }
    }

    /// One write while a batch is pending: after it when that shows, otherwise before it.
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

    /// Empties the table, and what is pending if that shows.
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

    /// Begins a large batch.
    pub(super) fn begin(&mut self) {
        let (puts, deletes) = (T::default(), HashSet::new());
        self.pending = Some(Box::new(Pending { puts, deletes, shows: false, extra: 0 }));
    }

    /// Adds a put to the batch.
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

    /// Adds a delete to the batch.
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

    /// Shows the batch.
    pub(super) fn show(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.shows = true;
        }
    }

    /// Whether a batch is pending; a `Clear` ends it.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// How many puts of a batch are pending.
    #[cfg(test)]
    pub(super) fn pending_puts(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.puts.len())
    }

    /// Moves what the batch does to `key` into the table. Returns the pair that it replaces.
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

    /// Ends the batch, of which nothing is left. Returns the memory it took.
    pub(super) fn end(&mut self) -> impl Sized + use<T> {
        self.pending.take()
    }
}
