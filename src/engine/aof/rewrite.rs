//! Rewrite of the append-only file (AOF) to the live data only, while writes continue.
//!
//! The new file is a scan of the table in chunks, each under its own read lock, written as `SET`s; then
//! everything that was appended to the old AOF since before the first chunk. The scan is no snapshot: one chunk
//! contains writes that another does not. It need not be one. For each key, either a write of the key (or a
//! `FLUSHALL`) was appended to the old AOF meanwhile, or none was. If there are such writes, the last one
//! decides the key's value, whatever the scan saw, since all records are absolute. If there are none, the key
//! did not change during the scan, which saw it if it exists.
//!
//! The appended part starts and ends between two batches, so no `MULTI` is separated from its `EXEC`. Its
//! middle does not matter: the file gets its name only once it is complete. The new file is a section of its
//! own, so the appended records are put into new frames, after the checksums of their old frames were verified.

use super::{
    super::{Error, Result, files},
    file::{self, Storage},
    frame::{self, FrameChain, HEADER},
    log::{Aof, Current},
    read_window::Window,
    record::{DecodeStop, Form, SELECT_0},
};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// Minimum size of the AOF for an automatic rewrite, in bytes; the file must also have doubled since the open or the
/// last rewrite, also one that failed.
const REWRITE_SIZE: u64 = 64 << 20;

/// Size in bytes of the records of a frame from which a rewrite of the AOF begins the next frame, and ends the step of
/// its scan as soon as the table allows.
pub(in super::super) const STEP: usize = 256 << 10;

/// Number of bytes after which the new file is synced during a rewrite, so that no later sync, of the old file
/// either, has to wait for all of it.
const SYNC_EVERY: u64 = 8 << 20;

/// Number of bytes of the old AOF below which a rewrite copies the rest while writers wait. The rest may be larger if
/// writers append as fast as the rewrite copies.
const LAST_PIECE: u64 = 1 << 20;

/// Maximum number of attempts of a rewrite to get within [`LAST_PIECE`] bytes of the AOF's end while writes
/// continue.
const ROUNDS: usize = 32;

impl Aof {
    /// Returns `true` if the AOF is large enough for an automatic rewrite.
    pub(in super::super) fn is_outgrown(&self) -> bool {
        self.len() >= REWRITE_SIZE.max(self.base.load(Ordering::Relaxed).saturating_mul(2))
    }

    /// Rewrites the AOF. `step` appends the records of the next frame, about [`STEP`] bytes, to the buffer and returns
    /// `true` if more follow. After an error the AOF is unchanged, with one exception: if the new file has the AOF's name,
    /// but the sync of the directory fails, the AOF is the new file and refuses all later writes.
    pub(in super::super) fn rewrite(&self, step: impl FnMut(&mut Vec<u8>) -> bool) -> Result<()> {
        let started = Instant::now();
        let (engine, path, before) = (self.engine, self.path.display(), self.len());
        log::info!("{engine}: rewriting {path}, {before} bytes");
        match self.build(step) {
            Ok(after) => {
                let seconds = started.elapsed().as_secs_f64();
                log::info!(
                    "{engine}: rewrote {path} in {seconds:.2} s: {before} bytes before, {after} after"
                );
                Ok(())
            }
            Err(error) => {
                // Without this, each later write would start another attempt.
                self.base.store(self.len(), Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Makes a running rewrite of this AOF, and every later one, fail.
    pub(in super::super) fn cancel_rewrite(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(in super::super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Fails if the AOF's path is no longer a name of its open file.
    fn check_path(&self) -> Result<()> {
        let is_there = self.current().storage.is_at(&self.path)?;
        if is_there { Ok(()) } else { Err(Error::Moved { path: self.path.clone() }) }
    }

    fn build(&self, mut step: impl FnMut(&mut Vec<u8>) -> bool) -> Result<u64> {
        let mut fresh = Fresh::create(self)?;
        let mut buffer = Vec::new();
        loop {
            frame::begin(&mut buffer);
            let more = step(&mut buffer);
            fresh.append(&mut buffer)?;
            if !more {
                break;
            }
        }
        let mut before = u64::MAX;
        for _ in 0..ROUNDS {
            fresh.copy_gained(self.len())?;
            fresh.sync()?;
            let left = self.len() - fresh.copied;
            // Writers appended as much as was copied: more attempts would get no nearer, and would slow the
            // writers down.
            if left <= LAST_PIECE || left >= before {
                break;
            }
            before = left;
        }
        fresh.replace_log()
    }
}

/// New AOF that a rewrite is writing. If it does not become the AOF, its file is removed on drop.
struct Fresh<'a> {
    log: &'a Aof,
    file: Arc<File>,
    path: PathBuf,
    chain: FrameChain,
    len: u64,
    synced: u64,
    /// Offset in the old AOF up to which the new one has its content: at first from the scan, then from copied
    /// records.
    copied: u64,
    /// State of the old AOF's section at `copied`; `None` if the old AOF has no frames before it.
    old_chain: Option<FrameChain>,
}

impl<'a> Fresh<'a> {
    fn create(log: &'a Aof) -> Result<Self> {
        // Otherwise the file at the path of the new file may belong to another server.
        log.check_path()?;
        let path = file::rewrite_path(&log.path);
        file::remove_rewritten(&log.path)?;
        // Locked before it gets the log's name, so that no other process can open it in between.
        let file = Arc::new(file::create_locked(&path)?);
        let chain = FrameChain::random(Form::Redis);
        let mut fresh = Self { log, file, path, chain, len: 0, synced: 0, copied: 0, old_chain: None };
        let old = fs::metadata(&log.path).map_err(Error::io("read", &log.path))?;
        fresh.file.set_permissions(old.permissions()).map_err(Error::io("create", &fresh.path))?;
        fresh.write(&chain.start_line(0))?;
        // No write is unfinished while this lock is held, so the table has everything that the AOF has.
        let writer = log.lock_writer()?;
        (fresh.copied, fresh.old_chain) = (log.len(), writer.chain);
        drop(writer);
        Ok(fresh)
    }

    /// Turns the records behind the header space in `records` into a frame of the new AOF, and writes it; nothing
    /// without records.
    fn append(&mut self, records: &mut Vec<u8>) -> Result<()> {
        if records.len() > HEADER {
            let sealed = self.chain.seal(records, self.len, self.synced);
            sealed.map_err(Error::io("write", &self.path))?;
            self.write(records)?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.log.cancelled.load(Ordering::Relaxed) {
            let what = "gave up rewriting its append-only file to close it".into();
            return Err(Error::Unsupported { engine: self.log.engine, what });
        }
        Storage::write_all_at(&*self.file, bytes, self.len).map_err(Error::io("write", &self.path))?;
        self.len += bytes.len() as u64;
        if self.len - self.synced >= SYNC_EVERY { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))?;
        self.synced = self.len;
        Ok(())
    }

    /// Copies the records that were appended to the old AOF, from `copied` up to `end`, to the new one.
    fn copy_gained(&mut self, end: u64) -> Result<()> {
        let old = self.log.current().storage;
        let mut window = Window::new(From { storage: &*old, offset: self.copied, end }, self.copied, end);
        let mut records = Vec::new();
        frame::begin(&mut records);
        while window.remaining() > 0 {
            match self.copy_frame(window.bytes(), &mut records) {
                Ok(length) => {
                    window.advance(length);
                    self.copied += length as u64;
                }
                Err(DecodeStop::Incomplete { need }) if need as u64 <= window.remaining() => {
                    window.fill(need).map_err(Error::io("read", &self.log.path))?;
                }
                Err(_) => {
                    let detail = "what was written there is not what is there now".into();
                    return Err(Error::Corrupt {
                        path: self.log.path.clone(),
                        offset: window.offset,
                        detail,
                        is_first_line: false,
                    });
                }
            }
            if records.len() >= STEP || window.remaining() == 0 {
                self.append(&mut records)?;
                frame::begin(&mut records);
            }
        }
        Ok(())
    }

    /// Copies the records of the old AOF's next frame, or skips its start line, or the `SELECT 0` before that. Returns
    /// the number of bytes consumed.
    fn copy_frame(&mut self, bytes: &[u8], records: &mut Vec<u8>) -> Result<usize, DecodeStop> {
        let Some(chain) = &mut self.old_chain else {
            if bytes.starts_with(SELECT_0) {
                return Ok(SELECT_0.len());
            }
            self.old_chain = Some(frame::read_start(bytes, self.copied)?);
            return Ok(frame::START);
        };
        let frame = chain.check(bytes, self.copied)?;
        records.extend_from_slice(bytes.get(HEADER..HEADER + frame.body).unwrap_or_default());
        Ok(frame.len())
    }

    /// Puts the new file in the AOF's place while no write runs. A crash leaves either the old AOF or the new
    /// one, which is complete and synced before it gets the name. Until the name is durable, a power cut may
    /// bring the old AOF back, so `current` refers to the old file until then, and a sync is one of the old
    /// file.
    fn replace_log(mut self) -> Result<u64> {
        let mut writer = self.log.lock_writer()?;
        self.copy_gained(self.log.len())?;
        // The marker is written before what it covers is durable; but the sync precedes the rename that makes
        // this file the AOF.
        self.write(&self.chain.sync_marker(self.len))?;
        self.sync()?;
        self.take_name()?;
        let named = files::sync_path(files::parent(&self.log.path))
            .map_err(|error| self.log.refuse("sync", io::Error::other(error)));
        let mut current = self.log.lock_current();
        *current = Current { storage: Arc::clone(&self.file) as _, synced: self.len };
        self.log.len.store(self.len, Ordering::Release);
        drop(current);
        self.log.base.store(self.len, Ordering::Relaxed);
        (writer.chain, writer.prepared, writer.lacks_sync_marker) = (Some(self.chain), self.len, false);
        writer.mark = 0;
        named.map(|()| self.len)
    }

    /// Gives the new file the AOF's name, unless another file has that name by now. A rename would replace a
    /// file that takes the name between the check and the rename; an exchange of names can be undone.
    fn take_name(&self) -> Result<()> {
        self.log.check_path()?;
        self.check_path(&self.path)?;
        let exchange = || file::exchange(&self.path, &self.log.path).map_err(Error::io("rename", &self.path));
        if !exchange()? {
            return fs::rename(&self.path, &self.log.path).map_err(Error::io("rename", &self.path));
        }
        let is_old = self.log.current().storage.is_at(&self.path);
        if !is_old.as_ref().is_ok_and(|is_old| *is_old) || self.check_path(&self.log.path).is_err() {
            exchange()?;
            return Err(is_old.err().unwrap_or(Error::Moved { path: self.log.path.clone() }));
        }
        if let Err(error) = files::remove_leftover(&self.path) {
            log::warn!("{}: {error}", self.log.engine);
        }
        Ok(())
    }

    /// Fails if `path` is not a name of the new AOF's file.
    fn check_path(&self, path: &Path) -> Result<()> {
        if files::is_at(&self.file, path)? { Ok(()) } else { Err(Error::Moved { path: path.into() }) }
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        // After a success the name no longer exists; otherwise this is best effort, and the next open tries
        // again. If the AOF was moved, the name may belong to another server's file.
        if self.check_path(&self.path).is_ok() {
            let _gone = files::remove_leftover(&self.path);
        }
    }
}

/// Reader, for copies of records during a rewrite, of the bytes of the old AOF from `offset` up to `end`.
struct From<'a> {
    storage: &'a dyn Storage,
    offset: u64,
    end: u64,
}

impl Read for From<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = (bytes.len() as u64).min(self.end - self.offset) as usize;
        self.storage.read_exact_at(bytes.get_mut(..length).unwrap_or_default(), self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}
