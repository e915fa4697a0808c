//! LCS: the longest common subsequence of two values.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, SYNTAX_ERROR},
        flags::{READONLY, WHOLE_KEYSPACE},
        spec::{MAX_STRING, Spec, TWO_KEYS, cmd},
    },
    resp::{Args, Reply, parse_integer},
    store::Keyspace,
};
use std::sync::{Mutex, PoisonError};

pub(in crate::command) const COMMANDS: &[Spec] =
    &[cmd!("lcs", -3, TWO_KEYS, Keyspace(lcs), READONLY | WHOLE_KEYSPACE;
        String, "7.0.0", "Find the longest common subsequence of two values.")];

#[derive(Default)]
struct Options {
    length: bool,
    indexes: bool,
    with_length: bool,
    least: i64,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = args.from(3);
        while let Some(word) = words.next() {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"idx") {
                options.indexes = true;
            } else if is(b"len") {
                options.length = true;
            } else if is(b"withmatchlen") {
                options.with_length = true;
            } else if is(b"minmatchlen") {
                let least = words.next().ok_or(SYNTAX_ERROR)?;
                options.least = parse_integer(least).ok_or(NOT_AN_INTEGER)?;
            } else {
                return Err(SYNTAX_ERROR);
            }
        }
        if options.length && options.indexes {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(Error::Text(text));
        }
        Ok(options)
    }
}

/// Held by the LCS whose table has more than [`MAX_SHARED_TABLE`] bytes, because a table may have half a gigabyte: one
/// at a time, as in Redis.
static LARGE_TABLE: Mutex<()> = Mutex::new(());

/// Size in bytes up to which a table does not wait for the large tables of other clients. An LCS within EXEC that waits
/// delays the commits of all clients.
const MAX_SHARED_TABLE: usize = 1 << 20;

/// Table of the length of the longest common subsequence for each prefix of one value and each prefix of the other.
struct Lengths {
    table: Vec<u32>,
    width: usize,
}

impl Lengths {
    /// Returns the number of entries of the table for two values, or an error if the table would be too large.
    fn size(a: &[u8], b: &[u8]) -> Result<usize, Error> {
        let size = (a.len() + 1).checked_mul(b.len() + 1);
        let too_large = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        size.filter(|size| *size <= MAX_STRING / size_of::<u32>()).ok_or(Error::Text(too_large))
    }

    /// Creates the table, with `size` entries ([`Lengths::size`]).
    fn new(a: &[u8], b: &[u8], size: usize) -> Self {
        let width = b.len() + 1;
        let mut lengths = Self { table: vec![0; size], width };
        for (row, x) in a.iter().enumerate() {
            for (column, y) in b.iter().enumerate() {
                let length = match x == y {
                    true => lengths.get(row, column) + 1,
                    false => lengths.get(row, column + 1).max(lengths.get(row + 1, column)),
                };
                if let Some(place) = lengths.table.get_mut((row + 1) * width + column + 1) {
                    *place = length;
                }
            }
        }
        lengths
    }

    fn get(&self, row: usize, column: usize) -> u32 {
        self.table.get(row * self.width + column).copied().unwrap_or(0)
    }
}

/// Substring that two values have in common: the indexes of its first byte in the two values, and its length in bytes.
struct Match {
    a: usize,
    b: usize,
    length: usize,
}

/// Returns the longest common subsequence of `a` and `b`, and the common substrings that form it, the last one first.
/// If there are several, it is the one that Redis finds.
fn trace(a: &[u8], b: &[u8], lengths: &Lengths) -> (Vec<u8>, Vec<Match>) {
    let (mut text, mut matches): (Vec<u8>, Vec<Match>) = (Vec::new(), Vec::new());
    let (mut row, mut column, mut open) = (a.len(), b.len(), false);
    while let (Some(i), Some(j)) = (row.checked_sub(1), column.checked_sub(1)) {
        if a.get(i) == b.get(j) {
            text.extend(a.get(i));
            match matches.last_mut() {
                Some(run) if open && run.a == row && run.b == column => {
                    *run = Match { a: i, b: j, length: run.length + 1 };
                }
                _ => matches.push(Match { a: i, b: j, length: 1 }),
            }
            (row, column, open) = (i, j, true);
        } else {
            if lengths.get(i, column) > lengths.get(row, j) {
                row = i;
            } else {
                column = j;
            }
            open = false;
        }
    }
    text.reverse();
    (text, matches)
}

fn lcs(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    keyspace.get_many(&[args.get(1), args.get(2)], &mut |index, entry| {
        let value = entry.map_or(Vec::new(), |entry| entry.value.to_vec());
        *if index == 0 { &mut a } else { &mut b } = value;
    })?;
    let options = Options::parse(args)?;
    let size = Lengths::size(&a, &b)?;
    let is_large = size * size_of::<u32>() > MAX_SHARED_TABLE;
    let _guard = is_large.then(|| LARGE_TABLE.lock().unwrap_or_else(PoisonError::into_inner));
    let lengths = Lengths::new(&a, &b, size);
    let length = i64::from(lengths.get(a.len(), b.len()));
    if options.length {
        reply.integer(length);
        return Ok(());
    }
    let (text, matches) = trace(&a, &b, &lengths);
    if !options.indexes {
        reply.bulk(&text);
        return Ok(());
    }
    let is_long = |found: &&Match| found.length as i64 >= options.least;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.iter().filter(is_long).count());
    for found in matches.iter().filter(is_long) {
        reply.array(2 + usize::from(options.with_length));
        for start in [found.a, found.b] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + found.length - 1) as i64);
        }
        if options.with_length {
            reply.integer(found.length as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::{Batch, Fsync, Kind, Location, OpenOptions},
        resp::{Decoder, Input, Limits, Requests},
        store::{Database, Store},
    };
    use std::{sync::mpsc::channel, thread, time::Duration};

    /// Executes LCS of the values of the keys `a` and `b` in a new store, and returns the reply.
    fn lcs_of(a: &[u8], b: &[u8]) -> Vec<u8> {
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let engine = Kind::find("map").unwrap().open(&options).unwrap();
        let mut batch = Batch::default();
        batch.put(b"a", a);
        batch.put(b"b", b);
        engine.write(&batch, false).unwrap();
        let store = Store::new(engine, Fsync::No);
        let (mut input, mut requests) = (Input::with_capacity(100), Requests::default());
        input.extend(b"LCS a b\r\n");
        Decoder::new(Limits::default()).decode(&mut input, &mut requests).unwrap();
        let mut reply = Reply::default();
        let args = requests.get(0, input.bytes()).unwrap();
        assert!(lcs(&mut store.view(Database::default()), args, &mut reply).is_ok());
        reply.bytes().to_vec()
    }

    /// An LCS with a small table does not wait for the large table of another client; one with a large table does.
    #[test]
    fn short_values_do_not_wait_for_the_long_values_of_others() {
        let large = LARGE_TABLE.lock().unwrap();
        let ((short, short_done), (long, long_done)) = (channel(), channel());
        let threads = [
            thread::spawn(move || short.send(lcs_of(b"xaybz", b"aabb")).unwrap()),
            thread::spawn(move || long.send(lcs_of(&[b'x'; 600], &[b'x'; 600])).unwrap()),
        ];
        assert_eq!(short_done.recv_timeout(Duration::from_secs(60)).unwrap(), b"$2\r\nab\r\n");
        assert!(long_done.try_recv().is_err());
        drop(large);
        assert!(long_done.recv().unwrap().starts_with(b"$600\r\n"));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
