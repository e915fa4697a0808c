//! Commands that treat values as numbers.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER},
        flags::{DENYOOM, FAST, WRITE},
        long_double::Extended,
        spec::{ONE_KEY, Spec, cmd},
    },
    resp::{Args, Reply, parse_integer},
    store::Txn,
};

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("incr", 2, ONE_KEY, Write(incr), WRITE | DENYOOM | FAST;
        String, "1.0.0", "Add one to the number at a key."),
    cmd!("incrby", 3, ONE_KEY, Write(incrby), WRITE | DENYOOM | FAST;
        String, "1.0.0", "Add to the number at a key."),
    cmd!("incrbyfloat", 3, ONE_KEY, Write(incrbyfloat), WRITE | DENYOOM | FAST;
        String, "2.6.0", "Add to the number with decimals at a key."),
    cmd!("decr", 2, ONE_KEY, Write(decr), WRITE | DENYOOM | FAST;
        String, "1.0.0", "Subtract one from the number at a key."),
    cmd!("decrby", 3, ONE_KEY, Write(decrby), WRITE | DENYOOM | FAST;
        String, "1.0.0", "Subtract from the number at a key."),
];

const NOT_A_FLOAT: Error = Error::Text("ERR value is not a valid float");

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
    txn.check_key(key)?;
    let (number, deadline) = txn.entry(key, |entry| match entry {
        Some(entry) => (parse_integer(entry.value), entry.deadline),
        None => (Some(0), 0),
    })?;
    let number = number.ok_or(NOT_AN_INTEGER)?.checked_add(by);
    let number = number.ok_or(Error::Text("ERR increment or decrement would overflow"))?;
    txn.put_with_expiration(key, itoa::Buffer::new().format(number).as_bytes(), deadline)?;
    reply.integer(number);
    Ok(())
}

fn incrbyfloat<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let key = args.get(1);
    txn.check_key(key)?;
    let (number, deadline) = txn.entry(key, |entry| match entry {
        Some(entry) => (Extended::parse(entry.value), entry.deadline),
        None => (Some(Extended::ZERO), 0),
    })?;
    let (number, by) = (number.ok_or(NOT_A_FLOAT)?, Extended::parse(args.get(2)).ok_or(NOT_A_FLOAT)?);
    let sum = number.add(by).ok_or(Error::Text("ERR increment would produce NaN or Infinity"))?;
    let text = sum.to_string();
    reply.bulk(text.as_bytes());
    txn.put_with_expiration(key, text.as_bytes(), deadline)?;
    Ok(())
}
