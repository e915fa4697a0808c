//! Disks that are small, full or read-only. They are mounted, which needs privileges; without them the tests
//! say that they were skipped, or fail where the environment has KVBENCH_MUST_MOUNT. CI runs all tests as a user, who may
//! not mount, and then those that need a disk once more as root, with KVBENCH_MUST_MOUNT (`.github/workflows/ci.yml`).

use std::{
    env,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// A file system of its own, until dropped.
pub struct Disk {
    place: TempDir,
    _image: Option<TempDir>,
}

/// Something that takes room.
pub struct Ballast(PathBuf);

/// Goes on without a disk, if that may be. Reads neither `CI` nor `KVBENCH_MAY_SKIP`: the first run of CI skips each test
/// that needs a disk, and the run as root fails instead.
fn skip(why: &str) -> Option<Disk> {
    assert!(env::var_os("KVBENCH_MUST_MOUNT").is_none(), "KVBENCH_MUST_MOUNT is set, but {why}");
    eprintln!("skipped: {why}");
    None
}

impl Disk {
    /// In memory; `size` as mount takes it.
    pub fn tmpfs(size: &str) -> Option<Self> {
        Self::mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "none"], None)
    }

    /// Ext4 in a file.
    pub fn ext4(mib: u64) -> Option<Self> {
        let image = tempfile::tempdir().unwrap();
        let file = image.path().join("disk");
        File::create(&file).unwrap().set_len(mib << 20).unwrap();
        let file = file.to_str().unwrap().to_owned();
        let made = Command::new("mkfs.ext4").args(["-q", "-m", "0", &file]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return skip("no mkfs.ext4");
        }
        Self::mount(&["-o", "loop", &file], Some(image))
    }

    /// One of each.
    pub fn all(mib: u64) -> impl Iterator<Item = Self> {
        [Self::tmpfs(&format!("{mib}m")), Self::ext4(mib)].into_iter().flatten()
    }

    fn mount(args: &[&str], image: Option<TempDir>) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let output = Command::new("mount").args(args).arg(place.path()).output().unwrap();
        if !output.status.success() {
            return skip(&format!("cannot mount: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Some(Self { place, _image: image })
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Changes it while it is in use.
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(self.path()).status().unwrap();
        assert!(status.success(), "{options}");
    }

    /// Takes all room but so many bytes.
    pub fn fill(&self, left: u64) -> Ballast {
        let path = self.path().join("ballast");
        let mut file = File::create(&path).unwrap();
        let zeros = vec![0; 64 << 10];
        for size in [zeros.len(), 4096] {
            let full = std::iter::repeat_with(|| file.write_all(&zeros[..size])).find_map(Result::err);
            assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::StorageFull));
        }
        let len = file.metadata().unwrap().len();
        file.set_len(len - left).unwrap();
        file.sync_all().unwrap();
        Ballast(path)
    }
}

impl Ballast {
    pub fn remove(self) {
        fs::remove_file(self.0).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a killed process may not have let go of it yet.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
