//! Table of the keys with their values' positions.

use super::place::{ValuePosition, record_size};
use crate::engine::{
    KeyRange, VisitValue, WriteOp,
    memory_table::{ByteBudget, Table, VisitNext, hash_table::HashTable},
};
use hashbrown::{HashMap, hash_map::Entry};
use std::ops::ControlFlow;

/// Number of keys that are looked up together before they are changed.
const TOGETHER: usize = 32;

/// A [`HashTable`] that holds value positions in place of values, and counts the live bytes on disk.
#[derive(Default)]
pub(super) struct KeyTable {
    map: HashTable,
    /// Total length of the records of all keys, in bytes.
    live: u64,
    /// Live bytes of each segment that has live keys.
    live_in: HashMap<u32, u64>,
}

type Pair = <HashTable as Table>::Pair;

impl KeyTable {
    /// Returns the total length of the records of all keys, in bytes.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Returns the length of the records of all keys whose values are in segment `id`, in bytes.
    pub(super) fn live_in(&self, id: u32) -> u64 {
        self.live_in.get(&id).copied().unwrap_or_default()
    }

    /// Adds the record of `key`, whose value is at `place`, to the counts.
    fn add(&mut self, key: &[u8], place: &[u8]) {
        let Some(place) = ValuePosition::of(place) else { return };
        let size = record_size(key.len(), place.length as usize);
        self.live += size;
        *self.live_in.entry(place.segment).or_default() += size;
    }

    /// Subtracts the record of `key` from the counts, if the key exists.
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
        let mut keys = Vec::with_capacity(TOGETHER);
        for ops in ops.chunks(TOGETHER) {
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

    fn walk(&self, range: KeyRange<'_>, position: &mut Self::Position, visit: &mut VisitNext<'_>) -> bool {
        self.map.walk(range, position, visit)
    }

    fn place(number: u64) -> Option<Self::Position> {
        HashTable::place(number)
    }

    fn number(position: &Self::Position) -> u64 {
        HashTable::number(position)
    }

    fn is_past(&self, position: &Self::Position, key: &[u8]) -> bool {
        self.map.is_past(position, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(length: u32) -> [u8; super::super::place::PLACE] {
        place_in(1, length)
    }

    fn place_in(segment: u32, length: u32) -> [u8; super::super::place::PLACE] {
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
}
