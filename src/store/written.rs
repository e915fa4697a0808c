//! Data that a transaction passes to the commit.

use super::own::MarkerRecords;
use crate::engine::{Batch, Transaction};

/// Write batch of a transaction, and the state to update once it is committed.
pub(super) struct CommitPayload<'g> {
    pub(super) batch: Batch<'g>,
    pub(super) deadlines: Vec<(u64, &'g [u8])>,
    /// Marker records that exist after the commit; `None` if unchanged.
    pub(super) own: Option<MarkerRecords>,
    /// Stored keys that were marked as modified for clients that watch them.
    pub(super) touched: Vec<&'g [u8]>,
    /// Transaction to commit the batch with, if other processes may write to the same data and the group has read
    /// something.
    pub(super) transaction: Option<Box<dyn Transaction + 'g>>,
}
