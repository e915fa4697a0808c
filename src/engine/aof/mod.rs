//! The append-only file: how a table in memory outlives its process.
//!
//! One file of RESP commands, as Redis writes them: `SET`, `DEL` and `FLUSHDB`, a batch of several
//! between `MULTI` and `EXEC`. People can read it, `redis-server` can load it, and `map` and
//! `btree` can open each other's. Unlike Redis' it has checksums, in lines that Redis skips. A rewrite
//! works in `<path>.rewrite` beside it; what is left there after a crash is removed at the next open.
//!
//! A write goes to the file, with `sync` to stable storage, and only then to the table: readers see
//! nothing that a crash could take back. Whatever fails on the way leaves the table as it was, and
//! the file too, or else the log refuses all further writes: a disk that failed once may have
//! dropped pages that a second `fsync` does not report.

mod checked;
mod file;
mod record;
mod replay;
mod rewrite;
#[cfg(test)]
mod tests;

use super::{Batch, Caveat, Error, Loss, Result, path};
use checked::{HEADER, MAX_CHECKED};
use file::Storage;
use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};
pub(super) use {record::encode_set, rewrite::STEP};

/// What an engine with this log loses. A write is in the kernel's hands before it is acknowledged,
/// so a killed process loses nothing whatever the policy.
pub(super) const LOSS: [Loss; 3] = [
    Loss { kill: "nothing", power_cut: "nothing" },
    Loss { kill: "nothing", power_cut: "about a second" },
    Loss { kill: "nothing", power_cut: "what the kernel had not written (about 30 seconds on Linux)" },
];

/// What one should know of an engine with this log.
pub(super) const CAVEATS: &[Caveat] = &[
    Caveat::new("all data must fit in memory"),
    Caveat::in_files("opening it replays the whole file"),
    Caveat::in_files(
        "a rewrite of the file (automatic at twice its size and 64 MiB) needs room for a second one",
    ),
    Caveat::in_memory("with --path :memory: everything is lost with the process, whatever --fsync says"),
];

/// The file is rewritten by itself when it is this large, and twice what it was at first.
const REWRITE_SIZE: u64 = 64 << 20;

/// Bytes of zeros that are written at a time behind a synced batch.
const PREPARED: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// Capacity of the write buffer that is kept from batch to batch.
const KEPT_BUFFER: usize = 2 * MAX_CHECKED;

/// An open append-only file.
pub(super) struct Aof {
    engine: &'static str,
    path: PathBuf,
    /// Held for the whole of a write, its batch's way into the table included: between two holders
    /// the file and the table hold the same.
    writer: Mutex<Writer>,
    /// The file now. Locked only to clone or to replace it, so a sync can run beside writes.
    storage: Mutex<Arc<dyn Storage>>,
    /// Held during a sync.
    syncing: Mutex<()>,
    /// Bytes of whole batches in the file. Changes only under `writer`.
    len: AtomicU64,
    /// `len` after the open or the last rewrite.
    base: AtomicU64,
    /// Why no more writes are taken.
    refusal: OnceLock<String>,
    /// Tells a running rewrite to give up.
    cancelled: AtomicBool,
}

struct Writer {
    /// The batch as bytes.
    buffer: Vec<u8>,
    /// Where the file ends: from `Aof::len` on there are zeros.
    prepared: u64,
}

/// A batch on its way into the file.
struct Appending<'a> {
    storage: &'a dyn Storage,
    /// Where the batch begins.
    begin: u64,
    /// Up to where it is written.
    end: u64,
    /// [`Writer::prepared`]
    prepared: &'a mut u64,
}

impl Appending<'_> {
    /// Writes what is encoded, when that is enough. A large batch in one piece would be in no cache when it is
    /// copied, and in memory that is new to the process.
    fn write_piece(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        if buffer.len() <= HEADER + MAX_CHECKED {
            return Ok(());
        }
        // Without a checksum, there is no use for the room before the first piece.
        let start = if self.end == self.begin { HEADER } else { 0 };
        self.write(buffer.get(start..).unwrap_or_default(), false)?;
        buffer.clear();
        Ok(())
    }

    /// Writes what is left. Returns whether it went over zeros.
    fn write_rest(&mut self, buffer: &mut Vec<u8>, sync: bool) -> io::Result<bool> {
        // Only of one checked batch can be told after a power cut that it is not whole.
        let over_zeros = self.end == self.begin && checked::seal(buffer) && sync;
        self.write(buffer, over_zeros)?;
        Ok(over_zeros)
    }

    fn write(&mut self, bytes: &[u8], over_zeros: bool) -> io::Result<()> {
        if !over_zeros && *self.prepared > self.end {
            self.storage.set_len(self.end)?;
            *self.prepared = self.end;
        }
        self.storage.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// Whether `path` looks like an append-only file, of either engine or of Redis.
pub(super) fn recognise(path: &Path) -> bool {
    let mut start = Vec::new();
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let read = is_file.then(|| File::open(path).and_then(|file| file.take(4).read_to_end(&mut start)));
    matches!(read, Some(Ok(_))) && matches!(start.as_slice(), [b'*', b'0'..=b'9', ..] | b"#TS:" | b"#CRC")
}

impl Aof {
    /// Opens or creates the log at `path` and hands what it holds to `restore`, a `Clear` first.
    pub(super) fn open(
        path: &Path,
        engine: &'static str,
        restore: &mut impl FnMut(&Batch<'_>),
    ) -> Result<Self> {
        let (file, path) = file::open_locked(path, engine)?;
        let leftover = file::rewrite_path(&path);
        if let Err(error) = path::remove_leftover(&leftover) {
            log::warn!("{engine}: {error}");
        }
        let len = load(&file, (engine, &path), restore)?;
        // A killed process may have left bytes, or the name of a rewritten file, in the kernel's hands
        // only. They are about to be shown to readers, so a power cut must not take them back.
        file.sync_data().map_err(Error::io("sync", &path))?;
        path::sync_dir(path::parent(&path))?;
        Ok(Self {
            engine,
            path,
            writer: Mutex::new(Writer { prepared: len, buffer: Vec::new() }),
            storage: Mutex::new(Arc::new(file)),
            syncing: Mutex::default(),
            len: len.into(),
            base: len.into(),
            refusal: OnceLock::new(),
            cancelled: AtomicBool::new(false),
        })
    }

    /// Appends the batch, with `sync` to stable storage, then calls `apply`. On an error it was not
    /// called, and the batch is not in the file (after a failed sync: as far as that can be said).
    ///
    /// To sync a batch that made the file longer, a file system commits its journal too: twice the time
    /// and the work of a sync of some blocks that were there (measured on ext4: 280 against 150 us). So a
    /// synced batch is followed by zeros now and then, which the next ones are written over.
    pub(super) fn append<R>(&self, batch: &Batch<'_>, sync: bool, apply: impl FnOnce() -> R) -> Result<R> {
        let mut writer = self.lock_writer()?;
        let Writer { buffer, prepared } = &mut *writer;
        checked::begin(buffer);
        buffer.shrink_to(KEPT_BUFFER);
        let storage = self.storage();
        let len = self.len();
        let mut appending = Appending { storage: &*storage, begin: len, end: len, prepared };
        let written = record::encode(batch, buffer, |buffer| appending.write_piece(buffer))
            .and_then(|()| appending.write_rest(buffer, sync));
        let end = appending.end;
        let over_zeros = match written {
            Ok(over_zeros) => over_zeros,
            Err(error) => {
                *prepared = len;
                return Err(self.undo(&*storage, len, error));
            }
        };
        if over_zeros && end > *prepared {
            *prepared = prepare(&*storage, end, buffer.len());
        }
        *prepared = end.max(*prepared);
        if sync && let Err(error) = self.sync_storage(&*storage) {
            // The client is told that the write failed: better it does not return with a restart.
            let _best_effort = storage.set_len(len);
            return Err(error);
        }
        self.len.store(end, Ordering::Release);
        Ok(apply())
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
    pub(super) fn sync(&self) -> Result<()> {
        self.sync_storage(&*self.storage())
    }

    fn sync_storage(&self, storage: &dyn Storage) -> Result<()> {
        // The kernel tells of a page that it could not write once. With two syncs side by side, one
        // would be told, and the other succeed although the page was its own.
        let _alone = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_usable()?;
        storage.sync_data().map_err(|error| self.refuse("sync", error))
    }

    /// Syncs and lets others open the file. Takes no writes afterwards. A rewrite must not run.
    pub(super) fn close(&self) -> Result<()> {
        let cut = self.cut_zeros();
        let synced = cut.and(self.sync());
        let unlocked = self.storage().unlock().map_err(Error::io("unlock", &self.path));
        self.refusal.get_or_init(|| "it is closed".into());
        synced.and(unlocked)
    }

    /// Leaves no zeros behind the last batch.
    fn cut_zeros(&self) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let len = self.len();
        if writer.prepared > len {
            self.storage().set_len(len).map_err(Error::io("truncate", &self.path))?;
            writer.prepared = len;
        }
        Ok(())
    }

    /// Bytes that the files take on disk, that of a running rewrite included.
    pub(super) fn disk_size(&self) -> Result<u64> {
        Ok(path::disk_size(&self.path)? + path::disk_size(&file::rewrite_path(&self.path))?)
    }

    /// The file's path, without symbolic links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn storage(&self) -> Arc<dyn Storage> {
        // Nothing can panic while it is held.
        self.storage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the write that runs, and keeps others out.
    fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
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
    fn refuse(&self, action: &'static str, error: io::Error) -> Error {
        self.refusal.get_or_init(|| format!("refused since an earlier failure to {action}: {error}"));
        Error::io(action, &self.path)(error)
    }
}

/// Writes zeros at `end` for some more batches of `length` bytes, and returns where they end.
fn prepare(storage: &dyn Storage, end: u64, length: usize) -> u64 {
    const BATCHES: usize = 16;
    static ZEROS: [u8; *PREPARED.start()] = [0; *PREPARED.start()];
    let wanted = end + (length * BATCHES).clamp(*PREPARED.start(), *PREPARED.end()) as u64;
    let mut prepared = end;
    // Where there is no room for zeros there may be some for the batches; an error that matters shows
    // at the next sync.
    while prepared < wanted {
        if storage.write_all_at(&ZEROS, prepared).is_err() {
            let _best_effort = storage.set_len(prepared);
            break;
        }
        prepared += ZEROS.len() as u64;
    }
    prepared
}

/// Replays the log, cuts off a torn tail, and returns the log's length.
fn load(
    mut file: &File,
    (engine, path): (&'static str, &Path),
    restore: &mut impl FnMut(&Batch<'_>),
) -> Result<u64> {
    let started = Instant::now();
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    let mut clear = Batch::default();
    clear.clear();
    restore(&clear);
    let tail = replay::replay(file, len, (engine, path), restore)?;
    if tail.overran {
        // Writes are handed on as they are read, not held back for the end of their group, which
        // can be of any size. So once in a crash, everything is read twice.
        restore(&clear);
        file.rewind().map_err(Error::io("read", path))?;
        replay::replay(file, tail.end, (engine, path), restore)?;
    }
    if tail.end < len {
        let (cut, at) = (len - tail.end, tail.end);
        if tail.torn {
            log::warn!("{engine}: {} is torn: cut the last {cut} bytes, from byte {at}", path.display());
        }
        file.set_len(tail.end).map_err(Error::io("truncate", path))?;
    }
    if len > 0 {
        let (records, seconds) = (tail.records, started.elapsed().as_secs_f64());
        log::info!("{engine}: replayed {records} records of {} in {seconds:.2} s", path.display());
    }
    Ok(tail.end)
}
