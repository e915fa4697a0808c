//! Reads and writes of `bitcask`: the key table together with the segments.

use super::{
    description::NAME,
    key_table::{KeyTable, ValuePosition, sum_of},
    lock::Lock,
    manifest::Manifest,
    segment::{OpenFiles, Segment, Segments, path_of},
    space_reserve::{LastSearch, Space},
};
use crate::engine::{
    Batch, Error, KeyRange, Result, VisitEach, VisitKey, VisitValue, WriteOp,
    aof::{Aof, EMPTY},
    files,
    memory_table::{KEYS, SharedTable, Table, free_garbage},
    mutex::lock,
};
use smallvec::SmallVec;
use std::{
    cell::Cell,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicBool},
};

/// Maximum number of bytes that the log adds to a key and its value, or to a write batch.
const MAX_RECORD_OVERHEAD: usize = 128;

/// Maximum size of the buffer for values that a thread keeps between two reads, in bytes.
const MAX_REUSED_BUFFER: usize = 1 << 20;

/// Data of an open `bitcask` engine. If a thread panics while it holds a lock for a write, the log refuses all further
/// writes.
pub(super) struct Files {
    pub(super) directory: PathBuf,
    pub(super) lock: Lock,
    pub(super) table: SharedTable<KeyTable>,
    pub(super) segments: Segments,
    pub(super) space: Space,
    pub(super) last_search: LastSearch,
    /// `true` if there are no clients, so that a merge need not pause for them (compaction by `kvbench bench`).
    pub(super) is_compacting: AtomicBool,
    /// Number of segment files that are kept open, and its maximum.
    open: Arc<OpenFiles>,
    /// Lock that a thread holds while it waits for `writer`, so that a thread that writes repeatedly cannot starve
    /// others.
    next: Mutex<()>,
    writer: Mutex<Writer>,
    /// Log of the active segment, for syncs that do not lock `writer`.
    active: Mutex<Arc<Aof>>,
    /// `true` if the manifest on disk may lack a segment. Locked while the manifest is written.
    unrecorded: Mutex<bool>,
}

/// State that writes to the active segment change. Only a thread that has locked it changes the key table and the log.
pub(super) struct Writer {
    pub(super) active: Arc<Aof>,
    /// Number of the active segment.
    pub(super) id: u32,
    /// Length in bytes at which the active segment is sealed and another one is created.
    seal_at: u64,
    /// Length of the active segment in bytes at which a write wakes the background thread of `bitcask`.
    wake: u64,
    /// Number of bytes that may be written before the engine asks again for the free space of the disk.
    budget: u64,
}

/// Result of a write to `bitcask`: `Due` if the caller must wake the background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackgroundWork {
    /// The caller of the write need not wake the background thread.
    NotDue,
    /// The caller of the write must wake the background thread, which then looks for segments to sync or to merge.
    Due,
}

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with a buffer for values that each thread reuses, and returns the result. A nested call gets another
/// buffer.
fn with_buffer<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = BUFFER.take();
    let result = work(&mut buffer);
    if buffer.len() <= MAX_REUSED_BUFFER {
        BUFFER.set(buffer);
    }
    result
}

/// Returns `true` if the write batch frees disk space: it contains a clear, or only deletes.
fn frees(batch: &Batch<'_>) -> bool {
    batch.after_clear().0 || batch.ops().iter().all(|op| matches!(op, WriteOp::Delete { .. }))
}

/// Returns the error that the key table has a position in a segment that does not exist, which is a bug.
fn no_such_segment(id: u32) -> Error {
    Error::Library { engine: NAME, message: format!("segment {id} is not there") }
}

impl Files {
    pub(super) fn new(
        lock: Lock,
        table: KeyTable,
        segments: Segments,
        open: Arc<OpenFiles>,
        (active, id): (Aof, u32),
    ) -> Self {
        let (active, directory) = (Arc::new(active), lock.directory().to_owned());
        let space = Space::of(&directory);
        let (seal_at, wake) = (space.segment(), active.len() + space.wake_every());
        let writer = Writer { active: Arc::clone(&active), id, seal_at, wake, budget: 0 };
        Self {
            directory,
            lock,
            table: SharedTable::new(table, false),
            segments,
            space,
            last_search: LastSearch::default(),
            is_compacting: AtomicBool::new(false),
            open,
            next: Mutex::default(),
            writer: Mutex::new(writer),
            active: Mutex::new(active),
            unrecorded: Mutex::new(true),
        }
    }

    /// Locks the active segment for a write, after the writes that wait already.
    pub(super) fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        let _next = lock(&self.next);
        lock(&self.writer)
    }

    /// Returns the log of the active segment.
    pub(super) fn active(&self) -> Arc<Aof> {
        Arc::clone(&lock(&self.active))
    }

    /// Reads the values of `keys`: implements [`Engine::read`](crate::engine::Engine::read).
    pub(super) fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let mut found = SmallVec::<[_; 4]>::with_capacity(keys.len());
        if keys.len() <= KEYS {
            let live = self.segments.live();
            self.table.read(keys, &mut |_, place| {
                let place = place.and_then(ValuePosition::of);
                found.push(place.map(|place| (place, live.find(place.segment).cloned())));
                ControlFlow::Continue(())
            });
        } else {
            // The table reads this many keys in several steps, between which segments may be removed.
            let view = self.segments.view();
            self.table.read(keys, &mut |_, place| {
                found.push(place.and_then(ValuePosition::of).map(|place| (place, None)));
                ControlFlow::Continue(())
            });
            for (place, segment) in found.iter_mut().flatten() {
                *segment = view.find(place.segment);
            }
        }
        with_buffer(|buffer| {
            for (index, found) in found.iter().enumerate() {
                let value = match found {
                    None => None,
                    Some((place, segment)) => {
                        let segment = segment.as_ref().ok_or_else(|| no_such_segment(place.segment))?;
                        let value = segment.read(*place, buffer).map_err(|error| {
                            error.of_value(index, keys.get(index).copied().unwrap_or_default(), true)
                        })?;
                        Some(value)
                    }
                };
                if visit(index, value).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Visits the pairs of `range`: implements [`Engine::scan_each`](crate::engine::Engine::scan_each).
    pub(super) fn scan(&self, range: KeyRange<'_>, visit: &mut VisitEach<'_>) -> Result<()> {
        let view = self.segments.view();
        let (gathered, mut outcome) = (Cell::new(Gathered::default()), Ok(()));
        let mut gather = |key: &[u8], place: &[u8]| {
            let mut all = gathered.take();
            all.add(key, place);
            gathered.set(all);
            ControlFlow::Continue(())
        };
        self.table.scan_in_steps(range, &mut gather, &mut || match gathered
            .take()
            .read(|id| view.find(id), visit)
        {
            Ok(next) => next,
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        });
        outcome
    }

    /// Continues an incremental scan at `position`: implements
    /// [`Engine::scan_step_each`](crate::engine::Engine::scan_step_each).
    pub(super) fn scan_step(&self, position: u64, visit: &mut VisitEach<'_>) -> Result<u64> {
        let Some(mut place) = KeyTable::place(position) else { return Ok(0) };
        if position == 0 {
            self.table.wait_until_settled();
        }
        let mut pause = false;
        loop {
            let (view, mut gathered) = (self.segments.view(), Gathered::default());
            let more = self.table.scan_step(&mut place, &mut |key, place| {
                gathered.add(key, place);
                ControlFlow::Break(())
            });
            let _all = gathered.read(|id| view.find(id), &mut |key, value| {
                pause |= visit(key, value).is_break();
                ControlFlow::Continue(())
            })?;
            if !more || pause {
                return Ok(if more { KeyTable::number(&place) } else { 0 });
            }
        }
    }

    /// Continues an incremental scan at `position` without reading values: implements
    /// [`Engine::scan_step_keys`](crate::engine::Engine::scan_step_keys).
    pub(super) fn scan_step_keys(&self, position: u64, visit: &mut VisitKey<'_>) -> u64 {
        let Some(mut place) = KeyTable::place(position) else { return 0 };
        if position == 0 {
            self.table.wait_until_settled();
        }
        let mut pause = false;
        loop {
            // Pauses after each part, because the table is locked meanwhile.
            let more = self.table.scan_step(&mut place, &mut |key, _| {
                pause |= visit(key).is_break();
                ControlFlow::Break(())
            });
            if !more || pause {
                return if more { KeyTable::number(&place) } else { 0 };
            }
        }
    }

    /// Appends a write batch to the active segment, syncs it if `sync`, and then puts the positions of its values into
    /// the key table. Returns [`BackgroundWork::Due`] if the caller must wake the background thread.
    pub(super) fn write(&self, writer: &mut Writer, batch: &Batch<'_>, sync: bool) -> Result<BackgroundWork> {
        let segment = writer.id;
        let waste = writer.active.append_placed(batch, sync, |placed| {
            let values = batch.ops().iter().filter_map(|op| match *op {
                WriteOp::Put { value, .. } => Some(value),
                _ => None,
            });
            let mut places = Vec::with_capacity(placed.len());
            places.extend(values.zip(placed).map(|(value, placed)| {
                let (length, sum) = (value.len() as u32, sum_of(value, placed.sum));
                ValuePosition { segment, offset: placed.offset, length, sum }.to_bytes()
            }));
            self.table.write(&batch.with_values(places.iter().map(|place| &place[..])))
        })?;
        free_garbage(waste);
        if writer.active.len() >= writer.seal_at {
            self.roll(writer);
            return Ok(BackgroundWork::Due);
        }
        let is_due = writer.active.len() >= writer.wake || batch.after_clear().0;
        if is_due {
            writer.wake = writer.active.len() + self.space.wake_every();
        }
        Ok(if is_due { BackgroundWork::Due } else { BackgroundWork::NotDue })
    }

    /// Seals the active segment and creates the next one. An error is only logged: writes continue in the old segment,
    /// unless that refuses them, and a later write tries again.
    fn roll(&self, writer: &mut Writer) {
        if let Err(error) = self.try_roll(writer) {
            log::warn!("{NAME}: writes go on in {}: {error}", path_of(&self.directory, writer.id).display());
            writer.seal_at = writer.active.len() + self.space.wake_every();
        }
    }

    /// Seals the active segment, unless it is empty, creates the next one, and lists that in the manifest. Before the
    /// new segment is written to, the old one is synced with a sync marker at its end: so a crash can lose writes of
    /// the last segment only.
    ///
    /// # Errors
    ///
    /// Fails if the directory was moved, the old segment cannot be synced or the new one cannot be created; writes
    /// continue in the old one. A manifest that cannot be written is only logged.
    pub(super) fn try_roll(&self, writer: &mut Writer) -> Result<()> {
        // A sealed segment without a record would look like one that was truncated.
        if writer.active.len() <= EMPTY {
            return Ok(());
        }
        self.lock.check_path()?;
        writer.active.seal()?;
        let Some(id) = writer.id.checked_add(1) else {
            return Err(Error::Unsupported {
                engine: NAME,
                what: "has no number for another segment".into(),
            });
        };
        let at = path_of(&self.directory, id);
        let active = Arc::new(Aof::create_verbatim(&at, NAME)?);
        let segment = Segment::active(&self.directory, id, &self.open, active.storage())?;
        if let Err(error) = self.lock.check_path() {
            // If the removal fails, the next start removes the empty segment.
            let _best_effort = segment.check_path().and_then(|()| files::remove_leftover(&at));
            return Err(error);
        }
        self.segments.roll(segment, writer.active.len());
        *lock(&self.active) = Arc::clone(&active);
        let (seal_at, wake) = (self.space.segment(), active.len() + self.space.wake_every());
        *writer = Writer { active, id, seal_at, wake, budget: writer.budget };
        // The background thread tries again. Until then a loss of the new segment would not be detected.
        if let Err(error) = self.record() {
            log::warn!(
                "{NAME}: {} is not in the list of segments: {error}",
                path_of(&self.directory, id).display()
            );
        }
        Ok(())
    }

    /// Writes the manifest, the file that lists all segments of the store.
    ///
    /// # Errors
    ///
    /// Fails if the manifest cannot be written.
    pub(super) fn record(&self) -> Result<()> {
        let mut unrecorded = lock(&self.unrecorded);
        *unrecorded = true;
        Manifest::of(self.segments.ids()).write(&self.lock)?;
        *unrecorded = false;
        Ok(())
    }

    /// Remembers that the manifest on disk lists all segments, so that it need not be written.
    pub(super) fn set_recorded(&self) {
        *lock(&self.unrecorded) = false;
    }

    /// Writes the manifest, which lists all segments, if the last attempt to write it failed.
    ///
    /// # Errors
    ///
    /// Fails if the manifest cannot be written.
    pub(super) fn retry_manifest(&self) -> Result<()> {
        let unrecorded = *lock(&self.unrecorded);
        if unrecorded { self.record() } else { Ok(()) }
    }

    /// Removes sealed segment `id` from the manifest on disk, and then from the list of segments in memory.
    ///
    /// # Errors
    ///
    /// Fails if the manifest cannot be written; the segment then stays in the list.
    pub(super) fn forget(&self, id: u32) -> Result<()> {
        let mut unrecorded = lock(&self.unrecorded);
        let ids = self.segments.ids().into_iter().filter(|other| *other != id);
        Manifest::of(ids).write(&self.lock)?;
        *unrecorded = false;
        self.segments.remove(id);
        Ok(())
    }

    /// Returns `true` if so little of the disk is free that writes of values may soon be refused: merges should then
    /// free space.
    pub(super) fn is_short_of_space(&self) -> bool {
        self.space.free() < self.space.reserve() + self.space.wake_every()
    }

    /// Checks that the batch leaves the disk space free that is reserved for merges and deletes. A batch that frees
    /// space (with a clear, or with deletes only) always passes.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Full`] if too little space would be left.
    pub(super) fn check_space(&self, writer: &mut Writer, batch: &Batch<'_>) -> Result<()> {
        let needs = (batch.bytes() + batch.len() * MAX_RECORD_OVERHEAD + MAX_RECORD_OVERHEAD) as u64;
        if needs > writer.budget && !frees(batch) {
            let (free, reserve) = (self.space.free(), self.space.reserve());
            let Some(above) = free.saturating_sub(reserve).checked_sub(needs) else {
                let detail = format!(
                    "{}: {} MiB of the disk are kept free for merges and deletes; free space on it, or delete keys",
                    self.directory.display(),
                    reserve.div_ceil(1 << 20)
                );
                return Err(Error::Full { engine: NAME, detail });
            };
            // Merges and other programs use the free space too, so only half of it is counted on.
            writer.budget = needs + (above / 2).min(self.space.wake_every());
        }
        writer.budget = writer.budget.saturating_sub(needs);
        Ok(())
    }

    /// Makes all writes before the call durable. Sealed segments are durable already.
    pub(super) fn sync(&self) -> Result<()> {
        self.active().sync()
    }

    /// Syncs the active segment if at least [`Space::wake_every`] bytes of it are unsynced. Otherwise a later sync, which
    /// writes may wait for, would take long.
    pub(super) fn sync_if_due(&self) -> Result<()> {
        if self.active().unsynced() >= self.space.wake_every() { self.sync() } else { Ok(()) }
    }

    /// Returns the total length of all segments and the total length of the records of existing keys, both in bytes.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.segments.sealed_bytes() + self.active().len(), self.table.look(KeyTable::live))
    }
}

/// Keys and value positions that a scan has collected under a lock, to read the values without it.
#[derive(Default)]
struct Gathered {
    /// All keys, concatenated.
    keys: Vec<u8>,
    /// Value positions, each with the start and the end of its key in `keys`.
    found: Vec<(ValuePosition, usize, usize)>,
}

impl Gathered {
    fn add(&mut self, key: &[u8], place: &[u8]) {
        let Some(place) = ValuePosition::of(place) else { return };
        let begin = self.keys.len();
        self.keys.extend_from_slice(key);
        self.found.push((place, begin, self.keys.len()));
    }

    /// Reads the collected values in their order on disk, and calls `visit` for each, with an error for a value that
    /// cannot be read, until `visit` breaks. `find` returns a segment by its number.
    fn read(
        mut self,
        find: impl Fn(u32) -> Option<Arc<Segment>>,
        visit: &mut VisitEach<'_>,
    ) -> Result<ControlFlow<()>> {
        self.found.sort_unstable();
        let mut segment: Option<Arc<Segment>> = None;
        with_buffer(|buffer| {
            for (place, begin, end) in self.found {
                let segment = match segment.take().filter(|segment| segment.id == place.segment) {
                    Some(same) => segment.insert(same),
                    None => {
                        segment.insert(find(place.segment).ok_or_else(|| no_such_segment(place.segment))?)
                    }
                };
                let key = self.keys.get(begin..end).unwrap_or_default();
                let next = match segment.read(place, buffer) {
                    Ok(value) => visit(key, Ok(value)),
                    Err(error) => visit(key, Err(error.of_value(0, key, true))),
                };
                if next.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}
