//! Opening and checking the files.

use super::{
    super::{
        Error, Location, OpenOptions, Result, Sound,
        aof::{Aof, EMPTY, read_last},
        first,
        memory::Table,
        path,
    },
    corrupt::Corrupt,
    directory::Directory,
    files::Files,
    hint::{self, Hint},
    info::{INFO, NAME, OWN_FILES, damage},
    reading,
    segment::{OpenFiles, Segment, Segments, id_of, path_of},
};
use std::{
    fs::{self, File, Metadata, TryLockError},
    io,
    path::Path,
    time::Instant,
};

/// The file that is locked while the data are open.
const LOCK: &str = "bitcask.lock";

/// Whether a directory holds such data.
pub(super) fn recognise(path: &Path) -> bool {
    path.join(LOCK).is_file()
}

/// A segment that has more than its first line is not of the first start.
fn is_first(name: &str, metadata: &Metadata) -> bool {
    let most = if name == LOCK { 0 } else { EMPTY };
    metadata.is_file() && (name == LOCK || id_of(name) == Some(1)) && metadata.len() <= most
}

/// The numbers of the segments, and the names of the hints that belong to none and of those half written.
#[derive(Default)]
struct Listing {
    segments: Vec<u32>,
    leftovers: Vec<String>,
}

impl Listing {
    fn of(path: &Path) -> Result<Self> {
        let (mut listing, mut hints) = (Self::default(), Vec::new());
        for entry in fs::read_dir(path).map_err(Error::io("list", path))? {
            let name = entry.map_err(Error::io("list", path))?.file_name();
            let Some(name) = name.to_str() else { continue };
            match (id_of(name), hint::is_of(name)) {
                (Some(id), _) => listing.segments.push(id),
                (None, Some(true)) => hints.push(name.to_owned()),
                (None, Some(false)) => listing.leftovers.push(name.to_owned()),
                (None, None) => {}
            }
        }
        listing.segments.sort_unstable();
        let is_of_none = |name: &String| {
            let segment = id_of(&Path::new(name).with_extension("segment").to_string_lossy());
            segment.is_none_or(|id| listing.segments.binary_search(&id).is_err())
        };
        listing.leftovers.extend(hints.into_iter().filter(is_of_none));
        Ok(listing)
    }

    /// Takes away the empty segments at the end: what is left when it was not possible to go over to a new segment,
    /// so that writes went on in the one before. Returns their numbers.
    fn take_empty(&mut self, path: &Path) -> Result<Vec<u32>> {
        let mut empty = Vec::new();
        while let [_, .., last] = *self.segments {
            let at = path_of(path, last);
            if fs::metadata(&at).map_err(Error::io("read", at))?.len() > EMPTY {
                break;
            }
            self.segments.pop();
            empty.push(last);
        }
        Ok(empty)
    }

    /// The numbers of the sealed segments, and that of the last. Those between the first and the last must be there.
    fn split(&self, path: &Path) -> Result<(&[u32], u32)> {
        let lacks = |id: u32| {
            let message = format!("{} is not there; restore a backup", path_of(path, id).display());
            Error::Library { engine: NAME, message }
        };
        let gap = self.segments.array_windows().find(|[one, next]| one + 1 != *next);
        match (gap, self.segments.split_last()) {
            (Some([one, _]), _) => Err(lacks(one + 1)),
            (None, None) => Err(lacks(1)),
            (None, Some((last, sealed))) => Ok((sealed, *last)),
        }
    }
}

/// Opens or creates the data. Returns also their lock.
pub(super) fn open(options: &OpenOptions) -> Result<(Files, File)> {
    let Location::Path(path) = &options.location else {
        return Err(Error::Unsupported { engine: NAME, what: "needs a --path on disk".into() });
    };
    let place = first::Directory::begin(path, NAME, is_first)?;
    let lock = path::open_locked(&path.join(LOCK), path)?;
    let path = &path.canonicalize().map_err(Error::io("open", path))?;
    let mut listing = Listing::of(path)?;
    for id in listing.take_empty(path)? {
        path::remove_leftover(&path_of(path, id))?;
    }
    for name in &listing.leftovers {
        path::remove_leftover(&path.join(name))?;
    }
    if place.is_first() && listing.segments.is_empty() {
        listing.segments.push(1);
    }
    let most = options.max_files.clamp(INFO.open_files.least, INFO.open_files.most) - OWN_FILES;
    let files = load(path, &listing, most)?;
    place.end()?;
    Ok((files, lock))
}

fn load(path: &Path, listing: &Listing, most_open: u64) -> Result<Files> {
    let (started, open) = (Instant::now(), OpenFiles::new(most_open));
    let (segments, mut table) = (Segments::default(), Directory::default());
    let (sealed, last) = listing.split(path)?;
    for &id in sealed {
        let segment = Segment::sealed(path, id, &open)?;
        reading::hint_of(&segment)?.apply(&mut table);
        segments.push(segment);
    }
    let mut hint = Hint::default();
    let active =
        Aof::open_verbatim(&path_of(path, last), NAME, &mut |restored| hint.restore(last, &restored));
    let active = active.map_err(damage)?;
    hint.apply(&mut table);
    segments.push(Segment::active(path, last, &open, active.storage()));
    if table.len() > 0 {
        let (keys, seconds) = (table.len(), started.elapsed().as_secs_f64());
        log::info!("{NAME}: {keys} keys of {} segments in {seconds:.2} s", sealed.len() + 1);
    }
    Ok(Files::new(path.to_owned(), table, segments, open, (active, last)))
}

/// Reads every byte of all segments.
pub(super) fn check(path: &Path) -> Result<Sound> {
    let lock = path.join(LOCK);
    let lock = File::open(&lock).map_err(Error::io("open", lock))?;
    match lock.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
    }
    let mut listing = Listing::of(path)?;
    listing.take_empty(path)?;
    let (sealed, last) = listing.split(path)?;
    let (open, mut table) = (OpenFiles::new(0), Directory::default());
    let (mut records, mut without_hint, mut corrupt) = (0, 0, Corrupt::default());
    for &id in sealed {
        let segment = Segment::sealed(path, id, &open)?;
        let beside = Hint::read(&segment.path, &*segment.file()?);
        let (hint, number) = match (corrupt.read(&segment), beside) {
            (Ok(read), beside) => {
                without_hint += usize::from(beside.as_ref() != Some(&read.0));
                read
            }
            // A start takes the hint, and each read compares its own value.
            (Err(error), Some(hint)) if error.is_damage() => {
                corrupt.note(id, error);
                (hint, 0)
            }
            (Err(error), _) => return Err(error),
        };
        hint.apply(&mut table);
        records += number;
    }
    let at = path_of(path, last);
    let file = File::open(&at).map_err(Error::io("open", &at))?;
    let mut hint = Hint::default();
    let tail = read_last(&file, (NAME, &at), &mut |restored| {
        hint.restore(last, &restored);
        corrupt.look_at(last, &restored);
    });
    let tail = tail.map_err(damage)?;
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
    Ok(Sound { holds, remark: (!remarks.is_empty()).then(|| remarks.join("; ")) })
}

/// Lets others open the data.
pub(super) fn unlock(lock: &File, path: &Path) -> Result<()> {
    let unlocked: io::Result<()> = lock.unlock();
    unlocked.map_err(Error::io("unlock", path))
}
