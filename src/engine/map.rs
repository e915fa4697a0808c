//! `map`: a hash table in memory, an append-only file on disk.

use super::{
    Compression, Family, Info, KeyRange, Kind, Op, VisitPair, VisitValue, aof,
    memory::{Memory, Table},
};
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry as Slot};
use std::{hash::BuildHasher, hint::black_box};

/// The engine's row in the list.
pub const KIND: Kind =
    Kind { info: &INFO, open: |options| Memory::<Map>::open(&INFO, options), recognise: aof::recognise };

static INFO: Info = Info {
    name: "map",
    library: "hashbrown 0.17.1",
    family: Family::HashTable,
    ordered: false,
    in_memory: true,
    constant_count: true,
    compression: &[Compression::None],
    cache: "not used: all data are in memory",
    loss: aof::LOSS,
    caveats: aof::CAVEATS,
};

/// Number of sub-tables. Each grows on its own, so the pause of a growing table is that of one
/// sub-table: at 10 million keys some 40 thousand entries move, not all of them. More parts would not all
/// stay in the processor's nearest cache.
const PARTS: usize = 1 << 8;

/// Keys whose memory is fetched together.
const TOGETHER: usize = 32;

/// A hash table in [`PARTS`] parts.
pub(super) struct Map {
    hasher: DefaultHashBuilder,
    parts: Box<[HashTable<Entry>]>,
    len: usize,
}

impl Default for Map {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| HashTable::new()).collect();
        Self { hasher: DefaultHashBuilder::default(), parts, len: 0 }
    }
}

/// The part of a hash. `HashTable` picks a bucket by the lowest bits and tells the entries of a
/// bucket apart by the highest seven; taken from either, all entries of a part would share them.
fn part_of(hash: u64) -> usize {
    (hash >> 47) as usize % PARTS
}

impl Map {
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Fetches what look-ups of up to [`TOGETHER`] hashes will need. In a large table each look-up waits
    /// for memory three times, one after the other: for the tags, the slot and the entry. Done step by
    /// step for all of them, where no result decides what comes next, the processor waits side by side.
    #[inline]
    fn fetch(&self, hashes: &[u64]) {
        let mut entries = [None; TOGETHER];
        for (entry, hash) in entries.iter_mut().zip(hashes) {
            *entry = self.parts.get(part_of(*hash)).and_then(|part| part.iter_hash(*hash).next());
        }
        let first = |entry: &Entry| entry.bytes.first().copied().unwrap_or(0);
        black_box(entries.iter().flatten().fold(0, |sum, entry| sum ^ first(entry)));
    }

    #[inline]
    fn get(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let entry = self.parts.get(part_of(hash))?.find(hash, |entry| entry.key() == key)?;
        Some(entry.value())
    }

    #[inline]
    fn put(&mut self, hash: u64, key: &[u8], value: &[u8]) {
        let Some(part) = self.parts.get_mut(part_of(hash)) else { return };
        match part.entry(hash, |entry| entry.key() == key, |entry| self.hasher.hash_one(entry.key())) {
            Slot::Occupied(mut slot) => slot.get_mut().set_value(value),
            Slot::Vacant(slot) => {
                slot.insert(Entry::new(key, value));
                self.len += 1;
            }
        }
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        let Some(part) = self.parts.get_mut(part_of(hash)) else { return };
        if let Ok(slot) = part.find_entry(hash, |entry| entry.key() == key) {
            slot.remove();
            self.len -= 1;
        }
    }
}

impl Table for Map {
    /// The part to go on with. `Clear` brings other hashes, but then nothing was there all the time.
    type Position = usize;

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) {
        // A client that does not pipeline: one look-up has nothing to wait beside.
        if let [key] = keys {
            let _ = visit(0, self.get(self.hash(key), key));
            return;
        }
        let mut hashes = [0; TOGETHER];
        for (round, keys) in keys.chunks(TOGETHER).enumerate() {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(key);
            }
            self.fetch(hashes.get(..keys.len()).unwrap_or_default());
            for (index, (hash, key)) in hashes.iter().zip(keys).enumerate() {
                if visit(round * TOGETHER + index, self.get(*hash, key)).is_break() {
                    return;
                }
            }
        }
    }

    fn write(&mut self, ops: &[Op<'_>]) {
        let mut hashes = [0; TOGETHER];
        for ops in ops.chunks(TOGETHER) {
            for (hash, op) in hashes.iter_mut().zip(ops) {
                let (Op::Put { key, .. } | Op::Delete { key }) = op else { continue };
                *hash = self.hash(key);
            }
            self.fetch(hashes.get(..ops.len()).unwrap_or_default());
            for (hash, op) in hashes.iter().zip(ops) {
                match *op {
                    Op::Put { key, value } => self.put(*hash, key, value),
                    Op::Delete { key } => self.remove(*hash, key),
                    Op::Clear => {}
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) {
        for entry in self.parts.iter().flatten() {
            let (key, value) = entry.pair();
            if range.contains(key) && visit(key, value).is_break() {
                return;
            }
        }
    }

    fn walk(&self, position: &mut usize, visit: &mut VisitPair<'_>) -> bool {
        while let Some(part) = self.parts.get(*position) {
            *position += 1;
            // A part is visited to its end: where its entries are changes as it grows.
            let mut go_on = true;
            for (key, value) in part.iter().map(Entry::pair) {
                go_on &= visit(key, value).is_continue();
            }
            if !go_on {
                break;
            }
        }
        *position < self.parts.len()
    }
}

/// A pair in one allocation, the value behind the key. (A box each would double the allocations, and
/// a lookup's cache misses.) The key's length is here and not with them: so the value's place is known
/// at once, and the processor fetches it while it compares the keys.
struct Entry {
    key_length: u32,
    bytes: Box<[u8]>,
}

impl Entry {
    fn new(key: &[u8], value: &[u8]) -> Self {
        // The engine takes no key that is longer than u32 can say.
        let key_length = u32::try_from(key.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(key.len() + value.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Self { key_length, bytes: bytes.into_boxed_slice() }
    }

    #[inline]
    fn pair(&self) -> (&[u8], &[u8]) {
        // `new` took the length from the key, so the default is never taken.
        self.bytes.split_at_checked(self.key_length as usize).unwrap_or_default()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.pair().0
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.pair().1
    }

    /// Replaces the value; one of the same length in place.
    #[inline]
    fn set_value(&mut self, value: &[u8]) {
        let start = self.key_length as usize;
        match self.bytes.get_mut(start..) {
            Some(place) if place.len() == value.len() => place.copy_from_slice(value),
            _ => *self = Self::new(self.key(), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn put(map: &mut Map, value: &[u8]) -> *const u8 {
        map.write(&[Op::Put { key: b"key", value }]);
        let found = map.get(map.hash(b"key"), b"key").unwrap();
        assert_eq!(found, value);
        found.as_ptr()
    }

    #[test]
    fn a_value_of_the_same_length_is_written_in_place() {
        let mut map = Map::default();
        let place = put(&mut map, b"one");
        assert_eq!(put(&mut map, b"two"), place);
        put(&mut map, b"longer");
        put(&mut map, b"");
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn parts_share_the_keys_evenly_and_keep_their_tags_apart() {
        let hasher = DefaultHashBuilder::default();
        let hashes: Vec<u64> = (0..200_000u32).map(|n| hasher.hash_one(n.to_be_bytes().as_slice())).collect();
        let in_first: Vec<u64> = hashes.iter().copied().filter(|&hash| part_of(hash) == 0).collect();
        assert!(
            (600..1000).contains(&in_first.len()),
            "{} of 200000 keys in one of 256 parts",
            in_first.len()
        );
        let tags: HashSet<u64> = in_first.iter().map(|hash| hash >> 57).collect();
        assert!(tags.len() > 50, "{} of 128 tags used", tags.len());
    }
}
