//! Reads of many keys within a transaction: the keys of the engine under the group's write set.

use super::{
    Error, Txn,
    keyspace::{Keyspace, VisitEntry, VisitLookup},
    raw_scan,
};
use crate::engine::{KeyRange, key_value_headers::Entry};
use std::ops::ControlFlow;

/// Callback that receives the stored key, the key without header, and the value, or `None` if the value has expired.
pub(super) type VisitUnfiltered<'v> =
    dyn FnMut(&[u8], &[u8], Option<Result<Entry<'_>, Error>>) -> ControlFlow<()> + 'v;

impl Txn<'_> {
    /// Visits the pairs of the selected database with keys in `range`, as left by the earlier commands of the group, also
    /// those whose values have expired but are still stored. `visit` may stop the scan.
    pub(super) fn scan_unfiltered(
        &mut self,
        range: KeyRange<'_>,
        visit: &mut VisitUnfiltered<'_>,
    ) -> Result<(), Error> {
        let space = self.space();
        let (write_set, clock, below) = self.layers()?;
        let mut after = ControlFlow::Continue(());
        if !write_set.cleared {
            raw_scan::scan(below, space, range, &mut |stored, key, value| {
                if !write_set.values.contains_key(stored) {
                    after = visit(stored, key, clock.each(value));
                }
                after
            })?;
        }
        for stored in write_set.values.iter().filter_map(|(stored, value)| value.map(|_| stored)) {
            if after.is_break() {
                break;
            }
            if let Some(key) = space.decode_key(stored).filter(|key| range.contains(key)) {
                after = visit(stored, key, write_set.entry(stored, clock));
            }
        }
        Ok(())
    }
}

impl Keyspace for Txn<'_> {
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut VisitLookup<'_>) -> Result<(), Error> {
        keys.iter().enumerate().try_for_each(|(index, key)| self.entry(key, |entry| visit(index, entry)))
    }

    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitEntry<'_>) -> Result<(), Error> {
        self.scan_unfiltered(range, &mut |_, key, entry| match entry {
            Some(entry) => visit(key, entry),
            None => ControlFlow::Continue(()),
        })
    }

    fn count(&mut self) -> Result<u64, Error> {
        if self.store().is_shared() {
            let mut count = 0;
            self.scan(KeyRange::ALL, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            return Ok(count);
        }
        let (store, space) = (self.store(), self.space());
        let (write_set, clock) = self.write_set_and_clock();
        let ours = write_set.values.iter().filter(|(stored, _)| space.decode_key(stored).is_some());
        let after = ours.clone().filter(|(_, value)| clock.entry(**value).is_some()).count() as u64;
        if write_set.cleared {
            return Ok(after);
        }
        let (keys, mut before) = (ours.map(|(stored, _)| *stored).collect::<Vec<_>>(), 0);
        store.reads.read_each(&keys, &mut |_, value| {
            before += u64::from(!matches!(value, Ok(None)));
        })?;
        Ok(store.count_keys(space)?.saturating_sub(before) + after)
    }

    fn sample(&mut self, random: u64, visit: &mut VisitEntry<'_>) -> Result<(), Error> {
        let (store, space) = (self.store(), self.space());
        let (write_set, clock) = self.write_set_and_clock();
        if write_set.cleared {
            return Ok(());
        }
        Ok(raw_scan::sample(store.source(), space, random, &mut |stored, key, value| match clock
            .each(value)
            .filter(|_| !write_set.values.contains_key(stored))
        {
            Some(entry) => visit(key, entry),
            None => ControlFlow::Continue(()),
        })?)
    }

    fn is_ordered(&self) -> bool {
        self.store().info().capabilities.ordered
    }

    /// Continues an incremental scan as [`Keyspace::scan_step`]; the first call (cursor 0) also visits all pairs of the
    /// write set.
    fn scan_step(&mut self, cursor: u64, count: usize, visit: &mut VisitEntry<'_>) -> Result<u64, Error> {
        let (store, space) = (self.store(), self.space());
        let (write_set, clock) = self.write_set_and_clock();
        if cursor == 0 {
            for stored in write_set.values.keys() {
                if let (Some(key), Some(entry)) = (space.decode_key(stored), write_set.entry(stored, clock)) {
                    let _all_of_them = visit(key, entry);
                }
            }
        }
        if write_set.cleared {
            return Ok(0);
        }
        store.scan_step(space, cursor, count, &mut |stored, key, value| {
            let entry = match write_set.values.contains_key(stored) {
                true if cursor == 0 => None,
                true => write_set.entry(stored, clock),
                false => clock.each(value),
            };
            entry.map_or(ControlFlow::Continue(()), |entry| visit(key, entry))
        })
    }
}
