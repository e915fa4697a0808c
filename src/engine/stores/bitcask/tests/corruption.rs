//! Tests of the corruption of segments and hint files of `bitcask`: a start is refused, one value is an error, or there
//! is no effect.

use super::{super::hint, *};
use crate::engine::{KeyRange, aof, stores::bitcask::segment_hint};

/// Returns a store with three or more sealed segments, which all have hint files, and the active segment.
fn sealed() -> Store {
    let mut store = Store::new();
    store.fill(0, FULL * 3, 5);
    let sealed = store.engine().files.segments.sealed();
    assert!(sealed.len() >= 3);
    sealed.iter().for_each(|segment| segment_hint::write_hint(segment).unwrap());
    store
}

fn flip_bit(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Returns the byte offset of the value of key `number` in the file of a sealed segment.
fn place_of(store: &Store, segment: u32, number: u32) -> usize {
    let bytes = fs::read(path_of(&store.path(), segment)).unwrap();
    let value = value(number, 5);
    bytes.windows(value.len()).position(|window| window == value).unwrap()
}

#[test]
fn corrupt_value_is_an_error_and_never_another_value() {
    let mut store = sealed();
    let first = store.segments()[0];
    store.shut(true);
    flip_bit(&path_of(&store.path(), first), place_of(&store, first, 7) + 500);
    // The start reads the hint file instead of the segment.
    store.open();
    let names_key = |store: &Store| {
        let error = get(store.engine(), &7_u32.to_be_bytes()).unwrap_err();
        let text = error.to_string();
        let names =
            [r#"the value of the key "\x00\x00\x00\x07" cannot be read"#, ".segment is corrupt at byte "];
        assert!(error.is_corruption() && names.iter().all(|name| text.contains(name)), "{text}");
    };
    names_key(&store);
    assert!(store.engine().scan(KeyRange::ALL, &mut |_, _| ControlFlow::Continue(())).is_err());
    assert!(store.engine().scan_step(0, &mut |_, _| ControlFlow::Continue(())).is_err());
    assert_eq!(unreadable_keys(store.engine()), [7_u32.to_be_bytes()]);
    assert_eq!(get(store.engine(), &8_u32.to_be_bytes()).unwrap(), Some(value(8, 5)));
    // A merge moves the value, which stays corrupt: after a kill, after a second merge, without a hint file.
    for round in 0..2 {
        assert!(store.engine().files.merge_all(&|| false).unwrap());
        assert!(!store.segments().contains(&first));
        names_key(&store);
        store.shut(round == 0);
        let text = check(&store.path()).unwrap_err().to_string();
        assert!(text.contains(r#"1 corrupt values: the value of the key "\x00\x00\x00\x07""#), "{text}");
        store.open();
        names_key(&store);
        assert_eq!(unreadable_keys(store.engine()), [7_u32.to_be_bytes()]);
    }
    store.put(&7_u32.to_be_bytes(), b"new");
    store.check();
    store.shut(true);
    check(&store.path()).unwrap();
}

/// Returns the keys whose values a scan cannot read. Asserts that an incremental scan reports the same keys.
fn unreadable_keys(engine: &Bitcask) -> Vec<Vec<u8>> {
    let (mut scanned, mut pairs_of_steps) = (Vec::new(), Vec::new());
    let note = |keys: &mut Vec<Vec<u8>>, key: &[u8], value: Result<&[u8]>| {
        keys.extend(value.is_err().then(|| key.to_vec()));
        ControlFlow::Continue(())
    };
    engine.scan_each(KeyRange::ALL, &mut |key, value| note(&mut scanned, key, value)).unwrap();
    assert_eq!(engine.scan_step_each(0, &mut |key, value| note(&mut pairs_of_steps, key, value)).unwrap(), 0);
    assert_eq!(scanned, pairs_of_steps);
    scanned
}

/// A merge moves the live values of a corrupt sealed segment without a hint file too: the key table knows which are
/// live.
#[test]
fn a_corrupt_segment_without_a_hint_is_merged_too() {
    let mut store = sealed();
    let first = store.segments()[0];
    let (path, at) = (path_of(&store.path(), first), place_of(&store, first, 7));
    fs::remove_file(hint::path_of(&path)).unwrap();
    store.delete(&3_u32.to_be_bytes());
    flip_bit(&path, at + 500);
    assert!(store.engine().files.merge_all(&|| false).unwrap());
    assert!(!store.segments().contains(&first) && get(store.engine(), &7_u32.to_be_bytes()).is_err());
    store.reopen(true);
    assert_eq!(unreadable_keys(store.engine()), [7_u32.to_be_bytes()]);
    store.delete(&7_u32.to_be_bytes());
    store.check();
}

#[test]
fn corrupt_segment_without_a_hint_is_refused_and_unchanged() {
    // The header of the first frame, its key, and a byte between its key and its value.
    for place in [40, 97, 100] {
        let mut store = sealed();
        let path = path_of(&store.path(), store.segments()[1]);
        store.shut(true);
        fs::remove_file(hint::path_of(&path)).unwrap();
        flip_bit(&path, place);
        let before = fs::read(&path).unwrap();
        let text = try_open(&store.path()).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("0000000002.segment is damaged at byte") && text.contains("restore"), "{text}");
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn truncated_sealed_segment_is_refused() {
    let mut store = sealed();
    let path = path_of(&store.path(), store.segments()[1]);
    store.shut(true);
    let bytes = fs::read(&path).unwrap();
    // This includes a cut at the end of a frame, before the sync marker that was written last.
    for len in [bytes.len() - 1, bytes.len() - 49, bytes.len() - 50, 2000, 30, 0] {
        fs::write(&path, &bytes[..len]).unwrap();
        let text = try_open(&store.path()).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("0000000002.segment is damaged at byte"), "{len}: {text}");
    }
    fs::write(&path, bytes).unwrap();
    store.open();
    store.check();
}

#[test]
fn a_segment_that_is_missing_is_named() {
    let mut store = sealed();
    store.shut(true);
    fs::remove_file(path_of(&store.path(), 2)).unwrap();
    for text in [try_open(&store.path()).map(|_| ()), check(&store.path()).map(|_| ())]
        .map(|outcome| outcome.unwrap_err().to_string())
    {
        assert!(text.contains("0000000002.segment is not there"), "{text}");
    }
}

#[test]
fn invalid_hint_file_is_ignored_and_replaced() {
    let mut store = sealed();
    let path = path_of(&store.path(), store.segments()[1]);
    let hint = hint::path_of(&path);
    let (bytes, other) =
        (fs::read(&hint).unwrap(), fs::read(hint::path_of(&path_of(&store.path(), 1))).unwrap());
    let flipped = (0..bytes.len()).step_by(97).map(|at| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        bytes
    });
    let cut = [0, 3, 20, bytes.len() - 1].map(|len| bytes[..len].to_vec());
    for damaged in flipped.chain(cut).chain([other]) {
        store.shut(true);
        fs::write(&hint, damaged).unwrap();
        let remark = check(&store.path()).unwrap().remark.unwrap();
        assert!(remark.contains("1 segments lack a sound hint"), "{remark}");
        store.open();
        store.check();
    }
    // The background thread writes it again.
    store.shut(true);
    let engine = when_unlocked(|| Bitcask::open(&OpenOptions::for_check(&store.path()))).unwrap();
    engine.quiesce().unwrap();
    assert!(fs::read(&hint).unwrap() == bytes);
}

#[test]
fn check_counts_records_and_changes_nothing() {
    let mut store = sealed();
    assert!(open::check(&store.path()).unwrap_err().to_string().contains("in use"));
    store.shut(true);
    let contents =
        || names(&store.path()).iter().map(|name| fs::read(store.path().join(name)).unwrap()).collect();
    let before: Vec<_> = contents();
    let sound = check(&store.path()).unwrap();
    let expected = format!("{0} keys, {0} records in {1} segments", FULL * 3, store.segments().len());
    assert_eq!((sound.holds, sound.remark), (expected, None));
    assert!(contents() == before);
}

/// `kvbench repair` refuses a segment of `bitcask`: it is not a complete AOF, and a repair would bring back keys that
/// later segments have removed.
#[test]
fn a_segment_is_not_repaired() {
    let mut store = sealed();
    store.shut(true);
    let path = path_of(&store.path(), 1);
    let before = fs::read(&path).unwrap();
    let text = when_unlocked(|| aof::repair("test", &path)).unwrap_err().to_string();
    assert!(text.contains("one segment of a log"), "{text}");
    assert!(fs::read(&path).unwrap() == before);
}

/// A start, a check and a repair refuse a segment of a newer format, which stays unchanged: the last segment, and a
/// sealed one without a hint file.
#[test]
fn segment_of_a_newer_format_is_refused_and_left_alone() {
    for is_last in [false, true] {
        let mut store = sealed();
        let segments = store.segments();
        let id = if is_last { segments.last() } else { segments.first() };
        let path = path_of(&store.path(), *id.unwrap());
        store.shut(true);
        let _last_has_none = fs::remove_file(hint::path_of(&path));
        let mut bytes = fs::read(&path).unwrap();
        bytes["#KVBENCH:".len()] = b'4';
        fs::write(&path, &bytes).unwrap();
        let errors = [
            try_open(&store.path()).map(drop).unwrap_err(),
            check(&store.path()).map(drop).unwrap_err(),
            when_unlocked(|| aof::repair("test", &path)).map(drop).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("written by a newer version of kvbench"), "{error}");
        }
        assert!(fs::read(&path).unwrap() == bytes);
    }
}
