//! Random requests whose replies Redis and kvbench must agree on.

use crate::support::request;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

type Words = Vec<Vec<u8>>;

pub struct Request {
    pub bytes: Vec<u8>,
    command: Vec<u8>,
}

impl Request {
    /// Whether the order of the reply's elements means nothing.
    pub fn is_unordered(&self) -> bool {
        self.command == b"keys"
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

    /// The next requests, to be sent in one write.
    pub fn chunk(&mut self) -> Vec<Request> {
        let count = match self.random.random_range(0..10) {
            0..5 => 1,
            5..9 => self.random.random_range(2..40),
            _ => 300,
        };
        (0..count).map(|_| self.request()).collect()
    }

    fn request(&mut self) -> Request {
        let mut words = if self.random.random_ratio(1, 6) {
            let words = self.pick(ODD).split(' ');
            words.map(|word| word.as_bytes().to_vec()).collect()
        } else {
            self.common()
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

    /// One argument too few, or too many where neither server has options.
    fn spoil(&mut self, words: &mut Words) {
        if words.len() > 1 && self.random.random() {
            words.pop();
        } else if words[0] != b"set" && words[0] != b"keys" {
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
            &[b"*", b"\0", b"\r\n", b"a\0b", b"\xff\xfe", b"[a]", b"a b", b"\"", b"\\"];
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
            6 => vec![b'v'; self.random.random_range(0..20_000)],
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
