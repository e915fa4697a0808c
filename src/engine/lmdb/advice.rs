//! What the kernel is told of LMDB's map: whether a page that is read from the disk brings its neighbours.
//!
//! Reading ahead fills the page cache faster while the data fit into memory. When they do not, each cold
//! read throws out as many pages as it brings in: with a read-ahead of 8 MiB a GET was seen to take 27 ms
//! instead of 0.4 ms. LMDB's own documentation says to switch it off then (`MDB_NORDAHEAD`), but can do so
//! only when the environment is opened; a file that grows later is told here.

use super::super::{ReadAhead, host};
use heed::{Env, WithTls};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    sync::atomic::{AtomicBool, Ordering},
};

pub(super) struct Advice {
    file: File,
    /// Data above this many bytes are read without read-ahead.
    pub(super) limit: u64,
    is_random: AtomicBool,
}

/// The most bytes of data that are read with read-ahead.
pub(super) fn limit(choice: ReadAhead) -> u64 {
    match choice {
        ReadAhead::On => u64::MAX,
        ReadAhead::Off => 0,
        // The cache shares the memory with the process itself and with others.
        ReadAhead::Auto => host::memory_bytes().map_or(u64::MAX, |bytes| bytes / 2),
    }
}

impl Advice {
    /// For an environment that was opened without read-ahead or with it.
    pub(super) fn new(env: &Env<WithTls>, limit: u64, is_random: bool) -> heed::Result<Self> {
        Ok(Self { file: env.try_clone_inner_file()?, limit, is_random: is_random.into() })
    }

    /// Switches read-ahead off when so many bytes of data are more than memory holds. It stays off: space
    /// that is freed is used again.
    pub(super) fn grown_to(&self, used: u64) {
        if used <= self.limit || self.is_random.swap(true, Ordering::Relaxed) {
            return;
        }
        log::info!(
            "lmdb: {used} bytes of data are more than half of memory: read-ahead is off (--read-ahead)"
        );
        if let Err(error) = self.advise_random() {
            log::warn!("lmdb: cannot switch read-ahead off, so cold reads will be slow: {error}");
        }
    }

    fn advise_random(&self) -> io::Result<()> {
        let file = self.file.metadata()?;
        let maps = fs::read_to_string("/proc/self/maps")?;
        let of_file = |range: &&Mapping| range.inode == file.ino();
        let mappings: Vec<_> = maps.lines().filter_map(Mapping::parse).collect();
        let mut found = mappings.iter().filter(of_file).peekable();
        if found.peek().is_none() {
            return Err(io::Error::other("its map is not in /proc/self/maps"));
        }
        found.try_for_each(|mapping| advise(mapping.start, mapping.end))
    }
}

/// One line of `/proc/PID/maps` (see proc_pid_maps(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    inode: u64,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let inode = words.nth(3)?.parse().ok()?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some(Self { start: address(start)?, end: address(end)?, inode })
    }
}

#[cfg(target_os = "linux")]
fn advise(start: usize, end: usize) -> io::Result<()> {
    use nix::sys::mman::{MmapAdvise, madvise};
    let address = std::ptr::NonNull::new(std::ptr::without_provenance_mut(start));
    let address = address.ok_or(io::ErrorKind::InvalidData)?;
    #[expect(unsafe_code, reason = "other advice than this could change what the memory holds")]
    // SAFETY: `MADV_RANDOM` only tells how pages are brought in; it changes neither them nor the mapping,
    // whatever is mapped there.
    unsafe {
        madvise(address, end - start, MmapAdvise::MADV_RANDOM)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn advise(_: usize, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_map_is_read() {
        let line = "7f0000001000-7f0000003000 r--s 00000000 fe:00 1234   /data/a file.mdb";
        let mapping = Mapping { start: 0x7f00_0000_1000, end: 0x7f00_0000_3000, inode: 1234 };
        assert_eq!(Mapping::parse(line), Some(mapping));
        assert_eq!(Mapping::parse("nonsense"), None);
    }
}
