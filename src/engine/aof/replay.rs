//! Replay of an append-only file (AOF).

use super::{
    super::{Batch, Error, Result},
    frame::{self, FrameChain, HEADER, Header, PADDING},
    read_window::Window,
    record::{self, DecodeStop, Form, Meaning, State},
    segment_record,
};
use bumpalo::Bump;
use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
};

/// Number of writes from which a replay of an AOF passes its batch on; the last record of the batch may add more. A
/// table can look up the keys of a batch together.
const GATHER: usize = 64;

/// End of the replay of an AOF, and what the AOF holds up to there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct ReplayEnd {
    /// Offset in the AOF behind the last complete frame, or record without a frame, that is in no unfinished group
    /// (`MULTI` to `EXEC`).
    pub(in super::super) end: u64,
    /// `true` if an incomplete frame or group, or the remains of one after a crash, follows `end`. `false` if
    /// nothing or padding follows; in an AOF without frames also if zeros follow.
    pub(in super::super) torn: bool,
    /// `true` if writes behind `end`, of a group (`MULTI`) without its `EXEC`, were passed on, so that the replay
    /// must be repeated up to `end`.
    pub(super) overran: bool,
    /// Number of records of the AOF before `end`, the offset at which the replay ended: `MULTI` and `EXEC` count,
    /// annotations and `SELECT` do not.
    pub(in super::super) records: u64,
    /// Index of the database that the records before `end` have selected.
    pub(super) database: u8,
    /// State from which a frame at `end` of the AOF continues; `None` in an AOF without frames.
    pub(super) chain: Option<FrameChain>,
    /// Offset up to which the AOF itself records that it was durable.
    pub(super) synced: u64,
    /// `true` if the AOF holds records that it does not record as durable.
    pub(super) lacks_sync_marker: bool,
    /// Number of corrupt values in the AOF before `end`, the offset at which the replay ended.
    pub(in super::super) corrupt: u64,
}

/// Offset and description of a corruption in an AOF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) offset: u64,
    pub(super) detail: String,
    /// Offset up to which other frames record that the AOF was durable, if the corruption is known only from that;
    /// otherwise 0.
    pub(super) synced: u64,
}

/// Bytes of the AOF from which the writes of a batch were read, with their offset in the file.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Part<'b> {
    bytes: &'b [u8],
    offset: u64,
}

impl Part<'_> {
    /// Returns the offset in the file of a value of the batch that was passed on with this part. Only for an
    /// AOF in [`Form::Raw`]: in the other form a value may have been built outside `bytes`.
    pub(in super::super) fn place(self, value: &[u8]) -> u64 {
        self.offset + self.index(value) as u64
    }

    /// Returns the CRC-32 that a value of the batch was written with; `None` if an earlier version wrote it.
    pub(in super::super) fn sum(self, value: &[u8]) -> Option<u32> {
        segment_record::sum_behind(self.bytes.get(self.index(value) + value.len()..)?)
    }

    fn index(self, value: &[u8]) -> usize {
        value.as_ptr().addr() - self.bytes.as_ptr().addr()
    }
}

/// Passes the writes of the first `len` bytes of the AOF in `source` to `sink`. Returns where they end; corruption
/// is an error.
pub(super) fn replay(
    source: impl Read,
    len: u64,
    (engine, path): (&'static str, &Path),
    sink: &mut impl FnMut(&Batch<'_>),
) -> Result<ReplayEnd> {
    let (tail, damage) = survey(source, len, (engine, path), sink)?;
    damage.map_or(Ok(tail), |damage| Err(damage.error(path)))
}

impl Damage {
    /// Converts the corruption to an error of the log at `path`.
    pub(super) fn error(self, path: &Path) -> Error {
        let is_first_line = File::open(path).is_ok_and(|file| self.first_line(&file).is_some());
        Error::Corrupt { path: path.into(), offset: self.offset, detail: self.detail, is_first_line }
    }

    /// Returns the start line of the AOF in `file`, computed from the header of the first frame, if the corruption is
    /// in the start line. Returns `None` if it is elsewhere, or if that header is invalid.
    pub(super) fn first_line(&self, file: &File) -> Option<[u8; frame::START]> {
        if self.offset >= frame::START as u64 {
            return None;
        }
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, frame::START as u64).ok()?;
        let header = Header::read(&header, frame::START as u64).ok()?;
        Some(FrameChain::new(Form::Redis, header.id).start_line(0))
    }
}

/// Passes the writes of the first `len` bytes of `source` to `sink`, up to the first corruption.
///
/// After a power cut, any parts of the bytes that were not durable may be missing. So everything from the first
/// invalid byte on is an incomplete write, not corruption, unless a frame before or behind it records that the
/// AOF was durable beyond that byte: then acknowledged writes may have been destroyed. In an AOF without frames,
/// which Redis wrote, only an incomplete record at the end, or zeros, are no corruption.
pub(super) fn survey(
    source: impl Read,
    len: u64,
    (engine, path): (&'static str, &Path),
    sink: &mut impl FnMut(&Batch<'_>),
) -> Result<(ReplayEnd, Option<Damage>)> {
    survey_as(Form::Redis, source, (len, 0), (engine, path), &mut |batch, _| sink(batch))
}

/// Passes the writes of an AOF in `form` to `sink` like [`survey`], each batch with the bytes that it was read from. In
/// [`Form::Raw`], corrupt values in frames before the offset `synced` are passed to `sink` as they are, and are not
/// reported as corruption, but counted in [`ReplayEnd::corrupt`]. The AOF must have been durable up to that offset.
pub(super) fn survey_as(
    form: Form,
    source: impl Read,
    (len, synced): (u64, u64),
    (engine, path): (&'static str, &Path),
    sink: &mut impl FnMut(&Batch<'_>, Part<'_>),
) -> Result<(ReplayEnd, Option<Damage>)> {
    let mut window = Window::new(source, 0, len);
    let mut reader = Reader { form, state: State::of(form), verbatim_before: synced, ..Reader::default() };
    let mut spare = Batch::with_capacity(GATHER);
    loop {
        let (mut batch, arena) = (spare.recycle(), Bump::new());
        let (used, halt) = reader.gather(window.bytes(), window.offset, &arena, &mut batch);
        reader.state.keep_last(&batch);
        sink(&batch, Part { bytes: window.bytes(), offset: window.offset });
        spare = batch.recycle();
        window.advance(used);
        match halt {
            ReplayStop::Gathered => {}
            ReplayStop::At(DecodeStop::Incomplete { need }) if need as u64 <= window.remaining() => {
                window.fill(need).map_err(Error::io("read", path))?;
            }
            ReplayStop::At(_) if let Some(format) = reader.newer_format(window.bytes()) => {
                return Err(Error::Newer { path: path.into(), format });
            }
            ReplayStop::At(stop) => {
                return reader.classify_end(stop, &mut window).map_err(Error::io("read", path));
            }
            ReplayStop::Wrong { at, detail } => {
                let damage = Damage { offset: window.offset + at as u64, detail: detail.into(), synced: 0 };
                return Ok((reader.tail, Some(damage)));
            }
            ReplayStop::Unknown { command } => {
                let found = format!("{command} at byte {}", window.offset);
                return Err(Error::Foreign { path: path.into(), engine, found, owner: None });
            }
        }
    }
}

/// Reason why a call of [`Reader::gather`] stopped.
enum ReplayStop {
    /// The batch of writes is full.
    Gathered,
    /// No complete record or frame follows.
    At(DecodeStop),
    /// The bytes that follow match their checksum, but this program would not have written them.
    Wrong { at: usize, detail: &'static str },
    /// The next record is a command that an AOF of these engines cannot contain.
    Unknown { command: String },
}

/// State of the replay of an AOF between two records.
#[derive(Default)]
struct Reader {
    form: Form,
    words: Vec<Range<usize>>,
    state: State,
    group: bool,
    records: u64,
    chain: Option<FrameChain>,
    /// Number of bytes of the current frame's records that are still to be read; `trailer` is the length in bytes of
    /// the lines behind them.
    left: usize,
    trailer: usize,
    synced: u64,
    /// Offset in the AOF before which frames may have corrupt values, which are then passed on as they are.
    verbatim_before: u64,
    /// Offset of the end of the last frame with records that was read; beyond `synced`, records lack a sync marker.
    records_end: u64,
    tail: ReplayEnd,
}

impl Reader {
    /// Adds the writes of the first records of `bytes`, whose offset in the AOF is `offset`, to `batch`.
    /// Returns the length of these records and the reason why it stopped.
    fn gather<'b>(
        &mut self,
        bytes: &'b [u8],
        offset: u64,
        arena: &'b Bump,
        batch: &mut Batch<'b>,
    ) -> (usize, ReplayStop) {
        let mut used = 0;
        while batch.len() < GATHER {
            let rest = bytes.get(used..).unwrap_or_default();
            if self.left == 0 {
                match self.line(rest, offset + used as u64) {
                    Ok(0) => {}
                    Ok(length) => {
                        used += length;
                        if self.left == 0 && !self.group {
                            self.note_end(offset + used as u64);
                        }
                        continue;
                    }
                    Err(stop) => return (used, ReplayStop::At(stop)),
                }
            }
            let body = if self.left > 0 { rest.get(..self.left).unwrap_or_default() } else { rest };
            let length = match record::decode(body, &mut self.words) {
                Ok(length) => length,
                Err(stop) => return (used, self.stopped(stop)),
            };
            let meaning = record::interpret(body, &self.words, &mut self.state, arena, batch);
            // Annotations and `SELECT` are not counted.
            self.records += u64::from(meaning != Meaning::Nothing);
            match meaning {
                Meaning::Writes => self.tail.overran = self.group,
                Meaning::Nothing => {}
                Meaning::Multi if !self.group => self.group = true,
                Meaning::Exec if self.group => self.group = false,
                Meaning::Multi => return (used, self.stopped(misplaced("MULTI inside MULTI"))),
                Meaning::Exec => return (used, self.stopped(misplaced("EXEC without MULTI"))),
                Meaning::Unknown => {
                    return (used, ReplayStop::Unknown { command: describe(body, &self.words, self.form) });
                }
            }
            used += length;
            if self.left > 0 {
                self.left -= length;
                if self.left > 0 {
                    continue;
                }
                used += self.trailer;
                self.records_end = offset + used as u64;
            }
            if !self.group {
                self.note_end(offset + used as u64);
            }
        }
        (used, ReplayStop::Gathered)
    }

    /// Consumes a line that may precede a record: a frame header or, in an AOF without frames, a start line. Returns
    /// its length in bytes, or 0 if there is no such line and none is required.
    #[inline]
    fn line(&mut self, rest: &[u8], offset: u64) -> Result<usize, DecodeStop> {
        if let Some(chain) = &mut self.chain {
            let (frame, corrupt) = match chain.check(rest, offset) {
                Ok(frame) => (frame, 0),
                Err(stop @ DecodeStop::Malformed { .. }) => {
                    let found = chain.check_but_values(rest, offset);
                    found
                        .filter(|(frame, _)| offset + frame.len() as u64 <= self.verbatim_before)
                        .ok_or(stop)?
                }
                Err(stop) => return Err(stop),
            };
            self.tail.corrupt += corrupt;
            self.synced = self.synced.max(frame.synced);
            (self.left, self.trailer) = (frame.body, frame.trailer());
            return Ok(HEADER);
        }
        // Only Redis writes records without frames.
        if self.form == Form::Raw || rest.starts_with(b"#K") {
            let chain = frame::read_start(rest, offset)?;
            if chain.form() != self.form {
                return Err(misplaced("a log of another kind begins here"));
            }
            let end = offset + frame::START as u64;
            (self.chain, self.synced, self.records_end) = (Some(chain), end, end);
            // Frames begin in database 0. Earlier versions did not write `SELECT 0` before the start line.
            self.state.database = 0;
            return Ok(frame::START);
        }
        Ok(0)
    }

    /// Returns the format number of the start line at the start of `bytes` if this version cannot read that
    /// format.
    fn newer_format(&self, bytes: &[u8]) -> Option<u32> {
        frame::newer_format(bytes).filter(|_| self.chain.is_none())
    }

    /// Returns the reason to stop after the failed decode of a record. Inside a frame, whose checksum was correct, that
    /// is a record which this program would not have written.
    fn stopped(&self, stop: DecodeStop) -> ReplayStop {
        match stop {
            _ if self.left == 0 => ReplayStop::At(stop),
            DecodeStop::Malformed { at, detail } => ReplayStop::Wrong { at, detail },
            DecodeStop::Incomplete { .. } => {
                ReplayStop::Wrong { at: 0, detail: "a record that does not end within its frame" }
            }
        }
    }

    #[inline]
    fn note_end(&mut self, end: u64) {
        let Self { state, records, chain, synced, records_end, tail, .. } = self;
        (tail.end, tail.records, tail.chain, tail.synced) = (end, *records, *chain, *synced);
        (tail.lacks_sync_marker, tail.overran) = (*records_end > *synced, false);
        tail.database = state.database;
    }

    /// Classifies an invalid record or frame at the start of `window`: as an incomplete write at the end, or as
    /// corruption.
    fn classify_end(
        self,
        stop: DecodeStop,
        window: &mut Window<impl Read>,
    ) -> io::Result<(ReplayEnd, Option<Damage>)> {
        let (at, detail) = match stop {
            DecodeStop::Incomplete { .. } => (0, "the log ends within the record that begins here"),
            DecodeStop::Malformed { at, detail } => (at, detail),
        };
        let mut damage = Damage { offset: window.offset + at as u64, detail: detail.into(), synced: 0 };
        if window.remaining() == 0 {
            return Ok((ReplayEnd { torn: self.group, ..self.tail }, None));
        }
        let Some(chain) = self.chain else { return self.classify_end_without_frames(stop, damage, window) };
        if frame::read_start(window.bytes(), 0).is_ok_and(|other| other.id() != chain.id()) {
            damage.detail = "another log begins here".into();
            return Ok((self.tail, Some(damage)));
        }
        // No process writes zeros behind the end: they stand for bytes that never reached the disk, or were
        // lost.
        let filler = window.is_blank_from(0, |byte| byte == PADDING)?;
        let blank = filler || window.is_blank_from(0, |byte| byte == PADDING || byte == 0)?;
        let synced = if blank { 0 } else { latest_mark(window, Some(chain.id()))? }.max(self.synced);
        if synced > self.tail.end {
            damage.detail = format!("{detail}; it was on stable storage up to byte {synced}");
            damage.synced = synced;
            return Ok((self.tail, Some(damage)));
        }
        Ok((ReplayEnd { torn: self.group || !filler, ..self.tail }, None))
    }

    /// Classifies an invalid record in an AOF of Redis, which has no frames.
    fn classify_end_without_frames(
        self,
        stop: DecodeStop,
        damage: Damage,
        window: &mut Window<impl Read>,
    ) -> io::Result<(ReplayEnd, Option<Damage>)> {
        let (cut, at) = match stop {
            DecodeStop::Incomplete { .. } => (true, 0),
            DecodeStop::Malformed { at, .. } => (false, at),
        };
        let blank = window.is_blank_from(at, |byte| byte == 0)?;
        // Frames are written only once everything before them is durable.
        let frames_follow = !blank && latest_mark(window, None)? > self.tail.end;
        if frames_follow || !cut && !blank {
            return Ok((self.tail, Some(damage)));
        }
        Ok((ReplayEnd { torn: cut || self.group || at > 0, ..self.tail }, None))
    }
}

/// Returns the error for a record that is valid, but not allowed at its position in the AOF.
fn misplaced(detail: &'static str) -> DecodeStop {
    DecodeStop::Malformed { at: 0, detail }
}

/// Returns the highest offset up to which any later header records that the AOF was durable; with `id`, only headers
/// with this id count. Without `id`, a start line counts too, for itself. A line counts only at the offset that it was
/// written for.
fn latest_mark(window: &mut Window<impl Read>, id: Option<u32>) -> io::Result<u64> {
    let mut synced = 0;
    let mut at = 0;
    while window.find(at, b'#')? {
        at = 1;
        let length = window.remaining().min(HEADER as u64) as usize;
        if window.bytes().len() < length {
            window.fill(length)?;
        }
        let (bytes, offset) = (window.bytes(), window.offset);
        if bytes.starts_with(frame::TAG) {
            let header = Header::read(bytes, offset).ok();
            let ours = header.filter(|header| id.is_none_or(|id| header.id == id));
            synced = synced.max(ours.map_or(0, |header| header.synced));
        } else if id.is_none()
            && bytes.starts_with(frame::START_TAG)
            && frame::read_start(bytes, offset).is_ok()
        {
            synced = synced.max(offset + frame::START as u64);
        }
    }
    Ok(synced)
}

/// Returns the text for a command that an AOF must not contain, such as `the command HSET with 3 arguments`.
fn describe(bytes: &[u8], words: &[Range<usize>], form: Form) -> String {
    let word = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
    let shown = |word: &[u8]| word.get(..32).unwrap_or(word).escape_ascii().to_string();
    let name = words.first().map(word).unwrap_or_default();
    if let (Form::Redis, [_, database]) = (form, words)
        && name.eq_ignore_ascii_case(b"SELECT")
    {
        let database = shown(word(database));
        return format!("the command SELECT {database} (kvbench has databases 0 to 15)");
    }
    let shown = shown(name);
    format!("the command {shown} with {} arguments", words.len().saturating_sub(1))
}
