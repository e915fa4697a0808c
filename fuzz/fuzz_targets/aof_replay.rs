//! Opening any bytes as an append-only file neither panics nor allocates what they merely announce; and what was
//! opened once opens again with the same keys. Nor does any change to a log that was written in order give it
//! content that it never had; and a repair makes of each a log that opens, with some first part of that.
#![no_main]

use kvbench::engine::{Batch, Engine, Fsync, KeyRange, Kind, Location, OpenOptions, key_value_headers};
use libfuzzer_sys::fuzz_target;
use std::{fs, ops::ControlFlow, path::Path};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn open(path: &Path) -> Option<Box<dyn Engine>> {
    let options = OpenOptions { cache_size: 1 << 20, ..OpenOptions::new(Location::Path(path.into()), Fsync::No) };
    (kind().open)(&options).ok()
}

fn kind() -> &'static Kind {
    Kind::find("btree").expect("always there")
}

fn all(engine: &dyn Engine) -> Pairs {
    let mut pairs = Pairs::new();
    engine
        .scan(KeyRange::ALL, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .expect("in memory");
    pairs
}

fn pairs(path: &Path) -> Option<Pairs> {
    let engine = open(path)?;
    let pairs = all(&*engine);
    engine.close().expect("closes");
    Some(pairs)
}

/// Writes batches of a few keys, as the bytes say, and returns what there was after each.
fn write(path: &Path, program: &[u8]) -> Vec<Pairs> {
    let engine = open(path).expect("new");
    let mut states = vec![all(&*engine)];
    // As the store does it: what has a deadline, or looks as if, has a head; and a record tells that there are deadlines.
    let deadline = program.first().map_or(0, |byte| u64::from(byte % 4));
    let stored = match deadline > 0 || key_value_headers::needs_header(program) {
        true => [&key_value_headers::value_head(deadline), program].concat(),
        false => program.to_vec(),
    };
    for (number, step) in program.chunks(4).enumerate() {
        let value = vec![number as u8; usize::from(step.last().copied().unwrap_or(0)) * 8];
        let mut batch = Batch::default();
        for key in step {
            match key % 8 {
                0 => batch.delete(b"k"),
                1 => batch.clear(),
                2 => {
                    if deadline > 0 {
                        batch.put(&key_value_headers::EXPIRATIONS_RECORD, b"1");
                    }
                    batch.put(b"program", &stored);
                }
                _ => batch.put(std::slice::from_ref(key), &value),
            }
        }
        engine.write(&batch, step.len() % 2 == 0 || number % 3 == 0).expect("written");
        states.push(all(&*engine));
    }
    engine.close().expect("closes");
    states
}

/// Opens what is there; what is refused is left as it was. Then what a repair leaves is opened.
fn open_twice(path: &Path, bytes: &[u8]) -> Option<Pairs> {
    let found = pairs(path);
    if found.is_some() {
        assert_eq!(pairs(path), found);
        return found;
    }
    assert_eq!(fs::read(path).expect("readable"), bytes);
    let repaired = kind().repair.expect("it has one")(path).ok()?;
    let kept: u64 = repaired.removed.iter().map(|removed| fs::metadata(removed).expect("kept").len()).sum();
    assert!(repaired.len + kept >= bytes.len() as u64, "a repair throws bytes away");
    let found = pairs(path);
    assert!(found.is_some(), "a repaired log does not open: {:?}", repaired.damage);
    found
}

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("fuzz.aof");
    fs::write(&path, data).expect("written");
    open_twice(&path, data);

    // The first bytes are a program, the others changes to what it wrote: a place and a byte.
    let (program, changes) = data.split_at(data.len().min(24));
    let path = dir.path().join("changed.aof");
    let states = write(&path, program);
    let mut bytes = fs::read(&path).expect("readable");
    for change in changes.as_chunks::<3>().0 {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        match change[2] {
            0xff => bytes.truncate(place.max(1)),
            byte => bytes[place] ^= byte,
        }
    }
    fs::write(&path, &bytes).expect("written");
    if let Some(found) = open_twice(&path, &bytes) {
        assert!(states.contains(&found), "a state that never was");
    }
});
