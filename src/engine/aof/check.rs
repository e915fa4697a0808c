//! Check of an append-only file (AOF) without changing it, and repair by cutting off what is corrupt.

use super::{
    super::{CheckReport, Error, Result, files},
    frame,
    open::is_segment,
    replay::{self, Damage, ReplayEnd},
};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Checks every byte of the AOF of `engine` at `path`, without changing it. Fails if the AOF is corrupt or in use.
pub(in super::super) fn check(engine: &'static str, path: &Path) -> Result<CheckReport> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Err(Error::Locked { path: path.into() }),
        Err(std::fs::TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
    }
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    let (tail, damage) = replay::survey(&file, len, (engine, path), &mut |_| ())?;
    if let Some(mut damage) = damage {
        let whole = match damage.first_line(&file) {
            Some(line) => {
                let rest = file.try_clone().map_err(Error::io("read", path))?;
                (&file).seek(SeekFrom::Start(line.len() as u64)).map_err(Error::io("read", path))?;
                let (tail, _) = replay::survey(line.chain(rest), len, (engine, path), &mut |_| ())?;
                format!("{} records behind it are whole", tail.records)
            }
            None => format!("{} records in the {} bytes before are whole", tail.records, tail.end),
        };
        damage.detail = format!("{}; {whole}", damage.detail);
        return Err(damage.error(path));
    }
    let synced = match tail.chain {
        None => "with no record of what was on stable storage: a log of Redis".into(),
        Some(_) => format!("on stable storage up to byte {}", tail.synced),
    };
    let remark = tail.torn.then(|| {
        let torn = len - tail.end;
        format!("the last {torn} bytes are an incomplete write; the next start cuts them off")
    });
    Ok(CheckReport { holds: format!("{} records in {} bytes, {synced}", tail.records, tail.end), remark })
}

/// Result of the repair of an AOF.
#[derive(Debug)]
pub struct Repaired {
    /// Number of records that the repair has left in the AOF.
    pub records: u64,
    /// Length of the AOF after the repair, in bytes.
    pub len: u64,
    /// Descriptions of the corruption that the repair has found in the AOF, with offsets; empty if there was none.
    pub damage: Vec<String>,
    /// Paths of the files that hold what was removed from the AOF.
    pub removed: Vec<PathBuf>,
}

/// Makes a corrupt AOF of `engine` openable by cutting it off at the first corruption. An incomplete write at the end of
/// an AOF that is not corrupt is cut off, too. What is removed is first saved to a new file in the same directory. A
/// corrupt first line is rewritten if the frame behind it allows to restore it.
///
/// # Errors
///
/// Fails if the file is locked, cannot be read or written, or is no AOF that can be cut.
pub(in super::super) fn repair(engine: &'static str, path: &Path) -> Result<Repaired> {
    let file = File::options().read(true).write(true).open(path).map_err(Error::io("open", path))?;
    let path = &path.canonicalize().map_err(Error::io("open", path))?;
    files::lock(&file, path)?;
    if is_segment(&files::read_start(path, frame::START)) {
        let found = "one segment of a log".into();
        return Err(Error::Foreign { path: path.clone(), engine, found, owner: None });
    }
    let mut done = Repaired { records: 0, len: 0, damage: Vec::new(), removed: Vec::new() };
    let (mut len, mut tail, mut damage) = survey(&file, (engine, path))?;
    if let (Some(first), None, 0) = (&damage, tail.chain, tail.end)
        && let Some(line) = first.first_line(&file)
    {
        done.damage.push(format!("byte {}: {}", first.offset, first.detail));
        done.removed.push(keep(&file, path, 0, line.len() as u64)?);
        file.write_all_at(&line, 0).and_then(|()| file.sync_all()).map_err(Error::io("write", path))?;
        (len, tail, damage) = survey(&file, (engine, path))?;
    }
    done.damage.extend(damage.map(|damage| format!("byte {}: {}", damage.offset, damage.detail)));
    // Without `torn`, the rest is padding.
    if tail.torn || !done.damage.is_empty() && tail.end < len {
        done.removed.push(keep(&file, path, tail.end, len)?);
        file.set_len(tail.end).and_then(|()| file.sync_all()).map_err(Error::io("truncate", path))?;
    }
    (done.records, done.len) = (tail.records, tail.end);
    Ok(done)
}

fn survey(
    mut file: &File,
    (engine, path): (&'static str, &Path),
) -> Result<(u64, ReplayEnd, Option<Damage>)> {
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    file.rewind().map_err(Error::io("read", path))?;
    let (tail, damage) = replay::survey(file, len, (engine, path), &mut |_| ())?;
    Ok((len, tail, damage))
}

/// Copies a range of the AOF to a new file in the same directory, and makes the file and its name durable
/// before the range is removed from the AOF.
fn keep(mut file: &File, path: &Path, from: u64, to: u64) -> Result<PathBuf> {
    let (kept, name) = create_beside(path)?;
    let mut copy = || {
        let permissions = file.metadata().map_err(Error::io("read", path))?.permissions();
        kept.set_permissions(permissions).map_err(Error::io("create", &name))?;
        file.seek(SeekFrom::Start(from)).map_err(Error::io("read", path))?;
        let copied = io::copy(&mut file.take(to - from), &mut &kept).map_err(Error::io("write", &name))?;
        if copied < to - from {
            return Err(Error::io("read", path)(io::ErrorKind::UnexpectedEof.into()));
        }
        kept.sync_all().map_err(Error::io("sync", &name))?;
        files::sync_path(files::parent(path))
    };
    if let Err(error) = copy() {
        // Nothing was removed from the AOF, and an incomplete copy would take space.
        let _best_effort = files::remove_leftover(&name);
        return Err(error);
    }
    Ok(name)
}

/// Creates a new file `<path>.removed-<number>`, with the first number from 1 on for which no file exists, and which no
/// other user may read. Returns the file and its path.
fn create_beside(path: &Path) -> Result<(File, PathBuf)> {
    let mut number = 1_u32;
    loop {
        let name = path.with_added_extension(format!("removed-{number}"));
        match File::options().write(true).create_new(true).mode(0o600).open(&name) {
            Ok(file) => return Ok((file, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::io("create", name)(error)),
        }
    }
}
