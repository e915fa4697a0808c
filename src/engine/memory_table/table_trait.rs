//! What a table in memory can do.

use super::super::{KeyRange, VisitValue, WriteOp};

/// What follows a visited pair in a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum WalkControl {
    /// The next pair.
    On,
    /// A pause, at the next place where the walk can go on later; until there, more pairs follow.
    Pause,
    /// Nothing: the walk is over, and no pair may follow.
    Stop,
}

/// Bytes of values that are still to be visited under one lock.
#[derive(Clone, Copy)]
pub(in super::super) struct ByteBudget(pub(in super::super) usize);

impl ByteBudget {
    /// No bound.
    pub(in super::super) const NONE: Self = Self(usize::MAX);

    /// Takes a value from it. Returns whether that was too much.
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

/// Frees many small pieces of memory, in the order of their addresses. In any other, the allocator would for a
/// time have as many holes between pieces that are not free yet, of all sizes; glibc sorts them by size with
/// its lock held, when anyone allocates next (for 4 seconds, of 5 million pairs).
pub(in super::super) fn free_in_order<P>(
    mut pieces: Vec<P>,
    address: impl Fn(&P) -> usize,
    pause: &mut dyn FnMut(),
) {
    pieces.sort_unstable_by_key(address);
    free_each(pieces, pause);
}

/// Frees one after the other, with a pause after every few thousand.
pub(in super::super) fn free_each<P>(pieces: impl IntoIterator<Item = P>, pause: &mut dyn FnMut()) {
    for (number, piece) in (1_u64..).zip(pieces) {
        drop(piece);
        if number.is_multiple_of(4096) {
            pause();
        }
    }
}

/// A pair of more bytes takes long to be freed, so no lock is held meanwhile.
pub(in super::super) const HEAVY: usize = 4 << 20;

/// Called with a key and its value, both lent for the time of the call.
pub(in super::super) type VisitNext<'v> = dyn FnMut(&[u8], &[u8]) -> WalkControl + 'v;

/// What puts or removes a pair.
pub(in super::super) struct Change<P> {
    /// Of what is removed, only the key counts.
    pub(in super::super) pair: P,
    pub(in super::super) is_put: bool,
}

/// A data structure that holds pairs. `T::default()` is the empty one.
pub(in super::super) trait Table: Default + Send + Sync + 'static {
    /// A place in a walk over all pairs; at first before them all.
    type Position: Default + Send + Sync;

    /// A pair as the table keeps it.
    type Pair: Send + 'static;

    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Option<&[u8]>;

    /// Calls `visit` for each of `keys`, in order, until it stops that, or until the values would be more than
    /// `budget`. Returns the index of the first key whose value was too much.
    fn read(&self, keys: &[&[u8]], budget: ByteBudget, visit: &mut VisitValue<'_>) -> Option<usize>;

    /// Carries out `ops`, in order. There is no `Clear` among them. Pairs of more than [`HEAVY`] bytes that are
    /// replaced or removed are added to `heavy`.
    fn write(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<Self::Pair>);

    /// Makes a pair, so that no lock is held while its bytes are copied.
    fn pair(key: &[u8], value: &[u8]) -> Self::Pair;

    /// The key of a pair.
    fn key(pair: &Self::Pair) -> &[u8];

    /// Puts a pair in. Returns the one it replaces.
    fn put(&mut self, pair: Self::Pair) -> Option<Self::Pair>;

    /// Takes a pair out.
    fn take(&mut self, key: &[u8]) -> Option<Self::Pair>;

    /// Number of keys, without counting them.
    fn len(&self) -> usize;

    /// Empty tables, `count` of them or one, for threads that each fill one; and which of them a key belongs to.
    fn partitions(_count: usize) -> (Vec<Self>, impl Fn(&[u8]) -> usize) {
        (vec![Self::default()], |_: &[u8]| 0)
    }

    /// Carries out changes of such a piece, in order. Adds the pairs that are then of no use to `waste`. What has come
    /// is `part` of all that will.
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

    /// Removes all pairs of such a piece.
    fn clear(&mut self) {
        *self = Self::default();
    }

    /// One table of all pieces, in their order.
    fn join(mut pieces: Vec<Self>) -> Self {
        pieces.pop().unwrap_or_default()
    }

    /// Frees the table as [`free_in_order`] does, with a `pause` after every few thousand pairs: the allocator's
    /// locks are held often meanwhile.
    fn free(self, pause: &mut dyn FnMut());

    /// Goes on with a walk over the pairs of `range`, in the table's order; the table may change between
    /// two steps. Returns whether there may be more. A whole walk visits every key that was there all the
    /// time, once.
    fn walk(&self, range: KeyRange<'_>, position: &mut Self::Position, visit: &mut VisitNext<'_>) -> bool;

    /// The place that a number stands for, if places have numbers: 0 is before all pairs, and the others, up to
    /// the largest there is, are spread over them.
    fn place(_number: u64) -> Option<Self::Position> {
        None
    }

    /// The number of a place, if it has one.
    fn number(_position: &Self::Position) -> u64 {
        0
    }

    /// Whether a walk that paused at `position` is past the place of `key`.
    fn is_past(&self, position: &Self::Position, key: &[u8]) -> bool;
}
