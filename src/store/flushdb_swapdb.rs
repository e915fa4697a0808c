//! FLUSHDB and SWAPDB: changes of all keys of a database.

use super::{
    Error, Txn,
    database_keys::{Database, MarkerRecords},
    raw_scan,
};
use crate::engine::{self, Batch, KeyRange, WriteOp};
use std::{collections::BTreeMap, ops::ControlFlow};

/// Key of a database with its value and expiration time; `entry` is `None` if the value cannot be read.
struct Pair<'g> {
    key: &'g [u8],
    entry: Option<(Vec<u8>, u64)>,
}

/// Memory in bytes, about, that the exchange of a key takes beside the key and its value: two operations of the write
/// batch.
const PAIR_BYTES: usize = 100;

impl<'g> Txn<'g> {
    /// Removes every key of the selected database.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`], and errors of the engine's scan. With hash slots also errors of the engine's writes, and
    /// [`engine::Error::Unsupported`] if the transaction has read or written something before.
    pub fn flush_database(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        if self.store().is_sharded() {
            return self.flush_database_by_slot();
        }
        if !self.markers().contains(MarkerRecords::KEY_HEADERS) {
            // No key has a key header, so all keys are of database 0.
            return if self.space() == Database::default() { self.clear() } else { Ok(()) };
        }
        let (arena, mut keys, mut expired) = (self.arena(), Vec::new(), Vec::new());
        self.scan_unfiltered(KeyRange::ALL, &mut |stored, key, entry| {
            match entry {
                Some(_) => keys.push(&*arena.alloc_slice_copy(key)),
                None => expired.push(&*arena.alloc_slice_copy(stored)),
            }
            ControlFlow::Continue(())
        })?;
        keys.into_iter().try_for_each(|key| self.delete(key))?;
        self.delete_expired(&expired)
    }

    /// Removes stored keys whose values have expired, and which commands therefore take for absent: if the clock is set
    /// back, they would be there again.
    fn delete_expired(&mut self, stored: &[&'g [u8]]) -> Result<(), Error> {
        stored.iter().try_for_each(|stored| self.delete_if_expired(stored).map(drop))
    }

    /// Removes every key of the selected database of an engine with hash slots, slot by slot and at once, not with
    /// the commit. Fails if the transaction has read or written something before.
    fn flush_database_by_slot(&mut self) -> Result<(), Error> {
        if !self.is_untouched() {
            let what =
                "cannot remove all keys of a database together with what else MULTI and EXEC do".into();
            let engine = self.store().info().name;
            return Err(engine::Error::Unsupported { engine, what }.into());
        }
        self.touch_watched(Some(self.space()))?;
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

    /// Selects the database `space`, and returns all its keys with their values, as left by the earlier commands of
    /// the group. Adds the stored keys whose values have expired to `expired`.
    fn all_of(&mut self, space: Database, expired: &mut Vec<&'g [u8]>) -> Result<Vec<Pair<'g>>, Error> {
        let (arena, mut all, mut failed) = (self.arena(), Vec::new(), Ok(()));
        self.select(space);
        self.scan_unfiltered(KeyRange::ALL, &mut |stored, key, entry| {
            let entry = match entry {
                None => {
                    expired.push(arena.alloc_slice_copy(stored));
                    return ControlFlow::Continue(());
                }
                Some(Ok(entry)) => Some((entry.value.to_vec(), entry.deadline)),
                // A corrupt value is moved as it is, so that it does not prevent the exchange of all other keys.
                Some(Err(error)) if error.is_corrupt_value() => None,
                Some(Err(error)) => {
                    failed = Err(error);
                    return ControlFlow::Break(());
                }
            };
            all.push(Pair { key: arena.alloc_slice_copy(key), entry });
            ControlFlow::Continue(())
        })?;
        failed?;
        self.note_copy(all.iter().map(|pair: &Pair<'g>| pair.key.len() + PAIR_BYTES).sum());
        Ok(all)
    }

    /// Exchanges the contents of two databases, in one commit of all their keys. Removes the values that have expired.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`], an error of the engine's scan, a value that cannot be read and is not corrupt, or a key
    /// that is too long for the other database. Nothing is swapped then.
    pub fn swap_databases(&mut self, one: Database, two: Database) -> Result<(), Error> {
        let before = self.space();
        let outcome = self.swap_all(one, two);
        self.select(before);
        outcome
    }

    fn swap_all(&mut self, one: Database, two: Database) -> Result<(), Error> {
        let mut expired = Vec::new();
        let (of_one, of_two) = (self.all_of(one, &mut expired)?, self.all_of(two, &mut expired)?);
        let sides = [(one, &of_one, &of_two), (two, &of_two, &of_one)];
        // All checks that may fail come before the first removal.
        for (space, _, new) in sides {
            self.select(space);
            new.iter().try_for_each(|Pair { key, .. }| self.check_key(key))?;
        }
        self.delete_expired(&expired)?;
        for (space, old, _) in sides {
            self.select(space);
            old.iter().try_for_each(|Pair { key, .. }| self.delete(key))?;
        }
        for (space, _, new) in sides {
            self.select(space);
            for Pair { key, entry } in new {
                match entry {
                    Some((value, deadline)) => self.put_with_expiration(key, value, *deadline)?,
                    None => self.put_corrupt(key)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::{Fsync, Kind, Location, OpenOptions},
        store::{Store, tests::commit},
    };

    /// Expiration time that has passed: one millisecond after the epoch.
    const PAST: u64 = 1;

    /// Creates a store with a key in database 0 and one in database 1, and with expired values in databases 0, 1 and 2
    /// that active expiration has not removed.
    fn with_expired_values(kind: &str) -> Store {
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let store = Store::new(Kind::find(kind).unwrap().open(&options).unwrap(), Fsync::No);
        commit(&store, |txn| {
            for number in 0..3 {
                txn.select(Database::new(number));
                txn.put_with_expiration(b"expired", b"value", PAST)?;
                if number < 2 {
                    txn.put(b"key", b"value")?;
                }
            }
            Ok(())
        })
        .unwrap();
        store
    }

    /// Returns the numbers of stored keys of the databases 0, 1 and 2.
    fn stored(store: &Store) -> [u64; 3] {
        [0, 1, 2].map(|number| store.count_keys(Database::new(number)).unwrap())
    }

    #[test]
    fn flushdb_removes_expired_values_and_those_that_its_transaction_has_written() {
        for kind in ["map", "btree"] {
            for number in 0..3 {
                let store = with_expired_values(kind);
                commit(&store, |txn| {
                    txn.select(Database::new(number));
                    txn.put_with_expiration(b"written", b"value", PAST)?;
                    txn.put(b"deleted", b"value")?;
                    txn.delete(b"deleted")?;
                    txn.flush_database()
                })
                .unwrap();
                let mut expected = [2, 2, 1];
                expected[usize::from(number)] = 0;
                assert_eq!(stored(&store), expected, "{kind}, database {number}");
            }
        }
    }

    #[test]
    fn swapdb_removes_the_expired_values_of_both_databases() {
        for kind in ["map", "btree"] {
            let store = with_expired_values(kind);
            commit(&store, |txn| txn.swap_databases(Database::new(0), Database::new(2))).unwrap();
            assert_eq!(stored(&store), [0, 2, 1], "{kind}");
        }
    }
}
