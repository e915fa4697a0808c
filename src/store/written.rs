//! What a commit is to write.

use super::own::MarkerRecords;
use crate::engine::{Batch, Transaction};

/// What a transaction leaves.
pub(super) struct CommitPayload<'g> {
    pub(super) batch: Batch<'g>,
    pub(super) deadlines: Vec<(u64, &'g [u8])>,
    /// The layer's own records, where they have changed.
    pub(super) own: Option<MarkerRecords>,
    /// Stored keys of which it was noted for their watchers that they are written.
    pub(super) touched: Vec<&'g [u8]>,
    /// What the batch is to be committed with, where others write too and something was read.
    pub(super) transaction: Option<Box<dyn Transaction + 'g>>,
}
