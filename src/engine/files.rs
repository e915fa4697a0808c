//! Helpers of all engines for the files of their data: locks, names, sizes, and first starts that may be interrupted.
//!
//! First starts: until the engine has created all its files, they cannot be recognised: a kill, a power
//! cut or a full disk would leave a path that no engine accepts. So at any time it is known which files belong to a
//! first start that has not ended; no client has written data to them, and the next start removes them.
//!
//! In a directory, a mark file does that: it is written and synced before the engine creates its first file, and
//! removed when the engine is open. Data that are one file are created beside their final path, and renamed when
//! they are complete.

use super::{Error, Location, Result};
use std::{
    fs::{self, File, Metadata, Permissions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tempfile::{Builder, NamedTempFile};

impl Location {
    /// Returns the path of data that an engine can only have on this machine's disk.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the data are elsewhere.
    pub fn on_disk(&self, engine: &'static str) -> Result<&Path> {
        self.path().ok_or_else(|| Error::Unsupported { engine, what: "needs a --path on disk".into() })
    }
}

/// Opens or creates the file at `path` and locks it for this process, as a part of the data at `data`.
///
/// # Errors
///
/// [`Error::Locked`] if another process has the file, and [`Error::Io`].
pub fn open_locked(path: &Path, data: &Path) -> Result<File> {
    loop {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(Error::io("open", path))?;
        lock(&file, data)?;
        // The process that had the data open may have replaced the file at `path` after we opened the old one, and
        // unlocked the old one before we locked it: then our file is no longer part of the data.
        if is_at(&file, path)? {
            return Ok(file);
        }
    }
}

/// Returns `true` if `path` is a name of the open `file`.
pub(super) fn is_at(file: &File, path: &Path) -> Result<bool> {
    let held = file.metadata().map_err(Error::io("read", path))?;
    match fs::metadata(path) {
        Ok(now) => Ok(identity(&now) == identity(&held)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Returns the device and the inode of a file: no other file has both for as long as this one exists or is open.
pub(super) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Locks an open file of the data at `data`.
///
/// # Errors
///
/// [`Error::Locked`] if another process has the lock, and [`Error::Io`].
pub fn lock(file: &File, data: &Path) -> Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::Locked { path: data.into() },
        TryLockError::Error(source) => Error::Io { action: "lock", path: data.into(), source },
    })
}

/// Returns the length of a file in bytes, 0 if it does not exist.
#[allow(dead_code, reason = "for engines that a build may lack")]
pub(super) fn length(path: &Path) -> Result<u64> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Removes the file `path`, which an operation that did not finish may have left. No error if it does not exist.
pub(super) fn remove_leftover(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Returns the directory that contains the name of `path`; `.` if the path is only a name.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns the size and the free space of the file system of `directory`, in bytes, or `None` if they cannot be read.
pub fn file_system_size(directory: &Path) -> Option<(u64, u64)> {
    let found = nix::sys::statvfs::statvfs(directory).ok()?;
    let bytes = |blocks: f64| (blocks * found.fragment_size() as f64) as u64;
    let (total, free) = (bytes(found.blocks() as f64), bytes(found.blocks_available() as f64));
    (total > 0).then_some((total, free))
}

/// Reserves the disk space of a file that an engine maps: a thread that writes to a page of the map for which a
/// full disk has no block kills the process. Must be called before the engine opens the file: POSIX releases a
/// file's locks when any of its descriptors is closed.
///
/// # Errors
///
/// [`Error::Io`] if the file cannot be opened, or the disk has no space for it.
#[cfg(target_os = "linux")]
pub fn reserve(path: &Path, bytes: u64) -> Result<()> {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(Error::io("open", path))?;
    allocate(&file, 0, bytes).map_err(Error::io("reserve the space of", path))
}

/// Does nothing: only Linux reserves space here.
///
/// # Errors
///
/// Never fails.
#[cfg(not(target_os = "linux"))]
pub fn reserve(_: &Path, _: u64) -> Result<()> {
    Ok(())
}

/// Allocates the disk space of `length` bytes of a file from `offset` on, and extends the file to their end.
///
/// # Errors
///
/// Fails if the disk has no space, or if the operating system refuses.
#[cfg(target_os = "linux")]
pub fn allocate(file: &File, offset: u64, length: u64) -> io::Result<()> {
    Ok(nix::fcntl::posix_fallocate(file, offset.cast_signed(), length.cast_signed())?)
}

/// Does nothing: only Linux allocates space here.
///
/// # Errors
///
/// Never fails.
#[cfg(not(target_os = "linux"))]
pub fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}

/// Replaces the file `path` atomically by one with the contents `bytes`, and syncs it. Keeps its permissions, and a
/// symbolic link to it. Creates the file if it does not exist.
///
/// # Errors
///
/// Fails if the file cannot be created in its directory, written or synced.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (mut file, target) = new_version(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    File::open(parent(&target))?.sync_all()
}

/// Creates a temporary file in the directory of the file `path`, with its permissions if it exists, to replace it. Also
/// returns its path without symbolic links: a new version of the file must not replace a link to it.
///
/// # Errors
///
/// Fails if no file can be created in the directory.
pub fn new_version(path: &Path) -> io::Result<(NamedTempFile, PathBuf)> {
    let target = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut builder = Builder::new();
    builder.prefix("kvbench-new.").permissions(Permissions::from_mode(0o666));
    let file = builder.tempfile_in(parent(&target))?;
    if let Ok(present) = fs::metadata(&target) {
        file.as_file().set_permissions(present.permissions())?;
    }
    Ok((file, target))
}

/// Returns an error if this user may not read the file or the directory `path`: no engine recognises such data.
///
/// # Errors
///
/// [`Error::Io`].
pub fn check_readable(path: &Path) -> Result<()> {
    let read = || match path.is_dir() {
        true => fs::read_dir(path).map(drop),
        false => File::open(path)?.read(&mut [0]).map(drop),
    };
    read().map_err(Error::io("read", path))
}

/// Returns the first bytes of a file, at most `most`; none if it cannot be read.
pub fn read_start(path: &Path, most: usize) -> Vec<u8> {
    let mut start = Vec::with_capacity(most);
    let read = File::open(path).and_then(|file| file.take(most as u64).read_to_end(&mut start));
    read.map_or_else(|_| Vec::new(), |_| start)
}

/// Syncs a file or a directory. The sync of a directory makes the names in it durable: otherwise a file is durable but
/// may have no name, or its old one.
///
/// # Errors
///
/// [`Error::Io`] if the file or the directory cannot be opened or synced.
pub fn sync_path(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("sync", path))
}

/// Returns the number of bytes allocated on disk below `path` (a file or a directory, or a symbolic link to one). Files
/// that vanish meanwhile, as compactions delete them, count as 0; a directory that vanishes is an error. Below `path`,
/// symbolic links are not followed.
///
/// # Errors
///
/// [`Error::Io`] if a file or a directory below `path` cannot be examined.
pub fn disk_size(path: &Path) -> Result<u64> {
    size_of_tree(path, fs::metadata(path))
}

fn size_of_tree(path: &Path, metadata: io::Result<Metadata>) -> Result<u64> {
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    if !metadata.is_dir() {
        return Ok(allocated(&metadata));
    }
    let mut total = 0;
    for entry in fs::read_dir(path).map_err(Error::io("read", path))? {
        let entry = entry.map_err(Error::io("read", path))?;
        total += size_of_tree(&entry.path(), entry.metadata())?;
    }
    Ok(total)
}

/// Returns the allocated size of a file in bytes, which differs from the length of sparse files (LMDB's map,
/// preallocated logs).
fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}

/// Name of the mark file: the other files in its directory belong to a first start that has not ended.
const MARK: &str = "kvbench-first-start";

/// Directory that a file system creates in its root directory.
const LOST_AND_FOUND: &str = "lost+found";

/// Returns the text of the mark file. A mark with any other text, such as a part of this one, was not followed by
/// any other file.
fn text(engine: &str) -> String {
    format!(
        "The first start of kvbench --store {engine} has not ended here.\n\
         The next one removes what this one has made, and begins again.\n"
    )
}

/// Returns `true` if the directory `path` has no data of clients, so that `engine` may make its first start there: the
/// directory is empty (but for a mark file and `lost+found`), or the first start of `engine` has begun there and has
/// not ended.
pub(super) fn is_unused(path: &Path, engine: &str) -> Result<bool> {
    Ok(has_unfinished_start(path, engine) || entries(path)?.is_empty())
}

/// Returns `true` if the first start of an engine has begun in a directory, and has not ended.
pub(super) fn has_unfinished_start(path: &Path, engine: &str) -> bool {
    fs::read(path.join(MARK)).is_ok_and(|found| found == text(engine).as_bytes())
}

/// Returns the entries of the directory `path`, without the mark file of a first start and `lost+found`.
fn entries(path: &Path) -> Result<Vec<fs::DirEntry>> {
    let read = |error| Error::io("read", path)(error);
    let all: io::Result<Vec<_>> = fs::read_dir(path).map_err(read)?.collect();
    let mut entries = all.map_err(Error::io("read", path))?;
    entries.retain(|entry| entry.file_name() != MARK && entry.file_name() != LOST_AND_FOUND);
    Ok(entries)
}

/// Function that returns `true` if an interrupted first start of an engine may have left the file, or the empty
/// directory, of this name and with this metadata. It returns `false` for every file that may contain data of clients.
pub type IsFirst = fn(&str, &Metadata) -> bool;

/// Directory of an engine's data while the engine is being opened. During the engine's first start there, the directory
/// contains a mark file, so that the next start can remove the files of an interrupted one.
#[must_use = "to be ended when the engine is open"]
pub struct FirstDirectory<'a> {
    path: &'a Path,
    /// Locked mark file during a first start of the engine; `None` if this is no first start.
    mark: Option<File>,
}

impl<'a> FirstDirectory<'a> {
    /// Creates the directory unless it exists; its parent must exist. Removes what an interrupted first start of
    /// this engine has left, and creates the mark if the directory is otherwise empty.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another process starts there, [`Error::Interrupted`] if the directory of an interrupted
    /// first start has a file that the interrupted start cannot have created, and [`Error::Io`].
    pub fn begin(path: &'a Path, engine: &'static str, is_first: IsFirst) -> Result<Self> {
        create_dir(path)?;
        if !is_unused(path, engine)? {
            return Ok(Self { path, mark: None });
        }
        let at = path.join(MARK);
        remove_other_mark(&at, path)?;
        let mark = open_locked(&at, path)?;
        // Checked again, because another process may have had the lock.
        if has_unfinished_start(path, engine) {
            remove_first_files(path, engine, is_first)?;
            return Ok(Self { path, mark: Some(mark) });
        }
        if !entries(path)?.is_empty() {
            remove_leftover(&at)?;
            return Ok(Self { path, mark: None });
        }
        if let Err(error) = write_mark(&mark, engine) {
            // An incomplete mark has no effect; its removal leaves nothing behind.
            let _best_effort = remove_leftover(&at);
            return Err(Error::io("write", at)(error));
        }
        sync_path(path)?;
        Ok(Self { path, mark: Some(mark) })
    }

    /// Returns `true` during the engine's first start in this directory: no earlier start has got as far as
    /// [`end`](Self::end), so the directory has no data of clients.
    pub fn is_first(&self) -> bool {
        self.mark.is_some()
    }

    /// Ends a first start by removing the mark file; does nothing at a later start. The engine's files must be durable,
    /// and must not contain data of clients yet: if the mark still exists, or exists again after a power cut, the next
    /// start removes the files.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a name cannot be changed or synced.
    pub fn end(self) -> Result<()> {
        if self.mark.is_some() {
            let at = self.path.join(MARK);
            fs::remove_file(&at).map_err(Error::io("remove", at))?;
            sync_path(self.path)?;
        }
        Ok(())
    }
}

/// Removes the directory that an interrupted first start of an engine with [`FirstTree`] has left under the mark's name
/// `at` in the directory `path`: it has no data of clients.
fn remove_other_mark(at: &Path, path: &Path) -> Result<()> {
    if !at.is_dir() {
        return Ok(());
    }
    let locked = File::open(path).map_err(Error::io("open", path))?;
    lock(&locked, path)?;
    // Another process may have replaced it by a mark of its own meanwhile.
    if at.is_dir() { remove_mark(at, path) } else { Ok(()) }
}

/// Removes the mark `at` of an interrupted first start in the directory `path`, which is a file or a directory, unless
/// another process has done so.
///
/// # Errors
///
/// [`Error::Locked`] if the mark is of a start that has not ended, and [`Error::Io`].
fn remove_mark(at: &Path, path: &Path) -> Result<()> {
    let removed = if at.is_file() {
        let mark = File::open(at).map_err(Error::io("open", at))?;
        lock(&mark, path)?;
        fs::remove_file(at)
    } else {
        fs::remove_dir_all(at)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", at)(error)),
        _ => Ok(()),
    }
}

fn write_mark(mut mark: &File, engine: &str) -> io::Result<()> {
    mark.set_len(0)?;
    mark.write_all(text(engine).as_bytes())?;
    mark.sync_all()
}

/// Creates the directory `path` unless it exists. Its name is synced, or a power cut could remove the directory
/// with everything that was synced inside. An existing directory is synced, too: a start that was killed may not
/// have synced its name, or names within.
///
/// # Errors
///
/// [`Error::Io`] if `path` is not a directory, or cannot be created or synced.
pub fn create_dir(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => sync_path(parent(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
            sync_path(path)?;
            match sync_path(parent(path)) {
                // A user who may not list the parent did not create the name either.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                outcome => outcome,
            }
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_symlink() && !path.exists() => {
            let what = "the path is a symbolic link, and what it names does not exist";
            Err(Error::io("create", path)(io::Error::new(io::ErrorKind::NotFound, what)))
        }
        Err(error) => Err(Error::io("create", path)(error)),
    }
}

/// Removes the files that an interrupted first start of `engine` has left in the directory `path`, but not the mark
/// file ([`MARK`]). If `is_first` returns `false` for one of them, removes none and fails.
fn remove_first_files(path: &Path, engine: &'static str, is_first: IsFirst) -> Result<()> {
    let entries = entries(path)?;
    for entry in &entries {
        let name = entry.file_name();
        let metadata = entry.metadata().map_err(Error::io("read", entry.path()))?;
        let is_ours = !metadata.is_symlink() && name.to_str().is_some_and(|name| is_first(name, &metadata));
        if !is_ours {
            let found = name.to_string_lossy().into_owned();
            return Err(Error::Interrupted { path: path.into(), engine, found });
        }
    }
    for entry in entries {
        let at = entry.path();
        let is_dir = entry.file_type().is_ok_and(|file_type| file_type.is_dir());
        // A directory that is not empty stays, and so does the mark.
        let removed = if is_dir { fs::remove_dir(&at) } else { fs::remove_file(&at) };
        removed.map_err(Error::io("remove", at))?;
    }
    sync_path(path)
}

/// Directory that an engine fills with subdirectories, created beside its final path under the mark's name: no
/// client has written data to it, and the next start removes it.
#[must_use = "to be ended when the engine's files are whole"]
pub struct FirstTree {
    directory: PathBuf,
    path: PathBuf,
    place: PathBuf,
    /// Directory that contains the temporary and the final path, locked against other processes that would begin a
    /// first start there too.
    _directory: File,
}

impl FirstTree {
    /// Prepares the creation of the directory `name` within `directory`, which is created unless it exists. Returns
    /// `None` if `name` exists.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another process starts there, and [`Error::Io`].
    pub fn begin(directory: &Path, name: &str) -> Result<Option<Self>> {
        create_dir(directory)?;
        let place = directory.join(name);
        if place.exists() {
            return Ok(None);
        }
        let locked = File::open(directory).map_err(Error::io("open", directory))?;
        lock(&locked, directory)?;
        let path = directory.join(MARK);
        // A mark of another engine alone does not prevent the start.
        remove_mark(&path, directory)?;
        // Another process may have had the lock.
        let is_first = !place.exists();
        Ok(is_first.then(|| Self { directory: directory.into(), path, place, _directory: locked }))
    }

    /// Returns the path at which the engine must create its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the directory to its final path, after a sync of all that it contains: an engine may rely on file
    /// names when it has synced only the files.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a name cannot be changed or synced.
    pub fn end(self) -> Result<()> {
        sync_all(&self.path)?;
        fs::rename(&self.path, &self.place).map_err(Error::io("rename", &self.path))?;
        sync_path(&self.directory)
    }
}

/// Syncs a file, or a directory with all that it contains.
fn sync_all(path: &Path) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(Error::io("read", path))? {
            sync_all(&entry.map_err(Error::io("read", path))?.path())?;
        }
    }
    sync_path(path)
}

/// Data file of an engine that gets its final name when it is complete.
#[must_use = "to be ended when the file is whole"]
pub struct FirstFile {
    /// Final path of the file, without symbolic links.
    place: PathBuf,
    /// Path at which the engine creates the file before it is renamed.
    path: PathBuf,
    /// Empty file at the final path, locked against other processes that would begin a first start there too.
    _empty: File,
}

impl FirstFile {
    /// Begins the first start of an engine whose data are the file `path`: creates an empty file under another name,
    /// which [`FirstFile::end`] renames. Returns `None` if `path` has contents or is no file.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another process has the file, and [`Error::Io`].
    pub fn begin(path: &Path) -> Result<Option<Self>> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() || metadata.len() > 0) {
            return Ok(None);
        }
        let empty = open_locked(path, path)?;
        let metadata = empty.metadata().map_err(Error::io("open", path))?;
        if metadata.len() > 0 {
            return Ok(None);
        }
        let place = path.canonicalize().map_err(Error::io("open", path))?;
        let fresh = place.with_added_extension("first-start");
        remove_leftover(&fresh)?;
        let file = File::create_new(&fresh).map_err(Error::io("create", &fresh))?;
        let first = Self { place, path: fresh, _empty: empty };
        file.set_permissions(metadata.permissions()).map_err(Error::io("create", &first.path))?;
        Ok(Some(first))
    }

    /// Returns the path at which the engine must create the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file, which must be complete and synced, to its final path.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a name cannot be changed or synced.
    pub fn end(self) -> Result<()> {
        fs::rename(&self.path, &self.place).map_err(Error::io("rename", &self.path))?;
        sync_path(parent(&self.place))
    }
}

/// Removes the temporary file of a first start that has not ended.
impl Drop for FirstFile {
    fn drop(&mut self) {
        let _best_effort = remove_leftover(&self.path);
    }
}
