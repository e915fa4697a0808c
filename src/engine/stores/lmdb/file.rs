//! LMDB's data file: its lock, and the compacted copy that takes its place.

use crate::engine::{Error, Result, path};
use heed::{CompactionOption, Env, WithTls};
use std::{
    fs::{self, File, Metadata},
    path::{Path, PathBuf},
};

const DATA: &str = "data.mdb";

/// LMDB's table of readers.
const LOCK: &str = "lock.mdb";

/// A compacted copy, until it takes the place of the data file.
const COPY: &str = "data.mdb.compact";

pub(super) fn recognise(path: &Path) -> bool {
    path.join(DATA).is_file()
}

/// A data file of more than its first two pages, of which none is larger than 64 KiB, is not of the first start.
pub(super) fn is_first(name: &str, metadata: &Metadata) -> bool {
    metadata.is_file() && (name == LOCK || name == DATA && metadata.len() <= 128 << 10)
}

/// Takes the data for this process. LMDB itself lets any number of processes in, each of which
/// would believe that no one else writes. The lock is on the data file, where LMDB takes none.
pub(super) fn lock(path: &Path) -> Result<File> {
    path::open_locked(&path.join(DATA), path)
}

/// The data file.
pub(super) fn data(path: &Path) -> PathBuf {
    path.join(DATA)
}

/// Takes the disk space of the table of readers.
pub(super) fn reserve_readers(path: &Path, readers: u32) -> Result<()> {
    /// Of LMDB's for one reader, and as much for its header as is surely enough.
    const SLOT: u64 = 64;
    const HEADER: u64 = 4096;
    path::reserve(&path.join(LOCK), HEADER + u64::from(readers) * SLOT)
}

/// Removes a copy that a crash has left. It may be torn, and the data file is whole.
pub(super) fn remove_leftover(path: &Path) -> Result<()> {
    path::remove_leftover(&path.join(COPY))
}

/// Replaces the data file by a compacted copy, and closes the environment. A crash leaves the one or
/// the other: the copy is whole and synced before it gets the name.
pub(super) fn compact(env: Env<WithTls>, path: &Path, fail: impl Fn(heed::Error) -> Error) -> Result<()> {
    let (data, copy) = (path.join(DATA), path.join(COPY));
    let written = env.copy_to_path(&copy, CompactionOption::Enabled).map_err(fail)?;
    let old = fs::metadata(&data).map_err(Error::io("read", &data))?;
    written
        .set_permissions(old.permissions())
        .and_then(|()| written.sync_all())
        .map_err(Error::io("sync", &copy))?;
    // The last of it, so this unmaps the old file.
    drop(env);
    fs::rename(&copy, &data).map_err(Error::io("rename", copy))?;
    path::sync_dir(path)
}
