//! Requests that write very many keys, in several commits.

use crate::{
    command::Error,
    resp::{Args, Reply},
    store::Txn,
};
use std::mem;

/// Number of keys of a [`Write::Each`](crate::command::Write::Each) request that are written in one commit.
const KEYS_PER_COMMIT: usize = 1024;

/// Progress of a [`Write::Each`](crate::command::Write::Each) request over its commits.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// Number of keys that were processed.
    keys: usize,
    /// Number of processed keys that count for the reply: those for which the command's function returned
    /// `true`.
    count: i64,
}

impl Progress {
    /// Returns `true` if some keys were processed and others remain.
    pub fn has_begun(&self) -> bool {
        self.keys > 0
    }

    /// Processes the next `KEYS_PER_COMMIT` keys. Returns `true` if none are left; the reply is then written.
    pub fn write<'g>(
        &mut self,
        write: for<'k> fn(&'k [u8], &mut Txn<'k>) -> Result<bool, Error>,
        args: Args<'g>,
        txn: &mut Txn<'g>,
        reply: &mut Reply,
    ) -> Result<bool, Error> {
        for key in args.from(1 + self.keys).take(KEYS_PER_COMMIT) {
            self.count += i64::from(write(key, txn)?);
            self.keys += 1;
        }
        let done = self.keys + 1 >= args.len();
        if done {
            reply.integer(mem::take(self).count);
        }
        Ok(done)
    }
}
