//! What redis-server answers to some commands, kept as simple as can be, and programs of those commands.

use std::collections::BTreeMap;

pub type Request = Vec<Vec<u8>>;

/// Bytes that say which commands to send. Behind a byte [`END`] there is no program but whatever it is.
pub struct Program<'p>(pub &'p [u8]);

const END: u8 = 0xff;

const KEYS: [&[u8]; 6] = [b"a", b"b", b"key:1", b"", b"key:\r\n\0\xff", &[b'k'; 300]];

/// Commands, each with the most arguments that it is sent with: what options make of it is not in the model.
const COMMANDS: [(&str, u8); 17] = [
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
];

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
        for index in 0..count {
            request.push(self.argument(index)?);
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

#[derive(Default)]
pub struct Model(BTreeMap<Vec<u8>, Vec<u8>>);

/// A reply.
enum Reply {
    Ok,
    Simple(&'static str),
    Integer(i64),
    Value(Option<Vec<u8>>),
    Values(Vec<Option<Vec<u8>>>),
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

impl Model {
    /// Adds the reply to a request of a [`Program`].
    pub fn answer(&mut self, request: &Request, out: &mut Vec<u8>) {
        let name = str::from_utf8(&request[0]).expect("a name").to_ascii_lowercase();
        self.reply(&name, request).unwrap_or_else(Reply::Error).encode(out);
    }

    fn reply(&mut self, name: &str, request: &Request) -> Result<Reply, Vec<u8>> {
        let wrong = || Err(format!("ERR wrong number of arguments for '{name}' command").into_bytes());
        let words: Vec<&[u8]> = request[1..].iter().map(Vec::as_slice).collect();
        Ok(match (name, &words[..]) {
            ("get", [key]) => Reply::Value(self.0.get(*key).cloned()),
            ("set", [key, value]) => self.set(key, value),
            ("mget", [_, ..]) => Reply::Values(words.iter().map(|key| self.0.get(*key).cloned()).collect()),
            ("mset", [_, _, ..]) if words.len() % 2 == 0 => {
                words.chunks(2).for_each(|pair| drop(self.set(pair[0], pair[1])));
                Reply::Ok
            }
            ("incr", [key]) => self.add(key, Some(1))?,
            ("decr", [key]) => self.add(key, Some(-1))?,
            ("incrby", [key, by]) => self.add(key, number(by))?,
            ("decrby", [_, by]) if number(by) == Some(i64::MIN) => {
                return Err("ERR decrement would overflow".into());
            }
            ("decrby", [key, by]) => self.add(key, number(by).map(|by| -by))?,
            ("del", [_, ..]) => {
                Reply::Integer(words.iter().filter(|key| self.0.remove(**key).is_some()).count() as i64)
            }
            ("exists", [_, ..]) => {
                Reply::Integer(words.iter().filter(|key| self.0.contains_key(**key)).count() as i64)
            }
            ("type", [key]) => Reply::Simple(if self.0.contains_key(*key) { "string" } else { "none" }),
            // None of the keys holds what means something in a pattern.
            ("keys", [key]) => {
                Reply::Values(self.0.contains_key(*key).then(|| Some(key.to_vec())).into_iter().collect())
            }
            ("dbsize", []) => Reply::Integer(self.0.len() as i64),
            ("ping", []) => Reply::Simple("PONG"),
            ("ping" | "echo", [word]) => Reply::Value(Some(word.to_vec())),
            ("flushdb", []) => {
                self.0.clear();
                Reply::Ok
            }
            ("nosuch", _) => return Err(unknown(request)),
            _ => return wrong(),
        })
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Reply {
        self.0.insert(key.to_vec(), value.to_vec());
        Reply::Ok
    }

    fn add(&mut self, key: &[u8], by: Option<i64>) -> Result<Reply, Vec<u8>> {
        let by = by.ok_or(NOT_AN_INTEGER)?;
        let before = self.0.get(key).map_or(Some(0), |value| number(value)).ok_or(NOT_AN_INTEGER)?;
        let after = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        self.set(key, after.to_string().as_bytes());
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
