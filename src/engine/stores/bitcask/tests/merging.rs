//! Tests of merges of `bitcask`: what they keep, what they remove, and reads during a merge.

use super::{
    super::{background::work, segment::before_open},
    *,
};
use crate::engine::{KeyRange, Location};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

#[test]
fn full_segment_is_sealed_and_the_next_one_created() {
    let mut store = Store::new();
    store.fill(0, FULL * 3, 0);
    assert!(store.segments().len() >= 3, "{:?}", store.segments());
    store.check();
    store.reopen(false);
    store.check();
}

#[test]
fn merge_keeps_live_values_and_removes_the_segment() {
    let mut store = Store::new();
    store.fill(0, FULL, 0);
    let first = store.segments()[0];
    store.fill(0, FULL / 2, 1);
    store.delete(&(FULL - 1).to_be_bytes());
    store.merge_oldest();
    assert!(!store.segments().contains(&first));
    store.check();
    store.reopen(true);
    store.check();
}

/// A seal, for which writes wait, then has little left to sync.
#[test]
fn merge_of_several_steps_syncs_what_it_has_moved() {
    let mut store = Store::new();
    for number in 0..1000_u32 {
        store.put(&number.to_be_bytes(), b"twenty bytes in each");
    }
    store.roll();
    let (files, most) = (&store.engine().files, Cell::new(0));
    // Called before each of the two steps.
    let before_step = || {
        most.set(most.get().max(files.active().unsynced()));
        false
    };
    assert!(files.merge_oldest(&before_step).unwrap());
    assert!(most.get() < files.space.wake_every(), "{} bytes", most.get());
}

#[test]
fn merges_do_not_restore_removed_keys() {
    let mut store = Store::new();
    store.put(b"deleted", b"old");
    store.put(b"set again", b"old");
    store.roll();
    store.delete(b"deleted");
    store.delete(b"set again");
    store.roll();
    store.put(b"set again", b"new");
    store.roll();
    while store.segments().len() > 1 {
        store.merge_oldest();
        assert_eq!(model_after_restart(&store.path()), store.model);
    }
    store.check();
}

#[test]
fn background_merges_limit_the_files_to_about_twice_the_live_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let engine = Bitcask::open(&OpenOptions::for_check(&path)).unwrap();
    let mut model = Model::new();
    for round in 0..40 {
        for number in 0..FULL * 2 {
            let (key, value) = (number.to_be_bytes(), value(number, round));
            let mut batch = Batch::default();
            batch.put(&key, &value);
            engine.write(&batch, false).unwrap();
            model.insert(key.into(), value);
        }
    }
    engine.quiesce().unwrap();
    let (all_bytes, live) = engine.files.bytes();
    assert!(all_bytes - live <= live.max(SEGMENT), "{all_bytes} bytes, {live} of them alive");
    assert!(engine.disk_size().unwrap() < 40 * SEGMENT / 4);
    assert_eq!(all(&engine), model);
    // Each sealed segment has its hint file, and merged segments have left no files.
    let hints = names(&path).iter().filter(|name| name.ends_with(".hint")).count();
    assert_eq!(hints, segments(&path).len() - 1);
    engine.close().unwrap();
    drop(engine);
    assert_eq!(all(&try_open(&path).unwrap()), model);
}

#[test]
fn background_work_that_fails_is_an_error_of_quiesce() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let engine = Bitcask::open(&OpenOptions::for_check(&path)).unwrap();
    // Where new hint files must be made.
    let hints: Vec<_> = (1..10).map(|id| path_of(&path, id).with_extension("hint-new")).collect();
    hints.iter().for_each(|hint| fs::create_dir(hint).unwrap());
    let value = vec![7; 2 * SEGMENT as usize];
    for key in [b"one", b"two"] {
        let mut batch = Batch::default();
        batch.put(key, &value);
        engine.write(&batch, false).unwrap();
    }
    let error = engine.quiesce().unwrap_err().to_string();
    assert!(error.contains("hint-new"), "{error}");
    hints.iter().for_each(|hint| fs::remove_dir(hint).unwrap());
    engine.quiesce().unwrap();
}

/// Otherwise each start would read all later segments.
#[test]
fn a_segment_that_cannot_be_merged_prevents_no_other_hint_file() {
    let mut store = Store::new();
    store.put(b"only in the first segment", &value(0, 1));
    store.roll();
    for round in 0..3 {
        store.fill(0, FULL, round);
        store.roll();
    }
    let (files, ids) = (&store.engine().files, store.segments());
    assert!(files.is_merge_due());
    let path = |id: u32| path_of(&store.path(), id);
    // The merge reads the segment, which is open, but does not find its file in order to remove it.
    fs::rename(path(ids[0]), store.path().join("away")).unwrap();
    let error = work(files, false, &|| false).unwrap_err().to_string();
    assert!(error.contains("was moved"), "{error}");
    let (_active, sealed) = ids[1..].split_last().unwrap();
    assert!(sealed.iter().all(|id| path(*id).with_extension("hint").exists()), "{sealed:?}");
}

#[test]
fn a_clear_leaves_one_segment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let engine = Bitcask::open(&OpenOptions::for_check(&path)).unwrap();
    let mut batch = Batch::default();
    let value = vec![7; 4 * SEGMENT as usize];
    batch.put(b"large", &value);
    engine.write(&batch, false).unwrap();
    let mut batch = Batch::default();
    batch.clear();
    batch.put(b"after", b"1");
    engine.write(&batch, false).unwrap();
    engine.quiesce().unwrap();
    assert_eq!(segments(&path).len(), 1);
    assert!(engine.disk_size().unwrap() < SEGMENT);
    drop(engine);
    assert_eq!(all(&try_open(&path).unwrap()), Model::from([(b"after".to_vec(), b"1".to_vec())]));
}

#[test]
fn scan_sees_one_snapshot_during_writes_and_merges() {
    let mut store = Store::new();
    store.fill(0, FULL * 4, 0);
    let before = store.model.clone();
    let (mut found, mut merged) = (Model::new(), false);
    store
        .engine()
        .scan(KeyRange::ALL, &mut |key, value| {
            if !merged {
                // All values change, and no earlier file is left.
                let mut batch = Batch::default();
                (0..FULL * 4).for_each(|number| batch.put(&[], &value[..number as usize % 9]));
                before.keys().for_each(|key| batch.put(key, b"changed"));
                store.engine().write(&batch, false).unwrap();
                let last = *store.segments().last().unwrap();
                assert!(store.engine().files.merge_all(&|| false).unwrap());
                assert!(store.segments()[0] > last);
                merged = true;
            }
            found.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(found == before, "{} of {} keys", found.len(), before.len());
    assert_eq!(get(store.engine(), &1_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"changed"[..]));
}

#[test]
fn segments_beyond_the_limit_of_open_files_are_read() {
    let mut store = Store::new();
    for number in 0..60_u32 {
        store.put(&number.to_be_bytes(), &[number as u8; 10]);
        store.roll();
    }
    store.shut(true);
    store.engine = Some(open_with_few_files(&store.path()));
    assert_eq!(all(store.engine()), store.model);
    assert!(open_files(&store) < 30, "{} files", open_files(&store));
}

pub(super) fn open_with_few_files(path: &Path) -> Bitcask {
    let mut options = OpenOptions::for_check(path);
    options.max_files = 0;
    assert!(matches!(options.location, Location::Path(_)));
    let engine = when_unlocked(|| Bitcask::open(&options)).unwrap();
    engine.background.stop();
    engine
}

/// Returns the number of files in the store's directory that this process has open.
fn open_files(store: &Store) -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap();
    let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    targets.filter(|target| target.starts_with(store.path())).count()
}

#[test]
fn sealed_segments_are_closed_beyond_the_limit() {
    let mut store = Store::new();
    store.shut(true);
    store.engine = Some(open_with_few_files(&store.path()));
    for number in 0..60_u32 {
        store.put(&number.to_be_bytes(), &[number as u8; 10]);
        store.roll();
        assert!(open_files(&store) < 30, "{} files after {number} segments", open_files(&store));
    }
    store.check();
    assert!(store.engine().files.merge_all(&|| false).unwrap());
    store.fill(0, FULL * 3, 1);
    store.check();
    assert!(open_files(&store) < 30, "{} files", open_files(&store));
}

/// A scan keeps removed segments open that it may still read: a merge waits for the scan before there are too
/// many.
#[test]
fn merge_during_a_scan_keeps_the_limit_of_open_files() {
    let mut store = Store::new();
    for number in 0..60_u32 {
        store.put(&number.to_be_bytes(), &[number as u8; 10]);
        store.roll();
    }
    store.shut(true);
    store.engine = Some(open_with_few_files(&store.path()));
    let (mut most, polls) = (0, Cell::new(0));
    store
        .engine()
        .scan(KeyRange::ALL, &mut |_, _| {
            // The merge is stopped when it has waited for a while.
            let stop = || {
                polls.set(polls.get() + 1);
                polls.get() > 200
            };
            let whole = store.engine().files.merge_all(&stop).unwrap();
            most = open_files(&store).max(most);
            assert!(!whole, "all is merged, and {most} files are open");
            ControlFlow::Break(())
        })
        .unwrap();
    assert!(most < 30, "{most} files");
    assert!(store.engine().files.merge_all(&|| false).unwrap());
    store.check();
}

/// A read finds a segment's file closed, a merge removes the file before the read can open it, and the read succeeds.
#[test]
fn a_read_that_opens_a_segment_which_a_merge_removes_succeeds() {
    let mut store = Store::new();
    for number in 0..40_u32 {
        store.put(&number.to_be_bytes(), &[number as u8; 10]);
        store.roll();
    }
    store.shut(true);
    store.engine = Some(open_with_few_files(&store.path()));
    store.check();
    // All files within the limit are open; the last sealed segment is closed.
    let last = store.engine().files.segments.sealed().pop().unwrap();
    let number = last.id - 1;
    let engine = Arc::new(store.engine.take().unwrap());
    let merged = Arc::new(AtomicBool::new(false));
    let (merging, done) = (Arc::clone(&engine), Arc::clone(&merged));
    before_open(move || {
        assert!(merging.files.merge_all(&|| false).unwrap());
        done.store(true, Ordering::Relaxed);
    });
    let found = get(&engine, &number.to_be_bytes()).unwrap();
    assert!(merged.load(Ordering::Relaxed) && !last.path.exists(), "the file was open");
    assert_eq!(found, Some(vec![number as u8; 10]));
}

#[test]
fn one_read_returns_many_keys() {
    let mut store = Store::new();
    store.fill(0, 6000, 3);
    store.check();
}

/// Random writes, new segments, merges, kills and restarts leave the data that a map in memory holds.
#[test]
fn random_merges_and_restarts_leave_what_a_map_holds() {
    for seed in 0..8 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store = Store::new();
        for _ in 0..400 {
            let key = [rng.random_range(0..30_u8)];
            match rng.random_range(0..100) {
                0..50 => {
                    let length = rng.random_range(0..6000);
                    store.put(&key, &value(rng.random(), rng.random()).repeat(6)[..length]);
                }
                50..75 => store.delete(&key),
                75..76 => {
                    let mut batch = Batch::default();
                    batch.clear();
                    store.engine().write(&batch, false).unwrap();
                    store.model.clear();
                }
                76..80 => store.roll(),
                80..85 => store.merge_oldest(),
                85..90 => {
                    let sealed = store.engine().files.segments.sealed();
                    let ids: Vec<_> = sealed.iter().map(|segment| segment.id).collect();
                    if !ids.is_empty() {
                        let _waits_for_older_ones = store.merge(ids[rng.random_range(0..ids.len())]);
                    }
                }
                90..92 => assert!(store.engine().files.merge_all(&|| false).unwrap()),
                92..95 => {
                    let sealed = store.engine().files.segments.sealed();
                    sealed.iter().for_each(|segment| {
                        crate::engine::stores::bitcask::segment_hint::write_hint(segment).unwrap()
                    });
                }
                _ => store.reopen(rng.random()),
            }
            assert_eq!(all(store.engine()), store.model, "seed {seed}");
        }
        store.check();
    }
}
