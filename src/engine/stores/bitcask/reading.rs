//! What a sealed segment holds: from its hint, or else from itself.

use super::{
    hint::Hint,
    info::{NAME, damage},
    segment::Segment,
};
use crate::engine::{
    Result,
    aof::{Restored, read_sealed},
};
use std::sync::atomic::Ordering;

/// The writes of a sealed segment.
pub(super) fn hint_of(segment: &Segment) -> Result<Hint> {
    let found = Hint::read(&segment.path, &*segment.file()?);
    segment.has_hint.store(found.is_some(), Ordering::Relaxed);
    match found {
        Some(hint) => Ok(hint),
        None => Ok(read(segment, &mut |_| ())?.0),
    }
}

/// The writes of a sealed segment, from itself, and the number of its records. It must be as it was sealed. `look` sees
/// them too.
pub(super) fn read(segment: &Segment, look: &mut dyn FnMut(&Restored<'_>)) -> Result<(Hint, u64)> {
    let mut hint = Hint::default();
    let file = segment.open()?;
    let records = read_sealed(&file, (NAME, &segment.path), &mut |restored| {
        hint.restore(segment.id, &restored);
        look(&restored);
    });
    Ok((hint, records.map_err(damage)?))
}

/// Writes the hint of a sealed segment.
pub(super) fn write_hint(segment: &Segment) -> Result<()> {
    read(segment, &mut |_| ())?.0.write(segment)?;
    segment.has_hint.store(true, Ordering::Relaxed);
    Ok(())
}
