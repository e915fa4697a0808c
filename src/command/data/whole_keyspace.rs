//! Commands on all keys: KEYS, SCAN, RANDOMKEY, DBSIZE, FLUSHALL and others.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, SYNTAX_ERROR},
        flags::{FAST, READONLY, WHOLE_KEYSPACE, WRITE},
        glob,
        spec::{NO_KEY, Spec, cmd, database},
    },
    engine::{KeyRange, prefix_end},
    resp::{Args, Reply, parse_integer},
    store::{Keyspace, Txn},
};
use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    ops::{Bound, ControlFlow},
};

pub(in crate::command) const COMMANDS: &[Spec] = &[
    cmd!("keys", -2, NO_KEY, Keyspace(keys), READONLY | WHOLE_KEYSPACE;
        Generic, "1.0.0", "Find keys: KEYS pattern [LIMIT n] [WITHVALUES].")
    .in_categories("keyspace dangerous"),
    cmd!("scan", -2, NO_KEY, Keyspace(scan), READONLY | WHOLE_KEYSPACE;
        Generic, "2.8.0", "Scan all keys, some at a time."),
    cmd!("randomkey", 1, NO_KEY, Keyspace(randomkey), READONLY | WHOLE_KEYSPACE; Generic, "1.0.0", "Get some key."),
    cmd!("dbsize", 1, NO_KEY, Keyspace(dbsize), READONLY | FAST | WHOLE_KEYSPACE;
        Server, "1.0.0", "Count all keys.")
    .in_categories("keyspace"),
    cmd!("flushdb", -1, NO_KEY, Write(flushdb), WRITE | WHOLE_KEYSPACE;
        Server, "1.0.0", "Remove all keys.")
    .in_categories("keyspace dangerous"),
    cmd!("flushall", -1, NO_KEY, Write(flushall), WRITE | WHOLE_KEYSPACE;
        Server, "1.0.0", "Remove all keys of all databases.")
    .in_categories("keyspace dangerous"),
    cmd!("swapdb", 3, NO_KEY, Write(swapdb), WRITE | FAST | WHOLE_KEYSPACE;
        Server, "4.0.0", "Exchange two databases.")
    .in_categories("keyspace dangerous"),
];

fn dbsize(keyspace: &mut dyn Keyspace, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let count = keyspace.count()?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// Fails unless the only argument of FLUSHALL or FLUSHDB, if any, is SYNC or ASYNC, which has no effect.
fn check_how(args: Args<'_>) -> Result<(), Error> {
    let how = args.get(1);
    let known = how.eq_ignore_ascii_case(b"sync") || how.eq_ignore_ascii_case(b"async");
    if args.len() == 1 || args.len() == 2 && known { Ok(()) } else { Err(SYNTAX_ERROR) }
}

fn flushdb<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    check_how(args)?;
    txn.flush_database()?;
    reply.ok();
    Ok(())
}

fn flushall<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    check_how(args)?;
    txn.clear()?;
    reply.ok();
    Ok(())
}

fn swapdb<'g>(args: Args<'g>, txn: &mut Txn<'g>, reply: &mut Reply) -> Result<(), Error> {
    let index = |place: usize, bad: &'static str| match parse_integer(args.get(place)) {
        Some(number) if i32::try_from(number).is_ok() => database(args.get(place)),
        _ => Err(Error::Text(bad)),
    };
    let parsed = |place, bad| match index(place, bad) {
        // Both arguments are parsed before either is found to be out of range.
        Err(Error::Text(text)) if text == bad => Err(Error::Text(text)),
        other => Ok(other),
    };
    let (one, two) = (parsed(1, "ERR invalid first DB index")?, parsed(2, "ERR invalid second DB index")?);
    let (one, two) = (one?, two?);
    if one != two {
        txn.swap_databases(one, two)?;
    }
    reply.ok();
    Ok(())
}

/// Options of kvbench's extension of KEYS: maximum number of keys, and `true` if each key is followed by its
/// value.
struct KeysOptions {
    limit: usize,
    with_values: bool,
}

impl KeysOptions {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut options = Self { limit: usize::MAX, with_values: false };
        let mut words = args.from(2);
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"withvalues") {
                options.with_values = true;
            } else if word.eq_ignore_ascii_case(b"limit") {
                let limit = parse_integer(words.next().ok_or(SYNTAX_ERROR)?).ok_or(NOT_AN_INTEGER)?;
                options.limit =
                    usize::try_from(limit).map_err(|_| Error::Text("ERR LIMIT can't be negative"))?;
            } else {
                return Err(Error::Text("ERR wrong number of arguments for 'keys' command"));
            }
        }
        Ok(options)
    }
}

fn keys(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let options = KeysOptions::parse(args)?;
    let pattern = args.get(1);
    let prefix = glob::literal_prefix(pattern);
    let end = prefix_end(prefix);
    // The length precedes the elements but is known only after them.
    let mut elements = reply.aside();
    let (mut found, mut failed) = (0, Ok(()));
    if options.limit > 0 {
        keyspace.scan(range_of(prefix, &end), &mut |key, entry| {
            if glob::matches(pattern, key) {
                found += 1;
                elements.bulk(key);
                match entry {
                    Ok(entry) if options.with_values => elements.bulk(entry.value),
                    Err(error) if options.with_values => {
                        failed = Err(error);
                        return ControlFlow::Break(());
                    }
                    // The value is not needed, so a key whose value cannot be read is listed too.
                    _ => {}
                }
            }
            if found < options.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    failed?;
    reply.array(if options.with_values { found * 2 } else { found });
    reply.append(&elements);
    Ok(())
}

/// Returns the range of keys that begin with `prefix`; `end` is the end of that range.
fn range_of<'a>(prefix: &'a [u8], end: &'a Option<Vec<u8>>) -> KeyRange<'a> {
    let start = Bound::Included(prefix);
    KeyRange { start, end: end.as_deref().map_or(Bound::Unbounded, Bound::Excluded) }
}

/// Options of SCAN.
struct ScanOptions<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    /// `true` if SCAN returns strings (TYPE string, or no TYPE); all values are strings, so otherwise no key
    /// matches.
    strings: bool,
}

impl<'a> ScanOptions<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Error> {
        let mut options = Self { count: 10, pattern: None, strings: true };
        let mut words = args.from(2);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX_ERROR)?;
            if word.eq_ignore_ascii_case(b"count") {
                let count = parse_integer(value).ok_or(NOT_AN_INTEGER)?;
                options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX_ERROR)?;
            } else if word.eq_ignore_ascii_case(b"match") {
                options.pattern = Some(value);
            } else if word.eq_ignore_ascii_case(b"type") {
                options.strings = value.eq_ignore_ascii_case(b"string");
            } else {
                return Err(SYNTAX_ERROR);
            }
        }
        Ok(options)
    }
}

/// Parses a cursor as `strtoul` does, without leading spaces.
fn parse_cursor(word: &[u8]) -> Option<u64> {
    let (negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if word.is_empty() {
        return Some(0);
    }
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })?;
    Some(if negative { number.wrapping_neg() } else { number })
}

fn scan(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let cursor = parse_cursor(args.get(1)).ok_or(Error::Text("ERR invalid cursor"))?;
    let options = ScanOptions::parse(args)?;
    let mut elements = reply.aside();
    let mut found = 0;
    let next = keyspace.scan_step(cursor, options.count, &mut |key, _| {
        if options.strings && options.pattern.is_none_or(|pattern| glob::matches(pattern, key)) {
            found += 1;
            elements.bulk(key);
        }
        ControlFlow::Continue(())
    })?;
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    reply.array(found);
    reply.append(&elements);
    Ok(())
}

/// Maximum number of keys among which RANDOMKEY chooses uniformly.
const CHOICE: usize = 1000;

/// Executes RANDOMKEY. With more than `CHOICE` keys, not every key has the same probability. In an ordered engine, the
/// command chooses uniformly among the bytes that follow the common prefix of all keys, and so on, until at most `CHOICE`
/// keys have the chosen prefix; a key that is equal to the common prefix is one more choice beside these bytes. In an
/// unordered engine, it chooses among up to `CHOICE` keys that follow a random position of the engine's scan.
fn randomkey(keyspace: &mut dyn Keyspace, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let mut random = SmallRng::seed_from_u64(RandomState::new().build_hasher().finish());
    let keys = candidates(keyspace, &mut random)?;
    reply.bulk_or_null(keys.choose(&mut random).map(Vec::as_slice));
    Ok(())
}

fn candidates(keyspace: &mut dyn Keyspace, random: &mut SmallRng) -> Result<Vec<Vec<u8>>, Error> {
    let mut prefix = Vec::new();
    loop {
        let keys = first_keys(keyspace, &prefix, CHOICE + 1)?;
        // Other clients may have removed the keys of the chosen prefix meanwhile.
        if keys.is_empty() && !prefix.is_empty() {
            prefix.clear();
            continue;
        }
        if keys.len() <= CHOICE {
            return Ok(keys);
        }
        if !keyspace.is_ordered() {
            let mut some = Vec::new();
            keyspace.sample(random.random(), &mut |key, _| {
                some.push(key.to_vec());
                if some.len() < CHOICE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            return Ok(if some.is_empty() { keys } else { some });
        }
        if let Some(first) = keys.first() {
            prefix = common_prefix(keyspace, &prefix, first)?;
        }
        match branches(keyspace, &prefix)?.choose(random) {
            Some(Some(byte)) => prefix.push(*byte),
            Some(None) => return Ok(vec![prefix]),
            None => return Ok(keys),
        }
    }
}

/// Returns the first `most` keys that begin with `prefix`, in the order of the engine.
fn first_keys(keyspace: &mut dyn Keyspace, prefix: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Error> {
    let (end, mut keys) = (prefix_end(prefix), Vec::new());
    keyspace.scan(range_of(prefix, &end), &mut |key, _| {
        keys.push(key.to_vec());
        if keys.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(keys)
}

/// Returns the longest prefix that all keys have which begin with `prefix`. `first` is the first of these keys; the engine
/// is ordered. Reads a few keys, however long the prefix is: a client may use keys of 64 KiB that differ at their ends.
fn common_prefix(keyspace: &mut dyn Keyspace, prefix: &[u8], first: &[u8]) -> Result<Vec<u8>, Error> {
    let end = prefix_end(prefix);
    // All keys share `common` bytes, and not as many as `limit`.
    let (mut common, mut limit) = (prefix.len(), first.len() + 1);
    while common + 1 < limit {
        let middle = common.midpoint(limit);
        let mut is_common = true;
        // A key after those that begin with `middle` bytes of the first key.
        if let Some(start) = prefix_end(first.get(..middle).unwrap_or(first))
            && end.as_ref() != Some(&start)
        {
            let range = KeyRange { start: Bound::Included(&start), ..range_of(prefix, &end) };
            keyspace.scan(range, &mut |_, _| {
                is_common = false;
                ControlFlow::Break(())
            })?;
        }
        if is_common { common = middle } else { limit = middle }
    }
    Ok(first.get(..common).unwrap_or(first).to_vec())
}

/// Returns the different bytes that follow `prefix` in the keys that begin with it; `None` stands for the key that is
/// equal to `prefix`.
fn branches(keyspace: &mut dyn Keyspace, prefix: &[u8]) -> Result<Vec<Option<u8>>, Error> {
    let (end, mut found, mut next) = (prefix_end(prefix), Vec::new(), Some(prefix.to_vec()));
    while let Some(start) = next.take() {
        let range = KeyRange { start: Bound::Included(&start), ..range_of(prefix, &end) };
        keyspace.scan(range, &mut |key, _| {
            let byte = key.get(prefix.len()).copied();
            found.push(byte);
            let following = byte.map_or(Some(0), |byte| byte.checked_add(1));
            next = following.map(|byte| [prefix, &[byte]].concat());
            ControlFlow::Break(())
        })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::{Batch, Fsync, Kind, Location, OpenOptions},
        store::{self, Database, Store, StoreKeyspace, VisitEntry, VisitLookup},
    };

    /// Keyspace that counts its scans.
    struct Counting<'s> {
        keyspace: StoreKeyspace<'s>,
        scans: usize,
    }

    impl Keyspace for Counting<'_> {
        fn get_many(&mut self, keys: &[&[u8]], visit: &mut VisitLookup<'_>) -> Result<(), store::Error> {
            self.keyspace.get_many(keys, visit)
        }

        fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitEntry<'_>) -> Result<(), store::Error> {
            self.scans += 1;
            self.keyspace.scan(range, visit)
        }

        fn count(&mut self) -> Result<u64, store::Error> {
            self.keyspace.count()
        }

        fn sample(&mut self, random: u64, visit: &mut VisitEntry<'_>) -> Result<(), store::Error> {
            self.keyspace.sample(random, visit)
        }

        fn is_ordered(&self) -> bool {
            self.keyspace.is_ordered()
        }

        fn scan_step(
            &mut self,
            cursor: u64,
            count: usize,
            visit: &mut VisitEntry<'_>,
        ) -> Result<u64, store::Error> {
            self.keyspace.scan_step(cursor, count, visit)
        }
    }

    /// Returns a store with these keys, whose engine is ordered.
    fn store_with(keys: &[Vec<u8>]) -> Store {
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let engine = Kind::find("btree").unwrap().open(&options).unwrap();
        let mut batch = Batch::default();
        keys.iter().for_each(|key| batch.put(key, b"v"));
        engine.write(&batch, false).unwrap();
        Store::new(engine, Fsync::No)
    }

    #[test]
    fn a_long_common_prefix_costs_few_scans() {
        let keys = |prefix: &[u8]| -> Vec<Vec<u8>> {
            (0..2000).map(|number| [prefix, format!("{number}").as_bytes()].concat()).collect()
        };
        let numbered = keys(&[b'x'; 5000]);
        // The first keys have more in common than all keys.
        let uneven = [keys(&[b'x'; 5000]), vec![[&[b'x'; 4000][..], b"y"].concat()]].concat();
        for keys in [numbered, uneven] {
            let store = store_with(&keys);
            for seed in 0..20 {
                let mut keyspace = Counting { keyspace: store.view(Database::default()), scans: 0 };
                let found = candidates(&mut keyspace, &mut SmallRng::seed_from_u64(seed)).unwrap();
                assert!((1..=CHOICE).contains(&found.len()), "{} candidates", found.len());
                assert!(keyspace.scans < 200, "{} scans", keyspace.scans);
            }
        }
    }

    #[test]
    fn a_key_that_is_the_common_prefix_of_many_keys_can_be_chosen() {
        // RANDOMKEY reaches the second prefix after it has chosen the byte that follows the first one.
        let prefixes = [b"key".to_vec(), b"key1".to_vec()];
        let longer = (0..2000).map(|number| format!("key1{number:04}").into_bytes());
        let store = store_with(&longer.chain(prefixes.clone()).collect::<Vec<_>>());
        let mut keyspace = store.view(Database::default());
        let mut is_chosen = [false; 2];
        for seed in 0..100 {
            let found = candidates(&mut keyspace, &mut SmallRng::seed_from_u64(seed)).unwrap();
            assert!((1..=CHOICE).contains(&found.len()), "{} candidates", found.len());
            is_chosen[0] |= found == prefixes[..1];
            is_chosen[1] |= found == prefixes[1..];
        }
        assert_eq!(is_chosen, [true; 2]);
    }

    #[test]
    fn the_common_prefix_belongs_to_all_keys() {
        for (keys, prefix, expected) in [
            (&["abc1", "abc2"][..], "", "abc"),
            (&["abc1", "abc2", "abd"], "a", "ab"),
            (&["abc", "abcd", "abce"], "", "abc"),
            (&["abc1", "abc2", "b"], "", ""),
            (&["abc1", "abc2", "b"], "a", "abc"),
            (&["abc"], "ab", "abc"),
        ] {
            let keys: Vec<_> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
            let store = store_with(&keys);
            let first = keys.iter().find(|key| key.starts_with(prefix.as_bytes())).unwrap();
            let found = common_prefix(&mut store.view(Database::default()), prefix.as_bytes(), first);
            assert!(found.is_ok_and(|found| found == expected.as_bytes()), "{keys:?} {prefix}");
        }
        let keys = [b"a\xff\xff1".to_vec(), b"a\xff\xff2".to_vec()];
        let store = store_with(&keys);
        let found = common_prefix(&mut store.view(Database::default()), b"a", &keys[0]);
        assert!(found.is_ok_and(|found| found == b"a\xff\xff"));
    }
}
