//! Tests of the log, from its bytes to an open file.

mod damage;
mod faults;
mod rewriting;

use super::{super::Op, *};
use std::{collections::BTreeMap, convert::Infallible, sync::atomic::AtomicUsize};

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(state: &mut State, batch: &Batch<'_>) {
    for op in batch.ops() {
        match *op {
            Op::Put { key, value } => drop(state.insert(key.into(), value.into())),
            Op::Delete { key } => drop(state.remove(key)),
            Op::Clear => state.clear(),
        }
    }
}

/// Opens the log and returns what it holds too.
fn open(path: &Path) -> Result<(Aof, State)> {
    let mut state = State::new();
    let log = Aof::open(path, "test", &mut |batch| apply(&mut state, batch))?;
    Ok((log, state))
}

fn batch<'a>(ops: &[Op<'a>]) -> Batch<'a> {
    let mut batch = Batch::default();
    ops.iter().for_each(|op| batch.push(*op));
    batch
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::Put { key, value }
}

fn delete(key: &[u8]) -> Op<'_> {
    Op::Delete { key }
}

/// Single writes and groups, with whatever could be taken for structure inside of keys and values.
fn sample() -> Vec<Batch<'static>> {
    vec![
        batch(&[put(b"a", b"1")]),
        batch(&[put(b"b", b"\r\n*1\r\n$4\r\nEXEC\r\n"), put(b"a", b""), delete(b"a")]),
        batch(&[delete(b"nothing")]),
        batch(&[put(b"", b"empty key"), put(b"\0\0", b"\0\0\0\0")]),
        batch(&[Op::Clear]),
        batch(&[put(b"twelve bytes", b"0123456789ab")]),
        batch(&[put(b"c", b"before"), Op::Clear, put(b"d", b"after")]),
        batch(&[put(b"zeros", &[0; 20])]),
    ]
}

/// The bytes of a batch, `checked` as they are appended, or as Redis and earlier versions wrote them.
fn encode(batch: &Batch<'_>, checked: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if checked {
        checked::begin(&mut bytes);
    }
    record::encode::<Infallible>(batch, &mut bytes, |_| Ok(())).unwrap();
    assert!(!checked || checked::seal(&mut bytes));
    bytes
}

/// The log of [`sample`], and its length and content after each batch (and before them all).
fn sample_log(checked: bool) -> (Vec<u8>, Vec<(usize, State)>) {
    let (mut bytes, mut state) = (Vec::new(), State::new());
    let mut places = vec![(0, State::new())];
    for batch in sample() {
        bytes.extend(encode(&batch, checked));
        apply(&mut state, &batch);
        places.push((bytes.len(), state.clone()));
    }
    (bytes, places)
}

/// A file of its own for a test.
fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("log.aof");
    (directory, path)
}

#[test]
fn the_bytes_are_those_of_redis() {
    let mut bytes = encode(&batch(&[put(b"key", b"value")]), true);
    bytes.extend(encode(&batch(&[delete(b"key"), Op::Clear]), false));
    let expected = "#CRC:8470089f:00000033\r\n*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n\
                    *1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$3\r\nkey\r\n*1\r\n$7\r\nFLUSHDB\r\n*1\r\n$4\r\nEXEC\r\n";
    assert_eq!(bytes.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
}

#[test]
fn what_was_appended_is_there_after_a_reopen() {
    let (_directory, path) = scratch();
    let mut model = State::new();
    for (index, batch) in sample().iter().enumerate() {
        let (log, state) = open(&path).unwrap();
        assert_eq!(state, model);
        log.append(batch, index % 2 == 0, || apply(&mut model, batch)).unwrap();
        log.append(&Batch::default(), true, || ()).unwrap();
        log.close().unwrap();
    }
    assert_eq!(open(&path).unwrap().1, model);
    assert_eq!(fs::read(&path).unwrap(), sample_log(true).0);
}

#[test]
fn records_larger_than_the_window_are_read() {
    let (_directory, path) = scratch();
    let values: Vec<Vec<u8>> =
        [3 << 20, (1 << 20) - 40, 1 << 20, 0, 100_000].map(|len| vec![b'v'; len]).into();
    let (log, mut model) = open(&path).unwrap();
    for (value, key) in values.iter().zip(["1", "2", "3", "4", "5"]) {
        let batch = batch(&[put(key.as_bytes(), value), put(b"last", value)]);
        log.append(&batch, false, || apply(&mut model, &batch)).unwrap();
    }
    drop(log);
    assert!(open(&path).unwrap().1 == model);
}

#[test]
fn how_the_bytes_arrive_does_not_matter() {
    struct Drip<'b>(&'b [u8], AtomicUsize);
    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.1.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let len = buffer.len().min(1);
            self.0.read(&mut buffer[..len])
        }
    }
    let (bytes, places) = sample_log(true);
    let mut state = State::new();
    let source = Drip(&bytes, AtomicUsize::new(0));
    let tail = replay::replay(source, bytes.len() as u64, ("test", Path::new("")), &mut |batch| {
        apply(&mut state, batch);
    });
    assert_eq!(tail.unwrap().end, bytes.len() as u64);
    assert_eq!(Some(&state), places.last().map(|(_, state)| state));
}

/// The file while it is open under `always`: batches, then zeros.
#[test]
fn zeros_follow_a_synced_batch_until_the_log_is_closed() {
    let (_directory, path) = scratch();
    let (log, mut model) = open(&path).unwrap();
    let mut prepared = 0;
    let mut times = 0;
    for number in 0..1000 {
        let key = format!("key {number}");
        let batch = batch(&[put(key.as_bytes(), &[b'v'; 300])]);
        log.append(&batch, true, || apply(&mut model, &batch)).unwrap();
        let file_len = fs::metadata(&path).unwrap().len();
        times += usize::from(file_len != prepared);
        prepared = file_len;
        assert!(log.len() <= prepared && prepared - log.len() <= *PREPARED.end() as u64);
    }
    assert!((2..20).contains(&times), "the file was made longer {times} times for 1000 batches");
    // Beyond the longest that is checked, and not synced: neither is written over zeros.
    for (length, sync) in [(MAX_CHECKED + 1, true), (10, true), (10, false)] {
        let value = vec![b'v'; length];
        let batch = batch(&[put(b"key", &value)]);
        log.append(&batch, sync, || apply(&mut model, &batch)).unwrap();
        let file_len = fs::metadata(&path).unwrap().len();
        assert_eq!(file_len > log.len(), sync && length == 10);
    }
    log.append(&batch(&[put(b"key", b"v")]), true, || apply(&mut model, &batch(&[put(b"key", b"v")])))
        .unwrap();
    let killed = path.with_extension("copy");
    fs::copy(&path, &killed).unwrap();
    log.close().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), log.len());
    for path in [path, killed] {
        assert!(open(&path).unwrap().1 == model);
        assert_eq!(fs::metadata(&path).unwrap().len(), log.len());
    }
}

#[test]
fn a_log_is_open_once() {
    let (directory, path) = scratch();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (log, _) = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::Locked { .. })));
    assert!(matches!(open(&link), Err(Error::Locked { .. })));
    log.close().unwrap();
    let (again, _) = open(&path).unwrap();
    assert!(log.append(&batch(&[put(b"k", b"v")]), false, || ()).is_err(), "a closed log took a write");
    drop(log);
    assert!(matches!(open(&path), Err(Error::Locked { .. })));
    drop(again);
    open(&link).unwrap();
}

#[test]
fn only_a_regular_file_of_commands_is_recognised() {
    let (directory, path) = scratch();
    for (bytes, expected) in [
        ("*3\r\n", true),
        ("#TS:1\r\n*1", true),
        ("#CRC:", true),
        ("*", false),
        ("*a", false),
        ("REDIS0011", false),
        ("", false),
    ] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(recognise(&path), expected, "{bytes:?}");
    }
    assert!(!recognise(directory.path()));
    assert!(!recognise(&directory.path().join("nothing")));
    assert!(matches!(open(Path::new("/dev/null")), Err(Error::Foreign { .. })));
}
