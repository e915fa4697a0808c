//! Commands on values as a whole, and on parts of values.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, SYNTAX_ERROR, TOO_LONG, wrong_arity},
        flags::{BLIND, BLIND_WITHOUT_OPTIONS, DENYOOM, FAST, READONLY, WRITE},
        spec::{ALL_KEYS, MAX_STRING, ONE_KEY, PAIRS, Read, Spec, cmd},
    },
    resp::{Args, Reply, parse_integer},
    store::{Entry, Txn},
};

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("get", 2, ONE_KEY, Read(Read::One(get)), READONLY | FAST;
        String, "1.0.0", "Get the value of a key."),
    cmd!("set", -3, ONE_KEY, Write(set), WRITE | DENYOOM | BLIND_WITHOUT_OPTIONS;
        String, "1.0.0", "Set the value of a key."),
    cmd!("setnx", 3, ONE_KEY, Write(setnx), WRITE | DENYOOM | FAST;
        String, "1.0.0", "Set a key, only if it does not exist."),
    cmd!("setex", 4, ONE_KEY, Write(setex), WRITE | DENYOOM | BLIND;
        String, "2.0.0", "Set a key that expires after a number of seconds."),
    cmd!("psetex", 4, ONE_KEY, Write(psetex), WRITE | DENYOOM | BLIND;
        String, "2.6.0", "Set a key that expires after a number of milliseconds."),
    cmd!("getset", 3, ONE_KEY, Write(getset), WRITE | DENYOOM | FAST;
        String, "1.0.0", "Set a key and return its old value."),
    cmd!("getdel", 2, ONE_KEY, Write(getdel), WRITE | FAST; String, "6.2.0", "Get a key, and remove it."),
    cmd!("getex", -2, ONE_KEY, Write(getex), WRITE | FAST;
        String, "6.2.0", "Get a key, and change when it expires."),
    cmd!("mget", -2, ALL_KEYS, Read(Read::Each(mget)), READONLY | FAST;
        String, "1.0.0", "Get the values of keys."),
    cmd!("mset", -3, PAIRS, Write(mset), WRITE | DENYOOM | BLIND;
        String, "1.0.1", "Set keys to values, atomically."),
    cmd!("msetnx", -3, PAIRS, Write(msetnx), WRITE | DENYOOM;
        String, "1.0.1", "Set several keys, only if none of them exists."),
    cmd!("append", 3, ONE_KEY, Write(append), WRITE | DENYOOM | FAST;
        String, "2.0.0", "Add to the end of a value."),
    cmd!("strlen", 2, ONE_KEY, Read(Read::One(strlen)), READONLY | FAST;
        String, "2.2.0", "Get the length of a value."),
    cmd!("getrange", 4, ONE_KEY, Read(Read::Entry(getrange)), READONLY;
        String, "2.4.0", "Get a part of a value."),
    cmd!("substr", 4, ONE_KEY, Read(Read::Entry(getrange)), READONLY;
        String, "1.0.0", "The old name of GETRANGE."),
    cmd!("setrange", 4, ONE_KEY, Write(setrange), WRITE | DENYOOM;
        String, "2.2.0", "Write over a part of a value."),
];

fn get(_: Args<'_>, value: Option<&[u8]>, reply: &mut Reply) {
    reply.bulk_or_null(value);
}

fn mget(value: Option<&[u8]>, reply: &mut Reply) {
    reply.bulk_or_null(value);
}

fn strlen(_: Args<'_>, value: Option<&[u8]>, reply: &mut Reply) {
    reply.integer(value.map_or(0, <[u8]>::len) as i64);
}

/// Condition of SET: all keys, new keys (NX), or existing keys (XX).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum SetCondition {
    #[default]
    All,
    New,
    Old,
}

/// Change of the expiration time by SET and GETEX.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum SetExpiry<'a> {
    /// The request has no option on the expiration time: SET removes it, GETEX keeps it.
    #[default]
    Unsaid,
    Keep,
    Persist,
    /// New expiration time: a number as text, the number of milliseconds in its unit, and `true` if it counts from now.
    At {
        number: &'a [u8],
        unit: u64,
        relative: bool,
    },
}

impl SetExpiry<'_> {
    /// Returns the new expiration time in Unix time in milliseconds; 0 if no time is given. Fails if it is invalid;
    /// `command` is named in the error.
    fn deadline(self, command: &[u8], now: impl FnOnce() -> u64) -> Result<u64, Error> {
        let Self::At { number, unit, relative } = self else { return Ok(0) };
        let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
        let time = u64::try_from(number).ok().filter(|number| *number > 0);
        let time = time.and_then(|number| number.checked_mul(unit));
        let time = time.and_then(|time| if relative { time.checked_add(now()) } else { Some(time) });
        time.filter(|time| i64::try_from(*time).is_ok()).ok_or_else(|| Error::expire_time(command))
    }
}

/// Options of SET and GETEX, as parsed from the arguments.
#[derive(Default)]
struct SetOptions<'a> {
    which: SetCondition,
    get: bool,
    expire: SetExpiry<'a>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>, first: usize, is_set: bool) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = args.from(first);
        while let Some(word) = words.next() {
            let mut name = [0; 8];
            let name = name.get_mut(..word.len()).ok_or(SYNTAX_ERROR)?;
            name.copy_from_slice(word);
            name.make_ascii_lowercase();
            match (&*name, options.expire) {
                (b"nx", _) if is_set && options.which != SetCondition::Old => {
                    options.which = SetCondition::New
                }
                (b"xx", _) if is_set && options.which != SetCondition::New => {
                    options.which = SetCondition::Old
                }
                (b"get", _) if is_set => options.get = true,
                (b"keepttl", SetExpiry::Unsaid | SetExpiry::Keep) if is_set => {
                    options.expire = SetExpiry::Keep
                }
                (b"persist", SetExpiry::Unsaid | SetExpiry::Persist) if !is_set => {
                    options.expire = SetExpiry::Persist
                }
                (b"ex" | b"px" | b"exat" | b"pxat", expire) => {
                    let (unit, relative) = (if name.starts_with(b"e") { 1000 } else { 1 }, name.len() == 2);
                    let is_other = match expire {
                        SetExpiry::Unsaid => false,
                        SetExpiry::Keep | SetExpiry::Persist => true,
                        SetExpiry::At { unit: before, relative: was, .. } => {
                            (before, was) != (unit, relative)
                        }
                    };
                    let number = words.next().filter(|_| !is_other).ok_or(SYNTAX_ERROR)?;
                    options.expire = SetExpiry::At { number, unit, relative };
                }
                _ => return Err(SYNTAX_ERROR),
            }
        }
        Ok(options)
    }
}

fn set<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    if args.len() == 3 {
        txn.put(args.get(1), args.get(2))?;
        reply.ok();
        return Ok(());
    }
    set_as(SetOptions::parse(args, 3, true)?, args, txn, reply)
}

/// Executes a SET with the given options: checks its condition, writes the value, and writes the reply (with GET, the
/// old value).
#[cold]
fn set_as<'g>(
    options: SetOptions<'g>,
    args: Args<'g>,
    txn: &mut Txn<'g>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let (key, value) = (args.get(1), args.get(2));
    let mut deadline = options.expire.deadline(b"set", || txn.now())?;
    txn.check_key(key)?;
    let start = reply.len();
    if options.which != SetCondition::All || options.get || options.expire == SetExpiry::Keep {
        let old = match options.get {
            true => txn.entry(key, |old| {
                reply.bulk_or_null(old.map(|old| old.value));
                old.map(|old| old.deadline)
            }),
            false => txn.peek(key, |old| old.map(|old| old.deadline)),
        };
        let old = match old {
            // NX and XX need only the existence of the key, not its value.
            Err(error)
                if error.is_unreadable_value() && !options.get && options.expire != SetExpiry::Keep =>
            {
                Some(0)
            }
            old => old?,
        };
        let excluded = if old.is_some() { SetCondition::New } else { SetCondition::Old };
        if options.which == excluded {
            if !options.get {
                reply.null();
            }
            return Ok(());
        }
        if options.expire == SetExpiry::Keep {
            deadline = old.unwrap_or(0);
        }
    }
    put(key, value, deadline, txn)?;
    if reply.len() == start {
        reply.ok();
    }
    Ok(())
}

/// Sets a key to a value that expires at `deadline`, in milliseconds since 1970; 0: never.
fn put<'g>(key: &'g [u8], value: &'g [u8], deadline: u64, txn: &mut Txn<'g>) -> Result<(), Error> {
    match deadline {
        0 => txn.put(key, value)?,
        _ => txn.put_with_expiration(key, value, deadline)?,
    }
    Ok(())
}

fn setnx<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let key = args.get(1);
    txn.check_key(key)?;
    let is_new = !txn.contains(key)?;
    if is_new {
        txn.put(key, args.get(2))?;
    }
    reply.integer(is_new.into());
    Ok(())
}

fn setex<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    set_for(b"setex", 1000, args, txn, reply)
}

fn psetex<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    set_for(b"psetex", 1, args, txn, reply)
}

fn set_for<'g>(
    command: &[u8],
    unit: u64,
    args: Args<'g>,
    txn: &mut Txn<'g>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let expire = SetExpiry::At { number: args.get(2), unit, relative: true };
    let deadline = expire.deadline(command, || txn.now())?;
    txn.put_with_expiration(args.get(1), args.get(3), deadline)?;
    reply.ok();
    Ok(())
}

fn getset<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let key = args.get(1);
    txn.check_key(key)?;
    txn.read(key, |value| reply.bulk_or_null(value))?;
    txn.put(key, args.get(2))?;
    Ok(())
}

fn getdel<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let key = args.get(1);
    let found = txn.read(key, |value| {
        reply.bulk_or_null(value);
        value.is_some()
    })?;
    if found {
        txn.delete(key)?;
    }
    Ok(())
}

fn getex<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (key, options) = (args.get(1), SetOptions::parse(args, 2, false)?);
    let copy = |entry: Entry<'_>| (entry.value.to_vec(), entry.deadline);
    let is_change = options.expire != SetExpiry::Unsaid;
    let old = txn.entry(key, |entry| {
        reply.bulk_or_null(entry.map(|entry| entry.value));
        entry.filter(|_| is_change).map(copy)
    })?;
    let Some((value, deadline)) = old else { return Ok(()) };
    match options.expire {
        SetExpiry::Persist if deadline > 0 => txn.put(key, txn.copy_to_arena(&value))?,
        SetExpiry::At { relative, .. } => {
            let deadline = options.expire.deadline(b"getex", || txn.now())?;
            if !relative && deadline <= txn.now() {
                txn.delete(key)?;
            } else {
                txn.put_with_expiration(key, &value, deadline)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn mset<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    if !check_pairs("mset", args, txn, reply)? {
        return Ok(());
    }
    put_pairs(args, txn)?;
    reply.ok();
    Ok(())
}

fn msetnx<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    if !check_pairs("msetnx", args, txn, reply)? {
        return Ok(());
    }
    for key in args.from(1).step_by(2) {
        if txn.contains(key)? {
            reply.integer(0);
            return Ok(());
        }
    }
    put_pairs(args, txn)?;
    reply.integer(1);
    Ok(())
}

/// Returns `true` if the arguments of MSET or MSETNX are complete key-value pairs; otherwise writes an error. Fails
/// if a key cannot be written.
fn check_pairs(command: &str, args: Args<'_>, txn: &Txn<'_>, reply: &mut Reply) -> Result<bool, Error> {
    if args.len().is_multiple_of(2) {
        wrong_arity(command, reply);
        return Ok(false);
    }
    for key in args.from(1).step_by(2) {
        txn.check_key(key)?;
    }
    Ok(true)
}

fn put_pairs<'g>(args: Args<'g>, txn: &mut Txn<'g>) -> Result<(), Error> {
    for (key, value) in args.from(1).step_by(2).zip(args.from(2).step_by(2)) {
        txn.put(key, value)?;
    }
    Ok(())
}

fn append<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (key, more) = (args.get(1), args.get(2));
    txn.check_key(key)?;
    let found = txn.entry(key, |entry| {
        let entry = entry?;
        let is_long = entry.value.len() + more.len() > MAX_STRING;
        Some((if is_long { None } else { Some([entry.value, more].concat()) }, entry.deadline))
    })?;
    let (value, deadline) = found.unwrap_or_else(|| (Some(more.to_vec()), 0));
    let value = value.ok_or(TOO_LONG)?;
    reply.integer(value.len() as i64);
    txn.put_with_expiration(key, &value, deadline)?;
    Ok(())
}

fn getrange(args: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    let [start, end] = [2, 3].map(|index| parse_integer(args.get(index)));
    let (start, end) = (start.ok_or(NOT_AN_INTEGER)?, end.ok_or(NOT_AN_INTEGER)?);
    let value = entry.map_or(&[][..], |entry| entry.value);
    reply.bulk(part(value, start, end));
    Ok(())
}

/// Returns the bytes of `value` from `start` to `end`, both inclusive; negative positions count from the end.
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

/// Returns a copy of the value, padded with zeros to at least `len` bytes, and the expiration time (0: never).
fn extended(entry: Option<Entry<'_>>, len: usize) -> (Vec<u8>, u64) {
    let (mut value, deadline) = entry.map_or((Vec::new(), 0), |entry| (entry.value.to_vec(), entry.deadline));
    if value.len() < len {
        value.resize(len, 0);
    }
    (value, deadline)
}
