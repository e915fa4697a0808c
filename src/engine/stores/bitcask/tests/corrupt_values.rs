//! Tests of corrupt values in a segment of `bitcask` that a start must read: the last one, or one without a hint file.
//! Either a read of the corrupt value's key fails and all other synced data are intact, or the start is refused.

use super::{
    super::{
        hint::{self, Entry},
        segment::{OpenFiles, Segment, before_open},
    },
    *,
};
use crate::engine::{Error, KeyRange, WriteOp, aof::without_sums, stores::bitcask::segment_hint};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use std::{collections::BTreeSet, ops::Range};

/// Length in bytes of the header line of a frame in a segment, which is also the length of a sync marker.
const HEADER: usize = 49;

fn write(store: &mut Store, ops: &[WriteOp<'_>]) {
    let mut batch = Batch::default();
    ops.iter().for_each(|op| batch.push(*op));
    store.engine().write(&batch, true).unwrap();
    for op in ops {
        match *op {
            WriteOp::Put { key, value } => drop(store.model.insert(key.into(), value.into())),
            WriteOp::Delete { key } => drop(store.model.remove(key)),
            WriteOp::Clear => store.model.clear(),
        }
    }
}

/// Returns a closed store for tests, whose only segment has frames of one write and of several, and a clear.
fn small() -> Store {
    let mut store = Store::new();
    let put = |key, value| WriteOp::Put { key, value };
    write(&mut store, &[put(b"cleared", b"before")]);
    write(&mut store, &[WriteOp::Clear]);
    write(&mut store, &[put(b"single", b"a value of its own frame")]);
    write(&mut store, &[put(b"twice", b"first")]);
    write(
        &mut store,
        &[
            put(b"one", b"1"),
            put(b"empty", b""),
            put(b"text", b"\r\n#TS:0000000000\r\n*3\r\n$3\r\nSET\r\n"),
            put(b"gone", b"soon"),
            put(b"twice", b"second"),
        ],
    );
    write(&mut store, &[WriteOp::Delete { key: b"gone" }, put(b"", b"of the empty key")]);
    write(&mut store, &[put(b"last", &[0xff; 60])]);
    store.shut(true);
    store
}

/// Returns all values in the file of segment `id`: for each the key, the range of the value's bytes in the file, and
/// `true` if it is live.
fn values(store: &Store, id: u32) -> Vec<(Vec<u8>, Range<usize>, bool)> {
    let segment = Segment::sealed(&store.path(), id, &OpenFiles::new(0)).unwrap();
    let hint = segment_hint::read_segment(&segment, &mut |_| ()).unwrap().0;
    let mut values: Vec<(Vec<u8>, Range<usize>, bool)> = Vec::new();
    for entry in hint.entries() {
        let key = match entry {
            Entry::Put(key, _) | Entry::Delete(key) => Some(key),
            Entry::Clear => None,
        };
        let is_replaced = |old: &[u8]| key.is_none_or(|key| key == old);
        values.iter_mut().filter(|(old, ..)| is_replaced(old)).for_each(|(.., live)| *live = false);
        if let Entry::Put(key, place) = entry {
            let begin = place.offset as usize;
            values.push((key.into(), begin..begin + place.length as usize, true));
        }
    }
    values
}

/// Opens a store after removing its hint files, so that the start reads the segments.
fn open_without_hints(store: &Store) -> Result<Bitcask> {
    for name in names(&store.path()).iter().filter(|name| name.contains(".hint")) {
        fs::remove_file(store.path().join(name)).unwrap();
    }
    try_open(&store.path())
}

/// Asserts that `engine` cannot read the values of exactly `keys`, and holds all other pairs of the store's model.
fn assert_unreadable(store: &Store, engine: &Bitcask, keys: &BTreeSet<Vec<u8>>, what: &dyn Fn() -> String) {
    let mut found = Model::new();
    let mut unreadable = BTreeSet::new();
    engine
        .scan_each(KeyRange::ALL, &mut |key, value| {
            match value {
                Ok(value) => drop(found.insert(key.into(), value.into())),
                Err(error) => {
                    assert!(error.is_corruption(), "{}: {error}", what());
                    unreadable.insert(key.to_vec());
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(unreadable, *keys, "{}", what());
    let expected: Model = store
        .model
        .iter()
        .filter(|(key, _)| !keys.contains(*key))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    assert!(found == expected, "{}", what());
    for key in keys {
        let text = get(engine, key).unwrap_err().to_string();
        assert!(text.contains(&format!("the value of the key \"{}\"", key.escape_ascii())), "{text}");
    }
}

/// Asserts that a check of the data names exactly `keys` as corrupt or, if `keys` is empty, finds corruption of dead
/// values only.
fn assert_checked(store: &Store, keys: &BTreeSet<Vec<u8>>, what: &dyn Fn() -> String) {
    let error = check(&store.path()).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(error.is_corruption(), "{}: {text}", what());
    match keys.len() {
        0 => assert!(text.contains("no value of a key that exists is corrupt"), "{}: {text}", what()),
        count => assert!(text.contains(&format!("{count} corrupt values: ")), "{}: {text}", what()),
    }
    for key in keys {
        assert!(text.contains(&format!("the key \"{}\"", key.escape_ascii())), "{}: {text}", what());
    }
}

/// Changes each bit of the last segment, which was synced, in turn: a changed value fails reads of its key, a changed
/// sync marker has no effect, and any other change fails the start.
#[test]
fn changed_byte_of_the_last_segment_fails_one_value_or_the_start() {
    let store = small();
    let path = path_of(&store.path(), 1);
    let (bytes, values) = (fs::read(&path).unwrap(), values(&store, 1));
    let mark = bytes.len() - HEADER;
    let (mut opened, mut refused) = (0, 0);
    for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let what = || format!("bit {bit} of byte {at}");
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        fs::write(&path, &changed).unwrap();
        // A start syncs, which is slow: so it is tried with one bit of each byte only.
        let engine = (bit == at % 8).then(|| try_open(&store.path()));
        let hit = values.iter().find(|(_, place, _)| place.contains(&at));
        if let Some((key, _, is_live)) = hit {
            let keys: BTreeSet<_> = is_live.then(|| key.clone()).into_iter().collect();
            if let Some(engine) = engine {
                assert_unreadable(&store, &engine.unwrap(), &keys, &what);
            }
            fs::write(&path, &changed).unwrap();
            assert_checked(&store, &keys, &what);
            opened += 1;
        } else if at >= mark {
            // The sync marker itself is corrupt: all records before it are intact.
            if let Some(engine) = engine {
                assert_unreadable(&store, &engine.unwrap(), &BTreeSet::new(), &what);
            }
        } else {
            let error = check(&store.path()).map(drop).expect_err(&what());
            assert!(!matches!(error, Error::Locked { .. }), "{}: {error}", what());
            if let Some(engine) = engine {
                let text = engine.map(drop).expect_err(&what()).to_string();
                assert!(text.contains("0000000001.segment"), "{}: {text}", what());
            }
            assert!(fs::read(&path).unwrap() == changed, "{}: a refused start changed the file", what());
            refused += 1;
        }
    }
    let length: usize = values.iter().map(|(_, place, _)| place.len()).sum();
    assert_eq!((opened, refused), (length * 8, (mark - length) * 8));
}

/// Changes each byte of a sealed segment without a hint file in turn: a changed value fails reads of its key, and any
/// other change fails the start.
#[test]
fn changed_byte_of_a_sealed_segment_without_a_hint_fails_one_value_or_the_start() {
    let mut store = small();
    store.open();
    store.roll();
    store.put(b"behind", b"in the next segment");
    store.shut(true);
    let path = path_of(&store.path(), 1);
    let (bytes, values) = (fs::read(&path).unwrap(), values(&store, 1));
    for at in 0..bytes.len() {
        let what = || format!("byte {at}");
        let mut changed = bytes.clone();
        changed[at] ^= 0x41;
        fs::write(&path, &changed).unwrap();
        let engine = open_without_hints(&store);
        match values.iter().find(|(_, place, _)| place.contains(&at)) {
            Some((key, _, is_live)) => {
                let keys: BTreeSet<_> = is_live.then(|| key.clone()).into_iter().collect();
                assert_unreadable(&store, &engine.unwrap(), &keys, &what);
                assert_checked(&store, &keys, &what);
            }
            None => {
                let text = engine.map(drop).expect_err(&what()).to_string();
                assert!(text.contains("0000000001.segment"), "{}: {text}", what());
            }
        }
    }
}

/// Changes bytes and whole sectors of several values, also of values with several partial checksums: reads fail for
/// exactly the keys of these values.
#[test]
fn values_corrupted_in_any_way_are_errors_of_their_keys() {
    let mut store = Store::new();
    let long = vec![b'l'; (5 << 20) + 77];
    let sectors: Vec<u8> = (0..20_000_u32).map(|at| (at * 7) as u8).collect();
    let put = |key, value| WriteOp::Put { key, value };
    write(&mut store, &[put(b"before", b"of the others"), put(b"sectors", &sectors), put(b"short", b"ab")]);
    write(&mut store, &[put(b"long", &long), put(b"beside", &sectors)]);
    write(&mut store, &[put(b"behind", b"of the others")]);
    // The second batch has sealed the segment.
    let id = store.segments()[0];
    store.shut(true);
    let path = path_of(&store.path(), id);
    let (bytes, values) = (fs::read(&path).unwrap(), values(&store, id));
    let place = |name: &[u8]| values.iter().find(|(key, ..)| key == name).unwrap().1.clone();
    let mut rng = StdRng::seed_from_u64(1);
    for round in 0..20 {
        let mut changed = bytes.clone();
        let mut keys = BTreeSet::new();
        for name in [&b"sectors"[..], b"short", b"long", b"beside"] {
            if rng.random_bool(0.5) {
                let place = place(name);
                let from = rng.random_range(place.clone());
                let to = rng.random_range(from..place.end) + 1;
                match round % 3 {
                    0 => changed[from..to].fill(0),
                    1 => changed[from..to].fill(b'#'),
                    _ => rng.fill_bytes(&mut changed[from..to]),
                }
                if changed[place.clone()] != bytes[place] {
                    keys.insert(name.to_vec());
                }
            }
        }
        fs::write(&path, &changed).unwrap();
        let what = || format!("round {round}");
        assert_unreadable(&store, &open_without_hints(&store).unwrap(), &keys, &what);
        if !keys.is_empty() {
            assert_checked(&store, &keys, &what);
        }
        // A byte between two values is corrupt too, so it is unknown which key is affected.
        changed[place(b"short").end] ^= 1;
        fs::write(&path, &changed).unwrap();
        assert!(open_without_hints(&store).is_err(), "{}", what());
    }
    // A corrupt line with a partial checksum (`#P`) makes no value unreadable.
    let mut changed = bytes;
    let at = place(b"long").end + 2 + 16;
    assert_eq!(changed[at..at + 3], *b"#P:");
    changed[at + 5] ^= 1;
    fs::write(&path, &changed).unwrap();
    assert_unreadable(&store, &open_without_hints(&store).unwrap(), &BTreeSet::new(), &|| "a line".into());
    assert_checked(&store, &BTreeSet::new(), &|| "a line".into());
}

/// After the last sync, any bytes may be lost: a start cuts the log off at the first corrupt value behind the synced
/// bytes.
#[test]
fn unsynced_corrupt_value_is_cut_off_with_the_records_behind_it() {
    let mut store = Store::new();
    store.put(b"synced", b"value to keep");
    store.engine().sync().unwrap();
    store.put(b"kept", b"value to keep too");
    let before = store.model.clone();
    store.put(b"torn", b"value to lose");
    store.put(b"behind", b"value to lose as well");
    store.shut(false);
    let path = path_of(&store.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    let place = |value: &[u8], bytes: &[u8]| bytes.windows(value.len()).position(|w| w == value).unwrap();
    let at = place(b"value to lose", &bytes);
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(model_after_restart(&store.path()), before);
    // A corrupt value before the sync marker stays when a torn write behind it is cut off.
    let at = place(b"value to keep", &bytes);
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    store.model = before;
    store.open();
    let keys = BTreeSet::from([b"synced".to_vec()]);
    assert_unreadable(&store, store.engine(), &keys, &|| "a tail".into());
    // Writes continue behind the cut.
    store.put(b"behind", b"another value");
    store.reopen(false);
    assert_unreadable(&store, store.engine(), &keys, &|| "after a kill".into());
    store.put(b"synced", b"new");
    store.reopen(true);
    store.check();
}

/// A segment with a corrupt value gets a hint file and is merged; reads of the value fail after both.
#[test]
fn corrupt_value_of_the_last_segment_stays_corrupt_in_a_hint_and_in_a_merge() {
    let mut store = small();
    let (path, place) = (path_of(&store.path(), 1), values(&store, 1).pop().unwrap().1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[place.start + 3] ^= 8;
    fs::write(&path, bytes).unwrap();
    let keys = BTreeSet::from([b"last".to_vec()]);
    store.open();
    store.roll();
    let sealed = store.engine().files.segments.sealed();
    segment_hint::write_hint(&sealed[0]).unwrap();
    assert!(hint::path_of(&path).exists());
    store.reopen(true);
    assert_unreadable(&store, store.engine(), &keys, &|| "from the hint".into());
    assert!(store.engine().files.merge_all(&|| false).unwrap());
    assert!(!path.exists());
    assert_unreadable(&store, store.engine(), &keys, &|| "merged".into());
    store.reopen(true);
    assert_unreadable(&store, store.engine(), &keys, &|| "merged, and read".into());
    store.delete(b"last");
    store.check();
}

/// A check reports a value that cannot be read as an error, not as a corrupt value, also if others are corrupt.
#[test]
fn value_that_a_check_cannot_read_is_not_corrupt() {
    let store = small();
    let (path, place) = (path_of(&store.path(), 1), values(&store, 1).pop().unwrap().1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[place.start] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(check(&store.path()).unwrap_err().is_corruption());
    let (from, to) = (path.clone(), path.with_extension("moved"));
    before_open(move || fs::rename(from, to).unwrap());
    let error = check(&store.path()).unwrap_err();
    let text = error.to_string();
    assert!(
        !error.is_corruption() && text.contains("cannot be read") && text.contains("was moved"),
        "{text}"
    );
}

/// Earlier versions wrote no checksums of values: their segments can be opened, but a start refuses a corrupt one.
#[test]
fn segment_without_checksums_of_its_values_opens_and_its_corruption_is_refused() {
    let store = small();
    let path = path_of(&store.path(), 1);
    let values = values(&store, 1);
    let sound = fs::read(&path).unwrap();
    let old = without_sums(&sound);
    assert_eq!(old.len(), sound.len() - 16 * values.len());
    fs::write(&path, &old).unwrap();
    assert_unreadable(&store, &try_open(&store.path()).unwrap(), &BTreeSet::new(), &|| "old".into());
    let at = old.windows(7).position(|window| window == b"a value").unwrap();
    let mut changed = old;
    changed[at] ^= 1;
    fs::write(&path, &changed).unwrap();
    let text = try_open(&store.path()).map(drop).unwrap_err().to_string();
    assert!(text.contains("0000000001.segment is damaged at byte"), "{text}");
    assert!(fs::read(&path).unwrap() == changed);
}
