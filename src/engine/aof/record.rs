//! One record of the append-only file (AOF), a RESP command: encoding and decoding.

use super::super::{Batch, WriteOp};
use crate::engine::key_value_headers::{self, Entry};
use bumpalo::Bump;
use std::{convert::Infallible, ops::Range};

/// Form of the records of an AOF section: what their keys and values mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// Records that redis-server can load: keys and values as clients wrote them, and separate commands for expiration
    /// times and databases.
    #[default]
    Redis,
    /// Records of a `bitcask` segment: keys and values as the engine stores them, in `SET`, `DEL` and `FLUSHALL`. Each
    /// value is contiguous in the file and can be read without the records around it.
    Raw,
}

/// Maximum length of a key, and of a value without its header, in bytes: Redis' own limit (`proto-max-bulk-len`).
pub(in super::super) const MAX_LENGTH: usize = 512 << 20;

/// Maximum length of a value with its header, in bytes.
pub(in super::super) const MAX_STORED_VALUE: usize = MAX_LENGTH + key_value_headers::VALUE_HEAD;

/// Maximum lengths of a key and of a value with its header, in bytes.
pub(in super::super) const MAX_LENGTHS: (usize, usize) = (MAX_LENGTH, MAX_STORED_VALUE);

/// Appends the records of `batch` to `out`: between `MULTI` and `EXEC` if `group`, or if a write needs several
/// records, so that a replay applies all of them or none. Before each record, `ready` is called with the length of
/// the record without the value of a `SET` (or a little more); it may empty `out` or add to it.
pub(super) fn encode<E>(
    batch: &Batch<'_>,
    group: bool,
    out: &mut Vec<u8>,
    mut ready: impl FnMut(&mut Vec<u8>, usize) -> Result<(), E>,
) -> Result<(), E> {
    // A write that needs several records needs a group, too.
    let group = group || batch.ops().iter().any(is_more_than_one);
    if group {
        ready(out, MULTI.len())?;
        out.extend_from_slice(MULTI);
    }
    for op in batch.ops() {
        match op {
            WriteOp::Put { key, value }
                if key_value_headers::may_have_header(key) || key_value_headers::may_have_header(value) =>
            {
                encode_marked(key, value, out, &mut ready)?;
            }
            WriteOp::Put { key, value } => {
                ready(out, OVERHEAD + key.len())?;
                encode_plain(key, value, out);
            }
            WriteOp::Delete { key } => encode_in_database(key, out, &mut ready, |key, out, ready| {
                ready(out, OVERHEAD + key.len())?;
                encode_delete(key, out);
                Ok(())
            })?,
            WriteOp::Clear => {
                ready(out, FLUSH.len())?;
                out.extend_from_slice(FLUSH);
            }
        }
    }
    if group {
        ready(out, EXEC.len())?;
        out.extend_from_slice(EXEC);
    }
    Ok(())
}

pub(super) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
pub(super) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
pub(super) const FLUSH: &[u8] = b"*1\r\n$8\r\nFLUSHALL\r\n";
pub(super) const SELECT_0: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

/// First bytes of an AOF record that sets an expiration time.
const PEXPIREAT: &[u8] = b"*3\r\n$9\r\nPEXPIREAT\r\n";

/// Maximum capacity of the buffer for a value that is reused for the next value, in bytes.
const MAX_REUSED_BUFFER: usize = 1 << 20;

/// Maximum length of a record of one key and one value without the key and the value, in bytes.
pub(super) const OVERHEAD: usize = 48;

/// Appends a `SET` record to `out`, followed by `PEXPIREAT` if the value has an expiration time, and enclosed
/// in `SELECT` if the key is in another database than 0. Appends nothing for a marker record (see
/// [`key_value_headers`]): a replay restores the marker records from the `PEXPIREAT` records and from the keys that
/// need a header.
#[inline]
pub(in super::super) fn encode_set(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if key_value_headers::may_have_header(key) || key_value_headers::may_have_header(value) {
        let Ok(()) = encode_marked::<Infallible>(key, value, out, &mut |_, _| Ok(()));
        return;
    }
    encode_plain(key, value, out);
}

pub(super) fn encode_plain(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    encode_bulk(key, out);
    encode_bulk(value, out);
}

pub(super) fn encode_delete(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n");
    encode_bulk(key, out);
}

/// Callback before each record is appended, with the length of the record in bytes without its value; may empty the
/// buffer or add to it.
type Ready<'r, E> = dyn FnMut(&mut Vec<u8>, usize) -> Result<(), E> + 'r;

#[cold]
fn encode_marked<E>(key: &[u8], value: &[u8], out: &mut Vec<u8>, ready: &mut Ready<'_, E>) -> Result<(), E> {
    let Entry { value, deadline } = key_value_headers::entry(value);
    encode_in_database(key, out, ready, |key, out, ready| {
        ready(out, OVERHEAD + key.len())?;
        encode_plain(key, value, out);
        if deadline > 0 {
            ready(out, PEXPIREAT.len() + OVERHEAD + key.len())?;
            out.extend_from_slice(PEXPIREAT);
            encode_bulk(key, out);
            encode_bulk(itoa::Buffer::new().format(deadline).as_bytes(), out);
        }
        Ok(())
    })
}

/// Calls `encode` with the client's key of the stored key `stored`, between `SELECT` records if the key's
/// database is not 0.
fn encode_in_database<E>(
    stored: &[u8],
    out: &mut Vec<u8>,
    ready: &mut Ready<'_, E>,
    encode: impl FnOnce(&[u8], &mut Vec<u8>, &mut Ready<'_, E>) -> Result<(), E>,
) -> Result<(), E> {
    let Some((database, key)) = key_value_headers::key(stored) else { return Ok(()) };
    let select = |database: u8, out: &mut Vec<u8>, ready: &mut Ready<'_, E>| {
        ready(out, OVERHEAD)?;
        out.extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n");
        encode_bulk(itoa::Buffer::new().format(database).as_bytes(), out);
        Ok(())
    };
    if database != 0 {
        select(database, out, ready)?;
    }
    encode(key, out, ready)?;
    if database != 0 {
        select(0, out, ready)?;
    }
    Ok(())
}

/// Returns `true` if a write may need more than one AOF record (SELECT or PEXPIREAT, too), because its key or value has
/// a header.
#[inline]
fn is_more_than_one(op: &WriteOp<'_>) -> bool {
    match op {
        WriteOp::Put { key, value } => {
            key_value_headers::needs_header(key) || key_value_headers::needs_header(value)
        }
        WriteOp::Delete { key } => key_value_headers::needs_header(key),
        WriteOp::Clear => false,
    }
}

fn encode_bulk(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Reason why no record or frame could be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodeStop {
    /// The bytes are the start of a record or frame of at least `need` bytes.
    Incomplete { need: usize },
    /// No record or frame starts with these bytes; `at` is the index of the first wrong byte.
    Malformed { at: usize, detail: &'static str },
}

/// Decodes the record at the start of `bytes`: puts the ranges of the command's name and arguments into `words` and
/// returns the record's length in bytes. An annotation (`#TS:` and a time, or a line of `#`) leaves `words` empty.
pub(super) fn decode(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Result<usize, DecodeStop> {
    words.clear();
    let mut cursor = Cursor::new(bytes);
    match bytes {
        [b'#', b'#' | b'\n', ..] => return cursor.padding(),
        [b'#', ..] => {
            cursor.literal(b"#TS:", NO_ANNOTATION)?;
            cursor.number(MAX_TIME)?;
            return Ok(cursor.at);
        }
        _ => {}
    }
    cursor.literal(b"*", "a command must begin with '*'")?;
    let count = cursor.number(MAX_WORDS)?;
    if count == 0 {
        // Index of the zero before the end of the line.
        return Err(DecodeStop::Malformed {
            at: cursor.at.saturating_sub(3),
            detail: "a command without words",
        });
    }
    for _ in 0..count {
        words.push(cursor.bulk()?);
    }
    Ok(cursor.at)
}

/// Error text for a line that starts with `#` but is no known annotation.
const NO_ANNOTATION: &str = "neither a command nor a known kind of line";

/// Maximum number of arguments of a record, as in Redis.
const MAX_WORDS: usize = i32::MAX as usize;

/// Maximum Unix time of an annotation, in seconds: beyond every real date, below an overflow.
const MAX_TIME: usize = usize::MAX / 100;

/// Decoding position in the bytes of an AOF record.
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    /// Index of the next byte to decode, in the bytes that are being decoded.
    pub(super) at: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn literal(&mut self, wanted: &[u8], detail: &'static str) -> Result<(), DecodeStop> {
        for byte in wanted {
            match self.bytes.get(self.at) {
                Some(found) if found == byte => self.at += 1,
                Some(_) => return Err(DecodeStop::Malformed { at: self.at, detail }),
                None => return Err(DecodeStop::Incomplete { need: self.at + 1 }),
            }
        }
        Ok(())
    }

    /// Consumes a line of padding (`#`), and returns the index behind it.
    fn padding(mut self) -> Result<usize, DecodeStop> {
        while self.bytes.get(self.at) == Some(&b'#') {
            self.at += 1;
        }
        self.literal(b"\n", NO_ANNOTATION)?;
        Ok(self.at)
    }

    /// Consumes a decimal number and the end of its line. `max` must be below a tenth of `usize::MAX`.
    #[inline]
    fn number(&mut self, max: usize) -> Result<usize, DecodeStop> {
        let first = self.at;
        let mut value = 0;
        loop {
            match self.bytes.get(self.at) {
                Some(digit @ b'0'..=b'9') => value = value * 10 + usize::from(digit - b'0'),
                Some(b'\r') if self.at > first => break,
                Some(_) => {
                    return Err(DecodeStop::Malformed { at: self.at, detail: "a length must be a number" });
                }
                None => return Err(DecodeStop::Incomplete { need: self.at + 1 }),
            }
            if value > max {
                return Err(DecodeStop::Malformed { at: self.at, detail: "a length that is too large" });
            }
            self.at += 1;
        }
        self.literal(b"\r\n", "a length must end with CR LF")?;
        Ok(value)
    }

    #[inline]
    fn bulk(&mut self) -> Result<Range<usize>, DecodeStop> {
        self.literal(b"$", "a word must begin with '$'")?;
        let length = self.number(MAX_STORED_VALUE)?;
        let start = self.at;
        self.at += length;
        self.literal(b"\r\n", "a word must end with CR LF where its length says")?;
        Ok(start..start + length)
    }
}

/// Kind of a decoded AOF record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// One or more writes, which were added to the batch.
    Writes,
    /// `MULTI`: the writes up to `EXEC` are applied together.
    Multi,
    /// `EXEC`: end of the writes that are applied together.
    Exec,
    /// Annotation or command that changes no key.
    Nothing,
    /// Command that an AOF of these engines cannot contain.
    Unknown,
}

/// State of an AOF's replay that determines how a record's keys and values are stored.
#[derive(Default)]
pub(super) struct State {
    form: Form,
    /// Index of the selected database.
    pub(super) database: u8,
    /// `true` if the records replayed so far allow that databases other than 0 contain keys.
    others: bool,
    /// `true` if the replay has added the marker record of expiration times (they are in use) to a batch since the last
    /// `FLUSHALL`.
    expires: bool,
    /// `true` if the replay has added the marker record of key headers (they are in use) to a batch since the last
    /// `FLUSHALL`.
    spaces: bool,
    /// Stored key and value of the last write in the batches that the replay has passed on; `None` if that was no
    /// `SET`.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

impl State {
    /// Returns the initial state of a replay of records in this form.
    pub(super) fn of(form: Form) -> Self {
        Self { form, ..Self::default() }
    }

    #[inline]
    fn key<'b>(&self, key: &'b [u8], arena: &'b Bump) -> &'b [u8] {
        if self.form == Form::Raw || self.database == 0 && !key_value_headers::needs_header(key) {
            return key;
        }
        arena.alloc_slice_copy(&[&key_value_headers::key_head(self.database), key].concat())
    }

    #[inline]
    fn put<'b>(&mut self, key: &'b [u8], value: &'b [u8], arena: &'b Bump, batch: &mut Batch<'b>) {
        if self.form == Form::Raw {
            return batch.put(key, value);
        }
        let value =
            if key_value_headers::needs_header(value) { with_deadline(value, 0, arena) } else { value };
        let stored = self.key(key, arena);
        if stored.len() > key.len() && !std::mem::replace(&mut self.spaces, true) {
            batch.put(&key_value_headers::KEY_HEADERS_RECORD, b"1");
        }
        batch.put(stored, value);
    }

    /// Saves the last write of a batch before the batch is passed on: the expiration time of its value may
    /// follow after padding, or in the next frame.
    pub(super) fn keep_last(&mut self, batch: &Batch<'_>) {
        if self.form == Form::Raw {
            return;
        }
        match batch.ops().last() {
            Some(WriteOp::Put { key, value }) => {
                let (last_key, last_value) = self.last.get_or_insert_default();
                last_key.clear();
                last_key.extend_from_slice(key);
                // Frees the memory of one very large value before small ones use the buffer.
                if last_value.capacity() > MAX_REUSED_BUFFER {
                    *last_value = Vec::new();
                }
                last_value.clear();
                last_value.extend_from_slice(value);
            }
            Some(_) => self.last = None,
            None => {}
        }
    }

    /// Adds the last write once more to the batch, with the expiration time `time`, if the last write was a `SET` of
    /// `key`. Returns `false` if it was not, or if `time` is no number of milliseconds.
    fn expire<'b>(&mut self, key: &'b [u8], time: &[u8], arena: &'b Bump, batch: &mut Batch<'b>) -> bool {
        let deadline = str::from_utf8(time).ok().and_then(|time| time.parse::<u64>().ok());
        let stored = self.key(key, arena);
        let last = match batch.ops().last() {
            Some(WriteOp::Put { key, value }) => Some((*key, *value)),
            Some(_) => None,
            None => self.last.as_ref().map(|(key, value)| (&**key, &**value)),
        };
        let (Some((_, value)), Some(deadline)) = (last.filter(|(key, _)| *key == stored), deadline) else {
            return false;
        };
        let value = with_deadline(key_value_headers::entry(value).value, deadline, arena);
        if !std::mem::replace(&mut self.expires, true) {
            batch.put(&key_value_headers::EXPIRATIONS_RECORD, b"1");
        }
        batch.put(stored, value);
        true
    }

    fn select(&mut self, database: &[u8]) -> Meaning {
        match str::from_utf8(database).ok().and_then(|number| number.parse::<u8>().ok()) {
            Some(number @ 0..=15) => {
                self.database = number;
                self.others |= number != 0;
                Meaning::Nothing
            }
            _ => Meaning::Unknown,
        }
    }
}

fn with_deadline<'b>(value: &[u8], deadline: u64, arena: &'b Bump) -> &'b [u8] {
    arena.alloc_slice_copy(&[&key_value_headers::value_head(deadline), value].concat())
}

/// Returns the kind of a decoded record and adds its writes to `batch`; keys and values with headers are built
/// in `arena`. In addition to the commands that [`encode`] writes, it understands `UNLINK`, `MSET` and, while only
/// database 0 is in use, `FLUSHDB`, which an AOF of `redis-server` may contain. Every other command, such as `SET` with
/// options, is [`Meaning::Unknown`].
#[inline]
pub(super) fn interpret<'b>(
    bytes: &'b [u8],
    words: &[Range<usize>],
    state: &mut State,
    arena: &'b Bump,
    batch: &mut Batch<'b>,
) -> Meaning {
    let word = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
    let [name, arguments @ ..] = words else { return Meaning::Nothing };
    // The longest known command name has nine letters.
    let (name, mut upper) = (word(name), [0; 9]);
    let Some(upper) = upper.get_mut(..name.len()) else { return Meaning::Unknown };
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    match (&*upper, arguments) {
        (b"SET", [key, value]) => {
            state.put(word(key), word(value), arena, batch);
            Meaning::Writes
        }
        (b"SELECT" | b"PEXPIREAT", _) if state.form == Form::Raw => Meaning::Unknown,
        (b"PEXPIREAT", [key, time]) if state.expire(word(key), word(time), arena, batch) => Meaning::Writes,
        (b"MULTI", []) => Meaning::Multi,
        (b"EXEC", []) => Meaning::Exec,
        (b"DEL" | b"UNLINK", [_, ..]) => {
            arguments.iter().for_each(|key| batch.delete(state.key(word(key), arena)));
            Meaning::Writes
        }
        (b"MSET", [_, ..]) if arguments.len() % 2 == 0 => {
            let (pairs, _) = arguments.as_chunks::<2>();
            pairs.iter().for_each(|[key, value]| state.put(word(key), word(value), arena, batch));
            Meaning::Writes
        }
        (b"FLUSHDB", _) if state.others => Meaning::Unknown,
        (b"FLUSHDB" | b"FLUSHALL", [] | [_]) if arguments.iter().all(|mode| is_flush_mode(word(mode))) => {
            batch.clear();
            (state.expires, state.spaces, state.others) = (false, false, state.database != 0);
            Meaning::Writes
        }
        (b"SELECT", [database]) => state.select(word(database)),
        _ => Meaning::Unknown,
    }
}

fn is_flush_mode(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"SYNC") || word.eq_ignore_ascii_case(b"ASYNC")
}
