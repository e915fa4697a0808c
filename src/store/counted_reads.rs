//! Reads of the engine. Those that fail because data are corrupt are counted, and reads of many keys continue after a
//! value that cannot be read.

use crate::engine::{Engine, Error, KeyRange, Result, VisitEach, VisitKey};
use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};

/// Engine, and the counter of its reads that failed because data are corrupt.
pub(super) struct CountedReads {
    pub engine: Box<dyn Engine>,
    /// Number of reads that failed because data are corrupt, since the start.
    corrupt: AtomicU64,
    /// `true` if the data are on this machine. Errors of a cluster do not show whether data are corrupt, so no read
    /// is counted.
    is_local: bool,
}

/// Callback that receives the index of a key in the list of keys to read, and its value (`None` if the key does not
/// exist), or the error of a value that cannot be read.
pub(super) type VisitRead<'v> = dyn FnMut(usize, Result<Option<&[u8]>>) + 'v;

impl CountedReads {
    /// Creates a counter of the corrupt reads of an open engine.
    pub(super) fn new(engine: Box<dyn Engine>) -> Self {
        let is_local = !engine.info().capabilities.multi_writer;
        Self { engine, corrupt: AtomicU64::new(0), is_local }
    }

    /// Returns the number of reads that failed because of corruption since the start.
    pub(super) fn corrupt(&self) -> u64 {
        self.corrupt.load(Ordering::Relaxed)
    }

    /// Returns `true` if the error of a read means that data on this machine are corrupt.
    pub(super) fn is_corruption(&self, error: &Error) -> bool {
        self.is_local && error.is_corruption()
    }

    /// Counts a failed read, if `error` means that data are corrupt, and returns `error`.
    #[cold]
    pub(super) fn count(&self, error: Error) -> Error {
        if self.is_corruption(&error) {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
        }
        error
    }

    /// Reads keys like [`Engine::read`], but continues after a value that cannot be read. The remaining keys are
    /// then read under a later snapshot.
    pub(super) fn read_each(&self, keys: &[&[u8]], visit: &mut VisitRead<'_>) -> Result<()> {
        let mut first = 0;
        while let Some(rest) = keys.get(first..) {
            let read = self.engine.read(rest, &mut |index, value| {
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
    pub(super) fn scan_each(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> Result<()> {
        self.counted(visit, |visit| self.engine.scan_each(range, visit))
    }

    /// Runs one step of an incremental scan of the engine at `position`, also behind values that cannot be read, and
    /// counts corrupt reads: see [`Engine::scan_step_each`].
    pub(super) fn scan_step_each(&self, position: u64, visit: &mut VisitEach<'_>) -> Result<u64> {
        self.counted(visit, |visit| self.engine.scan_step_each(position, visit))
    }

    /// Runs a scan, which passes each pair to `visit`, and counts its corrupt reads.
    fn counted<T>(
        &self,
        visit: &mut VisitEach<'_>,
        scan: impl FnOnce(&mut VisitEach<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut counted =
            |key: &[u8], value: Result<&[u8]>| visit(key, value.map_err(|error| self.count(error)));
        scan(&mut counted).map_err(|error| self.count(error))
    }

    /// Runs one step of an incremental scan of the keys of the engine at `position`, and counts corrupt reads: see
    /// [`Engine::scan_step_keys`].
    pub(super) fn scan_step_keys(&self, position: u64, visit: &mut VisitKey<'_>) -> Result<u64> {
        self.engine.scan_step_keys(position, visit).map_err(|error| self.count(error))
    }
}
