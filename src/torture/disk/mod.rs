//! A disk that can lose its power: a file system in memory, served through FUSE, that keeps what was written
//! apart from what was synced.
//!
//! - `node`: files and directories, each in two states.
//! - `image`: all of them, and what can be done to them.
//! - `file`: the bytes of a file, by pages.
//! - `cut`: what a power cut leaves.
//! - `fuse`: the kernel's calls.
//!
//! It keeps the rules of POSIX and of the usual journaling file systems, and gives nothing beyond them: a file's
//! bytes and length are durable after `fsync`, `fdatasync`, a synced `msync` or a write with `O_SYNC` or
//! `O_DSYNC`, its name after a sync of its directory; a rename is one step; changes of names reach the
//! medium in their order.

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
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};

pub use cut::Cut;
pub use image::InjectedFault;

/// The device through which a file system talks to the kernel.
const DEVICE: &str = "/dev/fuse";

/// Gives this process and those it starts mounts of their own, so that none is left behind however it
/// ends. To be called before there are other threads; needs root, and does nothing without.
pub fn own_mounts() {
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        let (none, flags) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
        let _ = mount(none, "/", none, flags, none);
    }
}

/// Hides which boot of the machine this is, or shows it again, after [`own_mounts`]. After a power cut it is another
/// one: MDBX asks, and believes less of what was not synced. After a kill it is the same.
pub fn hide_boot(hide: bool) {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    let _not_hidden = umount2(FILE, MntFlags::empty());
    if hide {
        let none = None::<&str>;
        let _ = mount(Some("/dev/null"), FILE, none, MsFlags::MS_BIND, none);
    }
}

/// Whether there can be such a disk here.
pub fn check() -> Result<(), String> {
    fs::File::options().read(true).write(true).open(DEVICE).map(drop).map_err(|error| {
        format!(
            "this needs {DEVICE} ({error}): load the module (modprobe fuse), or give a container \
             --device {DEVICE} --cap-add SYS_ADMIN; --mode kill works without"
        )
    })
}

/// What a disk holds while nobody uses it.
pub struct DiskImage(Image);

impl Default for DiskImage {
    /// An empty one.
    fn default() -> Self {
        Self(Image::new())
    }
}

impl DiskImage {
    /// A copy of it.
    pub fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    /// Writes its files into a directory of another file system.
    pub fn export(&self, path: &Path) -> io::Result<()> {
        self.0.export(image::ROOT, path)
    }
}

/// A disk in use, mounted.
pub struct Disk {
    image: Arc<Mutex<Image>>,
    session: Option<BackgroundSession>,
    at: PathBuf,
}

impl Disk {
    /// Mounts it. This process must not touch its files: it is the one to serve them.
    pub fn mount(medium: DiskImage, at: &Path) -> io::Result<Self> {
        clear(at);
        fs::create_dir_all(at)?;
        let image = Arc::new(Mutex::new(medium.0));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("kvbench-torture".into()), MountOption::NoAtime];
        let session = fuser::spawn_mount(Fuse(Arc::clone(&image)), at, &config)?;
        Ok(Self { image, session: Some(session), at: at.into() })
    }

    /// Cuts the power: nothing that is asked from now on is done.
    pub fn cut(&self, cut: Cut, rng: &mut SmallRng) -> DiskImage {
        let keep = cut.draw(rng);
        DiskImage(lock(&self.image).cut(&keep, rng))
    }

    /// What it holds after an orderly end, with nothing lost.
    pub fn contents(&self) -> DiskImage {
        DiskImage(lock(&self.image).clone())
    }

    /// Everything that was written becomes durable.
    pub fn settle(&self) {
        lock(&self.image).sync_all();
    }

    /// Things go wrong from now on, or right again.
    pub fn trouble(&self, trouble: InjectedFault) {
        lock(&self.image).trouble = trouble;
    }

    /// No room is left from now on.
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

/// Takes away a mount that is still at a place, of this process or of one that was killed.
pub fn clear(at: &Path) {
    while umount2(at, MntFlags::MNT_DETACH).is_ok() {}
    let is_dead = fs::metadata(at).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
    if is_dead {
        let _ = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(at).status();
    }
}
