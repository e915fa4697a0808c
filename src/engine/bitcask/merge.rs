//! Merging: what is alive in the oldest segment is written anew, and the segment is removed.
//!
//! Only ever the oldest. What a segment removes, by a delete or by a newer value, is in segments before it; when it is
//! the oldest there are none, so nothing that was removed can come back. Before a segment goes, everything that was
//! written is synced: the values that were moved, and the writes for which others were not.

use super::{
    super::{Batch, KeyRange, Result, layout, memory::Table, path},
    files::{Files, SEGMENT},
    hint::{self, Entry, Hint},
    info::NAME,
    place::Place,
    reading,
    segment::Segment,
};
use std::{
    ops::ControlFlow,
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

/// Whether it is to end.
pub(super) type Stop<'s> = &'s dyn Fn() -> bool;

/// Returns the value to write for a key that is moved: with [`layout::CORRUPT`] before it if it is corrupt, so that it stays
/// corrupt.
fn value_to_move(from: &Segment, key: &[u8], place: Place) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    match from.read(place, &mut value) {
        Ok(_) => {}
        Err(error) if error.is_damage() => {
            let error = error.of_value(0, key, true);
            if !layout::is_corrupt(&value) {
                log::warn!("{NAME}: a merge moves a corrupt value as it is: {error}");
                value.splice(..0, layout::CORRUPT);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(value)
}

impl Files {
    /// Whether a merge is worth its work.
    pub(super) fn is_merge_due(&self) -> bool {
        let (all, live) = self.bytes();
        self.segments.len() > 1 && all.saturating_sub(live) > live.max(SEGMENT)
    }

    /// Merges all that there is at the begin. Tells whether it came to its end.
    pub(super) fn merge_all(&self, stop: Stop<'_>) -> Result<bool> {
        let last = {
            let mut writer = self.lock_writer();
            self.try_roll(&mut writer)?;
            writer.id
        };
        while self.segments.oldest().is_some_and(|oldest| oldest.id < last) {
            if !self.merge_oldest(stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Merges the oldest segment. Tells whether it came to its end.
    pub(super) fn merge_oldest(&self, stop: Stop<'_>) -> Result<bool> {
        let Some(oldest) = self.segments.oldest() else { return Ok(true) };
        let started = Instant::now();
        let mut moved = 0;
        // After a clear, for one, there is nothing to look for.
        if self.table.len() > 0 {
            let hint = match reading::hint_of(&oldest) {
                Ok(hint) => hint,
                // The table knows the keys that are alive in it.
                Err(error) if error.is_damage() => {
                    log::warn!("{NAME}: a merge moves what is alive of a corrupt segment: {error}");
                    self.hint_from_table(oldest.id)
                }
                Err(error) => return Err(error),
            };
            let mut entries = hint.entries().peekable();
            while entries.peek().is_some() {
                if stop() {
                    return Ok(false);
                }
                moved += self.move_some(&oldest, &mut entries)?;
            }
        }
        self.sync()?;
        while self.segments.is_crowded_by(&oldest) {
            if stop() {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
        // A thread that has found it in the table goes on reading it.
        oldest.hold()?;
        self.forget_oldest()?;
        // What is left of it is removed by the next start.
        path::remove_leftover(&oldest.path)?;
        path::remove_leftover(&hint::path_of(&oldest.path))?;
        let (name, seconds) = (oldest.path.display(), started.elapsed().as_secs_f64());
        log::debug!("merged {name} in {seconds:.2} s: {moved} values moved");
        Ok(true)
    }

    /// Moves what is alive of the next entries. Returns how many values that were.
    fn move_some<'h>(&self, from: &Segment, entries: &mut impl Iterator<Item = Entry<'h>>) -> Result<usize> {
        let started = Instant::now();
        let (all, live) = self.bytes();
        let is_behind = all.saturating_sub(live) > live.saturating_mul(2).max(2 * SEGMENT);
        let enough = if is_behind { LARGE_STEP } else { STEP };
        let (mut values, mut bytes) = (Vec::new(), 0);
        for entry in entries.by_ref().take(KEYS) {
            let Entry::Put(key, place) = entry else { continue };
            if !self.is_alive(key, place) {
                continue;
            }
            let value = value_to_move(from, key, place)?;
            bytes += value.len();
            values.push((key, place, value));
            if bytes >= enough {
                break;
            }
        }
        if values.is_empty() {
            return Ok(0);
        }
        let moved = self.write_anew(&values)?;
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
            if let Some(place) = Place::of(place).filter(|place| place.segment == id) {
                hint.put(key, place);
            }
            ControlFlow::Continue(())
        };
        self.table.scan_in_steps(KeyRange::ALL, &mut add, &mut || ControlFlow::Continue(()));
        hint
    }

    fn is_alive(&self, key: &[u8], place: Place) -> bool {
        self.table.look(|table| table.get(key).and_then(Place::of)) == Some(place)
    }

    /// Writes what is still alive, as any other write.
    fn write_anew(&self, values: &[(&[u8], Place, Vec<u8>)]) -> Result<usize> {
        let mut batch = Batch::with_capacity(values.len());
        let mut writer = self.lock_writer();
        for (key, place, value) in values {
            if self.is_alive(key, *place) {
                batch.put(key, value);
            }
        }
        if !batch.is_empty() {
            let _at_work = self.write(&mut writer, &batch, false)?;
        }
        Ok(batch.len())
    }
}
