//! Encoding of a batch into frames and writing them to the append-only file (AOF).

use super::{
    super::Batch,
    file::Storage,
    frame::{self, FrameChain, HEADER, PADDING, PIECE},
    record::{self, Form, OVERHEAD},
    segment_record::{self, Placed},
};
use std::{io, ops::RangeInclusive};

/// Minimum and maximum number of bytes of padding that are written at a time behind a synced batch.
pub(super) const PREPARED: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// Number of bytes of records from which a frame takes no further record, but is written. A frame with fewer bytes
/// takes one more record, which, unless it is long, does not make the frame longer than one chunk ([`PIECE`]). A large
/// batch in one frame would not be in a CPU cache when it is copied, and would use memory that is new to the process.
const FULL_FRAME: usize = PIECE - (64 << 10);

/// Size of a memory page in bytes: a kill can cut a running write off at a multiple of it in the file, because the
/// kernel copies whole pages.
const PAGE: u64 = 4096;

/// Writer of the frames of one batch.
pub(super) struct FrameWriter<'a> {
    pub(super) storage: &'a dyn Storage,
    /// Offset in the AOF at which the next frame of the batch is written: at first the start of the batch.
    pub(super) end: u64,
    pub(super) chain: FrameChain,
    /// Offset up to which the file is known to be durable, which each frame records.
    pub(super) synced: u64,
    /// `true` if the batch overwrites padding instead of extending the file.
    pub(super) over_padding: bool,
}

impl FrameWriter<'_> {
    /// Encodes the batch into frames and writes them to the AOF, without a sync. In [`Form::Raw`], puts the offset in
    /// the file and the checksum of each value into `places`; otherwise empties `places`.
    pub(super) fn write(
        &mut self,
        batch: &Batch<'_>,
        buffer: &mut Vec<u8>,
        places: &mut Vec<Placed>,
    ) -> io::Result<()> {
        frame::begin(buffer);
        places.clear();
        let group = batch.len() > 1 || self.may_tear(batch);
        match self.chain.form() {
            Form::Redis => {
                record::encode(batch, group, buffer, |buffer, head| self.make_room(buffer, head))?;
            }
            Form::Raw => segment_record::encode(
                batch,
                group,
                (&mut *buffer, &mut (&mut *self, places)),
                |(this, _), buffer, head| this.make_room(buffer, head),
                |(this, places), at, sum| places.push(Placed { offset: this.end + at as u64, sum }),
            )?,
        }
        self.write_frame(buffer)
    }

    /// Returns `true` if the frame of a single record may cross a page boundary in padding: a kill could leave the
    /// first part of the frame in front of padding, which Redis would read as the rest of the record's value. So the
    /// record is then written as a group (`MULTI`), which Redis ignores without its end.
    fn may_tear(&self, batch: &Batch<'_>) -> bool {
        let length = HEADER + OVERHEAD + batch.bytes();
        self.over_padding && self.end % PAGE + length as u64 > PAGE
    }

    /// Prepares the buffer for the next record: writes the frame if it is long enough. If a kill could leave
    /// half of the record's first `head` bytes in front of padding, which Redis would reject as a broken file,
    /// a line of padding is inserted first.
    fn make_room(&mut self, buffer: &mut Vec<u8>, head: usize) -> io::Result<()> {
        if buffer.len() >= HEADER + FULL_FRAME {
            self.write_frame(buffer)?;
            frame::begin(buffer);
        }
        if self.over_padding {
            let room = PAGE - (self.end + buffer.len() as u64) % PAGE;
            if room < head as u64 && head as u64 <= PAGE {
                // The shortest padding line has two bytes.
                let length = buffer.len() + (room as usize).max(2) - 1;
                buffer.resize(length, PADDING);
                buffer.push(b'\n');
            }
        }
        Ok(())
    }

    fn write_frame(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        if buffer.len() > HEADER {
            self.chain.seal(buffer, self.end, self.synced)?;
            self.storage.write_all_at(buffer, self.end)?;
            self.end += buffer.len() as u64;
        }
        Ok(())
    }
}

/// Writes padding to the file from the offset `end` on, as space for several more batches of `length` bytes. Returns
/// the offset at which the padding ends: `end` itself, or an offset before the wanted one, if the disk takes no more.
pub(super) fn prepare(storage: &dyn Storage, end: u64, length: usize) -> u64 {
    const BATCHES: usize = 16;
    static FILL: [u8; *PREPARED.start()] = [PADDING; *PREPARED.start()];
    let wanted = end + (length * BATCHES).clamp(*PREPARED.start(), *PREPARED.end()) as u64;
    let mut prepared = end;
    // There may be space for the batches even if there is none for padding; a serious error shows at the next
    // sync.
    while prepared < wanted {
        if storage.write_all_at(&FILL, prepared).is_err() {
            let _best_effort = storage.set_len(prepared);
            break;
        }
        prepared += FILL.len() as u64;
    }
    prepared
}
