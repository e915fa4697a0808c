//! Sizes of files, and the traffic of their device.

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
    /// Path of the block device in `/sys/dev/block`; `None` unless the directory is the root of a file system on a loop
    /// device, which then holds no other files.
    device: Option<PathBuf>,
}

/// Traffic of a block device since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTraffic {
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Bytes read from the device.
    pub read_bytes: u64,
    /// Read requests, after the kernel has merged adjacent ones.
    pub reads: u64,
}

impl DeviceTraffic {
    /// Returns the difference between this traffic and the earlier traffic `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            reads: self.reads.saturating_sub(before.reads),
        }
    }
}

impl Files {
    /// Creates a view of the store whose files are in `directory`, which holds nothing else.
    pub fn of(directory: &Path) -> Self {
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.into());
        let device = own_device(&directory).filter(|path| path.exists());
        Self { directory, device }
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

    /// Syncs the files and directories of the store, and no other file of the file system. Not to be called in the
    /// process of the store: to close a file there would release its record locks (fcntl).
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be opened or synced.
    pub fn sync(&self) -> io::Result<()> {
        sync(&self.directory)
    }

    /// Returns the traffic of the files' own device, with that of its file system's journal and metadata;
    /// `None` if the device holds other files too.
    pub fn device_traffic(&self) -> Option<DeviceTraffic> {
        traffic(&fs::read_to_string(self.device.as_ref()?.join("stat")).ok()?)
    }
}

/// Parses the contents of `/sys/block/DEVICE/stat`; `None` if they have another format.
fn traffic(stat: &str) -> Option<DeviceTraffic> {
    // Read I/Os, merges, sectors and ticks; write I/Os, merges, then sectors.
    let numbers = stat.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let [reads, _, read_sectors, _, _, _, written_sectors, ..] = *numbers else { return None };
    Some(DeviceTraffic { written_bytes: written_sectors * SECTOR, read_bytes: read_sectors * SECTOR, reads })
}

/// Returns the path of a directory's device in `/sys/dev/block` if the directory is the root of a file system on a loop
/// device: then no other program uses the device. Otherwise `None`.
#[cfg(target_os = "linux")]
fn own_device(directory: &Path) -> Option<PathBuf> {
    use nix::sys::stat::{major, minor};
    /// Major device number of loop devices.
    const LOOP: u64 = 7;
    let number = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let (own, above) = (number(directory)?, number(directory.parent()?)?);
    let path = Path::new("/sys/dev/block").join(format!("{}:{}", major(own), minor(own)));
    (own != above && major(own) == LOOP).then_some(path)
}

#[cfg(not(target_os = "linux"))]
fn own_device(_: &Path) -> Option<PathBuf> {
    None
}

fn sync(path: &Path) -> io::Result<()> {
    let opened = match File::open(path) {
        // The store has deleted the file meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    if opened.metadata()?.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| sync(&entry?.path()))?;
    }
    opened.sync_all()
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
    use crate::testing::skip_test::skip;
    use std::os::unix::fs::FileExt;

    #[test]
    fn traffic_is_read_from_the_right_columns() {
        let stat =
            " 1531762   163726 194526122  3085733 12235586   770985 692988328  4114752        0  1059620\n";
        let found = DeviceTraffic {
            written_bytes: 692_988_328 * 512,
            read_bytes: 194_526_122 * 512,
            reads: 1_531_762,
        };
        assert_eq!(traffic(stat), Some(found));
        assert_eq!(traffic("1 2 3"), None);
    }

    /// The traffic of a device that also holds other files is not reported, because it shows nothing about the store.
    #[test]
    fn a_shared_device_has_no_traffic() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Files::of(directory.path()).device_traffic(), None);
    }

    #[test]
    fn a_sync_reaches_all_files_and_passes_over_deleted_ones() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("inside")).unwrap();
        fs::write(directory.path().join("inside").join("plain"), [1; 5000]).unwrap();
        Files::of(directory.path()).sync().unwrap();
        assert!(sync(&directory.path().join("deleted")).is_ok());
        // A device reports that it cannot be synced, so it was reached.
        std::os::unix::fs::symlink("/dev/null", directory.path().join("inside").join("device")).unwrap();
        assert!(Files::of(directory.path()).sync().is_err());
    }

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
