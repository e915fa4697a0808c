//! The open log: appending to it, syncing it, and what makes it refuse.

use super::{
    super::{Batch, Error, Result, path},
    append::{FrameWriter, prepare},
    file::{self, Storage},
    frame::{self, FrameChain, HEADER, PIECE},
    record::Form,
    verbatim::Placed,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Capacity of the write buffer that is kept from batch to batch.
const KEPT_BUFFER: usize = 2 * PIECE;

/// The same of the list of places.
const KEPT_PLACES: usize = 64 << 10;

/// An open append-only file.
pub(in super::super) struct Aof {
    pub(super) engine: &'static str,
    pub(super) path: PathBuf,
    /// Held for the whole of a write, its batch's way into the table included: between two holders
    /// the file and the table hold the same.
    pub(super) writer: Mutex<Writer>,
    /// The file now. Locked only to look at it or to replace it, so a sync can run beside writes.
    pub(super) current: Mutex<Current>,
    /// Held during a sync.
    pub(super) syncing: Mutex<()>,
    /// Bytes of whole batches in the file. Changes only under `writer`, and with the file under both locks.
    pub(super) len: AtomicU64,
    /// `len` after the open or the last rewrite.
    pub(super) base: AtomicU64,
    /// Why no more writes are taken.
    pub(super) refusal: OnceLock<String>,
    /// Tells a running rewrite to give up.
    pub(super) cancelled: AtomicBool,
}

pub(super) struct Writer {
    /// A frame as bytes.
    pub(super) buffer: Vec<u8>,
    /// Where the values of a batch went.
    pub(super) places: Vec<Placed>,
    /// What the next frame goes on from; `None` in a log without frames so far.
    pub(super) chain: Option<FrameChain>,
    /// Where the file ends: from `Aof::len` on there are a mark or filler.
    pub(super) prepared: u64,
    /// Whether there are records of which the log does not say itself that they are on stable storage.
    pub(super) unmarked: bool,
    /// Offset of the last mark that was written behind the log's end; 0 if it was cut off.
    pub(super) mark: u64,
}

impl Writer {
    /// Writes behind the log's end that all before it is on stable storage. The next frame, which says so too,
    /// goes over it. No more than a help against bit rot: a sync of its own it does not get.
    pub(super) fn mark(&mut self, storage: &dyn Storage, end: u64) {
        let Some(chain) = self.chain.filter(|_| self.unmarked && self.mark != end) else { return };
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
    /// Up to where it is known to be on stable storage.
    pub(super) synced: u64,
}

impl Aof {
    /// Appends the batch, with `sync` to stable storage, then calls `apply`. On an error it was not
    /// called, and the batch is not in the file (after a failed sync: as far as that can be said).
    ///
    /// To sync a batch that made the file longer, a file system commits its journal too: twice the time
    /// and the work of a sync of some blocks that were there (measured on ext4: 280 against 150 us). So a
    /// synced batch is followed by filler now and then, which the next ones are written over.
    pub(in super::super) fn append<R>(
        &self,
        batch: &Batch<'_>,
        sync: bool,
        apply: impl FnOnce() -> R,
    ) -> Result<R> {
        self.append_placed(batch, sync, |_| apply())
    }

    /// Like [`Aof::append`]. In [`Form::Raw`], tells `apply` where the batch's values are in the file, in the
    /// order of its puts.
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
        let over_filler = *prepared > begin + HEADER as u64;
        let synced = self.current().synced;
        let mut appending = FrameWriter { storage: &*storage, end: begin, chain, synced, over_filler };
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
            // The client is told that the write failed: better it does not return with a restart.
            let _best_effort = storage.set_len(begin);
            return Err(error);
        }
        writer.chain = Some(chain);
        writer.unmarked |= end > begin;
        self.len.store(end, Ordering::Release);
        if sync {
            self.lock_current().synced = end;
            writer.mark(&*storage, end);
        }
        let applied = apply(&writer.places);
        writer.places.shrink_to(KEPT_PLACES);
        Ok(applied)
    }

    /// Goes over to frames, in a log that has none.
    fn start_section(&self, writer: &mut Writer, storage: &dyn Storage) -> Result<FrameChain> {
        let (begin, chain) = (self.len(), FrameChain::random(Form::Redis));
        if let Err(error) = storage.write_all_at(&chain.start_line(begin), begin) {
            writer.prepared = begin;
            return Err(self.undo(storage, begin, error));
        }
        // Frames are none without it, so it must be there before they are.
        self.sync_storage(storage)?;
        let end = begin + frame::START as u64;
        writer.chain = Some(chain);
        writer.prepared = end;
        self.len.store(end, Ordering::Release);
        self.lock_current().synced = end;
        Ok(chain)
    }

    /// Cuts off what a failed write may have left. Only where that succeeds, and the cause is a
    /// want of room, the file is as sound as before.
    fn undo(&self, storage: &dyn Storage, len: u64, error: io::Error) -> Error {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match storage.set_len(len) {
            Ok(()) if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) => {
                Error::Full { engine: self.engine, detail: format!("{}: {error}", self.path.display()) }
            }
            _ => self.refuse("write", error),
        }
    }

    /// Makes every batch that was appended before the call survive a power cut. Runs beside
    /// `append`. A rewrite may replace the file meanwhile; but what was in the old file then is in
    /// the new one, and was synced with it before it got the log's name.
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
        // Who writes just now will be followed by another write or sync.
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
        // The kernel tells of a page that it could not write once. With two syncs side by side, one
        // would be told, and the other succeed although the page was its own.
        let _alone = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_usable()?;
        storage.sync_data().map_err(|error| self.refuse("sync", error))
    }

    /// Syncs and lets others open the file. Takes no writes afterwards. A rewrite must not run.
    pub(in super::super) fn close(&self) -> Result<()> {
        let finished = self.finish();
        let unlocked = self.current().storage.unlock().map_err(Error::io("unlock", &self.path));
        self.refusal.get_or_init(|| "it is closed".into());
        finished.and(unlocked)
    }

    /// Syncs the log for the last time: afterwards it says itself that all of it is on stable storage, and nothing
    /// is behind that. On an error it may go on taking writes, unless it refuses them.
    pub(in super::super) fn seal(&self) -> Result<()> {
        self.finish()?;
        if self.lock_writer()?.unmarked {
            let detail = format!("{}: no room for the mark at its end", self.path.display());
            return Err(Error::Full { engine: self.engine, detail });
        }
        Ok(())
    }

    /// Leaves nothing behind the last batch but a mark that says that all of it is on stable storage, and is
    /// there itself.
    fn finish(&self) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let (storage, len) = (self.current().storage, self.len());
        if writer.prepared > len {
            storage.set_len(len).map_err(Error::io("truncate", &self.path))?;
            (writer.prepared, writer.mark) = (len, 0);
        }
        self.sync_storage(&*storage)?;
        let Some(chain) = writer.chain.filter(|_| writer.unmarked) else { return Ok(()) };
        if storage.write_all_at(&chain.sync_marker(len), len).is_err() {
            // Without room for it, the log is no less whole.
            return storage.set_len(len).map_err(Error::io("truncate", &self.path));
        }
        writer.unmarked = false;
        self.len.store(len + HEADER as u64, Ordering::Release);
        self.sync_storage(&*storage)
    }

    /// Bytes that the files take on disk, that of a running rewrite included.
    pub(in super::super) fn disk_size(&self) -> Result<u64> {
        Ok(path::disk_size(&self.path)? + path::disk_size(&file::rewrite_path(&self.path))?)
    }

    /// The file's path, without symbolic links.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of whole batches.
    pub(in super::super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Bytes that are not known to be on stable storage.
    pub(in super::super) fn unsynced(&self) -> u64 {
        self.len().saturating_sub(self.lock_current().synced)
    }

    /// The file, to be read.
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

    /// Waits for the write that runs, and keeps others out.
    pub(super) fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
        // A writer that panicked may have left bytes in the file that `len` does not count.
        let guard =
            self.writer.lock().map_err(|_| self.refuse("write", io::Error::other("a write panicked")))?;
        self.check_usable()?;
        Ok(guard)
    }

    fn check_usable(&self) -> Result<()> {
        match self.refusal.get() {
            None => Ok(()),
            Some(why) => Err(Error::io("write", &self.path)(io::Error::other(why.as_str()))),
        }
    }

    /// Takes no more writes, because of `error`.
    pub(super) fn refuse(&self, action: &'static str, error: io::Error) -> Error {
        self.refusal.get_or_init(|| format!("refused since an earlier failure to {action}: {error}"));
        Error::io(action, &self.path)(error)
    }
}
