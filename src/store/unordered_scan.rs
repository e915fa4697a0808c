//! SCAN of the keys of an unordered engine.
//!
//! The engine's incremental scan visits whole parts of the data, which are too large for the reply to one
//! call. Within a part, SCAN visits the keys in the order of their hashes. The cursor is the place of the
//! next key in that order, so no cursor can be forgotten, however many clients scan. See [`ScanOrder`] for
//! the cursor, and [`super::scan_key_lists`] for the lists that spare most calls a read of a whole part.

use super::{
    Error, Store,
    database_keys::Database,
    raw_scan::{MAX_LOOKUP_KEYS, VisitStored, visit_listed},
    scan_key_lists::{KeyList, UnorderedScans},
    scan_order::{MAX_PART, ScanOrder},
};
use crate::engine;
use std::ops::{ControlFlow, Range};

impl Store {
    /// Runs one step of an incremental scan (SCAN) of a database of an unordered engine: see
    /// [`Keyspace::scan_step`](super::Keyspace::scan_step).
    pub(super) fn scan_step_without_order(
        &self,
        space: Database,
        cursor: u64,
        count: usize,
        visit: &mut VisitStored<'_>,
    ) -> Result<u64, Error> {
        let UnorderedScans { hasher, lists } = &self.unordered_scans;
        let (mut next, mut left) = (hasher.next(space, cursor), count.max(1));
        while next < ScanOrder::END {
            if left == 0 {
                return Ok(hasher.cursor(space, next));
            }
            let visited = if let Some(list) = lists.find(space, next) {
                let first = list.index(next);
                let end = list.end(first, left);
                self.visit_listed(space, &list, first..end, visit)?;
                if end == list.len() {
                    lists.finish(space, &list);
                }
                next = list.order(end);
                end - first
            } else {
                let (begin, read) = (next, lists.begin_read());
                let list = self.read_keys(space, begin, left)?;
                let end = list.end(0, left);
                self.visit_listed(space, &list, 0..end, visit)?;
                next = list.order(end);
                if end < list.len() {
                    let is_whole = begin <= next.part_start();
                    lists.add(space, next, read, is_whole, list.rest(end, read.max_bytes));
                }
                end
            };
            left = left.saturating_sub(visited);
        }
        Ok(0)
    }

    /// Reads the keys of the database from `next` on: those of whole parts, up to a part with which the list
    /// has at least `count` keys. There may be fewer, or none, if keys of other databases are in between.
    fn read_keys(&self, space: Database, next: ScanOrder, count: usize) -> Result<KeyList, Error> {
        let (start, mut list) = (next.part(), KeyList::default());
        // The limit also counts keys of other databases, of which there may be many.
        let mut left = count.max(MAX_LOOKUP_KEYS);
        let end = self.reads.scan_step_keys(start, &mut |stored| {
            if space.decode_key(stored).is_some() {
                list.push(next, stored);
            }
            left = left.saturating_sub(1);
            if left > 0 && list.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if end > MAX_PART {
            let message = format!("its scan has reached position {end}, and SCAN supports up to {MAX_PART}");
            return Err(engine::Error::Library { engine: self.info().name, message }.into());
        }
        list.set_until(if end == 0 { ScanOrder::END } else { ScanOrder::start_of(end.max(start + 1)) });
        // Keys that this call visits all need no order.
        if next > next.part_start() || list.len() > count {
            let last = if end == 0 { MAX_PART } else { end.saturating_sub(1).max(start) };
            list.sort(next, |stored| {
                // FLUSHALL may have moved the parts meanwhile.
                let part =
                    if start == last { start } else { self.engine().scan_part(stored).clamp(start, last) };
                self.unordered_scans.hasher.order(part, stored)
            });
        }
        Ok(list)
    }

    /// Reads the keys of a list with the indexes `range`, and calls `visit` for those that still exist.
    fn visit_listed(
        &self,
        space: Database,
        list: &KeyList,
        range: Range<usize>,
        visit: &mut VisitStored<'_>,
    ) -> Result<(), Error> {
        let keys: Vec<&[u8]> = list.keys(range).collect();
        let each = &mut |stored: &[u8], key: &[u8], value: engine::Result<&[u8]>| {
            let _visited = visit(stored, key, value);
            ControlFlow::Continue(())
        };
        let _all = visit_listed(&self.reads, space, &keys, each)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            scan_key_lists,
            tests::{commit, store_of_corrupt_values},
        },
        *,
    };
    use crate::engine::{Fsync, Kind, Location, OpenOptions};
    use std::{collections::HashSet, thread};

    /// Sizes in bytes of the memory for lists: none, too little for most scans, and enough.
    const SIZES: [usize; 3] = [0, 3000, scan_key_lists::MAX_BYTES];

    /// Number of keys of a map that is split into parts.
    const SPLIT_MAP_KEYS: u32 = 9000;

    fn store(max_bytes: usize) -> Store {
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let engine = Kind::find("map").unwrap().open(&options).unwrap();
        Store { unordered_scans: UnorderedScans::new(max_bytes), ..Store::new(engine, Fsync::No) }
    }

    fn put(store: &Store, keys: impl Iterator<Item = Vec<u8>> + Clone + Send + Sync) {
        commit(store, |txn| {
            let mut put = |key: Vec<u8>| txn.put(txn.copy_to_arena(&key), b"value");
            keys.clone().try_for_each(&mut put)
        })
        .unwrap();
    }

    fn delete(store: &Store, key: &[u8]) {
        commit(store, |txn| txn.delete(txn.copy_to_arena(key))).unwrap();
    }

    fn numbered(name: &str, count: u32) -> impl Iterator<Item = Vec<u8>> + Clone + Send + Sync {
        (0..count).map(move |number| format!("{name} {number}").into_bytes())
    }

    /// Calls SCAN. Returns the next cursor and the keys.
    fn scan(store: &Store, cursor: u64, count: usize) -> (u64, Vec<Vec<u8>>) {
        let mut keys = Vec::new();
        let visit = &mut |_: &[u8], key: &[u8], _: engine::Result<&[u8]>| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        };
        let next = store.scan_step(Database::default(), cursor, count, visit).unwrap();
        (next, keys)
    }

    /// Client that scans all keys.
    #[derive(Default)]
    struct Scanner {
        cursor: u64,
        found: Vec<Vec<u8>>,
        is_done: bool,
    }

    impl Scanner {
        fn step(&mut self, store: &Store, count: usize) {
            if self.is_done {
                return;
            }
            let (next, keys) = scan(store, self.cursor, count);
            self.found.extend(keys);
            (self.cursor, self.is_done) = (next, next == 0);
        }

        fn finish(mut self, store: &Store, count: usize) -> Vec<Vec<u8>> {
            while !self.is_done {
                self.step(store, count);
            }
            self.found
        }
    }

    /// Checks that `found` consists of `count` different keys.
    #[track_caller]
    fn check_once(found: &[Vec<u8>], count: u32) {
        assert_eq!(found.len(), count as usize);
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), count as usize);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn interleaved_scans_visit_each_key_once_however_few_lists_are_kept() {
        for (max_bytes, keys) in SIZES.into_iter().flat_map(|size| [(size, SPLIT_MAP_KEYS), (size, 500)]) {
            let store = store(max_bytes);
            put(&store, numbered("key", keys));
            let mut scanners: Vec<_> = (0..20).map(|_| Scanner::default()).collect();
            // Each scan has another position in the data, and another COUNT.
            while scanners.iter().any(|scanner| !scanner.is_done) {
                for (number, scanner) in (1..).zip(&mut scanners) {
                    scanner.step(&store, number * 3);
                }
            }
            scanners.iter().for_each(|scanner| check_once(&scanner.found, keys));
            assert!(scanners[0].found.len() > 3);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn scan_reads_only_the_values_of_the_keys_that_it_visits() {
        let directory = tempfile::tempdir().unwrap();
        let store = store_of_corrupt_values(directory.path(), 3000);
        let (next, keys) = scan(&store, 0, 10);
        assert!(next > 0 && (10..20).contains(&keys.len()), "{} keys", keys.len());
        assert_eq!(store.corrupt_reads(), keys.len() as u64);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn scan_goes_on_beside_many_new_scans() {
        let store = store(scan_key_lists::MAX_BYTES);
        // So large that the first parts of all new scans together exceed the memory for lists.
        let long = [b'x'; 3000];
        put(&store, numbered("key", SPLIT_MAP_KEYS).map(move |key| [&key[..], &long].concat()));
        let mut scanner = Scanner::default();
        for _ in 0..3 {
            scanner.step(&store, 5);
            (0..3000).for_each(|_| drop(scan(&store, 0, 1)));
        }
        check_once(&scanner.finish(&store, 100), SPLIT_MAP_KEYS);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn keys_that_stay_are_visited_while_others_come_and_go() {
        for (max_bytes, count) in SIZES.into_iter().flat_map(|size| [(size, 1), (size, 10), (size, 200)]) {
            let store = store(max_bytes);
            // The map is split into parts meanwhile.
            let stays = 8100;
            put(&store, numbered("stays", stays));
            put(&store, numbered("goes", 60));
            let mut scanners: Vec<_> = (0..3).map(|_| Scanner::default()).collect();
            let mut steps = 0;
            while scanners.iter().any(|scanner| !scanner.is_done) {
                for (number, scanner) in scanners.iter_mut().enumerate() {
                    scanner.step(&store, count + 3 * number);
                    if steps < 3000 {
                        put(&store, [format!("comes {steps}").into_bytes()].into_iter());
                        delete(&store, format!("comes {}", steps / 2).as_bytes());
                        delete(&store, format!("goes {}", steps / 3).as_bytes());
                    }
                    steps += 1;
                }
            }
            for scanner in scanners {
                let found: HashSet<_> = scanner.found.into_iter().collect();
                assert!(numbered("stays", stays).all(|key| found.contains(&key)), "{max_bytes} {count}");
            }
        }
    }

    /// A list of keys that one scan has read does not hide a key from a scan that begins later.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn scan_visits_keys_inserted_before_its_start() {
        for (keys, inserted) in [(500, 30), (SPLIT_MAP_KEYS, 300)] {
            let store = store(scan_key_lists::MAX_BYTES);
            put(&store, numbered("old", keys));
            let mut early = Scanner::default();
            for round in 0..20 {
                early.step(&store, 7);
                // Waits with a list that an earlier scan has read.
                let mut waiting = Scanner::default();
                waiting.step(&store, 1);
                put(&store, numbered(&format!("new {round}"), inserted));
                let mut late = Scanner::default();
                late.step(&store, 1);
                waiting.step(&store, 1);
                early.step(&store, 7);
                check_once(&late.finish(&store, 10), keys + inserted * (round + 1));
                let found: HashSet<_> = waiting.finish(&store, 1000).into_iter().collect();
                assert!(numbered("old", keys).all(|key| found.contains(&key)));
            }
            let found: HashSet<_> = early.finish(&store, 100).into_iter().collect();
            assert!(numbered("old", keys).all(|key| found.contains(&key)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn scans_of_several_threads_visit_the_keys_that_exist_throughout() {
        for max_bytes in SIZES {
            let store = &store(max_bytes);
            put(store, numbered("stays", SPLIT_MAP_KEYS));
            thread::scope(|scope| {
                let scans: Vec<_> = (0..4)
                    .map(|number| {
                        scope.spawn(move || {
                            let own = format!("own {number}").into_bytes();
                            for round in 0..3 {
                                put(store, [own.clone()].into_iter());
                                let scanner = Scanner::default();
                                let found: HashSet<_> =
                                    scanner.finish(store, 20 + round).into_iter().collect();
                                assert!(found.contains(&own), "{max_bytes}");
                                assert!(numbered("stays", SPLIT_MAP_KEYS).all(|key| found.contains(&key)));
                                delete(store, &own);
                            }
                        })
                    })
                    .collect();
                scans.into_iter().for_each(|scan| scan.join().unwrap());
            });
        }
    }

    /// A client that did not get a reply sends the cursor again.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn cursor_returns_the_same_keys_again() {
        for max_bytes in SIZES {
            let store = store(max_bytes);
            put(&store, numbered("key", SPLIT_MAP_KEYS));
            let mut cursor = 0;
            for _ in 0..100 {
                let (next, keys) = scan(&store, cursor, 10);
                let again: HashSet<_> = scan(&store, cursor, 10).1.into_iter().collect();
                assert_eq!(again, keys.into_iter().collect());
                cursor = next;
            }
        }
    }

    /// Each step that is stopped at once visits the keys of one part, and returns the number of the next.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn engine_returns_the_part_of_every_key() {
        for count in [500, SPLIT_MAP_KEYS] {
            let store = store(0);
            put(&store, numbered("key", count));
            let (mut position, mut visited) = (0, 0);
            loop {
                let mut keys = Vec::new();
                let visit = &mut |key: &[u8], _: &[u8]| {
                    keys.push(key.to_vec());
                    ControlFlow::Break(())
                };
                let next = store.engine().scan_step(position, visit).unwrap();
                visited += keys.len();
                let parts: HashSet<_> = keys.iter().map(|key| store.engine().scan_part(key)).collect();
                assert!(parts.len() <= 1 && parts.iter().all(|part| *part >= position), "{parts:?}");
                if next == 0 {
                    break;
                }
                assert_eq!(parts, HashSet::from([next - 1]));
                position = next;
            }
            assert_eq!(visited, count as usize);
        }
    }
}
