//! Removal of a store's files from the page cache, also after a write or sync that failed.
//!
//! Linux counts pages whose sync has failed as written, but goes on to return them. A store that is opened again would read
//! them, and its syncs would succeed without them: a power cut then removes what later writes rely on, and with some engines
//! the whole database. (Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020.) So a store that
//! becomes read-only leaves a mark file beside its data. The next start removes the data from the page cache, and finds what
//! a power cut would have left. An engine that knows what no sync has covered needs no mark: it writes that again.

use super::{Error, Result};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Leaves the mark of a failed write or sync for the next start of the data at `path`.
///
/// # Errors
///
/// Fails if the mark file cannot be created.
pub fn mark_failed_sync(path: &Path) -> Result<()> {
    let mark = mark(path);
    let text =
        "A write or sync has failed. The next start of kvbench removes the data from the page cache first.\n";
    fs::write(&mark, text).map_err(Error::io("write", mark))
}

/// Removes the data at `path` from the page cache if there is a mark. Returns its path then, for the caller to remove the
/// mark when the data are open.
///
/// # Errors
///
/// [`Error::Io`] if a file cannot be listed, opened or synced, or the kernel refuses to remove it.
pub(super) fn evict_after_failed_sync(path: &Path) -> Result<Option<PathBuf>> {
    let mark = mark(path);
    if !mark.exists() {
        return Ok(None);
    }
    let evict = if path.is_dir() { evict_files } else { evict_file };
    match evict(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        evicted => evicted.map_err(Error::io("remove from the page cache", path))?,
    }
    log::info!(
        "{}: read from the disk, not the page cache, because a write or sync has failed",
        path.display()
    );
    Ok(Some(mark))
}

/// Returns the path of the mark file of the data at `path`, which may be a symbolic link.
fn mark(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into()).with_added_extension("sync-failed")
}

/// Drops the files below `directory` from the page cache, except those that the store deletes meanwhile. Pages that a
/// process has mapped and read stay there.
///
/// # Errors
///
/// Fails if `directory` does not exist, a file cannot be listed, opened or synced, or the kernel refuses to drop it.
pub fn evict_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let evicted = entry.file_type().and_then(|kind| match kind.is_dir() {
            true => evict_files(&entry.path()),
            false => evict_file(&entry.path()),
        });
        match evicted {
            // The open store has deleted the file or directory meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            evicted => evicted?,
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn evict_file(path: &Path) -> io::Result<()> {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    let file = File::open(path)?;
    // Only pages that are already on the device can be dropped.
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn evict_file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Fsync, Kind, Location, OpenOptions};

    #[test]
    fn the_next_start_removes_the_mark() {
        let dir = tempfile::tempdir().unwrap();
        for store in ["map", "bitcask"] {
            let path = dir.path().join(store);
            let mark = path.with_added_extension("sync-failed");
            let options = OpenOptions::new(Location::Path(path.clone()), Fsync::No);
            let open = || Kind::find(store).unwrap().open(&options).unwrap();
            drop(open());
            assert_eq!(evict_after_failed_sync(&path).unwrap(), None, "{store}");
            mark_failed_sync(&path).unwrap();
            assert_eq!(
                evict_after_failed_sync(&path).unwrap().as_deref(),
                Some(&*mark.canonicalize().unwrap())
            );
            drop(open());
            assert!(!mark.exists(), "{store}");
        }
    }

    /// A file is listed, and then deleted by a thread of the store. A symbolic link to no file is as such a file: it is
    /// listed and cannot be opened.
    #[test]
    fn file_that_is_deleted_meanwhile_is_skipped() {
        let scratch = tempfile::tempdir().unwrap();
        let below = scratch.path().join("below");
        fs::create_dir(&below).unwrap();
        for directory in [scratch.path(), &below] {
            std::os::unix::fs::symlink("deleted", directory.join("listed")).unwrap();
        }
        evict_files(scratch.path()).unwrap();
        assert_eq!(evict_files(&below.join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
