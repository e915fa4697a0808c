//! Commands on keys, whatever their values.

use crate::{
    command::{
        error::{Error, SYNTAX_ERROR},
        help,
        refusal::{Subcommands, subcommand},
        spec::{ALL_KEYS, Handler, Keys, ONE_KEY, Read, Spec, TWO_KEYS, Write, database},
    },
    resp::{Args, Reply, parse_integer},
    store::{Entry, Keyspace, Txn},
};

const GROUP: &str = "generic";

/// Position of the key in the subcommands of OBJECT.
const SECOND: Keys = (2, 2, 1);

const OBJECT: Subcommands = &[("encoding", 3), ("freq", 3), ("help", 2), ("refcount", 3)];

const NO_SUCH_KEY: Error = Error::Text("ERR no such key");
const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
                            that when switching between policies at runtime LRU and LFU data will take some time \
                            to adjust.";
const SAME_OBJECT: Error = Error::Text("ERR source and destination objects are the same");

pub(in crate::command) const COMMANDS: &[Spec] = &[
    Spec::write(
        "del",
        -2,
        ALL_KEYS,
        Write::Each(del),
        (GROUP, "1.0.0"),
        "Remove keys, and tell how many were there.",
    ),
    Spec::write(
        "unlink",
        -2,
        ALL_KEYS,
        Write::Each(del),
        (GROUP, "4.0.0"),
        "The same as DEL; neither blocks other clients.",
    ),
    Spec::read(
        "exists",
        -2,
        ALL_KEYS,
        Read::Count(exists),
        (GROUP, "1.0.0"),
        "Count those of the given keys that exist.",
    ),
    Spec::read(
        "touch",
        -2,
        ALL_KEYS,
        Read::Count(exists),
        (GROUP, "3.2.1"),
        "Count the keys that exist, like EXISTS (access times are not kept).",
    ),
    Spec::read("type", 2, ONE_KEY, Read::One(type_of), (GROUP, "1.0.0"), "Tell the type of a key's value."),
    Spec::write("rename", 3, TWO_KEYS, Write::Seeing(rename), (GROUP, "1.0.0"), "Rename a key."),
    Spec::write(
        "renamenx",
        3,
        TWO_KEYS,
        Write::Seeing(renamenx),
        (GROUP, "1.0.0"),
        "Rename a key, only if the new name does not exist.",
    ),
    Spec::write("copy", -3, TWO_KEYS, Write::Seeing(copy), (GROUP, "6.2.0"), "Copy a value to another key."),
    Spec::write(
        "move",
        3,
        ONE_KEY,
        Write::Seeing(moved),
        (GROUP, "1.0.0"),
        "Move a key to another database.",
    ),
    Spec::new(
        "object",
        -2,
        SECOND,
        Handler::Keys(object),
        (GROUP, "2.2.3"),
        "Return the encoding that Redis would use for a value.",
    )
    .with_subcommands(OBJECT),
];

fn del<'g>(key: &'g [u8], txn: &mut Txn<'g>) -> Result<bool, Error> {
    let found = match txn.contains(key) {
        // A key whose value cannot be read can still be deleted.
        Err(error) if error.index_of_value().is_some() => true,
        found => found?,
    };
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

/// Returns a copy of the value, and the expiration time.
fn copied(entry: Option<Entry<'_>>) -> Option<(Vec<u8>, u64)> {
    entry.map(|entry| (entry.value.to_vec(), entry.deadline))
}

fn rename<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (from, to) = (args.get(1), args.get(2));
    let (value, deadline) = txn.entry(from, copied)?.ok_or(NO_SUCH_KEY)?;
    txn.check_key(to)?;
    if from != to {
        txn.put_with_expiration(to, &value, deadline)?;
        txn.delete(from)?;
    }
    reply.ok();
    Ok(())
}

fn renamenx<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (from, to) = (args.get(1), args.get(2));
    let (value, deadline) = txn.entry(from, copied)?.ok_or(NO_SUCH_KEY)?;
    txn.check_key(to)?;
    let is_free = from != to && !txn.contains(to)?;
    if is_free {
        txn.put_with_expiration(to, &value, deadline)?;
        txn.delete(from)?;
    }
    reply.integer(is_free.into());
    Ok(())
}

fn copy<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (from, to) = (args.get(1), args.get(2));
    let (source, mut target, mut replace) = (txn.space(), txn.space(), false);
    let mut words = args.from(3);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if word.eq_ignore_ascii_case(b"db") {
            target = database(words.next().ok_or(SYNTAX_ERROR)?)?;
        } else {
            return Err(SYNTAX_ERROR);
        }
    }
    if from == to && source == target {
        return Err(SAME_OBJECT);
    }
    let found = txn.entry(from, copied)?;
    txn.select(target);
    let is_copied = put_copy(found, to, replace, txn);
    txn.select(source);
    reply.integer(is_copied?.into());
    Ok(())
}

/// Puts a copied value under the key `to`, unless there was none to copy, or `to` exists and `replace` is
/// `false`. Returns `true` if it was put.
fn put_copy<'g>(
    found: Option<(Vec<u8>, u64)>,
    to: &'g [u8],
    replace: bool,
    txn: &mut Txn<'g>,
) -> Result<bool, Error> {
    txn.check_key(to)?;
    match found {
        Some((value, deadline)) if replace || !txn.contains(to)? => {
            txn.put_with_expiration(to, &value, deadline)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn moved<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (key, source, target) = (args.get(1), txn.space(), database(args.get(2))?);
    if source == target {
        return Err(SAME_OBJECT);
    }
    let found = txn.entry(key, copied)?;
    txn.select(target);
    let is_moved = put_copy(found, key, false, txn);
    txn.select(source);
    let is_moved = is_moved?;
    if is_moved {
        txn.delete(key)?;
    }
    reply.integer(is_moved.into());
    Ok(())
}

/// Returns the encoding that Redis would use for a value set by SET.
fn encoding(value: &[u8]) -> &'static [u8] {
    match value.len() {
        0..=20 if parse_integer(value).is_some() => b"int",
        0..=44 => b"embstr",
        _ => b"raw",
    }
}

/// Returns the reference count that Redis would report for a value: integers from 0 to 9,999 are shared
/// objects.
fn references(value: &[u8]) -> i64 {
    let is_shared =
        encoding(value) == b"int" && parse_integer(value).is_some_and(|number| (0..10_000).contains(&number));
    if is_shared { i32::MAX.into() } else { 1 }
}

fn object(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let Some(subcommand) = subcommand("object", OBJECT, args, reply) else { return Ok(()) };
    if subcommand == "help" {
        help::write("OBJECT", help::OBJECT, reply);
        return Ok(());
    }
    keyspace.get_many(&[args.get(2)], &mut |_, entry| match (entry, subcommand) {
        (None, _) => reply.null(),
        (Some(entry), "encoding") => reply.bulk(encoding(entry.value)),
        (Some(_), "freq") => reply.error(NO_FREQUENCY),
        (Some(entry), _) => reply.integer(references(entry.value)),
    })?;
    Ok(())
}
