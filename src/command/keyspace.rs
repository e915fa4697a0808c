//! Keys, whatever their values.

use super::{
    context::Context,
    glob,
    spec::{ALL_KEYS, Error, NO_KEY, NOT_AN_INTEGER, ONE_KEY, Read, SYNTAX_ERROR, Spec, Write},
};
use crate::{
    engine::{KeyRange, prefix_end},
    resp::{Args, Reply, parse_integer},
    store::Txn,
};
use std::ops::{Bound, ControlFlow};

const GROUP: &str = "generic";

pub(super) const COMMANDS: &[Spec] = &[
    Spec::write(
        "del",
        -2,
        ALL_KEYS,
        Write::Each(del),
        (GROUP, "1.0.0"),
        "Remove keys, and tell how many were there.",
    ),
    Spec::read(
        "exists",
        -2,
        ALL_KEYS,
        Read::Count(exists),
        (GROUP, "1.0.0"),
        "Tell how many keys are there.",
    ),
    Spec::read("type", 2, ONE_KEY, Read::One(type_of), (GROUP, "1.0.0"), "Tell the type of a key's value."),
    Spec::query("keys", -2, keys, (GROUP, "1.0.0"), "Find keys: KEYS pattern [LIMIT n] [WITHVALUES]."),
    Spec::query("dbsize", 1, dbsize, ("server", "1.0.0"), "Count all keys."),
    Spec::write("flushdb", -1, NO_KEY, Write::Seeing(flushdb), ("server", "1.0.0"), "Remove all keys."),
];

fn del<'g>(key: &'g [u8], txn: &mut Txn<'g>) -> Result<bool, Error> {
    let found = txn.contains(key)?;
    if found {
        txn.delete(key)?;
    }
    Ok(found)
}

fn exists(value: Option<&[u8]>) -> bool {
    value.is_some()
}

fn type_of(_: Args<'_>, value: Option<&[u8]>, reply: &mut Reply) {
    reply.simple(if value.is_some() { "string" } else { "none" });
}

fn dbsize(context: &Context, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let count = context.store.count()?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// SYNC and ASYNC ask for how, not for what.
fn flushdb<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let how = args.get(1);
    if args.len() > 2
        || args.len() == 2 && !how.eq_ignore_ascii_case(b"sync") && !how.eq_ignore_ascii_case(b"async")
    {
        return Err(SYNTAX_ERROR);
    }
    txn.clear()?;
    reply.ok();
    Ok(())
}

/// KVBench's extension of KEYS: at most `limit` keys, each followed by its value when asked.
struct KeysOptions {
    limit: usize,
    with_values: bool,
}

impl KeysOptions {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut options = Self { limit: usize::MAX, with_values: false };
        let mut words = args.from(2);
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"withvalues") {
                options.with_values = true;
            } else if word.eq_ignore_ascii_case(b"limit") {
                let limit = parse_integer(words.next().ok_or(SYNTAX_ERROR)?).ok_or(NOT_AN_INTEGER)?;
                options.limit =
                    usize::try_from(limit).map_err(|_| Error::Text("ERR LIMIT can't be negative"))?;
            } else {
                return Err(SYNTAX_ERROR);
            }
        }
        Ok(options)
    }
}

fn keys(context: &Context, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let options = KeysOptions::parse(args)?;
    let pattern = args.get(1);
    let prefix = glob::literal_prefix(pattern);
    let end = prefix_end(prefix);
    let range = KeyRange {
        start: Bound::Included(prefix),
        end: end.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
    };
    // The length comes before the elements and is known after them.
    let mut elements = reply.aside();
    let mut found = 0;
    if options.limit > 0 {
        context.store.scan(range, &mut |key, value| {
            if glob::matches(pattern, key) {
                found += 1;
                elements.bulk(key);
                if options.with_values {
                    elements.bulk(value);
                }
            }
            if found < options.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    reply.array(if options.with_values { found * 2 } else { found });
    reply.append(&elements);
    Ok(())
}
