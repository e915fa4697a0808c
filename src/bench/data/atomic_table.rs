//! Table of one atomic number for each key, in chunks that are allocated when they are first used.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Number of keys that have an entry in the table: those whose key number is below this. An entry takes 8 bytes.
pub const TRACKED: u64 = (CHUNKS * CHUNK) as u64;
/// Number of entries in a chunk, which is allocated as a whole.
const CHUNK: usize = 1 << 16;
const CHUNKS: usize = 1 << 10;
/// Number of entries in the smallest page of memory, of 4 KiB.
const PAGE: usize = 512;

/// Table with an atomic 64-bit number for each key whose key number is below [`TRACKED`]; initially 0.
#[derive(Debug)]
pub struct AtomicTable {
    chunks: Vec<OnceLock<Box<[AtomicU64]>>>,
}

impl Default for AtomicTable {
    fn default() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }
}

impl AtomicTable {
    /// Returns the entry of key `index`, or `None` if its chunk is not allocated, so that the entry is 0, or if the key
    /// has no entry.
    #[inline]
    pub fn find(&self, index: u64) -> Option<&AtomicU64> {
        let index = usize::try_from(index).ok()?;
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)
    }

    /// Returns the entry of key `index`, and allocates its chunk if necessary. `None` if the key number is [`TRACKED`]
    /// or above.
    #[inline]
    pub fn find_or_allocate(&self, index: u64) -> Option<&AtomicU64> {
        let index = usize::try_from(index).ok()?;
        let chunk = self.chunks.get(index / CHUNK)?;
        chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect()).get(index % CHUNK)
    }

    /// Allocates the entries of the first `keys` keys, at most [`TRACKED`], and makes their memory resident: the system
    /// gives a page of zeros to a process when it is written. Only for a table that is not in use yet, because an entry of
    /// each page is set to 0.
    pub fn allocate(&self, keys: u64) {
        for index in (0..keys.min(TRACKED)).step_by(PAGE) {
            if let Some(entry) = self.find_or_allocate(index) {
                entry.store(0, Relaxed);
            }
        }
    }
}
