//! Read-ahead of an engine's memory map: advice to the kernel whether a page that is read from the disk brings its
//! neighbours.
//!
//! Reading ahead fills the page cache faster while the data fit into memory. If they do not, each cold read evicts
//! as many pages as it brings in: with a read-ahead of 8 MiB a GET of LMDB took 27 ms instead of 0.4 ms. LMDB's own
//! documentation says to switch read-ahead off then (`MDB_NORDAHEAD`), but LMDB and MDBX can do so only when they
//! are opened (MDBX also by the memory of the whole machine, not of a control group). This file gives the advice
//! for data that grow later.

#![allow(dead_code, reason = "for engines that a build may lack")]

use super::{ReadAhead, machine_memory};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

pub(super) struct Advice {
    engine: &'static str,
    file: PathBuf,
    /// Size of an engine's data in bytes above which its memory map is read without read-ahead.
    pub(super) limit: u64,
    /// Number of bytes at the start of the memory map whose read-ahead is off.
    advised: AtomicU64,
}

/// Returns the maximum size in bytes of data whose memory map is read with read-ahead, for `--read-ahead`.
pub(super) fn limit(choice: ReadAhead) -> u64 {
    match choice {
        ReadAhead::On => u64::MAX,
        ReadAhead::Off => 0,
        // The process itself and other processes need a part of the memory.
        ReadAhead::Auto => machine_memory::memory_bytes().map_or(u64::MAX, |bytes| bytes / 2),
    }
}

impl Advice {
    /// Creates the state for an engine that has mapped `file`; `is_random` is `true` if its read-ahead is off.
    pub(super) fn new(engine: &'static str, file: PathBuf, limit: u64, is_random: bool) -> Self {
        let advised = if is_random { u64::MAX } else { 0 };
        Self { engine, file, limit, advised: advised.into() }
    }

    /// Switches read-ahead off if `used` bytes of data exceed the limit, for the first `mapped` bytes of the file,
    /// which are all that the engine has mapped. It stays off: freed space is reused.
    pub(super) fn grown_to(&self, used: u64, mapped: u64) {
        if used <= self.limit || self.advised.load(Ordering::Relaxed) >= mapped {
            return;
        }
        let engine = self.engine;
        if self.advised.swap(mapped, Ordering::Relaxed) == 0 && self.limit > 0 {
            log::info!(
                "{engine}: {used} bytes of data are more than half of memory: read-ahead is off (--read-ahead)"
            );
        }
        if let Err(error) = self.advise_random() {
            log::warn!("{engine}: cannot switch read-ahead off, so cold reads will be slow: {error}");
        }
    }

    fn advise_random(&self) -> io::Result<()> {
        let file = fs::metadata(&self.file)?;
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
    // SAFETY: `MADV_RANDOM` only affects how pages are brought in; it changes neither them nor the mapping,
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
pub(super) mod tests {
    use super::*;

    /// Returns `true` if read-ahead is off for each part of the map of a file (`rr` in proc_pid_smaps(5)).
    #[cfg(target_os = "linux")]
    pub fn is_random(data: &std::path::Path) -> bool {
        let inode = fs::metadata(data).unwrap().ino();
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_of_file = false;
        let mut flags = Vec::new();
        for line in maps.lines() {
            if let Some(mapping) = Mapping::parse(line) {
                is_of_file = mapping.inode == inode;
            } else if is_of_file && let Some(found) = line.strip_prefix("VmFlags:") {
                flags.push(found.split(' ').any(|flag| flag == "rr"));
            }
        }
        assert!(!flags.is_empty(), "no map of {}", data.display());
        flags.into_iter().all(|flag| flag)
    }

    #[test]
    fn a_line_of_the_map_is_read() {
        let line = "7f0000001000-7f0000003000 r--s 00000000 fe:00 1234   /data/a file.mdb";
        let mapping = Mapping { start: 0x7f00_0000_1000, end: 0x7f00_0000_3000, inode: 1234 };
        assert_eq!(Mapping::parse(line), Some(mapping));
        assert_eq!(Mapping::parse("nonsense"), None);
    }
}
