//! Strings: the values of keys.

use super::{
    refusal,
    spec::{ALL_KEYS, Error, NOT_AN_INTEGER, ONE_KEY, PAIRS, Read, SYNTAX_ERROR, Spec, Write},
};
use crate::{
    resp::{Args, Reply, parse_integer},
    store::Txn,
};

const GROUP: &str = "string";

pub(super) const COMMANDS: &[Spec] = &[
    Spec::read("get", 2, ONE_KEY, Read::One(get), (GROUP, "1.0.0"), "Get the value of a key."),
    Spec::write("set", -3, ONE_KEY, Write::Blind(set), (GROUP, "1.0.0"), "Set the value of a key."),
    Spec::read("mget", -2, ALL_KEYS, Read::Each(mget), (GROUP, "1.0.0"), "Get the values of keys."),
    Spec::write("mset", -3, PAIRS, Write::Blind(mset), (GROUP, "1.0.1"), "Set keys to values, atomically."),
    Spec::write("incr", 2, ONE_KEY, Write::Seeing(incr), (GROUP, "1.0.0"), "Add one to the number at a key."),
    Spec::write("incrby", 3, ONE_KEY, Write::Seeing(incrby), (GROUP, "1.0.0"), "Add to the number at a key."),
    Spec::write(
        "decr",
        2,
        ONE_KEY,
        Write::Seeing(decr),
        (GROUP, "1.0.0"),
        "Subtract one from the number at a key.",
    ),
    Spec::write(
        "decrby",
        3,
        ONE_KEY,
        Write::Seeing(decrby),
        (GROUP, "1.0.0"),
        "Subtract from the number at a key.",
    ),
];

fn get(_: Args<'_>, value: Option<&[u8]>, reply: &mut Reply) {
    reply.bulk_or_null(value);
}

fn set<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(SYNTAX_ERROR);
    }
    txn.put(args.get(1), args.get(2))?;
    reply.ok();
    Ok(())
}

fn mget(value: Option<&[u8]>, reply: &mut Reply) {
    reply.bulk_or_null(value);
}

fn mset<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    if args.len().is_multiple_of(2) {
        refusal::wrong_arity("mset", reply);
        return Ok(());
    }
    for key in args.from(1).step_by(2) {
        txn.check(key)?;
    }
    for (key, value) in args.from(1).step_by(2).zip(args.from(2).step_by(2)) {
        txn.put(key, value)?;
    }
    reply.ok();
    Ok(())
}

fn incr<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    add(args.get(1), 1, txn, reply)
}

fn incrby<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    add(args.get(1), parse_integer(args.get(2)).ok_or(NOT_AN_INTEGER)?, txn, reply)
}

fn decr<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    add(args.get(1), -1, txn, reply)
}

fn decrby<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let by = parse_integer(args.get(2)).ok_or(NOT_AN_INTEGER)?;
    let by = by.checked_neg().ok_or(Error::Text("ERR decrement would overflow"))?;
    add(args.get(1), by, txn, reply)
}

fn add<'g>(key: &'g [u8], by: i64, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    txn.check(key)?;
    let number = txn.read(key, |value| value.map_or(Some(0), parse_integer))?.ok_or(NOT_AN_INTEGER)?;
    let number = number.checked_add(by).ok_or(Error::Text("ERR increment or decrement would overflow"))?;
    let value = txn.keep(itoa::Buffer::new().format(number).as_bytes());
    txn.put(key, value)?;
    reply.integer(number);
    Ok(())
}
