//! Uncommitted writes of a commit group, which its reads see before the engine, and what a commit hands to the engine.

use super::{Entry, Error, ExpirationClock, database_keys::MarkerRecords, watch::Touch};
use crate::engine::{self, Batch, Transaction, WriteOp, key_value_headers};
use hashbrown::HashMap;

/// Uncommitted writes of a commit group by stored key. Built only when a command of the group reads, since a group
/// of plain SETs needs none.
#[derive(Default)]
pub(super) struct WriteSet<'g> {
    pub(super) cleared: bool,
    pub(super) values: HashMap<&'g [u8], Option<&'g [u8]>>,
}

impl<'g> WriteSet<'g> {
    pub(super) fn of(batch: &Batch<'g>) -> Self {
        let mut write_set = Self::default();
        batch.ops().iter().for_each(|&op| write_set.apply(op));
        write_set
    }

    /// Returns the value that the group has written to a stored key (`None` inside: removed), or `None` if the
    /// group has not written to it.
    pub(super) fn get(&self, stored: &[u8]) -> Option<engine::Result<Option<&'g [u8]>>> {
        let value = *self.values.get(stored)?;
        Some(match value {
            Some(value) if key_value_headers::is_corrupt(value) => Err(corrupt(stored)),
            value => Ok(value),
        })
    }

    /// Returns the value and the expiration time that the commit group has given to a stored key. `None` if the
    /// group has not written to the key, or has removed it, or if the value has expired.
    pub(super) fn entry(&self, stored: &[u8], clock: &ExpirationClock) -> Option<Result<Entry<'g>, Error>> {
        self.get(stored)?.transpose().and_then(|value| clock.each(value))
    }

    pub(super) fn apply(&mut self, op: WriteOp<'g>) {
        match op {
            WriteOp::Put { key, value } => {
                self.values.insert(key, Some(value));
            }
            WriteOp::Delete { key } => {
                self.values.insert(key, None);
            }
            WriteOp::Clear => {
                self.cleared = true;
                self.values.clear();
            }
        }
    }
}

/// Write batch of a commit group, and the state to update once it is committed.
pub(super) struct CommitPayload<'g> {
    pub(super) batch: Batch<'g>,
    pub(super) deadlines: Vec<(u64, &'g [u8])>,
    /// Marker records that the data hold after the commit; `None` if unchanged.
    pub(super) markers: Option<MarkerRecords>,
    /// Marks of watched keys as modified by the commit group.
    pub(super) touched: Vec<Touch<'g>>,
    /// Transaction to commit the batch with, if other processes may write to the same data and the group has read
    /// something.
    pub(super) transaction: Option<Box<dyn Transaction + 'g>>,
}

/// Returns the error for reads of a stored key whose corrupt value the commit group has moved there.
fn corrupt(stored: &[u8]) -> engine::Error {
    let message = "it was corrupt before it was moved".into();
    engine::Error::Library { engine: "kvbench", message }.of_value(0, stored, true)
}
