//! Files out of the page cache (`--cold`), so that reads meet the device.

use crate::engine::Engine;
use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Where Linux takes orders to drop its caches.
const DROP: &str = "/proc/sys/vm/drop_caches";

/// How it is done here, for the result.
pub fn words() -> String {
    match may_drop_all() {
        true => {
            "the store's files synced and dropped by posix_fadvise, then the whole page cache by drop_caches"
                .into()
        }
        false => {
            "the store's files synced and dropped by posix_fadvise; this user may not use drop_caches".into()
        }
    }
}

fn may_drop_all() -> bool {
    fs::OpenOptions::new().write(true).open(DROP).is_ok()
}

/// Closes a store, puts its files out of the page cache, and opens it again.
pub fn reopened(
    engine: Box<dyn Engine>,
    open: &dyn Fn() -> Result<Box<dyn Engine>, String>,
    directory: &Path,
) -> Result<Box<dyn Engine>, String> {
    engine.close().map_err(|error| format!("close: {error}"))?;
    drop(engine);
    evict(directory).map_err(|error| format!("--cold: {}: {error}", directory.display()))?;
    open()
}

/// Puts the files of a directory out of the page cache. Pages that a process has mapped stay: the store must
/// be closed.
pub fn evict(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => evict(&entry.path())?,
            false => evict_file(&entry.path())?,
        }
    }
    if may_drop_all() {
        // 1 is the page cache; directories and inodes stay.
        fs::write(DROP, "1")?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn evict_file(path: &Path) -> io::Result<()> {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    let file = File::open(path)?;
    // Only what is on the device can be dropped.
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn evict_file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
