//! Search for keys whose values are corrupt, for `kvbench check`.

use super::{
    hint::Hint,
    description::NAME,
    key_table::{KeyTable, ValuePosition},
    read_sealed,
    segment::{OpenFiles, Segment},
};
use crate::engine::{
    Error, KeyRange, Result, WriteOp,
    aof::{ReplayEnd, Restored, corrupt_values},
    key_value_headers,
    memory_table::{Table, WalkControl},
};
use std::{collections::BTreeSet, path::Path};

/// Maximum number of keys of corrupt values that an error names.
const MAX_NAMED_KEYS: usize = 1000;

/// Numbers of the segments that hold, or may hold, corrupt values.
#[derive(Default)]
pub(super) struct Corrupt {
    segments: BTreeSet<u32>,
    /// Error of the first corrupt segment.
    first: Option<Error>,
}

impl Corrupt {
    /// Reads a sealed segment itself, not its hint file, and notes it if it holds corrupt values. Returns its writes
    /// and its number of records.
    ///
    /// # Errors
    ///
    /// Fails if the segment cannot be read, or if anything but values is corrupt.
    pub(super) fn read(&mut self, segment: &Segment) -> Result<(Hint, u64)> {
        let (hint, tail) =
            read_sealed::read(segment, &mut |restored| self.note_moved(segment.id, restored))?;
        self.note_tail((segment.id, &segment.path), &tail);
        Ok((hint, tail.records))
    }

    /// Records `segment` if its replay found corrupt values.
    pub(super) fn note_tail(&mut self, (segment, path): (u32, &Path), tail: &ReplayEnd) {
        if tail.corrupt > 0 {
            self.note(segment, Error::library(NAME, corrupt_values(path, tail.corrupt)));
        }
    }

    /// Records `segment` if `restored` holds a value that was corrupt before a merge moved it there.
    pub(super) fn note_moved(&mut self, segment: u32, restored: &Restored<'_>) {
        let Restored::Writes(batch, _) = restored else { return };
        if batch
            .ops()
            .iter()
            .any(|op| matches!(op, WriteOp::Put { value, .. } if key_value_headers::is_corrupt(value)))
        {
            self.segments.insert(segment);
        }
    }

    /// Records a corrupt segment. The first recorded `error` is kept.
    pub(super) fn note(&mut self, segment: u32, error: Error) {
        self.segments.insert(segment);
        self.first.get_or_insert(error);
    }

    /// Reads the values of all keys of `table` that are in the recorded segments of `directory`.
    ///
    /// # Errors
    ///
    /// Fails if a segment was recorded with an error, or if a value is corrupt; names the keys of corrupt values.
    pub(super) fn end(self, directory: &Path, table: &KeyTable) -> Result<()> {
        let (mut count, mut names, mut buffer) = (0_usize, Vec::new(), Vec::new());
        let files = OpenFiles::new(0);
        for &id in &self.segments {
            let segment = Segment::sealed(directory, id, &files)?;
            table.walk(KeyRange::ALL, &mut Default::default(), &mut |key, place| {
                let place = ValuePosition::of(place).filter(|place| place.segment == id);
                if let Some(Err(error)) = place.map(|place| segment.read(place, &mut buffer).map(drop)) {
                    count += 1;
                    if names.len() < MAX_NAMED_KEYS {
                        names.push(error.of_value(0, key, true).to_string());
                    }
                }
                WalkControl::On
            });
        }
        let more = count.saturating_sub(names.len());
        if more > 0 {
            names.push(format!("{more} more values"));
        }
        match (self.first, count) {
            (None, 0) => Ok(()),
            (Some(first), 0) => Err(first.with_remark(NAME, "no value of a key that exists is corrupt")),
            (_, count) => Err(Error::library(NAME, format!("{count} corrupt values: {}", names.join("; ")))),
        }
    }
}
