//! Tests of several threads that write at the same time, for engines that allow it.

use super::engine_case::{EngineCase, Open, for_each};
use crate::engine::{Fsync, Kind, Writers};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

const THREADS: u32 = 4;
/// Number of keys that every batch of the test of atomic batches writes, all with the same value.
const KEYS: usize = 20;

fn for_each_of_many(kind: &'static Kind, test: impl FnMut(EngineCase)) {
    if kind.info.writers != Writers::One {
        for_each(kind, test);
    }
}

fn rounds(cell: EngineCase) -> u32 {
    if cell.fsync == Fsync::Always { 20 } else { 200 }
}

/// Calls `write` in four threads at the same time, repeatedly, with the number of the thread and of the repetition.
fn all_at_once(open: &Open, write: impl Fn(u32, u32) + Sync) {
    thread::scope(|scope| {
        let start = |thread| {
            let (write, rounds) = (&write, rounds(open.cell));
            scope.spawn(move || (0..rounds).for_each(|round| write(thread, round)))
        };
        // Each thread is joined explicitly: LMDB's threads must have ended before the engine is dropped, see
        // `Engine`.
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Returns the distinct values of all keys: only one, unless batches were mixed.
fn values(open: &Open) -> BTreeSet<Vec<u8>> {
    open.all().into_iter().map(|(_, value)| value).collect()
}

/// Tests that batches of several threads are applied atomically.
pub fn batches_of_many_threads_stay_whole(kind: &'static Kind) {
    for_each_of_many(kind, |cell| {
        let mut open = cell.open();
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|key| format!("key {key}").into_bytes()).collect();
        let mixed = AtomicUsize::new(0);
        all_at_once(&open, |thread, round| {
            let value = [thread.to_be_bytes(), round.to_be_bytes()].concat();
            // Half of the threads write in reverse order: an engine that locks key by key would mix the batches.
            open.write(|batch| match thread % 2 {
                0 => keys.iter().for_each(|key| batch.put(key, &value)),
                _ => keys.iter().rev().for_each(|key| batch.put(key, &value)),
            });
            mixed.fetch_add(usize::from(values(&open).len() != 1), Ordering::Relaxed);
        });
        assert_eq!(mixed.into_inner(), 0, "{cell}: scans saw parts of several batches");
        assert_eq!((values(&open).len(), open.count()), (1, KEYS as u64), "{cell}");
        if !cell.memory {
            let before = values(&open);
            open.reopen(true);
            assert_eq!(values(&open), before, "{cell}, opened again");
        }
    });
}

/// Tests that no write of several threads is lost.
pub fn no_write_of_many_threads_is_lost(kind: &'static Kind) {
    for_each_of_many(kind, |cell| {
        let mut open = cell.open();
        let key = |thread: u32, round: u32| format!("{thread}/{round}").into_bytes();
        all_at_once(&open, |thread, round| {
            let (new, old) = (key(thread, round), key(thread, round.wrapping_sub(2)));
            open.write(|batch| {
                batch.put(&new, &new);
                batch.delete(&old);
            });
            let found = open.get(&new);
            assert_eq!(found.as_deref(), Some(new.as_slice()), "{cell}: not there when acknowledged");
        });
        let check = |open: &Open| {
            assert_eq!(open.count(), 2 * u64::from(THREADS), "{cell}");
            for (thread, back) in (0..THREADS).flat_map(|thread| [(thread, 1), (thread, 2)]) {
                let key = key(thread, rounds(cell) - back);
                assert_eq!(open.get(&key).as_deref(), Some(key.as_slice()), "{cell}");
            }
        };
        check(&open);
        if !cell.memory {
            open.reopen(true);
            check(&open);
        }
    });
}
