//! Reads between writes, executed in the transaction of the writes.

use super::read_batch::{KeyHits, answer_entry};
use crate::{
    command::Read,
    resp::{Args, Reply},
    store::{self, Txn},
};

/// Answers a read between writes in the transaction of the writes. A read that fails counts neither hits nor
/// misses.
pub(super) fn read_through(
    read: Read,
    args: Args<'_>,
    txn: &mut Txn<'_>,
    found: &mut KeyHits,
    reply: &mut Reply,
) -> Result<(), store::Error> {
    let before = *found;
    let outcome = answer(read, args, txn, found, reply);
    if outcome.is_err() {
        *found = before;
    }
    outcome
}

fn answer(
    read: Read,
    args: Args<'_>,
    txn: &mut Txn<'_>,
    found: &mut KeyHits,
    reply: &mut Reply,
) -> Result<(), store::Error> {
    match read {
        Read::One(answer) => txn.read(args.get(1), |value| {
            found.note(value.is_some());
            answer(args, value, reply);
        })?,
        Read::Entry(answer) | Read::Whole(answer) => txn.entry(args.get(1), |entry| {
            found.note(entry.is_some());
            answer_entry(answer, args, entry, reply);
        })?,
        Read::Each(answer) => {
            reply.array(args.len() - 1);
            for key in args.from(1) {
                txn.read(key, |value| {
                    found.note(value.is_some());
                    answer(value, reply);
                })?;
            }
        }
        Read::Count(holds) => {
            let mut count = 0;
            for key in args.from(1) {
                let counts = txn.read(key, |value| {
                    found.note(value.is_some());
                    holds(value)
                });
                count += i64::from(match counts {
                    Err(error) if error.is_unreadable_value() => {
                        found.note(true);
                        true
                    }
                    counts => counts?,
                });
            }
            reply.integer(count);
        }
    }
    Ok(())
}
