//! `btree`: the standard library's B-tree in memory, an append-only file on disk.

use crate::engine::{
    Capabilities, Check, Compression, Family, FsyncSupport, Info, KeyRange, Kind, OpenFiles, Status,
    VisitValue, WriteOp, Writers, aof,
    memory_table::{
        ByteBudget, MemoryEngine, SLOW_TO_FREE, ScanControl, Table, VisitNext, free_each, free_in_order,
    },
};
use smallvec::SmallVec;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    mem,
    ops::Bound,
};

/// Entry of the engine `btree` in the list of engines.
pub const KIND: Kind = Kind::new(
    &INFO,
    |options| MemoryEngine::<BTree>::open(&INFO, options),
    aof::recognise,
    Check::InPlace(|path| aof::check(NAME, path)),
)
.with_repair(|path| aof::repair(NAME, path));

const NAME: &str = "btree";

static INFO: Info = Info {
    name: NAME,
    library: "std::collections::BTreeMap",
    own_format: Some(aof::FORMAT),
    family: Family::MemoryBTree,
    status: Status::Stable,
    needs: &[],
    capabilities: Capabilities {
        ordered: true,
        in_memory: true,
        memory_resident: true,
        constant_count: true,
        compacts: true,
        rewrites_log: true,
        recovers_failed_syncs: true,
        finds_corruption: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::One,
    fsync: FsyncSupport::Changeable,
    key_length: (0, aof::MAX_LENGTH),
    compression: &[Compression::None],
    cache: "not used: all data are in memory",
    open_files: OpenFiles::always(8),
    cluster_flag: None,
    loss: aof::LOSS,
    caveats: aof::CAVEATS,
    same_design: &["buntdb"],
    log_targets: &[],
};

/// A key, stored inside the tree's node if it has at most 24 bytes. With boxed keys each comparison would wait
/// for memory: a lookup among a million keys took half as long again.
type Key = SmallVec<[u8; 24]>;

/// B-tree of the pairs in memory, the table of the engine `btree`.
#[derive(Default)]
pub(in crate::engine) struct BTree(BTreeMap<Key, Box<[u8]>>);

impl BTree {
    fn set(&mut self, key: &[u8], value: &[u8], heavy: &mut Vec<(Key, Box<[u8]>)>) {
        match self.0.get_mut(key) {
            Some(old) if old.len() == value.len() => old.copy_from_slice(value),
            Some(old) => free(mem::replace(old, value.into()), heavy),
            None => drop(self.0.insert(Key::from_slice(key), value.into())),
        }
    }
}

/// Frees a value or, if that would take long, adds it to `heavy` for the caller to free.
fn free(value: Box<[u8]>, heavy: &mut Vec<(Key, Box<[u8]>)>) {
    if value.len() > SLOW_TO_FREE {
        heavy.push((Key::new(), value));
    }
}

impl Table for BTree {
    /// Last key that a scan has visited, behind which it continues; `None` at its start.
    type Position = Option<Key>;
    type Pair = (Key, Box<[u8]>);

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.get(key).map(Box::as_ref)
    }

    fn read(&self, keys: &[&[u8]], mut budget: ByteBudget, visit: &mut VisitValue<'_>) -> Option<usize> {
        for (index, key) in keys.iter().enumerate() {
            let value = self.get(key);
            if budget.is_over(value) {
                return Some(index);
            }
            if visit(index, value).is_break() {
                return None;
            }
        }
        None
    }

    fn write(&mut self, ops: &[WriteOp<'_>], heavy: &mut Vec<Self::Pair>) {
        for op in ops {
            match *op {
                WriteOp::Put { key, value } => self.set(key, value, heavy),
                WriteOp::Delete { key } => {
                    self.0.remove(key).into_iter().for_each(|value| free(value, heavy))
                }
                WriteOp::Clear => {}
            }
        }
    }

    fn pair(key: &[u8], value: &[u8]) -> Self::Pair {
        (Key::from_slice(key), value.into())
    }

    fn key(pair: &Self::Pair) -> &[u8] {
        &pair.0
    }

    fn put(&mut self, (key, value): Self::Pair) -> Option<Self::Pair> {
        match self.0.entry(key) {
            Entry::Occupied(mut entry) => {
                let old = mem::replace(entry.get_mut(), value);
                Some((entry.key().clone(), old))
            }
            Entry::Vacant(entry) => {
                entry.insert(value);
                None
            }
        }
    }

    fn take(&mut self, key: &[u8]) -> Option<Self::Pair> {
        self.0.remove_entry(key)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn free(self, pause: &mut dyn FnMut()) {
        let Self(mut pairs) = self;
        let mut values = Vec::with_capacity(pairs.len());
        values.extend(pairs.values_mut().map(mem::take));
        // Nodes are freed before values: they all have the same size, so the allocator does not have to sort
        // the holes that they leave between values (see `free_in_order`).
        free_each(pairs, pause);
        free_in_order(values, |value| value.as_ptr().addr(), pause);
    }

    fn scan_step(
        &self,
        range: KeyRange<'_>,
        position: &mut Self::Position,
        visit: &mut VisitNext<'_>,
    ) -> bool {
        let start = position.as_deref().map_or(range.start, Bound::Excluded);
        // `BTreeMap::range` panics if the start is behind the end.
        if (KeyRange { start, end: range.end }).is_empty() {
            return false;
        }
        for (key, value) in self.0.range::<[u8], _>((start, range.end)) {
            match visit(key, value) {
                ScanControl::Continue => {}
                ScanControl::Pause => {
                    *position = Some(key.clone());
                    return true;
                }
                ScanControl::Stop => return false,
            }
        }
        false
    }

    fn is_past(&self, position: &Self::Position, key: &[u8]) -> bool {
        position.as_deref().is_some_and(|position| key <= position)
    }
}
