//! Key table of `bitcask`: a hash table of all keys with the positions of their values on disk.

use crate::engine::{
    KeyRange, VisitValue, WriteOp, key_value_headers,
    memory_table::{ByteBudget, Table, VisitNext, hash_table::HashTable},
};
use hashbrown::{HashMap, hash_map::Entry};
use std::ops::ControlFlow;

/// Number of keys of a write batch that are looked up before the first of them is changed, so that their CPU cache
/// misses overlap.
const PREFETCHED_KEYS: usize = 32;

/// Position of a value on disk, with its length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValuePosition {
    /// Number of the segment that holds the value.
    pub(super) segment: u32,
    /// Offset of the value's first byte in the segment.
    pub(super) offset: u64,
    /// Length of the value, in bytes.
    pub(super) length: u32,
    /// CRC-32 of the value; inverted, so that no read succeeds, if the value was known to be corrupt: see [`sum_of`].
    pub(super) sum: u32,
}

/// Returns the checksum of a value with the CRC-32 `sum`: the CRC-32, or, for a value that was corrupt before it was
/// written again, a number that is never its CRC-32, so that no read returns it.
pub(super) fn sum_of(value: &[u8], sum: u32) -> u32 {
    if key_value_headers::is_corrupt(value) { !sum } else { sum }
}

/// Length of an encoded [`ValuePosition`], in bytes. A segment ends with the batch that reaches its maximum length, so
/// no offset needs more than five bytes.
pub(super) const POSITION_LEN: usize = 4 + 5 + 4 + 4;

impl ValuePosition {
    /// Encodes the position, length and checksum of a value in the form that the key table stores.
    pub(super) fn to_bytes(self) -> [u8; POSITION_LEN] {
        let ([a, b, c, d], [e, f, g, h, i, ..]) = (self.segment.to_le_bytes(), self.offset.to_le_bytes());
        let ([j, k, l, m], [n, o, p, q]) = (self.length.to_le_bytes(), self.sum.to_le_bytes());
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]
    }

    /// Decodes the position, length and checksum of a value, or returns `None` if `bytes` has another length than
    /// [`POSITION_LEN`].
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] =
            *<&[u8; POSITION_LEN]>::try_from(bytes).ok()?;
        Some(Self {
            segment: u32::from_le_bytes([a, b, c, d]),
            offset: u64::from_le_bytes([e, f, g, h, i, 0, 0, 0]),
            length: u32::from_le_bytes([j, k, l, m]),
            sum: u32::from_le_bytes([n, o, p, q]),
        })
    }
}

/// Returns the length in bytes of the log record (a `SET` command and a line with its checksum) of a key and a value of
/// these lengths, without the frame around it.
pub(super) fn record_size(key: usize, value: usize) -> u64 {
    let bulk = |length: usize| "$\r\n\r\n".len() as u64 + digits(length) + length as u64;
    "*3\r\n$3\r\nSET\r\n#TS:0123456789\r\n".len() as u64 + bulk(key) + bulk(value)
}

fn digits(number: usize) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or_default()) + 1
}

/// A [`HashTable`] that holds value positions in place of values, and counts the bytes on disk that existing keys use.
#[derive(Default)]
pub(super) struct KeyTable {
    map: HashTable,
    /// Total length of the log records of all existing keys, in bytes.
    live: u64,
    /// By segment number: total length in bytes of the log records of existing keys in that segment. Segments without
    /// any are absent.
    live_in: HashMap<u32, u64>,
}

type Pair = <HashTable as Table>::Pair;

impl KeyTable {
    /// Returns the total length on disk of the log records of all existing keys, in bytes.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Returns the total length of the log records of those existing keys whose values are in segment `id`, in bytes.
    pub(super) fn live_in(&self, id: u32) -> u64 {
        self.live_in.get(&id).copied().unwrap_or_default()
    }

    /// Adds the length of the log record of `key`, whose value is at `place` (an encoded [`ValuePosition`]), to the
    /// live bytes.
    fn add(&mut self, key: &[u8], place: &[u8]) {
        let Some(place) = ValuePosition::of(place) else { return };
        let size = record_size(key.len(), place.length as usize);
        self.live += size;
        *self.live_in.entry(place.segment).or_default() += size;
    }

    /// Subtracts the length of the log record of `key` from the live bytes, if the key exists.
    fn subtract(&mut self, key: &[u8]) {
        let Some(place) = self.map.get(key).and_then(ValuePosition::of) else { return };
        let size = record_size(key.len(), place.length as usize);
        self.live -= size;
        if let Entry::Occupied(mut live) = self.live_in.entry(place.segment) {
            *live.get_mut() -= size;
            if *live.get() == 0 {
                live.remove();
            }
        }
    }

    fn write_one(&mut self, op: WriteOp<'_>, heavy: &mut Vec<Pair>) {
        let (WriteOp::Put { key, .. } | WriteOp::Delete { key }) = op else { return };
        self.subtract(key);
        if let WriteOp::Put { value, .. } = op {
            self.add(key, value);
        }
        self.map.write(&[op], heavy);
    }
}

impl Table for KeyTable {
    type Position = <HashTable as Table>::Position;
    type Pair = Pair;

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.map.get(key)
    }

    #[inline]
    fn read(&self, keys: &[&[u8]], budget: ByteBudget, visit: &mut VisitValue<'_>) -> Option<usize> {
        self.map.read(keys, budget, visit)
    }

    fn write(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<Pair>) {
        let mut keys = Vec::with_capacity(PREFETCHED_KEYS);
        for ops in ops.chunks(PREFETCHED_KEYS) {
            keys.clear();
            keys.extend(ops.iter().map(|op| match *op {
                WriteOp::Put { key, .. } | WriteOp::Delete { key } => key,
                WriteOp::Clear => &[],
            }));
            // Loads the keys' memory into the CPU cache, several at a time.
            self.map.read(&keys, ByteBudget::NONE, &mut |_, _| ControlFlow::Continue(()));
            ops.iter().for_each(|op| self.write_one(*op, heavy));
        }
    }

    fn pair(key: &[u8], value: &[u8]) -> Pair {
        HashTable::pair(key, value)
    }

    fn key(pair: &Pair) -> &[u8] {
        HashTable::key(pair)
    }

    fn put(&mut self, pair: Pair) -> Option<Pair> {
        let (key, place) = pair.pair();
        self.subtract(key);
        self.add(key, place);
        self.map.put(pair)
    }

    fn take(&mut self, key: &[u8]) -> Option<Pair> {
        self.subtract(key);
        self.map.take(key)
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn free(self, pause: &mut dyn FnMut()) {
        self.map.free(pause);
    }

    fn scan_step(
        &self,
        range: KeyRange<'_>,
        position: &mut Self::Position,
        visit: &mut VisitNext<'_>,
    ) -> bool {
        self.map.scan_step(range, position, visit)
    }

    fn place(number: u64) -> Option<Self::Position> {
        HashTable::place(number)
    }

    fn number(position: &Self::Position) -> u64 {
        HashTable::number(position)
    }

    fn position_number(&self, key: &[u8]) -> u64 {
        self.map.position_number(key)
    }

    fn is_past(&self, position: &Self::Position, key: &[u8]) -> bool {
        self.map.is_past(position, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(length: u32) -> [u8; POSITION_LEN] {
        place_in(1, length)
    }

    fn place_in(segment: u32, length: u32) -> [u8; POSITION_LEN] {
        ValuePosition { segment, offset: 0, length, sum: 0 }.to_bytes()
    }

    #[test]
    fn live_bytes_are_counted_for_each_segment() {
        let mut table = KeyTable::default();
        let (old, new) = (place_in(1, 10), place_in(2, 1000));
        let put = |key, value| WriteOp::Put { key, value };
        table.write(&[put(b"a", &old), put(b"b", &old), put(b"a", &new)], &mut Vec::new());
        assert_eq!([1, 2, 3].map(|id| table.live_in(id)), [record_size(1, 10), record_size(1, 1000), 0]);
        drop(table.put(KeyTable::pair(b"b", &new)));
        assert_eq!([1, 2].map(|id| table.live_in(id)), [0, 2 * record_size(1, 1000)]);
        drop((table.take(b"a"), table.take(b"a")));
        table.write(&[WriteOp::Delete { key: b"b" }], &mut Vec::new());
        assert!(table.live_in.is_empty() && table.live() == 0);
    }

    #[test]
    fn live_bytes_are_counted_after_every_kind_of_change() {
        let mut table = KeyTable::default();
        let (short, long) = (place(10), place(1000));
        let put = |key, value| WriteOp::Put { key, value };
        let heavy = &mut Vec::new();
        table.write(&[put(b"a", &short), put(b"a", &long), put(b"b", &short)], heavy);
        assert_eq!(table.live(), record_size(1, 1000) + record_size(1, 10));
        table.write(&[WriteOp::Delete { key: b"a" }, WriteOp::Delete { key: b"nothing" }], heavy);
        assert_eq!(table.live(), record_size(1, 10));
        drop(table.put(KeyTable::pair(b"b", &long)));
        drop(table.put(KeyTable::pair(b"key", &long)));
        assert_eq!(table.live(), record_size(1, 1000) + record_size(3, 1000));
        drop((table.take(b"b"), table.take(b"b"), table.take(b"key")));
        assert_eq!((table.live(), table.len()), (0, 0));
    }

    #[test]
    fn position_is_encoded_and_decoded() {
        for (segment, offset, length, sum) in
            [(0, 0, 0, 0), (1, 30, 5, 0xdead_beef), (u32::MAX, (1 << 40) - 1, u32::MAX, u32::MAX)]
        {
            let place = ValuePosition { segment, offset, length, sum };
            assert_eq!(ValuePosition::of(&place.to_bytes()), Some(place));
        }
        assert_eq!(ValuePosition::of(&[0; POSITION_LEN - 1]), None);
    }

    #[test]
    fn corrupt_value_gets_a_checksum_that_never_matches() {
        for (value, is_corrupt) in
            [(&b""[..], false), (b"\xffkvbench", false), (&key_value_headers::CORRUPT, true)]
        {
            assert_eq!(sum_of(value, 7) != 7, is_corrupt);
        }
    }

    const SUM: &str = "#TS:4294967295\r\n";

    #[test]
    fn record_size_is_the_length_of_the_written_record() {
        for (key, value) in [(0, 0), (9, 10), (1, 60_000), (100, 0)] {
            let text =
                format!("*3\r\n$3\r\nSET\r\n${key}\r\n{0:key$}\r\n${value}\r\n{0:value$}\r\n{1}", "", SUM);
            assert_eq!(record_size(key, value), text.len() as u64);
        }
    }
}
