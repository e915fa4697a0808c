//! Opening an append-only file (AOF).

use super::{
    super::{Batch, Error, Result, files, refusal::Refusal},
    file::{self, Storage},
    frame::{self, FrameChain, Header},
    log::{Aof, Current, Writer},
    record::Form,
    replay::{self, Part, ReplayEnd},
};
use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Instant,
};

/// Returns `true` if `path` looks like an append-only file of `map`, `btree` or Redis, or like the remains of
/// one that was never written to.
pub(in super::super) fn recognise(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    if !metadata.is_file() || metadata.len() == 0 {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_START).read_to_end(&mut start));
    read.is_ok() && (looks_like_a_log(&start) || metadata.len() <= EMPTY && is_blank(path))
}

/// Number of bytes at the start of a file that decide whether it is an AOF.
const LONGEST_START: u64 = (frame::START + frame::HEADER) as u64;

fn looks_like_a_log(start: &[u8]) -> bool {
    matches!(start, [b'*', b'0'..=b'9', ..]) || !is_segment(start) && looks_framed(start)
}

/// Returns `true` if these are the first bytes of a `bitcask` segment, which is useless without its store.
pub(super) fn is_segment(start: &[u8]) -> bool {
    frame::read_start(start, 0).is_ok_and(|chain| chain.form() != Form::Redis)
}

fn looks_framed(start: &[u8]) -> bool {
    // If the first line is corrupt, the first frame decides.
    let first_frame = || {
        let rest = start.get(frame::START..).unwrap_or_default();
        Header::read(rest, frame::START as u64).is_ok()
    };
    [b"#TS:".as_slice(), frame::START_TAG].iter().any(|tag| start.starts_with(tag)) || first_frame()
}

/// Returns `true` if the file is the remains of an AOF that was never written to: zeros, or part of a start
/// line.
fn is_blank(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| {
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        frame::START_TAG.starts_with(bytes.get(..end).unwrap_or_default())
    })
}

impl Aof {
    /// Opens or creates the AOF at `path` and passes its writes to `restore`, which first gets a `Clear`.
    pub(in super::super) fn open(
        path: &Path,
        engine: &'static str,
        restore: &mut impl FnMut(&Batch<'_>),
    ) -> Result<Self> {
        Self::open_as(Form::Redis, path, engine, |mut file, len, names| {
            if let Err(error) = file::remove_rewritten(names.1) {
                log::warn!("{engine}: {error}");
            }
            replay_whole(&mut file, len, names, restore)
        })
    }

    /// Opens or creates an AOF in [`Form::Raw`] and passes its writes to `restore`, which discards what it has
    /// whenever it gets [`Restored::Begin`].
    pub(in super::super) fn open_verbatim(
        path: &Path,
        engine: &'static str,
        restore: &mut impl FnMut(Restored<'_>),
    ) -> Result<Self> {
        Self::open_as(Form::Raw, path, engine, |mut file, len, names| {
            replay_verbatim(&mut file, len, names, restore)
        })
    }

    fn open_as(
        form: Form,
        path: &Path,
        engine: &'static str,
        read: impl FnOnce(&File, u64, (&'static str, &Path)) -> Result<ReplayEnd>,
    ) -> Result<Self> {
        let (file, path) = file::open_locked(path, engine)?;
        let tail = load(&file, (engine, &path), read)?;
        Self::start(form, Arc::new(file), (engine, path), tail)
    }

    /// Creates a log in [`Form::Raw`] at `path`.
    ///
    /// # Errors
    ///
    /// Fails if there is a file at `path`, or if the operating system refuses; it then leaves none behind.
    pub(in super::super) fn create_verbatim(path: &Path, engine: &'static str) -> Result<Self> {
        let file = Arc::new(file::create_locked(path)?);
        let names = (engine, path.to_owned());
        let created = Self::start(Form::Raw, Arc::clone(&file), names, ReplayEnd::default());
        if created.is_err() && files::is_at(&file, path).unwrap_or_default() {
            let _best_effort = files::remove_leftover(path);
        }
        created
    }

    /// Returns the open log, whose next write goes behind `tail`, the end of its replay. Syncs the file and its name
    /// before; an empty file first gets a start line.
    fn start(
        form: Form,
        file: Arc<File>,
        (engine, path): (&'static str, PathBuf),
        tail: ReplayEnd,
    ) -> Result<Self> {
        let ReplayEnd { mut end, mut chain, database, lacks_sync_marker, synced, .. } = tail;
        // A kernel whose sync has failed counts the pages as written, but still returns them: a sync alone would not make
        // durable what the replay has read. (A log without frames is that of another program.)
        if chain.is_some() {
            write_again(&file, synced..end).map_err(Error::io("write", &path))?;
        }
        if end == 0 {
            let fresh = FrameChain::random(form);
            let line = fresh.start_line(0);
            Storage::write_all_at(&*file, &line, 0).map_err(Error::io("write", &path))?;
            (end, chain) = (line.len() as u64, Some(fresh));
        }
        // A killed process may have left bytes, or the name of a rewritten file, in the kernel's caches only.
        // Clients are about to read them, so a power cut must not remove them.
        file.sync_data().map_err(Error::io("sync", &path))?;
        files::sync_path(files::parent(&path))?;
        let mut writer = Writer {
            buffer: Vec::new(),
            places: Vec::new(),
            chain,
            database,
            prepared: end,
            lacks_sync_marker,
            mark: 0,
        };
        writer.mark(&*file, end);
        Ok(Self {
            engine,
            path,
            writer: Mutex::new(writer),
            current: Mutex::new(Current { storage: file, synced: end }),
            syncing: Mutex::default(),
            len: end.into(),
            base: end.into(),
            refusal: Refusal::default(),
            cancelled: AtomicBool::new(false),
        })
    }
}

/// Writes the bytes of a range of the file once more, unchanged, so that the next sync writes them to the disk.
fn write_again(file: &File, range: Range<u64>) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    let mut at = range.start;
    let mut buffer = Vec::new();
    while at < range.end {
        buffer.resize(usize::try_from(range.end - at).map_or(PIECE, |left| left.min(PIECE)), 0);
        Storage::read_exact_at(file, &mut buffer, at)?;
        Storage::write_all_at(file, &buffer, at)?;
        at += buffer.len() as u64;
    }
    Ok(())
}

/// Replays the AOF with `read`, and cuts off what is behind its last complete write: an incomplete write, zeros or
/// padding.
fn load(
    file: &File,
    (engine, path): (&'static str, &Path),
    read: impl FnOnce(&File, u64, (&'static str, &Path)) -> Result<ReplayEnd>,
) -> Result<ReplayEnd> {
    let started = Instant::now();
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    let tail = read(file, len, (engine, path))?;
    if tail.end < len {
        if tail.torn {
            let (cut, at) = (len - tail.end, tail.end);
            log::warn!(
                "{engine}: {} ends with an incomplete write, or with damage: cut off the last {cut} bytes, from byte \
                {at}; the log does not say that they were synced",
                path.display()
            );
        }
        file.set_len(tail.end).map_err(Error::io("truncate", path))?;
    }
    if tail.corrupt > 0 {
        log::warn!("{engine}: {}", corrupt_values(path, tail.corrupt));
    }
    if len > 0 {
        let (records, seconds) = (tail.records, started.elapsed().as_secs_f64());
        log::info!("{engine}: replayed {records} records of {} in {seconds:.2} s", path.display());
    }
    Ok(tail)
}

/// Returns the text of an error or warning about `count` corrupt values in a log in [`Form::Raw`].
pub(in super::super) fn corrupt_values(path: &Path, count: u64) -> String {
    format!(
        "{} has {count} corrupt values; `kvbench check` names the keys that have one of them",
        path.display()
    )
}

/// Passes the writes of an AOF to `restore`, a `Clear` first. If the last group (`MULTI`) has no `EXEC`, passes the
/// `Clear` and the writes before that group once more.
pub(super) fn replay_whole(
    source: &mut (impl Read + Seek),
    len: u64,
    (engine, path): (&'static str, &Path),
    restore: &mut impl FnMut(&Batch<'_>),
) -> Result<ReplayEnd> {
    let mut clear = Batch::default();
    clear.clear();
    restore(&clear);
    let tail = replay::replay(&mut *source, len, (engine, path), restore)?;
    if tail.overran {
        // Writes are passed on as they are read, not held back until their group ends, which can be of any
        // size. So after a crash inside a group, everything is read twice.
        restore(&clear);
        source.rewind().map_err(Error::io("read", path))?;
        replay::replay(source, tail.end, (engine, path), restore)?;
    }
    Ok(tail)
}

/// Event of the replay of a log in [`Form::Raw`].
pub(in super::super) enum Restored<'b> {
    /// The replay starts, or starts again: earlier writes do not count.
    Begin,
    /// The next writes of the replay, and the part of the file that holds their values.
    Writes(&'b Batch<'b>, Part<'b>),
}

fn replay_verbatim(
    source: &mut (impl Read + Seek),
    len: u64,
    (engine, path): (&'static str, &Path),
    restore: &mut impl FnMut(Restored<'_>),
) -> Result<ReplayEnd> {
    let mut survey = |len, synced| {
        source.rewind().map_err(Error::io("read", path))?;
        restore(Restored::Begin);
        let mut sink = |batch: &Batch<'_>, part: Part<'_>| restore(Restored::Writes(batch, part));
        replay::survey_as(Form::Raw, &mut *source, (len, synced), (engine, path), &mut sink)
    };
    let (mut synced, mut found) = (0, survey(len, 0)?);
    if let Some(damage) = found.1.take_if(|damage| damage.synced > 0) {
        // No power cut has left that: if only values are corrupt, the rest is as it was written.
        synced = damage.synced;
        found = survey(len, synced)?;
    }
    let (tail, damage) = found;
    if let Some(damage) = damage {
        return Err(damage.error(path));
    }
    if tail.overran {
        survey(tail.end, synced)?;
    }
    Ok(tail)
}

/// Reads a log in [`Form::Raw`] that was [sealed](Aof::seal).
///
/// # Errors
///
/// Fails if any byte is missing or anything but values is corrupt, because all of the log was durable.
pub(in super::super) fn read_sealed(
    mut file: &File,
    (engine, path): (&'static str, &Path),
    restore: &mut impl FnMut(Restored<'_>),
) -> Result<ReplayEnd> {
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    let tail = replay_verbatim(&mut file, len, (engine, path), restore)?;
    if tail.end == len && !tail.torn && !tail.lacks_sync_marker && tail.records > 0 {
        return Ok(tail);
    }
    let detail = "it does not end as it was closed, though it was on stable storage then".into();
    Err(Error::Corrupt { path: path.into(), offset: tail.end, detail, is_first_line: false })
}

/// Reads an AOF in [`Form::Raw`] that was not sealed, and whose end a crash may have torn. Does not change the
/// file.
pub(in super::super) fn read_last(
    mut file: &File,
    (engine, path): (&'static str, &Path),
    restore: &mut impl FnMut(Restored<'_>),
) -> Result<ReplayEnd> {
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    replay_verbatim(&mut file, len, (engine, path), restore)
}

/// Returns the random id of an AOF in [`Form::Raw`], or an error if the file does not start as one.
pub(in super::super) fn verbatim_id(storage: &dyn Storage) -> io::Result<u32> {
    let mut line = [0; frame::START];
    storage.read_exact_at(&mut line, 0)?;
    let chain = frame::read_start(&line, 0).ok().filter(|chain| chain.form() == Form::Raw);
    chain.map(FrameChain::id).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Length in bytes of an AOF without writes: that of its start line.
pub(in super::super) const EMPTY: u64 = frame::START as u64;
