//! Tests of AOFs that Redis wrote: an incomplete write at the end is cut off, corruption is refused.

use super::*;
use crate::engine::key_value_headers;
use std::convert::Infallible;

/// Encodes a batch as an AOF of Redis does: without frames.
fn encode(batch: &Batch<'_>) -> Vec<u8> {
    let mut records = Vec::new();
    record::encode::<Infallible>(batch, batch.len() > 1, &mut records, |_, _| Ok(())).unwrap();
    records
}

/// Returns the batches of [`sample`] as an AOF of Redis, and its length and content before the first batch and after
/// each.
fn sample_log() -> (Vec<u8>, Vec<(usize, State)>) {
    let (mut bytes, mut state) = (Vec::new(), State::new());
    let mut places = vec![(0, State::new())];
    for batch in sample() {
        bytes.extend(encode(&batch));
        apply(&mut state, &batch);
        places.push((bytes.len(), state.clone()));
    }
    (bytes, places)
}

/// Returns `true` if `file` is what an open leaves of an AOF with the valid bytes `kept`: without any, a new
/// start line.
fn is_kept(file: &[u8], kept: &[u8]) -> bool {
    if kept.is_empty() {
        frame::read_start(file, 0).is_ok() && file.len() == frame::START
    } else {
        file == kept
    }
}

/// Writes `bytes` to `path` and opens it as an AOF. Returns its content, and the file's bytes after the open.
fn open_bytes(path: &Path, bytes: &[u8]) -> (State, Vec<u8>) {
    fs::write(path, bytes).unwrap();
    let (log, state) = open(path).unwrap();
    drop(log);
    (state, fs::read(path).unwrap())
}

#[test]
fn a_log_torn_at_any_byte_holds_the_batches_before() {
    let (_directory, path) = scratch();
    let (bytes, places) = sample_log();
    for cut in 0..=bytes.len() {
        let (end, expected) = places.iter().rfind(|(end, _)| *end <= cut).unwrap();
        for zeros in [0, 1, 5000] {
            let mut torn = bytes[..cut].to_vec();
            torn.resize(cut + zeros, 0);
            let (state, file) = open_bytes(&path, &torn);
            assert_eq!(&state, expected, "cut at {cut}, {zeros} zeros");
            assert!(is_kept(&file, &bytes[..*end]), "cut at {cut}, {zeros} zeros");
        }
    }
}

#[test]
fn a_batch_may_not_lack_a_sector() {
    let mut bytes = encode(&batch(&[put(b"a", &[b'a'; 2000]), put(b"b", &[b'b'; 2000])]));
    bytes[512..1024].fill(0);
    assert_eq!(open_bytes(&scratch().1, &bytes).0.len(), 2, "zeros inside of a value are content");
    let structure = bytes.len() - 20;
    bytes[structure..].fill(0);
    bytes.extend([b'x'; 600]);
    refused(&bytes);
}

#[test]
fn a_cut_log_can_be_continued() {
    let (_directory, path) = scratch();
    let (bytes, places) = sample_log();
    for cut in (1..bytes.len()).step_by(7) {
        fs::write(&path, &bytes[..cut]).unwrap();
        let (log, mut model) = open(&path).unwrap();
        assert_eq!(model, places.iter().rfind(|(end, _)| *end <= cut).unwrap().1);
        let next = batch(&[put(b"next", b"1"), put(b"and", b"2")]);
        log.append(&next, true, || apply(&mut model, &next)).unwrap();
        drop(log);
        assert_eq!(open(&path).unwrap().1, model, "cut at {cut}");
    }
}

#[test]
fn any_changed_byte_is_either_content_or_refused_or_the_tail() {
    let (_directory, path) = scratch();
    let (bytes, _) = sample_log();
    let mut refusals = 0;
    for (at, change) in (0..bytes.len()).flat_map(|at| [1, 0x20, 0x80].map(|change| (at, change))) {
        let mut damaged = bytes.clone();
        damaged[at] ^= change;
        fs::write(&path, &damaged).unwrap();
        match open(&path) {
            Ok((log, _)) => {
                let kept = log.len() as usize;
                assert!(
                    kept == bytes.len() || kept <= at,
                    "lost bytes from {kept}, before the change at {at}"
                );
            }
            Err(Error::Corrupt { offset, .. }) => {
                refusals += 1;
                // A wrong length is detected at the next argument, never before it.
                assert!(offset as usize >= at || bytes[at].is_ascii_uppercase(), "{offset} before {at}");
                assert_eq!(fs::read(&path).unwrap(), damaged);
            }
            Err(Error::Foreign { .. }) => {
                refusals += 1;
                assert_eq!(fs::read(&path).unwrap(), damaged);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refusals > bytes.len(), "{refusals} of {} changes refused", bytes.len() * 3);
}

#[test]
fn damage_is_named_with_its_offset() {
    let good = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".as_slice();
    let one = good.len();
    for (middle, offset, detail) in [
        ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\nX1\r\nv\r\n", 20, "a word must begin with '$'"),
        ("*3\r\n$3\r\nSET\r\n$2\r\nk\r\n$1\r\nv\r\n", 19, "a word must end with CR LF where its length says"),
        ("*3\r\n$3\r\nSET\r\n$-1\r\n", 14, "a length must be a number"),
        ("*3\r\n$3\r\nSET\r\n$536870929\r\n", 22, "a length that is too large"),
        ("*3\r\n$99999999999999999999999\r\n", 13, "a length that is too large"),
        ("*0\r\n", 1, "a command without words"),
        ("*\r\n", 1, "a length must be a number"),
        ("\r\n", 0, "a command must begin with '*'"),
        ("\0\0\0", 0, "a command must begin with '*'"),
        ("#TS:12x\r\n", 6, "a length must be a number"),
        ("#XX\r\n", 1, "neither a command nor a known kind of line"),
        ("*1\r\n$4\r\nEXEC\r\n", 0, "EXEC without MULTI"),
        ("*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n", 15, "MULTI inside MULTI"),
    ] {
        let bytes = [good, middle.as_bytes(), good].concat();
        let at = one + offset;
        let text = refused(&bytes);
        assert!(
            text.starts_with(&format!("LOG is corrupt at byte {at}: {detail}; nothing was changed")),
            "{text}"
        );
    }
}

#[test]
fn a_command_that_is_not_known_is_named_with_its_offset() {
    let good = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".as_slice();
    for (command, name) in [
        ("*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n", "HSET with 3 arguments"),
        ("*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\nPXAT\r\n$1\r\n9\r\n", "SET with 4 arguments"),
        ("*2\r\n$6\r\nselect\r\n$2\r\n16\r\n", "SELECT 16 (kvbench has databases 0 to 15)"),
        ("*4\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", "MSET with 3 arguments"),
        ("*1\r\n$3\r\nDEL\r\n", "DEL with 0 arguments"),
        ("*1\r\n$3\r\n\x01\r\n\r\n", "\\x01\\r\\n with 0 arguments"),
    ] {
        let bytes = [good, command.as_bytes(), good].concat();
        let expected = format!("LOG holds the command {name} at byte {}, not data of test", good.len());
        let text = refused(&bytes);
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[test]
fn a_length_beyond_the_end_is_a_torn_tail() {
    let (_directory, path) = scratch();
    let good = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".as_slice();
    for tail in
        ["*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870928\r\nvvv", "*2147483647\r\n$1\r\nx\r\n", "#TS:17", "#"]
    {
        let (state, file) = open_bytes(&path, &[good, tail.as_bytes()].concat());
        assert_eq!(state.len(), 1);
        assert_eq!(file, good);
    }
}

/// AOF that redis-server 7.0.15 wrote with `aof-timestamp-enabled yes`.
const BY_REDIS: &str = "#TS:1795250606\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n\
    *3\r\n$3\r\nset\r\n$8\r\ngreeting\r\n$5\r\nhello\r\n*3\r\n$3\r\nsEt\r\n$5\r\nMixed\r\n$4\r\ncase\r\n\
    *7\r\n$4\r\nmset\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n\
    *1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$2\r\nin\r\n$5\r\ngroup\r\n\
    *3\r\n$6\r\nUNLINK\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$4\r\nEXEC\r\n";

/// Continuation of the AOF of Redis in [`BY_REDIS`], which begins with FLUSHALL.
const BY_REDIS_AFTER_FLUSHALL: &str = "*1\r\n$8\r\nflushall\r\n\
    *3\r\n$3\r\nset\r\n$5\r\nafter\r\n$5\r\nflush\r\n*2\r\n$3\r\ndel\r\n$5\r\nafter\r\n\
    *5\r\n$4\r\nmset\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\ny\r\n$1\r\n2\r\n\
    *3\r\n$6\r\nunlink\r\n$1\r\nx\r\n$4\r\nnope\r\n\
    #TS:1795250607\r\n*3\r\n$3\r\nset\r\n$6\r\nsp ace\r\n$1\r\nv\r\n";

#[test]
fn log_written_by_redis_is_read() {
    let (_directory, path) = scratch();
    let (state, file) = open_bytes(&path, BY_REDIS.as_bytes());
    assert_eq!(state, pairs(&[("Mixed", "case"), ("c", "3"), ("greeting", "hello"), ("in", "group")]));
    assert_eq!(file, BY_REDIS.as_bytes());
    let longer = format!("{BY_REDIS}{BY_REDIS_AFTER_FLUSHALL}");
    assert_eq!(open_bytes(&path, longer.as_bytes()).0, pairs(&[("sp ace", "v"), ("y", "2")]));
    let flushed = format!("{longer}*2\r\n$7\r\nFLUSHDB\r\n$5\r\nasync\r\n");
    assert_eq!(open_bytes(&path, flushed.as_bytes()).0, State::new());
}

/// AOF of Redis that ends with database 3 selected.
pub(super) const ENDS_IN_DATABASE_3: &str = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n\
    *3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2\r\nx0\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n\
    *3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\na3\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2\r\nb3\r\n";

/// Returns the batches of database 0 that the tests append to [`ENDS_IN_DATABASE_3`], and the content then.
pub(super) fn appended_to_database_3() -> ([Batch<'static>; 2], State) {
    let in_3 = |key: &str| [&key_value_headers::key_head(3), key.as_bytes()].concat();
    let batches = [batch(&[put(b"a", b"new")]), batch(&[put(b"b", b"1"), delete(b"b"), delete(b"x")])];
    let content = State::from([
        (b"a".to_vec(), b"new".to_vec()),
        (in_3("a"), b"a3".to_vec()),
        (in_3("b"), b"b3".to_vec()),
        (key_value_headers::KEY_HEADERS_RECORD.to_vec(), b"1".to_vec()),
    ]);
    (batches, content)
}

/// Writes to database 0 stay there, after a close, after a kill and in a rewritten AOF. redis-server needs `SELECT 0`
/// before them.
#[test]
fn writes_behind_a_log_that_ends_in_another_database_are_of_database_0() {
    let (batches, expected) = appended_to_database_3();
    for (closed, rewritten) in [(false, false), (true, false), (true, true)] {
        let (_directory, path) = scratch();
        let (_, file) = open_bytes(&path, ENDS_IN_DATABASE_3.as_bytes());
        assert_eq!(file, ENDS_IN_DATABASE_3.as_bytes());
        let (log, mut state) = open(&path).unwrap();
        let mut append = |batch: &Batch<'_>| log.append(batch, true, || apply(&mut state, batch)).unwrap();
        if rewritten {
            // The scan sees nothing: all is in the copied part.
            log.rewrite(|_| {
                batches.iter().for_each(&mut append);
                false
            })
            .unwrap();
            let content = State::from([(b"a".to_vec(), b"new".to_vec())]);
            log.close().unwrap();
            assert_eq!(open(&path).unwrap().1, content);
            continue;
        }
        batches.iter().for_each(append);
        assert_eq!(state, expected);
        let bytes = fs::read(&path).unwrap();
        let plain = [ENDS_IN_DATABASE_3.as_bytes(), record::SELECT_0].concat();
        assert!(bytes.starts_with(&plain), "{}", bytes.escape_ascii());
        assert!(frame::read_start(&bytes[plain.len()..], plain.len() as u64).is_ok());
        if closed {
            log.close().unwrap();
        }
        drop(log);
        assert_eq!(open(&path).unwrap().1, expected, "closed: {closed}");
    }
}

/// Earlier versions appended the start line without `SELECT 0`.
#[test]
fn frames_behind_a_log_that_ends_in_another_database_are_of_database_0() {
    let (batches, expected) = appended_to_database_3();
    let mut image = Image::after(ENDS_IN_DATABASE_3.as_bytes(), State::new());
    for batch in &batches {
        image.append(batch);
    }
    assert_eq!(read(&image.bytes).unwrap().1, expected);
}
