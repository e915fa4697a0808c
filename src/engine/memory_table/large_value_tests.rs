//! Tests of very large reads and writes of a table in memory: they see one snapshot, and block no other reads and
//! writes.

use super::{
    super::{Batch, KeyRange, WriteOp},
    concurrent::{SharedTable, free_garbage},
    hash_table::HashTable,
    table_trait::{SLOW_TO_FREE, Table},
};
use crate::engine::stores::btree::BTree;
use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

const MIB: usize = 1 << 20;

fn put<T: Table>(table: &SharedTable<T>, keys: &[&[u8]], value: &[u8]) {
    let mut batch = Batch::default();
    keys.iter().for_each(|key| batch.put(key, value));
    free_garbage(table.write(&batch));
}

/// Checks that a large value is visited without a lock: a write during the visit would otherwise never end.
fn write_while_it_is_read<T: Table>() {
    let table = SharedTable::new(T::default(), false);
    let long = vec![7; 20 * MIB + 3];
    put(&table, &[b"long"], &long);
    let mut visited = 0;
    table.read_long(&[b"long"], &mut |index, value| {
        put(&table, &[b"long"], b"short");
        assert_eq!((index, value), (0, Some(&long[..])));
        visited += 1;
        ControlFlow::Continue(())
    });
    table.read_long(&[b"long"], &mut |_, value| {
        assert_eq!(value, Some(&b"short"[..]));
        visited += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(visited, 2);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn a_long_value_is_lent_without_a_lock() {
    write_while_it_is_read::<HashTable>();
    write_while_it_is_read::<BTree>();
}

/// Checks that a write returns the large pair that it replaces or deletes, so that the caller can free it without the
/// table's lock.
fn large_pair_is_returned_by_the_write<T: Table>() {
    let (table, long) = (SharedTable::new(T::default(), false), vec![7; SLOW_TO_FREE + 1]);
    for small in [WriteOp::Put { key: b"key", value: b"short" }, WriteOp::Delete { key: b"key" }] {
        put::<T>(&table, &[b"key"], &long);
        let mut batch = Batch::default();
        batch.push(small);
        let waste = table.write(&batch);
        assert_eq!(waste.heavy.len(), 1, "{small:?}");
        free_garbage(waste);
        assert!(table.write(&batch).heavy.is_empty(), "{small:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn a_long_value_is_freed_without_a_lock() {
    large_pair_is_returned_by_the_write::<HashTable>();
    large_pair_is_returned_by_the_write::<BTree>();
}

/// Checks that a read sees only values of one batch, while twelve values of up to 5 MiB are written in one batch,
/// repeatedly.
fn read_what_is_written_together<T: Table>() {
    let names: Vec<[u8; 1]> = (0..12).map(|name| [name]).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let table = SharedTable::new(T::default(), false);
    let done = AtomicBool::new(false);
    put(&table, &keys, &[0; MIB]);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for version in (1..=250_u8).cycle() {
                put(&table, &keys, &vec![version; usize::from(version % 6) * MIB + 100]);
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..20 {
            let (mut seen, mut next) = (None, 0);
            table.read_long(&keys, &mut |index, value| {
                assert_eq!(index, next);
                next += 1;
                let version = value.unwrap()[0];
                assert_eq!(*seen.get_or_insert(version), version, "of two moments");
                assert!(value.unwrap().iter().all(|byte| *byte == version));
                ControlFlow::Continue(())
            });
            assert_eq!(next, keys.len());
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn many_long_values_are_of_one_moment() {
    read_what_is_written_together::<HashTable>();
    read_what_is_written_together::<BTree>();
}

const KEYS: u32 = 100_000;

fn names(count: u32) -> Vec<[u8; 4]> {
    (0..count).map(u32::to_be_bytes).collect()
}

fn table_of<T: Table>(names: &[[u8; 4]]) -> SharedTable<T> {
    let table = SharedTable::new(T::default(), false);
    let mut batch = Batch::default();
    names.iter().for_each(|name| batch.put(name, b"value"));
    free_garbage(table.write(&batch));
    table
}

/// Returns `true` if another thread could write before `look`, which visits many keys slowly, has visited the last
/// one.
fn writes_meanwhile<T: Table>(look: impl FnOnce(&SharedTable<T>, &[&[u8]], &mut dyn FnMut())) -> bool {
    let names = names(KEYS);
    let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let table = table_of::<T>(&names);
    let (begun, written) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut visited, mut seen) = (0, false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::Acquire) {
                thread::yield_now();
            }
            put(&table, &[b"of another thread"], b"value");
            written.store(true, Ordering::Release);
        });
        look(&table, &keys, &mut || {
            begun.store(true, Ordering::Release);
            visited += 1;
            seen |= visited < KEYS && written.load(Ordering::Acquire);
            if !seen && visited.is_multiple_of(64) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        begun.store(true, Ordering::Release);
    });
    seen
}

fn scan_and_let_writers_in<T: Table>() {
    assert!(writes_meanwhile::<T>(|table, _, visit| {
        table.scan(KeyRange::ALL, &mut |_, _| {
            visit();
            ControlFlow::Continue(())
        });
    }));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn others_write_before_a_scan_ends() {
    scan_and_let_writers_in::<HashTable>();
    scan_and_let_writers_in::<BTree>();
}

fn read_and_let_writers_in<T: Table>() {
    for read in [SharedTable::<T>::read, SharedTable::<T>::read_long] {
        assert!(writes_meanwhile::<T>(|table, keys, visit| {
            read(table, keys, &mut |_, _| {
                visit();
                ControlFlow::Continue(())
            });
        }));
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn others_write_before_a_read_of_many_keys_ends() {
    read_and_let_writers_in::<HashTable>();
    read_and_let_writers_in::<BTree>();
}

/// Writes a large batch while another thread locks the table repeatedly. Returns two flags: `true` if that thread has
/// seen the batch partly gathered, and `true` if it has seen the batch partly moved into the table.
fn is_seen_half_way<T: Table>() -> (bool, bool) {
    let (names, done) = (names(KEYS), AtomicBool::new(false));
    let table = SharedTable::new(T::default(), false);
    let mut batch = Batch::default();
    names.iter().for_each(|name| batch.put(name, b"value"));
    let (all, mut gathered, mut moved) = (names.len(), false, false);
    thread::scope(|scope| {
        let look = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let state = table.lock();
                let (there, pending) = (state.table.len(), state.pending_puts());
                gathered |= there == 0 && pending > 0 && pending < all;
                moved |= there > 0 && there < all;
            }
        });
        free_garbage(table.write(&batch));
        done.store(true, Ordering::Relaxed);
        look.join().unwrap();
    });
    assert_eq!(table.len(), u64::from(KEYS));
    (gathered, moved)
}

fn let_readers_in<T: Table>() {
    let (mut gathered, mut moved) = (false, false);
    // The system may not schedule the other thread in a single attempt.
    for _ in 0..20 {
        let seen = is_seen_half_way::<T>();
        (gathered, moved) = (gathered || seen.0, moved || seen.1);
        if gathered && moved {
            return;
        }
    }
    panic!("seen when some of it was gathered: {gathered}, when some was moved: {moved}");
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn others_read_before_a_large_write_ends() {
    let_readers_in::<HashTable>();
    let_readers_in::<BTree>();
}
