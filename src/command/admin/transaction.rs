//! Rows of the command table for MULTI, EXEC, DISCARD, WATCH and UNWATCH; the connection executes these commands.

use crate::command::{
    flags::{ALLOW_BUSY, FAST, Flags, LOADING, NOSCRIPT, SKIP_SLOWLOG, STALE},
    spec::{ALL_KEYS, NO_KEY, Spec, Transaction, cmd},
};

const CONTROL: Flags = NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY;

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("multi", 1, NO_KEY, Transaction(Transaction::Multi), CONTROL;
        Transactions, "1.2.0", "Begin a transaction: what follows is queued."),
    cmd!("exec", 1, NO_KEY, Transaction(Transaction::Exec), NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG;
        Transactions, "1.2.0", "Carry out what was queued, in one commit."),
    cmd!("discard", 1, NO_KEY, Transaction(Transaction::Discard), CONTROL;
        Transactions, "2.0.0", "Forget what was queued."),
    cmd!("watch", -2, ALL_KEYS, Transaction(Transaction::Watch), CONTROL;
        Transactions, "2.2.0", "Make the next EXEC do nothing if one of these keys changes."),
    cmd!("unwatch", 1, NO_KEY, Transaction(Transaction::Unwatch), CONTROL;
        Transactions, "2.2.0", "Forget the keys of WATCH."),
];
