//! Corrupt values: reads of them are counted, and reads of many keys continue after a value that cannot be read.

use crate::engine::{Engine, Error, KeyRange, Result, VisitEach, VisitKey};
use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};

/// Counter of the reads that failed because data are corrupt.
pub(super) struct CorruptReads {
    count: AtomicU64,
    /// `true` if the data are on this machine. Errors of a cluster do not show whether data are corrupt, so no read
    /// is counted.
    is_local: bool,
}

/// Callback that receives the index of a key in the list of keys to read, and its value (`None` if the key does not
/// exist), or the error of a value that cannot be read.
pub(super) type VisitRead<'v> = dyn FnMut(usize, Result<Option<&[u8]>>) + 'v;

impl CorruptReads {
    /// Creates a counter of corrupt reads; `is_local` is `false` for an engine whose data are on other machines.
    pub(super) fn new(is_local: bool) -> Self {
        Self { count: AtomicU64::new(0), is_local }
    }

    /// Returns the number of reads that failed because of corruption since the start.
    pub(super) fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns `true` if the error of a read means that data on this machine are corrupt.
    pub(super) fn is_corruption(&self, error: &Error) -> bool {
        self.is_local && error.is_corruption()
    }

    /// Counts a failed read, if `error` means that data are corrupt, and returns `error`.
    #[cold]
    pub(super) fn count(&self, error: Error) -> Error {
        if self.is_corruption(&error) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        error
    }

    /// Reads keys like [`Engine::read`], but continues after a value that cannot be read. The remaining keys are
    /// then read under a later snapshot.
    pub(super) fn read_each(
        &self,
        engine: &dyn Engine,
        keys: &[&[u8]],
        visit: &mut VisitRead<'_>,
    ) -> Result<()> {
        let mut first = 0;
        while let Some(rest) = keys.get(first..) {
            let read = engine.read(rest, &mut |index, value| {
                visit(first + index, Ok(value));
                ControlFlow::Continue(())
            });
            match read.map_err(|error| self.count(error)) {
                Ok(()) => break,
                Err(error @ Error::Value { index, .. }) => {
                    visit(first + index, Err(error));
                    first += index + 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Visits the pairs of `range` of the engine, also those behind a value that cannot be read, and counts corrupt
    /// reads: see [`Engine::scan_each`].
    pub(super) fn scan_each(
        &self,
        engine: &dyn Engine,
        range: KeyRange<'_>,
        visit: &mut VisitEach<'_>,
    ) -> Result<()> {
        let mut counted =
            |key: &[u8], value: Result<&[u8]>| visit(key, value.map_err(|error| self.count(error)));
        engine.scan_each(range, &mut counted).map_err(|error| self.count(error))
    }

    /// Runs one step of an incremental scan of the engine at `position`, also behind values that cannot be read, and
    /// counts corrupt reads: see [`Engine::walk_each`].
    pub(super) fn walk_each(
        &self,
        engine: &dyn Engine,
        position: u64,
        visit: &mut VisitEach<'_>,
    ) -> Result<u64> {
        let mut counted =
            |key: &[u8], value: Result<&[u8]>| visit(key, value.map_err(|error| self.count(error)));
        engine.walk_each(position, &mut counted).map_err(|error| self.count(error))
    }

    /// Runs one step of an incremental scan of the keys of the engine at `position`, and counts corrupt reads: see
    /// [`Engine::walk_keys`].
    pub(super) fn walk_keys(
        &self,
        engine: &dyn Engine,
        position: u64,
        visit: &mut VisitKey<'_>,
    ) -> Result<u64> {
        engine.walk_keys(position, visit).map_err(|error| self.count(error))
    }
}
