//! LMDB's file, made longer ahead of its data, so that the kernel caches it in small pieces.
//!
//! LMDB appends up to 64 pages in one write, and Linux (ext4 since 6.16, XFS, btrfs) then caches them as
//! one folio. Later commits write single pages, scattered by the free list, and each such write, and each
//! write-back, walks all blocks of the folio it falls into: measured on ext4, 5 us a page in folios of one
//! page, 14 to 19 us in folios of 64. Pages that are in the cache already stay as they are, and reading
//! ahead brings them in one by one. So the file is extended (sparse, no blocks are taken) and its end read
//! ahead, before LMDB writes there.

use crate::engine::mmap_read_ahead::Advice;
use heed::{Env, WithTls};
use std::{
    fs::File,
    io,
    sync::{Mutex, PoisonError},
};

/// The cache holds at least this much behind the data before a write,
const AHEAD: u64 = 2 << 20;

/// and is extended by this much more when it does not.
const STEP: u64 = 4 << 20;

pub(super) struct Growth {
    file: File,
    page_size: u64,
    advice: Advice,
    /// The end of what is cached.
    prepared: Mutex<u64>,
}

impl Growth {
    pub(super) fn new(env: &Env<WithTls>, advice: Advice) -> heed::Result<Self> {
        let file = env.try_clone_inner_file()?;
        let prepared = file.metadata()?.len().into();
        let page_size = env.unnamed_database_stat().page_size.into();
        Ok(Self { file, page_size, advice, prepared })
    }

    /// Prepares the space behind the pages of the last commit. To be called while a write transaction is
    /// open: only then does no one else change the file's length.
    pub(super) fn keep_ahead(&self, env: &Env<WithTls>) {
        let info = env.info();
        let used = (info.last_page_number as u64 + 1) * self.page_size;
        let end = (used + AHEAD + STEP).min(info.map_size as u64);
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if used + AHEAD <= *prepared || end <= *prepared {
            return;
        }
        // Without it LMDB works as well, only slower.
        if let Err(error) = self.extend(used.max(*prepared), end) {
            log::debug!("lmdb: cannot extend the file: {error}");
        }
        *prepared = end;
        self.advice.grown_to(used, info.map_size as u64);
    }

    #[cfg(test)]
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.advice.limit = limit;
    }

    fn extend(&self, start: u64, end: u64) -> io::Result<()> {
        if self.file.metadata()?.len() < end {
            self.file.set_len(end)?;
        }
        read_ahead(&self.file, start, end)
    }
}

#[cfg(target_os = "linux")]
fn read_ahead(file: &File, start: u64, end: u64) -> io::Result<()> {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    // The kernel does at most a device's read-ahead window a call, 128 KiB unless set otherwise.
    const CALL: u64 = 128 << 10;
    for offset in (start..end).step_by(CALL as usize) {
        let advice = PosixFadviseAdvice::POSIX_FADV_WILLNEED;
        posix_fadvise(file, offset.cast_signed(), CALL.cast_signed(), advice)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn read_ahead(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}
