//! The open append-only file (AOF): appends, syncs, and refusal of writes after a failure.

use super::{
    super::{Batch, Error, Result, error::is_out_of_space, files, refusal::Refusal},
    append::{FrameWriter, prepare},
    file::{self, Storage},
    frame::{self, FrameChain, HEADER, PIECE},
    record::{Form, SELECT_0},
    segment_record::Placed,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Maximum capacity of an AOF's write buffer that is kept between batches, in bytes.
const KEPT_BUFFER: usize = 2 * PIECE;

/// Maximum capacity of an AOF's list of value offsets that is kept between batches, in entries.
const KEPT_PLACES: usize = 64 << 10;

/// Open append-only file (AOF), which takes writes.
pub(in super::super) struct Aof {
    pub(super) engine: &'static str,
    pub(super) path: PathBuf,
    /// Held for the whole of a write, from the file to the engine's table in memory: while it is not held, the file
    /// and the table have the same content.
    pub(super) writer: Mutex<Writer>,
    /// The current file. Locked only to read or replace this field, so that syncs and writes can run at the
    /// same time.
    pub(super) current: Mutex<Current>,
    /// Held during a sync of the file, so that syncs run one after the other.
    pub(super) syncing: Mutex<()>,
    /// Length of the complete batches in the file, in bytes. Changes only under `writer`; together with the
    /// file under both locks.
    pub(super) len: AtomicU64,
    /// Length of the AOF in bytes after the open or the last rewrite, also one that failed: an automatic rewrite starts
    /// when the AOF has twice this length, and at least 64 MiB.
    pub(super) base: AtomicU64,
    /// Refusal of writes after a failure, and after a close.
    pub(super) refusal: Refusal,
    /// `true` if a running rewrite of the AOF must stop.
    pub(super) cancelled: AtomicBool,
}

pub(super) struct Writer {
    /// Bytes of the frame that is being written.
    pub(super) buffer: Vec<u8>,
    /// Offsets and checksums of the values of the batch that is being written; used only in [`Form::Raw`].
    pub(super) places: Vec<Placed>,
    /// Id and running checksum that the next frame continues; `None` in a log without frames.
    pub(super) chain: Option<FrameChain>,
    /// Index of the database that the records of a log without frames have selected at its end.
    pub(super) database: u8,
    /// Length of the file in bytes, with a sync marker or padding that may follow the last batch.
    pub(super) prepared: u64,
    /// `true` if no frame among the complete batches of the AOF records that the last of them is durable. The sync
    /// marker that [`Writer::mark`] writes behind the batches does not change this, because the next batch overwrites
    /// the marker.
    pub(super) lacks_sync_marker: bool,
    /// Offset of the last sync marker behind the end of the AOF; 0 if there was none yet, or if it was cut off.
    pub(super) mark: u64,
}

impl Writer {
    /// Writes a sync marker behind the end of the AOF, which records that everything before it is durable; does nothing
    /// if a frame records that already. The next frame overwrites the marker and records the same. The marker only
    /// helps against bit rot, so it is not synced by itself, and a failed write of it is ignored.
    pub(super) fn mark(&mut self, storage: &dyn Storage, end: u64) {
        let Some(chain) = self.chain.filter(|_| self.lacks_sync_marker && self.mark != end) else { return };
        if storage.write_all_at(&chain.sync_marker(end), end).is_ok() {
            self.mark = end;
            self.prepared = self.prepared.max(end + HEADER as u64);
        } else {
            let _best_effort = storage.set_len(self.prepared);
        }
    }
}

#[derive(Clone)]
pub(super) struct Current {
    pub(super) storage: Arc<dyn Storage>,
    /// Offset up to which the file of the AOF is known to be durable.
    pub(super) synced: u64,
}

impl Aof {
    /// Appends the batch, syncs it if `sync`, then calls `apply`. If it returns an error, `apply` was not
    /// called and the batch is not in the file (after a failed sync: as far as that can be known).
    ///
    /// A sync of a batch that made the file longer also commits the file system's journal, which takes twice
    /// the time and work of a sync of existing blocks (measured on ext4: 280 against 150 us). So padding is
    /// written behind a synced batch now and then, and later batches overwrite it.
    pub(in super::super) fn append<R>(
        &self,
        batch: &Batch<'_>,
        sync: bool,
        apply: impl FnOnce() -> R,
    ) -> Result<R> {
        self.append_placed(batch, sync, |_| apply())
    }

    /// Appends and syncs like [`Aof::append`]; in [`Form::Raw`], `apply` also gets the offset in the file and the
    /// checksum of each value of the batch, in the order of its puts.
    pub(in super::super) fn append_placed<R>(
        &self,
        batch: &Batch<'_>,
        sync: bool,
        apply: impl FnOnce(&[Placed]) -> R,
    ) -> Result<R> {
        let mut writer = self.lock_writer()?;
        let storage = self.current().storage;
        let chain = match writer.chain {
            Some(chain) => chain,
            None => self.start_section(&mut writer, &*storage)?,
        };
        let begin = self.len();
        let Writer { buffer, places, prepared, .. } = &mut *writer;
        let over_padding = *prepared > begin + HEADER as u64;
        let synced = self.current().synced;
        let mut appending = FrameWriter { storage: &*storage, end: begin, chain, synced, over_padding };
        let written = appending.write(batch, buffer, places);
        buffer.shrink_to(KEPT_BUFFER);
        let FrameWriter { end, chain, .. } = appending;
        if let Err(error) = written {
            *prepared = begin;
            let error = self.undo(&*storage, begin, error);
            writer.mark = 0;
            if error.is_rolled_back() && synced == begin {
                writer.mark(&*storage, begin);
            }
            return Err(error);
        }
        if sync && end + HEADER as u64 > *prepared {
            *prepared = prepare(&*storage, end, (end - begin) as usize);
        }
        *prepared = end.max(*prepared);
        if sync && let Err(error) = self.sync_storage(&*storage) {
            // The client receives an error: the write should not reappear after a restart.
            let _best_effort = storage.set_len(begin);
            return Err(error);
        }
        writer.chain = Some(chain);
        writer.lacks_sync_marker |= end > begin;
        self.len.store(end, Ordering::Release);
        if sync {
            self.lock_current().synced = end;
            writer.mark(&*storage, end);
        }
        let applied = apply(&writer.places);
        writer.places.shrink_to(KEPT_PLACES);
        Ok(applied)
    }

    /// Appends a start line, behind which frames follow, to an AOF that has no frames because Redis wrote it. If its
    /// records have selected another database than 0, `SELECT 0` precedes the line, because frames begin in database 0.
    fn start_section(&self, writer: &mut Writer, storage: &dyn Storage) -> Result<FrameChain> {
        let (begin, chain) = (self.len(), FrameChain::random(Form::Redis));
        let select = if writer.database == 0 { &[][..] } else { SELECT_0 };
        let at = begin + select.len() as u64;
        let line = chain.start_line(at);
        for (bytes, offset) in [(select, begin), (&line[..], at)] {
            if bytes.is_empty() {
                continue;
            }
            if let Err(error) = storage.write_all_at(bytes, offset) {
                writer.prepared = begin;
                return Err(self.undo(storage, begin, error));
            }
            // What follows is invalid without these bytes, so they must be durable first.
            self.sync_storage(storage)?;
        }
        let end = at + frame::START as u64;
        writer.chain = Some(chain);
        writer.prepared = end;
        self.len.store(end, Ordering::Release);
        self.lock_current().synced = end;
        Ok(chain)
    }

    /// Cuts off what a failed write may have left in the AOF, and returns `error` as the engine's error. If the cut
    /// succeeds and the cause was lack of space, the file is intact; otherwise further writes are refused.
    fn undo(&self, storage: &dyn Storage, len: u64, error: io::Error) -> Error {
        match storage.set_len(len) {
            Ok(()) if is_out_of_space(&error) => {
                Error::Full { engine: self.engine, detail: format!("{}: {error}", self.path.display()) }
            }
            _ => self.refuse("write", error),
        }
    }

    /// Makes every batch that was appended before the call durable. Can run at the same time as `append`. A
    /// rewrite may replace the file meanwhile: the new file then contains the batches of the old one, and was
    /// synced before it got the AOF's name.
    pub(in super::super) fn sync(&self) -> Result<()> {
        let (Current { storage, .. }, len) = {
            let current = self.lock_current();
            (current.clone(), self.len())
        };
        self.sync_storage(&*storage)?;
        {
            let mut current = self.lock_current();
            if !Arc::ptr_eq(&current.storage, &storage) {
                return Ok(());
            }
            current.synced = len.max(current.synced);
        }
        // If a write is running, another write or sync will follow it.
        if let Ok(mut writer) = self.writer.try_lock()
            && self.len() == len
            && Arc::ptr_eq(&self.current().storage, &storage)
            && self.check_usable().is_ok()
        {
            writer.mark(&*storage, len);
        }
        Ok(())
    }

    fn sync_storage(&self, storage: &dyn Storage) -> Result<()> {
        // The kernel reports a page that it could not write only once. Of two concurrent syncs, one would get
        // the error and the other would succeed although the page was its own.
        let _alone = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_usable()?;
        storage.sync_data().map_err(|error| self.refuse("sync", error))
    }

    /// Syncs the AOF, unlocks the file for other processes and refuses all later writes. Must not run during a
    /// rewrite.
    pub(in super::super) fn close(&self) -> Result<()> {
        let finished = match self.seal() {
            // The AOF is complete without the marker.
            Err(Error::Full { .. }) => Ok(()),
            finished => finished,
        };
        let unlocked = self.current().storage.unlock().map_err(Error::io("unlock", &self.path));
        self.refusal.set(|| "it is closed".into());
        finished.and(unlocked)
    }

    /// Removes what follows the last batch of the AOF, syncs the file, and appends a durable sync marker that covers all
    /// of it if the AOF needs one. Returns [`Error::Full`] without space for the marker: the AOF then ends with the last
    /// batch, and writes can continue. After any other error of the marker's write, further writes are refused.
    pub(in super::super) fn seal(&self) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let (storage, len) = (self.current().storage, self.len());
        if writer.prepared > len {
            storage.set_len(len).map_err(Error::io("truncate", &self.path))?;
            (writer.prepared, writer.mark) = (len, 0);
        }
        self.sync_storage(&*storage)?;
        let Some(chain) = writer.chain.filter(|_| writer.lacks_sync_marker) else { return Ok(()) };
        if let Err(error) = storage.write_all_at(&chain.sync_marker(len), len) {
            return Err(self.undo(&*storage, len, error));
        }
        writer.lacks_sync_marker = false;
        self.len.store(len + HEADER as u64, Ordering::Release);
        self.sync_storage(&*storage)
    }

    /// Returns the disk usage of the AOF, and of the file that a running rewrite writes, in bytes.
    pub(in super::super) fn disk_size(&self) -> Result<u64> {
        Ok(files::disk_size(&self.path)? + files::disk_size(&file::rewrite_path(&self.path))?)
    }

    /// Returns the path of the AOF, without symbolic links.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the complete batches in the file, in bytes.
    pub(in super::super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the number of bytes of the AOF that are not known to be durable.
    pub(in super::super) fn unsynced(&self) -> u64 {
        self.len().saturating_sub(self.lock_current().synced)
    }

    /// Returns the file that the AOF is at present, for reads; a rewrite replaces it.
    pub(in super::super) fn storage(&self) -> Arc<dyn Storage> {
        self.current().storage
    }

    pub(super) fn current(&self) -> Current {
        self.lock_current().clone()
    }

    pub(super) fn lock_current(&self) -> MutexGuard<'_, Current> {
        // Nothing can panic while it is held.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a running write of the AOF to end, and blocks other writes until the guard is dropped. Fails if
    /// writes are refused.
    pub(super) fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
        // A writer that panicked may have left bytes in the file that `len` does not count.
        let guard =
            self.writer.lock().map_err(|_| self.refuse("write", io::Error::other("a write panicked")))?;
        self.check_usable()?;
        Ok(guard)
    }

    fn check_usable(&self) -> Result<()> {
        self.refusal.check(&self.path)
    }

    /// Refuses all later writes to the AOF because of `error` in `action`, and returns the error.
    pub(super) fn refuse(&self, action: &'static str, error: io::Error) -> Error {
        self.refusal.set(|| format!("refused since an earlier failure to {action}: {error}"));
        Error::io(action, &self.path)(error)
    }
}
