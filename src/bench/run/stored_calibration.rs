//! Result of `kvbench calibrate` for this build, stored in the user's cache directory.

use crate::bench::result::Calibration;
use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Returns the cache directory of the user, `$XDG_CACHE_HOME` or `$HOME/.cache`; `None` if neither variable is set.
pub fn user_cache() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))
}

/// Returns the path of the stored calibration: `kvbench/calibration-COMMIT.json` in `$XDG_CACHE_HOME` or
/// `$HOME/.cache`; `None` if neither variable is set.
pub fn place() -> Option<PathBuf> {
    let commit = option_env!("KVBENCH_COMMIT").unwrap_or("unknown");
    Some(user_cache()?.join("kvbench").join(format!("calibration-{commit}.json")))
}

/// Returns the stored calibration; `None` if there is none, or if it was made with another build of this program.
pub fn of_this_build() -> Option<Calibration> {
    let found: Calibration = serde_json::from_slice(&fs::read(place()?).ok()?).ok()?;
    (found.program == program().ok()?).then_some(found)
}

/// Stores a calibration at `path`.
///
/// # Errors
///
/// Fails if the file, or a directory above it, cannot be created or written.
pub fn save(calibration: &Calibration, path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    serde_json::to_writer_pretty(File::create(path)?, calibration)?;
    Ok(())
}

/// Returns the CRC-32 of this program's file.
///
/// # Errors
///
/// Fails if the file of this program cannot be read.
pub fn program() -> io::Result<u32> {
    checksum(&env::current_exe()?)
}

/// Returns the CRC-32 of the file of a program.
///
/// # Errors
///
/// Fails if the file cannot be read.
pub fn checksum(program: &Path) -> io::Result<u32> {
    Ok(crc32fast::hash(&fs::read(program)?))
}
