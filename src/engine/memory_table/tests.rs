//! Tests of the engines as a whole: both tables, in memory and with an append-only file.

use super::{
    super::{
        Fsync, Kind,
        aof::{MAX_LENGTH, MAX_STORED_VALUE},
    },
    hash_table::HashTable,
    *,
};
use crate::engine::stores::{
    btree::{self, BTree},
    map,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, fs, ops::Bound, path::Path, slice};

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(location: Location) -> OpenOptions {
    OpenOptions::new(location, Fsync::No)
}

fn open(kind: &Kind, path: &Path) -> Box<dyn Engine> {
    kind.open(&options(Location::Path(path.into()))).unwrap()
}

fn state(engine: &dyn Engine, range: KeyRange<'_>) -> State {
    let mut state = State::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        assert!(state.insert(key.into(), value.into()).is_none(), "key visited twice");
        ControlFlow::Continue(())
    };
    engine.scan(range, &mut visit).unwrap();
    state
}

fn all(engine: &dyn Engine) -> State {
    state(engine, KeyRange::ALL)
}

/// Returns up to 79 random writes to one of 500 keys each; `None` is a delete.
fn random_ops(rng: &mut StdRng) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    (0..rng.random_range(1..80))
        .map(|_| {
            let key = rng.random_range(0..500u16).to_be_bytes().to_vec();
            let value = rng.random_bool(0.7).then(|| vec![rng.random(); rng.random_range(0..40)]);
            (key, value)
        })
        .collect()
}

/// Writes a random batch to engine and model; with a probability of `clears` percent it contains a `Clear`.
fn write_random(engine: &dyn Engine, model: &mut State, rng: &mut StdRng, clears: u32) {
    let ops = random_ops(rng);
    let mut batch = Batch::default();
    if rng.random_ratio(clears, 100) {
        batch.put(b"cleared", b"");
        batch.clear();
        model.clear();
    }
    for (key, value) in &ops {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }
    engine.write(&batch, rng.random_ratio(1, 10)).unwrap();
    for (key, value) in ops {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

fn check(engine: &dyn Engine, model: &State, rng: &mut StdRng) {
    assert_eq!(engine.count().unwrap(), model.len() as u64);
    let keys: Vec<Vec<u8>> = (0..100).map(|_| rng.random_range(0..600u16).to_be_bytes().to_vec()).collect();
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut next = 0;
    let mut visit = |index, value: Option<&[u8]>| {
        assert_eq!(index, next);
        assert_eq!(value, model.get(&keys[index]).map(Vec::as_slice));
        next += 1;
        if next == 70 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    engine.read(&borrowed, &mut visit).unwrap();
    assert_eq!(next, 70);
}

/// Compares the engine with a `BTreeMap` over 3000 batches from `seed`, with reopens and rewrites.
fn run_model(kind: &Kind, location: &Location, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model = State::new();
    let mut engine = kind.open(&options(location.clone())).unwrap();
    for _ in 0..3000 {
        write_random(&*engine, &mut model, &mut rng, 2);
        check(&*engine, &model, &mut rng);
        if *location == Location::Memory {
            continue;
        }
        match rng.random_range(0..100) {
            0 => engine.close().unwrap(),
            1 => {}
            // A rewrite may still be running.
            2..4 => drop(engine.rewrite_log()),
            _ => continue,
        }
        if rng.random_bool(0.5) {
            drop(engine);
            engine = kind.open(&options(location.clone())).unwrap();
            assert_eq!(all(&*engine), model, "seed {seed}");
        } else if engine.write(&Batch::default(), false).is_err() {
            drop(engine);
            engine = kind.open(&options(location.clone())).unwrap();
        }
    }
    assert_eq!(all(&*engine), model, "seed {seed}");
}

#[test]
fn both_tables_are_like_the_model() {
    for kind in [map::KIND, btree::KIND] {
        run_model(&kind, &Location::Memory, 1);
        let directory = tempfile::tempdir().unwrap();
        run_model(&kind, &Location::Path(directory.path().join("log.aof")), 2);
    }
}

#[test]
fn a_range_holds_its_keys_and_a_crossed_one_nothing() {
    for kind in [map::KIND, btree::KIND] {
        let engine = kind.open(&options(Location::Memory)).unwrap();
        let mut batch = Batch::default();
        [b"a", b"b", b"c", b"d"].iter().for_each(|key| batch.put(*key, b""));
        engine.write(&batch, false).unwrap();
        let range =
            |start, end| state(&*engine, KeyRange { start, end }).into_keys().flatten().collect::<Vec<_>>();
        assert_eq!(range(Bound::Included(b"b"), Bound::Excluded(b"d")), b"bc");
        assert_eq!(range(Bound::Excluded(b"b"), Bound::Unbounded), b"cd");
        assert_eq!(range(Bound::Included(b"d"), Bound::Included(b"b")), b"");
        assert_eq!(range(Bound::Excluded(b"b"), Bound::Excluded(b"b")), b"");
    }
}

#[test]
fn btree_is_scanned_in_order_until_visit_stops() {
    let engine = btree::KIND.open(&options(Location::Memory)).unwrap();
    let keys: Vec<[u8; 2]> = (0..1000u16).map(u16::to_be_bytes).collect();
    let mut batch = Batch::default();
    keys.iter().rev().for_each(|key| batch.put(key, key));
    engine.write(&batch, false).unwrap();
    let mut seen = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        seen.push(key.to_vec());
        if seen.len() == 600 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    engine.scan(KeyRange::ALL, &mut visit).unwrap();
    assert!(seen.iter().eq(&keys[..600]));
}

#[test]
fn either_engine_opens_the_log_of_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.aof");
    let (mut model, mut rng) = (State::new(), StdRng::seed_from_u64(3));
    for kind in [map::KIND, btree::KIND, map::KIND] {
        let engine = open(&kind, &path);
        assert_eq!(all(&*engine), model);
        write_random(&*engine, &mut model, &mut rng, 0);
        engine.close().unwrap();
    }
}

/// Checks that three threads fill a table from an append-only file as it was written; if `is_cut`, the end of the
/// last group is missing, and none of its writes must be applied.
fn long_log<T: Table>(info: &'static Info, is_cut: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.aof");
    let location = Location::Path(path.clone());
    let engine = MemoryEngine::<T>::open_as(info, &location).unwrap();
    let (mut model, value) = (State::new(), [b'v'; 100]);
    for round in 0..10_u32 {
        let keys: Vec<[u8; 4]> = (0..2000).map(|key| (round * 1000 + key).to_be_bytes()).collect();
        let mut batch = Batch::default();
        for key in &keys {
            match key[3] {
                0 => batch.delete(key),
                _ => batch.put(key, &value),
            }
        }
        engine.write(&batch, false).unwrap();
        for key in keys {
            match key[3] {
                0 => drop(model.remove(&key[..])),
                _ => drop(model.insert(key.to_vec(), value.to_vec())),
            }
        }
    }
    // The group has more than one frame, so that its beginning is replayed before its end is known to be missing.
    let last: State = (0..3000_u32).map(|key| (key.to_le_bytes().into(), vec![b'l'; 1000])).collect();
    let mut batch = Batch::default();
    batch.clear();
    last.iter().for_each(|(key, value)| batch.put(key, value));
    engine.write(&batch, false).unwrap();
    let before = engine.disk_size().unwrap();
    drop(engine);
    if is_cut {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - (100 << 10)).unwrap();
    } else {
        model = last;
    }
    let engine = MemoryEngine::<T>::open_by(3, before, info, &location).unwrap();
    assert!(all(&engine) == model);
    assert_eq!(engine.count().unwrap(), model.len() as u64);
}

#[test]
fn several_threads_replay_a_log_and_drop_a_group_that_is_cut_off() {
    for is_cut in [false, true] {
        long_log::<HashTable>(map::KIND.info, is_cut);
        long_log::<BTree>(btree::KIND.info, is_cut);
    }
}

/// Writes randomly, in part ahead of and behind the position of the rewrite, during at least `rewrites` rewrites; a
/// reopen must find all writes. `clears` is the percentage of batches with a `Clear`.
fn rewrite_beside_writes(kind: &Kind, rewrites: usize, clears: u32) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.aof");
    let (mut model, mut rng) = (State::new(), StdRng::seed_from_u64(4));
    let engine = open(kind, &path);
    // Enough pairs for many steps of the rewrite.
    let (keys, value) = ((0..20_000u32).map(u32::to_be_bytes).collect::<Vec<_>>(), [b'v'; 200]);
    let mut batch = Batch::default();
    for key in &keys {
        batch.put(key, &value);
        model.insert(key.to_vec(), value.to_vec());
    }
    engine.write(&batch, false).unwrap();
    // A rewrite can begin only after the end of the previous one.
    let mut begun = 0;
    while begun <= rewrites {
        begun += usize::from(engine.rewrite_log().is_ok());
        write_random(&*engine, &mut model, &mut rng, clears);
        let (at, new) = (rng.random_range(0..keys.len()), vec![rng.random(); 100]);
        let mut batch = Batch::default();
        batch.put(&keys[at], &new);
        engine.write(&batch, false).unwrap();
        model.insert(keys[at].to_vec(), new);
    }
    engine.close().unwrap();
    drop(engine);
    assert!(all(&*open(kind, &path)) == model);
}

#[test]
fn rewrites_beside_writes_lose_nothing() {
    for kind in [map::KIND, btree::KIND] {
        rewrite_beside_writes(&kind, 4, 0);
        rewrite_beside_writes(&kind, 10, 2);
    }
}

/// A frame has a largest length, and a scan of `map` ends a step only at the end of a part of the table.
#[test]
fn a_part_of_the_table_is_rewritten_as_several_frames() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.aof");
    let engine = open(&map::KIND, &path);
    let part = engine.scan_part(&0u32.to_be_bytes());
    let in_part = |key: &[u8; 4]| engine.scan_part(key) == part;
    let keys: Vec<[u8; 4]> = (0..u32::MAX).map(u32::to_be_bytes).filter(in_part).take(8).collect();
    let (mut batch, mut model, value) = (Batch::default(), State::new(), vec![b'v'; aof::STEP / 2]);
    for key in &keys {
        batch.put(key, &value);
        model.insert(key.to_vec(), value.clone());
    }
    engine.write(&batch, false).unwrap();
    engine.rewrite_log().unwrap();
    engine.quiesce().unwrap();
    drop(engine);
    // Two keys reach the size of a frame.
    let frames = fs::read(&path).unwrap().windows(3).filter(|bytes| bytes == b"#F:").count();
    assert!(frames >= 4, "{frames} frames");
    assert!(all(&*open(&map::KIND, &path)) == model);
}

/// Returns a guard: while it exists, each scan of the engine's table waits before its next step.
fn hold<T: Table>(engine: &MemoryEngine<T>) -> impl Sized + use<'_, T> {
    engine.shared.table.lock_mut()
}

fn one_rewrite_at_a_time<T: Table>(info: &'static Info) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("log.aof");
    let engine = MemoryEngine::<T>::open_as(info, &Location::Path(path.clone())).unwrap();
    let mut batch = Batch::default();
    batch.put(b"k", b"v");
    engine.write(&batch, false).unwrap();
    let before = fs::read(&path).unwrap();
    std::thread::scope(|scope| {
        let guard = hold(&engine);
        engine.rewrite_log().unwrap();
        let error = engine.rewrite_log().unwrap_err();
        assert!(error.is_rolled_back());
        assert_eq!(error.to_string(), format!("{} is already rewriting its append-only file", info.name));
        let closing = scope.spawn(|| engine.close());
        while !engine.shared.log.as_ref().unwrap().is_cancelled() {
            std::thread::yield_now();
        }
        drop(guard);
        closing.join().unwrap().unwrap();
    });
    // A close only appends the sync marker.
    assert!(fs::read(&path).unwrap().starts_with(&before));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn one_rewrite_runs_at_a_time_and_a_close_ends_it() {
    one_rewrite_at_a_time::<HashTable>(map::KIND.info);
    one_rewrite_at_a_time::<BTree>(btree::KIND.info);
}

#[test]
fn a_rewrite_that_fails_is_an_error_of_quiesce_once() {
    for kind in [map::KIND, btree::KIND] {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(&kind, &directory.path().join("log.aof"));
        let mut batch = Batch::default();
        batch.put(b"key", b"value");
        engine.write(&batch, false).unwrap();
        // Where the new file must be made.
        fs::create_dir(directory.path().join("log.aof.rewrite")).unwrap();
        engine.rewrite_log().unwrap();
        let error = engine.quiesce().unwrap_err().to_string();
        assert!(error.contains("log.aof.rewrite"), "{error}");
        engine.quiesce().unwrap();
    }
}

/// DEBUG SETTLE waits for the rewrite that BGREWRITEAOF has started.
#[test]
fn no_second_rewrite_starts_while_a_client_waits_for_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::Path(directory.path().join("log.aof"));
    let engine = MemoryEngine::<HashTable>::open_as(map::KIND.info, &location).unwrap();
    let value = vec![b'v'; 1 << 20];
    for key in 0..32u8 {
        let mut batch = Batch::default();
        batch.put(slice::from_ref(&key), &value);
        engine.write(&batch, false).unwrap();
    }
    engine.rewrite_log().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| engine.quiesce());
        // A rewrite that starts while another one runs finds the file of that one locked, and fails.
        let mut begun = 0;
        while begun < 3 && !waits.is_finished() {
            begun += usize::from(engine.rewrite_log().is_ok());
        }
        waits.join().unwrap().unwrap();
    });
    engine.quiesce().unwrap();
}

#[test]
fn a_log_of_64_mib_is_rewritten_without_being_asked() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::Path(directory.path().join("log.aof"));
    let engine = MemoryEngine::<HashTable>::open_as(map::KIND.info, &location).unwrap();
    let value = vec![b'v'; 8 << 20];
    let mut batch = Batch::default();
    batch.put(b"key", &value);
    for _ in 0..7 {
        engine.write(&batch, false).unwrap();
        assert!(engine.rewriter().is_none());
    }
    engine.write(&batch, false).unwrap();
    engine.rewriter().take().unwrap().join().unwrap().unwrap();
    assert!(engine.disk_size().unwrap() < 16 << 20);
    engine.write(&batch, false).unwrap();
    assert!(engine.rewriter().is_none());
    assert_eq!(engine.count().unwrap(), 1);
}

#[test]
fn in_memory_there_is_nothing_to_rewrite_or_to_block_on() {
    for kind in [map::KIND, btree::KIND] {
        let engine = kind.open(&options(Location::Memory)).unwrap();
        assert!(engine.is_memory_only());
        assert!(matches!(engine.rewrite_log(), Err(Error::Unsupported { .. })));
        assert_eq!(engine.disk_size().unwrap(), 0);
        let directory = tempfile::tempdir().unwrap();
        let engine = open(&kind, &directory.path().join("log.aof"));
        assert!(!engine.is_memory_only());
    }
}

#[test]
fn key_or_value_that_is_too_long_fails_the_whole_batch() {
    let engine = map::KIND.open(&options(Location::Memory)).unwrap();
    let long = vec![0; MAX_STORED_VALUE + 1];
    let mut batch = Batch::default();
    batch.put(b"short", b"");
    batch.put(&long[..=MAX_LENGTH], b"");
    assert!(matches!(engine.write(&batch, false), Err(Error::KeyLength { .. })));
    let mut batch = Batch::default();
    batch.put(b"short", b"");
    batch.put(b"key", &long);
    assert!(matches!(engine.write(&batch, false), Err(Error::Unsupported { .. })));
    assert_eq!(engine.count().unwrap(), 0);
    let mut batch = Batch::default();
    batch.put(&long[..MAX_LENGTH], &long[..MAX_STORED_VALUE]);
    batch.check_lengths("map", aof::MAX_LENGTHS).unwrap();
}

#[test]
fn the_library_is_the_one_that_is_linked() {
    let (name, version) = map::KIND.info.library.split_once(' ').unwrap();
    let entry = format!("name = \"{name}\"\nversion = \"{version}\"");
    assert!(include_str!("../../../Cargo.lock").contains(&entry), "Cargo.lock has no {name} {version}");
}
