//! A request that writes very many keys, in several commits.

use crate::{
    command::Error,
    resp::{Args, Reply},
    store::Txn,
};
use std::mem;

/// Keys of [`Write::Each`](crate::command::Write::Each) that are written in one commit.
const KEYS_PER_COMMIT: usize = 1024;

/// Progress of [`Write::Each`](crate::command::Write::Each).
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// Keys that were written.
    keys: usize,
    /// Those of them that count.
    count: i64,
}

impl Progress {
    /// Whether some keys were written, and others are to come.
    pub fn has_begun(&self) -> bool {
        self.keys > 0
    }

    /// Goes on for some keys. Returns whether that was the last of them; the reply is written then.
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
