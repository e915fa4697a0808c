//! Helpers of all engines for the path of their data: locks, names, sizes.

use super::{Error, Result};
use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Opens or creates the file at `path` and locks it for this process, as a part of the data at `data`.
pub fn open_locked(path: &Path, data: &Path) -> Result<File> {
    loop {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(Error::io("open", path))?;
        lock(&file, data)?;
        // The process that had the data open may have replaced the file at `path` after we opened the old one, and
        // unlocked the old one before we locked it: then our file is no longer part of the data.
        if is_at(&file, path)? {
            return Ok(file);
        }
    }
}

/// Returns `true` if `path` is a name of the open `file`.
pub(super) fn is_at(file: &File, path: &Path) -> Result<bool> {
    let held = file.metadata().map_err(Error::io("read", path))?;
    match fs::metadata(path) {
        Ok(now) => Ok(identity(&now) == identity(&held)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Returns the device and the inode of a file: no other file has both for as long as this one exists or is open.
pub(super) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Locks an open file of the data at `data`.
pub fn lock(file: &File, data: &Path) -> Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::Locked { path: data.into() },
        TryLockError::Error(source) => Error::Io { action: "lock", path: data.into(), source },
    })
}

/// Returns the length of a file in bytes, 0 if it does not exist.
#[allow(dead_code, reason = "for engines that a build may lack")]
pub(super) fn length(path: &Path) -> Result<u64> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Removes a file that an operation which did not finish may have left.
pub(super) fn remove_leftover(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Returns the directory that contains the name of `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Reserves the disk space of a file that an engine maps: a thread that writes to a page of the map for which a
/// full disk has no block kills the process. Must be called before the engine opens the file: POSIX releases a
/// file's locks when any of its descriptors is closed.
#[cfg(target_os = "linux")]
pub fn reserve(path: &Path, bytes: u64) -> Result<()> {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(Error::io("open", path))?;
    let reserved = nix::fcntl::posix_fallocate(&file, 0, bytes.cast_signed());
    reserved.map_err(|error| Error::io("reserve the space of", path)(error.into()))
}

#[cfg(not(target_os = "linux"))]
pub fn reserve(_: &Path, _: u64) -> Result<()> {
    Ok(())
}

/// Returns the first bytes of a file, at most `most`; none if it cannot be read.
pub fn read_start(path: &Path, most: usize) -> Vec<u8> {
    let mut start = Vec::with_capacity(most);
    let read = File::open(path).and_then(|file| file.take(most as u64).read_to_end(&mut start));
    read.map_or_else(|_| Vec::new(), |_| start)
}

/// Makes the names in the directory `path` durable: otherwise a file is durable but may have no name, or its old
/// one.
pub fn sync_dir(path: &Path) -> Result<()> {
    fs::File::open(path).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", path))
}

/// Returns the number of bytes allocated on disk below `path` (a file or a directory). Files that vanish meanwhile,
/// as compactions delete them, count as 0.
pub fn disk_size(path: &Path) -> Result<u64> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    if !metadata.is_dir() {
        return Ok(allocated(&metadata));
    }
    let mut total = 0;
    for entry in fs::read_dir(path).map_err(Error::io("read", path))? {
        total += disk_size(&entry.map_err(Error::io("read", path))?.path())?;
    }
    Ok(total)
}

/// Returns the allocated size of a file in bytes, which differs from the length of sparse files (LMDB's map,
/// preallocated logs).
fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}
