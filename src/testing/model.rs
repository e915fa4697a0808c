//! Randomised test that compares an engine with a `BTreeMap`: the results of its reads and scans, the number of keys
//! after each step, and all pairs at the end.

use super::engine_case::{EngineCase, Open, for_each};
use crate::engine::{Fsync, KeyRange, Kind, WriteOp};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Included, Unbounded},
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Number of keys of the random test: so few that most writes change an existing pair.
const KEYS: usize = 80;

/// Owned key and value of a write. Without a value it is a delete, without a key a clear.
type Write = (Option<Vec<u8>>, Option<Vec<u8>>);

struct Run {
    rng: SmallRng,
    keys: Vec<Vec<u8>>,
    model: Model,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let keys = (0..KEYS).map(|_| random_key(&mut rng)).collect();
        Self { rng, keys, model: Model::new() }
    }

    fn key(&mut self) -> Vec<u8> {
        // Some keys were never written.
        if self.rng.random_ratio(1, 10) { random_key(&mut self.rng) } else { self.known_key() }
    }

    fn known_key(&mut self) -> Vec<u8> {
        let at = self.rng.random_range(0..self.keys.len());
        self.keys[at].clone()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.random_range(0..100) {
            0 => 150_000,
            1..5 => self.rng.random_range(1000..20_000),
            _ => self.rng.random_range(0..200),
        };
        let mut value = vec![0; len];
        self.rng.fill(&mut value[..]);
        value
    }

    fn random_write(&mut self) -> Write {
        match self.rng.random_range(0..1000) {
            0..5 => (None, None),
            5..300 => (Some(self.known_key()), None),
            _ => (Some(self.known_key()), Some(self.value())),
        }
    }

    fn write(&mut self, open: &Open) {
        let len = self.rng.random_range(1..30);
        let writes: Vec<Write> = (0..len).map(|_| self.random_write()).collect();
        open.write(|batch| {
            for write in &writes {
                batch.push(match write {
                    (Some(key), Some(value)) => WriteOp::Put { key, value },
                    (Some(key), None) => WriteOp::Delete { key },
                    (None, _) => WriteOp::Clear,
                });
            }
        });
        for write in writes {
            match write {
                (Some(key), Some(value)) => drop(self.model.insert(key, value)),
                (Some(key), None) => drop(self.model.remove(&key)),
                (None, _) => self.model.clear(),
            }
        }
    }

    fn read(&mut self, open: &Open) {
        let len = self.rng.random_range(1..20);
        let keys: Vec<_> = (0..len).map(|_| self.key()).collect();
        let lent: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let expected: Vec<_> = keys.iter().map(|key| self.model.get(key).cloned()).collect();
        assert!(open.read(&lent) == expected, "read of {keys:?}");
    }

    fn scan(&mut self, open: &Open) {
        let (from, to) = (self.key(), self.key());
        let range = KeyRange { start: bound(&mut self.rng, &from), end: bound(&mut self.rng, &to) };
        let limit = if self.rng.random() { usize::MAX } else { self.rng.random_range(1..10) };
        let inside = self.model.iter().filter(|(key, _)| range.contains(key));
        let expected: Vec<_> = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
        let found = open.scan(range, limit);
        if open.cell.kind.info.capabilities.ordered {
            assert!(found.iter().eq(expected.iter().take(limit)), "scan of {range:?}, {limit}");
        } else {
            assert_eq!(found.len(), expected.len().min(limit), "scan of {range:?}, {limit}");
            assert!(found.iter().all(|pair| expected.contains(pair)), "scan of {range:?}, {limit}");
        }
    }

    fn kill(&mut self, open: &Open) {
        if !open.cell.survives_a_kill() {
            open.engine().sync().unwrap();
        }
        assert!(open.after_a_kill().all().into_iter().eq(self.model.clone()), "all pairs after a kill");
    }

    fn step(&mut self, open: &mut Open) {
        match self.rng.random_range(0..100) {
            0..50 => self.write(open),
            50..75 => self.read(open),
            75..92 => self.scan(open),
            92..95 => open.engine().sync().unwrap(),
            _ if open.cell.memory => {}
            95..97 => open.reopen(open.cell.fsync != Fsync::Always || self.rng.random()),
            97..99 => self.kill(open),
            _ => assert!(open.all().into_iter().eq(self.model.clone()), "all pairs"),
        }
        assert_eq!(open.count(), self.model.len() as u64);
    }
}

fn random_key(rng: &mut SmallRng) -> Vec<u8> {
    let len = if rng.random_ratio(1, 20) { rng.random_range(30..500) } else { rng.random_range(1..6) };
    // Keys of few different bytes, so that some are neighbours or prefixes of others.
    (0..len).map(|_| [0, 1, b'a', b'b', 0xfe, 0xff][rng.random_range(0..6)]).collect()
}

fn bound<'a>(rng: &mut SmallRng, key: &'a [u8]) -> Bound<&'a [u8]> {
    match rng.random_range(0..5) {
        0 => Unbounded,
        1 | 2 => Included(key),
        _ => Excluded(key),
    }
}

fn run(cell: EngineCase, seed: u64) {
    let mut run = Run::new(seed);
    let mut open = cell.open();
    // Syncs dominate the duration of the test.
    let steps = if cell.fsync == Fsync::Always { 150 } else { 500 };
    for step in 0..steps {
        // The test harness shows this line if the test fails.
        println!("{cell}, seed {seed}, step {step}");
        run.step(&mut open);
    }
    assert!(open.all().into_iter().eq(run.model));
}

/// Tests that random operations leave the same pairs as in a map.
pub fn random_work_leaves_what_a_map_holds(kind: &'static Kind) {
    // `KVBENCH_SEED=n` replays a failure.
    let seed = std::env::var("KVBENCH_SEED").map_or_else(|_| new_seed(), |seed| seed.parse().unwrap());
    for_each(kind, |cell| run(cell, seed));
}

fn new_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::from(now.subsec_nanos()) << 32 | u64::from(std::process::id())
}
