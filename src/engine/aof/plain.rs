//! Format of earlier versions, which can still be opened: records without frames, preceded by a checksum per
//! batch.
//!
//! The checksum line is `#CRC:`, the CRC-32 (IEEE) of the batch's records in eight hexadecimal digits, `:`,
//! their length in eight decimal digits, CR LF. Redis takes it for an annotation and skips it. Batches above 1
//! MiB had none, nor has anything that Redis wrote.
//!
//! A synced batch was written over zeros that were written before it: a power cut before the end of the sync
//! leaves any of its sectors, not only the first ones. Such a batch was not acknowledged. It must neither be
//! taken for a complete batch nor be reported as corruption that needs a repair.

use super::record::{Cursor, DecodeStop, NO_ANNOTATION};
use std::ops::{Range, RangeInclusive};

/// Length of the checksum line, in bytes.
const HEADER: usize = 24;

/// Maximum length of a batch with a checksum line, in bytes.
const MAX_CHECKED: usize = 1 << 20;

/// Minimum and maximum number of zeros that were written at a time behind a synced batch.
const PREPARED: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// Maximum length of what a power cut can leave of a batch, with the zeros behind it, in bytes.
pub(super) const LONGEST_TAIL: u64 = (HEADER + MAX_CHECKED + *PREPARED.end()) as u64;

const START: &[u8] = b"#CRC:";

/// Unit that a device writes completely or not at all, in bytes.
const SECTOR: usize = 512;

/// Checks the batch whose checksum line is at the start of `bytes`, and returns the line's length.
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

/// Reads a checksum line: returns the checksum and the range of the records.
fn read_line(bytes: &[u8]) -> Result<(u32, Range<usize>), DecodeStop> {
    let mut cursor = Cursor::new(bytes);
    cursor.literal(START, NO_ANNOTATION)?;
    let sum = cursor.hexadecimal()?;
    cursor.literal(b":", "a checksum must be followed by a length")?;
    let length = cursor.number(MAX_CHECKED)?;
    Ok((sum, cursor.at..cursor.at + length))
}

/// Returns `true` if `rest`, everything from `offset` on, is what a kill or a power cut left of a batch that
/// was being written over zeros: it is no longer than one batch, lacks its end or another sector, and contains
/// no complete batch, which would have been acknowledged only after everything before it.
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
    // The first sector also holds bytes of earlier batches, which rewriting the sector does not lose.
    let first = SECTOR - (offset % SECTOR as u64) as usize;
    rest.split_at_checked(first)
        .is_some_and(|(first, others)| is_zero(first) || others.chunks_exact(SECTOR).any(is_zero))
}

fn holds_a_batch(rest: &[u8]) -> bool {
    let is_whole = |at: usize| check(rest.get(at..).unwrap_or_default()).is_ok();
    rest.windows(START.len()).enumerate().any(|(at, window)| window == START && is_whole(at))
}
