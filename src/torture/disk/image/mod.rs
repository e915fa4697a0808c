//! All files and directories of a simulated disk, as programs see them and as the medium holds them.
//!
//! A change of names stays in a journal until one of its directories is synced, or a later change that depends on it
//! leaves the journal. A rename is one change, also between two directories, since every journaling file system makes
//! a rename atomic.

#[cfg(test)]
mod tests;

use super::{
    cut::Keep,
    node::{Dir, Ino, Kind, Node},
    simulated_file::{self, File},
};
use nix::errno::Errno;
use rand::{Rng, rngs::SmallRng};
use std::{
    collections::{BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::FileExt,
    path::Path,
};

pub(super) type Result<T> = std::result::Result<T, Errno>;

/// Inode number of the root directory of the simulated disk.
pub(super) const ROOT: Ino = 1;

/// Errors that the simulated disk returns on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct InjectedFault {
    /// Maximum number of used pages of the disk; `None` for no limit.
    pub(super) limit: Option<u64>,
    /// `true` if all writes to the disk fail.
    pub writes: bool,
    /// `true` if all syncs of the disk fail.
    pub syncs: bool,
}

/// Change of one name in a directory of the simulated disk: it is added or, without a target, removed.
#[derive(Clone, Debug)]
struct Edit {
    dir: Ino,
    name: OsString,
    target: Option<Ino>,
}

/// State of the simulated file system.
#[derive(Clone, Debug)]
pub(super) struct Image {
    nodes: HashMap<Ino, Node>,
    next: Ino,
    /// Changes of names that are not on the medium yet, in order. A change reaches the medium as a whole or not at
    /// all.
    journal: Vec<Vec<Edit>>,
    used: u64,
    pub trouble: InjectedFault,
    /// `true` if the power of the simulated disk is off.
    pub is_off: bool,
}

impl Image {
    pub fn new() -> Self {
        let kind = Kind::Dir(Dir::default());
        let root = Node { kind, mode: 0o755, links: 1, durable_links: 1, pending: 0, opens: 0 };
        let (journal, trouble) = Default::default();
        let nodes = HashMap::from([(ROOT, root)]);
        Self { nodes, next: ROOT + 1, journal, used: 0, trouble, is_off: false }
    }

    pub fn node(&self, ino: Ino) -> Result<&Node> {
        self.nodes.get(&ino).ok_or(Errno::ENOENT)
    }

    fn node_mut(&mut self, ino: Ino) -> Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(Errno::ENOENT)
    }

    pub fn file(&self, ino: Ino) -> Result<&File> {
        match &self.node(ino)?.kind {
            Kind::File(file) => Ok(file),
            Kind::Dir(_) => Err(Errno::EISDIR),
        }
    }

    fn file_mut(&mut self, ino: Ino) -> Result<&mut File> {
        match &mut self.node_mut(ino)?.kind {
            Kind::File(file) => Ok(file),
            Kind::Dir(_) => Err(Errno::EISDIR),
        }
    }

    pub fn dir(&self, ino: Ino) -> Result<&Dir> {
        match &self.node(ino)?.kind {
            Kind::Dir(dir) => Ok(dir),
            Kind::File(_) => Err(Errno::ENOTDIR),
        }
    }

    fn dir_mut(&mut self, ino: Ino) -> Result<&mut Dir> {
        match &mut self.node_mut(ino)?.kind {
            Kind::Dir(dir) => Ok(dir),
            Kind::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub fn lookup(&self, dir: Ino, name: &OsStr) -> Result<Ino> {
        self.dir(dir)?.names.get(name).map(|(ino, _)| *ino).ok_or(Errno::ENOENT)
    }

    /// Returns the number of pages of the simulated disk that files use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Makes the simulated disk full: no page is free any more.
    pub fn fill(&mut self) {
        self.trouble.limit = Some(self.used);
    }

    fn is_full(&self) -> bool {
        self.trouble.limit.is_some_and(|limit| self.used >= limit)
    }

    /// Changes a file with `change`, and updates the number of used pages of the disk.
    fn change<T>(&mut self, ino: Ino, change: impl FnOnce(&mut File) -> T) -> Result<T> {
        let file = self.file_mut(ino)?;
        let before = file.used();
        let outcome = change(file);
        let after = file.used();
        self.used = (self.used + after).saturating_sub(before);
        Ok(outcome)
    }

    /// Writes the bytes `data` to a file, and returns their number. On a full disk, writes fewer: leaves out bytes at
    /// the end, 4 KiB at a time, until the rest fits; fails with `ENOSPC` if nothing is left. Fails with `EIO` if the
    /// disk is set to fail writes.
    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        if self.trouble.writes {
            return Err(Errno::EIO);
        }
        let mut data = data;
        if let Some(limit) = self.trouble.limit {
            let file = self.file(ino)?;
            while self.used + file.needs(offset, data.len() as u64) > limit {
                let shorter = data.len().saturating_sub(simulated_file::PAGE as usize);
                data = data.get(..shorter).unwrap_or_default();
                if data.is_empty() {
                    return Err(Errno::ENOSPC);
                }
            }
        }
        self.change(ino, |file| file.write(offset, data))?;
        Ok(data.len())
    }

    pub fn set_len(&mut self, ino: Ino, len: u64) -> Result<()> {
        self.change(ino, |file| file.set_len(len))
    }

    pub fn set_mode(&mut self, ino: Ino, mode: u32) -> Result<()> {
        self.node_mut(ino)?.mode = mode & 0o7777;
        Ok(())
    }

    /// Extends the file, fills a byte range with zeros, or makes a hole of it, according to the flags `mode` of
    /// `fallocate`. Reserves no space, but extending fails with `ENOSPC` if the disk is full.
    pub fn allocate(&mut self, ino: Ino, offset: u64, len: u64, mode: i32) -> Result<()> {
        if mode & (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let is_hole = mode & libc::FALLOC_FL_PUNCH_HOLE != 0;
        if is_hole || mode & libc::FALLOC_FL_ZERO_RANGE != 0 {
            self.change(ino, |file| file.zero(offset, len))?;
        }
        if is_hole {
            return Ok(());
        }
        if self.is_full() {
            return Err(Errno::ENOSPC);
        }
        let (grows, end) = (mode & libc::FALLOC_FL_KEEP_SIZE == 0, offset + len);
        if grows && self.file(ino)?.len() < end {
            return self.set_len(ino, end);
        }
        Ok(())
    }

    pub fn sync(&mut self, ino: Ino) -> Result<()> {
        let fails = self.trouble.syncs;
        let file = self.file_mut(ino)?;
        if fails {
            file.sync_fails();
            return Err(Errno::EIO);
        }
        file.sync();
        Ok(())
    }

    pub fn sync_range(&mut self, ino: Ino, offset: u64, len: u64) -> Result<()> {
        if self.trouble.syncs {
            return self.sync(ino);
        }
        self.file_mut(ino)?.sync_range(offset, len);
        Ok(())
    }

    /// Makes the names of a directory durable, and the changes that they depend on: earlier changes of each
    /// directory that one of these changes involves.
    pub fn sync_dir(&mut self, dir: Ino) -> Result<()> {
        self.dir(dir)?;
        if self.trouble.syncs {
            return Err(Errno::EIO);
        }
        let mut dirs = BTreeSet::from([dir]);
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for change in std::mem::take(&mut self.journal).into_iter().rev() {
            if change.iter().any(|edit| dirs.contains(&edit.dir)) {
                dirs.extend(change.iter().map(|edit| edit.dir));
                now.push(change);
            } else {
                later.push(change);
            }
        }
        self.journal = later.into_iter().rev().collect();
        now.into_iter().rev().for_each(|change| self.apply(&change));
        Ok(())
    }

    /// Makes all data and names on the simulated disk durable, as after minutes without writes.
    pub fn sync_all(&mut self) {
        std::mem::take(&mut self.journal).iter().for_each(|change| self.apply(change));
        for node in self.nodes.values_mut() {
            if let Kind::File(file) = &mut node.kind {
                file.sync();
            }
        }
    }

    /// Removes all pages but unsynced ones from the simulated page cache.
    pub fn evict(&mut self) {
        for node in self.nodes.values_mut() {
            if let Kind::File(file) = &mut node.kind {
                file.evict();
            }
        }
    }

    /// Writes a change of names to the medium of the simulated disk, so that a power cut does not undo it.
    fn apply(&mut self, change: &[Edit]) {
        for Edit { dir, name, target } in change {
            let Ok(dir) = self.dir_mut(*dir) else { continue };
            let old = match target {
                Some(ino) => dir.durable.insert(name.clone(), *ino),
                None => dir.durable.remove(name),
            };
            if let Some(node) = target.and_then(|ino| self.nodes.get_mut(&ino)) {
                node.durable_links += 1;
                node.pending = node.pending.saturating_sub(1);
            }
            if let Some(ino) = old {
                if let Some(node) = self.nodes.get_mut(&ino) {
                    node.durable_links = node.durable_links.saturating_sub(1);
                }
                self.forget_unused(ino);
            }
        }
    }

    /// Makes a change of names in the simulated file system visible to programs, and adds it to the journal. A later
    /// sync of one of the directories moves it from there to the medium.
    fn enter(&mut self, change: Vec<Edit>) -> Result<()> {
        for Edit { dir, name, target } in &change {
            let old = self.dir(*dir)?.names.get(name).map(|(ino, _)| *ino);
            self.dir_mut(*dir)?.set(name, *target);
            if let Some(node) = target.and_then(|ino| self.nodes.get_mut(&ino)) {
                node.links += 1;
                node.pending += 1;
            }
            if let Some(node) = old.and_then(|ino| self.nodes.get_mut(&ino)) {
                node.links = node.links.saturating_sub(1);
            }
        }
        self.journal.push(change);
        Ok(())
    }

    fn forget_unused(&mut self, ino: Ino) {
        let unused = |node: &Node| node.links + node.durable_links + node.pending + node.opens == 0;
        if self.nodes.get(&ino).is_some_and(unused)
            && let Some(Node { kind: Kind::File(file), .. }) = self.nodes.remove(&ino)
        {
            self.used = self.used.saturating_sub(file.used());
        }
    }

    pub fn create(&mut self, dir: Ino, name: &OsStr, mode: u32, is_dir: bool) -> Result<Ino> {
        if self.lookup(dir, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        if self.is_full() {
            return Err(Errno::ENOSPC);
        }
        let kind = if is_dir { Kind::Dir(Dir::default()) } else { Kind::File(File::default()) };
        let node = Node { kind, mode: mode & 0o7777, links: 0, durable_links: 0, pending: 0, opens: 0 };
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        self.enter(vec![Edit { dir, name: name.into(), target: Some(ino) }])?;
        Ok(ino)
    }

    pub fn link(&mut self, ino: Ino, dir: Ino, name: &OsStr) -> Result<()> {
        self.file(ino)?;
        if self.lookup(dir, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.enter(vec![Edit { dir, name: name.into(), target: Some(ino) }])
    }

    pub fn remove(&mut self, dir: Ino, name: &OsStr, is_dir: bool) -> Result<()> {
        let ino = self.lookup(dir, name)?;
        match (&self.node(ino)?.kind, is_dir) {
            (Kind::Dir(_), false) => return Err(Errno::EISDIR),
            (Kind::File(_), true) => return Err(Errno::ENOTDIR),
            (Kind::Dir(dir), true) if !dir.names.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.enter(vec![Edit { dir, name: name.into(), target: None }])?;
        self.forget_unused(ino);
        Ok(())
    }

    pub fn rename(&mut self, from: (Ino, &OsStr), to: (Ino, &OsStr), replace: bool) -> Result<()> {
        let ino = self.lookup(from.0, from.1)?;
        let old = self.lookup(to.0, to.1).ok();
        if old == Some(ino) {
            return Ok(());
        }
        if let Some(old) = old {
            match (&self.node(old)?.kind, &self.node(ino)?.kind) {
                _ if !replace => return Err(Errno::EEXIST),
                (Kind::Dir(dir), Kind::Dir(_)) if !dir.names.is_empty() => return Err(Errno::ENOTEMPTY),
                (Kind::Dir(_), Kind::File(_)) => return Err(Errno::EISDIR),
                (Kind::File(_), Kind::Dir(_)) => return Err(Errno::ENOTDIR),
                _ => {}
            }
        }
        self.enter(vec![
            Edit { dir: to.0, name: to.1.into(), target: Some(ino) },
            Edit { dir: from.0, name: from.1.into(), target: None },
        ])?;
        old.map_or(Ok(()), |old| {
            self.forget_unused(old);
            Ok(())
        })
    }

    /// Exchanges the files of two names, as one change.
    pub fn exchange(&mut self, one: (Ino, &OsStr), two: (Ino, &OsStr)) -> Result<()> {
        let (first, second) = (self.lookup(one.0, one.1)?, self.lookup(two.0, two.1)?);
        self.enter(vec![
            Edit { dir: one.0, name: one.1.into(), target: Some(second) },
            Edit { dir: two.0, name: two.1.into(), target: Some(first) },
        ])
    }

    pub fn open(&mut self, ino: Ino) -> Result<()> {
        self.node_mut(ino)?.opens += 1;
        Ok(())
    }

    pub fn release(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.opens = node.opens.saturating_sub(1);
        }
        self.forget_unused(ino);
    }

    /// Cuts the power of the simulated disk, and returns what is left on it. This image serves no more calls.
    pub fn cut(&mut self, keep: &Keep, rng: &mut SmallRng) -> Self {
        self.is_off = true;
        let mut left = self.clone();
        let names = if keep.names { rng.random_range(0..=left.journal.len()) } else { 0 };
        let journal = std::mem::take(&mut left.journal);
        journal.iter().take(names).for_each(|change| left.apply(change));
        let mut nodes = HashMap::new();
        left.keep_reachable(ROOT, &mut nodes, keep, rng);
        let used = nodes.values().map(|node: &Node| match &node.kind {
            Kind::File(file) => file.used(),
            Kind::Dir(_) => 0,
        });
        let used = used.sum();
        Self {
            nodes,
            next: self.next,
            journal: Vec::new(),
            used,
            trouble: InjectedFault::default(),
            is_off: false,
        }
    }

    fn keep_reachable(&self, ino: Ino, kept: &mut HashMap<Ino, Node>, keep: &Keep, rng: &mut SmallRng) {
        let Some(node) = self.nodes.get(&ino) else { return };
        if let Some(known) = kept.get_mut(&ino) {
            known.links += 1;
            known.durable_links += 1;
            return;
        }
        let kind = match &node.kind {
            Kind::File(file) => Kind::File(file.after_cut(keep, rng)),
            Kind::Dir(dir) => {
                let mut left = Dir::default();
                left.durable.clone_from(&dir.durable);
                left.durable.retain(|_, target| self.nodes.contains_key(target));
                left.durable.clone().iter().for_each(|(name, target)| left.set(name, Some(*target)));
                Kind::Dir(left)
            }
        };
        kept.insert(ino, Node { kind, mode: node.mode, links: 1, durable_links: 1, pending: 0, opens: 0 });
        if let Kind::Dir(dir) = &node.kind {
            dir.durable.values().for_each(|target| self.keep_reachable(*target, kept, keep, rng));
        }
    }

    /// Writes all files into a directory of another file system, where people can inspect them.
    pub fn export(&self, ino: Ino, path: &Path) -> io::Result<()> {
        let Some(node) = self.nodes.get(&ino) else { return Ok(()) };
        match &node.kind {
            Kind::Dir(dir) => {
                fs::create_dir_all(path)?;
                dir.names.iter().try_for_each(|(name, (ino, _))| self.export(*ino, &path.join(name)))
            }
            Kind::File(file) => {
                let copy = fs::File::create(path)?;
                copy.set_len(file.len())?;
                file.parts().try_for_each(|(offset, bytes)| copy.write_all_at(bytes, offset))
            }
        }
    }
}
