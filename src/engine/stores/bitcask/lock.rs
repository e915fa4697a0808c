//! The lock file of `bitcask`: keeps other processes out, and detects that the path no longer names the open directory.

use crate::engine::{Error, Result, files};
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

/// Name of the lock file.
pub(super) const LOCK: &str = "bitcask.lock";

/// Content of the lock file of a directory that has a manifest. With an empty lock file, a missing manifest is no
/// error: earlier versions wrote no manifest and left the lock file empty.
pub(super) const LOCK_TEXT: &str = "locked while open; bitcask.segments lists the segments\n";

/// Lock of the directory of an open `bitcask` store, held by the lock file in it.
pub(super) struct Lock {
    file: File,
    /// Path of the locked directory, without symbolic links.
    directory: PathBuf,
}

impl Lock {
    /// Creates the lock file in `directory` if necessary, and locks it for this process.
    ///
    /// # Errors
    ///
    /// Fails if another process has locked the directory, if the path changes meanwhile, or if the operating system
    /// refuses.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let file = files::open_locked(&directory.join(LOCK), directory)?;
        let directory = directory.canonicalize().map_err(Error::io("open", directory))?;
        let lock = Self { file, directory };
        lock.check_path()?;
        Ok(lock)
    }

    /// Returns the path of the locked directory, without symbolic links.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Fails if the path no longer names the locked directory: the files on the path may be those of another server.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Moved`], or if the operating system refuses.
    pub(super) fn check_path(&self) -> Result<()> {
        let is_same = files::is_at(&self.file, &self.directory.join(LOCK))?;
        if is_same { Ok(()) } else { Err(Error::Moved { path: self.directory.clone() }) }
    }

    /// Writes [`LOCK_TEXT`], which records that the directory has a manifest, to the lock file if that is empty, and
    /// syncs it.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses.
    pub(super) fn note_manifest(&self) -> Result<()> {
        let mut file = &self.file;
        let noted = file.metadata().and_then(|metadata| match metadata.len() {
            0 => file.write_all(LOCK_TEXT.as_bytes()).and_then(|()| file.sync_all()),
            _ => Ok(()),
        });
        noted.map_err(Error::io("write", self.directory.join(LOCK)))
    }

    /// Unlocks the directory, so that other processes can open the data.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses.
    pub(super) fn release(&self) -> Result<()> {
        self.file.unlock().map_err(Error::io("unlock", &self.directory))
    }
}
