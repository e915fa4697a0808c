//! Commands about the expiration times of keys.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, c_string},
        flags::{FAST, READONLY, WRITE},
        spec::{ONE_KEY, Read, Spec, cmd},
    },
    resp::{Args, Reply, parse_integer},
    store::{Entry, ExpirationClock, Txn},
};

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("expire", -3, ONE_KEY, Write(expire), WRITE | FAST;
        Generic, "1.0.0", "Make a key expire after a number of seconds."),
    cmd!("pexpire", -3, ONE_KEY, Write(pexpire), WRITE | FAST;
        Generic, "2.6.0", "Let a key live for some milliseconds."),
    cmd!("expireat", -3, ONE_KEY, Write(expireat), WRITE | FAST;
        Generic, "1.2.0", "Let a key live until a time in seconds since 1970."),
    cmd!("pexpireat", -3, ONE_KEY, Write(pexpireat), WRITE | FAST;
        Generic, "2.6.0", "Let a key live until a time in milliseconds since 1970."),
    cmd!("persist", 2, ONE_KEY, Write(persist), WRITE | FAST;
        Generic, "2.2.0", "Remove the expiry of a key."),
    cmd!("ttl", 2, ONE_KEY, Read(Read::Entry(ttl)), READONLY | FAST;
        Generic, "1.0.0", "Tell how many seconds a key has left."),
    cmd!("pttl", 2, ONE_KEY, Read(Read::Entry(pttl)), READONLY | FAST;
        Generic, "2.6.0", "Tell how many milliseconds a key has left."),
    cmd!("expiretime", 2, ONE_KEY, Read(Read::Entry(expiretime)), READONLY | FAST;
        Generic, "7.0.0", "Tell when a key expires."),
    cmd!("pexpiretime", 2, ONE_KEY, Read(Read::Entry(pexpiretime)), READONLY | FAST;
        Generic, "7.0.0", "Tell when a key expires, in milliseconds."),
];

/// Conditions of EXPIRE on the old expiration time (NX, XX, GT, LT).
#[derive(Default)]
struct Conditions {
    none: bool,
    some: bool,
    later: bool,
    sooner: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut conditions = Self::default();
        for word in args.from(3) {
            let Self { none, some, later, sooner } = &mut conditions;
            let all = [(&b"nx"[..], none), (b"xx", some), (b"gt", later), (b"lt", sooner)];
            match all.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)) {
                Some((_, condition)) => *condition = true,
                None => {
                    let word = c_string(word);
                    // Redis removes line breaks at the end of an error.
                    let breaks = word.iter().rev().take_while(|byte| b"\r\n".contains(byte)).count();
                    let word = word.get(..word.len() - breaks).unwrap_or_default();
                    return Err(Error::Words([b"ERR Unsupported option ", word].concat()));
                }
            }
        }
        let Self { none, some, later, sooner } = conditions;
        if none && (some || later || sooner) {
            return Err(Error::Text("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if later && sooner {
            return Err(Error::Text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Returns `true` if the conditions allow `new`, in milliseconds since 1970, to replace the expiration time
    /// `old` (0: never).
    fn hold(&self, old: u64, new: i64) -> bool {
        let old = i64::try_from(old).unwrap_or(i64::MAX);
        !(self.none && old != 0
            || self.some && old == 0
            || self.later && (old == 0 || new <= old)
            || self.sooner && old != 0 && new >= old)
    }
}

fn expire<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    set(b"expire", 1000, true, args, txn, reply)
}

fn pexpire<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    set(b"pexpire", 1, true, args, txn, reply)
}

fn expireat<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    set(b"expireat", 1000, false, args, txn, reply)
}

fn pexpireat<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    set(b"pexpireat", 1, false, args, txn, reply)
}

/// Executes EXPIRE and its variants: sets the expiration time of a key, or deletes the key if that time has passed.
/// `unit` is the number of milliseconds per unit of the argument; `relative` is `true` if it counts from now.
fn set<'g>(
    command: &[u8],
    unit: i64,
    relative: bool,
    args: Args<'g>,
    txn: &mut Txn<'g>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let (key, conditions) = (args.get(1), Conditions::parse(args)?);
    let number = parse_integer(args.get(2)).ok_or(NOT_AN_INTEGER)?;
    let now = txn.now() as i64;
    let deadline = number.checked_mul(unit);
    let deadline = deadline.and_then(|time| if relative { time.checked_add(now) } else { Some(time) });
    let deadline = deadline.ok_or_else(|| Error::expire_time(command))?;
    let found = txn.entry(key, |entry| {
        let entry = entry.filter(|entry| conditions.hold(entry.deadline, deadline))?;
        Some(if deadline > now { entry.value.to_vec() } else { Vec::new() })
    })?;
    if let Some(value) = &found {
        match u64::try_from(deadline) {
            Ok(time) if deadline > now => txn.put_with_expiration(key, value, time)?,
            _ => txn.delete(key)?,
        }
    }
    reply.integer(found.is_some().into());
    Ok(())
}

fn persist<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let key = args.get(1);
    let found =
        txn.entry(key, |entry| entry.filter(|entry| entry.deadline > 0).map(|entry| entry.value.to_vec()))?;
    if let Some(value) = &found {
        txn.put(key, txn.copy_to_arena(value))?;
    }
    reply.integer(found.is_some().into());
    Ok(())
}

fn ttl(_: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    reply_with_time(entry, reply, |deadline, now| (deadline.saturating_sub(now) + 500) / 1000)
}

fn pttl(_: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    reply_with_time(entry, reply, |deadline, now| deadline.saturating_sub(now))
}

fn expiretime(_: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    reply_with_time(entry, reply, |deadline, _| (deadline + 500) / 1000)
}

fn pexpiretime(_: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    reply_with_time(entry, reply, |deadline, _| deadline)
}

fn reply_with_time(
    entry: Option<Entry<'_>>,
    reply: &mut Reply,
    number: fn(u64, u64) -> u64,
) -> Result<(), Error> {
    reply.integer(match entry {
        None => -2,
        Some(Entry { deadline: 0, .. }) => -1,
        Some(Entry { deadline, .. }) => number(deadline, ExpirationClock::default().now()) as i64,
    });
    Ok(())
}
