//! BITFIELD: integers of 1 to 64 bits, at any bit of a value.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, SYNTAX_ERROR},
        flags::{DENYOOM, FAST, READONLY, WRITE},
        spec::{MAX_STRING, ONE_KEY, Read, Spec, cmd},
    },
    resp::{Args, Reply, parse_integer},
    store::{Entry, Txn},
};

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("bitfield", -2, ONE_KEY, Write(bitfield), WRITE | DENYOOM;
        Bitmap, "3.2.0", "Get and change integers inside of a value."),
    cmd!("bitfield_ro", -2, ONE_KEY, Read(Read::Entry(bitfield_ro)), READONLY | FAST;
        Bitmap, "6.0.0", "Get integers inside of a value."),
];

/// Handling of a BITFIELD result that does not fit into its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// Position, width and sign of an integer in a value (BITFIELD).
#[derive(Clone, Copy)]
struct Field {
    signed: bool,
    bits: u32,
    /// Number of the integer's first bit in the value; bit 0 is the highest bit of the first byte.
    offset: usize,
}

struct Operation {
    field: Field,
    action: Action,
    overflow: Overflow,
}

impl Field {
    fn parse(kind: &[u8], offset: &[u8]) -> Result<Self, Error> {
        const BAD_TYPE: Error = Error::Text(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        const BAD_OFFSET: Error = Error::Text("ERR bit offset is not an integer or out of range");
        let (signed, most, width) = match kind {
            [b'i', width @ ..] => (true, 64, width),
            [b'u', width @ ..] => (false, 63, width),
            _ => return Err(BAD_TYPE),
        };
        let bits = parse_integer(width).filter(|bits| (1..=most).contains(bits)).ok_or(BAD_TYPE)?;
        let (digits, unit) = match offset {
            [b'#', digits @ ..] => (digits, bits),
            digits => (digits, 1),
        };
        let offset = parse_integer(digits).map(|number| number.wrapping_mul(unit)).ok_or(BAD_OFFSET)?;
        let offset = usize::try_from(offset).map_err(|_| BAD_OFFSET)?;
        let field = Self { signed, bits: bits as u32, offset };
        // Redis checks where a field begins, so that a value can exceed the limit by 8 bytes.
        if field.last() / 8 < MAX_STRING { Ok(field) } else { Err(BAD_OFFSET) }
    }

    /// Returns the number of the field's last bit in the value.
    fn last(self) -> usize {
        self.offset + self.bits as usize - 1
    }

    /// Returns the minimum and the maximum integer of the field.
    fn range(self) -> (i128, i128) {
        let half = 1_i128 << (self.bits - 1);
        if self.signed { (-half, half - 1) } else { (0, half * 2 - 1) }
    }

    fn get(self, value: &[u8]) -> i128 {
        let bit = |number: usize| value.get(number / 8).map_or(0, |byte| byte >> (7 - number % 8) & 1);
        let bits =
            (self.offset..=self.last()).fold(0_i128, |bits, number| bits << 1 | i128::from(bit(number)));
        self.wrap(bits)
    }

    fn set(self, value: &mut [u8], integer: i128) {
        for (place, number) in (self.offset..=self.last()).rev().enumerate() {
            let mask = 0x80 >> (number % 8);
            if let Some(byte) = value.get_mut(number / 8) {
                *byte = if integer >> place & 1 == 1 { *byte | mask } else { *byte & !mask };
            }
        }
    }

    /// Returns the integer that the field holds after `integer` wraps around: the value of its lowest bits.
    fn wrap(self, integer: i128) -> i128 {
        let (_, most) = self.range();
        let kept = integer & ((1_i128 << self.bits) - 1);
        if kept > most { kept - (1_i128 << self.bits) } else { kept }
    }

    /// Returns `integer`, or the result of `overflow` if it does not fit into the field: wrapped, the nearest limit,
    /// or `None` (failure).
    fn fit(self, integer: i128, overflow: Overflow) -> Option<i128> {
        let (least, most) = self.range();
        match overflow {
            _ if (least..=most).contains(&integer) => Some(integer),
            Overflow::Wrap => Some(self.wrap(integer)),
            Overflow::Saturate => Some(integer.clamp(least, most)),
            Overflow::Fail => None,
        }
    }
}

impl Operation {
    fn parse_all(args: Args<'_>) -> Result<Vec<Self>, Error> {
        let (mut all, mut overflow) = (Vec::new(), Overflow::Wrap);
        let mut words = args.from(2);
        while let Some(word) = words.next() {
            let is = |name: &[u8], needed: usize| word.eq_ignore_ascii_case(name) && words.len() >= needed;
            let (is_get, is_set) = (is(b"get", 2), is(b"set", 3));
            if is(b"overflow", 1) {
                overflow = parse_overflow(words.next().unwrap_or_default())?;
                continue;
            }
            if !is_get && !is_set && !is(b"incrby", 3) {
                return Err(SYNTAX_ERROR);
            }
            let field = Field::parse(words.next().unwrap_or_default(), words.next().unwrap_or_default())?;
            let action = if is_get {
                Action::Get
            } else {
                let number = words.next().and_then(parse_integer).ok_or(NOT_AN_INTEGER)?;
                if is_set { Action::Set(number) } else { Action::Add(number) }
            };
            all.push(Self { field, action, overflow });
        }
        Ok(all)
    }

    /// Executes the operation on `value`, without changing it. Returns the integer for the reply, and the integer to
    /// write; `None` for null and for no write.
    fn run(&self, value: &[u8]) -> (Option<i128>, Option<i128>) {
        let old = self.field.get(value);
        match self.action {
            Action::Get => (Some(old), None),
            Action::Set(integer) => {
                // An unsigned field takes a negative integer as a large unsigned one.
                let integer = if self.field.signed { integer.into() } else { i128::from(integer as u64) };
                let (_, most) = self.field.range();
                // In Redis, a result that is below the maximum by more than 64 bits can hold counts as above
                // the maximum.
                let is_above = self.field.bits < 64 && most - integer > i64::MAX.into();
                let new = match self.overflow {
                    Overflow::Saturate if is_above => Some(most),
                    overflow => self.field.fit(integer, overflow),
                };
                (new.map(|_| old), new)
            }
            Action::Add(by) => {
                let new = self.field.fit(old + i128::from(by), self.overflow);
                (new, new)
            }
        }
    }
}

fn parse_overflow(word: &[u8]) -> Result<Overflow, Error> {
    let all = [("wrap", Overflow::Wrap), ("sat", Overflow::Saturate), ("fail", Overflow::Fail)];
    let found = all.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(_, overflow)| overflow).ok_or(Error::Text("ERR Invalid OVERFLOW type specified"))
}

fn write_reply(integer: Option<i128>, reply: &mut Reply) {
    match integer {
        // Unsigned fields have at most 63 bits.
        Some(integer) => reply.integer(integer as i64),
        None => reply.null(),
    }
}

fn bitfield_ro(args: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    let operations = Operation::parse_all(args)?;
    if operations.iter().any(|operation| operation.action != Action::Get) {
        return Err(Error::Text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let value = entry.map_or(&[][..], |entry| entry.value);
    reply.array(operations.len());
    operations.iter().for_each(|operation| write_reply(operation.run(value).0, reply));
    Ok(())
}

fn bitfield<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (key, operations) = (args.get(1), Operation::parse_all(args)?);
    let writing = operations.iter().filter(|operation| operation.action != Action::Get);
    let Some(last) = writing.map(|operation| operation.field.last()).max() else {
        return txn.entry(key, |entry| bitfield_ro(args, entry, reply))?;
    };
    txn.check_key(key)?;
    let found = txn.entry(key, |entry| entry.map(|entry| (entry.value.to_vec(), entry.deadline)))?;
    let (mut value, deadline) = found.unwrap_or_default();
    let mut changed = value.len() <= last / 8;
    value.resize(value.len().max(last / 8 + 1), 0);
    reply.array(operations.len());
    for operation in &operations {
        let (answer, new) = operation.run(&value);
        write_reply(answer, reply);
        if let Some(new) = new {
            changed |= new != operation.field.get(&value);
            operation.field.set(&mut value, new);
        }
    }
    if changed {
        txn.put_with_expiration(key, &value, deadline)?;
    }
    Ok(())
}
