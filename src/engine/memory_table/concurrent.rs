//! One table in memory for many threads, none of which locks it for long.
//!
//! - A reader sees all of a batch or nothing of it, whatever its size.
//! - Reads of many keys, and scans, work in chunks of about a millisecond, on a [`Snapshot`]. A scan can pause only
//!   between two parts of a hash table, so a chunk of it takes longer if a part has very many keys: with 50 million
//!   keys about 130,000.
//! - A large batch is gathered outside the table, becomes visible at once, and is moved into the table in chunks
//!   (see [`State`]). A scan, or a read of very many keys, that begins during the move waits for its end.
//! - Data that a `Clear` removed are freed on a separate thread.
//!
//! [`Snapshot`]: super::snapshot::Snapshot

use super::{
    super::{Batch, KeyRange, VisitPair, VisitValue, WriteOp},
    snapshot::{Snapshots, UndoRecords, View, pause, release},
    table_and_pending::{Cleared, Garbage, State},
    table_trait::{ByteBudget, ScanControl, Table},
};
use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use std::{
    ops::ControlFlow,
    sync::{PoisonError, RwLock},
    thread,
    time::{Duration, Instant},
};

/// Maximum number of writes, and of bytes of keys and values, that are applied to a table under one lock; a larger
/// batch is gathered outside the table.
const CRITICAL_SECTION: (usize, usize) = (16 << 10, 4 << 20);

/// Number of writes of a large batch that are applied to a table under one lock.
const OPS: usize = 512;

/// Maximum number of keys that are read from a table under one lock.
pub(in super::super) const KEYS: usize = 4096;

/// Maximum number of bytes of values that are visited, and usually copied, under one lock of the table.
const BYTES: ByteBudget = ByteBudget(4 << 20);

/// Number of bytes of one large value that are copied under one lock of the table.
const PIECE: usize = 1 << 20;

/// Time after which a scan unlocks the table, at the next position from which it can continue. The scan compares the
/// time only after every [`PAIRS`] pairs.
const STEP: Duration = Duration::from_millis(1);

/// Number of pairs that a scan visits before it compares the time with [`STEP`] again.
const PAIRS: u32 = 64;

/// Number of keys below which a cleared table is freed by the thread that cleared it.
const SMALL: usize = 10_000;

/// Table in memory with its locks, the batch that is not yet completely in it, and the open snapshots.
pub(in super::super) struct SharedTable<T: Table> {
    /// Table and pending batch, in a sharded lock. All readers of a plain `RwLock` write the same cache line, which
    /// holds the number of readers. With shards, a reader writes the line of one shard only, and the writer locks all
    /// shards once per batch.
    state: ShardedLock<State<T>>,
    ordered: bool,
    snapshots: Snapshots<T>,
    /// Locked for writing while a large batch is visible but not yet completely in the table: a snapshot of the
    /// table is taken before or after that.
    settling: RwLock<()>,
}

/// Number of visited pairs and start time of one step of a scan, which ends after [`STEP`].
#[derive(Default)]
struct Clock {
    pairs: u32,
    begin: Option<Instant>,
}

impl Clock {
    #[inline]
    fn next(&mut self) -> ScanControl {
        self.pairs += 1;
        if !self.pairs.is_multiple_of(PAIRS) {
            return ScanControl::Continue;
        }
        if self.begin.get_or_insert_with(Instant::now).elapsed() < STEP {
            ScanControl::Continue
        } else {
            ScanControl::Pause
        }
    }
}

fn is_large(ops: usize, bytes: usize) -> bool {
    ops > CRITICAL_SECTION.0 || bytes > CRITICAL_SECTION.1
}

fn key<'o>(op: &'o WriteOp<'_>) -> &'o [u8] {
    match op {
        WriteOp::Put { key, .. } | WriteOp::Delete { key } => key,
        WriteOp::Clear => &[],
    }
}

/// Frees what a write removed; large data on a separate thread.
#[inline]
pub(in super::super) fn free_garbage<T: Table>(waste: Garbage<T>) {
    if waste.cleared.is_some() || !waste.heavy.is_empty() {
        free(waste);
    }
}

#[cold]
fn free<T: Table>(Garbage { cleared, heavy }: Garbage<T>) {
    let keys = |cleared: &Cleared<T>| cleared.table.len() + cleared.puts.as_ref().map_or(0, T::len);
    if heavy.is_empty() && cleared.as_ref().map_or(0, keys) < SMALL {
        return;
    }
    let free = move || {
        drop(heavy);
        if let Some(Cleared { table, puts }) = cleared {
            puts.into_iter().for_each(|puts| puts.free(&mut pause));
            release(table);
        }
    };
    // If no thread can be started, all data are dropped here.
    let _thread = thread::Builder::new().name("free".into()).spawn(free);
}

impl<T: Table> SharedTable<T> {
    pub(in super::super) fn new(table: T, ordered: bool) -> Self {
        Self {
            state: ShardedLock::new(State::new(table)),
            ordered,
            snapshots: Snapshots::default(),
            settling: RwLock::default(),
        }
    }

    // A poisoned lock is used for reading and writing: a table is consistent after each of its operations, so at
    // worst half a batch of a panicked writer is visible, and refusing all later calls would turn one panic into
    // many.

    #[inline]
    pub(super) fn lock(&self) -> ShardedLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn lock_mut(&self) -> ShardedLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a snapshot of the state that `_guard` locks; no batch may be visible that is not yet in the table.
    pub(super) fn snapshot(&self, _guard: &State<T>, position: T::Position) -> View<'_, T> {
        self.snapshots.open(position)
    }

    /// Calls `visit` with the index and the value of each of `keys`, under one snapshot: see
    /// [`Engine::read`](super::super::Engine::read).
    #[inline]
    pub(in super::super) fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) {
        if keys.len() > KEYS {
            return self.read_many(keys, visit);
        }
        self.lock().read(keys, ByteBudget::NONE, visit);
    }

    /// Calls `visit` for each of `keys`, under one snapshot, without holding a lock for long because of large
    /// values: see [`Engine::read_large`](super::super::Engine::read_large).
    pub(super) fn read_long(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) {
        if keys.len() > KEYS {
            return self.read_many(keys, visit);
        }
        let guard = self.lock();
        if let Some(first) = guard.read(keys, BYTES, visit) {
            self.read_rest(guard, keys, first, visit);
        }
    }

    /// Continues a read of `keys` at index `first`, with the same snapshot, because the values are too large to be
    /// visited under one lock.
    #[cold]
    fn read_rest(
        &self,
        guard: ShardedLockReadGuard<'_, State<T>>,
        keys: &[&[u8]],
        first: usize,
        visit: &mut VisitValue<'_>,
    ) {
        let rest = keys.get(first..).unwrap_or_default();
        let mut visit = |index, value: Option<&[u8]>| visit(first + index, value);
        // Waiting here could deadlock: the thread that holds `settling` may wait for the guard.
        match self.settling.try_read() {
            Ok(settled) => {
                let view = self.snapshot(&guard, T::Position::default());
                drop((guard, settled));
                self.read_in_steps(&view, rest, &mut visit);
            }
            // No key was visited yet, so that another snapshot will do.
            Err(_) if first == 0 => {
                drop(guard);
                self.read_many(rest, &mut visit);
            }
            Err(_) => drop(guard.read(rest, ByteBudget::NONE, &mut visit)),
        }
    }

    #[cold]
    fn read_many(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) {
        let settled = self.settling.read();
        let view = self.snapshot(&self.lock(), T::Position::default());
        drop(settled);
        self.read_in_steps(&view, keys, visit);
    }

    fn read_in_steps(&self, view: &View<'_, T>, keys: &[&[u8]], visit: &mut VisitValue<'_>) {
        let mut rest = keys;
        while let [first, ..] = rest {
            let (at, mut after) = (keys.len() - rest.len(), ControlFlow::Continue(()));
            let step = rest.get(..KEYS).unwrap_or(rest);
            // Locked in this order, as writers do.
            let guard = self.lock();
            let stopped = view.lock_snapshot().read(&guard.table, step, BYTES, &mut |index, value| {
                after = visit(at + index, value);
                after
            });
            drop(guard);
            let done = match stopped {
                Some(0) => {
                    after = visit(at, self.copy(view, first).as_deref());
                    1
                }
                stopped => stopped.unwrap_or(step.len()),
            };
            if after.is_break() {
                return;
            }
            rest = rest.get(done..).unwrap_or_default();
            pause();
        }
    }

    /// Copies a large value in chunks. Other threads may change it meanwhile: the snapshot keeps the old value.
    fn copy(&self, view: &View<'_, T>, key: &[u8]) -> Option<Vec<u8>> {
        let mut copy = Vec::new();
        loop {
            let guard = self.lock();
            let snapshot = view.lock_snapshot();
            let value = snapshot.get(&guard.table, key)?;
            copy.reserve_exact(value.len() - copy.len());
            let rest = value.get(copy.len()..).unwrap_or_default();
            copy.extend_from_slice(rest.get(..PIECE).unwrap_or(rest));
            if copy.len() == value.len() {
                return Some(copy);
            }
            drop((guard, snapshot));
            pause();
        }
    }

    /// Visits the pairs of `range`: see [`Engine::scan`](super::super::Engine::scan).
    pub(super) fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) {
        self.scan_in_steps(range, visit, &mut || ControlFlow::Continue(()));
    }

    /// Scans like [`SharedTable::scan`], and calls `between` without a lock after each step, the last one included.
    /// `between` may take long, and may stop the scan.
    pub(in super::super) fn scan_in_steps(
        &self,
        range: KeyRange<'_>,
        visit: &mut VisitPair<'_>,
        between: &mut dyn FnMut() -> ControlFlow<()>,
    ) {
        // `BTreeMap::range` panics on bounds that cross.
        if range.is_empty() {
            return;
        }
        let mut stopped = false;
        let mut next = |clock: &mut Clock, key: &[u8], value: &[u8]| {
            stopped = visit(key, value).is_break();
            if stopped { ScanControl::Stop } else { clock.next() }
        };
        let settled = self.settling.read();
        let guard = self.lock();
        let (mut clock, mut position) = (Clock::default(), T::Position::default());
        if !guard.table.scan_step(range, &mut position, &mut |key, value| next(&mut clock, key, value)) {
            drop((guard, settled));
            let _done = between();
            return;
        }
        let view = self.snapshot(&guard, position);
        drop((guard, settled));
        let left = loop {
            if between().is_break() {
                return;
            }
            pause();
            let guard = self.lock();
            let (mut clock, mut snapshot) = (Clock::default(), view.lock_snapshot());
            let mut next = |key: &[u8], value: &[u8]| next(&mut clock, key, value);
            if !snapshot.scan_step(&guard.table, self.ordered, range, &mut next) {
                break snapshot.take_kept();
            }
        };
        let left = if stopped { UndoRecords::new() } else { left };
        for (key, value) in left {
            if let Some(value) = value
                && range.contains(&key)
                && visit(&key, &value).is_break()
            {
                break;
            }
        }
        let _done = between();
    }

    /// Waits until no large batch is visible that is not yet completely in the table, where a scan finds its pairs.
    pub(in super::super) fn wait_until_settled(&self) {
        drop(self.settling.read());
    }

    /// Runs one step of an incremental scan, which is no snapshot. Returns `true` if there may be more pairs.
    pub(in super::super) fn scan_step(&self, position: &mut T::Position, visit: &mut VisitPair<'_>) -> bool {
        self.lock().table.scan_step(KeyRange::ALL, position, &mut |key, value| match visit(key, value) {
            ControlFlow::Continue(()) => ScanControl::Continue,
            ControlFlow::Break(()) => ScanControl::Pause,
        })
    }

    /// Calls `look` with the table. The part of a large batch that has not yet been moved into the table is missing.
    pub(in super::super) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock().table)
    }

    /// Returns the number of keys that readers see, with a large batch that is visible but not yet wholly in the table.
    pub(in super::super) fn len(&self) -> u64 {
        self.lock().len()
    }

    /// Applies a batch in chunks of whole parts ([`Batch::end_part`]), in order, each under one lock. A chunk that is
    /// too large for that (see [`CRITICAL_SECTION`]) is gathered outside the table first. No other write may run.
    /// Returns what the batch has removed, to be passed to [`free_garbage`].
    #[must_use = "to be discarded after the locks"]
    pub(in super::super) fn write(&self, batch: &Batch<'_>) -> Garbage<T> {
        let (mut clear, ops) = batch.after_clear();
        if !is_large(batch.len(), batch.bytes()) {
            return self.write_piece(clear, ops);
        }
        let mut all = Garbage::default();
        for (ops, bytes) in batch.chunks(CRITICAL_SECTION) {
            match (clear, is_large(ops.len(), bytes)) {
                (false, true) => self.write_large(ops),
                (true, true) => all.cleared = Some(self.replace(ops)),
                (_, false) => {
                    let Garbage { cleared, heavy } = self.write_piece(clear, ops);
                    all.cleared = all.cleared.or(cleared);
                    all.heavy.extend(heavy);
                }
            }
            clear = false;
        }
        all
    }

    fn write_piece(&self, clear: bool, ops: &[WriteOp<'_>]) -> Garbage<T> {
        let mut heavy = Vec::new();
        let mut state = self.lock_mut();
        let cleared = clear.then(|| self.clear(&mut state));
        self.snapshots.keep(&state.table, ops.iter().map(key));
        state.write(ops, &mut heavy);
        Garbage { cleared, heavy }
    }

    fn clear(&self, state: &mut State<T>) -> Cleared<T> {
        let cleared = state.clear();
        self.snapshots.keep_all(&cleared.table);
        cleared
    }

    /// Replaces the contents of the table by the writes `ops`, and returns the old contents.
    fn replace(&self, ops: &[WriteOp<'_>]) -> Cleared<T> {
        let mut table = T::default();
        table.write(ops, &mut Vec::new());
        let mut state = self.lock_mut();
        let cleared = self.clear(&mut state);
        state.table = table;
        cleared
    }

    fn write_large(&self, ops: &[WriteOp<'_>]) {
        self.lock_mut().begin();
        for ops in ops.chunks(OPS) {
            self.gather(ops);
            pause();
        }
        let _settling = self.settling.write();
        self.lock_mut().show();
        for ops in ops.chunks(OPS) {
            let (go_on, replaced) = self.settle(ops);
            if !go_on {
                break;
            }
            drop(replaced);
            pause();
        }
        let rest = self.lock_mut().end();
        drop(rest);
    }

    pub(super) fn gather(&self, ops: &[WriteOp<'_>]) {
        let pair = |op: &WriteOp<'_>| match op {
            WriteOp::Put { key, value } => Ok(T::pair(key, value)),
            op => Err(Box::from(key(op))),
        };
        let pairs: Vec<Result<T::Pair, Box<[u8]>>> = ops.iter().map(pair).collect();
        let mut state = self.lock_mut();
        for pair in pairs {
            match pair {
                Ok(pair) => state.gather_put(pair),
                Err(key) => state.gather_delete(key),
            }
        }
    }

    /// Moves writes of a large batch into the table. Returns `true` if the batch is still pending, and the replaced
    /// pairs.
    pub(super) fn settle(&self, ops: &[WriteOp<'_>]) -> (bool, Vec<T::Pair>) {
        let mut replaced = Vec::with_capacity(ops.len());
        let mut state = self.lock_mut();
        self.snapshots.keep(&state.table, ops.iter().map(key));
        replaced.extend(ops.iter().filter_map(|op| state.settle(key(op))));
        (state.has_pending(), replaced)
    }
}
