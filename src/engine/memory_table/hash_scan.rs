//! Scan of one part of the map.

use super::{super::KeyRange, ScanControl, VisitNext, hash_entry::Entry};
use std::hint::black_box;

/// Number of keys or entries of a table whose memory is fetched together, so that the memory accesses overlap.
pub(super) const KEYS_PER_LOOKUP: usize = 32;

/// Visits the entries of a part whose keys are in `range`, up to its end even if `visit` asks for a pause, because
/// positions in a part change as it grows. Ends earlier only if `visit` stops the scan.
pub(super) fn visit_part<'e>(
    part: impl IntoIterator<Item = &'e Entry>,
    range: KeyRange<'_>,
    visit: &mut VisitNext<'_>,
) -> ScanControl {
    let mut part = part.into_iter();
    let mut together = [None; KEYS_PER_LOOKUP];
    let mut after = ScanControl::Continue;
    loop {
        // Overlaps memory accesses, as in `HashTable::fetch`.
        let count = together.iter_mut().zip(&mut part).map(|(place, entry)| *place = Some(entry)).count();
        let entries = || together.iter().take(count).flatten();
        black_box(entries().fold(0, |sum, entry: &&Entry| sum ^ entry.first()));
        for (key, value) in entries().map(|entry| entry.pair()).filter(|(key, _)| range.contains(key)) {
            match visit(key, value) {
                ScanControl::Continue => {}
                ScanControl::Pause => after = ScanControl::Pause,
                ScanControl::Stop => return ScanControl::Stop,
            }
        }
        if count < KEYS_PER_LOOKUP {
            return after;
        }
    }
}
