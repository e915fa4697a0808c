//! Commands on keys, whatever their values.

use crate::{
    command::{
        error::{Error, SYNTAX_ERROR},
        flags::{DENYOOM, FAST, Group, LOADING, READONLY, STALE, WRITE},
        spec::{ALL_KEYS, NO_KEY, ONE_KEY, Read, SECOND, Spec, TWO_KEYS, cmd, database, help},
    },
    resp::{Args, Reply, parse_integer},
    store::{Entry, Keyspace, Txn},
};

const NO_SUCH_KEY: Error = Error::Text("ERR no such key");
const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
                            that when switching between policies at runtime LRU and LFU data will take some time \
                            to adjust.";
const SAME_OBJECT: Error = Error::Text("ERR source and destination objects are the same");

const OBJECT: &[Spec] = &[
    cmd!("object|encoding", 3, SECOND, Keyspace(object_encoding), READONLY;
        Generic, "2.2.3", "Return the encoding that Redis would use for a value."),
    cmd!("object|freq", 3, SECOND, Keyspace(object_freq), READONLY;
        Generic, "4.0.0", "Refused: access frequencies are not kept."),
    cmd!("object|help", 2, NO_KEY, Commands(help), LOADING | STALE;
        Generic, "6.2.0", "List the subcommands."),
    cmd!("object|refcount", 3, SECOND, Keyspace(object_refcount), READONLY;
        Generic, "2.2.3", "Return the reference count that Redis would report for a value."),
];

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("del", -2, ALL_KEYS, DeleteEach(del), WRITE;
        Generic, "1.0.0", "Remove keys, and count those that existed."),
    cmd!("unlink", -2, ALL_KEYS, DeleteEach(del), WRITE | FAST;
        Generic, "4.0.0", "The same as DEL; neither blocks other clients."),
    cmd!("exists", -2, ALL_KEYS, Read(Read::Count(exists)), READONLY | FAST;
        Generic, "1.0.0", "Count those of the given keys that exist."),
    cmd!("touch", -2, ALL_KEYS, Read(Read::Count(exists)), READONLY | FAST;
        Generic, "3.2.1", "Count the keys that exist, like EXISTS (access times are not kept)."),
    cmd!("type", 2, ONE_KEY, Read(Read::One(type_of)), READONLY | FAST;
        Generic, "1.0.0", "Tell the type of a key's value."),
    cmd!("rename", 3, TWO_KEYS, Write(rename), WRITE; Generic, "1.0.0", "Rename a key."),
    cmd!("renamenx", 3, TWO_KEYS, Write(renamenx), WRITE | FAST;
        Generic, "1.0.0", "Rename a key, only if the new name does not exist."),
    cmd!("copy", -3, TWO_KEYS, Write(copy), WRITE | DENYOOM;
        Generic, "6.2.0", "Copy a value to another key."),
    cmd!("move", 3, ONE_KEY, Write(moved), WRITE | FAST; Generic, "1.0.0", "Move a key to another database."),
    Spec::parent("object", OBJECT, 0)
        .about(Group::Generic, "2.2.3", "Tell how Redis would store a value.")
        .in_categories(""),
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

/// Returns a copy of the value of a key, and its expiration time in milliseconds since 1970 (0: never); `None` if the
/// key does not exist.
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

fn object_encoding(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    object(keyspace, args, reply, |value, reply| reply.bulk(encoding(value)))
}

fn object_freq(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    object(keyspace, args, reply, |_, reply| reply.error(NO_FREQUENCY))
}

fn object_refcount(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    object(keyspace, args, reply, |value, reply| reply.integer(references(value)))
}

fn object(
    keyspace: &mut dyn Keyspace,
    args: Args<'_>,
    reply: &mut Reply,
    answer: impl Fn(&[u8], &mut Reply),
) -> Result<(), Error> {
    keyspace.get_many(&[args.get(2)], &mut |_, entry| match entry {
        Some(entry) => answer(entry.value, reply),
        None => reply.null(),
    })?;
    Ok(())
}
