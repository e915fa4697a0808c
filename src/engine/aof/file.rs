//! The append-only file's (AOF's) storage: its operations, its lock, and its names in the directory. Written
//! for Unix, where a file can be renamed over an open one.

use super::super::{Error, Result, files};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// File operations that the AOF uses. Tests implement them with a disk that becomes full or fails.
pub(in super::super) trait Storage: Send + Sync {
    /// Writes all of `bytes` at the offset `offset` of the file.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `bytes` with the bytes at the offset `offset` of the file. Fails if the file is shorter.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Truncates or extends the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes the bytes and the length of the file durable, but not its times (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;

    /// Releases the lock on the file, so that other processes can open the AOF.
    fn unlock(&self) -> io::Result<()>;

    /// Returns `true` if `path` is a name of the open file.
    fn is_at(&self, path: &Path) -> Result<bool>;
}

impl Storage for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn unlock(&self) -> io::Result<()> {
        File::unlock(self)
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        files::is_at(self, path)
    }
}

/// Opens or creates the AOF at `path` and locks it. Also returns its path without symbolic links: a rewrite
/// puts a new file in the AOF's place, and must not replace a link to it.
pub(super) fn open_locked(path: &Path, engine: &'static str) -> Result<(File, PathBuf)> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let found = "something that is no regular file".into();
        return Err(Error::Foreign { path: path.into(), engine, found, owner: None });
    }
    let file = files::open_locked(path, path)?;
    let real = path.canonicalize().map_err(Error::io("open", path))?;
    Ok((file, real))
}

/// Creates the file `path` and locks it. Fails if the file exists.
pub(super) fn create_locked(path: &Path) -> Result<File> {
    let mut options = File::options();
    let file =
        options.read(true).write(true).create_new(true).open(path).map_err(Error::io("create", path))?;
    files::lock(&file, path)?;
    Ok(file)
}

/// Returns `<path>.rewrite`, the path of the file that a rewrite writes.
pub(super) fn rewrite_path(path: &Path) -> PathBuf {
    path.with_added_extension("rewrite")
}

/// Removes the file that an unfinished rewrite of the AOF `path` has left at [`rewrite_path`].
///
/// # Errors
///
/// [`Error::Locked`] if another process has the file open: it may be that process's AOF. [`Error::Io`].
pub(super) fn remove_rewritten(path: &Path) -> Result<()> {
    let leftover = rewrite_path(path);
    let held = match File::open(&leftover) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // The attempt to remove it says why.
        Err(_) => None,
    };
    // Locked until it is removed, so that no process opens it in between.
    held.iter().try_for_each(|file| files::lock(file, &leftover))?;
    files::remove_leftover(&leftover)
}

/// Exchanges the names of two files atomically. Returns `false` if the system or the file system does not
/// support that.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn exchange(one: &Path, two: &Path) -> io::Result<bool> {
    use nix::{
        errno::Errno,
        fcntl::{AT_FDCWD, RenameFlags, renameat2},
    };
    match renameat2(AT_FDCWD, one, AT_FDCWD, two, RenameFlags::RENAME_EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn exchange(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}
