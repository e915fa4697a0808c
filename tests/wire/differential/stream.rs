//! Random requests whose replies Redis and kvbench must agree on.

use crate::support::request;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

type Words = Vec<Vec<u8>>;

pub struct Request {
    pub bytes: Vec<u8>,
    /// Its name, in lower case.
    pub command: Vec<u8>,
}

impl Request {
    /// Whether the order of the reply's elements means nothing.
    pub fn is_unordered(&self) -> bool {
        self.command == b"keys"
    }

    /// Whether the reply tells a time, which is not quite the same in both servers.
    fn tells_time(&self) -> bool {
        [&b"ttl"[..], b"pttl", b"expiretime", b"pexpiretime"].contains(&&self.command[..])
    }

    /// Whether its reply, or those that follow, may be written in another protocol.
    fn changes_connection(&self) -> bool {
        self.command == b"hello"
    }
}

/// An endless stream of requests, the same for the same seed.
pub struct Stream {
    random: StdRng,
    /// Whether every key has at least one byte and at most a thousand.
    tame_keys: bool,
}

/// Names and what they take.
const COMMANDS: &[(&str, Arguments)] = &[
    ("get", Arguments::Key),
    ("set", Arguments::Pairs(1)),
    ("mget", Arguments::Keys),
    ("mset", Arguments::Pairs(4)),
    ("incr", Arguments::Key),
    ("decr", Arguments::Key),
    ("incrby", Arguments::KeyNumber),
    ("decrby", Arguments::KeyNumber),
    ("del", Arguments::Keys),
    ("exists", Arguments::Keys),
    ("type", Arguments::Key),
    ("keys", Arguments::Pattern),
    ("dbsize", Arguments::None),
    ("ping", Arguments::None),
    ("echo", Arguments::Value),
    ("nosuch", Arguments::Keys),
    ("nosuch", Arguments::Pairs(2)),
    ("client", Arguments::Value),
];

/// The rest, as whole requests: right ones, bad options, unknown names and subcommands.
const ODD: &[&str] = &[
    "FLUSHDB",
    "flushdb sync",
    "FLUSHDB ASYNC",
    "FLUSHDB BOGUS",
    "FLUSHDB SYNC ASYNC",
    "PING message",
    "ping a b",
    "SELECT 0",
    "SELECT 1",
    "SELECT -1",
    "SELECT x",
    "SELECT 99999999999",
    "SELECT 01",
    "CLIENT",
    "CLIENT SETNAME me",
    "CLIENT SETNAME you",
    "CLIENT SETNAME",
    "CLIENT GETNAME",
    "CLIENT GETNAME x",
    "CLIENT BOGUS",
    "CLIENT bogus with arguments",
    "client ID x",
    "CLIENT INFO x",
    "CONFIG",
    "CONFIG GET",
    "CONFIG GET nosuch",
    "CONFIG GET nosuch* neither*",
    "CONFIG GET databases",
    "CONFIG BOGUS x",
    "COMMAND COUNT x",
    "COMMAND INFO nosuch",
    "COMMAND DOCS nosuch",
    "COMMAND BOGUS",
    "NOSUCH",
    "NoSuch with arguments",
    "MSET k",
    "MSET a 1 b",
    "SET k",
    "SET k v BOGUS",
    "HELLO x",
    "HELLO 9",
    "HELLO 3 BOGUS",
    "HELLO 3 SETNAME",
    "HELLO 3 AUTH nobody x",
];

/// Requests with places for a key (`%k`), a value (`%v`), a number (`%n`), a place in a value (`%p`), a number with
/// decimals (`%f`), seconds that none of the tests lasts (`%s`), and a date (`%d`).
const TEMPLATES: &[&str] = &[
    "SET %k %v NX",
    "SET %k %v XX",
    "SET %k %v GET",
    "SET %k %v NX GET",
    "SET %k %v XX GET KEEPTTL",
    "SET %k %v KEEPTTL",
    "SET %k %v EX %s",
    "SET %k %v PX %s",
    "SET %k %v EXAT 4000000000",
    "SET %k %v PXAT 4000000000000",
    "SET %k %v GET EX %s NX",
    "SET %k %v EX",
    "SET %k %v EX %s PX %s",
    "SET %k %v NX XX",
    "SET %k %v KEEPTTL EX %s",
    "SETNX %k %v",
    "SETEX %k %s %v",
    "PSETEX %k %s %v",
    "GETSET %k %v",
    "GETDEL %k",
    "GETEX %k",
    "GETEX %k EX %s",
    "GETEX %k PX %s",
    "GETEX %k EXAT %d",
    "GETEX %k PXAT %d",
    "GETEX %k PERSIST",
    "GETEX %k PERSIST EX %s",
    "GETEX %k NX",
    "MSETNX %k %v %k %v",
    "MSETNX %k %v %k",
    "APPEND %k %v",
    "STRLEN %k",
    "GETRANGE %k %n %n",
    "GETRANGE %k %p %p",
    "SUBSTR %k -%p -%p",
    "SETRANGE %k %p %v",
    "SETRANGE %k %n %v",
    "INCRBYFLOAT %k %f",
    "INCRBYFLOAT %k %n",
    "SET %k %f",
    "LCS %k %k",
    "LCS %k %k LEN",
    "LCS %k %k IDX",
    "LCS %k %k IDX MINMATCHLEN %n WITHMATCHLEN",
    "LCS %k %k LEN IDX",
    "LCS %k %k BOGUS",
    "GETBIT %k %p",
    "GETBIT %k %n",
    "SETBIT %k %p 1",
    "SETBIT %k %p 0",
    "SETBIT %k %p %n",
    "BITCOUNT %k",
    "BITCOUNT %k %p",
    "BITCOUNT %k %p %p",
    "BITCOUNT %k %p -%p BIT",
    "BITCOUNT %k %n %n BYTE",
    "BITCOUNT %k %p %p BOGUS",
    "BITPOS %k %n",
    "BITPOS %k 0",
    "BITPOS %k 1 %p",
    "BITPOS %k 0 %p -%p",
    "BITPOS %k 1 %p %p BIT",
    "BITPOS %k 0 %p %p BYTE",
    "BITPOS %k 1 %n %n BOGUS",
    "BITOP AND %k %k %k",
    "BITOP or %k %k %k %k",
    "BITOP XOR %k %k",
    "BITOP NOT %k %k",
    "BITOP NOT %k %k %k",
    "BITOP BOGUS %k %k",
    "BITFIELD %k GET u8 %p GET i64 #%p",
    "BITFIELD %k SET i8 %p %n GET u63 0",
    "BITFIELD %k SET u5 #%p %n INCRBY i33 7 %n",
    "BITFIELD %k OVERFLOW SAT INCRBY u8 %p %n OVERFLOW FAIL INCRBY i64 0 %n",
    "BITFIELD %k OVERFLOW FAIL SET u4 %p %n SET i64 %p %n",
    "BITFIELD %k OVERFLOW BOGUS GET u64 0",
    "BITFIELD %k GET u64 0",
    "BITFIELD %k INCRBY i7 %n",
    "BITFIELD_RO %k GET i9 %p",
    "BITFIELD_RO %k SET i9 %p 1",
    "UNLINK %k %k",
    "TOUCH %k %k",
    "RANDOMKEY bogus",
    "RENAME %k %k",
    "RENAMENX %k %k",
    "COPY %k %k",
    "COPY %k %k REPLACE",
    "COPY %k %k BOGUS",
    "OBJECT ENCODING none",
    "OBJECT ENCODING",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT many",
    "SCAN x",
    "SCAN 0 BOGUS",
    "SCAN 0 MATCH",
    "FLUSHALL ASYNC",
    "FLUSHALL BOGUS",
    "EXPIRE %k %s",
    "EXPIRE %k -%n",
    "PEXPIRE %k %s",
    "EXPIREAT %k %d",
    "EXPIREAT %k %d NX",
    "PEXPIREAT %k %d XX",
    "EXPIREAT %k %d GT",
    "EXPIREAT %k %d LT",
    "EXPIREAT %k %d XX LT",
    "PEXPIREAT %k -%d",
    "EXPIRE %k %s NX GT",
    "EXPIRE %k %s GT LT",
    "EXPIRE %k %s BOGUS",
    "PERSIST %k",
    "MOVE %k 1",
    "MOVE %k 0",
    "MOVE %k %n",
    "COPY %k %k DB 1",
    "COPY %k %k DB 0 REPLACE",
    "COPY %k %k DB %n",
    "SWAPDB 0 1",
    "SWAPDB 1 %n",
    "SWAPDB %n %v",
    "SELECT 1",
    "SELECT 0",
    "SELECT %n",
    "EXPIRETIME none",
    "PEXPIRETIME none",
    "TTL %k",
    "PTTL %k",
    "EXPIRETIME %k",
    "EXPIRETIME %k",
    "PEXPIRETIME %k",
    "PEXPIRETIME %k",
    "COPY %k %k REPLACE DB 1",
    "COPY %k %k DB",
    "FLUSHALL SYNC",
    "BITFIELD %k OVERFLOW SAT INCRBY i9 %p %n SET u7 %p %n",
    "OBJECT FREQ %k",
];

#[derive(Clone, Copy)]
enum Arguments {
    None,
    Key,
    Keys,
    KeyNumber,
    /// Up to so many pairs.
    Pairs(usize),
    Pattern,
    Value,
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "42",
    "-100",
    "1000000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775806",
    "9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999",
    "",
    "x",
    "1.5",
    "+1",
    " 1",
    "1 ",
    "01",
    "-0",
    "0x10",
    "1e3",
    "-",
    "--1",
];

/// Not `**`, which in Redis does not match the empty key.
const PATTERNS: &[&str] = &[
    "*", "a*", "*a", "k?", "k[0-4]", "k[^0-4]", "[", "[a", "k[", "\\*", "*[*]*", "k\\", "", "?", "??",
    "a**b", "*k*1*", "k[4-0]", "k[\\0-9]", "[^", "[]", "[^]", "[a-", "k[0-", "*\\", "k1",
];

impl Stream {
    pub fn new(seed: u64, tame_keys: bool) -> Self {
        Self { random: StdRng::seed_from_u64(seed), tame_keys }
    }

    /// A transaction, right or wrong. There is nothing in it whose order means nothing.
    fn transaction(&mut self) -> Vec<Request> {
        let mut words =
            vec![self.pick(&["MULTI", "MULTI", "MULTI", "WATCH k1", "UNWATCH", "EXEC"]).to_string()];
        words.push("MULTI".into());
        let mut all: Vec<Request> = words.iter().map(|line| self.whole(line)).collect();
        for _ in 0..self.random.random_range(0..8) {
            let request = self.request();
            if !request.is_unordered() && !request.tells_time() && !request.changes_connection() {
                all.push(request);
            }
        }
        let end = *self.pick(&["EXEC", "EXEC", "EXEC", "DISCARD", "EXEC x", "WATCH k2"]);
        all.push(self.whole(end));
        all.push(self.whole("EXEC"));
        all
    }

    fn whole(&self, line: &str) -> Request {
        let words: Words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Request { bytes: request(&words), command: words[0].to_ascii_lowercase() }
    }

    /// The next requests, to be sent in one write.
    pub fn chunk(&mut self) -> Vec<Request> {
        if self.random.random_ratio(1, 5) {
            return self.transaction();
        }
        let count = match self.random.random_range(0..10) {
            0..5 => 1,
            5..9 => self.random.random_range(2..40),
            _ => 300,
        };
        (0..count).map(|_| self.request()).collect()
    }

    fn request(&mut self) -> Request {
        let mut words = match self.random.random_range(0..6) {
            0 => self.pick(ODD).split(' ').map(|word| word.as_bytes().to_vec()).collect(),
            1..4 => self.filled(),
            _ => self.common(),
        };
        let command = words[0].to_ascii_lowercase();
        if self.random.random_ratio(1, 4) {
            words[0].iter_mut().for_each(|byte| {
                if self.random.random() {
                    *byte ^= byte.is_ascii_alphabetic() as u8 * 0x20;
                }
            });
        }
        let bytes = if self.random.random_ratio(1, 8) { inline(&words) } else { request(&words) };
        Request { bytes, command }
    }

    fn common(&mut self) -> Words {
        let (name, arguments) = *self.pick(COMMANDS);
        let mut words = vec![name.as_bytes().to_vec()];
        words.extend(self.arguments(arguments));
        if self.random.random_ratio(1, 20) {
            self.spoil(&mut words);
        }
        words
    }

    fn filled(&mut self) -> Words {
        let template = self.pick(TEMPLATES);
        template.split(' ').map(|word| self.fill(word)).collect()
    }

    fn fill(&mut self, word: &str) -> Vec<u8> {
        let Some((before, kind)) = word.split_once('%') else { return word.into() };
        let text = match kind {
            "k" => return self.key(),
            "v" => return self.value(),
            "n" => self.pick(NUMBERS).to_string(),
            "p" => self.random.random_range(0..200).to_string(),
            "f" => format!("{:.1$}", self.random.random_range(-1e4..1e4), self.random.random_range(0..18)),
            "s" => self.pick(&["1000000", "99999999", "0", "-1", "x", "9223372036854775807"]).to_string(),
            _ => self.pick(&["4000000000", "5000000000000", "6000000000000", "1", "0", "x"]).to_string(),
        };
        (before.to_owned() + &text).into_bytes()
    }

    /// One argument too few, or too many where neither server has options.
    fn spoil(&mut self, words: &mut Words) {
        if words.len() > 1 && self.random.random() {
            words.pop();
        } else if words[0] != b"set" {
            words.push(self.value());
        }
    }

    fn arguments(&mut self, arguments: Arguments) -> Words {
        match arguments {
            Arguments::None => vec![],
            Arguments::Key => vec![self.key()],
            Arguments::Keys => (0..self.random.random_range(1..6)).map(|_| self.key()).collect(),
            Arguments::KeyNumber => vec![self.key(), self.pick(NUMBERS).as_bytes().to_vec()],
            Arguments::Pairs(most) => {
                let pairs = self.random.random_range(1..=most);
                (0..pairs).flat_map(|_| [self.key(), self.value()]).collect()
            }
            Arguments::Pattern => vec![self.pick(PATTERNS).as_bytes().to_vec()],
            Arguments::Value => vec![self.value()],
        }
    }

    /// One of few keys, so that requests meet.
    fn key(&mut self) -> Vec<u8> {
        const ODD_KEYS: &[&[u8]] =
            &[b"*", b"\0", b"\r\n", b"a\0b", b"\xff\xfe", b"[a]", b"a b", b"\"", b"\\", b"\xffkvbench"];
        match self.random.random_range(0..20) {
            0 if !self.tame_keys => vec![],
            0..2 => self.pick(ODD_KEYS).to_vec(),
            2 => vec![b'l'; 1000],
            _ => format!("k{}", self.random.random_range(0..8)).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        match self.random.random_range(0..10) {
            0..4 => self.pick(NUMBERS).as_bytes().to_vec(),
            4..6 => self.random.random_range(-1000..1000i64).to_string().into_bytes(),
            6 if self.random.random() => vec![b'v'; self.random.random_range(0..4_000)],
            6 => [&b"\xffkvbench"[..], &[0; 20][..self.random.random_range(0..20)]].concat(),
            _ => {
                let mut bytes = vec![0; self.random.random_range(0..40)];
                self.random.fill(&mut bytes[..]);
                bytes
            }
        }
    }

    fn pick<T>(&mut self, from: &'static [T]) -> &'static T {
        from.choose(&mut self.random).unwrap()
    }
}

/// The request as a line of quoted words.
fn inline(words: &Words) -> Vec<u8> {
    let quote = |word: &Vec<u8>| {
        let bytes: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{bytes}\"")
    };
    if words.iter().map(Vec::len).sum::<usize>() > 10_000 {
        return request(words);
    }
    let line: Vec<_> = words.iter().map(quote).collect();
    (line.join(" ") + "\r\n").into_bytes()
}
