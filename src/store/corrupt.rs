//! Values that cannot be read: they are counted, and reads of many keys go on behind them.

use super::{Error, Store};
use crate::engine::{self, KeyRange, VisitEach};
use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};

/// Number of reads that failed because data are corrupt.
#[derive(Default)]
pub(super) struct CorruptReads(AtomicU64);

/// Called with the index of a key and its value, or with the error of a value that cannot be read.
pub(super) type VisitRead<'v> = dyn FnMut(usize, engine::Result<Option<&[u8]>>) + 'v;

impl Error {
    /// Returns the index of a key, if the error concerns the value of that key only.
    pub fn index_of_value(&self) -> Option<usize> {
        match self {
            Self::Engine(engine::Error::Value { index, .. }) => Some(*index),
            _ => None,
        }
    }

    /// Returns `true` if a key that exists has a value that cannot be read.
    pub fn is_unreadable_value(&self) -> bool {
        matches!(self, Self::Engine(error) if error.is_unreadable_value())
    }
}

impl Store {
    /// Returns the number of reads that failed because data are corrupt, since the start.
    pub fn corrupt_reads(&self) -> u64 {
        self.corrupt_reads.0.load(Ordering::Relaxed)
    }

    /// Returns `true` if an error of a read means that data are corrupt. Those of a cluster may mean anything.
    pub(super) fn is_corruption(&self, error: &engine::Error) -> bool {
        error.is_damage() && !self.is_shared()
    }

    /// Counts a failed read, if data are corrupt.
    #[cold]
    pub(super) fn count_failed(&self, error: engine::Error) -> engine::Error {
        if self.is_corruption(&error) {
            self.corrupt_reads.0.fetch_add(1, Ordering::Relaxed);
        }
        error
    }

    /// Reads keys like [`Store::read`], and goes on behind a value that cannot be read, at a later moment.
    pub(super) fn read_each(&self, keys: &[&[u8]], visit: &mut VisitRead<'_>) -> Result<(), Error> {
        let mut first = 0;
        while let Some(rest) = keys.get(first..) {
            let read = self.engine.read(rest, &mut |index, value| {
                visit(first + index, Ok(value));
                ControlFlow::Continue(())
            });
            match read.map_err(|error| self.count_failed(error)) {
                Ok(()) => break,
                Err(error @ engine::Error::Value { index, .. }) => {
                    visit(first + index, Err(error));
                    first += index + 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// See [`Engine::scan_each`](engine::Engine::scan_each).
    pub(super) fn scan_each(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> engine::Result<()> {
        let scan = self
            .engine
            .scan_each(range, &mut |key, value| visit(key, value.map_err(|error| self.count_failed(error))));
        scan.map_err(|error| self.count_failed(error))
    }

    /// See [`Engine::walk_each`](engine::Engine::walk_each).
    pub(super) fn walk_each(&self, position: u64, visit: &mut VisitEach<'_>) -> engine::Result<u64> {
        let walk = self.engine.walk_each(position, &mut |key, value| {
            visit(key, value.map_err(|error| self.count_failed(error)))
        });
        walk.map_err(|error| self.count_failed(error))
    }
}
