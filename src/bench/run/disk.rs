//! Files: their sizes, and what their file system and its device have taken.

use crate::bench::result::FileSize;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// `st_blocks` counts these, whatever the blocks of the file system are.
const SECTOR: u64 = 512;
/// Blocks of file systems that matter are of this size, or smaller.
const BLOCK: u64 = 4096;

/// The files of one store: those of a directory.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
    /// Its name in `/sys/dev/block`, where it is on a block device.
    device: Option<PathBuf>,
}

impl Files {
    /// The store whose files are in `directory`, and nothing else.
    pub fn of(directory: &Path) -> Self {
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.into());
        let device = fs::metadata(&directory).ok().map(|metadata| device(metadata.dev()));
        Self { directory, device: device.filter(|path| path.exists()) }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Their sizes now. Files that vanish meanwhile, as compactions delete them, count nothing.
    pub fn size(&self) -> FileSize {
        size(&self.directory)
    }

    /// Waits until the file system has written everything, also what other programs gave to it.
    pub fn write_back(&self) -> io::Result<()> {
        let directory = File::open(&self.directory)?;
        #[cfg(target_os = "linux")]
        nix::unistd::syncfs(&directory)?;
        #[cfg(not(target_os = "linux"))]
        directory.sync_all()?;
        Ok(())
    }

    /// Bytes that the device has taken since the machine was started, of all programs.
    pub fn device_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(self.device.as_ref()?.join("stat")).ok()?;
        // Read I/Os, merges, sectors and ticks; write I/Os, merges, then sectors.
        let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
        Some(sectors * SECTOR)
    }

    /// Whether what a process writes to them is counted by the kernel: not where they are in memory.
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
    // What is reserved behind a file's end is given back when it is closed; a hole was never taken.
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
