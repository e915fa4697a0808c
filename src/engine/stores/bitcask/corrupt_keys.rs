//! Search for keys whose values are corrupt, for `kvbench check`.

use super::{
    description::NAME,
    hint::Hint,
    key_table::{KeyTable, ValuePosition},
    segment::{OpenFiles, Segment},
    segment_hint,
};
use crate::engine::{
    Error, KeyRange, Result, WriteOp,
    aof::{ReplayEnd, Restored, corrupt_values},
    key_value_headers,
    memory_table::{ScanControl, Table},
};
use std::{collections::BTreeSet, path::Path};

/// Maximum number of keys of corrupt values that an error names.
const MAX_NAMED_KEYS: usize = 1000;

/// Numbers of the segments in which `kvbench check` has found corruption, whose values must be read one by one.
#[derive(Default)]
pub(super) struct Corrupt {
    segments: BTreeSet<u32>,
    /// First error of a corrupt segment; `None` if there is none, or only values that a merge moved although they were
    /// corrupt.
    first: Option<Error>,
}

impl Corrupt {
    /// Reads the whole file of a sealed segment, not its hint file, and records the segment if it holds corrupt values.
    /// Returns its writes (with positions in place of values) and its number of records.
    ///
    /// # Errors
    ///
    /// Fails if the segment cannot be read, or if anything but values is corrupt.
    pub(super) fn read(&mut self, segment: &Segment) -> Result<(Hint, u64)> {
        let (hint, tail) =
            segment_hint::read_segment(segment, &mut |restored| self.note_moved(segment.id, restored))?;
        self.note_tail((segment.id, &segment.path), &tail);
        Ok((hint, tail.records))
    }

    /// Records `segment` as corrupt, with an error, if its replay, whose result is `tail`, found corrupt values.
    pub(super) fn note_tail(&mut self, (segment, path): (u32, &Path), tail: &ReplayEnd) {
        if tail.corrupt > 0 {
            self.note(segment, Error::library(NAME, corrupt_values(path, tail.corrupt)));
        }
    }

    /// Records `segment` as corrupt, without an error, if `restored`, a part of its replay, holds a value that was
    /// corrupt before a merge moved it there.
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

    /// Records the segment with the number `segment` as corrupt. Of the errors of all segments only the first is kept.
    pub(super) fn note(&mut self, segment: u32, error: Error) {
        self.segments.insert(segment);
        self.first.get_or_insert(error);
    }

    /// Reads the value of each key of `table` that is in one of the segments recorded as corrupt, to find the keys of
    /// corrupt values.
    ///
    /// # Errors
    ///
    /// Fails if a segment was recorded with an error, or if a value is corrupt; names the keys of corrupt values. Fails
    /// with the error of a value that cannot be read for another reason.
    pub(super) fn end(self, directory: &Path, table: &KeyTable) -> Result<()> {
        let (mut count, mut names, mut buffer) = (0_usize, Vec::new(), Vec::new());
        let files = OpenFiles::new(0);
        for &id in &self.segments {
            let segment = Segment::sealed(directory, id, &files)?;
            let mut unread = None;
            table.scan_step(KeyRange::ALL, &mut Default::default(), &mut |key, place| {
                let place = ValuePosition::of(place).filter(|place| place.segment == id);
                let Some(Err(error)) = place.map(|place| segment.read(place, &mut buffer).map(drop)) else {
                    return ScanControl::Continue;
                };
                let error = error.of_value(0, key, true);
                if !error.is_corruption() {
                    unread = Some(error);
                    return ScanControl::Stop;
                }
                count += 1;
                if names.len() < MAX_NAMED_KEYS {
                    names.push(error.to_string());
                }
                ScanControl::Continue
            });
            if let Some(error) = unread {
                return Err(error);
            }
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
