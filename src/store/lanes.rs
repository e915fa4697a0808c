//! Committing where there are slots: each part by itself, those of different slots at the same time.

use super::{Error, Store, Txn, Work, raw_scan};
use crate::engine::{self, Batch, KeyRange, WriteOp};
use std::{collections::BTreeMap, ops::ControlFlow, slice, thread};

/// Commits that are under way at the same time: most of their time goes by in the network and on disks of others. With 8
/// there were 3,000 SETs of 50 clients a second where there are 8,000 with 64.
const MAX_CONCURRENT_COMMITS: usize = 64;

impl Store {
    /// Whether only what is in one slot can be written, or read, together.
    #[inline]
    pub fn is_sharded(&self) -> bool {
        self.sharded
    }

    /// The slot of a key of a database, 0 where there are none.
    pub fn slot(&self, key: &[u8]) -> u16 {
        self.engine().slot(key)
    }

    /// Commits each part of a group by itself. Blind ones are sent together. Of the others, those of one slot follow each
    /// other in their order; they would only be in each other's way. That parts in different lanes are about the same
    /// keys costs another attempt, no more.
    pub(super) fn commit_by_slot<W: Work>(&self, group: &mut [W]) {
        let (mut blind, mut lanes) = (Vec::new(), BTreeMap::<usize, Vec<&mut W>>::new());
        for work in group {
            if work.is_blind() {
                blind.push(work);
            } else {
                lanes.entry(usize::from(work.slot(self)) % MAX_CONCURRENT_COMMITS).or_default().push(work);
            }
        }
        let commit = |lane: Vec<&mut W>| {
            lane.into_iter().for_each(|work| self.commit_group(slice::from_mut(work)));
        };
        let here = if blind.is_empty() { lanes.pop_last() } else { None };
        thread::scope(|scope| {
            for lane in lanes.into_values() {
                scope.spawn(move || commit(lane));
            }
            match here {
                Some((_, lane)) => commit(lane),
                None => self.commit_blind(&mut blind),
            }
        });
    }
}

impl Txn<'_> {
    /// Removes every key of the database where there are slots, slot by slot and at once: it cannot wait for the commit.
    pub(super) fn flush_database_by_slot(&mut self) -> Result<(), Error> {
        if !self.is_untouched() {
            let what =
                "cannot remove all keys of a database together with what else MULTI and EXEC do".into();
            let engine = self.store().info().name;
            return Err(engine::Error::Unsupported { engine, what }.into());
        }
        self.touch_watched()?;
        let (store, mut keys) = (self.store(), BTreeMap::<u16, Vec<Vec<u8>>>::new());
        raw_scan::scan(store.source(), self.space(), KeyRange::ALL, &mut |stored, _, _| {
            keys.entry(store.slot(stored)).or_default().push(stored.into());
            ControlFlow::Continue(())
        })?;
        for keys in keys.into_values() {
            let mut batch = Batch::with_capacity(keys.len());
            keys.iter().for_each(|key| batch.push(WriteOp::Delete { key }));
            store.write(&batch)?;
        }
        Ok(())
    }
}
