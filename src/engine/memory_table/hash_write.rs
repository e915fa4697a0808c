//! Writes to the map. In a large map most of the time is spent waiting for memory, so several keys are written at a
//! time.

use super::{
    hash_entry::Entry,
    hash_scan::KEYS_PER_LOOKUP,
    hash_table::{HashTable, hash_of},
};
use crate::engine::{WriteOp, memory_table::Change};
use hashbrown::{DefaultHashBuilder, HashTable as RawTable, hash_table::Entry as Slot};
use std::{hint::black_box, mem};

/// Number of buckets of a part of the map from which [`grow`] resizes the part when [`HashTable::put_hashed`] fills it.
/// hashbrown itself resizes smaller parts, and those that [`HashTable::set`] fills.
const SMALL: usize = 64;

impl HashTable {
    /// Applies up to [`KEYS_PER_LOOKUP`] writes, as `Table::write` does.
    pub(super) fn write_together(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<Entry>) {
        let mut hashes = [0; KEYS_PER_LOOKUP];
        for (hash, op) in hashes.iter_mut().zip(ops) {
            let (WriteOp::Put { key, .. } | WriteOp::Delete { key }) = op else { continue };
            *hash = self.hash(key);
        }
        self.fetch(hashes.get(..ops.len()).unwrap_or_default());
        let before = self.len;
        if self.mostly_inserts {
            self.write_made(&hashes, ops, heavy);
        } else {
            for (hash, op) in hashes.iter().zip(ops) {
                match *op {
                    WriteOp::Put { key, value } => self.set(*hash, key, value, heavy),
                    WriteOp::Delete { key } => self.delete(*hash, key, heavy),
                    WriteOp::Clear => {}
                }
            }
        }
        self.mostly_inserts = self.is_large() && self.len > before + ops.len() / 2;
    }

    fn delete(&mut self, hash: u64, key: &[u8], heavy: &mut Vec<Entry>) {
        self.remove(hash, key).into_iter().for_each(|entry| entry.free(heavy));
    }

    /// Applies writes that mostly add new keys. All entries are created before the first is inserted: the
    /// allocator's lock waits until all earlier memory accesses are done, including those to the table.
    #[inline(never)]
    fn write_made(&mut self, hashes: &[u64; KEYS_PER_LOOKUP], ops: &[WriteOp<'_>], heavy: &mut Vec<Entry>) {
        let mut made = [const { None }; KEYS_PER_LOOKUP];
        for ((made, hash), op) in made.iter_mut().zip(hashes).zip(ops) {
            if let WriteOp::Put { key, value } = *op
                && self.find(*hash, key).is_none()
            {
                *made = Some(Entry::new(key, value));
            }
        }
        for ((made, hash), op) in made.into_iter().zip(hashes).zip(ops) {
            match (*op, made) {
                (WriteOp::Put { .. }, Some(entry)) => {
                    self.put_hashed(*hash, entry).into_iter().for_each(|entry| entry.free(heavy));
                }
                (WriteOp::Put { key, value }, None) => self.set(*hash, key, value, heavy),
                (WriteOp::Delete { key }, _) => self.delete(*hash, key, heavy),
                (WriteOp::Clear, _) => {}
            }
        }
    }

    /// Applies changes, as `Table::change` does.
    pub(super) fn change_together(&mut self, changes: Vec<Change<Entry>>, waste: &mut Vec<Entry>) {
        let mut changes = changes.into_iter();
        loop {
            let mut hashes = [0; KEYS_PER_LOOKUP];
            let next = changes.as_slice().iter().take(KEYS_PER_LOOKUP);
            // Pairs were created by another thread, so they are not in a near cache.
            black_box(next.clone().fold(0, |sum, change| sum ^ change.pair.first()));
            let count = hashes
                .iter_mut()
                .zip(next)
                .map(|(hash, change)| *hash = self.hash(change.pair.key()))
                .count();
            self.fetch(hashes.get(..count).unwrap_or_default());
            for (hash, Change { pair, is_put }) in hashes.into_iter().zip(changes.by_ref().take(count)) {
                if is_put {
                    waste.extend(self.put_hashed(hash, pair));
                } else {
                    waste.extend(self.remove(hash, pair.key()));
                    waste.push(pair);
                }
            }
            if count < KEYS_PER_LOOKUP {
                return;
            }
        }
    }

    /// Removes the part with the index `place` from the map, and returns it. If the part is large and at most half
    /// full, it is shrunk first.
    pub(super) fn take_part(&mut self, place: usize) -> Option<RawTable<Entry>> {
        let mut part = mem::take(self.parts.get_mut(place)?);
        if part.num_buckets() >= SMALL && part.len() <= room(&part) / 2 {
            part.shrink_to_fit(|entry| hash_of(&self.hasher, entry.key()));
        }
        Some(part)
    }

    /// Inserts an entry whose key has the hash `hash`. Returns the entry with the same key that it replaces.
    pub(super) fn put_hashed(&mut self, hash: u64, entry: Entry) -> Option<Entry> {
        let place = self.place(hash);
        let part = self.parts.get_mut(place)?;
        make_room(part, &self.hasher, self.times);
        match part.entry(hash, |other| other.has_key(entry.key()), |entry| hash_of(&self.hasher, entry.key()))
        {
            Slot::Occupied(mut slot) => Some(mem::replace(slot.get_mut(), entry)),
            Slot::Vacant(slot) => {
                slot.insert(entry);
                self.grown();
                None
            }
        }
    }

    #[inline]
    pub(super) fn set(&mut self, hash: u64, key: &[u8], value: &[u8], heavy: &mut Vec<Entry>) {
        let place = self.place(hash);
        let Some(part) = self.parts.get_mut(place) else { return };
        match part.entry(hash, |entry| entry.has_key(key), |entry| hash_of(&self.hasher, entry.key())) {
            Slot::Occupied(mut slot) => slot.get_mut().set_value(value, heavy),
            Slot::Vacant(slot) => {
                slot.insert(Entry::new(key, value));
                self.grown();
            }
        }
    }
}

/// Grows a part of the map if it is full and has at least [`SMALL`] buckets, so that one more entry fits.
#[inline]
fn make_room(part: &mut RawTable<Entry>, hasher: &DefaultHashBuilder, times: f64) {
    if part.len() == part.capacity() && part.num_buckets() >= SMALL {
        grow(part, hasher, times);
    }
}

/// Returns the number of entries that a part of the map has capacity for.
fn room(part: &RawTable<Entry>) -> usize {
    part.num_buckets() / 8 * 7
}

/// Moves the entries of a full part to a table of twice the capacity, or of `times` the number of entries if that is
/// more; a part that is full of removed entries stays. Keys are hashed again, so several entries are read from memory
/// at the same time; the table's own growth would wait for each.
#[cold]
fn grow(part: &mut RawTable<Entry>, hasher: &DefaultHashBuilder, times: f64) {
    if part.len() <= room(part) / 2 {
        // Full of removed entries: the table reclaims them in place.
        return;
    }
    let room = (room(part) + 1).max((part.len() as f64 * times) as usize);
    let hash = |entry: &Entry| hash_of(hasher, entry.key());
    let mut entries = mem::replace(part, RawTable::with_capacity(room)).into_iter();
    loop {
        let mut together = [const { None }; KEYS_PER_LOOKUP];
        let count = together.iter_mut().zip(&mut entries).map(|(place, entry)| *place = Some(entry)).count();
        black_box(together.iter().flatten().fold(0, |sum, entry: &Entry| sum ^ entry.first()));
        for entry in together.into_iter().flatten() {
            part.insert_unique(hash(&entry), entry, hash);
        }
        if count < KEYS_PER_LOOKUP {
            return;
        }
    }
}
