//! Start of `bitcask`: opens or creates the files. Also checks them for `kvbench check`.

use super::{
    corrupt_keys::Corrupt,
    description::{INFO, NAME, OWN_FILES, advise_backup},
    hint::{self, Hint},
    key_table::KeyTable,
    lock::{LOCK, LOCK_TEXT, Lock},
    manifest::{self, FIRST_LEN, FRESH, MANIFEST, Manifest},
    reads_and_writes::Files,
    segment::{OpenFiles, Segment, Segments, id_of, name_of, path_of},
    segment_hint,
};
use crate::engine::{
    CheckReport, Error, OpenOptions, Result,
    aof::{Aof, EMPTY, newer_format, read_last, verbatim_id},
    files,
    memory_table::Table,
};
use std::{
    fs::{self, File, Metadata, TryLockError},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::Instant,
};

/// Returns `true` if `path` is a directory of `bitcask`, also if a partial backup lacks some of the files.
pub(super) fn recognise(path: &Path) -> bool {
    let has_segment = || {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| id_of(&name).is_some())
    };
    path.join(LOCK).is_file() || path.join(MANIFEST).is_file() || has_segment()
}

/// Returns `true` if a first start that was interrupted may have left a file of this name and length. A segment that is
/// longer than its first line has been written to, so the first start had ended.
fn is_first(name: &str, metadata: &Metadata) -> bool {
    let most = match name {
        LOCK => LOCK_TEXT.len() as u64,
        MANIFEST | FRESH => FIRST_LEN,
        _ if id_of(name) == Some(1) => EMPTY,
        _ => return false,
    };
    metadata.is_file() && metadata.len() <= most
}

/// Reads the manifest in `path`. Returns `None` if a version that had no manifest wrote the data.
///
/// # Errors
///
/// Fails if the manifest is missing otherwise, or cannot be read.
fn manifest_of(path: &Path) -> Result<Option<Manifest>> {
    let manifest = Manifest::read(path)?;
    let is_of_before = || fs::metadata(path.join(LOCK)).is_ok_and(|metadata| metadata.len() == 0);
    if manifest.is_none() && !is_of_before() {
        return Err(manifest::missing(path));
    }
    Ok(manifest)
}

/// Names of the files in a directory of `bitcask`, by kind.
#[derive(Default)]
struct Listing {
    /// Numbers of the segments, in ascending order.
    segments: Vec<u32>,
    /// Names of the hint files, each with the number of its segment.
    hints: Vec<(u32, String)>,
    /// Names of the files that the next start removes: merged and empty segments, unfinished files, and hint files
    /// without a segment.
    leftovers: Vec<String>,
    /// Number of the newest segment in the manifest, or 0 without a manifest.
    newest: u32,
}

impl Listing {
    /// Lists the files in `path`, and compares them with the manifest.
    ///
    /// # Errors
    ///
    /// Fails if a segment is missing, or if the directory cannot be read.
    fn of(path: &Path, manifest: Option<&Manifest>) -> Result<Self> {
        let mut listing = Self { newest: manifest.map_or(0, Manifest::newest), ..Self::default() };
        for entry in fs::read_dir(path).map_err(Error::io("list", path))? {
            let name = entry.map_err(Error::io("list", path))?.file_name();
            let Some(name) = name.to_str() else { continue };
            match (id_of(name), hint::segment_of(name)) {
                (Some(id), _) => listing.segments.push(id),
                (None, Some((id, true))) => listing.hints.push((id, name.to_owned())),
                (None, Some((_, false))) => listing.leftovers.push(name.to_owned()),
                (None, None) if name == FRESH => listing.leftovers.push(name.to_owned()),
                (None, None) => {}
            }
        }
        listing.segments.sort_unstable();
        if let Some(manifest) = manifest {
            listing.drop_merged(path, manifest)?;
        }
        listing.drop_empty(path)?;
        listing.check_for_gaps(path)?;
        if manifest.is_none() {
            listing.drop_stand_ins(path)?;
        }
        listing.drop_stray_hints();
        Ok(listing)
    }

    /// Moves merged segments to the list of leftovers, the files that a start removes: the segments that the manifest
    /// does not list and that are older than the newest one that it lists.
    ///
    /// # Errors
    ///
    /// Fails if a segment that the manifest lists is missing.
    fn drop_merged(&mut self, path: &Path, manifest: &Manifest) -> Result<()> {
        if let Some(id) = manifest.ids().find(|id| self.segments.binary_search(id).is_err()) {
            return Err(missing_segment(path, id, "though bitcask.segments lists it"));
        }
        let is_live = |id: &u32| *id > self.newest || manifest.lists(*id);
        let (live, merged): (Vec<_>, Vec<_>) = self.segments.iter().partition(|id| is_live(id));
        self.leftovers.extend(merged.into_iter().map(name_of));
        self.segments = live;
        Ok(())
    }

    /// Moves empty segments that are newer than all listed ones to the list of leftovers, the files that a start
    /// removes: their creation failed halfway, and writes have continued in the segment before them.
    fn drop_empty(&mut self, path: &Path) -> Result<()> {
        while let [_, .., last] = *self.segments {
            let at = path_of(path, last);
            if last <= self.newest || fs::metadata(&at).map_err(Error::io("read", at))?.len() > EMPTY {
                break;
            }
            self.segments.pop();
            self.leftovers.push(name_of(last));
        }
        Ok(())
    }

    /// Checks that no segment number is missing after the newest one in the manifest or, without a manifest, after the
    /// oldest segment.
    ///
    /// # Errors
    ///
    /// Fails if a number is missing, or if there is no segment at all.
    fn check_for_gaps(&self, path: &Path) -> Result<()> {
        let mut pairs = self.segments.array_windows();
        let gap = pairs.find(|[one, next]| *next > self.newest && one + 1 != *next);
        match gap {
            Some([one, _]) if self.newest == 0 => Err(missing_segment(path, one + 1, NEWER_UNLISTED)),
            Some([one, _]) => Err(missing_segment(path, one + 1, "but newer ones are")),
            None if self.segments.is_empty() => Err(missing_segment(path, 1, "nor is any other")),
            None => Ok(()),
        }
    }

    /// Moves the files without a byte that a user has put in place of merged segments, because the manifest was lost
    /// ([`NEWER_UNLISTED`]), to the list of leftovers. The last segment may be one whose creation was interrupted.
    fn drop_stand_ins(&mut self, path: &Path) -> Result<()> {
        let Some(last) = self.segments.pop() else { return Ok(()) };
        for id in std::mem::take(&mut self.segments) {
            let at = path_of(path, id);
            match fs::metadata(&at).map_err(Error::io("read", at))?.len() {
                0 => self.leftovers.push(name_of(id)),
                _ => self.segments.push(id),
            }
        }
        self.segments.push(last);
        Ok(())
    }

    /// Moves the names of the hint files whose segments do not exist to the list of leftovers, the files that a start
    /// removes.
    fn drop_stray_hints(&mut self) {
        let strays = self.hints.drain(..).filter(|(id, _)| self.segments.binary_search(id).is_err());
        self.leftovers.extend(strays.map(|(_, name)| name));
    }

    /// Returns the numbers of the sealed segments, and the number of the active segment (1 if there are none).
    fn split(&self) -> (&[u32], u32) {
        self.segments.split_last().map_or((&[], 1), |(last, sealed)| (sealed, *last))
    }
}

/// Reason to expect a segment that no manifest lists, with advice for a directory whose manifest is lost: a merge on a
/// nearly full disk may have removed a segment between others.
const NEWER_UNLISTED: &str =
    "but newer ones are; if you are sure that a merge has removed it, put an empty file there, else";

/// Returns the error that the file of segment `id` is missing. `though` is its text that says why the segment was
/// expected.
fn missing_segment(path: &Path, id: u32, though: &str) -> Error {
    let path = path_of(path, id);
    let message =
        format!("{} is not there, {though}; restore a backup of the whole directory", path.display());
    Error::Library { engine: NAME, message }
}

/// Opens the data of `bitcask` at the path in `options`, or creates them at a first start.
///
/// # Errors
///
/// Fails if another process has locked the data, if a file is missing, corrupt or of a newer version, or if the
/// operating system refuses.
pub(super) fn open(options: &OpenOptions) -> Result<Files> {
    let path = options.location.on_disk(NAME)?;
    let place = files::FirstDirectory::begin(path, NAME, is_first)?;
    if !place.is_first() && !path.join(LOCK).is_file() && Manifest::read(path)?.is_none() {
        // Checked before the lock file is created: with it, the data would look like those of a version without a
        // manifest.
        return Err(manifest::missing(path));
    }
    let lock = Lock::take(path)?;
    let path = &lock.directory().to_owned();
    let manifest = if place.is_first() { None } else { manifest_of(path)? };
    let listing = match place.is_first() {
        true => Listing { segments: vec![1], ..Listing::default() },
        false => Listing::of(path, manifest.as_ref())?,
    };
    for name in &listing.leftovers {
        files::remove_leftover(&path.join(name))?;
    }
    let most = options.max_files.clamp(INFO.open_files.least, INFO.open_files.most) - OWN_FILES;
    let files = load(lock, &listing, most)?;
    // The directory may have been moved while the segments were read.
    files.lock.check_path()?;
    let is_recorded = manifest == Some(Manifest::of(listing.segments));
    match record(&files, is_recorded) {
        // Data that existed before stay usable if the manifest cannot be written, for example on a full disk.
        Err(error) if !place.is_first() => log::warn!("{NAME}: the list of segments is as it was: {error}"),
        outcome => outcome?,
    }
    place.end()?;
    Ok(files)
}

/// Writes the manifest (the list of segments) unless `is_recorded` says that the one on disk lists all of them. Then
/// records in the lock file that there is a manifest.
fn record(files: &Files, is_recorded: bool) -> Result<()> {
    if is_recorded {
        files.set_recorded();
    } else {
        files.record()?;
    }
    files.lock.note_manifest()
}

fn load(lock: Lock, listing: &Listing, most_open: u64) -> Result<Files> {
    let path = lock.directory();
    let (started, open) = (Instant::now(), OpenFiles::new(most_open));
    let (segments, mut table) = (Segments::default(), KeyTable::default());
    let (sealed, last) = listing.split();
    for &id in sealed {
        let segment = Segment::sealed(path, id, &open)?;
        segment_hint::hint_of(&segment)?.apply(&mut table);
        segments.push(segment);
    }
    if last <= listing.newest {
        check_start(&path_of(path, last))?;
    }
    let mut hint = Hint::default();
    let active =
        Aof::open_verbatim(&path_of(path, last), NAME, &mut |restored| hint.restore(last, &restored));
    let active = active.map_err(advise_backup)?;
    hint.apply(&mut table);
    segments.push(Segment::active(path, last, &open, active.storage())?);
    if table.len() > 0 {
        let (keys, seconds) = (table.len(), started.elapsed().as_secs_f64());
        log::info!("{NAME}: {keys} keys of {} segments in {seconds:.2} s", sealed.len() + 1);
    }
    Ok(Files::new(lock, table, segments, open, (active, last)))
}

/// Checks the first line of the segment at `path`, which the manifest lists.
///
/// # Errors
///
/// Fails if the line is that of a newer format, or if the line is corrupt: it was synced before the segment was listed,
/// so no crash can have done that.
fn check_start(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    verbatim_id(&file).map(drop).map_err(|_| {
        let mut line = [0; EMPTY as usize];
        if file.read_exact_at(&mut line, 0).is_ok()
            && let Some(format) = newer_format(&line)
        {
            return Error::Newer { path: path.into(), format };
        }
        let detail = "its first line, which was on stable storage, is not there".into();
        advise_backup(Error::Corrupt { path: path.into(), offset: 0, detail, is_first_line: false })
    })
}

/// Takes a shared lock on the data at `path` for a check, and returns the lock file. Returns `None` if there is no lock
/// file, as in a partial backup. Fails if another process has the data open, for example a server.
fn lock_shared(path: &Path) -> Result<Option<File>> {
    let lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path.join(LOCK))(error)),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

/// Checks the data at `path` for corruption: reads every byte of all segments, and compares the hint files with them.
/// Corruption of a segment is an error. A missing or invalid hint file, and an incomplete write at the end of the last
/// segment, are only remarks of the report.
pub(super) fn check(path: &Path) -> Result<CheckReport> {
    let _lock = lock_shared(path)?;
    let listing = Listing::of(path, manifest_of(path)?.as_ref())?;
    let (sealed, last) = listing.split();
    let (open, mut table) = (OpenFiles::new(0), KeyTable::default());
    let (mut records, mut without_hint, mut corrupt) = (0, 0, Corrupt::default());
    for &id in sealed {
        let segment = Segment::sealed(path, id, &open)?;
        let beside = Hint::read(&segment.path, &*segment.file()?);
        let (hint, number) = match (corrupt.read(&segment), beside) {
            (Ok(read), beside) => {
                without_hint += usize::from(beside.as_ref() != Some(&read.0));
                read
            }
            // A start uses the hint file and does not fail, and each read checks its own value.
            (Err(error), Some(hint)) if error.is_corruption() => {
                corrupt.note(id, error);
                (hint, 0)
            }
            (Err(error), _) => return Err(error),
        };
        hint.apply(&mut table);
        records += number;
    }
    let at = path_of(path, last);
    if last <= listing.newest {
        check_start(&at)?;
    }
    let file = File::open(&at).map_err(Error::io("open", &at))?;
    let mut hint = Hint::default();
    let tail = read_last(&file, (NAME, &at), &mut |restored| {
        hint.restore(last, &restored);
        corrupt.note_moved(last, &restored);
    });
    let tail = tail.map_err(advise_backup)?;
    corrupt.note_tail((last, &at), &tail);
    hint.apply(&mut table);
    corrupt.end(path, &table)?;
    let torn = file.metadata().map_err(Error::io("read", &at))?.len() - tail.end;
    let mut remarks = Vec::new();
    if tail.torn {
        remarks.push(format!("the last {torn} bytes are an incomplete write; the next start cuts them off"));
    }
    if without_hint > 0 {
        remarks.push(format!("{without_hint} segments lack a sound hint; the next start reads them instead"));
    }
    let (keys, segments) = (table.len(), sealed.len() + 1);
    let holds = format!("{keys} keys, {} records in {segments} segments", records + tail.records);
    Ok(CheckReport { holds, remark: (!remarks.is_empty()).then(|| remarks.join("; ")) })
}
