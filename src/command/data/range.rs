//! Commands on parts of values.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, TOO_LONG},
        spec::{MAX_STRING, ONE_KEY, Read, Spec, Write},
    },
    resp::{Args, Reply, parse_integer},
    store::{Entry, Txn},
};

const GROUP: &str = "string";

pub(in crate::command) const COMMANDS: &[Spec] = &[
    Spec::read("getrange", 4, ONE_KEY, Read::Entry(getrange), (GROUP, "2.4.0"), "Get a part of a value."),
    Spec::read("substr", 4, ONE_KEY, Read::Entry(getrange), (GROUP, "1.0.0"), "The old name of GETRANGE."),
    Spec::write(
        "setrange",
        4,
        ONE_KEY,
        Write::Seeing(setrange),
        (GROUP, "2.2.0"),
        "Write over a part of a value.",
    ),
];

fn getrange(args: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    let [start, end] = [2, 3].map(|index| parse_integer(args.get(index)));
    let (start, end) = (start.ok_or(NOT_AN_INTEGER)?, end.ok_or(NOT_AN_INTEGER)?);
    let value = entry.map_or(&[][..], |entry| entry.value);
    reply.bulk(part(value, start, end));
    Ok(())
}

/// Returns the bytes from `start` to `end`, both inclusive; negative positions count from the end.
fn part(value: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let from_end =
        |index: i64| if index < 0 { index.saturating_add(value.len() as i64).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(value.len() as i64 - 1));
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) => value.get(start..=end).unwrap_or_default(),
        _ => &[],
    }
}

fn setrange<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (key, part) = (args.get(1), args.get(3));
    let offset = parse_integer(args.get(2)).ok_or(NOT_AN_INTEGER)?;
    let offset = usize::try_from(offset).map_err(|_| Error::Text("ERR offset is out of range"))?;
    if part.is_empty() {
        let len = txn.read(key, |value| value.map_or(0, <[u8]>::len))?;
        reply.integer(len as i64);
        return Ok(());
    }
    let end = offset.checked_add(part.len()).filter(|end| *end <= MAX_STRING).ok_or(TOO_LONG)?;
    txn.check_key(key)?;
    let (mut value, deadline) = txn.entry(key, |entry| extended(entry, end))?;
    if let Some(place) = value.get_mut(offset..end) {
        place.copy_from_slice(part);
    }
    reply.integer(value.len() as i64);
    txn.put_with_expiration(key, &value, deadline)?;
    Ok(())
}

/// Returns a copy of the value, padded with zeros to `len` bytes, and the expiration time.
fn extended(entry: Option<Entry<'_>>, len: usize) -> (Vec<u8>, u64) {
    let (mut value, deadline) = entry.map_or((Vec::new(), 0), |entry| (entry.value.to_vec(), entry.deadline));
    if value.len() < len {
        value.resize(len, 0);
    }
    (value, deadline)
}
