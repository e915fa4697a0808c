//! Random requests whose replies Redis and kvbench must agree on.

use super::requests::{NUMBERS, ODD, PATTERNS, TEMPLATES};
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
        [&b"keys"[..], b"scan"].contains(&&self.command[..])
    }

    /// Whether the reply is a key, any one.
    pub fn is_random(&self) -> bool {
        self.command == b"randomkey"
    }

    /// Whether a right reply of one server need not be that of the other.
    pub fn varies(&self) -> bool {
        self.is_unordered() || self.is_random() || self.tells_time()
    }

    /// Whether the reply tells a time, which is not quite the same in both servers.
    fn tells_time(&self) -> bool {
        [&b"ttl"[..], b"pttl", b"expiretime", b"pexpiretime"].contains(&&self.command[..])
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
            if !request.varies() {
                all.push(request);
            }
        }
        let end = *self.pick(&["EXEC", "EXEC", "EXEC", "DISCARD", "EXEC x", "WATCH k2"]);
        all.push(self.whole(end));
        all.push(self.whole("EXEC"));
        all
    }

    /// A request of words that are apart by spaces.
    pub fn whole(&self, line: &str) -> Request {
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

    /// One request.
    pub fn request(&mut self) -> Request {
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
            "g" => self.pick(PATTERNS).to_string(),
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

    /// One of these.
    pub fn pick<T>(&mut self, from: &'static [T]) -> &'static T {
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
