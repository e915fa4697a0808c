//! Bit operations on values. Bit 0 is the highest bit of the first byte.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, SYNTAX_ERROR},
        flags::{DENYOOM, FAST, READONLY, WHOLE_VALUE, WRITE},
        spec::{Keys, MAX_STRING, ONE_KEY, Read, Spec, cmd},
    },
    resp::{Args, Reply, parse_integer},
    store::{Entry, Txn},
};

/// Positions of the keys among the arguments of BITOP: the target and the sources, from the second on.
const FROM_SECOND: Keys = (2, -1, 1);

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("getbit", 3, ONE_KEY, Read(Read::Entry(getbit)), READONLY | FAST;
        Bitmap, "2.2.0", "Get a bit of a value."),
    cmd!("setbit", 4, ONE_KEY, Write(setbit), WRITE | DENYOOM;
        Bitmap, "2.2.0", "Set or clear a bit of a value."),
    cmd!("bitcount", -2, ONE_KEY, Read(Read::Entry(bitcount)), READONLY | WHOLE_VALUE;
        Bitmap, "2.6.0", "Count the bits that are set."),
    cmd!("bitpos", -3, ONE_KEY, Read(Read::Entry(bitpos)), READONLY | WHOLE_VALUE;
        Bitmap, "2.8.7", "Find the first bit that is 0, or 1."),
    cmd!("bitop", -4, FROM_SECOND, Write(bitop), WRITE | DENYOOM;
        Bitmap, "2.6.0", "Combine values bit by bit."),
];

/// Parses a bit number: an integer from 0 up to the last bit of the longest value that Redis allows.
fn bit_offset(word: &[u8]) -> Result<usize, Error> {
    let offset = parse_integer(word).and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < MAX_STRING);
    offset.ok_or(Error::Text("ERR bit offset is not an integer or out of range"))
}

fn getbit(args: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    let offset = bit_offset(args.get(2))?;
    let byte = entry.and_then(|entry| entry.value.get(offset / 8).copied()).unwrap_or(0);
    reply.integer((byte >> (7 - offset % 8) & 1).into());
    Ok(())
}

fn setbit<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let (key, offset) = (args.get(1), bit_offset(args.get(2))?);
    let bit = parse_integer(args.get(3)).filter(|bit| matches!(bit, 0 | 1));
    let bit = bit.ok_or(Error::Text("ERR bit is not an integer or out of range"))? as u8;
    txn.check_key(key)?;
    let (mask, shift) = (0x80 >> (offset % 8), 7 - offset % 8);
    let (old, change) = txn.entry(key, |entry| {
        let (value, deadline) = entry.map_or((&[][..], 0), |entry| (entry.value, entry.deadline));
        let old = value.get(offset / 8).map(|byte| byte >> shift & 1);
        (old.unwrap_or(0), (old != Some(bit)).then(|| (value.to_vec(), deadline)))
    })?;
    if let Some((mut value, deadline)) = change {
        value.resize(value.len().max(offset / 8 + 1), 0);
        if let Some(byte) = value.get_mut(offset / 8) {
            *byte = *byte & !mask | bit << shift;
        }
        txn.put_with_expiration(key, &value, deadline)?;
    }
    reply.integer(old.into());
    Ok(())
}

/// Range of bits in a value: number of the first bit, and number behind the last bit.
type Bits = (usize, usize);

/// Returns the range of bits from `start` to `end`, both inclusive, in a value of `len` bytes. The numbers are of
/// bits or (not `by_bit`) of bytes; negative ones count from the end.
fn bits(len: usize, start: i64, end: i64, by_bit: bool) -> Bits {
    let unit = if by_bit { 1 } else { 8 };
    let total = (len * 8 / unit) as i64;
    let from_end = |index: i64| if index < 0 { index.saturating_add(total).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    if start > end { (0, 0) } else { (start as usize * unit, (end as usize + 1) * unit) }
}

/// Returns `true` for the word BIT and `false` for BYTE; others are syntax errors.
fn is_by_bit(word: &[u8]) -> Result<bool, Error> {
    match word.len() {
        3 if word.eq_ignore_ascii_case(b"bit") => Ok(true),
        4 if word.eq_ignore_ascii_case(b"byte") => Ok(false),
        _ => Err(SYNTAX_ERROR),
    }
}

/// Returns byte `index` of the value, with the bits outside the range set to 0.
fn byte_within(value: &[u8], index: usize, (start, end): Bits) -> u8 {
    let byte = value.get(index).copied().unwrap_or(0);
    let before = start.saturating_sub(index * 8).min(8);
    let behind = (index * 8 + 8).saturating_sub(end).min(8);
    let ones = 0xff_u16;
    byte & (ones >> before) as u8 & (ones << behind) as u8
}

fn bitcount(args: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    let Some(Entry { value, .. }) = entry else {
        reply.integer(0);
        return Ok(());
    };
    let range = match args.len() {
        2 => (0, value.len() * 8),
        4 | 5 => {
            let start = parse_integer(args.get(2)).ok_or(NOT_AN_INTEGER)?;
            let end = parse_integer(args.get(3)).ok_or(NOT_AN_INTEGER)?;
            if start < 0 && end < 0 && start > end {
                (0, 0)
            } else {
                let by_bit = if args.len() == 5 { is_by_bit(args.get(4))? } else { false };
                bits(value.len(), start, end, by_bit)
            }
        }
        _ => return Err(SYNTAX_ERROR),
    };
    reply.integer(count(value, range));
    Ok(())
}

fn count(value: &[u8], range: Bits) -> i64 {
    let (start, end) = range;
    let (first, last) = (start / 8, end.div_ceil(8));
    if last.saturating_sub(first) < 3 {
        return (first..last).map(|index| i64::from(byte_within(value, index, range).count_ones())).sum();
    }
    let (inner, _) = value.get(first + 1..last - 1).unwrap_or_default().as_chunks::<8>();
    let rest = value.get(first + 1 + inner.len() * 8..last - 1).unwrap_or_default();
    let edges = [first, last - 1].map(|index| i64::from(byte_within(value, index, range).count_ones()));
    edges.iter().sum::<i64>()
        + inner.iter().map(|bytes| i64::from(u64::from_ne_bytes(*bytes).count_ones())).sum::<i64>()
        + rest.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>()
}

fn bitpos(args: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> Result<(), Error> {
    let bit = parse_integer(args.get(2)).ok_or(NOT_AN_INTEGER)?;
    if !matches!(bit, 0 | 1) {
        return Err(Error::Text("ERR The bit argument must be 1 or 0."));
    }
    let Some(Entry { value, .. }) = entry else {
        reply.integer(-bit);
        return Ok(());
    };
    let (start, end) = match args.len() {
        3 => (0, value.len() * 8),
        4..=6 => {
            let start = parse_integer(args.get(3)).ok_or(NOT_AN_INTEGER)?;
            let by_bit = if args.len() == 6 { is_by_bit(args.get(5))? } else { false };
            let end = if args.len() == 4 { Some(i64::MAX) } else { parse_integer(args.get(4)) };
            bits(value.len(), start, end.ok_or(NOT_AN_INTEGER)?, by_bit)
        }
        _ => return Err(SYNTAX_ERROR),
    };
    let found = (start < end).then(|| position(value, bit == 1, (start, end))).flatten();
    // Without an explicit end, zero bits follow the value.
    let zero_behind = (bit == 0 && args.len() < 5 && start < end).then_some(end);
    reply.integer(found.or(zero_behind).map_or(-1, |position| position as i64));
    Ok(())
}

fn position(value: &[u8], set: bool, range: Bits) -> Option<usize> {
    let (start, end) = range;
    let wanted = |index: usize, byte: u8| {
        byte_within(&[if set { byte } else { !byte }], 0, {
            (start.saturating_sub(index * 8), end.saturating_sub(index * 8))
        })
    };
    let first = start / 8;
    let mut bytes = value.get(first..end.div_ceil(8))?.iter().enumerate();
    let skipped = if set { 0 } else { 0xff };
    bytes.find_map(|(index, byte)| {
        let index = first + index;
        if *byte == skipped {
            return None;
        }
        let found = wanted(index, *byte);
        (found != 0).then(|| index * 8 + found.leading_zeros() as usize)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Option<Self> {
        let all = [("and", Self::And), ("or", Self::Or), ("xor", Self::Xor), ("not", Self::Not)];
        all.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, found)| found)
    }

    /// Combines the value of one more source key of BITOP with the result, whose length is that of the longest
    /// source.
    fn add(self, result: &mut [u8], source: &[u8]) {
        let source = source.iter().copied().chain(std::iter::repeat(0));
        match self {
            Self::And => result.iter_mut().zip(source).for_each(|(byte, other)| *byte &= other),
            Self::Or => result.iter_mut().zip(source).for_each(|(byte, other)| *byte |= other),
            Self::Xor => result.iter_mut().zip(source).for_each(|(byte, other)| *byte ^= other),
            Self::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        }
    }
}

fn bitop<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let operation = Operation::parse(args.get(1)).ok_or(SYNTAX_ERROR)?;
    if operation == Operation::Not && args.len() != 4 {
        return Err(Error::Text("ERR BITOP NOT must be called with a single source key."));
    }
    let target = args.get(2);
    txn.check_key(target)?;
    let mut longest = 0;
    for key in args.from(3) {
        longest = longest.max(txn.read(key, |value| value.map_or(0, <[u8]>::len))?);
    }
    let mut result = vec![0; longest];
    for (index, key) in args.from(3).enumerate() {
        txn.read(key, |value| {
            let value = value.unwrap_or_default();
            if index == 0 {
                result.iter_mut().zip(value).for_each(|(byte, first)| *byte = *first);
            }
            if index > 0 || operation == Operation::Not {
                operation.add(&mut result, value);
            }
        })?;
    }
    if longest > 0 {
        txn.put(target, txn.copy_to_arena(&result))?;
    } else if txn.contains(target)? {
        txn.delete(target)?;
    }
    reply.integer(longest as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(value: &[u8], (start, end): Bits) -> Vec<usize> {
        (start..end).filter(|bit| value[bit / 8] >> (7 - bit % 8) & 1 == 1).collect()
    }

    #[test]
    fn counts_and_positions_match_a_loop_over_bits() {
        let value: Vec<u8> =
            (0..40u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8 & (n * 7) as u8).collect();
        for start in 0..=value.len() * 8 {
            for end in start..=value.len() * 8 {
                let set = slow(&value, (start, end));
                assert_eq!(count(&value, (start, end)), set.len() as i64, "{start}..{end}");
                assert_eq!(position(&value, true, (start, end)), set.first().copied(), "{start}..{end}");
                let clear = (start..end).find(|bit| !set.contains(bit));
                assert_eq!(position(&value, false, (start, end)), clear, "{start}..{end}");
            }
        }
    }
}
