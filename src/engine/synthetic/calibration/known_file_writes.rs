//! Files of the calibration engine: a log with one record per write, the output of deferred work, a mapped file, a
//! file that commits overwrite, and a file that reads take bytes from.

use super::config::{CALIBRATION, Truth};
use crate::engine::{Error, Result, WriteOp, files};
use nix::{
    fcntl::{FallocateFlags, PosixFadviseAdvice, fallocate, posix_fadvise},
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    collections::BTreeMap,
    ffi::c_void,
    fs::{self, File},
    io::{self, Write},
    num::NonZeroUsize,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

/// Maximum size in bytes of one file write of deferred work.
pub const PIECE: usize = 1 << 20;
/// Length of the value in a log record that stands for a deleted key.
const DELETED: u32 = u32::MAX;
/// Number of bytes of a log record before its key: the lengths of key and value.
const HEAD: usize = 8;

pub(super) fn log(path: &Path) -> PathBuf {
    path.join("log")
}

/// Appends `line` and a line end to the file at `path`, which is created if it does not exist.
pub(super) fn append_line(path: &Path, line: &str) -> io::Result<()> {
    writeln!(File::options().create(true).append(true).open(path)?, "{line}")
}

pub(super) struct Files {
    truth: Truth,
    log: File,
    log_path: PathBuf,
    /// Length of the calibration engine's log file in bytes, without the records in `buffer`.
    length: u64,
    /// Log records of the current commit that were not written to the log file yet.
    buffer: Vec<u8>,
    /// File whose start each commit (write batch) overwrites; `None` if commits overwrite nothing.
    overwritten: Option<File>,
    debts: DeferredWork,
    /// Bytes that the commits of the calibration engine have written to files since the last quiesce, without the
    /// deferred work.
    written: u64,
    /// Bytes of the deferred work that writes since the last quiesce have caused.
    owed: u64,
    unsettled: bool,
    _map: Option<Map>,
}

impl Files {
    pub fn open(directory: &Path, truth: &Truth) -> Result<Self> {
        files::create_dir(directory)?;
        let log_path = log(directory);
        let open = |path: &Path| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).open(path)
        };
        let log = open(&log_path).map_err(Error::io("open", &log_path))?;
        let debt_path = directory.join("debts");
        let debts = open(&debt_path).map_err(Error::io("open", &debt_path))?;
        let map_path = directory.join("mapped");
        let map = Map::new(&map_path, truth.mapped_bytes).map_err(Error::io("map", &map_path))?;
        let overwritten =
            (truth.overwrite_bytes > 0).then(|| open(&directory.join("overwritten"))).transpose();
        let overwritten = overwritten.map_err(Error::io("open", directory))?;
        let length = log.metadata().map_err(Error::io("open", &log_path))?.len();
        Ok(Self {
            truth: truth.clone(),
            log,
            log_path,
            length,
            buffer: Vec::new(),
            overwritten,
            debts: DeferredWork::new(debts, debt_path)?,
            written: 0,
            owed: 0,
            unsettled: false,
            _map: map,
        })
    }

    /// Applies the puts and deletes in the log to `pairs`, in order. Returns their number.
    pub fn replay(&mut self, pairs: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<u64> {
        let damaged = || Error::library(CALIBRATION, "a record of its log is not whole");
        // One record at a time: all of them would use memory that the configuration does not include.
        let length = self.truth.record_bytes();
        let mut record = vec![0; usize::try_from(length).unwrap_or(0)];
        let records = self.length / length;
        for number in 0..records {
            let read = self.log.read_exact_at(&mut record, number * length);
            read.map_err(Error::io("read", &self.log_path))?;
            let (key, value) = decode(&record).ok_or_else(damaged)?;
            match value {
                Some(value) => pairs.insert(key.into(), value.into()),
                None => pairs.remove(key),
            };
        }
        Ok(records)
    }

    /// Adds the log record of a write to the buffer. Clearing leaves none: a store under calibration is not cleared.
    pub fn put(&mut self, op: &WriteOp<'_>) -> Result<()> {
        let (key, value) = match *op {
            WriteOp::Put { key, value } => (key, Some(value)),
            WriteOp::Delete { key } => (key, None),
            WriteOp::Clear => return Ok(()),
        };
        let end = self.buffer.len() + usize::try_from(self.truth.record_bytes()).unwrap_or(usize::MAX);
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(DELETED - 1).to_le_bytes();
        self.buffer.extend_from_slice(&length(key.len()));
        let mark = value.map_or(DELETED.to_le_bytes(), |value| length(value.len()));
        self.buffer.extend_from_slice(&mark);
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(value.unwrap_or_default());
        if self.buffer.len() > end {
            self.buffer.clear();
            let what = format!("takes pairs of up to {} bytes", self.truth.write_bytes);
            return Err(Error::Unsupported { engine: CALIBRATION, what });
        }
        self.buffer.resize(end, 0);
        self.owed += self.truth.debt_bytes;
        Ok(())
    }

    /// Ends a commit: appends the buffered records to the log, and overwrites the start of the other file, if that is
    /// configured. Before the first commit after a quiesce, creates the reserved space and the hole.
    pub fn append(&mut self) -> Result<()> {
        self.stretch()?;
        self.log.write_all_at(&self.buffer, self.length).map_err(Error::io("write", &self.log_path))?;
        if let Some(file) = &self.overwritten {
            let bytes = vec![0xa5; usize::try_from(self.truth.overwrite_bytes).unwrap_or(0)];
            file.write_all_at(&bytes, 0).map_err(Error::io("overwrite", &self.log_path))?;
            self.written += bytes.len() as u64;
        }
        self.length += self.buffer.len() as u64;
        self.written += self.buffer.len() as u64;
        // Freed, because a large buffer is not part of the configured memory.
        self.buffer = Vec::new();
        Ok(())
    }

    /// Creates, with the first write after a quiesce, the reserved space behind the log's end, and the hole at the end
    /// of the deferred work's output.
    fn stretch(&mut self) -> Result<()> {
        if self.unsettled {
            return Ok(());
        }
        self.unsettled = true;
        let fail = |error: io::Error| Error::io("stretch", &self.log_path)(error);
        if self.truth.hole_bytes > 0 {
            self.debts.file.set_len(self.debts.kept + self.truth.hole_bytes).map_err(fail)?;
        }
        let reserve = i64::try_from(self.truth.reserved_bytes).unwrap_or(0);
        if reserve > 0 {
            let start = i64::try_from(self.length).unwrap_or(0);
            // A file system that cannot reserve space has nothing to free later.
            let _ = fallocate(&self.log, FallocateFlags::FALLOC_FL_KEEP_SIZE, start, reserve);
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<()> {
        let files = [Some(&self.log), self.overwritten.as_ref()];
        files.into_iter().flatten().try_for_each(File::sync_data).map_err(Error::io("sync", &self.log_path))
    }

    /// Syncs, does the deferred work, and frees the hole and the reserved space. Returns the number of bytes written
    /// since the last quiesce, with the deferred work.
    pub fn settle(&mut self) -> Result<u64> {
        self.sync()?;
        self.debts.do_deferred_work(self.owed, self.truth.settled_bytes)?;
        let written = self.written + self.owed;
        (self.written, self.owed, self.unsettled) = (0, 0, false);
        self.log.set_len(self.length).map_err(Error::io("cut", &self.log_path))?;
        Ok(written)
    }

    /// Returns the total length of the log, the mapped file and the deferred work's output, and the same without the
    /// hole in that output, both in bytes. The file that commits overwrite and the file that reads take bytes from are
    /// not counted.
    pub fn size(&self) -> (u64, u64) {
        let used = self.length + self.truth.mapped_bytes + self.debts.kept;
        (if self.unsettled { used + self.truth.hole_bytes } else { used }, used)
    }

    pub fn close(&mut self) -> Result<()> {
        self.sync()?;
        self.debts.close(self.truth.closed_bytes)
    }
}

fn decode(record: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let number = |at: usize| Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?));
    let (key, value) = (number(0)? as usize, number(4)?);
    let end = HEAD.checked_add(key)?;
    let found = record.get(HEAD..end)?;
    match value {
        DELETED => Some((found, None)),
        value => Some((found, Some(record.get(end..end.checked_add(value as usize)?)?))),
    }
}

/// Deferred work, done by a separate thread, like an engine's compactions.
struct DeferredWork {
    file: File,
    path: PathBuf,
    /// Length in bytes of `file`, the output of the deferred work, without the hole at its end. The first write after
    /// a quiesce makes the hole, and the next deferred work removes it.
    kept: u64,
    /// Orders to the thread: start offset, number of bytes to write, and length to truncate the file to.
    orders: Option<Sender<(u64, u64, u64)>>,
    paid: Receiver<io::Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DeferredWork {
    fn new(file: File, path: PathBuf) -> Result<Self> {
        let (orders, work) = channel();
        let (done, paid) = channel();
        let written = file.try_clone().map_err(Error::io("open", &path))?;
        let kept = file.metadata().map_err(Error::io("open", &path))?.len();
        let do_deferred_work = move || {
            for (start, bytes, keep) in work {
                if done.send(do_deferred_work(&written, start, bytes, keep)).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("debts".into()).spawn(do_deferred_work);
        let thread = thread.map_err(Error::io("start a thread for", &path))?;
        Ok(Self { file, path, kept, orders: Some(orders), paid, thread: Some(thread) })
    }

    /// Makes the thread write `bytes` bytes at the end of the file, in place of the hole, and then truncate the file to
    /// at most `keep` bytes. Waits until the thread has done so.
    fn do_deferred_work(&mut self, bytes: u64, keep: u64) -> Result<()> {
        let gone = || Error::library(CALIBRATION, "the thread that pays debts is gone");
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        let length = (self.kept + bytes).min(keep);
        orders.send((self.kept, bytes, length)).map_err(|_| gone())?;
        self.paid.recv().map_err(|_| gone())?.map_err(Error::io("write", &self.path))?;
        self.kept = length;
        Ok(())
    }

    fn close(&self, keep: u64) -> Result<()> {
        self.file.set_len(self.kept.min(keep)).map_err(Error::io("cut", &self.path))
    }
}

impl Drop for DeferredWork {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

/// Does deferred work of the calibration engine: replaces what is in the file from `start` on by `bytes` bytes, syncs
/// them, and only then truncates the file to `length`.
fn do_deferred_work(file: &File, start: u64, bytes: u64, length: u64) -> io::Result<()> {
    // Removes the hole.
    file.set_len(start)?;
    let (mut place, end) = (start, start + bytes);
    let piece = vec![0x5a; PIECE];
    while place < end {
        let length = usize::try_from(end - place).unwrap_or(PIECE).min(PIECE);
        file.write_all_at(piece.get(..length).unwrap_or_default(), place)?;
        place += length as u64;
    }
    file.sync_all()?;
    file.set_len(length)
}

/// File of the calibration engine, from which each read takes the configured number of bytes.
pub(super) struct ReadFile {
    file: File,
    path: PathBuf,
    bytes: usize,
    /// Number of pieces of `bytes` bytes in the file, which reads take in turn.
    places: u64,
    next: AtomicU64,
}

impl ReadFile {
    /// Opens the file that reads take bytes from, in `directory`, and creates it if it does not exist; `None` if reads
    /// are configured to take no bytes.
    pub fn open(directory: &Path, truth: &Truth) -> Result<Option<Self>> {
        if truth.read_bytes == 0 {
            return Ok(None);
        }
        let (path, bytes) = (directory.join("reads"), usize::try_from(truth.read_bytes).unwrap_or(0));
        let places = truth.read_file_bytes / truth.read_bytes;
        let open = || {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
            if file.metadata()?.len() == 0 {
                let piece = vec![0x3c; bytes];
                (0..places).try_for_each(|place| file.write_all_at(&piece, place * truth.read_bytes))?;
                file.sync_all()?;
            }
            // No read-ahead.
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)?;
            Ok(file)
        };
        let file = open().map_err(Error::io("open", &path))?;
        Ok(Some(Self { file, path: path.clone(), bytes, places, next: AtomicU64::new(0) }))
    }

    /// Reads the next `bytes` bytes of the file, or the first ones after the last.
    pub fn read(&self) -> Result<()> {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.places.max(1);
        let mut bytes = vec![0; self.bytes];
        let read = self.file.read_exact_at(&mut bytes, place * self.bytes as u64);
        read.map_err(Error::io("read", &self.path))
    }
}

/// File that is mapped into memory.
struct Map {
    address: NonNull<c_void>,
    length: usize,
}

#[expect(unsafe_code, reason = "a plain address, which no thread reads or writes through")]
// SAFETY: nothing is ever read or written at `address`; it is only unmapped.
unsafe impl Send for Map {}

impl Map {
    /// Maps `bytes` of the file at `path`, which is created if it does not exist, and loads all its pages.
    fn new(path: &Path, bytes: u64) -> io::Result<Option<Self>> {
        let Some(length) = NonZeroUsize::new(usize::try_from(bytes).unwrap_or(0)) else { return Ok(None) };
        if !fs::exists(path)? {
            fs::write(path, vec![1; length.get()])?;
        }
        let file = File::open(path)?;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        #[expect(unsafe_code, reason = "maps a file at a place of the kernel's choice")]
        // SAFETY: a new mapping, read only, at an address that is not in use and is never read.
        let address = unsafe { mmap(None, length, ProtFlags::PROT_READ, flags, &file, 0) };
        Ok(Some(Self { address: address.map_err(io::Error::from)?, length: length.get() }))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "gives a mapping back")]
        // SAFETY: it is the mapping of `new`, to which there are no references.
        let _ = unsafe { munmap(self.address, self.length) };
    }
}
