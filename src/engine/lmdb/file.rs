//! LMDB's data file: its lock, and the compacted copy that takes its place.

use super::super::{Error, Result, path};
use heed::{CompactionOption, Env, WithTls};
use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

const DATA: &str = "data.mdb";

/// A compacted copy, until it takes the place of the data file.
const COPY: &str = "data.mdb.compact";

pub(super) fn recognise(path: &Path) -> bool {
    path.join(DATA).is_file()
}

/// Takes the data for this process. LMDB itself lets any number of processes in, each of which
/// would believe that no one else writes. The lock is on the data file, where LMDB takes none.
pub(super) fn lock(path: &Path) -> Result<File> {
    let file_path = path.join(DATA);
    loop {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file_path)
            .map_err(Error::io("open", &file_path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: path.into() }),
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", file_path)(source)),
        }
        // Who had the data open may have put a compacted file in its place after we opened the old
        // one, and let go of that before we locked it: then what we hold is nobody's data.
        let held = file.metadata().map_err(Error::io("open", &file_path))?;
        match fs::metadata(&file_path) {
            Ok(now) if (now.dev(), now.ino()) == (held.dev(), held.ino()) => return Ok(file),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("open", file_path)(error));
            }
            _ => {}
        }
    }
}

/// Removes a copy that a crash has left. It may be torn, and the data file is whole.
pub(super) fn remove_leftover(path: &Path) -> Result<()> {
    let copy = path.join(COPY);
    match fs::remove_file(&copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", copy)(error)),
        _ => Ok(()),
    }
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
