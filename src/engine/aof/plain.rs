//! What earlier versions wrote, and still opens: records without frames, batches with a checksum before them.
//!
//! The line `#CRC:`, the CRC-32 (IEEE) of the batch's records in eight hexadecimal digits, `:`, their
//! length in eight decimal digits, CR LF. To Redis it is an annotation, which it skips. Batches above 1 MiB
//! had none, nor has anything that Redis wrote.
//!
//! A synced batch was written over zeros that were put there before it: a power cut before the sync had ended
//! leaves any of its sectors and not only the first few. Such a batch was not acknowledged, and must neither be
//! taken for whole nor for damage that needs a person.

use super::record::{Cursor, DecodeStop, NO_ANNOTATION};
use std::ops::{Range, RangeInclusive};

/// Length of the line.
const HEADER: usize = 24;

/// Longest batch that got one, in bytes.
const MAX_CHECKED: usize = 1 << 20;

/// Bytes of zeros that were written at a time behind a synced batch.
const PREPARED: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// The longest that a power cut can leave of a batch, with the zeros.
pub(super) const LONGEST_TAIL: u64 = (HEADER + MAX_CHECKED + *PREPARED.end()) as u64;

const START: &[u8] = b"#CRC:";

/// What a device writes as a whole or not at all.
const SECTOR: usize = 512;

/// Checks the batch whose line `bytes` begin with, and returns the line's length.
pub(super) fn check(bytes: &[u8]) -> Result<usize, DecodeStop> {
    let (sum, range) = read_line(bytes)?;
    let records = bytes.get(range.clone()).ok_or(DecodeStop::Incomplete { need: range.end })?;
    if crc32fast::hash(records) != sum {
        return Err(DecodeStop::Malformed {
            at: range.start,
            detail: "the checksum of the records is wrong",
        });
    }
    Ok(range.start)
}

/// The checksum, and where the records are.
fn read_line(bytes: &[u8]) -> Result<(u32, Range<usize>), DecodeStop> {
    let mut cursor = Cursor::new(bytes);
    cursor.literal(START, NO_ANNOTATION)?;
    let sum = cursor.hexadecimal()?;
    cursor.literal(b":", "a checksum must be followed by a length")?;
    let length = cursor.number(MAX_CHECKED)?;
    Ok((sum, cursor.at..cursor.at + length))
}

/// Whether `rest`, all that follows from `offset` on, where a batch should begin, is what a kill or a power
/// cut left of a batch that was being written over zeros: no longer than one, without its end or any other
/// sector, and with no whole batch inside, which would have been acknowledged only after all before it.
pub(super) fn is_torn(rest: &[u8], offset: u64) -> bool {
    let end = rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let rest = rest.get(..end).unwrap_or_default();
    rest.len() <= HEADER + MAX_CHECKED
        && (lacks_its_end(rest) || lacks_a_sector(rest, offset))
        && !holds_a_batch(rest)
}

fn lacks_its_end(rest: &[u8]) -> bool {
    read_line(rest).is_ok_and(|(_, records)| records.end > rest.len())
}

fn lacks_a_sector(rest: &[u8], offset: u64) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    // The first sector has what was there before, which a rewrite of it does not lose.
    let first = SECTOR - (offset % SECTOR as u64) as usize;
    rest.split_at_checked(first)
        .is_some_and(|(first, others)| is_zero(first) || others.chunks_exact(SECTOR).any(is_zero))
}

fn holds_a_batch(rest: &[u8]) -> bool {
    let is_whole = |at: usize| check(rest.get(at..).unwrap_or_default()).is_ok();
    rest.windows(START.len()).enumerate().any(|(at, window)| window == START && is_whole(at))
}
