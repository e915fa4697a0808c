//! Frames of the append-only file (AOF): groups of its records, protected by checksums. docs/durability-log.md
//! has the complete format and its rationale.
//!
//! An AOF is a section: a start line, then frames. If Redis wrote the first part of the AOF, records without frames
//! precede the section. A frame is a header line and a body of complete records. Redis takes these lines for
//! annotations and skips them.
//!
//! ```text
//! #KVBENCH:2:<id>:<check>                               start line; 3 for 2 in a segment of `bitcask`
//! #F:<id>:<behind>:<length>:<sum>:<check>               header; then <length> bytes of records
//! #P:<sum>                                              after a body of several chunks: one for each but its last
//! ```
//!
//! Numbers are eight hexadecimal digits; lines end with CR LF. A section has one running checksum: the CRC-32
//! (IEEE) of all its bodies, with the section's random id as the initial value. `<sum>` is the checksum after
//! the frame's body, so a frame is valid only behind exactly the frames that it was written behind. `<check>`
//! is a CRC-32 of the line's numbers and its offset in the file. `<behind>` is the number of bytes before the
//! header that were not known to be durable when the header was written.

use super::{
    record::{DecodeStop, Form},
    segment_record::AsWritten,
};
use crc32fast::Hasher;
use std::{
    hash::{BuildHasher, RandomState},
    io,
};

/// Length of a frame's header line, in bytes.
pub(super) const HEADER: usize = 49;

/// Length of a start line, the first line of an AOF or of a section of it, in bytes.
pub(super) const START: usize = 30;

/// Size of a chunk in bytes: the body of a frame has one checksum for each chunk.
pub(super) const PIECE: usize = 1 << 20;

/// Byte that fills preallocated space behind the last frame. Redis reads any number of them as an annotation.
pub(super) const PADDING: u8 = b'#';

/// Prefix of a start line of any format version.
pub(super) const START_TAG: &[u8] = b"#KVBENCH:";

/// Name of the format of an AOF that this version writes, for messages. The number is the one in the start line.
pub(in super::super) const FORMAT: &str = "kvbench's append-only file, format 2";

/// Highest format number in a start line that this version can read.
const LATEST: u32 = 3;

/// Returns the format number of an AOF whose records have the form `form`, as the digit that follows [`START_TAG`] in
/// its start line.
fn number(form: Form) -> u8 {
    match form {
        Form::Redis => b'2',
        Form::Raw => b'3',
    }
}

/// Returns the bytes that the checksum of a start line covers in addition to the line's numbers and its offset. They
/// differ between the forms, so that a flipped bit of the format number cannot turn one form into the other.
fn start_of_check(form: Form) -> [u8; 8] {
    match form {
        Form::Redis => *b"KVBSTART",
        Form::Raw => *b"KVBVERBA",
    }
}

/// Prefix of a frame's header line.
pub(super) const TAG: &[u8; 3] = b"#F:";

/// Value of `<behind>` if the distance is this large or larger.
const FAR_BEHIND: u32 = u32::MAX;

const PIECE_LINE: usize = 13;

/// State of an AOF section behind a frame, from which the next frame's header and checksum are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameChain {
    /// Random id of the section (start line and frames), part of each of its headers.
    id: u32,
    /// Running checksum of all bodies of the section so far.
    sum: u32,
    form: Form,
}

/// Returns the length of a frame's records as its header has it.
///
/// # Errors
///
/// Fails if it has more than 32 bits.
fn length_in_header(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| {
        io::Error::other(format!(
            "{length} bytes of records do not fit into one frame of the append-only file"
        ))
    })
}

impl FrameChain {
    /// Returns the state at the start of a section with the random id `id`, in which records have the form `form`.
    pub(super) fn new(form: Form, id: u32) -> Self {
        Self { id, sum: id, form }
    }

    /// Returns the state at the start of a new section with a random id.
    pub(super) fn random(form: Form) -> Self {
        Self::new(form, RandomState::new().hash_one(()) as u32)
    }

    pub(super) fn id(self) -> u32 {
        self.id
    }

    pub(super) fn form(self) -> Form {
        self.form
    }

    fn extend(&mut self, piece: &[u8]) {
        let mut hasher = Hasher::new_with_initial(self.sum);
        hasher.update(piece);
        self.sum = hasher.finalize();
    }

    /// Returns the section's start line for this offset in the file.
    pub(super) fn start_line(self, offset: u64) -> [u8; START] {
        let mut line = *b"#KVBENCH:n:iiiiiiii:cccccccc\r\n";
        let (tag, fields) = line.split_at_mut(START_TAG.len() + 2);
        tag.iter_mut().filter(|byte| **byte == b'n').for_each(|byte| *byte = number(self.form));
        put_numbers(fields, [self.id, check(start_of_check(self.form), [self.id, 0, 0, 0], offset)]);
        line
    }

    /// Returns a sync marker for this offset: an empty frame which records that everything before it is
    /// durable.
    pub(super) fn sync_marker(self, offset: u64) -> [u8; HEADER] {
        Header { id: self.id, synced: offset, length: 0, sum: self.sum }.line(offset)
    }

    /// Turns `frame`, which is the header space of [`begin`] and then records, into a complete frame: fills in the
    /// header, and appends the checksums of all chunks but the last. Advances the state past the frame, so the frame
    /// must be written next. `offset` is the frame's offset in the file, `synced` the offset up to which
    /// the file is known to be durable.
    ///
    /// # Errors
    ///
    /// Fails if the header has no space for the length of the records. The state and `frame` are then unchanged.
    pub(super) fn seal(&mut self, frame: &mut Vec<u8>, offset: u64, synced: u64) -> io::Result<()> {
        let Some((room, body)) = frame.split_first_chunk_mut::<HEADER>() else { return Ok(()) };
        let length = length_in_header(body.len())?;
        let mut sums = Vec::new();
        for piece in body.chunks(PIECE) {
            self.extend(piece);
            sums.push(self.sum);
        }
        *room = Header { id: self.id, synced, length, sum: self.sum }.line(offset);
        sums.pop();
        for sum in sums {
            frame.extend_from_slice(&piece_line(sum));
        }
        Ok(())
    }

    /// Checks the frame at the start of `bytes`, whose offset in the file is `offset`, and advances the state
    /// past it.
    #[inline]
    pub(super) fn check(&mut self, bytes: &[u8], offset: u64) -> Result<Frame, DecodeStop> {
        let header = Header::read(bytes, offset)?;
        let frame = header.frame();
        if header.id != self.id {
            return Err(DecodeStop::Malformed { at: 0, detail: "a frame of another log" });
        }
        let Some(rest) = bytes.get(HEADER..frame.len()) else {
            return Err(DecodeStop::Incomplete { need: frame.len() });
        };
        let mut next = *self;
        let checked = if frame.body <= PIECE {
            next.extend(rest);
            Ok(())
        } else {
            next.check_pieces(rest, frame.body)
        };
        checked?;
        if next.sum != header.sum {
            // The last chunk: the lines after the body hold the checksums of the earlier ones.
            let last = frame.body.saturating_sub(1) / PIECE * PIECE;
            return Err(DecodeStop::Malformed { at: HEADER + last, detail: WRONG_SUM });
        }
        *self = next;
        Ok(frame)
    }

    /// Like [`FrameChain::check`], of a frame in [`Form::Raw`] of which only values are corrupt, or the lines behind a
    /// long body, which say no more than the header. Returns also the number of corrupt values, or 1 if only the lines
    /// are corrupt. `None` if anything else is corrupt.
    pub(super) fn check_but_values(&mut self, bytes: &[u8], offset: u64) -> Option<(Frame, u64)> {
        let header = Header::read(bytes, offset).ok().filter(|header| header.id == self.id)?;
        let frame = header.frame();
        let body = bytes.get(HEADER..frame.len())?.get(..frame.body)?;
        let AsWritten { sum, corrupt } = AsWritten::of(self.sum, body).filter(|all| all.sum == header.sum)?;
        self.sum = sum;
        Some((frame, corrupt.max(1)))
    }

    /// Adds all chunks of a body to the running checksum, and compares it after each chunk but the last with the
    /// line behind the body that has the checksum as it was written.
    fn check_pieces(&mut self, rest: &[u8], body: usize) -> Result<(), DecodeStop> {
        let (body, lines) = rest.split_at_checked(body).unwrap_or_default();
        let mut lines = lines.as_chunks::<PIECE_LINE>().0.iter();
        for (number, piece) in body.chunks(PIECE).enumerate() {
            self.extend(piece);
            if lines.next().is_some_and(|line| *line != piece_line(self.sum)) {
                return Err(DecodeStop::Malformed { at: HEADER + number * PIECE, detail: WRONG_SUM });
            }
        }
        Ok(())
    }
}

const WRONG_SUM: &str = "the checksum of the records is wrong";

/// A frame whose checksums were correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Offset up to which the AOF was known to be durable when the frame was written.
    pub(super) synced: u64,
    /// Length of the records that follow the header, in bytes.
    pub(super) body: usize,
}

impl Frame {
    /// Returns the length of the frame with its header and trailer, in bytes.
    pub(super) fn len(self) -> usize {
        HEADER + self.body + self.trailer()
    }

    /// Returns the length of the checksum lines that follow the records, in bytes.
    pub(super) fn trailer(self) -> usize {
        self.body.saturating_sub(1) / PIECE * PIECE_LINE
    }
}

/// Content of a frame's header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: u32,
    /// Offset up to which the AOF was known to be durable when the header was written.
    pub(super) synced: u64,
    length: u32,
    sum: u32,
}

impl Header {
    fn line(self, offset: u64) -> [u8; HEADER] {
        let behind = u32::try_from(offset - self.synced).unwrap_or(FAR_BEHIND);
        let numbers = [self.id, behind, self.length, self.sum];
        let mut line = *b"#F:iiiiiiii:bbbbbbbb:llllllll:ssssssss:cccccccc\r\n";
        let [id, behind, length, sum] = numbers;
        let fields = line.split_at_mut(TAG.len()).1;
        put_numbers(fields, [id, behind, length, sum, check(*b"KVBFRAME", numbers, offset)]);
        line
    }

    /// Returns the frame that this header describes.
    pub(super) fn frame(self) -> Frame {
        Frame { synced: self.synced, body: self.length as usize }
    }

    /// Reads the header at the start of `bytes`, whose offset in the file is `offset`. Fails on any line that
    /// [`Header::line`] would not write.
    #[inline]
    pub(super) fn read(bytes: &[u8], offset: u64) -> Result<Self, DecodeStop> {
        let Some(line) = bytes.first_chunk::<HEADER>() else {
            return Err(DecodeStop::Incomplete { need: HEADER });
        };
        let [id, behind, length, sum] = numbers(line.split_at(TAG.len()).1);
        let synced = if behind == FAR_BEHIND { 0 } else { offset.saturating_sub(behind.into()) };
        let header = Self { id, synced, length, sum };
        // Compares with the `<behind>` that was read: [`FAR_BEHIND`] stands for every larger distance.
        if header.line(offset) == *line { Ok(header) } else { Err(NO_HEADER) }
    }
}

const NO_HEADER: DecodeStop = DecodeStop::Malformed { at: 0, detail: "the header of a frame is damaged" };

/// Reads the start line at the start of `bytes`, whose offset in the file is `offset`, and returns the state of the
/// section that it begins.
pub(super) fn read_start(bytes: &[u8], offset: u64) -> Result<FrameChain, DecodeStop> {
    let line = bytes.get(..START.min(bytes.len())).unwrap_or_default();
    if let Some(line) = line.first_chunk::<START>() {
        let [id] = numbers(line.split_at(START_TAG.len() + 2).1);
        let chains = [Form::Redis, Form::Raw].map(|form| FrameChain::new(form, id));
        if let Some(chain) = chains.into_iter().find(|chain| chain.start_line(offset) == *line) {
            return Ok(chain);
        }
    } else if START_TAG.starts_with(line) || line.starts_with(START_TAG) && !line.contains(&0) {
        return Err(DecodeStop::Incomplete { need: START });
    }
    Err(match line.strip_prefix(START_TAG) {
        Some([version, ..]) if ![b'2', b'3', 0].contains(version) => {
            DecodeStop::Malformed { at: START_TAG.len(), detail: "a format that this version does not know" }
        }
        // An interrupted first start leaves zeros in place of the end of the line.
        _ => {
            let at = line.iter().position(|&byte| byte == 0).unwrap_or_default();
            DecodeStop::Malformed { at, detail: DAMAGED_START }
        }
    })
}

/// Returns the format number of the start line at the start of `bytes` if this version cannot read that format.
pub(in super::super) fn newer_format(bytes: &[u8]) -> Option<u32> {
    let number = bytes.strip_prefix(START_TAG)?.split(|&byte| byte == b':').next()?;
    let number =
        str::from_utf8(number).ok().filter(|number| number.bytes().all(|digit| digit.is_ascii_digit()))?;
    number.parse().ok().filter(|number| *number > LATEST)
}

const DAMAGED_START: &str = "the first line of a log is damaged";

/// Clears `frame`, and reserves space at its start for the header line.
pub(super) fn begin(frame: &mut Vec<u8>) {
    frame.clear();
    frame.resize(HEADER, PADDING);
}

fn piece_line(sum: u32) -> [u8; PIECE_LINE] {
    let mut line = *b"#P:ssssssss\r\n";
    put_numbers(line.split_at_mut(TAG.len()).1, [sum]);
    line
}

/// Returns the checksum (CRC-32) in a start line or header line, of `numbers`, of the line's offset in the file and
/// of the kind of line, `what`.
fn check(what: [u8; 8], numbers: [u32; 4], offset: u64) -> u32 {
    let [a, b, c, d] = numbers;
    let mut hasher = Hasher::new();
    let words = [u64::from(a) << 32 | u64::from(b), u64::from(c) << 32 | u64::from(d), offset];
    let mut bytes = [0; 32];
    for (to, from) in
        bytes.as_chunks_mut().0.iter_mut().zip(words.map(u64::to_be_bytes).into_iter().chain([what]))
    {
        *to = from;
    }
    hasher.update(&bytes);
    hasher.finalize()
}

/// Writes `numbers` as fields of eight hexadecimal digits; the ninth byte of each field, a separator, is left
/// unchanged.
#[inline]
fn put_numbers<const N: usize>(fields: &mut [u8], numbers: [u32; N]) {
    for (field, number) in fields.as_chunks_mut::<9>().0.iter_mut().zip(numbers) {
        if let Some(digits) = field.first_chunk_mut() {
            *digits = to_hexadecimal(number);
        }
    }
}

/// Reads fields of eight hexadecimal digits and a separator. Bytes that are no digits give an arbitrary number.
#[inline]
fn numbers<const N: usize>(fields: &[u8]) -> [u32; N] {
    let mut numbers = [0; N];
    for (number, field) in numbers.iter_mut().zip(fields.as_chunks::<9>().0) {
        *number = field.first_chunk().map_or(0, |digits| from_hexadecimal(*digits));
    }
    numbers
}

/// Converts all eight digits at once, one per byte of a `u64`: these numbers are most of the decoding of an AOF
/// of small batches.
#[inline]
fn to_hexadecimal(number: u32) -> [u8; 8] {
    let mut x = u64::from(number);
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = ((x + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (x + 0x3030_3030_3030_3030 + letters * (b'a' - b'0' - 10) as u64).to_be_bytes()
}

#[inline]
fn from_hexadecimal(digits: [u8; 8]) -> u32 {
    let x = u64::from_be_bytes(digits);
    let letters = (x >> 6) & 0x0101_0101_0101_0101;
    let mut x = (x & 0x0f0f_0f0f_0f0f_0f0f).wrapping_add(letters * 9) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | x >> 4) & 0x00ff_00ff_00ff_00ff;
    x = (x | x >> 8) & 0x0000_ffff_0000_ffff;
    (x | x >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_match_the_standard_library() {
        for shift in 0..32 {
            for number in
                [0x0123_4567, 0x89ab_cdef, 0xffff_ffff, 0, 0x9a9a_a9a9_u32].map(|n: u32| n.rotate_left(shift))
            {
                assert_eq!(to_hexadecimal(number), *format!("{number:08x}").as_bytes());
                assert_eq!(from_hexadecimal(to_hexadecimal(number)), number);
            }
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn records_that_are_too_long_for_one_frame_are_refused() {
        assert_eq!(length_in_header((1 << 32) - 1).unwrap(), u32::MAX);
        let error = length_in_header(1 << 32).unwrap_err().to_string();
        assert!(error.contains("4294967296 bytes of records do not fit into one frame"), "{error}");
    }

    #[test]
    fn header_is_valid_at_its_own_offset_only() {
        for (offset, synced, told) in [
            (0, 0, 0),
            (30, 30, 30),
            (5000, 30, 30),
            (1 << 40, (1 << 40) - 7, (1 << 40) - 7),
            // The line cannot hold a larger distance: the durable offset is then read as 0.
            (1 << 40, 30, 0),
            (u64::from(FAR_BEHIND), 0, 0),
        ] {
            let header = Header { id: 0xfeed, synced, length: 77, sum: 0xabcd_ef01 };
            let line = header.line(offset);
            assert_eq!(Header::read(&line, offset), Ok(Header { synced: told, ..header }));
            assert!(Header::read(&line, offset + 1).is_err());
            for (at, bit) in (0..HEADER).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut damaged = line;
                damaged[at] ^= 1 << bit;
                assert!(Header::read(&damaged, offset).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
