//! Extension of LMDB's file ahead of its data, so that the kernel caches it in small folios.
//!
//! LMDB appends up to 64 pages in one write, and Linux (ext4 since 6.16, XFS, btrfs) then caches them as one
//! folio. Later commits write single pages, scattered by the free list, and each such write, and each
//! write-back, visits all blocks of its folio. Measured on ext4: 5 us per page in folios of one page, 14 to 19
//! us in folios of 64. Pages that are already in the page cache keep their folios, and read-ahead adds pages
//! one by one. So the file is extended (sparse, without allocating blocks) and its end is read ahead before
//! LMDB writes there.

use crate::engine::mmap_read_ahead::Advice;
use heed::{Env, WithTls};
use std::{
    fs::File,
    io,
    sync::{Mutex, PoisonError},
};

/// Minimum number of bytes of LMDB's file behind the data that are in the page cache before a write.
const AHEAD: u64 = 2 << 20;

/// Number of bytes beyond the minimum of [`AHEAD`] up to which an extension goes, so that few commits need one: it
/// extends LMDB's file and reads it ahead up to `AHEAD + STEP` bytes behind the data.
const STEP: u64 = 4 << 20;

/// State of the extension of LMDB's data file ahead of its data.
pub(super) struct Growth {
    file: File,
    page_size: u64,
    advice: Advice,
    /// Offset in the data file up to which it was extended and read ahead, in bytes; before the first extension, the
    /// length of the file when it was opened.
    prepared: Mutex<u64>,
}

impl Growth {
    pub(super) fn new(env: &Env<WithTls>, advice: Advice) -> heed::Result<Self> {
        let file = env.try_clone_inner_file()?;
        let prepared = file.metadata()?.len().into();
        let page_size = env.unnamed_database_stat().page_size.into();
        Ok(Self { file, page_size, advice, prepared })
    }

    /// Extends the data file behind the pages of the last commit and reads that part ahead, unless enough was read
    /// already. After an extension, switches the kernel's read-ahead of the memory map off if the data exceed the limit
    /// of `--read-ahead`. Must be called while a write transaction is open: only then does no other thread change the
    /// file's length.
    pub(super) fn keep_ahead(&self, env: &Env<WithTls>) {
        let info = env.info();
        let used = (info.last_page_number as u64 + 1) * self.page_size;
        let end = (used + AHEAD + STEP).min(info.map_size as u64);
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if used + AHEAD <= *prepared || end <= *prepared {
            return;
        }
        // A failure makes LMDB slower, not wrong.
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
    // Maximum number of bytes that the kernel reads ahead per call: a device's read-ahead window, 128 KiB by
    // default.
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
