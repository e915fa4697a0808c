//! Reading a log back.

use super::{
    super::{Batch, Error, Result},
    PREPARED,
    checked::{self, HEADER, MAX_CHECKED},
    record::{self, Meaning, Stop},
};
use std::{
    io::{self, Read},
    ops::Range,
    path::Path,
};

/// Size of the window at first. It grows only for a record that is longer.
const WINDOW: usize = 1 << 20;

/// Records are handed on so many at a time: a table can look their keys up together.
const GATHER: usize = 64;

/// Where a replay ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// End of the last whole record, or group.
    pub(super) end: u64,
    /// Whether what is behind `end` is the begin of another, or what a power cut left of it; otherwise
    /// nothing or zeros.
    pub(super) torn: bool,
    /// Whether writes from behind `end`, of an unfinished group, went to `sink`.
    pub(super) overran: bool,
    /// Number of records before `end`.
    pub(super) records: u64,
}

/// Hands the writes of the first `len` bytes of `source` to `sink`.
///
/// A kill cuts a log anywhere, and a power cut can also leave zeros where room had been made for data
/// that never came. So what begins a record but ends, or turns to zeros up to the end, is a torn tail
/// and no error, and so is the last checked batch where parts of it are missing: it was not
/// acknowledged, or not as durable. Anything else that is no record is damage.
pub(super) fn replay(
    source: impl Read,
    len: u64,
    (engine, path): (&'static str, &Path),
    sink: &mut impl FnMut(&Batch<'_>),
) -> Result<Tail> {
    let mut window = Window::new(source, len);
    let mut reader = Reader::default();
    let mut spare = Batch::with_capacity(GATHER);
    loop {
        let mut batch = spare.recycle();
        let (used, halt) = reader.gather(window.bytes(), window.offset, &mut batch);
        sink(&batch);
        spare = batch.recycle();
        window.advance(used);
        match halt {
            Halt::Gathered => {}
            Halt::At(Stop::Incomplete { need }) if need as u64 <= window.remaining() => {
                window.fill(need).map_err(Error::io("read", path))?;
            }
            Halt::At(Stop::Incomplete { .. }) => {
                return Ok(Tail { torn: len > reader.tail.end, ..reader.tail });
            }
            Halt::At(Stop::Malformed { at, detail }) => {
                let offset = window.offset + at as u64;
                let between = window.offset == reader.tail.end;
                if between && window.is_torn_batch().map_err(Error::io("read", path))? {
                    return Ok(Tail { torn: true, ..reader.tail });
                }
                if window.is_zero_from(at).map_err(Error::io("read", path))? {
                    return Ok(Tail { torn: !between || at > 0, ..reader.tail });
                }
                return Err(Error::Corrupt { path: path.into(), offset, detail: detail.into() });
            }
            Halt::Unknown { command } => {
                let found = format!("{command} at byte {}", window.offset);
                return Err(Error::Foreign { path: path.into(), engine, found });
            }
        }
    }
}

/// Why no more records were gathered.
enum Halt {
    /// They are enough.
    Gathered,
    /// There is no record next.
    At(Stop),
    /// There is one next that a log of these engines cannot hold.
    Unknown { command: String },
}

/// What is known at a place between two records.
#[derive(Default)]
struct Reader {
    words: Vec<Range<usize>>,
    group: bool,
    records: u64,
    tail: Tail,
}

impl Reader {
    /// Puts the writes of the first records of `bytes`, which are at `offset` of the log, into
    /// `batch`. Returns the length of these records, and why they are not more.
    fn gather<'b>(&mut self, bytes: &'b [u8], offset: u64, batch: &mut Batch<'b>) -> (usize, Halt) {
        let mut used = 0;
        while batch.len() < GATHER {
            let rest = bytes.get(used..).unwrap_or_default();
            let length = match record::decode(rest, &mut self.words) {
                Ok(length) => length,
                Err(stop) => return (used, Halt::At(stop)),
            };
            let meaning = record::interpret(rest, &self.words, batch);
            // Nothing is an annotation, for one, and no record.
            self.records += u64::from(meaning != Meaning::Nothing);
            match meaning {
                Meaning::Writes => self.tail.overran = self.group,
                Meaning::Nothing => {}
                Meaning::Multi if !self.group => self.group = true,
                Meaning::Exec if self.group => self.group = false,
                Meaning::Multi => return (used, Halt::misplaced("MULTI inside MULTI")),
                Meaning::Exec => return (used, Halt::misplaced("EXEC without MULTI")),
                Meaning::Unknown => return (used, Halt::Unknown { command: describe(rest, &self.words) }),
            }
            used += length;
            if !self.group {
                self.tail = Tail { end: offset + used as u64, records: self.records, ..Tail::default() };
            }
        }
        (used, Halt::Gathered)
    }
}

impl Halt {
    fn misplaced(detail: &'static str) -> Self {
        Self::At(Stop::Malformed { at: 0, detail })
    }
}

/// `the command HSET with 3 arguments`
fn describe(bytes: &[u8], words: &[Range<usize>]) -> String {
    let name = words.first().and_then(|range| bytes.get(range.clone())).unwrap_or_default();
    let shown = name.get(..32).unwrap_or(name).escape_ascii();
    format!("the command {shown} with {} arguments", words.len().saturating_sub(1))
}

/// The part of the log that is being looked at, from the begin of a record.
struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    /// What of the buffer is read and not yet consumed.
    filled: Range<usize>,
    /// Where in the log `filled` starts.
    offset: u64,
    /// Length of the log.
    len: u64,
}

impl<R: Read> Window<R> {
    fn new(source: R, len: u64) -> Self {
        Self { source, buffer: vec![0; WINDOW], filled: 0..0, offset: 0, len }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.filled.clone()).unwrap_or_default()
    }

    /// Bytes of the log from the begin of the window.
    fn remaining(&self) -> u64 {
        self.len - self.offset
    }

    fn advance(&mut self, by: usize) {
        self.filled.start += by;
        self.offset += by as u64;
    }

    /// Reads until the window has at least `need` bytes. The caller has seen that the log has them,
    /// so a length that lies cannot make the buffer larger than the log.
    fn fill(&mut self, need: usize) -> io::Result<()> {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        if need > self.buffer.len() {
            // At least twice as much, lest a record of many words be decoded anew for each of them.
            self.buffer.resize(need.max(self.buffer.len() * 2), 0);
        }
        while self.filled.end < need {
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let unread = self.remaining() - self.filled.len() as u64;
        let room = self.buffer.get_mut(self.filled.end..).unwrap_or_default();
        match (&mut self.source).take(unread).read(room) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.filled.end += count;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether all that follows is what a power cut left of one checked batch.
    fn is_torn_batch(&mut self) -> io::Result<bool> {
        let remaining = self.remaining();
        if remaining > (HEADER + MAX_CHECKED) as u64 + *PREPARED.end() as u64 {
            return Ok(false);
        }
        self.fill(remaining as usize)?;
        Ok(checked::is_torn(self.bytes(), self.offset))
    }

    /// Whether nothing but zeros follows from `at` bytes into the window to the end of the log.
    fn is_zero_from(&mut self, at: usize) -> io::Result<bool> {
        self.advance(at);
        while self.bytes().iter().all(|&byte| byte == 0) {
            self.advance(self.filled.len());
            if self.remaining() == 0 {
                return Ok(true);
            }
            self.fill(1)?;
        }
        Ok(false)
    }
}
