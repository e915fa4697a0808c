//! What one client asked for and was told, and which states of the store that allows.
//!
//! A connection's requests are executed in their order, and no two clients share a key. So after a
//! crash the keys of a client must be as its first n requests left them, for some n: at least those
//! that were acknowledged (where the store promises them), at most those that were sent.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use redis_protocol::resp2::types::OwnedFrame;
use std::collections::{BTreeMap, BTreeSet};

/// Keys and values of one client.
pub type State = BTreeMap<String, Vec<u8>>;

/// One request: what it sends, what must be answered, and what it changes.
pub struct Request {
    pub args: Vec<Vec<u8>>,
    pub expected: OwnedFrame,
    changes: Vec<Change>,
}

/// A key's new value, or its end.
type Change = (String, Option<Vec<u8>>);

/// A client's requests since the store was last looked at.
pub struct History {
    client: usize,
    /// Requests ever made: names keys and values.
    sequence: u64,
    /// What the store held then.
    base: State,
    /// What it holds when all that was sent has been executed.
    ahead: State,
    sent: Vec<Vec<Change>>,
    pub acknowledged: usize,
    /// Whether the client also flushes the store, of which it must be the only one then.
    pub flushes: bool,
}

impl History {
    pub fn new(client: usize) -> Self {
        Self {
            client,
            sequence: 0,
            base: State::new(),
            ahead: State::new(),
            sent: Vec::new(),
            acknowledged: 0,
            flushes: false,
        }
    }

    /// Every key the store may hold.
    pub fn keys(&self) -> Vec<String> {
        let sent = self.sent.iter().flatten().map(|(key, _)| key);
        self.base.keys().chain(sent).cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The next request, noted as sent.
    pub fn send(&mut self, rng: &mut StdRng) -> Request {
        self.sequence += 1;
        let request = match rng.random_range(0..100) {
            _ if self.flushes && rng.random_range(0..500) == 0 => self.flush(),
            0..50 => self.set(rng),
            50..70 => self.mset(rng),
            70..85 => self.incr(),
            _ => self.del(rng),
        };
        for change in &request.changes {
            apply(&mut self.ahead, change);
        }
        self.sent.push(request.changes.clone());
        request
    }

    fn set(&self, rng: &mut StdRng) -> Request {
        let key = match rng.random_range(0..4) {
            0 => format!("{}:again:{}", self.client, rng.random_range(0..8)),
            _ => format!("{}:once:{}", self.client, self.sequence),
        };
        // Mostly small; some over a page, and a few that engines keep apart from the others.
        let len = match rng.random_range(0..400) {
            0 => 200_000,
            1..20 => rng.random_range(1000..20_000),
            _ => rng.random_range(0..200),
        };
        let value = self.value(len);
        let args = vec![b"SET".to_vec(), key.clone().into(), value.clone()];
        Request { args, expected: ok(), changes: vec![(key, Some(value))] }
    }

    fn mset(&self, rng: &mut StdRng) -> Request {
        let slot = rng.random_range(0..8);
        let value = self.value(rng.random_range(0..100));
        let pair = ["left", "right"].map(|side| format!("{}:{side}:{slot}", self.client));
        let mut args = vec![b"MSET".to_vec()];
        args.extend(pair.iter().flat_map(|key| [key.clone().into(), value.clone()]));
        let changes = pair.map(|key| (key, Some(value.clone()))).into();
        Request { args, expected: ok(), changes }
    }

    fn incr(&self) -> Request {
        let key = format!("{}:counter", self.client);
        let old = self.ahead.get(&key).map_or(0, |old| String::from_utf8_lossy(old).parse().unwrap());
        let new: i64 = old + 1;
        let args = vec![b"INCR".to_vec(), key.clone().into()];
        let changes = vec![(key, Some(new.to_string().into()))];
        Request { args, expected: OwnedFrame::Integer(new), changes }
    }

    /// DEL of one or two keys, mostly of such that are there.
    fn del(&self, rng: &mut StdRng) -> Request {
        let there: Vec<_> = self.ahead.keys().filter(|key| !key.ends_with(":counter")).cloned().collect();
        let count = rng.random_range(1..=2);
        let mut keys: BTreeSet<String> = there.choose_multiple(rng, count).cloned().collect();
        if keys.is_empty() || rng.random_range(0..10) == 0 {
            keys.insert(format!("{}:never", self.client));
        }
        let deleted = keys.iter().filter(|key| self.ahead.contains_key(*key)).count();
        let mut args = vec![b"DEL".to_vec()];
        args.extend(keys.iter().map(|key| key.clone().into()));
        let changes = keys.into_iter().map(|key| (key, None)).collect();
        Request { args, expected: OwnedFrame::Integer(deleted as i64), changes }
    }

    fn flush(&self) -> Request {
        let changes = self.ahead.keys().map(|key| (key.clone(), None)).collect();
        Request { args: vec![b"FLUSHDB".to_vec()], expected: ok(), changes }
    }

    /// A value that tells who wrote it and when.
    fn value(&self, len: usize) -> Vec<u8> {
        let mut value = format!("client {} request {} ", self.client, self.sequence).into_bytes();
        value.resize(value.len() + len, b'.');
        value
    }

    /// Fails unless `found` is what the first n requests left, for an n from `least` to all that were
    /// sent. Goes on from there.
    pub fn settle(&mut self, found: State, least: usize) {
        let mut state = std::mem::take(&mut self.base);
        let mut wrong: BTreeSet<String> = state.keys().chain(found.keys()).cloned().collect();
        wrong.retain(|key| state.get(key) != found.get(key));
        let mut at_least = wrong.clone();
        let mut executed = (least == 0 && wrong.is_empty()).then_some(0);
        for (index, changes) in self.sent.iter().enumerate() {
            for change in changes {
                apply(&mut state, change);
                let key = &change.0;
                if state.get(key) == found.get(key) {
                    wrong.remove(key)
                } else {
                    wrong.insert(key.clone())
                };
            }
            if index + 1 == least {
                at_least.clone_from(&wrong);
            }
            if executed.is_none() && index + 1 >= least && wrong.is_empty() {
                executed = Some(index + 1);
            }
        }
        assert!(
            executed.is_some(),
            "the keys of client {} are as no first {least} to {} of its requests left them \
             ({} acknowledged); compared with {least} requests these differ: {:?}",
            self.client,
            self.sent.len(),
            self.acknowledged,
            at_least.iter().map(|key| (key, found.get(key).map(|v| short(v)))).collect::<Vec<_>>()
        );
        self.base = found.clone();
        self.ahead = found;
        self.sent.clear();
        self.acknowledged = 0;
    }
}

fn apply(state: &mut State, (key, value): &Change) {
    match value {
        Some(value) => drop(state.insert(key.clone(), value.clone())),
        None => drop(state.remove(key)),
    }
}

fn ok() -> OwnedFrame {
    OwnedFrame::SimpleString(b"OK".to_vec())
}

/// Enough of a value to know it by.
fn short(value: &[u8]) -> String {
    String::from_utf8_lossy(value.get(..40).unwrap_or(value)).into_owned()
}
