//! What changes all keys of a database.

use super::{Error, Txn, keyspace::Keyspace, own::Own, space::Space};
use crate::engine::KeyRange;
use std::ops::ControlFlow;

/// A key with its value and deadline.
struct Pair<'g> {
    key: &'g [u8],
    value: Vec<u8>,
    deadline: u64,
}

impl<'g> Txn<'g> {
    /// Removes every key of the database.
    pub fn clear_space(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        if self.store().is_sharded() {
            return self.clear_space_by_slots();
        }
        if !self.own().contains(Own::SPACES) {
            // There is no other.
            return if self.space() == Space::default() { self.clear() } else { Ok(()) };
        }
        let mut keys = Vec::new();
        self.scan(KeyRange::ALL, &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in keys {
            let key = self.keep(&key);
            self.delete(key)?;
        }
        Ok(())
    }

    /// All that one database has.
    fn all_of(&mut self, space: Space) -> Result<Vec<Pair<'g>>, Error> {
        let (arena, mut all) = (self.arena(), Vec::new());
        self.select(space);
        self.scan(KeyRange::ALL, &mut |key, entry| {
            let key = &*arena.alloc_slice_copy(key);
            all.push(Pair { key, value: entry.value.to_vec(), deadline: entry.deadline });
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Exchanges two databases, in one commit of all their keys.
    pub fn swap(&mut self, one: Space, two: Space) -> Result<(), Error> {
        let before = self.space();
        let outcome = self.swap_all(one, two);
        self.select(before);
        outcome
    }

    fn swap_all(&mut self, one: Space, two: Space) -> Result<(), Error> {
        let (of_one, of_two) = (self.all_of(one)?, self.all_of(two)?);
        let sides = [(one, &of_one, &of_two), (two, &of_two, &of_one)];
        // What fails must do so before anything is removed.
        for (space, _, new) in sides {
            self.select(space);
            new.iter().try_for_each(|Pair { key, .. }| self.check(key))?;
        }
        for (space, old, _) in sides {
            self.select(space);
            old.iter().try_for_each(|Pair { key, .. }| self.delete(key))?;
        }
        for (space, _, new) in sides {
            self.select(space);
            for Pair { key, value, deadline } in new {
                self.put_until(key, value, *deadline)?;
            }
        }
        Ok(())
    }
}
