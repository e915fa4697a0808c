//! Encoding of the records of an AOF in [`Form::Raw`](super::record::Form::Raw).

use super::{
    super::{Batch, WriteOp},
    record::{self, EXEC, FLUSH, MULTI, OVERHEAD, encode_delete, encode_plain},
};
use crc32fast::Hasher;
use std::ops::Range;

/// Start of the line behind a `SET` record that has the checksum of its value. Earlier versions, which do not write the
/// line, take it for Redis' annotation of a time, and skip it.
const SUM_TAG: &[u8] = b"#TS:";

/// Number of decimal digits of a value's checksum in the line behind its record.
const SUM_DIGITS: usize = 10;

/// Position and checksum of a value in a segment of `bitcask` (an AOF in [`Form::Raw`](super::record::Form::Raw)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Placed {
    /// Offset of the value in the segment's file, in bytes.
    pub(in super::super) offset: u64,
    /// CRC-32 of the value's bytes.
    pub(in super::super) sum: u32,
}

/// Appends the records of `batch` to `out`, like [`record::encode`] but with the checksum of each value behind it.
/// `ready` and `placed` get `sink` too; `placed` is called after each `SET` record, with the offset of its value in
/// `out` and the value's CRC-32.
pub(super) fn encode<E, T>(
    batch: &Batch<'_>,
    group: bool,
    (out, sink): (&mut Vec<u8>, &mut T),
    ready: impl Fn(&mut T, &mut Vec<u8>, usize) -> Result<(), E>,
    placed: impl Fn(&mut T, usize, u32),
) -> Result<(), E> {
    if group {
        ready(sink, out, MULTI.len())?;
        out.extend_from_slice(MULTI);
    }
    for op in batch.ops() {
        match op {
            WriteOp::Put { key, value } => {
                ready(sink, out, OVERHEAD + key.len())?;
                encode_plain(key, value, out);
                let sum = crc32fast::hash(value);
                placed(sink, out.len() - value.len() - b"\r\n".len(), sum);
                encode_sum(sum, out);
            }
            WriteOp::Delete { key } => {
                ready(sink, out, OVERHEAD + key.len())?;
                encode_delete(key, out);
            }
            WriteOp::Clear => {
                ready(sink, out, FLUSH.len())?;
                out.extend_from_slice(FLUSH);
            }
        }
    }
    if group {
        ready(sink, out, EXEC.len())?;
        out.extend_from_slice(EXEC);
    }
    Ok(())
}

fn encode_sum(sum: u32, out: &mut Vec<u8>) {
    let mut digits = [b'0'; SUM_DIGITS];
    let mut rest = sum;
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(SUM_TAG);
    out.extend_from_slice(&digits);
    out.extend_from_slice(b"\r\n");
}

/// Returns the CRC-32 with which a value was written, from the line behind its record; `bytes` begin behind the value.
/// `None` if there is no such line, because an earlier version wrote the record.
pub(super) fn sum_behind(bytes: &[u8]) -> Option<u32> {
    let rest = bytes.strip_prefix(b"\r\n")?.strip_prefix(SUM_TAG)?;
    let (digits, rest) = rest.split_first_chunk::<SUM_DIGITS>()?;
    let is_number = rest.starts_with(b"\r\n") && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// Checksum that the records of a frame were written with, and the number of their corrupt values.
pub(super) struct AsWritten {
    /// Running checksum behind the records of the frame, in which each value counts as it was written.
    pub(super) sum: u32,
    /// Number of the frame's values whose bytes differ from what was written.
    pub(super) corrupt: u64,
}

impl AsWritten {
    /// Checks the records of `body`, with `sum` as the running checksum before them. The new running checksum includes
    /// each value by the checksum that is stored behind it, and all other bytes as they are. If it equals the checksum
    /// of the frame, only values are corrupt. Returns `None` if `body` does not consist of complete records.
    pub(super) fn of(sum: u32, mut body: &[u8]) -> Option<Self> {
        let (mut hasher, mut words, mut corrupt) = (Hasher::new_with_initial(sum), Vec::new(), 0);
        while !body.is_empty() {
            let length = record::decode(body, &mut words).ok()?;
            let (record, rest) = body.split_at_checked(length)?;
            if let Some((value, sum)) = value_of(body, &words) {
                let found = record.get(value.clone())?;
                corrupt += u64::from(crc32fast::hash(found) != sum);
                hasher.update(record.get(..value.start)?);
                hasher.combine(&Hasher::new_with_initial_len(sum, found.len() as u64));
                hasher.update(record.get(value.end..)?);
            } else {
                hasher.update(record);
            }
            body = rest;
        }
        Some(Self { sum: hasher.finalize(), corrupt })
    }
}

/// Returns the position of the value in the record at the start of `bytes`, and the checksum behind it; `None` if the
/// record has no value or no checksum.
fn value_of(bytes: &[u8], words: &[Range<usize>]) -> Option<(Range<usize>, u32)> {
    let [_, _, value] = words else { return None };
    Some((value.clone(), sum_behind(bytes.get(value.end..)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_behind_a_value_is_read_back() {
        for sum in [0, 7, 4_000_000_000, u32::MAX] {
            let mut line = b"\r\n".to_vec();
            encode_sum(sum, &mut line);
            assert_eq!(sum_behind(&[&line[..], b"*3"].concat()), Some(sum));
            (0..line.len()).for_each(|len| assert_eq!(sum_behind(&line[..len]), None));
        }
        for other in ["\r\n#TS:4294967296\r\n", "\r\n#TS:+123456789\r\n", "\r\n#F:", ""] {
            assert_eq!(sum_behind(other.as_bytes()), None);
        }
    }
}
