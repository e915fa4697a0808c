//! Lists of the keys that the next calls of SCANs of an unordered engine will visit.
//!
//! Without a list, a call reads a whole part of the engine's data to find the next keys. The list of the keys
//! that it does not need is kept for the next call. A list that is discarded costs time, but no key: the next
//! call reads the part again.
//!
//! All clients share the lists, but a scan must not use a list that was read before the scan began, because
//! keys may have been inserted in between. So each read of a part has a number, and a scan that reads a part
//! from its start removes the lists of that part with lower numbers. After a list is removed, no list with a
//! lower number is added.

use super::{
    database_keys::Database,
    scan_order::{ScanHasher, ScanOrder},
};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Maximum total size of the lists in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// Maximum number of lists.
const MAX_LISTS: usize = 1024;

/// Number of calls of all clients after which an unused list no longer counts as one that a scan needs.
const RECENT_CALLS: u64 = 10_000;

/// Place of a key in the order of SCAN, and its bytes in [`KeyList::bytes`].
struct ListedKey {
    order: ScanOrder,
    start: usize,
    end: usize,
}

/// Stored keys of one database, in the order of SCAN.
#[derive(Default)]
pub(super) struct KeyList {
    /// All keys, concatenated.
    bytes: Vec<u8>,
    keys: Vec<ListedKey>,
    /// End of the list: it contains all keys from its first key to this place.
    until: ScanOrder,
}

impl KeyList {
    /// Appends a key at `order`.
    pub(super) fn push(&mut self, order: ScanOrder, key: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.keys.push(ListedKey { order, start, end: self.bytes.len() });
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Sets the place before which the list contains all keys.
    pub(super) fn set_until(&mut self, until: ScanOrder) {
        self.until = until;
    }

    /// Sorts the keys by the places that `order` returns, and removes those before `from`.
    pub(super) fn sort(&mut self, from: ScanOrder, order: impl Fn(&[u8]) -> ScanOrder) {
        let Self { bytes, keys, .. } = self;
        for key in keys.iter_mut() {
            key.order = order(bytes.get(key.start..key.end).unwrap_or_default());
        }
        keys.retain(|key| key.order >= from);
        keys.sort_unstable_by_key(|key| (key.order, key.start));
    }

    /// Returns the index of the first key that is not before `next`.
    pub(super) fn index(&self, next: ScanOrder) -> usize {
        self.keys.partition_point(|key| key.order < next)
    }

    /// Returns the index behind `count` keys from index `first` on, and behind further keys with the place of
    /// the last of them.
    pub(super) fn end(&self, first: usize, count: usize) -> usize {
        let rest = self.keys.get(first..).unwrap_or_default();
        let Some(last) = count.checked_sub(1).and_then(|last| rest.get(last)) else {
            return if count == 0 { first } else { self.keys.len() };
        };
        first + rest.partition_point(|key| key.order <= last.order)
    }

    /// Returns the place of the key at `index`, or the end of the list.
    pub(super) fn order(&self, index: usize) -> ScanOrder {
        self.keys.get(index).map_or(self.until, |key| key.order)
    }

    pub(super) fn keys(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let keys = self.keys.get(range).unwrap_or_default();
        keys.iter().map(|key| self.bytes.get(key.start..key.end).unwrap_or_default())
    }

    /// Copies the keys of one part from index `first` on, as far as the copy has at most `max_bytes` bytes.
    /// Returns `None` if there are none.
    pub(super) fn rest(&self, first: usize, max_bytes: usize) -> Option<Self> {
        let keys = self.keys.get(first..)?;
        let end_of_part = keys.first()?.order.part_end();
        let mut size = 0;
        let fits = |key: &&ListedKey| {
            size += key.size();
            size <= max_bytes && key.order < end_of_part
        };
        let count = keys.iter().take_while(fits).count();
        let until = keys.get(count).map_or(self.until, |next| next.order.min(end_of_part));
        // Keys with the same place stay together.
        let keys = keys.get(..count)?;
        let keys = keys.get(..keys.partition_point(|key| key.order < until))?;
        let mut rest = Self {
            bytes: Vec::with_capacity(keys.iter().map(|key| key.end - key.start).sum()),
            keys: Vec::with_capacity(keys.len()),
            until,
        };
        for (key, bytes) in keys.iter().zip(self.keys(first..first + keys.len())) {
            rest.push(key.order, bytes);
        }
        (!keys.is_empty()).then_some(rest)
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.keys.len() * size_of::<ListedKey>()
    }
}

impl ListedKey {
    fn size(&self) -> usize {
        self.end - self.start + size_of::<Self>()
    }
}

/// Read of a part of the data, to find the next keys of a scan.
#[derive(Clone, Copy)]
pub(super) struct PartRead {
    /// Number of the read; later reads have higher ones.
    number: u64,
    /// Maximum size in bytes of the list that is kept of the read.
    pub(super) max_bytes: usize,
}

struct SavedList {
    list: Arc<KeyList>,
    /// Number of the read of the part from which the list was made.
    read: u64,
    /// Time of the last use, in calls of all clients; 0 after a call that visited the last key.
    last_use: u64,
}

struct Table {
    max_bytes: usize,
    /// Saved lists, by the index of the database and the place of the first key.
    saved: BTreeMap<(u8, ScanOrder), SavedList>,
    /// Total size of the lists in bytes.
    bytes: usize,
    /// Number of searches for lists and of reads of parts so far.
    calls: u64,
    /// Highest number of a read whose list was removed, or that has left no list.
    removed: u64,
}

/// State of a store for its SCANs, if the engine is unordered.
pub(super) struct UnorderedScans {
    pub(super) hasher: ScanHasher,
    pub(super) lists: KeyLists,
}

impl Default for UnorderedScans {
    fn default() -> Self {
        Self::new(MAX_BYTES)
    }
}

impl UnorderedScans {
    /// Creates the state, with at most `max_bytes` bytes of lists of keys.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { hasher: ScanHasher::default(), lists: KeyLists::new(max_bytes) }
    }
}

/// Lists of the keys that the next calls of scans will visit, of all databases.
pub(super) struct KeyLists(Mutex<Table>);

impl KeyLists {
    /// Creates an empty cache of at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        let saved = BTreeMap::new();
        Self(Mutex::new(Table { max_bytes, saved, bytes: 0, calls: 0, removed: 0 }))
    }

    /// Returns a list that contains all keys of the database from `next` on, up to the end of the list.
    /// Returns `None` if there is none, and always if `next` is the start of a part, which the scan has to
    /// read.
    pub(super) fn find(&self, space: Database, next: ScanOrder) -> Option<Arc<KeyList>> {
        if next == next.part_start() {
            return None;
        }
        let space = space.number();
        let mut table = self.lock();
        let now = table.tick();
        let (_, saved) = table.saved.range_mut((space, next.part_start())..=(space, next)).next_back()?;
        if saved.list.until <= next {
            return None;
        }
        saved.last_use = now;
        Some(Arc::clone(&saved.list))
    }

    /// Begins a read of a part of the data.
    pub(super) fn begin_read(&self) -> PartRead {
        let mut table = self.lock();
        let number = table.tick();
        let oldest = number.saturating_sub(RECENT_CALLS);
        let recent = table.saved.values().filter(|saved| saved.last_use > oldest).count();
        PartRead { number, max_bytes: table.max_bytes / (recent + 1) }
    }

    /// Saves the list `rest` (`None`: no key fits) of the keys of the part of `next` that a read has found,
    /// and that the scan has not visited. `is_whole` is `true` if the scan has read the part from its start.
    pub(super) fn add(
        &self,
        space: Database,
        next: ScanOrder,
        read: PartRead,
        is_whole: bool,
        rest: Option<KeyList>,
    ) {
        let space = space.number();
        let part = (space, next.part_start())..(space, next.part_end());
        // Freed after the lock is released.
        let mut removed = Vec::new();
        let mut table = self.lock();
        if is_whole {
            let of_part = table.saved.range(part.clone());
            let outdated = of_part.filter(|(_, saved)| saved.read < read.number).map(|(place, _)| *place);
            for place in outdated.collect::<Vec<_>>() {
                removed.extend(table.remove(place));
            }
        }
        if is_whole && rest.is_none() {
            // No list of this read will keep those of earlier reads out.
            table.removed = table.removed.max(read.number);
        }
        let is_latest =
            read.number > table.removed && table.saved.range(part).all(|(_, saved)| saved.read < read.number);
        if let Some(list) = rest
            && is_latest
        {
            let place = (space, list.order(0));
            removed.extend(table.remove(place));
            table.bytes += list.size();
            let saved = SavedList { list: Arc::new(list), read: read.number, last_use: read.number };
            table.saved.insert(place, saved);
        }
        while table.bytes > table.max_bytes || table.saved.len() > MAX_LISTS {
            let Some((&place, _)) = table.saved.iter().min_by_key(|(_, saved)| saved.last_use) else { break };
            removed.extend(table.remove(place));
        }
        drop(table);
    }

    /// Marks a list whose last key was visited. It is kept until that happens to another list, for other
    /// clients whose scans are close behind.
    pub(super) fn finish(&self, space: Database, list: &Arc<KeyList>) {
        let mut removed = Vec::new();
        let mut table = self.lock();
        let place = (space.number(), list.order(0));
        let finished = table.saved.iter().filter(|(_, saved)| saved.last_use == 0).map(|(place, _)| *place);
        for other in finished.filter(|other| *other != place).collect::<Vec<_>>() {
            removed.extend(table.remove(other));
        }
        if let Some(saved) = table.saved.get_mut(&place).filter(|saved| Arc::ptr_eq(&saved.list, list)) {
            saved.last_use = 0;
        }
        drop(table);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic leaves at worst a wrong sum of sizes, so poisoning is ignored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Counts a call. Returns the number of calls so far.
    fn tick(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// Removes and returns the list whose first key is at `place`.
    fn remove(&mut self, place: (u8, ScanOrder)) -> Option<Arc<KeyList>> {
        let SavedList { list, read, .. } = self.saved.remove(&place)?;
        self.bytes -= list.size();
        self.removed = self.removed.max(read);
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(orders: &[ScanOrder], until: ScanOrder) -> KeyList {
        let mut list = KeyList::default();
        orders.iter().for_each(|order| list.push(*order, b"key"));
        list.set_until(until);
        list
    }

    /// Returns the places of `count` keys of part number `part`, in ascending order.
    fn orders(part: u64, count: u64) -> Vec<ScanOrder> {
        (1..=count).map(|hash| ScanOrder::new(part, hash)).collect()
    }

    fn find(lists: &KeyLists, next: ScanOrder) -> bool {
        lists.find(Database::default(), next).is_some()
    }

    /// Reads part number `part` from its start, and saves the list of its keys behind the first.
    fn read_part(lists: &KeyLists, part: u64) -> Vec<ScanOrder> {
        let (read, orders) = (lists.begin_read(), orders(part, 10));
        let rest = list(&orders, ScanOrder::start_of(part + 1)).rest(1, read.max_bytes);
        lists.add(Database::default(), orders[1], read, true, rest);
        orders
    }

    #[test]
    fn keys_with_the_same_place_are_not_separated() {
        let orders = orders(3, 5);
        let places = [orders[0], orders[1], orders[1], orders[1], orders[2]];
        let list = list(&places, ScanOrder::start_of(4));
        assert_eq!([1, 2, 3, 4, 5, 9].map(|count| list.end(0, count)), [1, 4, 4, 4, 5, 5]);
        assert_eq!((list.end(1, 1), list.end(4, 1), list.end(5, 1)), (4, 5, 5));
        // Room for three keys: the second place has three keys, of which only two fit.
        let rest = list.rest(0, 3 * list.size() / 5).unwrap();
        assert_eq!((rest.len(), rest.until), (1, orders[1]));
        assert!(list.rest(1, 2 * list.size() / 5).is_none());
        let rest = list.rest(1, usize::MAX).unwrap();
        assert_eq!((rest.len(), rest.until), (4, ScanOrder::start_of(4)));
    }

    #[test]
    fn saved_list_has_the_keys_of_one_part() {
        let (first, second) = (orders(3, 4), orders(5, 4));
        let list = list(&[&first[..], &second].concat(), ScanOrder::END);
        let rest = list.rest(1, usize::MAX).unwrap();
        assert_eq!((rest.len(), rest.until), (first.len() - 1, ScanOrder::start_of(4)));
        let rest = list.rest(first.len(), usize::MAX).unwrap();
        assert_eq!((rest.len(), rest.until), (second.len(), ScanOrder::END));
    }

    #[test]
    fn list_is_found_from_its_first_key_to_its_end() {
        let lists = KeyLists::new(MAX_BYTES);
        let orders = read_part(&lists, 7);
        assert!(orders[1..].iter().all(|next| find(&lists, *next)));
        assert!(!find(&lists, orders[0]));
        assert!(lists.find(Database::new(1), orders[1]).is_none());
        for part in [6, 7, 8] {
            assert!(!find(&lists, ScanOrder::start_of(part)));
        }
    }

    #[test]
    fn read_of_a_part_removes_lists_of_earlier_reads_and_keeps_them_out() {
        let lists = KeyLists::new(MAX_BYTES);
        let save = |read, is_whole, orders: &[ScanOrder]| {
            let rest = list(orders, ScanOrder::start_of(8)).rest(0, usize::MAX);
            lists.add(Database::default(), orders[0], read, is_whole, rest);
        };
        let orders = orders(7, 10);
        let (early, middle, late) = (lists.begin_read(), lists.begin_read(), lists.begin_read());
        // A scan that continues within the part.
        save(early, false, &orders[1..]);
        // A later scan reads the whole part, but a list of a still later read is already there.
        save(late, false, &orders[5..]);
        save(middle, true, &orders[1..]);
        assert!(!find(&lists, orders[3]));
        assert!(find(&lists, orders[5]));
        save(early, false, &orders[2..]);
        assert!(!find(&lists, orders[3]));
        // Not even when the later list is gone.
        lists.lock().remove((0, orders[5]));
        save(middle, false, &orders[2..]);
        assert!(!find(&lists, orders[3]));
        let next = lists.begin_read();
        save(next, false, &orders[2..]);
        assert!(find(&lists, orders[3]));
        // An earlier read is kept out also if the later one could keep no list, because its next key is too large.
        let (early, late) = (lists.begin_read(), lists.begin_read());
        lists.add(Database::default(), orders[0], late, true, None);
        save(early, false, &orders[2..]);
        assert!(!find(&lists, orders[3]));
    }

    #[test]
    fn many_scans_share_the_memory() {
        let size = list(&orders(0, 9), ScanOrder::END).size();
        for scans in [1, 4, 20] {
            let lists = KeyLists::new(5 * size);
            for part in (0..10).flat_map(|_| 0..scans) {
                read_part(&lists, part);
                let table = lists.lock();
                assert!(table.bytes <= 5 * size);
                assert_eq!(table.bytes, table.saved.values().map(|saved| saved.list.size()).sum::<usize>());
            }
            // With 20 scans there is memory for two keys of each.
            assert!((0..scans).all(|part| find(&lists, ScanOrder::new(part, 2))), "{scans}");
        }
    }

    #[test]
    fn least_recently_used_list_is_removed_first() {
        let size = list(&orders(0, 9), ScanOrder::END).size();
        let lists = KeyLists::new(3 * size);
        let first = read_part(&lists, 0);
        let second = read_part(&lists, 1);
        assert!(find(&lists, first[1]));
        for part in 2..6 {
            read_part(&lists, part);
            assert!(find(&lists, first[1]));
        }
        assert!(!find(&lists, second[1]));
    }

    #[test]
    fn finished_list_is_kept_until_the_next_one_is_finished() {
        let lists = KeyLists::new(MAX_BYTES);
        let finish =
            |next| lists.finish(Database::default(), &lists.find(Database::default(), next).unwrap());
        let (first, second) = (read_part(&lists, 0), read_part(&lists, 1));
        finish(first[1]);
        assert!(find(&lists, first[2]));
        finish(first[1]);
        finish(second[1]);
        assert!(!find(&lists, first[1]));
        assert!(find(&lists, second[1]));
    }

    #[test]
    fn number_of_lists_is_limited() {
        let lists = KeyLists::new(MAX_BYTES);
        for part in 0..MAX_LISTS as u64 + 10 {
            read_part(&lists, part);
        }
        assert_eq!(lists.lock().saved.len(), MAX_LISTS);
    }

    #[test]
    fn nothing_is_saved_without_memory() {
        let lists = KeyLists::new(0);
        let orders = read_part(&lists, 0);
        assert!(!find(&lists, orders[1]));
        assert_eq!(lists.lock().bytes, 0);
    }
}
