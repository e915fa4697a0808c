//! One file or directory of the simulated disk, as programs see it and as the medium holds it.

use super::simulated_file::File;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// Inode number of the simulated disk.
pub(super) type Ino = u64;

/// File or directory of the simulated disk.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub mode: u32,
    /// Number of names of the file or directory that programs see.
    pub links: u32,
    /// Number of names of the file or directory on the medium.
    pub durable_links: u32,
    /// Number of names of the file or directory that were added in the journal, and are not on the medium yet.
    pub pending: u32,
    pub opens: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    File(File),
    Dir(Dir),
}

/// Directory of the simulated disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Dir {
    /// Names that programs see, each with its inode number and its position in a listing.
    pub names: BTreeMap<OsString, (Ino, u64)>,
    order: BTreeMap<u64, OsString>,
    pub durable: BTreeMap<OsString, Ino>,
}

/// First position of a listing of a directory after those of `.` and `..`.
const FIRST_PLACE: u64 = 3;

impl Dir {
    pub fn set(&mut self, name: &OsStr, target: Option<Ino>) {
        if let Some((_, place)) = self.names.remove(name) {
            self.order.remove(&place);
        }
        if let Some(ino) = target {
            let place = self.order.last_key_value().map_or(FIRST_PLACE, |(last, _)| last + 1);
            self.names.insert(name.into(), (ino, place));
            self.order.insert(place, name.into());
        }
    }

    /// Returns the entries of the directory behind the position `place` of its listing: position, inode number and
    /// name.
    pub fn after(&self, place: u64) -> impl Iterator<Item = (u64, Ino, &OsStr)> {
        let behind = self.order.range(place + 1..);
        behind.filter_map(|(place, name)| Some((*place, self.names.get(name)?.0, name.as_os_str())))
    }
}
