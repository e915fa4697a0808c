//! The data: the table, the segments, and how they are read and written.

use super::{
    info::NAME,
    key_table::{KeyTable, ValuePosition, sum_of},
    lock::Lock,
    manifest::Manifest,
    segment::{OpenFiles, Segment, Segments, path_of},
    space::{LastSearch, Space},
};
use crate::engine::{
    Batch, Error, KeyRange, Result, VisitEach, VisitValue, WriteOp,
    aof::{Aof, EMPTY},
    files,
    memory_table::{KEYS, SharedTable, Table, free_garbage},
};
use smallvec::SmallVec;
use std::{
    cell::Cell,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Bytes around a key and a value in the log at most, and around a batch.
const RECORD: usize = 128;

/// Memory for values that a thread keeps from read to read.
const MAX_REUSED_BUFFER: usize = 1 << 20;

/// The data of an open engine.
pub(super) struct Files {
    pub(super) directory: PathBuf,
    pub(super) lock: Lock,
    pub(super) table: SharedTable<KeyTable>,
    pub(super) segments: Segments,
    pub(super) space: Space,
    pub(super) last_search: LastSearch,
    open: Arc<OpenFiles>,
    /// Whoever waits for `writer` holds this, so that two who write again and again take turns.
    next: Mutex<()>,
    writer: Mutex<Writer>,
    /// The log that is written to, for a sync beside writes.
    active: Mutex<Arc<Aof>>,
    /// `true` if the manifest on disk lacks a segment. Locked while the manifest is written.
    unrecorded: Mutex<bool>,
}

/// What a write needs. While it is held, table and segments have the same.
pub(super) struct Writer {
    pub(super) active: Arc<Aof>,
    pub(super) id: u32,
    /// Length of the log at which it is to be sealed.
    enough: u64,
    /// Length at which the background is to be woken.
    wake: u64,
    /// Bytes that may be written before the next look at the disk.
    budget: u64,
}

/// What a write asks of the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing.
    Nothing,
    /// To look for work.
    Work,
}

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the thread's buffer. It is another one for what is called meanwhile.
fn with_buffer<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = BUFFER.take();
    let result = work(&mut buffer);
    if buffer.len() <= MAX_REUSED_BUFFER {
        BUFFER.set(buffer);
    }
    result
}

/// Returns `true` if the batch leaves less alive than there was: it only deletes, or it clears.
fn frees(batch: &Batch<'_>) -> bool {
    batch.after_clear().0 || batch.ops().iter().all(|op| matches!(op, WriteOp::Delete { .. }))
}

/// The table has a place of a segment that is not there: never, but for a fault of this program.
fn lost(id: u32) -> Error {
    Error::Library { engine: NAME, message: format!("segment {id} is not there") }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A log whose writer panicked refuses all further writes itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (enough, wake) = (space.segment(), active.len() + space.wake_every());
        let writer = Writer { active: Arc::clone(&active), id, enough, wake, budget: 0 };
        Self {
            directory,
            lock,
            table: SharedTable::new(table, false),
            segments,
            space,
            last_search: LastSearch::default(),
            open,
            next: Mutex::default(),
            writer: Mutex::new(writer),
            active: Mutex::new(active),
            unrecorded: Mutex::new(true),
        }
    }

    /// Waits for the write that runs, and keeps others out.
    pub(super) fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        let _next = lock(&self.next);
        lock(&self.writer)
    }

    /// The log that is written to.
    pub(super) fn active(&self) -> Arc<Aof> {
        Arc::clone(&lock(&self.active))
    }

    /// See [`Engine::read`](crate::engine::Engine::read).
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
            // In steps, between which segments come and go.
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
                        let segment = segment.as_ref().ok_or_else(|| lost(place.segment))?;
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

    /// See [`Engine::scan_each`](crate::engine::Engine::scan_each).
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

    /// See [`Engine::walk_each`](crate::engine::Engine::walk_each).
    pub(super) fn walk(&self, position: u64, visit: &mut VisitEach<'_>) -> Result<u64> {
        let Some(mut place) = KeyTable::place(position) else { return Ok(0) };
        if position == 0 {
            self.table.wait_until_settled();
        }
        let mut pause = false;
        loop {
            let (view, mut gathered) = (self.segments.view(), Gathered::default());
            let more = self.table.walk(&mut place, &mut |key, place| {
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

    /// Writes a batch, with `sync` to stable storage, and then shows it.
    pub(super) fn write(&self, writer: &mut Writer, batch: &Batch<'_>, sync: bool) -> Result<After> {
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
        if writer.active.len() >= writer.enough {
            self.roll(writer);
            return Ok(After::Work);
        }
        let is_due = writer.active.len() >= writer.wake || batch.after_clear().0;
        if is_due {
            writer.wake = writer.active.len() + self.space.wake_every();
        }
        Ok(if is_due { After::Work } else { After::Nothing })
    }

    /// Goes over to a new segment. Where that fails, the old one goes on: it is tried again later, unless the old
    /// one refuses further writes.
    fn roll(&self, writer: &mut Writer) {
        if let Err(error) = self.try_roll(writer) {
            log::warn!("{NAME}: writes go on in {}: {error}", path_of(&self.directory, writer.id).display());
            writer.enough = writer.active.len() + self.space.wake_every();
        }
    }

    /// The same, with the error. Before anything is in the new segment, all of the old one is on stable storage, and
    /// says so: whatever a crash takes from the last segment, it takes nothing from those before it. And the manifest
    /// lists the new one.
    pub(super) fn try_roll(&self, writer: &mut Writer) -> Result<()> {
        // A sealed segment without a record would look like one that was cut.
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
            // An empty segment behind the last one is ignored by the next start, if this fails.
            let _best_effort = segment.check_path().and_then(|()| files::remove_leftover(&at));
            return Err(error);
        }
        self.segments.roll(segment, writer.active.len());
        *lock(&self.active) = Arc::clone(&active);
        let (enough, wake) = (self.space.segment(), active.len() + self.space.wake_every());
        *writer = Writer { active, id, enough, wake, budget: writer.budget };
        // Only the loss of the new segment would not be noticed. The background tries again.
        if let Err(error) = self.record() {
            log::warn!(
                "{NAME}: {} is not in the list of segments: {error}",
                path_of(&self.directory, id).display()
            );
        }
        Ok(())
    }

    /// Writes the manifest.
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

    /// Notes that the manifest lists all segments.
    pub(super) fn set_recorded(&self) {
        *lock(&self.unrecorded) = false;
    }

    /// Writes the manifest if an earlier attempt failed.
    ///
    /// # Errors
    ///
    /// Fails if the manifest cannot be written.
    pub(super) fn record_again(&self) -> Result<()> {
        let unrecorded = *lock(&self.unrecorded);
        if unrecorded { self.record() } else { Ok(()) }
    }

    /// Takes a segment from the manifest and from the list of segments.
    ///
    /// # Errors
    ///
    /// Fails if the manifest cannot be written; the segment then stays.
    pub(super) fn forget(&self, id: u32) -> Result<()> {
        let mut unrecorded = lock(&self.unrecorded);
        let ids = self.segments.ids().into_iter().filter(|other| *other != id);
        Manifest::of(ids).write(&self.lock)?;
        *unrecorded = false;
        self.segments.remove(id);
        Ok(())
    }

    /// Returns `true` if the next writes may be refused, so that merges are to free space.
    pub(super) fn is_short_of_space(&self) -> bool {
        self.space.free() < self.space.reserve() + self.space.wake_every()
    }

    /// Fails if the batch would take space that is kept for merges and deletes.
    pub(super) fn check_space(&self, writer: &mut Writer, batch: &Batch<'_>) -> Result<()> {
        let needs = (batch.bytes() + batch.len() * RECORD + RECORD) as u64;
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
            // Other programs, and merges, write there too.
            writer.budget = needs + (above / 2).min(self.space.wake_every());
        }
        writer.budget = writer.budget.saturating_sub(needs);
        Ok(())
    }

    /// Makes everything that was written before the call survive a power cut. What is not in the active segment does
    /// already.
    pub(super) fn sync(&self) -> Result<()> {
        self.active().sync()
    }

    /// Bytes of all segments, and of the records that are alive.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.segments.sealed_bytes() + self.active().len(), self.table.look(KeyTable::live))
    }
}

/// Keys and places, to be read when no lock is held.
#[derive(Default)]
struct Gathered {
    keys: Vec<u8>,
    /// The place, and where its key begins and ends.
    found: Vec<(ValuePosition, usize, usize)>,
}

impl Gathered {
    fn add(&mut self, key: &[u8], place: &[u8]) {
        let Some(place) = ValuePosition::of(place) else { return };
        let begin = self.keys.len();
        self.keys.extend_from_slice(key);
        self.found.push((place, begin, self.keys.len()));
    }

    /// Reads the values, in their order on disk.
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
                    None => segment.insert(find(place.segment).ok_or_else(|| lost(place.segment))?),
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
