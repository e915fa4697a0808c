//! Segments: the files, and the one list of them.

use super::{info::NAME, key_table::ValuePosition};
use crate::engine::{Error, Result, aof::Storage, files, key_value_headers};
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use std::{
    collections::VecDeque,
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

const SUFFIX: &str = "segment";

/// The file of a segment.
pub(super) fn path_of(directory: &Path, id: u32) -> PathBuf {
    directory.join(name_of(id))
}

/// Returns the file name of segment `id`.
pub(super) fn name_of(id: u32) -> String {
    format!("{id:010}.{SUFFIX}")
}

/// The number of the segment whose file has this name.
pub(super) fn id_of(name: &str) -> Option<u32> {
    let (id, suffix) = name.split_once('.')?;
    let is_number = id.len() == 10 && id.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && suffix == SUFFIX { id.parse().ok() } else { None }
}

/// Number of segments that are open all the time, and its limit.
pub(super) struct OpenFiles {
    open: AtomicU64,
    most: u64,
}

impl OpenFiles {
    pub(super) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { open: AtomicU64::new(0), most })
    }

    /// Returns `true` if one more would exceed the limit.
    fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.most
    }
}

/// A file of values.
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) path: PathBuf,
    /// Its bytes, once it is sealed.
    pub(super) len: u64,
    /// Device and inode of the file.
    identity: (u64, u64),
    /// Whether there is a hint beside it.
    pub(super) has_hint: AtomicBool,
    /// The file, if it is open all the time.
    file: OnceLock<Arc<dyn Storage>>,
    files: Arc<OpenFiles>,
}

impl Segment {
    /// A sealed segment, which is opened when it is read.
    pub(super) fn sealed(directory: &Path, id: u32, files: &Arc<OpenFiles>) -> Result<Self> {
        let path = path_of(directory, id);
        let metadata = fs::metadata(&path).map_err(Error::io("read", &path))?;
        let (len, identity) = (metadata.len(), files::identity(&metadata));
        let (has_hint, files) = (AtomicBool::new(false), Arc::clone(files));
        Ok(Self { id, path, len, identity, has_hint, file: OnceLock::new(), files })
    }

    /// The segment that is written to.
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

    /// Returns this segment, which was written to, as a sealed one of `len` bytes. Its file is closed with the last
    /// use of `self` if it would exceed the limit of open files.
    fn seal(&self, len: u64) -> Self {
        let (path, files) = (self.path.clone(), Arc::clone(&self.files));
        let (id, identity, has_hint) = (self.id, self.identity, AtomicBool::new(false));
        let sealed = Self { id, path, len, identity, has_hint, file: OnceLock::new(), files };
        if let Some(file) = self.file.get().filter(|_| !self.files.is_full()) {
            sealed.keep(Arc::clone(file));
        }
        sealed
    }

    fn keep(&self, file: Arc<dyn Storage>) {
        if self.file.set(file).is_ok() {
            self.files.open.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The file.
    pub(super) fn file(&self) -> Result<Arc<dyn Storage>> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        #[cfg(test)]
        BEFORE_OPEN.take().into_iter().for_each(|work| work());
        let file = match self.open() {
            Ok(file) => Arc::new(file),
            // A merge has removed the file since the look above; before that it opened the file for its readers.
            Err(error) => return self.file.get().cloned().ok_or(error),
        };
        // One too many, when two threads are here at once, does no harm.
        if !self.files.is_full() {
            self.keep(Arc::clone(&file) as _);
        }
        Ok(file)
    }

    /// Opens the file once more.
    ///
    /// # Errors
    ///
    /// Fails if the path no longer names the file, or if the operating system refuses.
    pub(super) fn open(&self) -> Result<File> {
        let file = File::open(&self.path).map_err(|error| self.name_error("open", error))?;
        self.check(&file.metadata().map_err(Error::io("read", &self.path))?)?;
        Ok(file)
    }

    /// Fails if the path no longer names the file: what is there may be of another server.
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

    /// Opens the file, which is about to lose its name, for as long as a thread may read it.
    pub(super) fn hold(&self) -> Result<()> {
        self.keep(self.file()?);
        Ok(())
    }

    /// Reads a value into `buffer`, which it may make longer.
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

/// Runs `work` on this thread when it has next found a segment closed, before it opens the file.
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

/// The segments and their numbers, the oldest first; the last one is written to.
#[derive(Default)]
pub(super) struct Live(VecDeque<(u32, Arc<Segment>)>);

impl Live {
    /// The segment of this number.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<&Arc<Segment>> {
        self.0.get(self.position(id)?).map(|(_, segment)| segment)
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}

/// The segments that were removed since somebody began to look.
type Removed = Mutex<Vec<Arc<Segment>>>;

/// All segments.
#[derive(Default)]
pub(super) struct Segments {
    live: ShardedLock<Live>,
    /// Bytes of all but the last.
    sealed: AtomicU64,
    views: Mutex<Vec<Arc<Removed>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing can panic while one of these is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Segments {
    /// The segments of this moment. Whoever reads places from the table while this is held finds the segments of all
    /// of them: a segment is here before its first place is in the table, and until after its last.
    pub(super) fn live(&self) -> ShardedLockReadGuard<'_, Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_mut(&self) -> ShardedLockWriteGuard<'_, Live> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sealed segment, or the first one that is written to. Its number is above all others.
    pub(super) fn push(&self, segment: Segment) {
        self.sealed.fetch_add(segment.len, Ordering::Relaxed);
        self.live_mut().0.push_back((segment.id, Arc::new(segment)));
    }

    /// Adds the next segment that is written to. The one before it is sealed and has `len` bytes.
    pub(super) fn roll(&self, segment: Segment, len: u64) {
        if let Some((_, last)) = self.live_mut().0.back_mut() {
            *last = Arc::new(last.seal(len));
            self.sealed.fetch_add(len, Ordering::Relaxed);
        }
        self.push(segment);
    }

    /// Returns `true` if a removal of `segment` may open a file beyond the limit, for a scan that began before.
    pub(super) fn is_crowded_by(&self, segment: &Segment) -> bool {
        segment.file.get().is_none() && segment.files.is_full() && !lock(&self.views).is_empty()
    }

    /// Bytes of all segments but the last.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.sealed.load(Ordering::Relaxed)
    }

    /// The oldest segment, unless it is the only one.
    pub(super) fn oldest(&self) -> Option<Arc<Segment>> {
        let live = self.live();
        live.0.front().filter(|_| live.0.len() > 1).map(|(_, segment)| Arc::clone(segment))
    }

    /// All but the last.
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

    /// Takes a sealed segment away, of which the table has no place any more. A thread that has it goes on reading it.
    pub(super) fn remove(&self, id: u32) {
        let Some(segment) = self.live().find(id).cloned() else { return };
        // In this order: a thread that does not find it among the living looks among the removed.
        lock(&self.views).iter().for_each(|removed| lock(removed).push(Arc::clone(&segment)));
        let mut live = self.live_mut();
        if let Some(at) = live.position(id) {
            live.0.remove(at);
            self.sealed.fetch_sub(segment.len, Ordering::Relaxed);
        }
    }

    /// A view for places that are read from the table over some time, all of them after this call.
    pub(super) fn view(&self) -> View<'_> {
        let removed = Arc::default();
        lock(&self.views).push(Arc::clone(&removed));
        View { segments: self, removed }
    }
}

/// Segments that one may read for as long as this is there, whatever is removed meanwhile.
pub(super) struct View<'s> {
    segments: &'s Segments,
    removed: Arc<Removed>,
}

impl View<'_> {
    /// The segment of this number.
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
