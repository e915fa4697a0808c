//! Writes in a sealed segment of `bitcask`, read from its hint file or, without a valid one, from the segment.

use super::{
    description::{NAME, advise_backup},
    hint::Hint,
    segment::Segment,
};
use crate::engine::{
    Result,
    aof::{ReplayEnd, Restored, corrupt_values, read_sealed},
};
use std::sync::atomic::Ordering;

/// Returns the writes of a sealed segment, with value positions in place of values: from its hint file if that is
/// valid, otherwise from the segment.
pub(super) fn hint_of(segment: &Segment) -> Result<Hint> {
    let found = Hint::read(&segment.path, &*segment.file()?);
    segment.has_hint.store(found.is_some(), Ordering::Relaxed);
    match found {
        Some(hint) => Ok(hint),
        None => {
            let (hint, tail) = read_segment(segment, &mut |_| ())?;
            if tail.corrupt > 0 {
                log::warn!("{NAME}: {}", corrupt_values(&segment.path, tail.corrupt));
            }
            Ok(hint)
        }
    }
}

/// Reads the file of a sealed segment. Returns its writes, with value positions in place of values, and the result of
/// the replay. Calls `look` with each part of the replay.
///
/// # Errors
///
/// Fails if the segment cannot be read, or if anything but values is corrupt.
pub(super) fn read_segment(
    segment: &Segment,
    look: &mut dyn FnMut(&Restored<'_>),
) -> Result<(Hint, ReplayEnd)> {
    let mut hint = Hint::default();
    let file = segment.open()?;
    let tail = read_sealed(&file, (NAME, &segment.path), &mut |restored| {
        hint.restore(segment.id, &restored);
        look(&restored);
    });
    Ok((hint, tail.map_err(advise_backup)?))
}

/// Reads the file of a sealed segment, and writes the hint file of the segment.
pub(super) fn write_hint(segment: &Segment) -> Result<()> {
    read_segment(segment, &mut |_| ())?.0.write(segment)?;
    segment.has_hint.store(true, Ordering::Relaxed);
    Ok(())
}
