//! Directory of the data of a round: plain, or on a simulated disk.

use super::{
    disk::{Cut, Disk, DiskImage, InjectedFault},
    options::Mode,
};
use rand::{Rng, rngs::SmallRng};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Name, in the directory of a round, of the server's data directory if there is no simulated disk, and of the copy of
/// the simulated disk of a failed round.
const DATA: &str = "data";
/// Name of the mount point of the simulated disk in the directory of the round.
pub(super) const MOUNT: &str = "disk";
/// Name of the file with the description of the failure in the directory of a failed round.
pub(super) const FAILURE_FILE: &str = "fault.txt";

pub(super) struct TestDirectory {
    round: PathBuf,
    /// Simulated disk that holds the data; `None` for a plain directory.
    disk: Option<Disk>,
    /// Disk contents that the last kill or power cut has left; `None` before the first fault, and for a plain directory.
    left: Option<DiskImage>,
}

impl TestDirectory {
    /// Creates an empty data directory for a round, on a simulated disk unless the injected fault is [`Mode::Kill`].
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

    /// Returns the path of the server's data directory.
    pub fn data(&self) -> PathBuf {
        self.round.join(if self.disk.is_some() { MOUNT } else { DATA })
    }

    /// Cuts the power of the simulated disk. Then the server must be killed, and [`TestDirectory::power_on`] called.
    pub fn cut(&mut self, cut: Cut, rng: &mut SmallRng) {
        self.left = self.disk.as_ref().map(|disk| disk.cut(cut, rng));
    }

    /// Records the contents of the simulated disk after the server was killed, for [`TestDirectory::keep`]; no effect on
    /// a plain directory.
    pub fn record_contents(&mut self) {
        self.left = self.disk.as_ref().map(Disk::contents);
    }

    /// Mounts the disk again with what the power cut has left on it; no effect on a plain directory.
    pub fn power_on(&mut self) -> io::Result<()> {
        let Some(left) = &self.left else { return Ok(()) };
        let medium = left.copy();
        // The disk must be unmounted before it is mounted again.
        self.disk = None;
        self.mount(medium)
    }

    /// Replaces the server's data by an empty directory.
    pub fn wipe(&mut self) -> io::Result<()> {
        if self.disk.take().is_some() {
            return self.mount(DiskImage::default());
        }
        fs::remove_dir_all(self.data())?;
        fs::create_dir_all(self.data())
    }

    /// Makes all written data on a simulated disk durable; no effect on a plain directory.
    pub fn settle(&self) {
        self.disk.iter().for_each(Disk::settle);
    }

    /// Makes a simulated disk full; no effect on a plain directory.
    pub fn fill(&self) {
        self.disk.iter().for_each(Disk::fill);
    }

    /// Makes writes, syncs or both (at random) fail on a simulated disk; no effect on a plain directory.
    pub fn fail(&self, rng: &mut SmallRng) {
        let which = rng.random_range(1..=3);
        let mut trouble = InjectedFault::default();
        trouble.writes = which & 1 != 0;
        trouble.syncs = which & 2 != 0;
        self.disk.iter().for_each(|disk| disk.trouble(trouble));
    }

    /// Stops the errors and the lack of space of a simulated disk.
    pub fn stop_errors(&self) {
        self.disk.iter().for_each(|disk| disk.trouble(InjectedFault::default()));
    }

    /// Copies the files of a simulated disk to the data directory, where people can inspect them: as the last kill or
    /// power cut left them, or the current ones if there was no fault. Leaves a plain directory as it is.
    pub fn keep(&mut self) -> io::Result<()> {
        let Some(disk) = self.disk.take() else { return Ok(()) };
        self.left.take().unwrap_or_else(|| disk.contents()).export(&self.round.join(DATA))
    }

    /// Removes the directory of the round with all its files.
    pub fn remove(mut self) -> io::Result<()> {
        self.disk = None;
        fs::remove_dir_all(&self.round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Writes `text` to the file `file` of the server's data. This process serves the disk, but in another thread. A child
    /// process would share the locks that other tests of this program hold, from its fork to the start of its program.
    fn write(place: &TestDirectory, text: &str) {
        fs::write(place.data().join("file"), text).unwrap();
    }

    #[test]
    fn kept_files_are_from_the_last_fault() {
        let dir = tempfile::tempdir().unwrap();
        let kept = |mut place: TestDirectory| {
            place.keep().unwrap();
            fs::read_to_string(place.round.join(DATA).join("file")).unwrap()
        };
        let after_a_cut = |name| {
            let mut place = TestDirectory::new(Mode::Full, &dir.path().join(name)).unwrap();
            write(&place, "cut");
            place.settle();
            place.cut(Cut::Drop, &mut SmallRng::seed_from_u64(1));
            place.power_on().unwrap();
            write(&place, "after the cut");
            place
        };
        assert_eq!(kept(after_a_cut("cut")), "cut");
        let mut place = after_a_cut("kill");
        place.record_contents();
        write(&place, "after the kill");
        assert_eq!(kept(place), "after the cut");
    }
}
