//! Disk space of `bitcask`: the maximum length of a segment, and the reserve for merges and deletes.

use crate::engine::files::file_system_size;
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Length at which a segment is sealed and the next one is begun, in bytes. It is less on a small disk: see
/// [`Space::segment`].
pub(super) const SEGMENT: u64 = if cfg!(any(test, fuzzing)) { 64 << 10 } else { 64 << 20 };

/// Minimum of the length at which a segment is sealed, in bytes: used on the smallest disks.
const MIN_SEGMENT: u64 = if SEGMENT < 1 << 20 { SEGMENT } else { 1 << 20 };

/// Maximum share of the disk's size that one segment takes, as a divisor: one 64th.
const MAX_SHARE: u64 = 64;

/// Numbers of dead bytes and of free bytes of the disk at a search for a segment to merge that found none. The search
/// is not repeated while the dead bytes are unchanged and the free bytes have not grown: otherwise a client that
/// repeats refused writes would make it read all hint files each time.
#[derive(Clone, Copy)]
pub(super) struct Fruitless {
    pub(super) dead: u64,
    pub(super) free: u64,
}

/// Last search for a segment to merge that found none, if any.
#[derive(Default)]
pub(super) struct LastSearch(Mutex<Option<Fruitless>>);

impl LastSearch {
    /// Returns `true` if a search for a segment to merge, at the numbers of bytes in `now`, would again find none.
    pub(super) fn is_still(&self, now: Fruitless) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| now.dead == last.dead && now.free <= last.free)
    }

    pub(super) fn set(&self, now: Fruitless) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

/// File system that holds the data, with the limits that follow from its size.
pub(super) struct Space {
    directory: PathBuf,
    segment: u64,
    /// Size of the simulated disk of a test, in bytes.
    #[cfg(test)]
    pub(super) capacity: std::sync::atomic::AtomicU64,
}

impl Space {
    /// Returns the space for data in `directory`: reads the size of its file system, which limits the length of a
    /// segment.
    pub(super) fn of(directory: &Path) -> Self {
        let total = file_system_size(directory).map_or(u64::MAX, |(total, _)| total);
        Self {
            directory: directory.into(),
            segment: (total / MAX_SHARE).clamp(MIN_SEGMENT, SEGMENT),
            #[cfg(test)]
            capacity: u64::MAX.into(),
        }
    }

    /// Returns the length at which a segment is sealed, in bytes.
    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    /// Returns the number of bytes written to the active segment after which the background thread is woken again.
    pub(super) fn wake_every(&self) -> u64 {
        self.segment / 8
    }

    /// Returns the number of bytes on the disk that writes of values must leave free. A merge needs up to the length of
    /// a segment; the rest is for deletes, and for writes since the free space was last read.
    pub(super) fn reserve(&self) -> u64 {
        self.segment + 2 * self.wake_every()
    }

    /// Returns the number of free bytes on the disk, or `u64::MAX` if it is unknown.
    pub(super) fn free(&self) -> u64 {
        let free = file_system_size(&self.directory).map_or(u64::MAX, |(_, free)| free);
        #[cfg(test)]
        let free = free.min(self.free_of_capacity());
        free
    }

    #[cfg(test)]
    fn free_of_capacity(&self) -> u64 {
        let files = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let used: u64 = files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
        self.capacity.load(std::sync::atomic::Ordering::Relaxed).saturating_sub(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_read_from_the_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let space = Space::of(directory.path());
        let (total, free) = file_system_size(directory.path()).unwrap();
        assert!(free <= total && space.free() <= total);
        assert_eq!(space.segment(), SEGMENT);
        space.capacity.store(1000, std::sync::atomic::Ordering::Relaxed);
        std::fs::write(directory.path().join("file"), [0; 400]).unwrap();
        assert_eq!(space.free(), 600);
        assert_eq!(Space::of(&directory.path().join("absent")).free(), u64::MAX);
    }
}
