//! What `kvbench calibrate` has found of this build, kept where the user's programs keep such things.

use crate::bench::result::Calibration;
use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Where it is kept: `$XDG_CACHE_HOME/kvbench/calibration-COMMIT.json`.
pub fn place() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    let commit = option_env!("KVBENCH_COMMIT").unwrap_or("unknown");
    Some(cache.join("kvbench").join(format!("calibration-{commit}.json")))
}

/// What was found of this very program, if it was calibrated.
pub fn of_this_build() -> Option<Calibration> {
    let found: Calibration = serde_json::from_slice(&fs::read(place()?).ok()?).ok()?;
    (found.program == program().ok()?).then_some(found)
}

/// Keeps it.
pub fn save(calibration: &Calibration, path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    serde_json::to_writer_pretty(File::create(path)?, calibration)?;
    Ok(())
}

/// Checksum of this program.
pub fn program() -> io::Result<u32> {
    Ok(crc32fast::hash(&fs::read(env::current_exe()?)?))
}
