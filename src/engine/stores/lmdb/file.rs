//! LMDB's data file: its lock, and its replacement by a compacted copy.

use crate::engine::{Error, Result, files};
use heed::{CompactionOption, Env, WithTls};
use std::{
    fs::{self, File, Metadata},
    path::{Path, PathBuf},
};

const DATA: &str = "data.mdb";

/// Name of the file with LMDB's table of readers.
pub(super) const LOCK: &str = "lock.mdb";

/// Name of a compacted copy of LMDB's data file until it replaces the data file.
pub(super) const COPY: &str = "data.mdb.compact";

pub(super) fn recognise(path: &Path) -> bool {
    path.join(DATA).is_file()
}

/// Returns `true` for a file that an interrupted first start may have left: a data file has at most two pages,
/// of 64 KiB or less.
pub(super) fn is_first(name: &str, metadata: &Metadata) -> bool {
    metadata.is_file() && (name == LOCK || name == DATA && metadata.len() <= 128 << 10)
}

/// Locks LMDB's data in the directory `path` for this process. LMDB itself admits any number of processes, each of
/// which would assume that it is the only writer. The lock is on the data file, on which LMDB takes none.
pub(super) fn lock(path: &Path) -> Result<File> {
    files::open_locked(&path.join(DATA), path)
}

/// Returns the path of LMDB's data file in the directory `path`.
pub(super) fn data(path: &Path) -> PathBuf {
    path.join(DATA)
}

/// Allocates the disk space of LMDB's table of readers (its lock file) with slots for `readers` readers, in the directory
/// `path`: a write to a mapped page without space on disk would kill the process.
pub(super) fn reserve_readers(path: &Path, readers: u32) -> Result<()> {
    /// Size of LMDB's slot of one reader in bytes, and an upper bound of the size of the table's header.
    const SLOT: u64 = 64;
    const HEADER: u64 = 4096;
    files::reserve(&path.join(LOCK), HEADER + u64::from(readers) * SLOT)
}

/// Replaces LMDB's data file by a compacted copy, and closes the environment. A crash leaves either of the two: the
/// copy is complete and synced before it gets the name.
pub(super) fn compact(env: Env<WithTls>, path: &Path, fail: impl Fn(heed::Error) -> Error) -> Result<()> {
    let (data, copy) = (path.join(DATA), path.join(COPY));
    let written = env.copy_to_path(&copy, CompactionOption::Enabled).map_err(fail)?;
    let old = fs::metadata(&data).map_err(Error::io("read", &data))?;
    written
        .set_permissions(old.permissions())
        .and_then(|()| written.sync_all())
        .map_err(Error::io("sync", &copy))?;
    // This is the last reference, so it unmaps the old file.
    drop(env);
    fs::rename(&copy, &data).map_err(Error::io("rename", copy))?;
    files::sync_path(path)
}
