//! What a group has written itself, which its reads see first.

use crate::engine::{Batch, Op};
use hashbrown::HashMap;

/// The group's own writes by stored key. Made only when a command of the group reads, since a group of
/// plain SETs needs none.
#[derive(Default)]
pub(super) struct Overlay<'g> {
    pub(super) cleared: bool,
    pub(super) values: HashMap<&'g [u8], Option<&'g [u8]>>,
}

impl<'g> Overlay<'g> {
    pub(super) fn of(batch: &Batch<'g>) -> Self {
        let mut overlay = Self::default();
        batch.ops().iter().for_each(|&op| overlay.apply(op));
        overlay
    }

    pub(super) fn apply(&mut self, op: Op<'g>) {
        match op {
            Op::Put { key, value } => {
                self.values.insert(key, Some(value));
            }
            Op::Delete { key } => {
                self.values.insert(key, None);
            }
            Op::Clear => {
                self.cleared = true;
                self.values.clear();
            }
        }
    }
}
