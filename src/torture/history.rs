//! What one client asked for and was told, and which states of a store that allows.
//!
//! A connection's requests are executed in their order, and no two clients share a key. So after a strike
//! the keys of a client must be as its first n requests left them, for one n: at most those that were
//! sent, at least those that were acknowledged, less what the store may lose. Where requests were refused
//! in between (a full disk), each of those may have been executed or not, and each key is looked at by
//! itself; the keys of one MSET together.

use super::{content::Content, promise::Promise};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{collections::BTreeSet, ops::Range, time::Duration};

/// Keys that are written again and again, and keys that are written rarely.
const AGAIN: usize = 16;
const ONCE: usize = 256;
/// Sizes of the groups that are only set together and deleted together.
const GROUPS: [usize; 4] = [2, 4, 8, 16];
const COUNTERS: usize = 2;

/// Keys of one client; the last one is for large values.
const BIG: usize = FIRST_COUNTER + COUNTERS;
const FIRST_GROUP: usize = AGAIN + ONCE;
const FIRST_COUNTER: usize = FIRST_GROUP + 2 + 4 + 8 + 16;
pub(super) const KEYS: usize = BIG + 1;

/// Largest value.
const LARGEST: u32 = 4 << 20;

/// Bytes of values that a client sends before its values become small.
const BUDGET: u64 = 24 << 20;

/// How many faults of one client are told.
const TOLD: usize = 4;

type State = Vec<Option<Content>>;

#[derive(Clone, Copy, Debug)]
enum Change {
    To(Option<Content>),
    Add,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unknown,
    /// With the number in the reply to an INCR.
    Acknowledged(i64),
    Refused,
}

struct Sent {
    changes: Vec<(usize, Change)>,
    fate: Fate,
    /// When it was acknowledged, since the start of the load.
    at: Duration,
}

/// What must be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Ok,
    Number(i64),
    /// The value, or its absence.
    Value(Option<Content>),
    /// Any, since an earlier request was refused.
    Any,
}

/// A request, in RESP, and what must be answered.
pub(super) struct Request {
    pub args: Vec<Vec<u8>>,
    pub expected: Expected,
    /// Its number among the writes.
    pub write: Option<usize>,
}

/// What a look at the store says of one client.
#[derive(Default)]
pub(super) struct Verdict {
    pub acknowledged: u64,
    pub lost: u64,
    /// How long before the strike the oldest lost write was acknowledged.
    pub oldest: Option<Duration>,
    /// What must not be, in words.
    pub faults: Vec<String>,
}

/// A client's requests since the store was last looked at.
pub(super) struct History {
    pub client: u32,
    rng: SmallRng,
    sequence: u32,
    base: State,
    /// When all that was sent has been executed.
    ahead: State,
    sent: Vec<Sent>,
    /// Whether `ahead` is known.
    certain: bool,
    budget: u64,
}

pub(super) fn key(client: u32, index: usize) -> String {
    match index {
        0..AGAIN => format!("{client}:again:{index}"),
        AGAIN..FIRST_GROUP => format!("{client}:once:{}", index - AGAIN),
        FIRST_GROUP..FIRST_COUNTER => format!("{client}:group:{}", index - FIRST_GROUP),
        FIRST_COUNTER..BIG => format!("{client}:counter:{}", index - FIRST_COUNTER),
        _ => format!("{client}:big"),
    }
}

/// The keys of each group.
fn groups() -> impl Iterator<Item = Range<usize>> {
    GROUPS.into_iter().scan(FIRST_GROUP, |first, size| {
        let group = *first..*first + size;
        *first += size;
        Some(group)
    })
}

impl History {
    pub fn new(client: u32, seed: u64) -> Self {
        Self {
            client,
            rng: SmallRng::seed_from_u64(seed),
            sequence: 0,
            base: vec![None; KEYS],
            ahead: vec![None; KEYS],
            sent: Vec::new(),
            certain: true,
            budget: BUDGET,
        }
    }

    /// The next request, noted as sent.
    pub fn send(&mut self) -> Request {
        self.sequence += 1;
        match self.rng.random_range(0..100) {
            0..45 => self.set(),
            45..60 => self.mset(),
            60..75 => self.incr(),
            75..90 => self.del(),
            _ => self.get(),
        }
    }

    fn write(&mut self, args: Vec<Vec<u8>>, expected: Expected, changes: Vec<(usize, Change)>) -> Request {
        for (index, change) in &changes {
            if let Some(slot) = self.ahead.get_mut(*index) {
                *slot = after(*slot, *change);
            }
        }
        self.sent.push(Sent { changes, fate: Fate::Unknown, at: Duration::ZERO });
        Request { args, expected, write: Some(self.sent.len() - 1) }
    }

    fn key(&self, index: usize) -> Vec<u8> {
        key(self.client, index).into_bytes()
    }

    fn set(&mut self) -> Request {
        let len = self.len();
        let index = match self.rng.random_range(0..4) {
            _ if len > 128 << 10 => BIG,
            0 => self.rng.random_range(0..AGAIN),
            _ => self.rng.random_range(AGAIN..FIRST_GROUP),
        };
        let content = Content::new(self.client, self.sequence, len);
        let args = vec![b"SET".to_vec(), self.key(index), content.bytes()];
        self.write(args, Expected::Ok, vec![(index, Change::To(Some(content)))])
    }

    /// From one byte to 4 MiB, mostly small.
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

    fn mset(&mut self) -> Request {
        let len = self.len().min(5000);
        let which = self.rng.random_range(0..GROUPS.len());
        let group = groups().nth(which).unwrap_or_default();
        let content = Content::new(self.client, self.sequence, len);
        let mut args = vec![b"MSET".to_vec()];
        args.extend(group.clone().flat_map(|index| [self.key(index), content.bytes()]));
        self.write(args, Expected::Ok, group.map(|index| (index, Change::To(Some(content)))).collect())
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

    /// DEL of some keys, or of a group.
    fn del(&mut self) -> Request {
        let which = self.rng.random_range(0..3 * GROUPS.len());
        let indexes: BTreeSet<usize> = match groups().nth(which) {
            Some(group) => group.collect(),
            None => {
                (0..self.rng.random_range(1..=8)).map(|_| self.rng.random_range(0..FIRST_GROUP)).collect()
            }
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
        Request { args: vec![b"GET".to_vec(), self.key(index)], expected, write: None }
    }

    /// Whether no request was refused, so that replies can be foretold.
    pub fn is_certain(&self) -> bool {
        self.certain
    }

    /// A write was acknowledged; `number` is what the reply to INCR or DEL said.
    pub fn acknowledged(&mut self, write: usize, number: i64, at: Duration) {
        if let Some(sent) = self.sent.get_mut(write) {
            sent.fate = Fate::Acknowledged(number);
            sent.at = at;
        }
    }

    /// A request got an error reply.
    pub fn refused(&mut self, write: Option<usize>) {
        self.certain = false;
        if let Some(sent) = write.and_then(|write| self.sent.get_mut(write)) {
            sent.fate = Fate::Refused;
        }
    }

    /// Judges what a store holds now, and goes on from there. `struck` is when it was struck, since the start
    /// of the load.
    pub fn settle(&mut self, found: &[Option<Vec<u8>>], promise: Promise, struck: Duration) -> Verdict {
        let mut verdict = Verdict::default();
        let found = self.recognise(found, &mut verdict.faults);
        let is_acknowledged = |sent: &&Sent| matches!(sent.fate, Fate::Acknowledged(_));
        verdict.acknowledged = self.sent.iter().filter(is_acknowledged).count() as u64;
        if self.certain {
            self.judge_by_order(&found, promise, struck, &mut verdict);
        } else {
            self.judge_by_key(&found, promise, &mut verdict);
        }
        if promise == Promise::Anything {
            verdict.faults.clear();
        }
        verdict.faults.truncate(TOLD);
        self.base.clone_from(&found);
        self.ahead = found;
        self.sent.clear();
        self.certain = true;
        self.budget = BUDGET;
        verdict
    }

    /// Which of the values that a key may hold, or ever held, it holds.
    fn recognise(&self, found: &[Option<Vec<u8>>], faults: &mut Vec<String>) -> State {
        let mut candidates: Vec<Vec<Content>> =
            self.base.iter().map(|base| base.iter().copied().collect()).collect();
        for (index, change) in self.sent.iter().flat_map(|sent| &sent.changes) {
            if let (Some(known), Change::To(Some(content))) = (candidates.get_mut(*index), change) {
                known.push(*content);
            }
        }
        let known = found.iter().zip(candidates).enumerate();
        known
            .map(|(index, (bytes, candidates))| {
                let bytes = bytes.as_deref()?;
                let number = || str::from_utf8(bytes).ok()?.parse().ok().map(Content::Number);
                let counted = if (FIRST_COUNTER..BIG).contains(&index) { number() } else { None };
                let content =
                    counted.or_else(|| candidates.into_iter().rev().find(|content| content.is(bytes)));
                if content.is_none() {
                    let start = bytes.get(..24).unwrap_or(bytes).escape_ascii();
                    let key = key(self.client, index);
                    faults.push(format!("{key} holds a value nobody wrote: {} bytes, {start}", bytes.len()));
                }
                Some(content.unwrap_or(Content::Foreign))
            })
            .collect()
    }

    /// Looks for the number of requests after which the keys were so, the largest there is.
    fn judge_by_order(&self, found: &State, promise: Promise, struck: Duration, verdict: &mut Verdict) {
        let acknowledged = verdict.acknowledged as usize;
        let mut state = self.base.clone();
        let mut wrong: BTreeSet<usize> =
            (0..KEYS).filter(|index| state.get(*index) != found.get(*index)).collect();
        let mut wrong_then = wrong.clone();
        let mut executed = wrong.is_empty().then_some(0);
        for (done, sent) in self.sent.iter().enumerate() {
            for (index, change) in &sent.changes {
                let Some(slot) = state.get_mut(*index) else { continue };
                *slot = after(*slot, *change);
                if Some(&*slot) == found.get(*index) {
                    wrong.remove(index);
                } else {
                    wrong.insert(*index);
                }
            }
            if done + 1 == acknowledged {
                wrong_then.clone_from(&wrong);
            }
            if wrong.is_empty() {
                executed = Some(done + 1);
            }
        }
        let Some(executed) = executed else {
            verdict.lost = wrong_then.len() as u64;
            verdict.faults.push(self.disorder(found, &wrong_then, acknowledged));
            return;
        };
        verdict.lost = acknowledged.saturating_sub(executed) as u64;
        if verdict.lost == 0 {
            return;
        }
        verdict.oldest = self.sent.get(executed).map(|sent| struck.saturating_sub(sent.at));
        let is_too_old = match promise {
            Promise::Nothing => true,
            Promise::Within(time) => verdict.oldest > Some(time),
            Promise::Tail | Promise::Anything => false,
        };
        if is_too_old {
            let before = verdict.oldest.unwrap_or_default().as_millis();
            verdict.faults.push(format!(
                "client {}: {} of {acknowledged} acknowledged writes are lost, the first of them {before} ms \
                 before the strike",
                self.client, verdict.lost
            ));
        }
    }

    /// Says in which way the keys are as no number of requests left them.
    fn disorder(&self, found: &State, wrong: &BTreeSet<usize>, acknowledged: usize) -> String {
        let some = wrong.iter().take(6).map(|index| {
            let held = match found.get(*index).copied().flatten() {
                None => "is absent".to_owned(),
                Some(content) => match content.request() {
                    Some(request) => format!("is of request {request}"),
                    None => format!("is {content:?}"),
                },
            };
            format!("{} {held}", key(self.client, *index))
        });
        format!(
            "client {}: its keys are as no first requests of its {} left them ({acknowledged} acknowledged); \
             compared with those, {} keys differ: {}",
            self.client,
            self.sent.len(),
            wrong.len(),
            some.collect::<Vec<_>>().join(", ")
        )
    }

    /// Each key must hold what its last acknowledged write left, or what one behind that may have.
    fn judge_by_key(&self, found: &State, promise: Promise, verdict: &mut Verdict) {
        let mut possible: Vec<BTreeSet<Option<Content>>> =
            self.base.iter().map(|base| BTreeSet::from([*base])).collect();
        for sent in &self.sent {
            for (index, change) in &sent.changes {
                let Some(set) = possible.get_mut(*index) else { continue };
                let then: BTreeSet<_> = set.iter().map(|content| after(*content, *change)).collect();
                match sent.fate {
                    Fate::Acknowledged(number) if matches!(change, Change::Add) => {
                        *set = BTreeSet::from([Some(Content::Number(number))]);
                    }
                    // How many of its keys were there tells which ones only when it is all of them. The
                    // others were absent when they were looked at, which makes nothing durable.
                    Fate::Acknowledged(deleted)
                        if matches!(change, Change::To(None)) && deleted != sent.changes.len() as i64 =>
                    {
                        set.extend(then);
                    }
                    Fate::Acknowledged(_) => *set = then,
                    Fate::Unknown | Fate::Refused => set.extend(then),
                }
            }
        }
        for (index, (found, possible)) in found.iter().zip(&possible).enumerate() {
            if !possible.contains(found) {
                verdict.lost += 1;
                if promise == Promise::Nothing {
                    let key = key(self.client, index);
                    verdict.faults.push(format!("{key} lost an acknowledged write: it holds {found:?}"));
                }
            }
        }
        for group in groups() {
            let mut held = found.get(group.clone()).unwrap_or_default().to_vec();
            held.dedup();
            if held.len() > 1 {
                let key = key(self.client, group.start);
                verdict.faults.push(format!("the group of {key} is half there: {held:?}"));
            }
        }
    }
}

fn after(before: Option<Content>, change: Change) -> Option<Content> {
    match (change, before) {
        (Change::To(content), _) => content,
        (Change::Add, None) => Some(Content::Number(1)),
        (Change::Add, Some(Content::Number(number))) => Some(Content::Number(number + 1)),
        (Change::Add, Some(_)) => Some(Content::Foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(10);

    /// A history of which the first requests are acknowledged, one each second, and the states of a store
    /// after each number of writes.
    fn history(writes: usize, acknowledged: usize) -> (History, Vec<Vec<Option<Vec<u8>>>>) {
        let mut history = History::new(7, 3);
        let stored =
            |state: &State| state.iter().map(|content| content.map(Content::bytes)).collect::<Vec<_>>();
        let mut states = vec![stored(&history.ahead)];
        while history.sent.len() < writes {
            let request = history.send();
            if let Some(write) = request.write {
                states.push(stored(&history.ahead));
                if write < acknowledged {
                    let number = if let Expected::Number(number) = request.expected { number } else { 0 };
                    history.acknowledged(write, number, Duration::from_secs(write as u64 + 1));
                }
            }
        }
        (history, states)
    }

    fn judge(writes: usize, acknowledged: usize, left: usize, promise: Promise) -> Verdict {
        let (mut history, states) = history(writes, acknowledged);
        history.settle(&states[left], promise, NOW)
    }

    #[test]
    fn what_was_acknowledged_and_any_number_of_further_requests_may_be_there() {
        for left in 9..=20 {
            let verdict = judge(20, 9, left, Promise::Nothing);
            assert_eq!((verdict.lost, verdict.faults), (0, vec![]));
        }
    }

    #[test]
    fn a_lost_write_is_told_with_its_age() {
        let verdict = judge(20, 9, 7, Promise::Nothing);
        assert_eq!((verdict.lost, verdict.oldest), (2, Some(Duration::from_secs(2))));
        assert_eq!(verdict.faults.len(), 1);
        assert!(judge(20, 9, 7, Promise::Within(Duration::from_secs(2))).faults.is_empty());
        assert_eq!(judge(20, 9, 7, Promise::Within(Duration::from_secs(1))).faults.len(), 1);
        assert!(judge(20, 9, 0, Promise::Tail).faults.is_empty());
    }

    #[test]
    fn a_hole_is_a_fault_even_where_the_end_may_be_lost() {
        let (mut history, states) = history(200, 200);
        let mut holed = states[200].clone();
        let first = (0..KEYS).find(|index| states[100][*index] != states[200][*index]).unwrap();
        holed[first].clone_from(&states[100][first]);
        assert!(!history.settle(&holed, Promise::Tail, NOW).faults.is_empty());
    }

    #[test]
    fn bytes_that_nobody_wrote_are_a_fault() {
        let (mut history, states) = history(200, 200);
        let mut changed = states[200].clone();
        let value = changed.iter_mut().flatten().find(|value| value.len() > 100).unwrap();
        value[50] ^= 1;
        let verdict = history.settle(&changed, Promise::Tail, NOW);
        assert!(verdict.faults[0].contains("nobody wrote"), "{:?}", verdict.faults);
    }

    #[test]
    fn beside_refused_requests_each_key_and_each_group_counts() {
        let (mut all, states) = history(200, 200);
        all.refused(None);
        assert!(all.settle(&states[200], Promise::Nothing, NOW).faults.is_empty());
        let (mut lost, states) = history(200, 200);
        lost.refused(None);
        assert!(lost.settle(&states[150], Promise::Nothing, NOW).lost > 0);
        let (mut halved, states) = history(200, 0);
        halved.refused(None);
        let mut half = states[200].clone();
        half[FIRST_GROUP] = None;
        half[FIRST_GROUP + 1] = half[FIRST_GROUP + 1].clone().or_else(|| {
            let value = states.iter().find_map(|state| state[FIRST_GROUP + 1].clone());
            Some(value.unwrap())
        });
        let verdict = halved.settle(&half, Promise::Nothing, NOW);
        assert!(verdict.faults.iter().any(|fault| fault.contains("half there")), "{:?}", verdict.faults);
    }
}
