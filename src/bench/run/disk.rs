//! Sizes of files, and bytes written to their device.

use crate::bench::result::FileSize;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Unit of `st_blocks` in bytes, whatever the block size of the file system is.
const SECTOR: u64 = 512;
/// Largest usual block size of a file system, in bytes.
const BLOCK: u64 = 4096;

/// The files of one store: all files below a directory.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
    /// Path of the block device in `/sys/dev/block`; `None` if the directory is not on a block device.
    device: Option<PathBuf>,
}

impl Files {
    /// Creates a view of the store whose files are in `directory`, which holds nothing else.
    pub fn of(directory: &Path) -> Self {
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.into());
        let device = fs::metadata(&directory).ok().map(|metadata| device(metadata.dev()));
        Self { directory, device: device.filter(|path| path.exists()) }
    }

    /// Returns the directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the sum of the files' sizes now. A file that a compaction deletes meanwhile counts as empty.
    pub fn size(&self) -> FileSize {
        size(&self.directory)
    }

    /// Waits until the file system has written all dirty pages to the device, including those of other
    /// programs.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be opened or synced.
    pub fn write_back(&self) -> io::Result<()> {
        let directory = File::open(&self.directory)?;
        #[cfg(target_os = "linux")]
        nix::unistd::syncfs(&directory)?;
        #[cfg(not(target_os = "linux"))]
        directory.sync_all()?;
        Ok(())
    }

    /// Returns the bytes written to the device by all programs since the machine was started; `None` if
    /// unknown.
    pub fn device_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(self.device.as_ref()?.join("stat")).ok()?;
        // Read I/Os, merges, sectors and ticks; write I/Os, merges, then sectors.
        let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
        Some(sectors * SECTOR)
    }

    /// Returns `true` if the kernel counts the bytes that a process writes to these files: not so on tmpfs.
    pub fn are_counted(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            use nix::sys::statfs::{TMPFS_MAGIC, statfs};
            statfs(&self.directory).is_ok_and(|found| found.filesystem_type() != TMPFS_MAGIC)
        }
        #[cfg(not(target_os = "linux"))]
        false
    }
}

fn device(number: u64) -> PathBuf {
    #[cfg(target_os = "linux")]
    let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
    #[cfg(not(target_os = "linux"))]
    let (major, minor) = (number, 0);
    Path::new("/sys/dev/block").join(format!("{major}:{minor}"))
}

fn size(path: &Path) -> FileSize {
    let Ok(metadata) = fs::symlink_metadata(path) else { return FileSize::default() };
    if metadata.is_dir() {
        let inside = fs::read_dir(path).into_iter().flatten().flatten();
        return inside.map(|entry| size(&entry.path())).fold(FileSize::default(), |sum, file| FileSize {
            length_bytes: sum.length_bytes + file.length_bytes,
            block_bytes: sum.block_bytes + file.block_bytes,
            used_bytes: sum.used_bytes + file.used_bytes,
        });
    }
    let (length, blocks) = (metadata.len(), metadata.blocks() * SECTOR);
    // Blocks reserved behind a file's end are freed when the file is closed; a hole has no blocks.
    FileSize {
        length_bytes: length,
        block_bytes: blocks,
        used_bytes: blocks.min(length.next_multiple_of(BLOCK)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::testing::skipping::skip;
    use std::os::unix::fs::FileExt;

    #[test]
    fn holes_and_reserves_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("sparse")).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 4096], 64 << 10).unwrap();
        fs::create_dir(directory.path().join("inside")).unwrap();
        fs::write(directory.path().join("inside").join("plain"), [1; 5000]).unwrap();
        let files = Files::of(directory.path());
        files.write_back().unwrap();
        let size = files.size();
        assert_eq!(size.length_bytes, (1 << 20) + 5000);
        assert!(size.block_bytes < 64 << 10, "{size:?}");
        assert!((4096 + 5000..=size.block_bytes).contains(&size.used_bytes), "{size:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_reserve_behind_the_end_is_not_used() {
        use nix::fcntl::{FallocateFlags, fallocate};
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("log")).unwrap();
        file.write_all_at(&[1; 100], 0).unwrap();
        if let Err(error) = fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, 8 << 20) {
            return skip("a_reserve_behind_the_end_is_not_used", &format!("fallocate: {error}"));
        }
        let size = Files::of(directory.path()).size();
        assert_eq!((size.length_bytes, size.used_bytes), (100, 4096));
        assert!(size.block_bytes >= 8 << 20, "{size:?}");
    }
}
