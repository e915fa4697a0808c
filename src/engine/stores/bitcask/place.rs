//! Position and checksum of a value on disk, which the key table holds in place of the value.

use crate::engine::key_value_headers;

/// Position of a value on disk, with its length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValuePosition {
    /// Number of the segment that holds the value.
    pub(super) segment: u32,
    /// Offset of the value's first byte in the segment.
    pub(super) offset: u64,
    /// Length of the value, in bytes.
    pub(super) length: u32,
    /// Checksum of the value: see [`sum_of`].
    pub(super) sum: u32,
}

/// Returns the checksum of a value with the CRC-32 `sum`: the CRC-32, or for a value that was corrupt before it was written
/// anew a number that is never its CRC-32, so that no read returns it.
pub(super) fn sum_of(value: &[u8], sum: u32) -> u32 {
    if key_value_headers::is_corrupt(value) { !sum } else { sum }
}

/// Length of an encoded position, in bytes. A segment ends with the batch that reaches its maximum length, so
/// no offset needs more than five bytes.
pub(super) const PLACE: usize = 4 + 5 + 4 + 4;

impl ValuePosition {
    /// Encodes the position as the key table stores it.
    pub(super) fn to_bytes(self) -> [u8; PLACE] {
        let ([a, b, c, d], [e, f, g, h, i, ..]) = (self.segment.to_le_bytes(), self.offset.to_le_bytes());
        let ([j, k, l, m], [n, o, p, q]) = (self.length.to_le_bytes(), self.sum.to_le_bytes());
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]
    }

    /// Decodes a position, or returns `None` if `bytes` has another length than [`PLACE`].
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = *<&[u8; PLACE]>::try_from(bytes).ok()?;
        Some(Self {
            segment: u32::from_le_bytes([a, b, c, d]),
            offset: u64::from_le_bytes([e, f, g, h, i, 0, 0, 0]),
            length: u32::from_le_bytes([j, k, l, m]),
            sum: u32::from_le_bytes([n, o, p, q]),
        })
    }
}

/// Returns the bytes of the record of a key and a value of these lengths, with the line of the checksum, without the frame
/// around it.
pub(super) fn record_size(key: usize, value: usize) -> u64 {
    let bulk = |length: usize| "$\r\n\r\n".len() as u64 + digits(length) + length as u64;
    "*3\r\n$3\r\nSET\r\n#TS:0123456789\r\n".len() as u64 + bulk(key) + bulk(value)
}

fn digits(number: usize) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or_default()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back() {
        for (segment, offset, length, sum) in
            [(0, 0, 0, 0), (1, 30, 5, 0xdead_beef), (u32::MAX, (1 << 40) - 1, u32::MAX, u32::MAX)]
        {
            let place = ValuePosition { segment, offset, length, sum };
            assert_eq!(ValuePosition::of(&place.to_bytes()), Some(place));
        }
        assert_eq!(ValuePosition::of(&[0; PLACE - 1]), None);
    }

    #[test]
    fn a_value_that_was_corrupt_before_has_no_sum_of_its_own() {
        for (value, is_corrupt) in
            [(&b""[..], false), (b"\xffkvbench", false), (&key_value_headers::CORRUPT, true)]
        {
            assert_eq!(sum_of(value, 7) != 7, is_corrupt);
        }
    }

    const SUM: &str = "#TS:4294967295\r\n";

    #[test]
    fn a_record_is_as_long_as_what_is_written() {
        for (key, value) in [(0, 0), (9, 10), (1, 60_000), (100, 0)] {
            let text =
                format!("*3\r\n$3\r\nSET\r\n${key}\r\n{0:key$}\r\n${value}\r\n{0:value$}\r\n{1}", "", SUM);
            assert_eq!(record_size(key, value), text.len() as u64);
        }
    }
}
