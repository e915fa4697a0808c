//! Opening any bytes as the files of `bitcask` neither panics nor allocates what they merely announce; and what was
//! opened once opens again with the same keys. No change to files that were written in order gives a key a value that
//! was never written under it; and a store that opens takes writes, merges, and keeps what it has.
#![no_main]

use kvbench::engine::{Batch, Engine, Fsync, KeyRange, Kind, Location, OpenOptions};
use libfuzzer_sys::fuzz_target;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// All values that were ever written, by key.
type Written = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

const FILES: [&str; 4] = ["0000000001.segment", "0000000001.hint", "bitcask.segments", "bitcask.lock"];

fn open(path: &Path) -> Option<Box<dyn Engine>> {
    let options = OpenOptions::new(Location::Path(path.into()), Fsync::No);
    (Kind::find("bitcask").expect("always there").open)(&options).ok()
}

/// The value of a key; `None` if it cannot be read.
fn get(engine: &dyn Engine, key: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut found = None;
    let read = engine.read(&[key], &mut |_, value| {
        found = value.map(<[u8]>::to_vec);
        ControlFlow::Continue(())
    });
    read.ok().map(|()| found)
}

fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) {
    let mut batch = Batch::default();
    batch.put(key, value);
    engine.write(&batch, false).expect("the disk is sound");
}

/// Writes batches of a few keys, as the bytes say, into several segments.
fn write(path: &Path, program: &[u8]) -> Written {
    let (engine, mut written) = (open(path).expect("new"), Written::new());
    for (number, step) in program.chunks(4).enumerate() {
        let value = vec![number as u8; usize::from(step.last().copied().unwrap_or(0)) * 80];
        let mut batch = Batch::default();
        for key in step {
            match key % 8 {
                0 => batch.delete(b"k"),
                1 if key % 3 == 0 => batch.clear(),
                _ => {
                    let key = std::slice::from_ref(key);
                    written.entry(key.to_vec()).or_default().insert(value.clone());
                    batch.put(key, &value);
                }
            }
        }
        engine.write(&batch, step.len() % 2 == 0).expect("written");
        if number == 3 {
            // The segments get their hints, and some are merged.
            engine.quiesce().expect("settled");
        }
    }
    if program.len() % 2 == 0 {
        engine.close().expect("closes");
    }
    written
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

/// Changes files, four bytes each time: which file, where, and how.
fn change(path: &Path, changes: &[u8]) {
    for change in changes.as_chunks::<4>().0 {
        let files = files(path);
        let Some(file) = files.get(usize::from(change[0]) % files.len().max(1)) else { return };
        let mut bytes = fs::read(file).expect("readable");
        let place = usize::from(u16::from_le_bytes([change[1], change[2]])) % bytes.len().max(1);
        match change[3] {
            0xff => bytes.truncate(place),
            0xfe => {
                fs::remove_file(file).expect("removed");
                continue;
            }
            byte => bytes.iter_mut().skip(place).take(1).for_each(|old| *old ^= byte),
        }
        fs::write(file, bytes).expect("written");
    }
}

/// Opens what is there. What it reads was written; and it works on.
fn use_it(path: &Path, written: &Written) {
    let Some(engine) = open(path) else { return };
    let mut before = BTreeMap::new();
    for (key, values) in written {
        let found = get(&*engine, key);
        if let Some(Some(value)) = &found {
            assert!(values.contains(value), "a value that was never written under {key:?}");
        }
        before.insert(key.clone(), found);
    }
    // Of keys that no one wrote there are none.
    let _unreadable = engine.scan(KeyRange::ALL, &mut |key, value| {
        assert!(written.get(key).is_some_and(|values| values.contains(value)), "{key:?} was never written");
        ControlFlow::Continue(())
    });
    put(&*engine, b"a new key", b"a new value");
    let _unreadable = engine.rewrite_log();
    let _unreadable = engine.quiesce();
    for (key, found) in &before {
        let now = get(&*engine, key);
        assert!(now.is_none() || found.is_none() || now == *found, "{key:?} has changed");
    }
    engine.close().expect("closes");
    drop(engine);
    let engine = open(path).expect("opens again");
    assert_eq!(get(&*engine, b"a new key"), Some(Some(b"a new value".to_vec())));
    for (key, found) in &before {
        let now = get(&*engine, key);
        assert!(now.is_none() || found.is_none() || now == *found, "{key:?} has changed");
    }
    engine.close().expect("closes");
}

fn reopen_any(path: &Path) {
    let Some(engine) = open(path) else { return };
    let count = engine.count().expect("counts");
    engine.close().expect("closes");
    drop(engine);
    assert_eq!(open(path).expect("opens again").count().expect("counts"), count);
}

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    // Any bytes as one of the files, beside sound others and alone.
    let (which, bytes) = data.split_first().unwrap_or((&0, &[]));
    let name = FILES[usize::from(*which) % FILES.len()];
    let (alone, beside) = (dir.path().join("alone"), dir.path().join("beside"));
    fs::create_dir(&alone).expect("created");
    fs::write(alone.join("bitcask.lock"), "").expect("written");
    fs::write(alone.join(name), bytes).expect("written");
    reopen_any(&alone);
    write(&beside, &[2, 3, 4, 200, 5, 6, 7, 250]);
    fs::write(beside.join(name), bytes).expect("written");
    reopen_any(&beside);

    // The first bytes are a program, the others changes to what it wrote.
    let (program, changes) = data.split_at(data.len().min(32));
    let path = dir.path().join("changed");
    let written = write(&path, program);
    change(&path, changes);
    use_it(&path, &written);
});
