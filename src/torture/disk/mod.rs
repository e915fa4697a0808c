//! A simulated disk for power cuts: a file system in memory, served through FUSE, that keeps written data apart
//! from synced data.
//!
//! - `node`: a file or directory, each in two states.
//! - `image`: all files and directories, and the operations on them.
//! - `simulated_file`: the bytes of a file, by pages.
//! - `cut`: what a power cut leaves.
//! - `fuse`: the kernel's calls.
//!
//! The disk gives the guarantees of POSIX and of the usual journaling file systems, and no more: a file's bytes
//! and length are durable after `fsync`, `fdatasync`, a synced `msync` or a write with `O_SYNC` or `O_DSYNC`, its
//! name after a sync of its directory; a rename is atomic; changes of names in one directory reach the medium in order.

mod cut;
mod fuse;
mod image;
mod node;
mod simulated_file;

use fuse::{Fuse, lock};
use fuser::{BackgroundSession, Config, MountOption};
use image::Image;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};
use rand::rngs::SmallRng;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};

pub use cut::Cut;
pub use image::InjectedFault;

/// Device through which a FUSE file system communicates with the kernel.
const DEVICE: &str = "/dev/fuse";

/// Programs with which the crate fuser mounts a file system if this process may not.
const MOUNT_PROGRAMS: [&str; 6] = [
    "fusermount3",
    "fusermount",
    "/sbin/fusermount3",
    "/sbin/fusermount",
    "/bin/fusermount3",
    "/bin/fusermount",
];

/// Moves this process and its later children into a mount namespace of their own, so that no mount is left behind,
/// however the process ends. Must be called before there are other threads. Needs root, and does nothing without.
pub fn own_mounts() {
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        let (none, flags) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
        let _ = mount(none, "/", none, flags, none);
    }
}

/// Hides the boot id of the machine from this process and its children, or shows it again; needs [`own_mounts`].
/// After a power cut the boot id differs, and MDBX then trusts unsynced data less; after a kill it is the same.
pub fn hide_boot(hide: bool) {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    let _not_hidden = umount2(FILE, MntFlags::empty());
    if hide {
        let none = None::<&str>;
        let _ = mount(Some("/dev/null"), FILE, none, MsFlags::MS_BIND, none);
    }
}

/// Checks that this process may open the FUSE device, which a simulated disk needs, and that it may mount a file system
/// or has a program that may; mounts nothing. The error says what is missing.
pub fn check() -> Result<(), String> {
    check_device()?;
    // fuser takes the program that this variable names.
    let is_named = env::var_os("FUSERMOUNT_PATH").is_some();
    if is_named || may_mount() { Ok(()) } else { check_mount_program(&MOUNT_PROGRAMS) }
}

fn check_device() -> Result<(), String> {
    fs::File::options().read(true).write(true).open(DEVICE).map(drop).map_err(|error| {
        format!(
            "this needs {DEVICE} ({error}): load the module (modprobe fuse), or give a container \
             --device {DEVICE} --cap-add SYS_ADMIN; --mode kill works without"
        )
    })
}

/// Returns `true` if this process may mount file systems itself: root may, unless a container has taken the capability
/// CAP_SYS_ADMIN from it.
fn may_mount() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .is_some_and(|set| set & CAP_SYS_ADMIN != 0)
}

fn check_mount_program(programs: &[&str]) -> Result<(), String> {
    let can_run = |program: &&str| Command::new(program).arg("-V").output().is_ok();
    if programs.iter().any(can_run) {
        return Ok(());
    }
    Err("without the right to mount (CAP_SYS_ADMIN) this needs the program fusermount3, which is not in PATH: install \
         the package fuse3, or give a container --cap-add SYS_ADMIN; --mode kill works without"
        .into())
}

/// Contents of a simulated disk that is not mounted.
pub struct DiskImage(Image);

impl Default for DiskImage {
    /// Returns an empty simulated disk.
    fn default() -> Self {
        Self(Image::new())
    }
}

impl DiskImage {
    /// Returns a copy of the disk's contents.
    pub fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    /// Writes the files of the disk into the directory `path` of another file system.
    pub fn export(&self, path: &Path) -> io::Result<()> {
        self.0.export(image::ROOT, path)
    }
}

/// Mounted simulated disk.
pub struct Disk {
    image: Arc<Mutex<Image>>,
    session: Option<BackgroundSession>,
    at: PathBuf,
}

impl Disk {
    /// Mounts a simulated disk with the contents `medium` at `at`. This process must not access its files: it is the
    /// one that serves them.
    pub fn mount(medium: DiskImage, at: &Path) -> io::Result<Self> {
        clear(at);
        fs::create_dir_all(at)?;
        let image = Arc::new(Mutex::new(medium.0));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("kvbench-torture".into()), MountOption::NoAtime];
        let session = fuser::spawn_mount(Fuse(Arc::clone(&image)), at, &config)?;
        Ok(Self { image, session: Some(session), at: at.into() })
    }

    /// Cuts the power, and returns what is left on the medium. Afterwards the disk answers all reads, writes, syncs and
    /// uses of names with `EIO`.
    pub fn cut(&self, cut: Cut, rng: &mut SmallRng) -> DiskImage {
        let keep = cut.draw(rng);
        DiskImage(lock(&self.image).cut(&keep, rng))
    }

    /// Returns the contents of the simulated disk, including all unsynced data.
    pub fn contents(&self) -> DiskImage {
        DiskImage(lock(&self.image).clone())
    }

    /// Makes everything that was written to the simulated disk durable.
    pub fn settle(&self) {
        lock(&self.image).sync_all();
    }

    /// Sets the errors that the disk returns from now on; the default value stops them.
    pub fn trouble(&self, trouble: InjectedFault) {
        lock(&self.image).trouble = trouble;
    }

    /// Removes all pages but unsynced ones from the simulated page cache, as `posix_fadvise` does with a disk: this
    /// call does not reach the file system.
    pub fn evict(&self) {
        lock(&self.image).evict();
    }

    /// Makes the simulated disk full, without free space.
    pub fn fill(&self) {
        lock(&self.image).fill();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && session.umount_and_join().is_err()
        {
            clear(&self.at);
        }
    }
}

/// Removes a mount that is left at `at`, of this process or of one that was killed.
pub fn clear(at: &Path) {
    while umount2(at, MntFlags::MNT_DETACH).is_ok() {}
    let is_dead = fs::metadata(at).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
    if is_dead {
        let _ = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(at).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_mount_program_is_named_with_its_package() {
        let error = check_mount_program(&["/nosuch"]).unwrap_err();
        assert!(error.contains("program fusermount3") && error.contains("package fuse3"), "{error}");
        check_mount_program(&["/nosuch", "true"]).unwrap();
    }
}
