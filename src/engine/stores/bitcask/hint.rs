//! Hint files of `bitcask`: the keys and value positions of a segment, from which a start fills the key table.

use super::{
    key_table::{KeyTable, POSITION_LEN, ValuePosition, sum_of},
    segment::{Segment, number_of},
};
use crate::engine::{
    Error, Result, WriteOp,
    aof::{Restored, Storage, verbatim_id},
    files,
    memory_table::Table,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// First bytes of a hint file.
const MAGIC: [u8; 8] = *b"KVBHINT1";

/// Length of the header of a hint file, in bytes: [`MAGIC`], the random id of the segment's file, the segment's
/// length.
const HEADER_LEN: usize = MAGIC.len() + 4 + 8;

/// Number of writes of a hint file that are applied to the key table in one call.
const BATCH_WRITES: usize = 64;

const PUT: u8 = b'P';
const DELETE: u8 = b'D';
const CLEAR: u8 = b'C';

/// Encoded writes of one segment of `bitcask`, in the order of execution: for each its kind, the key's length, the key,
/// and for a put the position of the value. A clear has its kind only.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hint(Vec<u8>);

/// Write of a segment as a hint file holds it: a put has the position of its value in place of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'h> {
    Put(&'h [u8], ValuePosition),
    Delete(&'h [u8]),
    Clear,
}

impl Hint {
    /// Appends the writes in `restored`, a part of the replay of segment `id`, or removes all writes if the replay
    /// starts again.
    pub(super) fn restore(&mut self, id: u32, restored: &Restored<'_>) {
        let Restored::Writes(batch, part) = restored else { return self.0.clear() };
        for op in batch.ops() {
            match *op {
                WriteOp::Put { key, value } => {
                    let (offset, length) = (part.place(value), value.len() as u32);
                    let sum = part.sum(value).unwrap_or_else(|| crc32fast::hash(value));
                    let place = ValuePosition { segment: id, offset, length, sum: sum_of(value, sum) };
                    self.put(key, place);
                }
                WriteOp::Delete { key } => self.push(DELETE, key),
                WriteOp::Clear => self.0.push(CLEAR),
            }
        }
    }

    /// Appends a put of `key`, whose value is stored at `place`.
    pub(super) fn put(&mut self, key: &[u8], place: ValuePosition) {
        self.push(PUT, key);
        self.0.extend_from_slice(&place.to_bytes());
    }

    fn push(&mut self, what: u8, key: &[u8]) {
        self.0.push(what);
        // A key has at most 512 MiB.
        self.0.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.0.extend_from_slice(key);
    }

    /// Returns the decoded writes in the order of execution, up to the first that is incomplete or invalid.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (entry, after) = split_entry(rest)?;
            rest = after;
            Some(entry)
        })
    }

    /// Applies the writes of the segment, in the order of execution, to `table`.
    pub(super) fn apply(&self, table: &mut KeyTable) {
        let (mut entries, mut places) = (Vec::with_capacity(BATCH_WRITES), Vec::with_capacity(BATCH_WRITES));
        for entry in self.entries() {
            match entry {
                Entry::Put(key, place) => {
                    entries.push((key, true));
                    places.push(place.to_bytes());
                }
                Entry::Delete(key) => entries.push((key, false)),
                Entry::Clear => {
                    *table = KeyTable::default();
                    entries.clear();
                    places.clear();
                }
            }
            if entries.len() == BATCH_WRITES {
                write(table, &mut entries, &mut places);
            }
        }
        write(table, &mut entries, &mut places);
    }

    /// Writes the hint file of `segment`, which is sealed: to a new file, which is synced and then renamed.
    ///
    /// # Errors
    ///
    /// Fails if the segment was moved or cannot be read, or if the operating system refuses.
    pub(super) fn write(&self, segment: &Segment) -> Result<()> {
        let (path, fresh) = (path_of(&segment.path), fresh_path_of(&segment.path));
        let id = verbatim_id(&*segment.file()?).map_err(Error::io("read", &segment.path))?;
        segment.check_path()?;
        let written = write_file(&fresh, &[&MAGIC, &id.to_le_bytes(), &segment.len.to_le_bytes(), &self.0]);
        if let Err(error) = written {
            let _best_effort = files::remove_leftover(&fresh);
            return Err(Error::io("write", fresh)(error));
        }
        // The directory may have been moved during the sync.
        segment.check_path()?;
        // The directory is not synced: if a power cut undoes the rename, the next start reads the segment instead.
        fs::rename(&fresh, &path).map_err(Error::io("rename", &fresh))
    }

    /// Reads the hint file of the segment at the path `segment`, which is open as `storage`. Returns `None` if the hint
    /// file does not exist, is corrupt, or was written for another segment or another length of it.
    pub(super) fn read(segment: &Path, storage: &dyn Storage) -> Option<Self> {
        let mut bytes = fs::read(path_of(segment)).ok()?;
        let (rest, sum) = bytes.split_last_chunk()?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (id, len) = (verbatim_id(storage).ok()?, fs::metadata(segment).ok()?.len());
        let head = [&MAGIC[..], &id.to_le_bytes(), &len.to_le_bytes()].concat();
        if !rest.starts_with(&head) {
            return None;
        }
        bytes.truncate(bytes.len() - size_of::<u32>());
        bytes.drain(..HEADER_LEN);
        Some(Self(bytes))
    }
}

fn write_file(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let (mut file, mut sum) = (File::create(path)?, crc32fast::Hasher::new());
    for part in parts {
        sum.update(part);
        file.write_all(part)?;
    }
    file.write_all(&sum.finalize().to_le_bytes())?;
    file.sync_all()
}

fn split_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (what, rest) = bytes.split_first()?;
    if *what == CLEAR {
        return Some((Entry::Clear, rest));
    }
    let (length, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    match *what {
        PUT => {
            let (place, rest) = rest.split_at_checked(POSITION_LEN)?;
            Some((Entry::Put(key, ValuePosition::of(place)?), rest))
        }
        DELETE => Some((Entry::Delete(key), rest)),
        _ => None,
    }
}

fn write(table: &mut KeyTable, entries: &mut Vec<(&[u8], bool)>, places: &mut Vec<[u8; POSITION_LEN]>) {
    let mut next = places.iter();
    let ops: Vec<_> = entries
        .drain(..)
        .map(|(key, is_put)| match is_put.then(|| next.next()).flatten() {
            Some(place) => WriteOp::Put { key, value: place },
            None => WriteOp::Delete { key },
        })
        .collect();
    // Positions are small, so the list of large values that were removed stays empty.
    table.write(&ops, &mut Vec::new());
    drop(ops);
    places.clear();
}

/// Returns the path of a segment's hint file.
pub(super) fn path_of(segment: &Path) -> PathBuf {
    segment.with_extension(SUFFIX)
}

/// Returns the path of a segment's hint file while it is being written.
fn fresh_path_of(segment: &Path) -> PathBuf {
    segment.with_extension(FRESH)
}

const SUFFIX: &str = "hint";
const FRESH: &str = "hint-new";

/// Returns the number of the segment whose hint file is called `name`, and `true` if the hint file is finished, `false`
/// if it is still being written. `None` if `name` is no name of a hint file.
pub(super) fn segment_of(name: &str) -> Option<(u32, bool)> {
    match number_of(name)? {
        (id, SUFFIX) => Some((id, true)),
        (id, FRESH) => Some((id, false)),
        _ => None,
    }
}
