//! Segment files of `bitcask`, and the list of all segments.

use super::{description::NAME, key_table::ValuePosition};
use crate::engine::{Error, Result, aof::Storage, files, key_value_headers, mutex::lock};
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use std::{
    collections::VecDeque,
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

const SUFFIX: &str = "segment";

/// Returns the path of the file of segment `id`.
pub(super) fn path_of(directory: &Path, id: u32) -> PathBuf {
    directory.join(name_of(id))
}

/// Returns the file name of segment `id`.
pub(super) fn name_of(id: u32) -> String {
    format!("{id:010}.{SUFFIX}")
}

/// Returns the number of the segment whose file is called `name`, or `None` if that is no name of a segment.
pub(super) fn id_of(name: &str) -> Option<u32> {
    number_of(name).filter(|(_, suffix)| *suffix == SUFFIX).map(|(id, _)| id)
}

/// Returns the number of the segment to which the file called `name` belongs, and the suffix of the name (what follows
/// the first dot); `None` if the name does not begin with the ten digits of a segment.
pub(super) fn number_of(name: &str) -> Option<(u32, &str)> {
    let (id, suffix) = name.split_once('.')?;
    let is_number = id.len() == 10 && id.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { Some((id.parse().ok()?, suffix)) } else { None }
}

/// Number of segment files that are kept open, and its maximum.
pub(super) struct OpenFiles {
    open: AtomicU64,
    most: u64,
}

impl OpenFiles {
    pub(super) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { open: AtomicU64::new(0), most })
    }

    /// Returns `true` if the limit is reached: no further segment file may be kept open.
    fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.most
    }
}

/// Segment: a file of the log of `bitcask`, active or sealed, with the state that its reading threads share.
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) path: PathBuf,
    /// Length of the segment's file, in bytes; 0 for the active segment.
    pub(super) len: u64,
    /// Device and inode number of the segment's file, to detect another file on the path.
    identity: (u64, u64),
    /// `true` if the segment is known to have a valid hint file.
    pub(super) has_hint: AtomicBool,
    /// File of the segment, if it is kept open; otherwise it is empty, and each read opens the file by its path.
    file: OnceLock<Arc<dyn Storage>>,
    files: Arc<OpenFiles>,
}

impl Segment {
    /// Returns sealed segment `id` of `directory`. The file is opened at the first read.
    ///
    /// # Errors
    ///
    /// Fails if the file's metadata cannot be read.
    pub(super) fn sealed(directory: &Path, id: u32, files: &Arc<OpenFiles>) -> Result<Self> {
        let path = path_of(directory, id);
        let metadata = fs::metadata(&path).map_err(Error::io("read", &path))?;
        let (len, identity) = (metadata.len(), files::identity(&metadata));
        let (has_hint, files) = (AtomicBool::new(false), Arc::clone(files));
        Ok(Self { id, path, len, identity, has_hint, file: OnceLock::new(), files })
    }

    /// Returns the active segment `id` of `directory`, whose open file is `file`.
    pub(super) fn active(
        directory: &Path,
        id: u32,
        files: &Arc<OpenFiles>,
        file: Arc<dyn Storage>,
    ) -> Result<Self> {
        let mut segment = Self::sealed(directory, id, files)?;
        segment.len = 0;
        segment.keep(file);
        Ok(segment)
    }

    /// Returns a sealed copy of this active segment, of `len` bytes. If the limit of open files is reached, the file is
    /// closed when `self` is dropped.
    fn seal(&self, len: u64) -> Self {
        let (path, files) = (self.path.clone(), Arc::clone(&self.files));
        let (id, identity, has_hint) = (self.id, self.identity, AtomicBool::new(false));
        let sealed = Self { id, path, len, identity, has_hint, file: OnceLock::new(), files };
        if let Some(file) = self.file.get().filter(|_| !self.files.is_full()) {
            sealed.keep(Arc::clone(file));
        }
        sealed
    }

    /// Keeps `file` open for this segment, and counts it as an open file. Does nothing if a file is kept open already.
    fn keep(&self, file: Arc<dyn Storage>) {
        if self.file.set(file).is_ok() {
            self.files.open.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the segment's file. If it is closed, opens it, and keeps it open unless the limit of open files is
    /// reached.
    pub(super) fn file(&self) -> Result<Arc<dyn Storage>> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        #[cfg(test)]
        BEFORE_OPEN.take().into_iter().for_each(|work| work());
        let file = match self.open() {
            Ok(file) => Arc::new(file),
            // A merge has removed the file since the check above; but first it opened the file for its readers.
            Err(error) => return self.file.get().cloned().ok_or(error),
        };
        // Two threads at the same time may exceed the limit by one file, which does no harm.
        if !self.files.is_full() {
            self.keep(Arc::clone(&file) as _);
        }
        Ok(file)
    }

    /// Opens the segment's file once more, whether or not it is kept open already.
    ///
    /// # Errors
    ///
    /// Fails if the path no longer names the file, or if the operating system refuses.
    pub(super) fn open(&self) -> Result<File> {
        let file = File::open(&self.path).map_err(|error| self.name_error("open", error))?;
        self.check(&file.metadata().map_err(Error::io("read", &self.path))?)?;
        Ok(file)
    }

    /// Fails if the path no longer names the file of this segment: the file on the path may be another server's.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Moved`], or if the operating system refuses.
    pub(super) fn check_path(&self) -> Result<()> {
        self.check(&fs::metadata(&self.path).map_err(|error| self.name_error("read", error))?)
    }

    fn check(&self, found: &Metadata) -> Result<()> {
        if files::identity(found) == self.identity { Ok(()) } else { Err(self.moved()) }
    }

    fn name_error(&self, action: &'static str, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => self.moved(),
            _ => Error::io(action, &self.path)(error),
        }
    }

    fn moved(&self) -> Error {
        Error::Moved { path: self.path.clone() }
    }

    /// Keeps the segment's file open until the segment is dropped, also beyond the limit of open files. A merge calls
    /// this before it removes the file, which threads may still read.
    pub(super) fn keep_open(&self) -> Result<()> {
        self.keep(self.file()?);
        Ok(())
    }

    /// Reads the value at `place` of this segment into `buffer`, which grows as needed, and returns it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if the value is corrupt.
    pub(super) fn read<'b>(&self, place: ValuePosition, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let length = place.length as usize;
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let value = buffer.get_mut(..length).unwrap_or_default();
        let read = self.file()?.read_exact_at(value, place.offset);
        read.map_err(Error::io("read", &self.path))?;
        if crc32fast::hash(value) == place.sum {
            return Ok(value);
        }
        let (path, at) = (self.path.display(), place.offset);
        let detail = match key_value_headers::is_corrupt(value) {
            true => "it was corrupt before it was moved there",
            false => "its checksum is wrong",
        };
        let message = format!("{path} is corrupt at byte {at} ({length} bytes): {detail}");
        Err(Error::Library { engine: NAME, message })
    }
}

#[cfg(test)]
thread_local! {
    static BEFORE_OPEN: std::cell::Cell<Option<Box<dyn FnOnce()>>> = const { std::cell::Cell::new(None) };
}

/// Makes the next [`Segment::file`] of this thread that finds its file closed run `work` before it opens the file.
#[cfg(test)]
pub(super) fn before_open(work: impl FnOnce() + 'static) {
    BEFORE_OPEN.set(Some(Box::new(work)));
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.file.get().is_some() {
            self.files.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// All segments that are in use, with their numbers, in ascending order. The last one is the active segment.
#[derive(Default)]
pub(super) struct LiveSegments(VecDeque<(u32, Arc<Segment>)>);

impl LiveSegments {
    /// Returns segment `id`, or `None` if it does not exist.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<&Arc<Segment>> {
        self.0.get(self.position(id)?).map(|(_, segment)| segment)
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}

/// Segments that merges have removed since the [`View`] of a scan, or of a read of many keys, was created.
type Removed = Mutex<Vec<Arc<Segment>>>;

/// List of all segments of an open `bitcask` store, shared by its threads. No code panics while it holds one of the locks.
#[derive(Default)]
pub(super) struct Segments {
    live: ShardedLock<LiveSegments>,
    /// Total length of all sealed segments of the store, in bytes.
    sealed: AtomicU64,
    /// Removed segments that scans and reads of many keys may still need: one list for each [`View`] that exists.
    views: Mutex<Vec<Arc<Removed>>>,
}

impl Segments {
    /// Locks the list of segments for reading. A thread that reads positions from the key table while it holds the lock
    /// finds all their segments: a segment is listed before the first position in it is in the table, and until after
    /// the last one.
    pub(super) fn live(&self) -> ShardedLockReadGuard<'_, LiveSegments> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_mut(&self) -> ShardedLockWriteGuard<'_, LiveSegments> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `segment` to the list behind all others, whose numbers must be lower, and adds its `len` to the length of
    /// the sealed segments (0 for the active segment).
    pub(super) fn push(&self, segment: Segment) {
        self.sealed.fetch_add(segment.len, Ordering::Relaxed);
        self.live_mut().0.push_back((segment.id, Arc::new(segment)));
    }

    /// Adds `segment` as the new active segment, and marks the previous one as sealed, with a length of `len` bytes.
    pub(super) fn roll(&self, segment: Segment, len: u64) {
        if let Some((_, last)) = self.live_mut().0.back_mut() {
            *last = Arc::new(last.seal(len));
            self.sealed.fetch_add(len, Ordering::Relaxed);
        }
        self.push(segment);
    }

    /// Returns `true` if `segment` must not be removed yet: a running scan, or a read of many keys, may still read the
    /// segment, and its file, now closed, would have to be kept open beyond the limit of open files.
    pub(super) fn must_keep_for_scans(&self, segment: &Segment) -> bool {
        segment.file.get().is_none() && segment.files.is_full() && !lock(&self.views).is_empty()
    }

    /// Returns the total length of the sealed segments, in bytes.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.sealed.load(Ordering::Relaxed)
    }

    /// Returns the oldest sealed segment, or `None` if there is none.
    pub(super) fn oldest(&self) -> Option<Arc<Segment>> {
        let live = self.live();
        live.0.front().filter(|_| live.0.len() > 1).map(|(_, segment)| Arc::clone(segment))
    }

    /// Returns the sealed segments, in ascending order of their numbers.
    pub(super) fn sealed(&self) -> Vec<Arc<Segment>> {
        let live = self.live();
        let sealed = live.0.iter().take(live.0.len().saturating_sub(1));
        sealed.map(|(_, segment)| Arc::clone(segment)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.live().0.len()
    }

    /// Returns the numbers of all segments, in ascending order.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.live().0.iter().map(|(id, _)| *id).collect()
    }

    /// Removes sealed segment `id` from the list, not from the disk. The key table must have no position in it any
    /// more. Threads that have found the segment before can still read it.
    pub(super) fn remove(&self, id: u32) {
        let Some(segment) = self.live().find(id).cloned() else { return };
        // The order matters: a view that does not find the segment in the list looks among the removed ones.
        lock(&self.views).iter().for_each(|removed| lock(removed).push(Arc::clone(&segment)));
        let mut live = self.live_mut();
        if let Some(at) = live.position(id) {
            live.0.remove(at);
            self.sealed.fetch_sub(segment.len, Ordering::Relaxed);
        }
    }

    /// Returns a view of the segments, which finds those of all positions that are read from the key table after this
    /// call.
    pub(super) fn view(&self) -> View<'_> {
        let removed = Arc::default();
        lock(&self.views).push(Arc::clone(&removed));
        View { segments: self, removed }
    }
}

/// View of the segments, for scans and for reads of many keys: also finds segments that were removed since the view was
/// created.
pub(super) struct View<'s> {
    segments: &'s Segments,
    removed: Arc<Removed>,
}

impl View<'_> {
    /// Returns segment `id`, also if it was removed since the view was created, or `None` if it does not exist.
    pub(super) fn find(&self, id: u32) -> Option<Arc<Segment>> {
        let living = self.segments.live().find(id).cloned();
        living.or_else(|| lock(&self.removed).iter().find(|segment| segment.id == id).cloned())
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        lock(&self.segments.views).retain(|other| !Arc::ptr_eq(other, &self.removed));
    }
}
