//! Merge of `bitcask`: appends the live values of a sealed segment to the active one, then removes the sealed segment.
//!
//! Usually the oldest segment is merged. A delete or a newer value overrides values in older segments only, and the
//! oldest has none before it: so its deletes can be dropped, and no removed value can come back. On a disk that is
//! nearly full, the segment with the most dead bytes is merged whose live values still fit. While there are older
//! segments, its deletes are appended too. A segment with a clear is merged only when it is the oldest: all older
//! segments are dead then, and their merges need no space.
//!
//! Before a segment is removed, all writes are synced: the moved values, and the newer writes that made other values
//! of the segment dead.

use super::{
    description::NAME,
    hint::{self, Entry, Hint},
    key_table::{ValuePosition, record_size},
    reads_and_writes::Files,
    segment::Segment,
    segment_hint,
    space_reserve::Fruitless,
};
use crate::engine::{
    Batch, Error, KeyRange, Result, aof::MAX_STORED_VALUE, files, key_value_headers, memory_table::Table,
};
use std::{
    cmp::Reverse,
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Maximum number of writes of a segment that one step of a merge examines. Clients' writes wait while a step appends.
const KEYS_PER_STEP: usize = 512;

/// Size in bytes of the values after which one step of a merge ends; the value that reaches this size is still moved.
const STEP_BYTES: usize = 128 << 10;

/// Size in bytes of the values after which one step of a merge ends while more than two thirds of all bytes, and more
/// than the length of two segments, are dead: clients' writes are then faster than merges.
const LARGE_STEP_BYTES: usize = 1 << 20;

/// Minimum pause after a step of a merge that has values or deletes to append, unless clients' writes are faster than
/// merges; also the interval at which a merge checks whether running scans have ended.
const PAUSE: Duration = Duration::from_micros(200);

/// Maximum number of bytes that one step of a merge appends to the active segment in addition to the records of the
/// keys.
const MAX_STEP_OVERHEAD: u64 = 128;

/// Number of bytes that a merge leaves free on the disk, for the manifest and the start of a segment.
const FREE_MARGIN: u64 = 16 << 10;

/// Minimum share of a segment's length that a merge must free to be worth its work on a nearly full disk, as a divisor:
/// an eighth.
const MIN_GAIN: u64 = 8;

/// Function that a merge calls before each of its steps, and repeatedly while the merge waits for scans to end. The
/// merge ends early if the function returns `true`.
pub(super) type Stop<'s> = &'s dyn Fn() -> bool;

/// Segment to merge, and what the merge needs to know of it.
pub(super) struct Source {
    segment: Arc<Segment>,
    /// Writes of the segment to merge, with positions in place of values; `None` if none of its values is live and the
    /// merge only has to remove the segment.
    hint: Option<Hint>,
    is_oldest: bool,
    /// Number of bytes on disk that a merge of the segment frees: its length minus what the merge appends.
    gain: u64,
}

/// Reads the value of `key` at `place`, to be appended by a merge. A corrupt value is returned with the prefix
/// [`key_value_headers::CORRUPT`], so that reads of it still fail.
fn value_to_move(from: &Segment, key: &[u8], place: ValuePosition) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    match from.read(place, &mut value) {
        Ok(_) => {}
        Err(error) if error.is_corruption() => {
            let error = error.of_value(0, key, true);
            if !key_value_headers::is_corrupt(&value) {
                log::warn!("{NAME}: a merge moves a corrupt value as it is: {error}");
                mark_as_corrupt(&mut value, MAX_STORED_VALUE);
            }
        }
        Err(error) => return Err(error.of_value(0, key, true)),
    }
    Ok(value)
}

/// Puts the prefix [`key_value_headers::CORRUPT`] before a corrupt value, and cuts the result off at `max` bytes.
fn mark_as_corrupt(value: &mut Vec<u8>, max: usize) {
    value.splice(..0, key_value_headers::CORRUPT);
    value.truncate(max);
}

/// Write that a merge appends again: a put with the old position of the value and the value, or a delete (`None`).
struct Moved<'h> {
    key: &'h [u8],
    value: Option<(ValuePosition, Vec<u8>)>,
}

impl Files {
    /// Returns `true` if there is a sealed segment, and the dead bytes of all segments exceed both the live bytes and
    /// the maximum length of a segment: a merge is then worth its work.
    pub(super) fn is_merge_due(&self) -> bool {
        let (all, live) = self.bytes();
        self.segments.len() > 1 && all.saturating_sub(live) > live.max(self.space.segment())
    }

    /// Returns the segment that the background thread must merge next. Returns `None` if too few bytes are dead for a
    /// merge and the disk is not short of space, or if no merge fits on the disk and frees enough.
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
            let least = segment.len / MIN_GAIN;
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

    /// Returns the sealed segments with their numbers of dead bytes, in descending order of that number.
    fn by_dead_bytes(&self) -> Vec<(u64, Arc<Segment>)> {
        let sealed = self.segments.sealed();
        let mut all: Vec<_> = self.table.look(|table| {
            let dead = |segment: &Arc<Segment>| segment.len.saturating_sub(table.live_in(segment.id));
            sealed.into_iter().map(|segment| (dead(&segment), segment)).collect()
        });
        all.sort_by_key(|(dead, segment)| (Reverse(*dead), segment.id));
        all
    }

    /// Returns what a merge of `segment` needs. Returns `None` if the live values do not fit into `free` bytes, or if
    /// older segments must be merged first because this one contains a clear or is corrupt.
    ///
    /// # Errors
    ///
    /// Fails if the segment cannot be read.
    pub(super) fn source(&self, segment: &Arc<Segment>, free: u64) -> Result<Option<Source>> {
        let is_oldest = self.segments.oldest().is_some_and(|oldest| oldest.id == segment.id);
        let live = self.table.look(|table| table.live_in(segment.id));
        let mut source = Source { segment: Arc::clone(segment), hint: None, is_oldest, gain: segment.len };
        // No value is live, for example after a clear: the hint file need not be read.
        if live == 0 && is_oldest {
            return Ok(Some(source));
        }
        if live > free {
            return Ok(None);
        }
        let hint = match segment_hint::hint_of(segment) {
            Ok(hint) => hint,
            // The key table knows the live values of the segment. The deletes of the segment are lost, but a merge of
            // the oldest segment does not need them.
            Err(error) if error.is_corruption() && is_oldest => {
                log::warn!("{NAME}: a merge moves the live values of a corrupt segment: {error}");
                self.hint_from_table(segment.id)
            }
            Err(error) if error.is_corruption() => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(cost) = self.cost(&hint, is_oldest).filter(|cost| cost.saturating_add(FREE_MARGIN) <= free)
        else {
            return Ok(None);
        };
        source.hint = Some(hint);
        source.gain = segment.len.saturating_sub(cost);
        Ok(Some(source))
    }

    /// Returns the number of bytes that a merge of the writes in `hint` appends to the log, or `None` if older segments
    /// must be merged first because `hint` contains a clear.
    fn cost(&self, hint: &Hint, is_oldest: bool) -> Option<u64> {
        let (mut all, mut frames, mut since) = (0, 0, None);
        for (number, entry) in hint.entries().enumerate() {
            let bytes = match entry {
                Entry::Put(key, place) if self.is_live(key, place) => {
                    record_size(key.len(), place.length as usize)
                }
                Entry::Delete(key) if !is_oldest && self.is_absent(key) => record_size(key.len(), 0),
                Entry::Clear if !is_oldest => return None,
                _ => continue,
            };
            all += bytes;
            // Each step adds a frame: this counts the steps that end by their number of entries, the sum below those
            // that end by their size.
            if since.replace(number / KEYS_PER_STEP) != Some(number / KEYS_PER_STEP) {
                frames += MAX_STEP_OVERHEAD;
            }
        }
        Some(all + frames + all / (STEP_BYTES as u64 / MAX_STEP_OVERHEAD))
    }

    /// Seals the active segment and merges all sealed segments, whatever number of their bytes is dead. Returns `false`
    /// if `stop` ended the merges early, otherwise `true`.
    pub(super) fn merge_all(&self, stop: Stop<'_>) -> Result<bool> {
        let last = {
            let mut writer = self.lock_writer();
            self.try_roll(&mut writer)?;
            writer.id
        };
        while let Some(oldest) = self.segments.oldest().filter(|oldest| oldest.id < last) {
            let source = match self.source(&oldest, self.space.free())? {
                Some(source) => source,
                None => self.source_before(last)?,
            };
            if !self.merge(&source, stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns what a merge needs of the segment, among those with numbers below `last` whose merge fits on the disk,
    /// that has the most dead bytes.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Full`] if no merge fits, or if a segment cannot be read.
    fn source_before(&self, last: u32) -> Result<Source> {
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

    /// Merges the oldest segment without a check of the free space. Returns `false` if `stop` ended the merge early.
    #[cfg(test)]
    pub(super) fn merge_oldest(&self, stop: Stop<'_>) -> Result<bool> {
        let Some(oldest) = self.segments.oldest() else { return Ok(true) };
        self.source(&oldest, u64::MAX)?.map_or(Ok(true), |source| self.merge(&source, stop))
    }

    /// Merges the segment of `source`: appends the live values to the active segment, syncs, and removes the merged
    /// one. Returns `false` if `stop` ended the merge early; the segment is then kept.
    pub(super) fn merge(&self, source: &Source, stop: Stop<'_>) -> Result<bool> {
        let (started, mut moved) = (Instant::now(), 0);
        let segment = &*source.segment;
        if let Some(hint) = &source.hint {
            let mut entries = hint.entries().peekable();
            while entries.peek().is_some() {
                if stop() {
                    return Ok(false);
                }
                moved += self.move_step(source, &mut entries)?;
            }
        }
        self.sync()?;
        while self.segments.must_keep_for_scans(segment) {
            if stop() {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
        // Threads that have read a position in the segment continue to read the file after its removal.
        segment.keep_open()?;
        self.forget(segment.id)?;
        // If the removal fails, the next start removes the files: the manifest no longer lists the segment.
        segment.check_path()?;
        files::remove_leftover(&hint::path_of(&segment.path))?;
        files::remove_leftover(&segment.path)?;
        let (name, seconds) = (segment.path.display(), started.elapsed().as_secs_f64());
        log::debug!("merged {name} in {seconds:.2} s: {moved} values moved");
        Ok(true)
    }

    /// Executes one step of a merge: takes the next `entries`, and appends their live values and the deletes that are
    /// still needed to the active segment. Returns the number of appended writes.
    fn move_step<'h>(&self, source: &Source, entries: &mut impl Iterator<Item = Entry<'h>>) -> Result<usize> {
        let started = Instant::now();
        let (all, live) = self.bytes();
        let is_behind = all.saturating_sub(live) > live.saturating_mul(2).max(2 * self.space.segment());
        let enough = if is_behind { LARGE_STEP_BYTES } else { STEP_BYTES };
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for entry in entries.by_ref().take(KEYS_PER_STEP) {
            match entry {
                Entry::Put(key, place) if self.is_live(key, place) => {
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
        let moved = self.append_moved(&writes)?;
        self.sync_if_due()?;
        if !is_behind && !self.is_compacting.load(Ordering::Relaxed) {
            // The merge uses the disk at most half of the time, so that clients' requests are not slowed too much.
            thread::sleep(started.elapsed().max(PAUSE));
        }
        Ok(moved)
    }

    /// Returns the live values of segment `id` as puts, found in the key table instead of the segment. Deletes of the
    /// segment are missing: a merge of the oldest segment does not need them.
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

    fn is_live(&self, key: &[u8], place: ValuePosition) -> bool {
        self.table.look(|table| table.get(key).and_then(ValuePosition::of)) == Some(place)
    }

    fn is_absent(&self, key: &[u8]) -> bool {
        self.table.look(|table| table.get(key).is_none())
    }

    /// Appends those of `writes` that no client has overwritten meanwhile to the active segment. Returns their number.
    fn append_moved(&self, writes: &[Moved<'_>]) -> Result<usize> {
        let mut batch = Batch::with_capacity(writes.len());
        let mut writer = self.lock_writer();
        for Moved { key, value } in writes {
            match value {
                Some((place, value)) if self.is_live(key, *place) => batch.put(key, value),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise no start could read the segment with the value.
    #[test]
    fn corrupt_value_does_not_become_longer_than_a_value_may_be() {
        const MAX: usize = 40;
        for length in 0..=MAX {
            let mut value = vec![b'v'; length];
            mark_as_corrupt(&mut value, MAX);
            let kept = length.min(MAX - key_value_headers::VALUE_HEAD);
            assert_eq!(value, [&key_value_headers::CORRUPT[..], &vec![b'v'; kept]].concat());
        }
    }
}
