//! A walk over everything that an engine has, in steps, so that nobody waits for it.

use super::Error;
use crate::engine::{Engine, KeyRange};
use std::ops::{Bound, ControlFlow};

/// How far it has come: behind a key, or at a place of an engine without order.
#[derive(Clone, Default)]
pub(super) struct Walk {
    after: Option<Vec<u8>>,
    position: u64,
}

impl Walk {
    /// Visits about `count` stored pairs. Returns whether there are more.
    pub fn step(
        &mut self,
        engine: &dyn Engine,
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<bool, Error> {
        let (mut left, mut reached) = (count, None);
        let visit = &mut |key: &[u8], value: &[u8]| {
            visit(key, value);
            left = left.saturating_sub(1);
            if left > 0 {
                return ControlFlow::Continue(());
            }
            reached = Some(key.to_vec());
            ControlFlow::Break(())
        };
        if engine.info().ordered {
            let start = self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            engine.scan(KeyRange { start, end: Bound::Unbounded }, visit)?;
            self.after = reached;
            return Ok(self.after.is_some());
        }
        self.position = engine.walk(self.position, visit)?;
        Ok(self.position > 0)
    }
}
