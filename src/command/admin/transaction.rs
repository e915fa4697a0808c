//! Rows of MULTI, EXEC, DISCARD, WATCH and UNWATCH; the connection executes these commands.

use crate::command::spec::{ALL_KEYS, Handler, NO_KEY, Spec, Transaction};

const GROUP: &str = "transactions";

pub(in crate::command) const COMMANDS: &[Spec] = &[
    Spec::new(
        "multi",
        1,
        NO_KEY,
        Handler::Transaction(Transaction::Multi),
        (GROUP, "1.2.0"),
        "Begin a transaction: what follows is queued.",
    ),
    Spec::new(
        "exec",
        1,
        NO_KEY,
        Handler::Transaction(Transaction::Exec),
        (GROUP, "1.2.0"),
        "Carry out what was queued, in one commit.",
    ),
    Spec::new(
        "discard",
        1,
        NO_KEY,
        Handler::Transaction(Transaction::Discard),
        (GROUP, "2.0.0"),
        "Forget what was queued.",
    ),
    Spec::new(
        "watch",
        -2,
        ALL_KEYS,
        Handler::Transaction(Transaction::Watch),
        (GROUP, "2.2.0"),
        "Make the next EXEC do nothing if one of these keys changes.",
    ),
    Spec::new(
        "unwatch",
        1,
        NO_KEY,
        Handler::Transaction(Transaction::Unwatch),
        (GROUP, "2.2.0"),
        "Forget the keys of WATCH.",
    ),
];
