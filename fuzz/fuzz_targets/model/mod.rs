//! What redis-server answers to some commands, kept as simple as can be, and programs of those commands.

use std::collections::BTreeMap;

pub type Request = Vec<Vec<u8>>;

/// Bytes that say which commands to send. Behind a byte [`END`] there is no program but whatever it is.
pub struct Program<'p>(pub &'p [u8]);

const END: u8 = 0xff;

const KEYS: [&[u8]; 6] = [b"a", b"b", b"key:1", b"", b"key:\r\n\0\xff", &[b'k'; 300]];

/// Commands, each with the most arguments that it is sent with: what options make of it is not in the model.
const COMMANDS: [(&str, u8); 27] = [
    ("GET", 4),
    ("SET", 2),
    ("MGET", 4),
    ("MSET", 4),
    ("INCR", 4),
    ("INCRBY", 4),
    ("DECR", 4),
    ("DECRBY", 4),
    ("DEL", 4),
    ("EXISTS", 4),
    ("TYPE", 4),
    ("KEYS", 1),
    ("DBSIZE", 4),
    ("PING", 4),
    ("ECHO", 4),
    ("FLUSHDB", 0),
    ("NOSUCH", 4),
    ("MULTI", 0),
    ("EXEC", 0),
    ("DISCARD", 0),
    ("SELECT", 1),
    ("EXPIREAT", 2),
    ("EXPIRETIME", 4),
    ("PERSIST", 4),
    ("STRLEN", 4),
    ("APPEND", 4),
    ("SETRANGE", 4),
];

/// What EXPIREAT is asked for: times that have passed, times far off, and what is too much.
const TIMES: [i64; 6] = [-1, 0, 1, 4_102_444_800, 4_102_444_801, i64::MAX];

/// What SELECT is asked for.
const DATABASES: [&[u8]; 8] = [b"0", b"1", b"15", b"0", b"16", b"-1", b"4294967296", b"x"];

impl Program<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next request; `None` at the end of the program.
    pub fn request(&mut self) -> Option<Request> {
        let first = self.byte().filter(|byte| *byte != END)?;
        let (name, most) = COMMANDS[usize::from(first) % COMMANDS.len()];
        // Now and then in small letters.
        let name = if first & 0x80 == 0 { name.to_owned() } else { name.to_ascii_lowercase() };
        let mut request = vec![name.into_bytes()];
        let count = (self.byte()? % 5).min(most);
        let is = |other: &str| request[0].eq_ignore_ascii_case(other.as_bytes());
        let (is_select, is_expiry) = (is("SELECT"), is("EXPIREAT"));
        for index in 0..count {
            request.push(match index {
                0 if is_select => DATABASES[usize::from(self.byte()?) % DATABASES.len()].to_vec(),
                1 if is_expiry => TIMES[usize::from(self.byte()?) % TIMES.len()].to_string().into_bytes(),
                _ => self.argument(index)?,
            });
        }
        Some(request)
    }

    fn argument(&mut self, index: u8) -> Option<Vec<u8>> {
        let kind = self.byte()?;
        Some(match kind {
            _ if index == 0 => KEYS[usize::from(kind) % KEYS.len()].to_vec(),
            0..100 => KEYS[usize::from(kind) % KEYS.len()].to_vec(),
            100..160 => (i64::from(kind) - 130).to_string().into_bytes(),
            160..180 => [&i64::MAX, &i64::MIN][usize::from(kind) % 2].to_string().into_bytes(),
            _ => {
                let length = usize::from(kind - 180).min(self.0.len());
                let (value, rest) = self.0.split_at(length);
                self.0 = rest;
                value.to_vec()
            }
        })
    }
}

/// Adds a request, as an array or, where that can be, as a line.
pub fn encode(request: &Request, as_lines: bool, out: &mut Vec<u8>) {
    let is_plain = |word: &Vec<u8>| !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric());
    if as_lines && request.iter().all(is_plain) {
        out.extend(request.join(&b' '));
        out.extend(b"\r\n");
        return;
    }
    out.extend(format!("*{}\r\n", request.len()).bytes());
    request.iter().for_each(|word| bulk(word, out));
}

fn bulk(word: &[u8], out: &mut Vec<u8>) {
    out.extend(format!("${}\r\n", word.len()).bytes());
    out.extend(word);
    out.extend(b"\r\n");
}

fn number(bytes: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(bytes).ok()?.parse().ok()?;
    // Redis takes a number in its shortest form only.
    (number.to_string().as_bytes() == bytes).then_some(number)
}

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

/// Longest value.
const MOST: usize = 512 << 20;

struct Held {
    value: Vec<u8>,
    /// Seconds since 1970.
    deadline: Option<i64>,
}

/// What is between MULTI and EXEC.
#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    refused: bool,
}

#[derive(Default)]
pub struct Model {
    database: u8,
    keys: BTreeMap<(u8, Vec<u8>), Held>,
    queue: Option<Queue>,
}

/// A reply.
enum Reply {
    Ok,
    Simple(&'static str),
    Integer(i64),
    Value(Option<Vec<u8>>),
    Values(Vec<Option<Vec<u8>>>),
    All(Vec<Reply>),
    Error(Vec<u8>),
}

impl Reply {
    fn encode(self, out: &mut Vec<u8>) {
        let value = |value: Option<Vec<u8>>, out: &mut Vec<u8>| match value {
            Some(value) => bulk(&value, out),
            None => out.extend(b"$-1\r\n"),
        };
        match self {
            Self::Ok => out.extend(b"+OK\r\n"),
            Self::Simple(word) => out.extend(format!("+{word}\r\n").bytes()),
            Self::Integer(number) => out.extend(format!(":{number}\r\n").bytes()),
            Self::Value(one) => value(one, out),
            Self::Values(all) => {
                out.extend(format!("*{}\r\n", all.len()).bytes());
                all.into_iter().for_each(|one| value(one, out));
            }
            Self::All(all) => {
                out.extend(format!("*{}\r\n", all.len()).bytes());
                all.into_iter().for_each(|one| one.encode(out));
            }
            Self::Error(text) => {
                // No line breaks are in an error.
                let breaks = |byte: u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
                out.push(b'-');
                out.extend(text.into_iter().map(breaks));
                out.extend(b"\r\n");
            }
        }
    }
}

/// The number of arguments that each command takes.
fn takes(name: &str, count: usize) -> bool {
    match name {
        "multi" | "exec" | "discard" | "dbsize" | "flushdb" => count == 0,
        "get" | "incr" | "decr" | "type" | "keys" | "echo" | "select" | "expiretime" | "persist" | "strlen" => {
            count == 1
        }
        "set" | "incrby" | "decrby" | "append" | "expireat" => count == 2,
        "setrange" => count == 3,
        "mget" | "del" | "exists" => count >= 1,
        "mset" => count >= 2,
        _ => true,
    }
}

impl Model {
    /// Adds the reply to a request of a [`Program`].
    pub fn answer(&mut self, request: &Request, out: &mut Vec<u8>) {
        let name = str::from_utf8(&request[0]).expect("a name").to_ascii_lowercase();
        self.step(&name, request).unwrap_or_else(Reply::Error).encode(out);
    }

    /// Queues the request, or carries it out.
    fn step(&mut self, name: &str, request: &Request) -> Result<Reply, Vec<u8>> {
        let refusal = if name == "nosuch" {
            Err(unknown(request))
        } else if !takes(name, request.len() - 1) {
            Err(format!("ERR wrong number of arguments for '{name}' command").into_bytes())
        } else {
            Ok(())
        };
        if refusal.is_err() {
            self.queue.iter_mut().for_each(|queue| queue.refused = true);
        }
        refusal?;
        match (name, self.queue.take()) {
            ("multi", None) => self.queue = Some(Queue::default()),
            ("multi", queue) => {
                self.queue = queue;
                return Err("ERR MULTI calls can not be nested".into());
            }
            ("exec" | "discard", None) => {
                return Err(format!("ERR {} without MULTI", name.to_ascii_uppercase()).into_bytes());
            }
            ("discard", _) => {}
            ("exec", Some(Queue { refused: true, .. })) => {
                return Err("EXECABORT Transaction discarded because of previous errors.".into());
            }
            ("exec", Some(Queue { requests, .. })) => {
                let all = requests.iter().map(|request| {
                    let name = str::from_utf8(&request[0]).expect("a name").to_ascii_lowercase();
                    self.reply(&name, request).unwrap_or_else(Reply::Error)
                });
                return Ok(Reply::All(all.collect()));
            }
            (_, Some(mut queue)) => {
                queue.requests.push(request.clone());
                self.queue = Some(queue);
                return Ok(Reply::Simple("QUEUED"));
            }
            (_, None) => return self.reply(name, request),
        }
        Ok(Reply::Ok)
    }

    fn place(&self, key: &[u8]) -> (u8, Vec<u8>) {
        (self.database, key.to_vec())
    }

    fn get(&self, key: &[u8]) -> Option<&Held> {
        self.keys.get(&self.place(key))
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key).map(|held| held.value.clone())
    }

    /// How many of the keys are there.
    fn count(&self, keys: &[&[u8]]) -> Reply {
        Reply::Integer(keys.iter().filter(|key| self.get(key).is_some()).count() as i64)
    }

    fn reply(&mut self, name: &str, request: &Request) -> Result<Reply, Vec<u8>> {
        let words: Vec<&[u8]> = request[1..].iter().map(Vec::as_slice).collect();
        Ok(match (name, &words[..]) {
            ("get", [key]) => Reply::Value(self.value(key)),
            ("set", [key, value]) => self.set(key, value),
            ("mget", keys) => Reply::Values(keys.iter().map(|key| self.value(key)).collect()),
            ("mset", pairs) if pairs.len() % 2 == 0 => {
                pairs.chunks(2).for_each(|pair| drop(self.set(pair[0], pair[1])));
                Reply::Ok
            }
            ("mset", _) => return Err("ERR wrong number of arguments for 'mset' command".into()),
            ("incr", [key]) => self.add(key, Some(1))?,
            ("decr", [key]) => self.add(key, Some(-1))?,
            ("incrby", [key, by]) => self.add(key, number(by))?,
            ("decrby", [_, by]) if number(by) == Some(i64::MIN) => {
                return Err("ERR decrement would overflow".into());
            }
            ("decrby", [key, by]) => self.add(key, number(by).map(|by| -by))?,
            ("del", keys) => {
                let places: Vec<_> = keys.iter().map(|key| self.place(key)).collect();
                let removed = places.iter().filter(|place| self.keys.remove(place).is_some());
                Reply::Integer(removed.count() as i64)
            }
            ("exists", keys) => self.count(keys),
            ("type", [key]) => Reply::Simple(if self.get(key).is_some() { "string" } else { "none" }),
            // None of the keys holds what means something in a pattern.
            ("keys", [key]) => {
                Reply::Values(self.get(key).is_some().then(|| Some(key.to_vec())).into_iter().collect())
            }
            ("dbsize", []) => Reply::Integer(self.keys.keys().filter(|key| key.0 == self.database).count() as i64),
            ("ping", []) => Reply::Simple("PONG"),
            ("ping" | "echo", [word]) => Reply::Value(Some(word.to_vec())),
            ("ping", _) => return Err("ERR wrong number of arguments for 'ping' command".into()),
            ("flushdb", []) => {
                self.keys.retain(|key, _| key.0 != self.database);
                Reply::Ok
            }
            ("select", [index]) => self.select(index)?,
            ("expireat", [key, time]) => self.expire(key, number(time))?,
            ("expiretime", [key]) => {
                Reply::Integer(self.get(key).map_or(-2, |held| held.deadline.unwrap_or(-1)))
            }
            ("persist", [key]) => {
                let deadline = self.keys.get_mut(&(self.database, key.to_vec())).map(|held| held.deadline.take());
                Reply::Integer(deadline.flatten().is_some().into())
            }
            ("strlen", [key]) => Reply::Integer(self.get(key).map_or(0, |held| held.value.len()) as i64),
            ("append", [key, more]) => self.change(key, |value| value.extend_from_slice(more)),
            ("setrange", [key, offset, part]) => self.set_range(key, number(offset), part)?,
            _ => unreachable!("{name}"),
        })
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Reply {
        self.keys.insert(self.place(key), Held { value: value.to_vec(), deadline: None });
        Reply::Ok
    }

    /// Changes a value, which keeps its deadline. The reply is its length.
    fn change(&mut self, key: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Reply {
        let held = self.keys.entry(self.place(key)).or_insert(Held { value: Vec::new(), deadline: None });
        change(&mut held.value);
        Reply::Integer(held.value.len() as i64)
    }

    fn set_range(&mut self, key: &[u8], offset: Option<i64>, part: &[u8]) -> Result<Reply, Vec<u8>> {
        let offset = usize::try_from(offset.ok_or(NOT_AN_INTEGER)?).map_err(|_| "ERR offset is out of range")?;
        if part.is_empty() {
            return Ok(Reply::Integer(self.get(key).map_or(0, |held| held.value.len()) as i64));
        }
        let end = offset.saturating_add(part.len());
        if end > MOST {
            return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
        }
        Ok(self.change(key, |value| {
            value.resize(value.len().max(end), 0);
            value[offset..end].copy_from_slice(part);
        }))
    }

    fn select(&mut self, index: &[u8]) -> Result<Reply, Vec<u8>> {
        let index = number(index).ok_or(NOT_AN_INTEGER)?;
        if i32::try_from(index).is_err() {
            let range = format!("value must between {} and {}", i32::MIN, i32::MAX);
            return Err(format!("ERR value is out of range, {range}").into_bytes());
        }
        self.database = u8::try_from(index).ok().filter(|index| *index < 16).ok_or("ERR DB index is out of range")?;
        Ok(Reply::Ok)
    }

    /// Whether a time has passed can be told without a clock.
    fn expire(&mut self, key: &[u8], time: Option<i64>) -> Result<Reply, Vec<u8>> {
        let time = time.ok_or(NOT_AN_INTEGER)?;
        if time.checked_mul(1000).is_none() {
            return Err("ERR invalid expire time in 'expireat' command".into());
        }
        let place = self.place(key);
        Ok(Reply::Integer(match self.keys.get_mut(&place) {
            None => 0,
            Some(held) if time > 1 => {
                held.deadline = Some(time);
                1
            }
            Some(_) => {
                self.keys.remove(&place);
                1
            }
        }))
    }

    fn add(&mut self, key: &[u8], by: Option<i64>) -> Result<Reply, Vec<u8>> {
        let by = by.ok_or(NOT_AN_INTEGER)?;
        let before = self.get(key).map_or(Some(0), |held| number(&held.value)).ok_or(NOT_AN_INTEGER)?;
        let after = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        self.change(key, |value| *value = after.to_string().into_bytes());
        Ok(Reply::Integer(after))
    }
}

/// Redis' words for a command that it does not know, with as much of the arguments as fits into 128 bytes, each up
/// to its first NUL.
fn unknown(request: &Request) -> Vec<u8> {
    let mut text = [b"ERR unknown command '", &*request[0], b"', with args beginning with: "].concat();
    let start = text.len();
    for word in &request[1..] {
        let room = 128_usize.saturating_sub(text.len() - start);
        if room == 0 {
            break;
        }
        let shown = word.iter().take(room).take_while(|byte| **byte != 0);
        text.push(b'\'');
        text.extend(shown);
        text.extend(b"' ");
    }
    text
}
