//! Tests of `bitcask` on nearly full disks: which writes it refuses, and what merges do.

use super::{super::key_table::ValuePosition, *};
use crate::engine::{Error, memory_table::Table};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::atomic::Ordering;

impl Store {
    /// Simulates a disk on which `bytes` bytes are free.
    fn leave_free(&self, bytes: u64) {
        let space = &self.engine().files.space;
        space.capacity.store(u64::MAX, Ordering::Relaxed);
        let used: u64 =
            names(&self.path()).iter().map(|name| fs::metadata(self.path().join(name)).unwrap().len()).sum();
        space.capacity.store(used + bytes, Ordering::Relaxed);
        assert_eq!(space.free(), bytes);
    }

    /// Puts a value. Returns `false` if there is no space for it.
    fn try_put(&mut self, key: &[u8], value: &[u8]) -> bool {
        let mut batch = Batch::default();
        batch.put(key, value);
        match self.engine().write(&batch, false) {
            Ok(()) => drop(self.model.insert(key.into(), value.into())),
            Err(Error::Full { .. }) => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }

    fn clear(&mut self) {
        let mut batch = Batch::default();
        batch.clear();
        self.engine().write(&batch, false).unwrap();
        self.model.clear();
    }

    /// Merges segments as the background thread does, and asserts that the disk never gets full. Returns the numbers of
    /// the merged segments.
    fn run_due_merges(&self) -> Vec<u32> {
        let (files, mut merged) = (&self.engine().files, Vec::new());
        while let Some(source) = files.next_merge().unwrap() {
            let before = self.segments();
            let fits = || {
                assert!(files.space.free() > 0, "the merge fills the disk");
                false
            };
            assert!(files.merge(&source, &fits).unwrap());
            merged.extend(before.into_iter().filter(|id| !self.segments().contains(id)));
        }
        merged
    }

    fn segment_of(&self, key: &[u8]) -> u32 {
        let place = self.engine().files.table.look(|table| table.get(key).and_then(ValuePosition::of));
        place.unwrap().segment
    }

    /// Merges segment `id` without a check of the free space. Returns `false` if older segments must be merged first.
    pub(super) fn merge(&self, id: u32) -> bool {
        let files = &self.engine().files;
        let segment = files.segments.sealed().into_iter().find(|segment| segment.id == id).unwrap();
        let source = files.source(&segment, u64::MAX).unwrap();
        source.is_some_and(|source| files.merge(&source, &|| false).unwrap())
    }
}

#[test]
fn full_disk_merges_the_segment_with_the_most_dead_bytes_that_fits() {
    let mut store = Store::new();
    store.fill(0, FULL * 6, 0);
    let in_segment = |store: &Store, id| {
        (0..FULL * 6).map(u32::to_be_bytes).filter(|key| store.segment_of(key) == id).collect::<Vec<_>>()
    };
    let [second, third, fourth] = [2, 3, 4].map(|id| in_segment(&store, id));
    // Dead bytes: half of segment 2, all but two values of segment 3, a tenth of segment 4, nothing of segment
    // 1.
    for key in second.iter().step_by(2).chain(third.iter().skip(2)).chain(fourth.iter().step_by(10)) {
        store.put(key, b"");
    }
    store.roll();
    store.leave_free(20_000);
    assert_eq!(store.run_due_merges(), [3, 2]);
    assert_eq!(model_after_restart(&store.path()), store.model);
    store.reopen(false);
    store.check();
}

#[test]
fn merge_in_the_middle_keeps_what_older_segments_need() {
    let mut store = Store::new();
    store.put(b"deleted", b"old");
    store.put(b"set again", b"old");
    store.roll();
    store.delete(b"deleted");
    store.put(b"set again", b"newer");
    store.roll();
    store.put(b"set again", b"newest");
    store.roll();
    assert!(store.merge(2));
    assert_eq!(model_after_restart(&store.path()), store.model);
    // The segment that the merge wrote is merged too.
    store.roll();
    let last = *store.segments().iter().rev().nth(1).unwrap();
    assert!(store.merge(last));
    assert_eq!(store.segments()[..2], [1, 3]);
    store.reopen(false);
    store.check();
    // A clear is kept until there is no older segment.
    store.clear();
    store.put(b"after", b"1");
    store.roll();
    let clear = *store.segments().iter().rev().nth(1).unwrap();
    assert!(!store.merge(clear));
    while store.segments()[0] < clear {
        store.merge_oldest();
        assert_eq!(model_after_restart(&store.path()), store.model);
    }
    assert!(store.merge(clear));
    store.reopen(false);
    store.check();
}

/// On a nearly full disk, values are refused while a merge and deletes still fit, and accepted again once these have
/// freed space.
#[test]
fn values_are_refused_before_merges_and_deletes_do_not_fit() {
    for seed in 0..2 {
        let (mut rng, mut store) = (StdRng::seed_from_u64(seed), Store::new());
        store.leave_free(10 * SEGMENT);
        let reserve = store.engine().files.space.reserve();
        for round in 0..6 {
            let mut puts = 0;
            while store.try_put(&rng.random_range(0..900_u32).to_be_bytes(), &value(rng.random(), round)) {
                puts += 1;
                store.run_due_merges();
                assert!(puts < 5000, "seed {seed}: never full");
            }
            let free = store.engine().files.space.free();
            assert!((reserve - SEGMENT / 4..reserve + SEGMENT / 2).contains(&free), "{free} bytes are free");
            if round % 3 == 2 {
                store.clear();
            } else {
                let keys: Vec<_> = store.model.keys().filter(|_| rng.random_bool(0.6)).cloned().collect();
                keys.iter().for_each(|key| store.delete(key));
            }
            store.run_due_merges();
            assert!(store.engine().files.space.free() > reserve, "seed {seed}, round {round}");
            assert!(store.try_put(b"again", b"value"));
            assert_eq!(model_after_restart(&store.path()), store.model);
        }
        store.check();
    }
}

/// A merge of all segments fails if no merge fits on the disk, and nothing is lost.
#[test]
fn rewrite_without_space_is_refused() {
    let mut store = Store::new();
    store.fill(0, FULL * 3, 0);
    store.leave_free(10_000);
    let files = &store.engine().files;
    let error = files.merge_all(&|| false).unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert_eq!(model_after_restart(&store.path()), store.model);
    store.leave_free(2 * SEGMENT);
    assert!(store.engine().files.merge_all(&|| false).unwrap());
    store.check();
}
