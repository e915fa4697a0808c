//! `bitcask`: a hash table of the keys in memory, and the values in a log on disk.
//!
//! The log is a directory of *segments*: files in the format of `aof`. Only the last segment, the active one, is
//! written to: a write batch is appended (and, with `sync`, synced), and then the positions of its values are put into
//! the key table. A read looks up the position of a value in the key table, and reads the value from the segment. A
//! segment that has reached its maximum length is *sealed*: synced, with a sync marker at its end, and never changed
//! again.
//!
//! A merge removes the dead values of sealed segments: see [`merge`]. A sealed segment has a *hint file* with its keys
//! and the positions of their values, from which a start fills the key table. Without a valid hint file, a start reads
//! the segment.
//!
//! The [`manifest`] lists the segments, so that the loss of one is detected.
//!
//! Modules in the order of the data: [`open`] (start), [`reads_and_writes`], [`merge`], [`background`].

mod background;
mod corrupt_keys;
mod description;
mod hint;
mod key_table;
mod lock;
mod manifest;
mod merge;
mod open;
mod reads_and_writes;
mod segment;
mod segment_hint;
mod space_reserve;
#[cfg(test)]
mod tests;

use crate::engine::{
    Batch, Check, Engine, Error, Gauge, Info, KeyRange, Kind, OpenOptions, Result, VisitEach, VisitKey,
    VisitPair, VisitValue, aof, files, memory_table::Table,
};
use background::Background;
use description::{INFO, NAME};
use reads_and_writes::{BackgroundWork, Files};
use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
};

/// Entry of `bitcask` in the list of engines.
pub const KIND: Kind = Kind::new(
    &INFO,
    |options| Ok(Box::new(Bitcask::open(options)?)),
    open::recognise,
    Check::InPlace(open::check),
);

struct Bitcask {
    /// Background thread; dropped first, so that it ends before the files are closed.
    background: Background,
    files: Arc<Files>,
}

impl Bitcask {
    fn open(options: &OpenOptions) -> Result<Self> {
        let files = Arc::new(open::open(options)?);
        Ok(Self { background: Background::start(Arc::clone(&files))?, files })
    }
}

/// Calls `visit` with a pair and returns its result. Breaks, without a call, if the value or an earlier one could not
/// be read: `failed` keeps the first error.
fn up_to_error(
    failed: &mut Option<Error>,
    key: &[u8],
    value: Result<&[u8]>,
    visit: &mut VisitPair<'_>,
) -> ControlFlow<()> {
    match value {
        Ok(value) if failed.is_none() => return visit(key, value),
        Ok(_) => {}
        Err(error) => drop(failed.get_or_insert(error)),
    }
    ControlFlow::Break(())
}

impl Engine for Bitcask {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.files.read(keys, visit)
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_lengths(NAME, aof::MAX_LENGTHS)?;
        let mut writer = self.files.lock_writer();
        if let Err(error) = self.files.check_space(&mut writer, batch) {
            drop(writer);
            self.background.wake();
            return Err(error);
        }
        let after = self.files.write(&mut writer, batch, sync)?;
        drop(writer);
        if after == BackgroundWork::Due {
            self.background.wake();
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.files.sync()
    }

    fn quiesce(&self) -> Result<()> {
        self.background.finish().and(self.sync())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let mut failed = None;
        self.files.scan(range, &mut |key, value| up_to_error(&mut failed, key, value, visit))?;
        failed.map_or(Ok(()), Err)
    }

    fn scan_each(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> Result<()> {
        self.files.scan(range, visit)
    }

    fn scan_step(&self, position: u64, visit: &mut VisitPair<'_>) -> Result<u64> {
        let mut failed = None;
        let next =
            self.files.scan_step(position, &mut |key, value| up_to_error(&mut failed, key, value, visit))?;
        failed.map_or(Ok(next), Err)
    }

    fn scan_part(&self, key: &[u8]) -> u64 {
        self.files.table.look(|table| table.position_number(key))
    }

    fn scan_step_each(&self, position: u64, visit: &mut VisitEach<'_>) -> Result<u64> {
        self.files.scan_step(position, visit)
    }

    fn scan_step_keys(&self, position: u64, visit: &mut VisitKey<'_>) -> Result<u64> {
        Ok(self.files.scan_step_keys(position, visit))
    }

    fn count(&self) -> Result<u64> {
        Ok(self.files.table.len())
    }

    fn disk_size(&self) -> Result<u64> {
        files::disk_size(&self.files.directory)
    }

    fn gauges(&self) -> Vec<Gauge> {
        let (all, live) = self.files.bytes();
        let figure = |name, help, value| Gauge { name, help, value, is_backlog: name == "dead_bytes" };
        vec![
            figure("segments", "Files of values.", self.files.segments.len() as u64),
            figure("live_bytes", "Bytes in them of what is alive.", live),
            figure("dead_bytes", "Bytes in them of what is not.", all.saturating_sub(live)),
        ]
    }

    fn rewrite_log(&self) -> Result<()> {
        if self.background.rewrite() {
            return Ok(());
        }
        Err(Error::Unsupported { engine: NAME, what: "is already rewriting its files".into() })
    }

    fn compact(self: Box<Self>) -> Result<()> {
        self.background.stop();
        self.files.is_compacting.store(true, Ordering::Relaxed);
        let merged = self.files.merge_all(&|| false);
        merged.map(|_whole| ()).and(self.close())
    }

    fn close(&self) -> Result<()> {
        self.background.stop();
        let closed = self.files.active().close();
        closed.and(self.files.lock.release())
    }
}
