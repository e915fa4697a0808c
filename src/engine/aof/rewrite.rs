//! Rewriting the log to hold only what is alive, while it grows.
//!
//! The new file is a walk over the table in small steps, each under a read lock of its own, written
//! as `SET`s; then everything that the old log has gained since before the first step. The walk is
//! no snapshot: one step sees writes that another does not. It need not be. For any key, either
//! there is a write of it (or a `FLUSHDB`) among what the log gained, or there is none. If there
//! is, the last of them decides the key, since all records are absolute, whatever the walk saw.
//! If there is none, the key was the same during the whole walk, which saw it if it was there.
//!
//! What the log gained starts between two batches and, at the end, ends between two, so no `MULTI`
//! is parted from its `EXEC`. Nothing in the middle matters: the file has no name until it is
//! whole. It is a section of its own, so what is copied is put into new frames, once those that it is in
//! were found to be as they were written.

use super::{
    super::{Error, Result, path},
    file::{self, Storage},
    frame::{self, FrameChain, HEADER},
    log::{Aof, Current},
    record::{DecodeStop, Form},
    window::Window,
};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// The file is rewritten by itself when it is this large, and twice what it was at first.
const REWRITE_SIZE: u64 = 64 << 20;

/// The walk encodes about this much under one read lock.
pub(in super::super) const STEP: usize = 256 << 10;

/// The new file is synced whenever it has grown by this much, so that no later sync, of the old
/// file either, has to wait for all of it.
const SYNC_EVERY: u64 = 8 << 20;

/// Writers may have to wait until this much is copied and synced.
const LAST_PIECE: u64 = 1 << 20;

/// How often to try to get that near to writers that go on and on.
const ROUNDS: usize = 32;

impl Aof {
    /// Whether the log has grown enough to be rewritten without being asked.
    pub(in super::super) fn is_outgrown(&self) -> bool {
        self.len() >= REWRITE_SIZE.max(self.base.load(Ordering::Relaxed).saturating_mul(2))
    }

    /// Rewrites the log. `step` appends the records of the walk's next step to the buffer and
    /// returns whether there are more. On an error the log is as before.
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
                // Not to be tried again at every write.
                self.base.store(self.len(), Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Tells a running rewrite, and every later one, to give up.
    pub(in super::super) fn cancel_rewrite(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(in super::super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Fails if the log's path is no name of its file.
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
            // As much was written meanwhile as was copied: more rounds come no nearer, and cost what writers need.
            if left <= LAST_PIECE || left >= before {
                break;
            }
            before = left;
        }
        fresh.replace_log()
    }
}

/// A new log that is being written. Its file goes away with it, unless it became the log.
struct Fresh<'a> {
    log: &'a Aof,
    file: Arc<File>,
    path: PathBuf,
    chain: FrameChain,
    len: u64,
    synced: u64,
    /// Up to where the new log has what the old one has: at first, in the walk's words.
    copied: u64,
    /// The old one's, there. `None` when it has no frames before.
    old_chain: Option<FrameChain>,
}

impl<'a> Fresh<'a> {
    fn create(log: &'a Aof) -> Result<Self> {
        // Otherwise what is at the new file's path may be of another server.
        log.check_path()?;
        let path = file::rewrite_path(&log.path);
        path::remove_leftover(&path)?;
        // Locked before it gets the log's name: there is no moment at which another process could open it.
        let file = Arc::new(file::create_locked(&path)?);
        let chain = FrameChain::random(Form::Redis);
        let mut fresh = Self { log, file, path, chain, len: 0, synced: 0, copied: 0, old_chain: None };
        let old = fs::metadata(&log.path).map_err(Error::io("read", &log.path))?;
        fresh.file.set_permissions(old.permissions()).map_err(Error::io("create", &fresh.path))?;
        fresh.write(&chain.start_line(0))?;
        // No write is half-way while this is held, so the table has all that the log has.
        let writer = log.lock_writer()?;
        (fresh.copied, fresh.old_chain) = (log.len(), writer.chain);
        drop(writer);
        Ok(fresh)
    }

    /// Makes a frame of the records that were put behind the room for its header.
    fn append(&mut self, records: &mut Vec<u8>) -> Result<()> {
        if records.len() > HEADER {
            self.chain.seal(records, self.len, self.synced);
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

    /// Copies what the log has gained, up to `end`.
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

    /// Adds the records of the old log's next frame, or what is a line of its own. Returns its length.
    fn copy_frame(&mut self, bytes: &[u8], records: &mut Vec<u8>) -> Result<usize, DecodeStop> {
        let Some(chain) = &mut self.old_chain else {
            self.old_chain = Some(frame::read_start(bytes, self.copied)?);
            return Ok(frame::START);
        };
        let frame = chain.check(bytes, self.copied)?;
        records.extend_from_slice(bytes.get(HEADER..HEADER + frame.body).unwrap_or_default());
        Ok(frame.len())
    }

    /// Puts the new file in the log's place, while no write runs. A crash leaves either the old log
    /// or the new one, which is whole and synced before it gets the name. Until the name is durable a power cut
    /// may bring back the old one, so until then a sync is one of the old one.
    fn replace_log(mut self) -> Result<u64> {
        let mut writer = self.log.lock_writer()?;
        self.copy_gained(self.log.len())?;
        // It says that all of it is on stable storage before it is; but so is it before it is the log.
        self.write(&self.chain.sync_marker(self.len))?;
        self.sync()?;
        self.take_name()?;
        let named = path::sync_dir(path::parent(&self.log.path))
            .map_err(|error| self.log.refuse("sync", io::Error::other(error)));
        let mut current = self.log.lock_current();
        *current = Current { storage: Arc::clone(&self.file) as _, synced: self.len };
        self.log.len.store(self.len, Ordering::Release);
        drop(current);
        self.log.base.store(self.len, Ordering::Relaxed);
        (writer.chain, writer.prepared, writer.unmarked) = (Some(self.chain), self.len, false);
        writer.mark = 0;
        named.map(|()| self.len)
    }

    /// Gives the new file the log's name, unless that is the name of another file by now. A rename would take it from
    /// a file that gets there between the check and the rename; an exchange is undone.
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
        if let Err(error) = path::remove_leftover(&self.path) {
            log::warn!("{}: {error}", self.log.engine);
        }
        Ok(())
    }

    /// Fails if `path` is no name of the new file.
    fn check_path(&self, path: &Path) -> Result<()> {
        if path::is_at(&self.file, path)? { Ok(()) } else { Err(Error::Moved { path: path.into() }) }
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        // After a success the name is gone already; otherwise it is best effort, the next open
        // tries again. Where the log was moved, it may be the name of another server's file.
        if self.check_path(&self.path).is_ok() {
            let _gone = path::remove_leftover(&self.path);
        }
    }
}

/// The old log from some place on.
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
