//! FLUSHDB and SWAPDB: changes of all keys of a database.

use super::{
    Error, Txn,
    database_keys::{Database, MarkerRecords},
    keyspace::Keyspace,
    raw_scan,
};
use crate::engine::{self, Batch, KeyRange, WriteOp};
use std::{collections::BTreeMap, ops::ControlFlow};

/// Key of a database with its value and expiration time; `entry` is `None` if the value cannot be read.
struct Pair<'g> {
    key: &'g [u8],
    entry: Option<(Vec<u8>, u64)>,
}

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
        if !self.own().contains(MarkerRecords::KEY_HEADERS) {
            // No key has a key header, so all keys are of database 0.
            return if self.space() == Database::default() { self.clear() } else { Ok(()) };
        }
        let mut keys = Vec::new();
        self.scan(KeyRange::ALL, &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in keys {
            let key = self.copy_to_arena(&key);
            self.delete(key)?;
        }
        Ok(())
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
    /// the group.
    fn all_of(&mut self, space: Database) -> Result<Vec<Pair<'g>>, Error> {
        let (arena, mut all, mut failed) = (self.arena(), Vec::new(), Ok(()));
        self.select(space);
        self.scan(KeyRange::ALL, &mut |key, entry| {
            let key = &*arena.alloc_slice_copy(key);
            let entry = match entry {
                Ok(entry) => Some((entry.value.to_vec(), entry.deadline)),
                // A corrupt value is moved as it is, so that it does not prevent the exchange of all other keys.
                Err(error) if error.is_corrupt_value() => None,
                Err(error) => {
                    failed = Err(error);
                    return ControlFlow::Break(());
                }
            };
            all.push(Pair { key, entry });
            ControlFlow::Continue(())
        })?;
        failed.map(|()| all)
    }

    /// Exchanges the contents of two databases, in one commit of all their keys.
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
        let (of_one, of_two) = (self.all_of(one)?, self.all_of(two)?);
        let sides = [(one, &of_one, &of_two), (two, &of_two, &of_one)];
        // All checks that may fail come before the first removal.
        for (space, _, new) in sides {
            self.select(space);
            new.iter().try_for_each(|Pair { key, .. }| self.check_key(key))?;
        }
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
