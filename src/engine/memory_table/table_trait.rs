//! Trait of tables in memory.

use super::super::{KeyRange, VisitValue, WriteOp};

/// Continuation of a scan after a visited pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ScanControl {
    /// The scan continues with the next pair.
    Continue,
    /// The scan pauses at the next position from which it can continue later. The pairs before that position follow.
    Pause,
    /// End of the scan: no pair may follow.
    Stop,
}

/// Number of bytes of values that a read may still visit before it must release the lock of the table.
#[derive(Clone, Copy)]
pub(in super::super) struct ByteBudget(pub(in super::super) usize);

impl ByteBudget {
    /// Budget without a limit.
    pub(in super::super) const NONE: Self = Self(usize::MAX);

    /// Subtracts the length of a value from the budget. Returns `true`, and subtracts nothing, if it exceeds the
    /// budget.
    #[inline]
    pub(in super::super) fn is_over(&mut self, value: Option<&[u8]>) -> bool {
        match self.0.checked_sub(value.map_or(0, <[u8]>::len)) {
            Some(left) => {
                self.0 = left;
                false
            }
            None => true,
        }
    }
}

/// Frees many small allocations, in the order of their addresses. In any other order, the allocator would
/// temporarily have as many holes between allocations that are not free yet, of all sizes; glibc sorts them by size
/// with its lock held on the next allocation of any thread (for 4 seconds, with 5 million pairs).
pub(in super::super) fn free_in_order<P>(
    mut pieces: Vec<P>,
    address: impl Fn(&P) -> usize,
    pause: &mut dyn FnMut(),
) {
    pieces.sort_unstable_by_key(address);
    free_each(pieces, pause);
}

/// Frees values one after the other, and calls `pause` after every 4,096 of them.
pub(in super::super) fn free_each<P>(pieces: impl IntoIterator<Item = P>, pause: &mut dyn FnMut()) {
    for (number, piece) in (1_u64..).zip(pieces) {
        drop(piece);
        if number.is_multiple_of(4096) {
            pause();
        }
    }
}

/// Size of a pair, in bytes, above which it is freed without a lock, because that takes long.
pub(in super::super) const SLOW_TO_FREE: usize = 4 << 20;

/// Callback that receives a key and its value, both borrowed for the call.
pub(in super::super) type VisitNext<'v> = dyn FnMut(&[u8], &[u8]) -> ScanControl + 'v;

/// Put or removal of a pair of a table.
pub(in super::super) struct Change<P> {
    /// Pair to put; for a removal only its key is used.
    pub(in super::super) pair: P,
    pub(in super::super) is_put: bool,
}

/// Data structure in memory that holds pairs. `T::default()` is the empty one.
pub(in super::super) trait Table: Default + Send + Sync + 'static {
    /// Position of a scan of all pairs; the default is before all pairs.
    type Position: Default + Send + Sync;

    /// Pair in the form in which the table stores it.
    type Pair: Send + 'static;

    /// Returns the value of `key`, or `None` if the table does not have it.
    fn get(&self, key: &[u8]) -> Option<&[u8]>;

    /// Calls `visit` for each of `keys`, in order, until `visit` stops, or until the values would exceed `budget`.
    /// Returns the index of the first key whose value exceeds `budget`, which was not visited; `None` if `visit`
    /// stopped or all keys were visited.
    fn read(&self, keys: &[&[u8]], budget: ByteBudget, visit: &mut VisitValue<'_>) -> Option<usize>;

    /// Applies `ops`, in order, which must not contain `Clear`. Pairs of more than [`SLOW_TO_FREE`] bytes that are
    /// replaced or removed are added to `heavy`.
    fn write(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<Self::Pair>);

    /// Creates a pair in the table's form, outside the table, so that no lock is held while its bytes are copied.
    fn pair(key: &[u8], value: &[u8]) -> Self::Pair;

    /// Returns the key of a pair.
    fn key(pair: &Self::Pair) -> &[u8];

    /// Inserts a pair. Returns the pair with the same key that it replaces.
    fn put(&mut self, pair: Self::Pair) -> Option<Self::Pair>;

    /// Removes the pair of `key` and returns it.
    fn take(&mut self, key: &[u8]) -> Option<Self::Pair>;

    /// Returns the number of keys, in constant time.
    fn len(&self) -> usize;

    /// Creates `count` empty partitions of a table, for threads that each fill one, or a single partition if this kind
    /// of table cannot be divided. Also returns a function from a key to the index of its partition.
    fn partitions(_count: usize) -> (Vec<Self>, impl Fn(&[u8]) -> usize) {
        (vec![Self::default()], |_: &[u8]| 0)
    }

    /// Applies changes to a partition of [`Self::partitions`], in order. Adds the pairs that are then unused to
    /// `waste`. `_part` is the fraction of all changes that have arrived.
    fn change(&mut self, changes: Vec<Change<Self::Pair>>, _part: f64, waste: &mut Vec<Self::Pair>) {
        for Change { pair, is_put } in changes {
            if is_put {
                waste.extend(self.put(pair));
            } else {
                waste.extend(self.take(Self::key(&pair)));
                waste.push(pair);
            }
        }
    }

    /// Removes all pairs of a partition that a thread fills.
    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Joins all partitions of a table, in their order, into one table.
    fn join(mut pieces: Vec<Self>) -> Self {
        pieces.pop().unwrap_or_default()
    }

    /// Frees the table as [`free_in_order`] does, with a `pause` after every 4,096 pairs, so that other threads get the
    /// allocator's locks.
    fn free(self, pause: &mut dyn FnMut());

    /// Continues a scan of the pairs of `range` at `position`, in the table's order; the table may change between
    /// two steps. Returns `true` if there may be more pairs. A complete scan visits every key that existed
    /// throughout, once.
    fn scan_step(
        &self,
        range: KeyRange<'_>,
        position: &mut Self::Position,
        visit: &mut VisitNext<'_>,
    ) -> bool;

    /// Returns the scan position with the given number, or `None` if this table's positions have no numbers: 0 is
    /// before all pairs, and any other number up to `u64::MAX` is a position, too.
    fn place(_number: u64) -> Option<Self::Position> {
        None
    }

    /// Returns the number of a scan position, which [`Self::place`] converts back, or 0 if this table's positions have
    /// no numbers.
    fn number(_position: &Self::Position) -> u64 {
        0
    }

    /// Returns the number of the last scan position from which a scan still visits `key`, or 0 if this table's
    /// positions have no numbers.
    fn position_number(&self, _key: &[u8]) -> u64 {
        0
    }

    /// Returns `true` if a scan that paused at `position` has passed `key`.
    fn is_past(&self, position: &Self::Position, key: &[u8]) -> bool;
}
