//! Recording of one client's requests and of their replies.

use super::{
    keys::{
        BIG, EXPIRING, FIRST_COUNTER, FIRST_GROUP, GROUPS, IN_DATABASE_1, KEYS, OFTEN_WRITTEN,
        SubjectCapabilities, deadline, groups, key,
    },
    request::{Change, Expected, Request, RequestOutcome, Sent, State, Words, after},
    value::Content,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{collections::BTreeSet, time::Duration};

/// Maximum size in bytes of a value that a client writes.
const LARGEST: u32 = 4 << 20;

/// Total size in bytes of the values that a client sends between two checks before its values become small. The value
/// that a request sets for all keys of a group is counted once.
pub(super) const BUDGET: u64 = 24 << 20;

/// Requests that a client of a crash test has sent since the last check of the store, with their outcomes.
pub(in super::super) struct History {
    pub client: u32,
    pub capabilities: SubjectCapabilities,
    rng: SmallRng,
    sequence: u32,
    pub(super) base: State,
    /// State of the client's keys after all requests that were sent.
    pub(super) ahead: State,
    pub(super) sent: Vec<Sent>,
    /// `true` if the state after all requests is known, because no request since the last check was refused, or may
    /// have been refused without a reply.
    pub(super) certain: bool,
    pub(super) budget: u64,
}

impl History {
    pub fn new(client: u32, seed: u64) -> Self {
        Self {
            client,
            capabilities: SubjectCapabilities::ALL,
            rng: SmallRng::seed_from_u64(seed),
            sequence: 0,
            base: vec![None; KEYS],
            ahead: vec![None; KEYS],
            sent: Vec::new(),
            certain: true,
            budget: BUDGET,
        }
    }

    /// Returns the client's next request, which is random, and records it as sent.
    pub fn send(&mut self) -> Request {
        self.sequence += 1;
        match self.rng.random_range(0..100) {
            0..45 => self.set(),
            45..60 => self.group(),
            60..75 => self.incr(),
            75..90 => self.del(),
            _ => self.get(),
        }
    }

    /// Records a write as sent, and returns its request: `command`, in the database of the first key in `changes`.
    fn write(&mut self, command: Words, expected: Expected, changes: Vec<(usize, Change)>) -> Request {
        let index = changes.first().map_or(0, |(index, _)| *index);
        let (commands, checked_command) = self.within(index, command);
        self.note(Request { commands, checked_command, expected, write: None }, changes)
    }

    /// Returns the commands that execute `command` in the database of the key with the index `index`, and the
    /// position of `command` among them.
    fn within(&self, index: usize, command: Words) -> (Vec<Words>, usize) {
        match self.capabilities.database(index) {
            0 => (vec![command], 0),
            other => (vec![select(other), command, select(0)], 1),
        }
    }

    fn note(&mut self, request: Request, changes: Vec<(usize, Change)>) -> Request {
        for (index, change) in &changes {
            if let Some(slot) = self.ahead.get_mut(*index) {
                *slot = after(*slot, *change);
            }
        }
        self.sent.push(Sent { changes, fate: RequestOutcome::Unknown, at: Duration::ZERO });
        Request { write: Some(self.sent.len() - 1), ..request }
    }

    fn key(&self, index: usize) -> Vec<u8> {
        key(self.client, index).into_bytes()
    }

    fn set(&mut self) -> Request {
        let len = self.len();
        let index = match self.rng.random_range(0..4) {
            _ if len > 128 << 10 => BIG,
            0 => self.rng.random_range(0..OFTEN_WRITTEN),
            _ => self.rng.random_range(OFTEN_WRITTEN..FIRST_GROUP),
        };
        let content = Content::new(self.client, self.sequence, len);
        let mut command = vec![b"SET".to_vec(), self.key(index), content.bytes()];
        if self.capabilities.deadlines && EXPIRING.contains(&index) {
            command.extend([b"PXAT".to_vec(), deadline(index, content).to_string().into_bytes()]);
        }
        self.write(command, Expected::Ok, vec![(index, Change::To(Some(content)))])
    }

    /// Returns the length of a value in bytes: from 1 byte to 4 MiB, mostly small.
    fn len(&mut self) -> u32 {
        let rng = &mut self.rng;
        let len = match rng.random_range(0..3000) {
            _ if self.budget == 0 => rng.random_range(1..100),
            0 => rng.random_range(1 << 20..=LARGEST),
            1..12 => rng.random_range(20_000..500_000),
            12..120 => rng.random_range(2000..20_000),
            120..1000 => rng.random_range(200..2000),
            _ => rng.random_range(1..200),
        };
        self.budget = self.budget.saturating_sub(len.into());
        len
    }

    /// Returns a request that sets all keys of one of the client's groups, chosen randomly, by MSET or in a
    /// transaction.
    fn group(&mut self) -> Request {
        let len = self.len().min(5000);
        let which = self.rng.random_range(0..GROUPS.len());
        let group = groups().nth(which).unwrap_or_default();
        let content = Content::new(self.client, self.sequence, len);
        let changes = group.clone().map(|index| (index, Change::To(Some(content)))).collect();
        let is_transaction = self.capabilities.transactions && self.rng.random_range(0..2) == 0;
        let pairs = group.clone().map(|index| [self.key(index), content.bytes()]);
        if !is_transaction {
            let command = [b"MSET".to_vec()].into_iter().chain(pairs.flatten()).collect();
            return self.write(command, Expected::Ok, changes);
        }
        let mut queued: Vec<Words> = pairs.map(|[key, value]| vec![b"SET".to_vec(), key, value]).collect();
        if let other @ 1.. = self.capabilities.database(group.start) {
            queued.insert(0, select(other));
            queued.push(select(0));
        }
        let (expected, checked_command) = (Expected::All(queued.len()), queued.len() + 1);
        let [multi, exec] = ["MULTI", "EXEC"].map(|word| vec![word.into()]);
        let commands = [multi].into_iter().chain(queued).chain([exec]).collect();
        self.note(Request { commands, checked_command, expected, write: None }, changes)
    }

    fn incr(&mut self) -> Request {
        let index = self.rng.random_range(FIRST_COUNTER..BIG);
        let new = match after(self.ahead.get(index).copied().flatten(), Change::Add) {
            Some(Content::Number(new)) => new,
            _ => 0,
        };
        let args = vec![b"INCR".to_vec(), self.key(index)];
        self.write(args, Expected::Number(new), vec![(index, Change::Add)])
    }

    /// Returns a request that deletes, by one DEL, some keys of database 0 that are in no group, or all keys of one
    /// group.
    fn del(&mut self) -> Request {
        let which = self.rng.random_range(0..3 * GROUPS.len());
        let indexes: BTreeSet<usize> = match groups().nth(which) {
            Some(group) => group.collect(),
            None => (0..self.rng.random_range(1..=8))
                .map(|_| self.rng.random_range(0..IN_DATABASE_1.start))
                .collect(),
        };
        let there = indexes.iter().filter(|index| self.ahead.get(**index).is_some_and(Option::is_some));
        let expected = Expected::Number(there.count() as i64);
        let mut args = vec![b"DEL".to_vec()];
        args.extend(indexes.iter().map(|index| self.key(*index)));
        self.write(args, expected, indexes.into_iter().map(|index| (index, Change::To(None))).collect())
    }

    fn get(&mut self) -> Request {
        let index = self.rng.random_range(0..BIG);
        let expected = Expected::Value(self.ahead.get(index).copied().flatten());
        let (commands, checked_command) = self.within(index, vec![b"GET".to_vec(), self.key(index)]);
        Request { commands, checked_command, expected, write: None }
    }

    /// Returns `true` if no request since the last check was refused, or may have been refused without a reply, so that
    /// replies can be predicted.
    pub fn is_certain(&self) -> bool {
        self.certain
    }

    /// Records that the write with the index `write` was acknowledged, `at` after the start of the load. `number` is
    /// the reply to INCR or DEL.
    pub fn acknowledged(&mut self, write: usize, number: i64, at: Duration) {
        if let Some(sent) = self.sent.get_mut(write) {
            sent.fate = RequestOutcome::Acknowledged(number);
            sent.at = at;
        }
    }

    /// Makes the expected values of the keys uncertain if a request got no reply: each such request may have been
    /// refused, independently of the others.
    pub fn mark_unknown_outcomes(&mut self) {
        self.certain &= self.sent.iter().all(|sent| sent.fate != RequestOutcome::Unknown);
    }

    /// Records that a request got an error reply. `write` is the index of the write, `None` for a read.
    pub fn refused(&mut self, write: Option<usize>) {
        self.certain = false;
        if let Some(sent) = write.and_then(|write| self.sent.get_mut(write)) {
            sent.fate = RequestOutcome::Refused;
        }
    }
}

/// Returns a SELECT command.
fn select(database: u8) -> Words {
    vec![b"SELECT".to_vec(), database.to_string().into_bytes()]
}
