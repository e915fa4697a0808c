//! Tests of the append-only file (AOF), from its bytes to an open file.

mod corruption;
mod deadlines;
mod disk_faults;
mod redis_logs;
mod repair;
mod sync_markers;

mod rewriting;

use super::{
    super::{Batch, Error, Result, WriteOp, registry::when_unlocked},
    append::{FrameWriter, PREPARED},
    file::{self, Storage},
    frame::{self, FrameChain, HEADER, PIECE},
    record::{self, Form},
    *,
};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(state: &mut State, batch: &Batch<'_>) {
    for op in batch.ops() {
        match *op {
            WriteOp::Put { key, value } => drop(state.insert(key.into(), value.into())),
            WriteOp::Delete { key } => drop(state.remove(key)),
            WriteOp::Clear => state.clear(),
        }
    }
}

/// Opens the AOF at `path`, and returns it with the pairs of keys and values that its replay gives.
fn open(path: &Path) -> Result<(Aof, State)> {
    when_unlocked(|| {
        let mut state = State::new();
        let log = Aof::open(path, "test", &mut |batch| apply(&mut state, batch))?;
        Ok((log, state))
    })
}

fn batch<'a>(ops: &[WriteOp<'a>]) -> Batch<'a> {
    let mut batch = Batch::default();
    ops.iter().for_each(|op| batch.push(*op));
    batch
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> WriteOp<'a> {
    WriteOp::Put { key, value }
}

fn delete(key: &[u8]) -> WriteOp<'_> {
    WriteOp::Delete { key }
}

/// Returns batches for tests: single writes and groups, whose keys and values contain bytes that could be taken for
/// the structure of an AOF.
fn sample() -> Vec<Batch<'static>> {
    vec![
        batch(&[put(b"a", b"1")]),
        batch(&[put(b"b", b"\r\n*1\r\n$4\r\nEXEC\r\n"), put(b"a", b""), delete(b"a")]),
        batch(&[delete(b"nothing")]),
        batch(&[put(b"", b"empty key"), put(b"\0\0", b"\0\0\0\0")]),
        batch(&[WriteOp::Clear]),
        batch(&[put(b"twelve bytes", b"0123456789ab")]),
        batch(&[put(b"c", b"before"), WriteOp::Clear, put(b"d", b"after")]),
        batch(&[put(b"zeros", &[0; 20])]),
    ]
}

/// Id in the start line and the frames of the AOFs that tests create.
const ID: u32 = 0xfeed_beef;

/// Bytes of an AOF for tests, and its content after each batch.
#[derive(Clone)]
struct Image {
    bytes: Vec<u8>,
    chain: FrameChain,
    /// Offset up to which the next frame will record that the AOF was durable.
    synced: u64,
    /// Length of the AOF in bytes, with the pairs that it holds: first before the first batch, then after each batch.
    places: Vec<(usize, State)>,
    /// Offset of each frame's header in the AOF, and the offset up to which that header records that the AOF was
    /// durable.
    headers: Vec<(usize, u64)>,
}

impl Image {
    fn new() -> Self {
        Self::after(&[], State::new())
    }

    /// Returns an AOF that begins with `plain`, records of Redis without frames, whose content is `state`.
    fn after(plain: &[u8], state: State) -> Self {
        let chain = FrameChain::new(Form::Redis, ID);
        let bytes = [plain, &chain.start_line(plain.len() as u64)].concat();
        let synced = bytes.len() as u64;
        Self { places: vec![(bytes.len(), state)], headers: Vec::new(), chain, synced, bytes }
    }

    /// Returns an AOF of the batches of [`sample`], with a sync after each and a sync marker at the end.
    fn synced_sample() -> Self {
        let mut image = Self::new();
        sample().iter().for_each(|batch| image.append(batch).sync());
        image.mark();
        image
    }

    fn append(&mut self, batch: &Batch<'_>) -> &mut Self {
        let (mut buffer, mut state) = (Vec::new(), self.places.last().unwrap().1.clone());
        let (begin, end) = (self.bytes.len() as u64, self.bytes.len());
        let storage = Buffer(Mutex::new(std::mem::take(&mut self.bytes)));
        let synced = self.synced;
        let mut appending =
            FrameWriter { storage: &storage, end: begin, chain: self.chain, synced, over_padding: false };
        appending.write(batch, &mut buffer, &mut Vec::new()).unwrap();
        self.chain = appending.chain;
        self.bytes = storage.0.into_inner().unwrap();
        self.note_headers(end);
        apply(&mut state, batch);
        self.places.push((self.bytes.len(), state));
        self
    }

    fn note_headers(&mut self, from: usize) {
        self.headers.extend(headers_from(&self.bytes, from).map(|(at, header)| (at, header.synced)));
    }

    /// Takes all bytes so far as durable; the next frames record that.
    fn sync(&mut self) {
        self.synced = self.bytes.len() as u64;
    }

    /// Appends a sync marker for all bytes so far, and takes it as durable.
    fn mark(&mut self) {
        let at = self.bytes.len();
        self.bytes.extend(self.chain.sync_marker(at as u64));
        self.headers.push((at, at as u64));
        self.sync();
    }
}

/// Returns the headers of the consecutive frames in `bytes` from offset `at` on, each with its offset.
fn headers_from(bytes: &[u8], mut at: usize) -> impl Iterator<Item = (usize, frame::Header)> {
    std::iter::from_fn(move || {
        let (here, header) = (at, frame::Header::read(bytes.get(at..)?, at as u64).ok()?);
        at += header.frame().len();
        Some((here, header))
    })
}

fn headers(bytes: &[u8]) -> Vec<(usize, frame::Header)> {
    headers_from(bytes, frame::START).collect()
}

/// File in memory, for tests of an AOF.
struct Buffer(Mutex<Vec<u8>>);

impl Storage for Buffer {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut buffer, end) = (self.0.lock().unwrap(), offset as usize + bytes.len());
        let length = buffer.len().max(end);
        buffer.resize(length, 0);
        buffer[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        bytes.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(len as usize);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_at(&self, _: &Path) -> Result<bool> {
        Ok(true)
    }
}

/// Replays an AOF of these bytes; returns the end of the replay and the pairs.
fn read(bytes: &[u8]) -> Result<(replay::ReplayEnd, State)> {
    let mut state = State::new();
    let names = ("test", Path::new("LOG"));
    let mut restore = |batch: &Batch<'_>| apply(&mut state, batch);
    let tail = open::replay_whole(&mut Cursor::new(bytes), bytes.len() as u64, names, &mut restore)?;
    Ok((tail, state))
}

/// Opens an AOF of these bytes, which must be refused and not changed, and returns the error's text.
fn refused(bytes: &[u8]) -> String {
    let (_directory, path) = scratch();
    fs::write(&path, bytes).unwrap();
    let error = open(&path).map(|(_, state)| state).expect_err(&bytes.escape_ascii().to_string());
    assert!(matches!(error, Error::Corrupt { .. } | Error::Foreign { .. } | Error::Newer { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes, "the file was changed");
    error.to_string().replace(&*path.to_string_lossy(), "LOG")
}

fn pairs(pairs: &[(&str, &str)]) -> State {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// Returns a segment of `bitcask` as earlier versions wrote it: without the checksum behind each value.
pub(in super::super) fn without_sums(segment: &[u8]) -> Vec<u8> {
    let mut old = frame::read_start(segment, 0).unwrap();
    let (mut new, mut bytes, mut at) = (old, segment[..frame::START].to_vec(), frame::START);
    while at < segment.len() {
        let (found, offset) = (old.check(&segment[at..], at as u64).unwrap(), bytes.len() as u64);
        let mut body = &segment[at + HEADER..][..found.body];
        let (mut buffer, mut words) = (Vec::new(), Vec::new());
        frame::begin(&mut buffer);
        while !body.is_empty() {
            let (record, rest) = body.split_at(record::decode(body, &mut words).unwrap());
            if !words.is_empty() {
                buffer.extend_from_slice(record);
            }
            body = rest;
        }
        new.seal(&mut buffer, offset, offset).unwrap();
        bytes.extend(buffer);
        at += found.len();
    }
    bytes
}

/// Returns a temporary directory, and the path of an AOF in it.
fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("log.aof");
    (directory, path)
}

#[test]
fn records_have_the_format_of_redis() {
    let mut image = Image::new();
    image.append(&batch(&[put(b"key", b"value")])).append(&batch(&[delete(b"key"), WriteOp::Clear])).sync();
    image.mark();
    let expected = "#KVBENCH:2:feedbeef:8790f7d0\r\n\
                    #F:feedbeef:00000000:00000021:9356cfeb:b87361b0\r\n*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n\
                    #F:feedbeef:00000052:00000045:924af230:7dedd54d\r\n\
                    *1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$3\r\nkey\r\n*1\r\n$8\r\nFLUSHALL\r\n*1\r\n$4\r\nEXEC\r\n\
                    #F:feedbeef:00000000:00000000:924af230:cefcbee7\r\n";
    assert_eq!(image.bytes.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
}

#[test]
fn reopened_log_holds_all_appended_batches() {
    let (_directory, path) = scratch();
    let mut model = State::new();
    for (index, batch) in sample().iter().enumerate() {
        let (log, state) = open(&path).unwrap();
        assert_eq!(state, model);
        log.append(batch, index % 2 == 0, || apply(&mut model, batch)).unwrap();
        log.append(&Batch::default(), true, || ()).unwrap();
        log.close().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), log.len());
    }
    let before = fs::read(&path).unwrap();
    let (log, state) = open(&path).unwrap();
    assert_eq!(state, model);
    log.close().unwrap();
    assert!(fs::read(&path).unwrap() == before, "an open and a close changed a log that nobody wrote to");
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
    let Image { bytes, places, .. } = Image::synced_sample();
    let mut state = State::new();
    let source = Drip(&bytes, AtomicUsize::new(0));
    let tail = replay::replay(source, bytes.len() as u64, ("test", Path::new("")), &mut |batch| {
        apply(&mut state, batch);
    });
    assert_eq!(tail.unwrap().end, bytes.len() as u64);
    assert_eq!(Some(&state), places.last().map(|(_, state)| state));
}

/// The format name, by which results of `kvbench torture` are told apart, has the number of the start line.
#[test]
fn the_format_has_the_number_of_the_start_line() {
    let number = frame::FORMAT.rsplit(' ').next().unwrap();
    let line = FrameChain::new(Form::Redis, ID).start_line(0);
    assert!(line.starts_with(format!("#KVBENCH:{number}:").as_bytes()), "{}", line.escape_ascii());
}

/// Under `always`, a sync marker and padding follow the last batch while the AOF is open; a close, or the open after
/// a kill, cuts the padding off.
#[test]
fn filler_follows_a_synced_batch_until_the_log_is_closed() {
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
    let killed = path.with_extension("copy");
    fs::copy(&path, &killed).unwrap();
    let rest = fs::read(&path).unwrap().split_off(log.len() as usize);
    assert!(rest.len() > HEADER && rest[HEADER..].iter().all(|&byte| byte == frame::PADDING));
    log.close().unwrap();
    for path in [path, killed] {
        assert!(open(&path).unwrap().1 == model);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, log.len(), "cut, but for the mark");
        assert!(read(&bytes).unwrap().0.synced == log.len() - HEADER as u64);
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
        ("#KVBENCH:2:feedbeef:", true),
        ("#KV", true),
        ("#KV\0\0", true),
        ("\0\0\0", true),
        ("#KW", false),
        ("#KV\0\0x", false),
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
