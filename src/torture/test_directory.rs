//! Where the data are: in a directory, or on a disk that can lose its power.

use super::{
    disk::{Cut, Disk, DiskImage, InjectedFault},
    subject::Mode,
};
use rand::{Rng, rngs::SmallRng};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The directory for the server, in that of the round.
const DATA: &str = "data";
/// Where a disk is mounted, in that of the round.
pub(super) const MOUNT: &str = "disk";

pub(super) struct TestDirectory {
    round: PathBuf,
    /// `None` for a plain directory.
    disk: Option<Disk>,
    /// What the last cut left.
    left: Option<DiskImage>,
}

impl TestDirectory {
    /// An empty one.
    pub fn new(mode: Mode, round: &Path) -> io::Result<Self> {
        fs::create_dir_all(round)?;
        let mut place = Self { round: round.into(), disk: None, left: None };
        match mode {
            Mode::Kill => fs::create_dir_all(place.data())?,
            Mode::Power | Mode::Full | Mode::Eio => place.mount(DiskImage::default())?,
        }
        Ok(place)
    }

    fn mount(&mut self, medium: DiskImage) -> io::Result<()> {
        self.disk = Some(Disk::mount(medium, &self.round.join(MOUNT))?);
        Ok(())
    }

    /// The directory for the server.
    pub fn data(&self) -> PathBuf {
        self.round.join(if self.disk.is_some() { MOUNT } else { DATA })
    }

    /// Takes the power away. The process must be killed, then [`TestDirectory::power_on`].
    pub fn cut(&mut self, cut: Cut, rng: &mut SmallRng) {
        self.left = self.disk.as_ref().map(|disk| disk.cut(cut, rng));
    }

    /// The same disk after a cut, with what is left.
    pub fn power_on(&mut self) -> io::Result<()> {
        let Some(left) = &self.left else { return Ok(()) };
        let medium = left.copy();
        // Before it is mounted again.
        self.disk = None;
        self.mount(medium)
    }

    /// Starts again with nothing.
    pub fn wipe(&mut self) -> io::Result<()> {
        if self.disk.take().is_some() {
            return self.mount(DiskImage::default());
        }
        fs::remove_dir_all(self.data())?;
        fs::create_dir_all(self.data())
    }

    /// All that was written is durable now.
    pub fn settle(&self) {
        self.disk.iter().for_each(Disk::settle);
    }

    /// The disk is full.
    pub fn fill(&self) {
        self.disk.iter().for_each(Disk::fill);
    }

    /// Writes fail, or syncs, or both.
    pub fn fail(&self, rng: &mut SmallRng) {
        let which = rng.random_range(1..=3);
        let mut trouble = InjectedFault::default();
        trouble.writes = which & 1 != 0;
        trouble.syncs = which & 2 != 0;
        self.disk.iter().for_each(|disk| disk.trouble(trouble));
    }

    /// All is well again.
    pub fn stop_errors(&self) {
        self.disk.iter().for_each(|disk| disk.trouble(InjectedFault::default()));
    }

    /// Leaves the files for people to look at: those that the last cut left, or those there are.
    pub fn keep(&mut self) -> io::Result<()> {
        let Some(disk) = self.disk.take() else { return Ok(()) };
        self.left.take().unwrap_or_else(|| disk.contents()).export(&self.round.join(DATA))
    }

    /// Leaves nothing.
    pub fn remove(mut self) -> io::Result<()> {
        self.disk = None;
        fs::remove_dir_all(&self.round)
    }
}
