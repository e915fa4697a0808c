//! Merging: what is alive in a segment is written anew, and the segment is removed.
//!
//! As a rule the oldest one. What a segment removes, by a delete or by a newer value, is in segments before it; when it
//! is the oldest there are none, so nothing that was removed can come back. On a disk that is nearly full it is the
//! segment with the most dead bytes of which the rest still fits. While that has older ones, its deletes are written
//! anew too; and one with a clear waits until it is the oldest: what is before a clear is dead, and needs no space.
//!
//! Before a segment goes, everything that was written is synced: what was moved, and the writes for which other values
//! were not.

use super::{
    hint::{self, Entry, Hint},
    info::NAME,
    key_table::{ValuePosition, record_size},
    reading,
    segment::Segment,
    segment_io::Files,
    space::Fruitless,
};
use crate::engine::{Batch, Error, KeyRange, Result, files, key_value_headers, memory_table::Table};
use std::{
    cmp::Reverse,
    ops::ControlFlow,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Keys that are moved while writers wait.
const KEYS: usize = 512;

/// Bytes of values that are read to be moved together.
const STEP: usize = 128 << 10;

/// The same when more than two thirds of all bytes are dead: writes come faster than they are merged.
const LARGE_STEP: usize = 1 << 20;

/// Shortest rest between two steps.
const PAUSE: Duration = Duration::from_micros(200);

/// Bytes around the records of one step at most.
const FRAME: u64 = 128;

/// Number of bytes that a merge leaves free, for the manifest and the start of a segment.
const MARGIN: u64 = 16 << 10;

/// A full disk is worth a merge that frees this share of a segment, as a divisor.
const LEAST_GAIN: u64 = 8;

/// Whether it is to end.
pub(super) type Stop<'s> = &'s dyn Fn() -> bool;

/// A segment that can be merged.
pub(super) struct Source {
    segment: Arc<Segment>,
    /// The writes of the segment; `None` if a merge needs none of them.
    hint: Option<Hint>,
    is_oldest: bool,
    /// Bytes that a merge frees.
    gain: u64,
}

/// Returns the value to write for a key that is moved: with [`key_value_headers::CORRUPT`] before it if it is corrupt, so that it stays
/// corrupt.
fn value_to_move(from: &Segment, key: &[u8], place: ValuePosition) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    match from.read(place, &mut value) {
        Ok(_) => {}
        Err(error) if error.is_damage() => {
            let error = error.of_value(0, key, true);
            if !key_value_headers::is_corrupt(&value) {
                log::warn!("{NAME}: a merge moves a corrupt value as it is: {error}");
                value.splice(..0, key_value_headers::CORRUPT);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(value)
}

/// A value or a delete that a merge appends again.
struct Moved<'h> {
    key: &'h [u8],
    value: Option<(ValuePosition, Vec<u8>)>,
}

impl Files {
    /// Returns `true` if a merge is worth its work, whatever space there is.
    pub(super) fn is_merge_due(&self) -> bool {
        let (all, live) = self.bytes();
        self.segments.len() > 1 && all.saturating_sub(live) > live.max(self.space.segment())
    }

    /// Returns the segment that is to be merged next, if one is worth it and fits on the disk.
    ///
    /// # Errors
    ///
    /// Fails if a segment cannot be read.
    pub(super) fn next_merge(&self) -> Result<Option<Source>> {
        let (is_due, free) = (self.is_merge_due(), self.space.free());
        if is_due
            && let Some(oldest) = self.segments.oldest()
            && oldest.len <= free.saturating_sub(self.space.reserve())
        {
            return self.source(&oldest, free);
        }
        let (all, live) = self.bytes();
        let now = Fruitless { dead: all.saturating_sub(live), free };
        if !is_due && !self.is_short_of_space() || self.last_search.is_still(now) {
            return Ok(None);
        }
        for (dead, segment) in self.by_dead_bytes() {
            let least = segment.len / LEAST_GAIN;
            if dead >= least
                && let Some(source) = self.source(&segment, free)?
                && source.gain >= least
            {
                return Ok(Some(source));
            }
        }
        self.last_search.set(now);
        Ok(None)
    }

    /// Returns the sealed segments with their dead bytes, the most first.
    fn by_dead_bytes(&self) -> Vec<(u64, Arc<Segment>)> {
        let sealed = self.segments.sealed();
        let mut all: Vec<_> = self.table.look(|table| {
            let dead = |segment: &Arc<Segment>| segment.len.saturating_sub(table.live_in(segment.id));
            sealed.into_iter().map(|segment| (dead(&segment), segment)).collect()
        });
        all.sort_by_key(|(dead, segment)| (Reverse(*dead), segment.id));
        all
    }

    /// Returns what a merge of `segment` needs, or `None` if that does not fit into `free` bytes or has to wait for
    /// older segments.
    ///
    /// # Errors
    ///
    /// Fails if the segment cannot be read.
    pub(super) fn source(&self, segment: &Arc<Segment>, free: u64) -> Result<Option<Source>> {
        let is_oldest = self.segments.oldest().is_some_and(|oldest| oldest.id == segment.id);
        let live = self.table.look(|table| table.live_in(segment.id));
        let mut source = Source { segment: Arc::clone(segment), hint: None, is_oldest, gain: segment.len };
        // After a clear, for one, there is nothing to look for.
        if live == 0 && is_oldest {
            return Ok(Some(source));
        }
        if live > free {
            return Ok(None);
        }
        let hint = match reading::hint_of(segment) {
            Ok(hint) => hint,
            // The table knows the keys that are alive in it. What it deletes is not known, but the oldest needs no deletes.
            Err(error) if error.is_damage() && is_oldest => {
                log::warn!("{NAME}: a merge moves what is alive of a corrupt segment: {error}");
                self.hint_from_table(segment.id)
            }
            Err(error) if error.is_damage() => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(cost) = self.cost(&hint, is_oldest).filter(|cost| cost.saturating_add(MARGIN) <= free)
        else {
            return Ok(None);
        };
        source.hint = Some(hint);
        source.gain = segment.len.saturating_sub(cost);
        Ok(Some(source))
    }

    /// Returns the bytes that a merge of these writes makes anew, or `None` if it has to wait for older segments.
    fn cost(&self, hint: &Hint, is_oldest: bool) -> Option<u64> {
        let (mut all, mut frames, mut since) = (0, 0, None);
        for (number, entry) in hint.entries().enumerate() {
            let bytes = match entry {
                Entry::Put(key, place) if self.is_alive(key, place) => {
                    record_size(key.len(), place.length as usize)
                }
                Entry::Delete(key) if !is_oldest && self.is_absent(key) => record_size(key.len(), 0),
                Entry::Clear if !is_oldest => return None,
                _ => continue,
            };
            all += bytes;
            // A step ends after so many entries, or so many bytes.
            if since.replace(number / KEYS) != Some(number / KEYS) {
                frames += FRAME;
            }
        }
        Some(all + frames + all / (STEP as u64 / FRAME))
    }

    /// Merges all that there is at the begin. Tells whether it came to its end.
    pub(super) fn merge_all(&self, stop: Stop<'_>) -> Result<bool> {
        let last = {
            let mut writer = self.lock_writer();
            self.try_roll(&mut writer)?;
            writer.id
        };
        while let Some(oldest) = self.segments.oldest().filter(|oldest| oldest.id < last) {
            let source = match self.source(&oldest, self.space.free())? {
                Some(source) => source,
                None => self.any_before(last)?,
            };
            if !self.merge(&source, stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a segment older than `last` that fits on the disk.
    fn any_before(&self, last: u32) -> Result<Source> {
        let free = self.space.free();
        for (_, segment) in self.by_dead_bytes().into_iter().filter(|(_, segment)| segment.id < last) {
            if let Some(source) = self.source(&segment, free)? {
                return Ok(source);
            }
        }
        let directory = self.directory.display();
        let detail =
            format!("{directory}: nothing that could be merged fits into the free {free} bytes of the disk");
        Err(Error::Full { engine: NAME, detail })
    }

    /// Merges the oldest segment, whatever space there is. Tells whether it came to its end.
    #[cfg(test)]
    pub(super) fn merge_oldest(&self, stop: Stop<'_>) -> Result<bool> {
        let Some(oldest) = self.segments.oldest() else { return Ok(true) };
        self.source(&oldest, u64::MAX)?.map_or(Ok(true), |source| self.merge(&source, stop))
    }

    /// Merges a segment. Tells whether it came to its end.
    pub(super) fn merge(&self, source: &Source, stop: Stop<'_>) -> Result<bool> {
        let (started, mut moved) = (Instant::now(), 0);
        let segment = &*source.segment;
        if let Some(hint) = &source.hint {
            let mut entries = hint.entries().peekable();
            while entries.peek().is_some() {
                if stop() {
                    return Ok(false);
                }
                moved += self.move_some(source, &mut entries)?;
            }
        }
        self.sync()?;
        while self.segments.is_crowded_by(segment) {
            if stop() {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
        // A thread that has found it in the table goes on reading it.
        segment.hold()?;
        self.forget(segment.id)?;
        // What is left of it is removed by the next start.
        segment.check_path()?;
        files::remove_leftover(&hint::path_of(&segment.path))?;
        files::remove_leftover(&segment.path)?;
        let (name, seconds) = (segment.path.display(), started.elapsed().as_secs_f64());
        log::debug!("merged {name} in {seconds:.2} s: {moved} values moved");
        Ok(true)
    }

    /// Moves what is needed of the next entries. Returns how many that were.
    fn move_some<'h>(&self, source: &Source, entries: &mut impl Iterator<Item = Entry<'h>>) -> Result<usize> {
        let started = Instant::now();
        let (all, live) = self.bytes();
        let is_behind = all.saturating_sub(live) > live.saturating_mul(2).max(2 * self.space.segment());
        let enough = if is_behind { LARGE_STEP } else { STEP };
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for entry in entries.by_ref().take(KEYS) {
            match entry {
                Entry::Put(key, place) if self.is_alive(key, place) => {
                    let value = value_to_move(&source.segment, key, place)?;
                    bytes += value.len();
                    writes.push(Moved { key, value: Some((place, value)) });
                }
                Entry::Delete(key) if !source.is_oldest && self.is_absent(key) => {
                    writes.push(Moved { key, value: None });
                }
                _ => {}
            }
            if bytes >= enough {
                break;
            }
        }
        if writes.is_empty() {
            return Ok(0);
        }
        let moved = self.write_anew(&writes)?;
        if !is_behind {
            // No more than half of the time, so that others have the disk.
            thread::sleep(started.elapsed().max(PAUSE));
        }
        Ok(moved)
    }

    /// Returns the keys of the table whose values are in segment `id`, without what that segment deletes: for the oldest
    /// segment that is not needed.
    fn hint_from_table(&self, id: u32) -> Hint {
        let mut hint = Hint::default();
        let mut add = |key: &[u8], place: &[u8]| {
            if let Some(place) = ValuePosition::of(place).filter(|place| place.segment == id) {
                hint.put(key, place);
            }
            ControlFlow::Continue(())
        };
        self.table.scan_in_steps(KeyRange::ALL, &mut add, &mut || ControlFlow::Continue(()));
        hint
    }

    fn is_alive(&self, key: &[u8], place: ValuePosition) -> bool {
        self.table.look(|table| table.get(key).and_then(ValuePosition::of)) == Some(place)
    }

    fn is_absent(&self, key: &[u8]) -> bool {
        self.table.look(|table| table.get(key).is_none())
    }

    /// Writes what is still needed, as any other write.
    fn write_anew(&self, writes: &[Moved<'_>]) -> Result<usize> {
        let mut batch = Batch::with_capacity(writes.len());
        let mut writer = self.lock_writer();
        for Moved { key, value } in writes {
            match value {
                Some((place, value)) if self.is_alive(key, *place) => batch.put(key, value),
                None if self.is_absent(key) => batch.delete(key),
                _ => {}
            }
        }
        if !batch.is_empty() {
            let _at_work = self.write(&mut writer, &batch, false)?;
        }
        Ok(batch.len())
    }
}
