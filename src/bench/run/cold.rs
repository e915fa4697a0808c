//! Removal of files from the page cache (`--cold`), so that reads come from the device.

use crate::engine::{Engine, page_cache::evict_files};
use std::{fs, io, path::Path};

/// File to which a number is written to make Linux drop its caches.
const DROP: &str = "/proc/sys/vm/drop_caches";

/// Describes for the result how caches are dropped on this machine.
pub fn describe() -> String {
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

/// Closes a store, drops its files from the page cache with `evict`, and opens the store again with `open`. Then drops
/// the files once more: what the start has read, such as the segments of `bitcask`, would be in the page cache
/// otherwise.
///
/// # Errors
///
/// Fails if the engine cannot be closed, a file cannot be dropped from the page cache, or `open` fails.
pub fn reopened(
    engine: Box<dyn Engine>,
    open: &dyn Fn() -> Result<Box<dyn Engine>, String>,
    directory: &Path,
    evict: fn(&Path) -> io::Result<()>,
) -> Result<Box<dyn Engine>, String> {
    engine.close().map_err(|error| format!("close: {error}"))?;
    drop(engine);
    let fail = |error| format!("--cold: {}: {error}", directory.display());
    evict(directory).map_err(fail)?;
    let engine = open()?;
    evict_files(directory).map_err(fail)?;
    Ok(engine)
}

/// Drops the files below `directory` from the page cache, then all of the page cache if this user may: the file
/// system's own blocks are in it too. With other programs at work this takes seconds.
///
/// # Errors
///
/// Fails if a file cannot be listed, opened or synced, or the kernel refuses to drop it.
pub fn evict(directory: &Path) -> io::Result<()> {
    evict_files(directory)?;
    if may_drop_all() {
        // 1 drops the page cache only; directory entries and inodes stay cached.
        fs::write(DROP, "1")?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Returns the number of bytes that this process has read from devices.
    fn fetched() -> u64 {
        let counts = fs::read_to_string("/proc/self/io").unwrap();
        let line = counts.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        line.unwrap().parse().unwrap()
    }

    /// Files that were dropped from the page cache, also in subdirectories, are read from the device again. Must run on
    /// a disk: a file system in memory holds its files in the page cache only.
    #[test]
    fn files_that_were_put_out_of_the_cache_are_fetched_again() {
        const BYTES: usize = 16 << 20;
        let scratch = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let below = scratch.path().join("below");
        fs::create_dir(&below).unwrap();
        let files = [scratch.path().join("one"), below.join("two")];
        files.iter().for_each(|file| fs::write(file, vec![7; BYTES]).unwrap());
        let read = || {
            let before = fetched();
            files.iter().for_each(|file| assert_eq!(fs::read(file).unwrap().len(), BYTES));
            fetched() - before
        };
        let warm = read();
        evict(scratch.path()).unwrap();
        let cold = read();
        assert!(cold >= 2 * BYTES as u64, "{warm} bytes fetched warm, {cold} cold");
    }
}
