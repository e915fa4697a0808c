//! Hash table of `map`, in parts that grow one by one.

use super::{
    ByteBudget, Change, ScanControl, Table, VisitNext, free_in_order,
    hash_entry::Entry,
    hash_scan::{KEYS_PER_LOOKUP, visit_part},
};
use crate::engine::{KeyRange, VisitValue, WriteOp};
use hashbrown::{DefaultHashBuilder, HashTable as RawTable, hash_table::IterHash};
use std::{
    hash::{BuildHasher, Hasher},
    hint::black_box,
    mem,
};

/// Number of parts of a large map. Each grows on its own, so the pause of a growing table is that of one part: at
/// 10 million keys some 30 thousand entries move, not all of them. More parts would not all stay in the processor's
/// L1 cache.
const PARTS: usize = 3 << 7;

/// Number of keys from which a map is split into parts. A smaller map is expected to be in the processor's caches,
/// where finding the part, and fetching keys together, costs more than it saves.
const SPLIT_KEYS: usize = 8 << 10;

/// Hash table, in [`PARTS`] parts once it has [`SPLIT_KEYS`] keys.
pub(in crate::engine) struct HashTable {
    pub(super) hasher: DefaultHashBuilder,
    /// Parts of the map: one, or [`PARTS`] if the map is large.
    pub(super) parts: Vec<RawTable<Entry>>,
    pub(super) len: usize,
    /// `true` if more than half of the writes of the last call of `write_together` added keys to a map that is split
    /// into parts. The next call then creates all new entries before it inserts the first.
    pub(super) mostly_inserts: bool,
    /// Estimated ratio of the final to the current number of entries while a file is replayed; 1 if unknown.
    pub(super) times: f64,
}

impl Default for HashTable {
    fn default() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            parts: vec![RawTable::new()],
            len: 0,
            mostly_inserts: false,
            times: 1.0,
        }
    }
}

/// Hashes like `hash_one`, without the length that `hash_one` adds before a slice: the hash of one slice alone
/// needs none.
#[inline]
pub(super) fn hash_of(hasher: &DefaultHashBuilder, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(key);
    state.finish()
}

/// Returns the index of the part of a large map to which a hash belongs. hashbrown picks a bucket by the lowest bits
/// and distinguishes the entries of a bucket by the highest seven; if the part depended on either, all entries of a
/// part would share them.
///
/// The parts have different sizes: the share of keys falls by half from the last to the first. A table doubles when it
/// is full. Tables of the same size would all double at the same time, and then be half empty. Tables of different
/// sizes double one after the other, so the memory per key hardly depends on the number of keys.
#[inline]
fn part_of(hash: u64) -> usize {
    // About PARTS * log2(1 + x), where x is in 0..1, as the parabola PARTS * x * (4 - x) / 3.
    let x = (hash >> 41) & 0xffff;
    ((x * (0x4_0000 - x) * (PARTS / 3) as u64) >> 32) as usize
}

fn empty_parts() -> Vec<RawTable<Entry>> {
    (0..PARTS).map(|_| RawTable::new()).collect()
}

impl HashTable {
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        hash_of(&self.hasher, key)
    }

    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.parts.len() > 1
    }

    /// Returns the index of the part to which a hash belongs; 0 in a small map, which has one part.
    #[inline]
    pub(super) fn place(&self, hash: u64) -> usize {
        if self.is_large() { part_of(hash) } else { 0 }
    }

    /// Splits a small map, which has one part, into [`PARTS`] parts.
    #[cold]
    fn split(&mut self) {
        let small = mem::replace(&mut self.parts, empty_parts());
        for entry in small.into_iter().flatten() {
            let hash = self.hash(entry.key());
            if let Some(part) = self.parts.get_mut(part_of(hash)) {
                part.insert_unique(hash, entry, |entry| hash_of(&self.hasher, entry.key()));
            }
        }
    }

    /// Fetches the memory that look-ups of up to [`KEYS_PER_LOOKUP`] hashes will need. In a large table each
    /// look-up waits for memory three times in sequence: for the tags, the slot and the entry. Done stage by stage
    /// for all keys, where no result decides what comes next, the memory accesses overlap.
    #[inline]
    pub(super) fn fetch(&self, hashes: &[u64]) {
        if !self.is_large() {
            return;
        }
        let mut tags: [Option<IterHash<'_, Entry>>; KEYS_PER_LOOKUP] = [const { None }; KEYS_PER_LOOKUP];
        for (tags, hash) in tags.iter_mut().zip(hashes) {
            *tags = self.parts.get(part_of(*hash)).map(|part| part.iter_hash(*hash));
        }
        let mut entries = [None; KEYS_PER_LOOKUP];
        for (entry, tags) in entries.iter_mut().zip(&mut tags) {
            *entry = tags.as_mut().and_then(Iterator::next);
        }
        black_box(entries.iter().flatten().fold(0, |sum, entry| sum ^ entry.first()));
    }

    // Always inlined, like `read`: the calls were a sixth of the time of a single look-up.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let entry = self.parts.get(self.place(hash))?.find(hash, |entry| entry.has_key(key))?;
        Some(entry.value_behind(key.len()))
    }

    /// Counts one more entry of the map, and splits a map that has become large into parts.
    #[inline]
    pub(super) fn grown(&mut self) {
        self.len += 1;
        if self.len >= SPLIT_KEYS && !self.is_large() {
            self.split();
        }
    }

    #[inline(never)]
    fn get_many(&self, keys: &[&[u8]], mut budget: ByteBudget, visit: &mut VisitValue<'_>) -> Option<usize> {
        let mut hashes = [0; KEYS_PER_LOOKUP];
        for (round, keys) in keys.chunks(KEYS_PER_LOOKUP).enumerate() {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(key);
            }
            self.fetch(hashes.get(..keys.len()).unwrap_or_default());
            for (index, (hash, key)) in hashes.iter().zip(keys).enumerate() {
                let (index, value) = (round * KEYS_PER_LOOKUP + index, self.find(*hash, key));
                if budget.is_over(value) {
                    return Some(index);
                }
                if visit(index, value).is_break() {
                    return None;
                }
            }
        }
        None
    }

    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Entry> {
        let place = self.place(hash);
        let slot = self.parts.get_mut(place)?.find_entry(hash, |entry| entry.has_key(key)).ok()?;
        self.len -= 1;
        Some(slot.remove().0)
    }
}

impl Table for HashTable {
    /// Position of a scan: the index of the next of [`PARTS`] parts to visit. `Clear` changes the hashes, but then no
    /// key existed throughout the scan.
    type Position = usize;
    type Pair = Entry;

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.find(self.hash(key), key)
    }

    #[inline(always)]
    fn read(&self, keys: &[&[u8]], mut budget: ByteBudget, visit: &mut VisitValue<'_>) -> Option<usize> {
        // A client that does not pipeline: a single look-up has no other to overlap with.
        let [key] = keys else { return self.get_many(keys, budget, visit) };
        let value = self.find(self.hash(key), key);
        if budget.is_over(value) {
            return Some(0);
        }
        let _ = visit(0, value);
        None
    }

    fn write(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<Entry>) {
        ops.chunks(KEYS_PER_LOOKUP).for_each(|ops| self.write_together(ops, heavy));
    }

    fn pair(key: &[u8], value: &[u8]) -> Entry {
        Entry::new(key, value)
    }

    fn key(pair: &Entry) -> &[u8] {
        pair.key()
    }

    fn put(&mut self, pair: Entry) -> Option<Entry> {
        self.put_hashed(self.hash(pair.key()), pair)
    }

    fn take(&mut self, key: &[u8]) -> Option<Entry> {
        self.remove(self.hash(key), key)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn partitions(count: usize) -> (Vec<Self>, impl Fn(&[u8]) -> usize) {
        let hasher = DefaultHashBuilder::default();
        let piece = || Self { hasher: hasher.clone(), parts: empty_parts(), ..Self::default() };
        let pieces = (0..count).map(|_| piece()).collect();
        (pieces, move |key: &[u8]| part_of(hash_of(&hasher, key)) % count)
    }

    fn change(&mut self, changes: Vec<Change<Entry>>, part: f64, waste: &mut Vec<Entry>) {
        // The first changes are not representative of the others.
        self.times = if part > 0.02 { 1.0 / part } else { 1.0 };
        self.change_together(changes, waste);
    }

    fn clear(&mut self) {
        (self.parts, self.len) = (empty_parts(), 0);
    }

    fn join(mut pieces: Vec<Self>) -> Self {
        let (count, mut parts) = (pieces.len(), Vec::with_capacity(PARTS));
        for place in 0..PARTS {
            if let Some(piece) = pieces.get_mut(place % count.max(1)) {
                parts.extend(piece.take_part(place));
            }
        }
        let len = pieces.iter().map(|piece| piece.len).sum();
        pieces.pop().map_or_else(Self::default, |Self { hasher, .. }| Self {
            hasher,
            parts,
            len,
            ..Self::default()
        })
    }

    fn free(self, pause: &mut dyn FnMut()) {
        let mut entries = Vec::with_capacity(self.len);
        entries.extend(self.parts.into_iter().flatten());
        free_in_order(entries, Entry::address, pause);
    }

    fn scan_step(&self, range: KeyRange<'_>, position: &mut usize, visit: &mut VisitNext<'_>) -> bool {
        if self.is_large() {
            while let Some(part) = self.parts.get(*position) {
                *position += 1;
                match visit_part(part, range, visit) {
                    ScanControl::Continue => {}
                    ScanControl::Pause => return *position < PARTS,
                    ScanControl::Stop => return false,
                }
            }
            return false;
        }
        // In the order of the parts that the entries will be in, so that a scan may continue after the split.
        let parts = self.parts.iter().flatten().map(|entry| (part_of(self.hash(entry.key())), entry));
        let mut rest: Vec<_> = parts.filter(|(part, _)| part >= position).collect();
        rest.sort_unstable_by_key(|(part, _)| *part);
        for part in rest.chunk_by(|(one, _), (next, _)| one == next) {
            *position = part.first().map_or(PARTS, |(part, _)| part + 1);
            match visit_part(part.iter().map(|(_, entry)| *entry), range, visit) {
                ScanControl::Continue => {}
                ScanControl::Pause => return *position < PARTS,
                ScanControl::Stop => return false,
            }
        }
        *position = PARTS;
        false
    }

    fn place(number: u64) -> Option<usize> {
        usize::try_from(number % PARTS as u64).ok()
    }

    fn number(position: &usize) -> u64 {
        *position as u64
    }

    fn position_number(&self, key: &[u8]) -> u64 {
        part_of(self.hash(key)) as u64
    }

    fn is_past(&self, position: &usize, key: &[u8]) -> bool {
        part_of(self.hash(key)) < *position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, ops::Range};

    fn put(map: &mut HashTable, value: &[u8]) -> *const u8 {
        map.write(&[WriteOp::Put { key: b"key", value }], &mut Vec::new());
        let found = map.find(map.hash(b"key"), b"key").unwrap();
        assert_eq!(found, value);
        found.as_ptr()
    }

    #[test]
    fn a_value_of_the_same_length_is_written_in_place() {
        let mut map = HashTable::default();
        let place = put(&mut map, b"one");
        assert_eq!(put(&mut map, b"two"), place);
        put(&mut map, b"longer");
        put(&mut map, b"");
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn keys_of_any_length_are_distinguished_from_values() {
        let mut map = HashTable::default();
        let lengths = [0, 1, 254, 255, 256, 70_000];
        let keys = lengths.map(|length| vec![b'k'; length]);
        let values = lengths.map(|length| vec![b'v'; length]);
        for round in 0..2 {
            for (index, key) in keys.iter().enumerate() {
                let value = &values[(index + round) % values.len()];
                map.write(&[WriteOp::Put { key, value }], &mut Vec::new());
                assert_eq!(map.find(map.hash(key), key), Some(&value[..]));
            }
            assert_eq!(map.len(), keys.len());
        }
        for key in &keys {
            map.write(&[WriteOp::Delete { key }], &mut Vec::new());
            assert_eq!(map.find(map.hash(key), key), None);
        }
        assert_eq!(map.len(), 0);
    }

    fn add(map: &mut HashTable, numbers: Range<usize>) {
        for number in numbers {
            let key = number.to_be_bytes();
            map.write(&[WriteOp::Put { key: &key, value: &key }], &mut Vec::new());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn a_growing_map_is_split_once_and_keeps_its_pairs() {
        let mut map = HashTable::default();
        add(&mut map, 0..SPLIT_KEYS - 1);
        assert_eq!(map.parts.len(), 1);
        add(&mut map, SPLIT_KEYS - 1..SPLIT_KEYS * 2);
        assert_eq!(map.parts.len(), PARTS);
        // Back to the size at the split, and above it again.
        for number in 0..=SPLIT_KEYS {
            map.write(&[WriteOp::Delete { key: &number.to_be_bytes() }], &mut Vec::new());
        }
        assert_eq!(map.len(), SPLIT_KEYS - 1);
        add(&mut map, 0..SPLIT_KEYS);
        for number in (0..SPLIT_KEYS).chain(SPLIT_KEYS + 1..SPLIT_KEYS * 2) {
            let key = number.to_be_bytes();
            assert_eq!(map.find(map.hash(&key), &key), Some(&key[..]));
        }
    }

    /// An incremental scan visits each key once, also if the map is split meanwhile, and each step ends soon after a
    /// pause is requested: it is one read lock and one buffer.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn an_incremental_scan_takes_small_steps_and_survives_the_split() {
        for count in [SPLIT_KEYS - 1, SPLIT_KEYS] {
            let mut map = HashTable::default();
            add(&mut map, 0..count);
            let (mut position, mut visited) = (0, HashSet::new());
            for step in 0.. {
                let before = visited.len();
                let go_on = map.scan_step(KeyRange::ALL, &mut position, &mut |key, value| {
                    assert_eq!(key, value);
                    assert!(visited.insert(key.to_vec()), "visited twice");
                    ScanControl::Pause
                });
                assert!(visited.len() - before < SPLIT_KEYS / 32, "{} in one step", visited.len() - before);
                if !go_on {
                    break;
                }
                if step == PARTS / 2 {
                    add(&mut map, count..count + SPLIT_KEYS);
                }
            }
            assert!((0..count).all(|number| visited.contains(&number.to_be_bytes()[..])));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn parts_grow_one_after_the_other_and_keep_their_tags_apart() {
        let hasher = DefaultHashBuilder::default();
        let hashes: Vec<u64> = (0..200_000u32).map(|n| hasher.hash_one(n.to_be_bytes().as_slice())).collect();
        let mut shares = vec![0; PARTS];
        hashes.iter().for_each(|&hash| shares[part_of(hash)] += 1);
        let mean = hashes.len() / PARTS;
        for (part, &share) in shares.iter().enumerate() {
            assert!((mean / 2..mean * 2).contains(&share), "{share} of {} keys in part {part}", hashes.len());
        }
        let (first, last) = (shares[..32].iter().sum::<usize>(), shares[PARTS - 32..].iter().sum::<usize>());
        assert!(last > first * 3 / 2, "{first} and {last}");
        let in_first: Vec<u64> = hashes.iter().copied().filter(|&hash| part_of(hash) == 0).collect();
        let tags: HashSet<u64> = in_first.iter().map(|hash| hash >> 57).collect();
        assert!(tags.len() > 50, "{} of 128 tags used", tags.len());
    }
}
