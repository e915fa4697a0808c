//! The space of the disk: how long a segment is, and what is kept free for merges and deletes.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Length from which a segment takes no more writes, in bytes; less on a small disk, see [`Space::segment`].
pub(super) const SEGMENT: u64 = if cfg!(any(test, fuzzing)) { 64 << 10 } else { 64 << 20 };

/// Length of a segment on the smallest disk, in bytes.
const LEAST: u64 = if SEGMENT < 1 << 20 { SEGMENT } else { 1 << 20 };

/// Share of the disk that a segment takes at most, as a divisor.
const SHARE: u64 = 64;

/// The dead and the free bytes when no segment was worth a merge, or none fitted: while there are not more of them, a
/// client that goes on sending refused writes does not have all hints read again and again.
#[derive(Clone, Copy)]
pub(super) struct Fruitless {
    pub(super) dead: u64,
    pub(super) free: u64,
}

/// The last fruitless search for a segment.
#[derive(Default)]
pub(super) struct LastSearch(Mutex<Option<Fruitless>>);

impl LastSearch {
    pub(super) fn is_still(&self, now: Fruitless) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| now.dead == last.dead && now.free <= last.free)
    }

    pub(super) fn set(&self, now: Fruitless) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

/// The file system of the data.
pub(super) struct Space {
    directory: PathBuf,
    segment: u64,
    /// Bytes that a test allows the directory to hold.
    #[cfg(test)]
    pub(super) capacity: std::sync::atomic::AtomicU64,
}

impl Space {
    /// Looks at the file system of `directory`.
    pub(super) fn of(directory: &Path) -> Self {
        let total = look(directory).map_or(u64::MAX, |(total, _)| total);
        Self {
            directory: directory.into(),
            segment: (total / SHARE).clamp(LEAST, SEGMENT),
            #[cfg(test)]
            capacity: u64::MAX.into(),
        }
    }

    /// Returns the length from which a segment takes no more writes, in bytes.
    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    /// Returns the number of bytes after which the background is woken.
    pub(super) fn wake_every(&self) -> u64 {
        self.segment / 8
    }

    /// Returns the number of bytes that are kept free: a merge needs up to a segment. The rest is for deletes, and for
    /// writes since the last look at the disk.
    pub(super) fn reserve(&self) -> u64 {
        self.segment + 2 * self.wake_every()
    }

    /// Returns the free bytes, or `u64::MAX` if they are not known.
    pub(super) fn free(&self) -> u64 {
        let free = look(&self.directory).map_or(u64::MAX, |(_, free)| free);
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

/// Returns the size of the file system of `directory` and its free bytes. `None` if it does not tell.
fn look(directory: &Path) -> Option<(u64, u64)> {
    let found = nix::sys::statvfs::statvfs(directory).ok()?;
    let bytes = |blocks: f64| (blocks * found.fragment_size() as f64) as u64;
    let (total, free) = (bytes(found.blocks() as f64), bytes(found.blocks_available() as f64));
    (total > 0).then_some((total, free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_that_of_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let space = Space::of(directory.path());
        let (total, free) = look(directory.path()).unwrap();
        assert!(free <= total && space.free() <= total);
        assert_eq!(space.segment(), SEGMENT);
        space.capacity.store(1000, std::sync::atomic::Ordering::Relaxed);
        std::fs::write(directory.path().join("file"), [0; 400]).unwrap();
        assert_eq!(space.free(), 600);
        assert_eq!(Space::of(&directory.path().join("absent")).free(), u64::MAX);
    }
}
