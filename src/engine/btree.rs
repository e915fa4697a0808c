//! `btree`: the standard library's B-tree in memory, an append-only file on disk.

use super::{
    Check, Compression, Family, Info, KeyRange, Kind, Op, OpenFiles, VisitPair, VisitValue, Writers, aof,
    memory::{Memory, Table},
};
use smallvec::SmallVec;
use std::{collections::BTreeMap, ops::Bound};

/// The engine's row in the list.
pub const KIND: Kind = Kind {
    info: &INFO,
    open: |options| Memory::<BTree>::open(&INFO, options),
    recognise: aof::recognise,
    check: Check::Reading(aof::check),
};

static INFO: Info = Info {
    name: "btree",
    library: "std::collections::BTreeMap",
    family: Family::MemoryBTree,
    ordered: true,
    in_memory: true,
    constant_count: true,
    writers: Writers::One,
    compression: &[Compression::None],
    cache: "not used: all data are in memory",
    open_files: OpenFiles::always(8),
    loss: aof::LOSS,
    caveats: aof::CAVEATS,
};

/// A key, inside the tree's node unless it is longer than this. In a box, each comparison would wait for
/// memory: a look-up among a million keys took half as long again.
type Key = SmallVec<[u8; 24]>;

/// A B-tree of pairs.
#[derive(Default)]
pub(super) struct BTree(BTreeMap<Key, Box<[u8]>>);

impl BTree {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.0.get_mut(key) {
            Some(old) if old.len() == value.len() => old.copy_from_slice(value),
            Some(old) => *old = value.into(),
            None => drop(self.0.insert(Key::from_slice(key), value.into())),
        }
    }
}

impl Table for BTree {
    /// The last key that was visited.
    type Position = Option<Key>;

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) {
        for (index, key) in keys.iter().enumerate() {
            if visit(index, self.0.get(*key).map(Box::as_ref)).is_break() {
                return;
            }
        }
    }

    fn write(&mut self, ops: &[Op<'_>]) {
        for op in ops {
            match *op {
                Op::Put { key, value } => self.put(key, value),
                Op::Delete { key } => drop(self.0.remove(key)),
                Op::Clear => {}
            }
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) {
        // `BTreeMap::range` panics on bounds that cross.
        if range.is_empty() {
            return;
        }
        for (key, value) in self.0.range::<[u8], _>((range.start, range.end)) {
            if visit(key, value).is_break() {
                return;
            }
        }
    }

    fn walk(&self, position: &mut Self::Position, visit: &mut VisitPair<'_>) -> bool {
        let start = position.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for (key, value) in self.0.range::<[u8], _>((start, Bound::Unbounded)) {
            if visit(key, value).is_break() {
                *position = Some(key.clone());
                return true;
            }
        }
        false
    }
}
