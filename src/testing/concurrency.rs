//! Tests, for every engine, of reads that run concurrently with writes.

use super::engine_case::{EngineCase, Open, for_each};
use crate::engine::{Batch, Fsync, KeyRange, Kind};
use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// Number of keys that every batch of the test writes, all with the same value.
const KEYS: usize = 50;

/// Reads all keys until `done` is set, and checks that no read returns values of two batches.
fn read_all(open: &Open, keys: &[&[u8]], done: &AtomicBool, seen: &AtomicUsize) {
    while !done.load(Ordering::Relaxed) {
        let values: BTreeSet<_> = open.read(keys).into_iter().collect();
        assert_eq!(values.len(), 1, "{}: a read saw parts of several batches: {values:?}", open.cell);
        assert!(!values.contains(&None), "{}: a read saw no key of a batch", open.cell);
        seen.fetch_add(1, Ordering::Relaxed);
    }
}

/// Scans all keys until `done` is set, and checks that no scan returns values of two batches.
fn scan_all(open: &Open, done: &AtomicBool, seen: &AtomicUsize) {
    while !done.load(Ordering::Relaxed) {
        let pairs = open.all();
        let keys = pairs.len();
        let values: BTreeSet<_> = pairs.into_iter().map(|(_, value)| value).collect();
        assert_eq!(keys, KEYS, "{}: a scan saw half a batch", open.cell);
        assert_eq!(values.len(), 1, "{}: a scan saw parts of several batches: {values:?}", open.cell);
        assert_eq!(open.count(), KEYS as u64, "{}: a count saw half a batch", open.cell);
        seen.fetch_add(1, Ordering::Relaxed);
    }
}

fn batches(cell: EngineCase) -> u32 {
    if cell.fsync == Fsync::Always { 40 } else { 400 }
}

/// Tests that no reader sees half a batch.
pub fn no_reader_sees_half_a_batch(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        // With hash slots, scans are no snapshots, and removing all keys takes many writes.
        let has_slots = kind.info.capabilities.hash_slots;
        let names: Vec<Vec<u8>> = (0..KEYS).map(|i| format!("key {i}").into_bytes()).collect();
        let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let write = |number: u32| {
            let value = number.to_be_bytes();
            open.write(|batch| {
                // Every second batch replaces the keys instead of overwriting them.
                if number % 2 == 1 && !has_slots {
                    batch.clear();
                }
                keys.iter().for_each(|key| batch.put(key, &value));
            });
        };
        write(0);
        let done = AtomicBool::new(false);
        let (reads, scans) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let reader = scope.spawn(|| read_all(&open, &keys, &done, &reads));
            let scanner = (!has_slots).then(|| scope.spawn(|| scan_all(&open, &done, &scans)));
            (1..batches(cell)).for_each(write);
            // Continues until both threads have read, however slow the machine is.
            let has_failed =
                || reader.is_finished() || scanner.as_ref().is_some_and(|scanner| scanner.is_finished());
            let waits = |looks: &AtomicUsize| looks.load(Ordering::Relaxed) == 0;
            while !has_failed() && (waits(&reads) || scanner.is_some() && waits(&scans)) {
                write(batches(cell));
                // LMDB does not reuse a page while a snapshot may need it: writes without a pause fill its map if
                // a reader is descheduled during a read.
                thread::sleep(Duration::from_millis(1));
            }
            done.store(true, Ordering::Relaxed);
            // Without the joins, the threads could outlive the engine: see `Engine`.
            reader.join().unwrap();
            scanner.map_or(Ok(()), |scanner| scanner.join()).unwrap();
        });
    });
}

/// Tests that an engine's snapshot returns what was written before it, and nothing that another thread writes later.
pub fn a_snapshot_does_not_change(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        let write = |value: &[u8]| {
            open.write(|batch| {
                batch.put(b"a", value);
                if value == b"new" {
                    batch.put(b"b", value);
                }
            });
        };
        write(b"old");
        let Some(snapshot) = open.engine().snapshot().unwrap() else { return };
        for _ in 0..2 {
            let (mut values, mut pairs) = (Vec::new(), Vec::new());
            let mut visit = |_, value: Option<&[u8]>| {
                values.push(value.map(<[u8]>::to_vec));
                ControlFlow::Continue(())
            };
            snapshot.read(&[b"a", b"b"], &mut visit).unwrap();
            let mut visit = |key: &[u8], value: &[u8]| {
                pairs.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            snapshot.scan(KeyRange::ALL, &mut visit).unwrap();
            let old = b"old".to_vec();
            assert_eq!((values, pairs), (vec![Some(old.clone()), None], vec![(b"a".to_vec(), old)]));
            thread::scope(|scope| scope.spawn(|| write(b"new")).join().unwrap());
        }
        drop(snapshot);
        assert_eq!(open.get(b"b").unwrap(), b"new");
    });
}

/// Number of keys of a batch that is too large for engines that lock to be applied under one lock.
const LARGE_BATCH_KEYS: usize = 20_000;

/// Reads some keys of the batch, and all, and scans, until `done` is set, and checks that values of two batches are
/// never mixed. Counts its rounds in `looks`.
fn look_at_all(open: &Open, names: &[Vec<u8>], done: &AtomicBool, looks: &AtomicUsize) {
    let some: Vec<&[u8]> = names.iter().step_by(997).map(Vec::as_slice).collect();
    let all: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    while !done.load(Ordering::Relaxed) {
        for keys in [&some, &all, &some, &some] {
            let values: BTreeSet<_> = open.read(keys).into_iter().collect();
            assert_eq!(values.len(), 1, "{}: a read saw half a batch: {values:?}", open.cell);
            assert!(!values.contains(&None), "{}: a read saw no key of a batch", open.cell);
        }
        let pairs = open.all();
        let keys = pairs.len();
        let values: BTreeSet<_> = pairs.into_iter().map(|(_, value)| value).collect();
        assert_eq!((keys, values.len()), (LARGE_BATCH_KEYS, 1), "{}: a scan saw half a batch", open.cell);
        assert_eq!(open.count(), LARGE_BATCH_KEYS as u64, "{}: a count saw half a batch", open.cell);
        looks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tests that no reader sees half a large batch.
pub fn no_reader_sees_half_a_large_batch(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        let names: Vec<Vec<u8>> = (0..LARGE_BATCH_KEYS).map(|i| format!("key {i}").into_bytes()).collect();
        let write = |number: u32| {
            let value = number.to_be_bytes();
            let mut batch = Batch::default();
            if number % 4 == 3 {
                batch.clear();
            }
            names.iter().for_each(|key| batch.put(key, &value));
            open.engine().write(&batch, false).unwrap();
        };
        write(0);
        let (done, looks) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let reader = scope.spawn(|| look_at_all(&open, &names, &done, &looks));
            let mut number = 0;
            // A reader that has ended has failed.
            while !reader.is_finished() && (number < 8 || looks.load(Ordering::Relaxed) < 2) {
                number += 1;
                write(number);
                // The pause lets LMDB reuse pages, as in the test of small batches.
                thread::sleep(Duration::from_millis(1));
            }
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    });
}

/// Tests that a write is visible when it returns, to its thread and to all others.
pub fn a_write_is_visible_when_it_returns(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        for number in 0..20_u32 {
            open.put(b"key", &number.to_be_bytes());
            assert_eq!(open.get(b"key").unwrap(), number.to_be_bytes());
            let other = thread::scope(|scope| scope.spawn(|| open.get(b"key")).join().unwrap());
            assert_eq!(other.unwrap(), number.to_be_bytes());
            open.engine().sync().unwrap();
            assert_eq!(open.get(b"key").unwrap(), number.to_be_bytes());
        }
    });
}

/// Tests that a sync may run concurrently with writes.
pub fn syncs_run_beside_writes(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    open.engine().sync().unwrap();
                }
            });
            for number in 0..batches(cell) {
                open.put(b"key", &number.to_be_bytes());
                assert_eq!(open.get(b"key").unwrap(), number.to_be_bytes());
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}
