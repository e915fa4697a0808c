//! A batch on its way into the file.

use super::{
    super::Batch,
    file::Storage,
    frame::{self, FrameChain, HEADER, PADDING, PIECE},
    record::{self, Form, OVERHEAD},
    verbatim::{self, Placed},
};
use std::{io, ops::RangeInclusive};

/// Bytes of filler that are written at a time behind a synced batch.
pub(super) const PREPARED: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// A frame is written when it has so many bytes: most of the next record then still fits into the piece. A
/// large batch in one frame would be in no cache when it is copied, and in memory that is new to the process.
const ENOUGH: usize = PIECE - (64 << 10);

/// A kill ends a write that runs at such a place, or a multiple of it: the kernel copies whole pages.
const PAGE: u64 = 4096;

/// Where a batch begins, and from then on where its next frame does.
pub(super) struct FrameWriter<'a> {
    pub(super) storage: &'a dyn Storage,
    /// Up to where it is written.
    pub(super) end: u64,
    pub(super) chain: FrameChain,
    /// Up to where the log is on stable storage.
    pub(super) synced: u64,
    /// Whether the batch goes over filler, and not to the file's end.
    pub(super) over_filler: bool,
}

impl FrameWriter<'_> {
    /// Encodes the batch into frames and writes them. In [`Form::Raw`], puts the places of all values into
    /// `places`.
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
            Form::Raw => verbatim::encode(
                batch,
                group,
                (&mut *buffer, &mut (&mut *self, places)),
                |(this, _), buffer, head| this.make_room(buffer, head),
                |(this, places), at, sum| places.push(Placed { offset: this.end + at as u64, sum }),
            )?,
        }
        self.write_frame(buffer)
    }

    /// Whether a kill could leave half of a single record with filler behind it, which Redis would take for the
    /// rest of its value. In a group that has no end it does not count.
    fn may_tear(&self, batch: &Batch<'_>) -> bool {
        let length = HEADER + OVERHEAD + batch.bytes();
        self.over_filler && self.end % PAGE + length as u64 > PAGE
    }

    /// Sees to it that the next record may follow: writes a frame that is long enough. And where a kill could
    /// leave half of the record's head with filler behind it, which is no annotation to Redis then but a broken
    /// file, a line of filler comes first.
    fn make_room(&mut self, buffer: &mut Vec<u8>, head: usize) -> io::Result<()> {
        if buffer.len() >= HEADER + ENOUGH {
            self.write_frame(buffer)?;
            frame::begin(buffer);
        }
        if self.over_filler {
            let room = PAGE - (self.end + buffer.len() as u64) % PAGE;
            if room < head as u64 && head as u64 <= PAGE {
                // The shortest line has two bytes.
                let length = buffer.len() + (room as usize).max(2) - 1;
                buffer.resize(length, PADDING);
                buffer.push(b'\n');
            }
        }
        Ok(())
    }

    fn write_frame(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        if buffer.len() > HEADER {
            self.chain.seal(buffer, self.end, self.synced);
            self.storage.write_all_at(buffer, self.end)?;
            self.end += buffer.len() as u64;
        }
        Ok(())
    }
}

/// Writes filler at `end` for some more batches of `length` bytes, and returns where it ends.
pub(super) fn prepare(storage: &dyn Storage, end: u64, length: usize) -> u64 {
    const BATCHES: usize = 16;
    static FILL: [u8; *PREPARED.start()] = [PADDING; *PREPARED.start()];
    let wanted = end + (length * BATCHES).clamp(*PREPARED.start(), *PREPARED.end()) as u64;
    let mut prepared = end;
    // Where there is no room for filler there may be some for the batches; an error that matters shows
    // at the next sync.
    while prepared < wanted {
        if storage.write_all_at(&FILL, prepared).is_err() {
            let _best_effort = storage.set_len(prepared);
            break;
        }
        prepared += FILL.len() as u64;
    }
    prepared
}
