//! Snapshots of a table, to be read in steps while the table changes.
//!
//! Without an open snapshot, writes do no extra work. With one, a writer first saves the old value of each key that
//! it changes, unless the scan has passed that key.

use super::{
    super::{KeyRange, VisitValue, mutex::lock},
    table_trait::{ByteBudget, ScanControl, Table, VisitNext},
};
use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Old values of keys that have changed since the snapshot, `None` for those that were absent.
pub(super) type UndoRecords = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// Snapshot of a table in memory: the old values of keys that were changed since it was taken, and the position of the
/// scan that reads it.
pub(super) struct Snapshot<T: Table> {
    /// Position of the scan of the snapshot: old values of keys before it are not saved.
    position: T::Position,
    kept: UndoRecords,
    /// Table that the snapshot reads, if a `Clear` has replaced it by another since the snapshot was taken.
    cleared: Option<Arc<T>>,
}

impl<T: Table> Snapshot<T> {
    /// Calls `visit` with the index and the value of each of `keys` in the snapshot: see [`Table::read`].
    pub(super) fn read(
        &self,
        table: &T,
        keys: &[&[u8]],
        mut budget: ByteBudget,
        visit: &mut VisitValue<'_>,
    ) -> Option<usize> {
        if self.kept.is_empty() {
            return self.cleared.as_deref().unwrap_or(table).read(keys, budget, visit);
        }
        for (index, key) in keys.iter().enumerate() {
            let value = self.get(table, key);
            if budget.is_over(value) {
                return Some(index);
            }
            if visit(index, value).is_break() {
                return None;
            }
        }
        None
    }

    /// Returns the value that `key` had when the snapshot was taken, or `None` if it was absent.
    pub(super) fn get<'t>(&'t self, table: &'t T, key: &[u8]) -> Option<&'t [u8]> {
        let table = self.cleared.as_deref().unwrap_or(table);
        self.kept.get(key).map_or_else(|| table.get(key), Option::as_deref)
    }

    /// Runs the next step of the scan of the snapshot: calls `visit` for pairs in `range` until it asks for a pause or
    /// a stop. Returns `true` if there may be more pairs.
    pub(super) fn scan_step(
        &mut self,
        table: &T,
        ordered: bool,
        range: KeyRange<'_>,
        visit: &mut VisitNext<'_>,
    ) -> bool {
        let Self { position, kept, cleared } = self;
        let table = cleared.as_deref().unwrap_or(table);
        table.scan_step(range, position, &mut |key, value| {
            if ordered && visit_before(key, range, kept, visit) == ScanControl::Stop {
                return ScanControl::Stop;
            }
            match kept.remove(key) {
                Some(Some(kept)) => visit(key, &kept),
                Some(None) => ScanControl::Continue,
                None => visit(key, value),
            }
        })
    }

    /// Removes and returns the saved old values that the scan of the snapshot has not visited. At the end of the scan,
    /// these are the values of keys that are no longer in the table.
    pub(super) fn take_kept(&mut self) -> UndoRecords {
        mem::take(&mut self.kept)
    }

    fn record_undo(&mut self, table: &T, key: &[u8]) {
        if !table.is_past(&self.position, key) && !self.kept.contains_key(key) {
            self.kept.insert(key.into(), table.get(key).map(Into::into));
        }
    }
}

/// Visits those saved values in `kept` whose keys are in `range` and before `key`, and removes them from `kept`: the
/// table no longer contains these keys.
fn visit_before(
    key: &[u8],
    range: KeyRange<'_>,
    kept: &mut UndoRecords,
    visit: &mut VisitNext<'_>,
) -> ScanControl {
    while let Some(first) = kept.first_entry()
        && &**first.key() < key
    {
        if let (key, Some(value)) = first.remove_entry()
            && range.contains(&key)
            && visit(&key, &value) == ScanControl::Stop
        {
            return ScanControl::Stop;
        }
    }
    ScanControl::Continue
}

type Shared<T> = Arc<Mutex<Snapshot<T>>>;

/// Open snapshots of a table, for which writers save old values. Only a visitor can panic while its thread holds one of the
/// locks, between two pairs.
pub(super) struct Snapshots<T: Table> {
    all: Mutex<Vec<Shared<T>>>,
    any: AtomicBool,
}

impl<T: Table> Default for Snapshots<T> {
    fn default() -> Self {
        Self { all: Mutex::default(), any: AtomicBool::new(false) }
    }
}

/// Drops a reference to a table in memory. If it is the last one, frees the table in steps on this thread, and sleeps
/// after each step, so that other threads get the allocator's locks. This may take long.
pub(super) fn release<T: Table>(table: Arc<T>) {
    if let Some(table) = Arc::into_inner(table) {
        table.free(&mut pause);
    }
}

/// Sleeps between two steps of a long operation. A thread that waits for a lock needs some time to wake up; without
/// a pause the next step would begin before that, and the next.
pub(super) fn pause() {
    thread::sleep(Duration::from_micros(200));
}

/// Open snapshot of a table; the snapshot is closed when this is dropped.
pub(super) struct View<'s, T: Table> {
    snapshots: &'s Snapshots<T>,
    own: Shared<T>,
}

impl<T: Table> Snapshots<T> {
    /// Opens a snapshot of a table that the caller has locked, whose scan has reached `position`.
    pub(super) fn open(&self, position: T::Position) -> View<'_, T> {
        let own = Arc::new(Mutex::new(Snapshot { position, kept: UndoRecords::new(), cleared: None }));
        let mut all = lock(&self.all);
        all.push(own.clone());
        // The next writer sees this, because it locks the table after the caller.
        self.any.store(true, Ordering::Relaxed);
        View { snapshots: self, own }
    }

    /// Saves the present values of `keys` in all open snapshots. Must be called before a write changes the table.
    #[inline]
    pub(super) fn keep<'k>(&self, table: &T, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        if self.any.load(Ordering::Relaxed) {
            self.keep_for_all(table, keys);
        }
    }

    #[cold]
    fn keep_for_all<'k>(&self, table: &T, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        for snapshot in &*lock(&self.all) {
            let mut snapshot = lock(snapshot);
            keys.clone().for_each(|key| snapshot.record_undo(table, key));
        }
    }

    /// Gives `table`, which a `Clear` has replaced and which does not change any more, to all open snapshots.
    pub(super) fn keep_all(&self, table: &Arc<T>) {
        for snapshot in lock(&self.all).drain(..) {
            lock(&snapshot).cleared = Some(table.clone());
        }
        self.any.store(false, Ordering::Relaxed);
    }
}

impl<T: Table> View<'_, T> {
    pub(super) fn lock_snapshot(&self) -> MutexGuard<'_, Snapshot<T>> {
        lock(&self.own)
    }
}

impl<T: Table> Drop for View<'_, T> {
    fn drop(&mut self) {
        let mut all = lock(&self.snapshots.all);
        all.retain(|other| !Arc::ptr_eq(other, &self.own));
        self.snapshots.any.store(!all.is_empty(), Ordering::Relaxed);
        drop(all);
        let cleared = self.lock_snapshot().cleared.take();
        cleared.into_iter().for_each(release);
    }
}
